//! Numbers packed for the page: whole numbers in seven bits to a byte, the lowest first (LEB128), and
//! all of it in base64.
//!
//! A halt is, in this order: its start less the last halt's (the first one's: less the recording's),
//! its gap, its wake-up latency and the time that it polled, each in nanoseconds, and a number of
//! flags: bits 0 to 2 the wake source, then `waited`, and whether the time polled is known rather than taken
//! from the window.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haltwise_core::event::Halt;
use haltwise_core::replay::sample::polled_ns;

#[derive(Debug, Default)]
pub(crate) struct Packed(Vec<u8>);

impl Packed {
    pub(crate) fn number(&mut self, mut value: u64) {
        loop {
            let [low, ..] = (value & 0x7f).to_le_bytes();
            value >>= 7;
            if value == 0 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 0x80);
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn text(&self) -> String {
        STANDARD.encode(&self.0)
    }
}

pub(crate) fn halts(halts: &[Halt], start_ns: u64) -> String {
    let mut packed = Packed::default();
    let mut last_ns = start_ns;
    for halt in halts {
        let latency_ns = halt.wake_latency_ns.unwrap_or(0).min(halt.halt_ns);
        packed.number(halt.start_ns.saturating_sub(last_ns));
        packed.number(halt.halt_ns - latency_ns);
        packed.number(latency_ns);
        packed.number(polled_ns(halt));
        let flags = u64::from(halt.waited) | u64::from(halt.poll_ns.is_some()) << 1;
        packed.number(flags << 3 | u64::from(halt.wake.code()));
        last_ns = last_ns.max(halt.start_ns);
    }
    packed.text()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn numbers_take_the_bytes_that_they_need() {
        let mut packed = Packed::default();
        for value in [0, 127, 128, 300, u64::MAX] {
            packed.number(value);
        }
        let mut expected = vec![0, 0x7f, 0x80, 1, 0xac, 2];
        expected.extend([0xff; 9]);
        expected.push(1);
        assert_eq!(packed.0, expected);
    }
}
