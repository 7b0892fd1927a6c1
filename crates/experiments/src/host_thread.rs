//! A thread of the host's side that works until it is told to stop.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use anyhow::Context as _;
use haltwise_lab::clock;
use haltwise_lab::event::Flag;

#[derive(Debug)]
pub struct HostThread<T> {
    name: &'static str,
    stop: Arc<Flag>,
    thread: Option<JoinHandle<anyhow::Result<T>>>,
}

impl<T: Send + 'static> HostThread<T> {
    /// Has it work, on a CPU or wherever it may run, until the flag that it gets is raised.
    pub fn start(
        name: &'static str,
        cpu: Option<u32>,
        work: impl FnOnce(&Flag) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let stop = Arc::new(Flag::new().context("create an eventfd")?);
        let seen = Arc::clone(&stop);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            cpu.map_or(Ok(()), clock::pin)?;
            work(&seen)
        });
        Ok(Self {
            name,
            stop,
            thread: Some(thread.with_context(|| format!("start the thread `{name}`"))?),
        })
    }

    pub fn end(mut self) -> anyhow::Result<T> {
        self.stop.raise()?;
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        let result = ended.unwrap_or_else(|| Err(anyhow::anyhow!("it panicked")));
        result.with_context(|| format!("run the thread `{}`", self.name))
    }
}

impl<T> Drop for HostThread<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = self.stop.raise();
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use haltwise_lab::clock::wait_readable;

    fn waits(ended: &Arc<Flag>) -> HostThread<u32> {
        let ended = Arc::clone(ended);
        let work = move |stop: &Flag| {
            wait_readable(stop, None)?;
            ended.raise()?;
            Ok(7)
        };
        HostThread::start("waits", None, work).unwrap()
    }

    #[test]
    fn it_ends_when_it_is_told_and_when_it_is_dropped() {
        let ended = [(); 2].map(|()| Arc::new(Flag::new().unwrap()));
        assert_eq!(waits(&ended[0]).end().unwrap(), 7);
        drop(waits(&ended[1]));
        assert!(ended.iter().all(|ended| ended.is_raised()));
    }

    #[test]
    fn a_panic_and_a_cpu_that_is_not_there_are_errors() {
        let panics = HostThread::<()>::start("panics", None, |_| panic!("on purpose"));
        assert!(panics.unwrap().end().is_err());
        let nowhere = HostThread::start("nowhere", Some(1_000_000), |_| Ok(()));
        assert!(nowhere.unwrap().end().is_err());
    }
}
