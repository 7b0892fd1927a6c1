//! Passes over the pages of many vCPUs.

use std::io;
use std::sync::atomic::{Ordering, fence};

use anyhow::Context as _;

use super::page::{FIRED, NEXT_SYNC, Page, Snapshot};
use super::slot::{Look, Slot};

#[derive(Debug)]
pub struct Client<P> {
    pub page: P,
    /// Guest TSC minus host TSC, modulo 2^64.
    pub tsc_offset: u64,
    pub slot: Slot,
}

impl<P: Page> Client<P> {
    /// Goes on where an agent before may have left off: what the page says has fired does not fire again.
    pub fn new(page: P, tsc_offset: u64) -> anyhow::Result<Self> {
        let slot = Slot::new(page.load32(FIRED)?);
        Ok(Self {
            page,
            tsc_offset,
            slot,
        })
    }
}

#[derive(Debug)]
pub struct Agent<P> {
    pub clients: Vec<Client<P>>,
    /// Between two interrupts of one client lie at least so many ticks: so much work can a guest make.
    pub least_gap: u64,
}

impl<P: Page> Agent<P> {
    /// Looks at each page once and fires what is due. Says when the next is due, of those it saw.
    pub fn pass(
        &mut self,
        now: impl Fn() -> u64,
        mut fire: impl FnMut(usize) -> io::Result<()>,
    ) -> anyhow::Result<Option<u64>> {
        let mut next: Option<u64> = None;
        for (index, client) in self.clients.iter_mut().enumerate() {
            // Read before the page: what fires lay there when it was due already.
            let host = now();
            let read = Snapshot::read(&client.page)?;
            let guest = host.wrapping_add(client.tsc_offset);
            match client.slot.look(read, guest, self.least_gap) {
                Look::Nothing => {}
                Look::At(at) => {
                    let at = host.saturating_add(at.saturating_sub(guest));
                    next = Some(next.map_or(at, |next| next.min(at)));
                }
                Look::Fire(sequence) => {
                    client.page.store32(FIRED, sequence)?;
                    fire(index).with_context(|| format!("interrupt client {index}"))?;
                }
            }
        }
        Ok(next)
    }

    /// Tells every guest that the agent looks again at `host` or earlier. A pass has to follow before the
    /// agent sleeps: see the module's header.
    pub fn promise(&self, host: u64) -> anyhow::Result<()> {
        self.say(|client| host.wrapping_add(client.tsc_offset))
    }

    /// Tells every guest one of the two that are no times: [`super::page::ALWAYS`], [`super::page::NEVER`].
    pub fn announce(&self, word: u64) -> anyhow::Result<()> {
        self.say(|_| word)
    }

    fn say(&self, word: impl Fn(&Client<P>) -> u64) -> anyhow::Result<()> {
        for client in &self.clients {
            client.page.store64(NEXT_SYNC, word(client))?;
        }
        fence(Ordering::SeqCst);
        Ok(())
    }
}
