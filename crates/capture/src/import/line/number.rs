//! Numbers as tracers print them.

/// A number of decimal digits only.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    // More digits than any 64-bit number has are damage, leading zeros or not.
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// A number that may also be hexadecimal, `0x1f`.
pub(super) fn any(text: &[u8]) -> Option<u64> {
    let Some(digits) = text.strip_prefix(b"0x") else {
        return decimal(text);
    };
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(sum << 4 | u64::from(digit))
    })
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

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn numbers_as_they_are_printed() {
        for (text, number) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("000000000000000000001", None),
            ("0x", None),
            ("0x1F", Some(31)),
            ("0xffffffffffffffff", Some(u64::MAX)),
            ("0x10000000000000000", None),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1 ", None),
        ] {
            assert_eq!(any(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn windows_were_signed_once() {
        for (text, number) in [
            ("200000", Some(200_000)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("-1", Some(u32::MAX)),
            ("-2147483648", Some(1 << 31)),
            ("-2147483649", None),
            ("-0", None),
            ("--1", None),
        ] {
            assert_eq!(window(text.as_bytes()), number, "{text}");
        }
    }
}
