//! Guests that drive a device: programs as [`haltwise_lab::guest`] has them, one file each.
//! `tests/golden/guests.txt` has their disassembly.

pub mod disk;
pub mod net;
pub mod paint;
pub mod pic_driver;

#[cfg(test)]
mod test {
    use haltwise_lab::guest::listing;

    use super::*;

    #[test]
    fn the_golden_disassembly_is_what_runs() {
        let programs = [
            ("disk", disk::program()),
            ("net", net::program(net::MOST)),
            ("pic-driver", pic_driver::program()),
            ("paint", paint::program()),
        ];
        let text =
            programs.map(|(name, program)| format!("{name}\n{}\n", listing(&program.unwrap())));
        let real = text.concat();
        assert_eq!(include_str!("../tests/golden/guests.txt"), real, "{real}");
    }
}
