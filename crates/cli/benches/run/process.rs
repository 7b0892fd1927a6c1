//! The program, run on a capture as a user would, and what that took.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) memory_mb: f64,
}

/// Runs the program as a user would.
pub(crate) fn run(verb: &[&str], capture: &Path) -> Ran {
    let began = Instant::now();
    let child = Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(&verb[..1])
        .arg(capture)
        // With itself.
        .args((verb[0] == "diff").then_some(capture))
        .args(&verb[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("the program");
    let pid = child.id();
    let (usage, code) = watch(child);
    assert!(
        code == Some(0) || code == Some(5),
        "{verb:?} {pid}: {code:?}"
    );
    Ran {
        seconds: began.elapsed().as_secs_f64(),
        ..usage
    }
}

/// CPU time and memory, read from `/proc` while it runs and in its last moment.
fn watch(mut child: std::process::Child) -> (Ran, Option<i32>) {
    let mut last = Ran {
        seconds: 0.0,
        cpu_seconds: 0.0,
        memory_mb: 0.0,
    };
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return (last, status.code());
        }
        let of = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", child.id()));
        if let Some(ticks) = of("stat").ok().as_deref().and_then(cpu_ticks) {
            last.cpu_seconds = ticks / 100.0;
        }
        if let Some(kb) = of("status").ok().as_deref().and_then(most_memory_kb) {
            last.memory_mb = kb / 1024.0;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// User and system time, fields 14 and 15 of `/proc/PID/stat` (proc(5)).
fn cpu_ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn most_memory_kb(status: &str) -> Option<f64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
