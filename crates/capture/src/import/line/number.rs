//! Numbers as tracers print them.

pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    // More digits than any 64-bit number has are damage, leading zeros or not.
    plain(text, 10, 20)
}

/// A number that may also be hexadecimal, `0x1f`.
pub(super) fn any(text: &[u8]) -> Option<u64> {
    match text.strip_prefix(b"0x") {
        Some(digits) => plain(digits, 16, 16),
        None => decimal(text),
    }
}

/// A number of so many digits at most, and nothing else.
fn plain(text: &[u8], radix: u32, most: usize) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let is_plain = text.len() <= most && text.chars().all(|it| it.is_digit(radix));
    u64::from_str_radix(text, radix).ok().filter(|_| is_plain)
}

/// A number of 32 bits; before 4.6 KVM printed windows as signed ones.
pub(super) fn window(text: &[u8]) -> Option<u32> {
    let Some(digits) = text.strip_prefix(b"-") else {
        return any(text).and_then(|number| u32::try_from(number).ok());
    };
    let size = decimal(digits).filter(|size| (1..=1 << 31).contains(size))?;
    u32::try_from((1 << 32) - size).ok()
}

/// The end of the decimal digits that a text begins with.
pub(super) fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}
