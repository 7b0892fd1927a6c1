//! Headers of pages: what passes byte for byte, and what is refused.

use std::io::Read as _;

use super::*;

/// A number as the protocol writes it.
fn number(value: i64) -> Vec<u8> {
    let mut folded = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let mut bytes = Vec::new();
    while folded >= 0x80 {
        bytes.push(u8::try_from(folded & 0x7f).unwrap() | 0x80);
        folded >>= 7;
    }
    bytes.push(u8::try_from(folded).unwrap());
    bytes
}

/// The header of a data page; `more` comes before its end.
fn data_page(unpacked: i64, packed: i64, values: i64, more: &[u8]) -> Vec<u8> {
    [
        &[0x15, 0, 0x15][..],
        &number(unpacked),
        &[0x15],
        &number(packed),
        &[0x2c, 0x15], // field 5, its field 1
        &number(values),
        &[0x15, 0, 0x15, 6, 0x15, 6, 0], // three encodings, stop
        more,
        &[0],
    ]
    .concat()
}

/// The header of a page of this kind (its field) with these numbers from field 1 on.
fn page(field: u8, unpacked: i64, packed: i64, numbers: &[i64]) -> Vec<u8> {
    let mut bytes = [&[0x15, 0, 0x15][..], &number(unpacked), &[0x15]].concat();
    bytes.extend(number(packed));
    bytes.push(((field - 3) << 4) | 0xc);
    for value in numbers {
        bytes.push(0x15);
        bytes.extend(number(*value));
    }
    bytes.extend([0, 0]);
    bytes
}

/// Bytes that the decoder gets to read at the start of a file of this header and a body.
fn given(header: &[u8]) -> Result<Vec<u8>, String> {
    let file = Pages::new(Bytes::from([header, &[0xaa; 40]].concat()));
    let mut bytes = Vec::new();
    let mut reader = file.get_read(0).map_err(|error| error.to_string())?;
    reader.read_to_end(&mut bytes).unwrap();
    Ok(bytes)
}

#[track_caller]
fn refused(header: &[u8], what: &str) {
    let error = given(header).unwrap_err();
    let place = "the page header at 0 ";
    assert!(error.contains(place) && error.contains(what), "{error}");
}

#[test]
fn a_header_is_given_and_nothing_after_it() {
    for header in [
        data_page(100, 40, 20, &[]),
        data_page(MAX_PAGE, MAX_PAGE / MAX_RATIO, MAX_VALUES, &[]),
        data_page(0, 0, 20, &[]),
        page(7, 80, 40, &[80, 0]),
        page(8, 80, 40, &[20, 0, 20, 0, 80, 80]),
        // A field of a later version: a structure with a list of two numbers.
        data_page(100, 40, 20, &[0x9c, 0x19, 0x25, 2, 4, 0]),
    ] {
        assert_eq!(given(&header).unwrap(), header);
    }
}

#[test]
fn lists_of_booleans_and_maps_are_refused() {
    // An unknown field with 2^31 - 1 booleans: half a minute of the decoder.
    let many = [0x99, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    refused(&data_page(100, 40, 20, &many), "a list of 2147483647");
    refused(&data_page(100, 40, 20, &[0x99, 0x21, 1, 1]), "a list of 2 ");
    refused(&data_page(100, 40, 20, &[0x9b, 0]), "a map");
    // In statistics, which the decoder skips, and in the place of a number, which it does not.
    let inside = [0x1c, 0x9c, 0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    refused(&inside, "gives field 1 of PageHeader type 12");
    let inside = [0x5c, 0x5c, 0xa9, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    refused(&inside, "a list of 2147483647");
}

#[test]
fn one_more_than_the_bounds_is_refused() {
    let of = |unpacked, packed, values| data_page(unpacked, packed, values, &[]);
    refused(&of(MAX_PAGE + 1, MAX_PAGE, 1), "claims 16777217 bytes");
    refused(
        &of(MAX_RATIO + 1, 1, 1),
        "claims 32769 bytes, more than 32768",
    );
    refused(&of(1, 0, 1), "claims 1 bytes, more than 0");
    refused(&of(1, 1, MAX_VALUES + 1), "claims 67108865 values");
    refused(&page(7, 80, 40, &[81, 0]), "claims 81 values, more than 80");
    refused(&page(8, 80, 40, &[1, 0, 1, 0, 81, 0]), "81 bytes of levels");
    refused(&page(8, 80, 40, &[1, 0, 1, 0, 0, 81]), "81 bytes of levels");
    // The decoder would drop the upper half.
    for size in [-1, 1 << 31, (1 << 40) + 100] {
        refused(&of(100, size, 1), &format!("claims a size of {size}"));
    }
}

#[test]
fn a_header_that_breaks_off_is_refused() {
    let header = data_page(100, 40, 20, &[]);
    for end in 0..header.len() {
        let file = Pages::new(Bytes::copy_from_slice(&header[..end]));
        assert!(file.get_read(0).is_err(), "{end} bytes");
    }
    let text = [&[0x98][..], &[0xff, 0xff, 0xff, 0xff, 0x07]].concat();
    refused(&data_page(1, 1, 1, &text), "ends inside a structure");
    assert!(Pages::new(Bytes::new()).get_read(1).is_err());
}

#[test]
fn bytes_that_are_not_there_are_refused() {
    let file = Pages::new(Bytes::from_static(&[0; 10]));
    assert_eq!(file.len(), 10);
    assert!(file.get_bytes(2, 8).is_ok());
    for (start, length) in [(2, 9), (11, 0), (0, usize::MAX), (u64::MAX, 1)] {
        let error = file.get_bytes(start, length).unwrap_err().to_string();
        assert!(error.contains("are not in the file"), "{error}");
    }
}
