//! Processes that a recorder starts beside itself: this program anew, by an argument that is no verb.
//!
//! | argument | does | why apart |
//! |---|---|---|
//! | `NAMER` | names functions of VMMs (`profile::namer`) | it reads files of other users |
//! | `TIMER` | has the kernel time BPF programs (`bpf::timer`) | that takes `CAP_SYS_ADMIN` |

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::root::Root;
use crate::{bpf, profile};

pub(crate) const NAMER: &str = "--name-functions";
pub(crate) const TIMER: &str = "--time-programs";

/// Serves the recorder that started this process beside itself, until the recorder ends. `None` if no recorder did: the
/// arguments (without the program) are a user's.
pub fn serve(mut arguments: impl Iterator<Item = OsString>) -> Option<io::Result<()>> {
    let kind = arguments.next()?;
    if kind == NAMER {
        return Some(profile::namer::serve(&Root::at(arguments.next()?)));
    }
    (kind == TIMER).then(bpf::serve_timing)
}

pub(crate) fn command(root: &Root, kind: &str) -> Command {
    // This very program, also if another lies where it was started from.
    let mut command = Command::new(root.path("proc/self/exe"));
    command
        .arg0("haltwise")
        .arg(kind)
        .arg(root.path(""))
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A ^C at the terminal ends the recording, which asks until its end.
        .process_group(0);
    command
}
