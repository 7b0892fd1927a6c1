//! A user's account: found by name, assumed for good.

use std::ffi::OsString;
use std::io;
use std::process::{Command, Stdio};

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("there is no user `{0}`")]
    Unknown(String),
    #[error("ask `{program}` for the user")]
    Ask {
        program: &'static str,
        source: io::Error,
    },
    #[error("`{program}` said of the user: `{answer}`")]
    Answer {
        program: &'static str,
        answer: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    home: String,
}

impl Account {
    /// Finds it by name or number, as this system keeps its users (`getent`, `id`).
    pub fn find(name: &str) -> Result<Self, AccountError> {
        let unknown = || AccountError::Unknown(name.to_owned());
        let entry = ask("getent", &["passwd", "--", name])?.ok_or_else(unknown)?;
        let groups = ask("id", &["-G", "--", name])?.ok_or_else(unknown)?;
        Self::parse(&entry, &groups)
    }

    /// Parses a line of passwd(5), and the numbers of the account's groups.
    fn parse(entry: &str, groups: &str) -> Result<Self, AccountError> {
        let answer = |program, answer: &str| AccountError::Answer {
            program,
            answer: answer.to_owned(),
        };
        let fields: Vec<&str> = entry.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields[..] else {
            return Err(answer("getent", entry));
        };
        let number = |text: &str| text.parse::<u32>().ok().filter(|id| *id != u32::MAX);
        let (Some(uid), Some(gid)) = (number(uid), number(gid)) else {
            return Err(answer("getent", entry));
        };
        let numbers = groups.split_ascii_whitespace().map(number);
        let groups = numbers
            .map(|group| group.map(Gid::from_raw))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| answer("id", groups))?;
        Ok(Self {
            name: name.to_owned(),
            uid: Uid::from_raw(uid),
            gid: Gid::from_raw(gid),
            groups,
            home: home.to_owned(),
        })
    }

    pub fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    pub(super) fn environment(&self) -> [(&'static str, OsString); 3] {
        [
            ("USER", self.name.clone().into()),
            ("LOGNAME", self.name.clone().into()),
            ("HOME", self.home.clone().into()),
        ]
    }

    /// Becomes it, for good: groups first, since afterwards the process may not change them. No capability is kept.
    pub(super) fn assume(&self) -> io::Result<()> {
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        set_thread_res_uid(self.uid, self.uid, self.uid)?;
        if !self.uid.is_root() {
            let none = CapabilitySet::empty();
            set_capabilities(
                None,
                CapabilitySets {
                    effective: none,
                    permitted: none,
                    inheritable: none,
                },
            )?;
        }
        Ok(())
    }
}

/// Output of a program, without the end of its line; `None` if the program does not know.
fn ask(program: &'static str, arguments: &[&str]) -> Result<Option<String>, AccountError> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| AccountError::Ask { program, source })?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then_some(text))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_account_is_read_with_all_its_groups() {
        let entry = "vmm:x:1000:1001:Virtual machines:/home/vmm:/bin/sh";
        let account = Account::parse(entry, "1001 36 107").unwrap();
        assert_eq!((account.uid.as_raw(), account.gid.as_raw()), (1000, 1001));
        let groups: Vec<u32> = account.groups.iter().map(|group| group.as_raw()).collect();
        assert_eq!(groups, [1001, 36, 107]);
        assert_eq!(account.environment()[2].1, "/home/vmm");
    }

    #[test]
    fn what_is_no_account_is_none() {
        for (entry, groups) in [
            ("", ""),
            ("vmm:x:1000", "1"),
            ("vmm:x:many:1:a:/:/bin/sh", "1"),
            ("vmm:x:4294967295:1:a:/:/bin/sh", "1"),
            ("vmm:x:1:-1:a:/:/bin/sh", "1"),
            ("vmm:x:1:1:a:/:/bin/sh", "1 x"),
        ] {
            assert!(Account::parse(entry, groups).is_err(), "{entry}");
        }
        let nobody = Account::find("there-is-no-such-user");
        assert!(
            matches!(nobody, Err(AccountError::Unknown(_))),
            "{nobody:?}"
        );
    }
}
