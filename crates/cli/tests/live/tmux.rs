//! A terminal for tests: a pane of tmux, with a server of its own that ends with the test.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before the test gives up; nothing is asserted of times.
const PATIENCE: Duration = Duration::from_mins(1);
const STEP: Duration = Duration::from_millis(30);

static SERVERS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Tmux {
    server: String,
}

impl Tmux {
    /// `None`, and the reason printed, where tmux is missing.
    pub(crate) fn start(width: u16, height: u16) -> Option<Self> {
        let nth = SERVERS.fetch_add(1, Ordering::Relaxed);
        let tmux = Self {
            server: format!("haltwise-test-{}-{nth}", std::process::id()),
        };
        let (width, height) = (width.to_string(), height.to_string());
        let shell = "env -u NO_COLOR -u COLUMNS PS1='shell> ' sh";
        let mut command = tmux.command();
        let started = command
            .args(["-f", "/dev/null", "new-session", "-d"])
            .args(["-x", &width, "-y", &height])
            .arg(shell)
            .output();
        match started {
            Err(error) => {
                println!("skipped: no use of tmux: {error}");
                return None;
            }
            Ok(output) => assert!(output.status.success(), "{output:?}"),
        }
        tmux.wait_for("shell>");
        Some(tmux)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.server]);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output
    }

    pub(crate) fn line(&self, text: &str) {
        self.run(&["send-keys", "-l", text]);
        self.run(&["send-keys", "Enter"]);
    }

    pub(crate) fn press(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        self.run(&["resize-window", "-x", &width, "-y", &height]);
    }

    pub(crate) fn screen(&self) -> String {
        let output = self.run(&["capture-pane", "-p"]);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Value that tmux reports for the pane, for example `alternate_on`.
    pub(crate) fn told(&self, of: &str) -> String {
        let output = self.run(&["display-message", "-p", &format!("#{{{of}}}")]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Waits until the screen is as wanted, and gives it.
    pub(crate) fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "no {what}:\n{screen}");
            std::thread::sleep(STEP);
        }
    }

    /// Waits until the screen shows a text, and gives it.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    pub(crate) fn hang_up(&self) {
        self.run(&["kill-pane"]);
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        drop(self.command().arg("kill-server").output());
    }
}
