//! `haltwise-exec`: stands where the emulator is named, and starts the real one with
//! `libhaltwise_preload.so`.
//!
//! libvirt, Proxmox VE and KubeVirt scrub the environment of what they start, and the security module of the host does at
//! the transition into the emulator's profile; so `LD_PRELOAD` is set here, behind it. The real emulator is found by
//! the name by which this program was called (a link to it): see [`real`]. It prints nothing unless it cannot start
//! the emulator, and is the emulator afterwards: same process, same arguments, same files.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Names the emulator, where the name of the link does not.
const EMULATOR: &str = "HALTWISE_EMULATOR";
/// Names the library, where it is not beside this program.
const LIBRARY: &str = "HALTWISE_PRELOAD";
const LIBRARY_NAME: &str = "libhaltwise_preload.so";
/// Suffixes of a diverted program: that of dpkg-divert(1), and the one that people use.
const SUFFIXES: [&str; 2] = ["distrib", "real"];

fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let called = PathBuf::from(arguments.next().unwrap_or_default());
    let named = env::var_os(EMULATOR).map(PathBuf::from);
    let ours = env::current_exe().ok();
    let path = env::var_os("PATH").unwrap_or_default();
    let beside = ours.as_ref().map(|ours| ours.with_file_name(LIBRARY_NAME));
    let Some(emulator) = named.or_else(|| real(&called, ours.as_deref(), &path)) else {
        let name = called.display();
        return fail(&format!(
            "find the emulator: no other program is called {name}; name it in {EMULATOR}, or put it beside the \
             link as {name}.distrib"
        ));
    };
    let mut command = Command::new(&emulator);
    // The emulator finds its own files by the name by which it is called.
    command.args(arguments).arg0(&called);
    let library = env::var_os(LIBRARY).map(PathBuf::from).or(beside);
    if let Some(library) = library.filter(|library| library.is_file()) {
        let all = preload(library.as_os_str(), env::var_os("LD_PRELOAD"));
        command.env("LD_PRELOAD", all);
    }
    let error = command.exec();
    fail(&format!("start {}: {error}", emulator.display()))
}

/// The program that this one stands for: a diverted one beside it, else the first other of its name in the path.
fn real(called: &Path, ours: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let name = called.file_name()?;
    let diverted = SUFFIXES.iter().map(|suffix| {
        let mut name = name.to_owned();
        name.push(".");
        name.push(suffix);
        called.with_file_name(name)
    });
    let in_path = env::split_paths(path).map(|directory| directory.join(name));
    let is_other = |candidate: &PathBuf| {
        let resolved = candidate.canonicalize().ok();
        candidate.is_file() && resolved.as_deref() != ours
    };
    diverted.chain(in_path).find(is_other)
}

fn preload(library: &OsStr, others: Option<OsString>) -> OsString {
    let mut all = library.to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

fn fail(why: &str) -> ExitCode {
    // The parent may have closed it.
    let _ = writeln!(std::io::stderr(), "haltwise-exec: {why}");
    ExitCode::from(127)
}

#[cfg(test)]
mod test;
