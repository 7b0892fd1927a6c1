//! Which kernel it is, as far as the reference model tells kernels apart: by major and minor number, and by
//! what it carries of later ones.
//!
//! The third number is left out: it says which stable fixes a kernel carries, and distributions carry
//! others still. What a kernel has early is named by [`Backport`]s.

use std::fmt;
use std::str::FromStr;

use super::backport::{Backport, Backports};

/// The first two numbers of a kernel's release, and what it carries of later kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 6 of `6.12.8`.
    pub major: u32,
    /// 12 of `6.12.8`.
    pub minor: u32,
    /// Backports that the kernel carries: a kernel with more backports is a later one.
    pub backports: Backports,
}

/// Why a text does not name a kernel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a kernel release: it must begin with two numbers, as `uname -r` prints them \
     (6.12, 6.1.192, 6.1.0-51-cloud-amd64)"
)]
pub struct VersionParseError(pub String);

impl Version {
    /// The first kernel with halt polling (commit f7819512996361).
    pub const FIRST: Self = Self::new(4, 0);

    /// The last kernel whose source the reference model was held against.
    pub const LAST_READ: Self = Self::new(7, 2);

    /// A version by its numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self {
            major,
            minor,
            backports: Backports::NONE,
        }
    }

    /// The same kernel, which carries these and no other changes.
    #[must_use]
    pub const fn with(self, backports: Backports) -> Self {
        Self { backports, ..self }
    }

    /// Whether the reference model knows this kernel's rule, rather than taking the nearest one for it.
    pub fn is_transcribed(self) -> bool {
        (Self::FIRST..=Self::LAST_READ).contains(&self.with(Backports::NONE))
    }
}

impl FromStr for Version {
    type Err = VersionParseError;

    /// Reads what `uname -r` prints, and what [`Version`] prints: `5.10+shrink-floor`. What follows the two
    /// numbers may be anything but a letter.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text.trim()).ok_or_else(|| VersionParseError(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Version> {
    let (major, rest) = text.split_once('.')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (minor, rest) = rest.split_at(end);
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(major) || rest.starts_with(char::is_alphanumeric) {
        return None;
    }
    let carried = rest
        .split('+')
        .skip(1)
        .filter_map(|name| name.parse::<Backport>().ok());
    let version = Version::new(major.parse().ok()?, minor.parse().ok()?);
    Some(version.with(carried.collect()))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}{}", self.major, self.minor, self.backports))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn releases_read_as_uname_prints_them() {
        for (text, major, minor) in [
            ("6.1.0-51-cloud-amd64", 6, 1),
            ("6.1.192", 6, 1),
            ("6.12", 6, 12),
            (" 6.18.44-1-amd64\n", 6, 18),
            ("7.2.13+", 7, 2),
            ("6.19-rc3", 6, 19),
            ("4.18.0-513.el8.x86_64", 4, 18),
            ("5.15.0_generic", 5, 15),
            ("0.0", 0, 0),
            ("4294967295.4294967295", u32::MAX, u32::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Version::new(major, minor)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        let bad = "|six|6|6.|.1|6..1|+6.1|6.+1|6.1x|6.1é|v6.1|-6.1|6 .1|6.4294967296|99999999999.1|ü6.1|６.1";
        for bad in bad.split('|') {
            let error = bad.parse::<Version>().unwrap_err();
            assert_eq!(error, VersionParseError(bad.to_owned()));
            assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
        }
    }

    #[test]
    fn versions_are_ordered_by_number_and_print_back() {
        let ordered = ["4.0", "4.19", "5.1", "5.13", "6.1", "6.2", "6.12", "7.2"];
        let versions = ordered.map(|text| text.parse::<Version>().unwrap());
        assert!(versions.is_sorted());
        assert_eq!(versions.map(|version| version.to_string()), ordered);
        let padded = format!("{:>6}|{:<5}|", versions[0], versions[1]);
        assert_eq!(padded, "   4.0|4.19 |");
    }

    #[test]
    fn what_a_kernel_carries_is_read_and_printed_behind_its_number() {
        let one = Backports::NONE.with(Backport::ShrinkFloor);
        let [floor, both] =
            [one, one.with(Backport::LiveCeiling)].map(|it| Version::new(5, 10).with(it));
        for (text, version) in [
            ("5.10+shrink-floor", floor),
            ("5.10.0-32-amd64+shrink-floor", floor),
            ("5.10+live-ceiling+shrink-floor", both),
            ("7.2.13+", Version::new(7, 2)),
            ("6.6.1+rpt-rpi-v8", Version::new(6, 6)),
        ] {
            assert_eq!(text.parse(), Ok(version), "{text}");
            assert_eq!(version.to_string().parse(), Ok(version), "{text}");
        }
        assert_eq!(floor.to_string(), "5.10+shrink-floor");
        assert!(floor > Version::new(5, 10) && floor < Version::new(5, 11));
        assert!(floor.is_transcribed());
    }

    #[test]
    fn the_transcript_says_which_kernels_it_knows() {
        let is_known = |text: &str| text.parse::<Version>().unwrap().is_transcribed();
        let known = ["3.19", "4.0", "7.2", "7.3"].map(is_known);
        assert_eq!(known, [false, true, true, false]);
    }
}
