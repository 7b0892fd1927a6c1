//! The child: reads files for the recorder, and can do nothing else.

use std::io::{self, Read, Write};

use super::super::files::Files;
use super::protocol::{self, Parsed};
use crate::root::Root;
use crate::sandbox;

/// Answers what stdin asks on stdout, until it ends.
pub(crate) fn serve(root: &Root) -> io::Result<()> {
    let mut files = Files::new(root);
    sandbox::reader()?;
    let (mut asks, mut answers) = (io::stdin().lock(), io::stdout().lock());
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match protocol::ask(&bytes) {
            Parsed::Whole(ask) => {
                bytes.clear();
                answers.write_all(&protocol::answered(&files.answer(&ask)))?;
                answers.flush()?;
            }
            Parsed::Nonsense => return Err(io::ErrorKind::InvalidData.into()),
            Parsed::Part => match asks.read(&mut piece)? {
                0 => return Ok(()),
                read => bytes.extend_from_slice(&piece[..read]),
            },
        }
    }
}
