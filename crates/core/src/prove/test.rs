//! Laws of the experiment, by simulation. A failure prints the seed that it ran from.

mod judged;
mod played;
mod texts;
