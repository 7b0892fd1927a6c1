//! The experiments on real KVM, and their page in docs.

mod exitless_timer;
mod experiments;
mod program;
