//! Guests that drive a device: programs as [`haltwise_lab::guest`] has them, one file each.

pub mod disk;
pub mod net;
pub mod paint;
pub mod pic_driver;
#[cfg(test)]
pub(crate) mod script;

#[cfg(test)]
#[path = "../../lab/tests/it/documented.rs"]
mod documented;

#[cfg(test)]
mod test {
    use haltwise_lab::guest::listing;

    use super::documented::documented;
    use super::*;

    #[test]
    fn every_listing_in_the_documentation_is_what_runs() {
        for (name, program, source) in [
            ("disk", disk::program(), include_str!("guest/disk.rs")),
            ("net", net::program(net::MOST), include_str!("guest/net.rs")),
            (
                "pic-driver",
                pic_driver::program(),
                include_str!("guest/pic_driver.rs"),
            ),
            ("paint", paint::program(), include_str!("guest/paint.rs")),
        ] {
            let real = listing(&program.unwrap());
            assert_eq!(documented(source, 0), real, "{name} is\n{real}");
        }
    }
}
