//! Devices of the VMM, each a mechanism that a VMM author may lift out, and the VM that they are tried in.
//!
//! A device is a model without a thread, a file or an ioctl of its own: it takes what the guest did and
//! says what the guest shall see. Whatever a guest asks for out of range is refused and counted, and never
//! more than that.

pub mod block;
pub mod board;
pub mod framebuffer;
pub mod machine;
pub mod net;
pub mod pic;
pub mod virtio;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use haltwise_lab::exit::Devices;

/// A device that a vCPU's thread and a worker share.
#[derive(Debug)]
pub struct Shared<D>(Arc<Mutex<D>>);

impl<D> Shared<D> {
    pub fn new(device: D) -> Self {
        Self(Arc::new(Mutex::new(device)))
    }

    /// For a register, or for serving a queue. A thread that panicked meanwhile left a device that refuses at worst.
    pub fn lock(&self) -> MutexGuard<'_, D> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> Clone for Shared<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
