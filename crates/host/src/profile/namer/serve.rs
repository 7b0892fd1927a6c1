//! The child: reads files for the recorder, and can do nothing else.

use std::io::{self, Read, Write};

use super::super::files::Files;
use super::protocol;
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
        if let Some(ask) = protocol::said(&bytes, protocol::ASK_MOST)? {
            bytes.clear();
            answers.write_all(&protocol::line(&files.answer(&ask))?)?;
            answers.flush()?;
        }
        match asks.read(&mut piece)? {
            0 if bytes.is_empty() => return Ok(()),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => bytes.extend_from_slice(&piece[..read]),
        }
    }
}
