//! What the child is asked and what it answers, as bytes. Pure: neither side believes the other's lengths.

use super::super::files::{Answer, Ask};
use super::super::refusal::Refusal;
use super::super::written_name::NAME_MOST;

/// Fields of an ask before its path.
const FIXED: usize = 4 + 8 + 8 + 4 + 4 + 8 + 8 + 2;

/// No path that the kernel prints is longer.
pub(super) const PATH_MOST: usize = 4096;

/// An answer is no longer: what it is, a length, a text.
pub(super) const ANSWER_MOST: usize = 3 + NAME_MOST;

const NAME: u8 = 0;
const NAMELESS: u8 = 1;
const REFUSED: u8 = 2;

/// What bytes come to so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed<T> {
    Whole(T),
    Part,
    Nonsense,
}

/// An ask as bytes. A path that is longer than any is cut.
pub(super) fn asked(ask: &Ask) -> Vec<u8> {
    let path = &ask.path[..ask.path.floor_char_boundary(PATH_MOST)];
    let mut bytes = Vec::with_capacity(FIXED + path.len());
    bytes.extend(ask.pid.to_le_bytes());
    bytes.extend(ask.start.to_le_bytes());
    bytes.extend(ask.end.to_le_bytes());
    bytes.extend(ask.device.0.to_le_bytes());
    bytes.extend(ask.device.1.to_le_bytes());
    bytes.extend(ask.inode.to_le_bytes());
    bytes.extend(ask.offset.to_le_bytes());
    bytes.extend(length(path));
    bytes.extend(path.as_bytes());
    bytes
}

fn length(text: &str) -> [u8; 2] {
    u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes()
}

/// Takes numbers off the front of bytes.
struct Front<'a>(&'a [u8]);

impl Front<'_> {
    fn take<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        let (taken, rest) = self.0.split_first_chunk::<SIZE>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A text with its length before it; the last part of all that is told.
    fn text(&mut self, most: usize) -> Parsed<String> {
        let Some(length) = self.take().map(u16::from_le_bytes) else {
            return Parsed::Part;
        };
        let length = usize::from(length);
        if length > most || self.0.len() > length {
            return Parsed::Nonsense;
        }
        if self.0.len() < length {
            return Parsed::Part;
        }
        match str::from_utf8(self.0) {
            Ok(text) => Parsed::Whole(text.to_owned()),
            Err(_) => Parsed::Nonsense,
        }
    }
}

pub(super) fn ask(bytes: &[u8]) -> Parsed<Ask> {
    let mut front = Front(bytes);
    let numbers = |front: &mut Front<'_>| {
        Some(Ask {
            pid: front.word()?,
            start: front.long()?,
            end: front.long()?,
            device: (front.word()?, front.word()?),
            inode: front.long()?,
            offset: front.long()?,
            path: String::new(),
        })
    };
    let Some(ask) = numbers(&mut front) else {
        return Parsed::Part;
    };
    match front.text(PATH_MOST) {
        Parsed::Whole(path) => Parsed::Whole(Ask { path, ..ask }),
        Parsed::Part => Parsed::Part,
        Parsed::Nonsense => Parsed::Nonsense,
    }
}

pub(super) fn answered(answer: &Answer) -> Vec<u8> {
    let (kind, text) = match answer {
        Answer::Name(name) => (NAME, name.as_str()),
        Answer::Nameless => (NAMELESS, ""),
        Answer::Refused(refusal) => (REFUSED + refusal.code(), ""),
    };
    let text = &text[..text.floor_char_boundary(NAME_MOST)];
    let mut bytes = vec![kind];
    bytes.extend(length(text));
    bytes.extend(text.as_bytes());
    bytes
}

pub(super) fn answer(bytes: &[u8]) -> Parsed<Answer> {
    let mut front = Front(bytes);
    let Some([kind]) = front.take::<1>() else {
        return Parsed::Part;
    };
    match (kind, front.text(NAME_MOST)) {
        (NAME, Parsed::Whole(name)) => Parsed::Whole(Answer::Name(name)),
        (NAMELESS, Parsed::Whole(_)) => Parsed::Whole(Answer::Nameless),
        (REFUSED.., Parsed::Whole(_)) => Refusal::from_code(kind - REFUSED)
            .map_or(Parsed::Nonsense, |why| Parsed::Whole(Answer::Refused(why))),
        (_, Parsed::Part) => Parsed::Part,
        (_, Parsed::Nonsense) => Parsed::Nonsense,
    }
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;

    fn asks() -> impl Strategy<Value = Ask> {
        let numbers = (any::<(u32, u64, u64)>(), any::<((u32, u32), u64, u64)>());
        (numbers, ".{0,40}").prop_map(|(((pid, start, end), (device, inode, offset)), path)| Ask {
            pid,
            start,
            end,
            device,
            inode,
            offset,
            path,
        })
    }

    fn answers() -> impl Strategy<Value = Answer> {
        prop_oneof![
            ".{0,40}".prop_map(Answer::Name),
            Just(Answer::Nameless),
            (0_u8..13).prop_map(|code| Answer::Refused(Refusal::from_code(code).unwrap())),
        ]
    }

    proptest! {
        /// What is said is what is understood, and never before all of it is there.
        #[test]
        fn both_sides_understand_each_other(said in asks(), told in answers()) {
            let (said_bytes, told_bytes) = (asked(&said), answered(&told));
            for end in 0..said_bytes.len() {
                prop_assert_eq!(ask(&said_bytes[..end]), Parsed::Part);
            }
            for end in 0..told_bytes.len() {
                prop_assert_eq!(answer(&told_bytes[..end]), Parsed::Part);
            }
            prop_assert_eq!(ask(&said_bytes), Parsed::Whole(said));
            prop_assert_eq!(answer(&told_bytes), Parsed::Whole(told));
        }

        /// A child that was taken over says anything: it is understood or ends, and is never long.
        #[test]
        fn nonsense_is_never_waited_for(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
            if bytes.len() >= ANSWER_MOST {
                prop_assert!(answer(&bytes) != Parsed::Part);
            }
            let _understood = ask(&bytes);
        }
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let name = Answer::Name("ä".repeat(NAME_MOST));
        let Parsed::Whole(Answer::Name(cut)) = answer(&answered(&name)) else {
            panic!("no name");
        };
        assert_eq!(cut.len(), NAME_MOST);
        assert_eq!(answer(&[200, 0, 0]), Parsed::Nonsense);
        assert_eq!(answer(&[1, 0xff, 0xff]), Parsed::Nonsense);
        assert_eq!(answer(&[1, 0, 0, 0]), Parsed::Nonsense);
    }
}
