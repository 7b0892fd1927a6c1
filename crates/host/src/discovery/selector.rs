//! `--vm 1234`, `--vm NAME`, `--vm UUID`: which of the VMs found is meant.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use super::VmProcess;

/// Name of a VM as a user wrote it: the number of its process, its exact name, or another of its names
/// ([`haltwise_core::identity::Identity`]).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VmSelector(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    #[error("no VM is `{wanted}`; there is {}", Listing(.found))]
    NoSuchVm {
        wanted: String,
        found: Vec<(u32, String)>,
    },
    #[error("`{wanted}` means {} VMs; say which by its process: {}", .found.len(), Listing(.found))]
    Ambiguous {
        wanted: String,
        found: Vec<(u32, String)>,
    },
}

impl FromStr for VmSelector {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.trim().to_owned()))
    }
}

impl fmt::Display for VmSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl VmSelector {
    /// Finds the one VM that is meant. A number is a process first and a name second; that of one VM's process
    /// which is another one's `vmid` says neither.
    pub fn select<'a>(&self, vms: &'a [VmProcess]) -> Result<&'a VmProcess, SelectError> {
        let number = self.0.parse::<u32>().ok();
        let is_vmid = |vm: &VmProcess| vm.label.identity.vmid.as_ref() == Some(&self.0);
        let meant = |is_it: &dyn Fn(&VmProcess) -> bool| -> Vec<&'a VmProcess> {
            vms.iter().filter(|vm| is_it(vm)).collect()
        };
        let mut named = meant(&|vm| Some(vm.pid().0) == number);
        if named.is_empty() {
            named = meant(&|vm| vm.label.name == self.0);
        } else {
            let others = vms
                .iter()
                .filter(|vm| is_vmid(vm) && Some(vm.pid().0) != number);
            named.extend(others);
        }
        if named.is_empty() {
            named = meant(&|vm| vm.label.identity.has(&self.0));
        }
        match named[..] {
            [vm] => Ok(vm),
            [] => Err(SelectError::NoSuchVm {
                wanted: self.0.clone(),
                found: vms.iter().map(entry).collect(),
            }),
            _ => Err(SelectError::Ambiguous {
                wanted: self.0.clone(),
                found: named.into_iter().map(entry).collect(),
            }),
        }
    }
}

fn entry(vm: &VmProcess) -> (u32, String) {
    (vm.pid().0, vm.label.name.clone())
}

struct Listing<'a>(&'a [(u32, String)]);

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 10;
        if self.0.is_empty() {
            return f.write_str("none running that we may see");
        }
        for (i, (pid, name)) in self.0.iter().take(SHOWN).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{pid} ({name})")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod test {
    use haltwise_core::ids::{Pid, VmKey};

    use super::super::VmLabel;
    use super::*;

    fn vm(pid: u32, name: &str) -> VmProcess {
        VmProcess {
            key: VmKey::first(Pid(pid), 1),
            label: VmLabel::named(name),
            ..VmProcess::default()
        }
    }

    fn select(wanted: &str, vms: &[VmProcess]) -> Result<u32, String> {
        let selector: VmSelector = wanted.parse().unwrap();
        match selector.select(vms) {
            Ok(vm) => Ok(vm.pid().0),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_number_is_a_process_first_and_a_name_second() {
        let vms = [vm(7, "web"), vm(8, "7"), vm(9, "100")];
        assert_eq!(select("7", &vms), Ok(7));
        assert_eq!(select("web", &vms), Ok(7));
        assert_eq!(select("100", &vms), Ok(9));
        assert_eq!(select(" web ", &vms), Ok(7));
    }

    #[test]
    fn every_name_will_do_and_a_vmid_that_is_a_process_will_not() {
        let mut vms = [vm(7, "100 (web)"), vm(100, "101 (db)"), vm(9, "shop/web")];
        for (of, vmid) in vms.iter_mut().zip(["100", "101"]) {
            of.label.identity.vmid = Some(vmid.to_owned());
        }
        vms[0].label.identity.domain = Some("web".to_owned());
        vms[2].label.identity.uuid = Some("6f1d2c3a-0b4e-4c5d-8e7f-a1b2c3d4e5f6".to_owned());
        assert_eq!(select("101", &vms), Ok(100));
        assert_eq!(select("web", &vms), Ok(7));
        assert_eq!(select("shop/web", &vms), Ok(9));
        assert_eq!(select("6F1D2C3A-0B4E-4C5D-8E7F-A1B2C3D4E5F6", &vms), Ok(9));
        assert_eq!(
            select("100", &vms).unwrap_err(),
            "`100` means 2 VMs; say which by its process: 100 (101 (db)), 7 (100 (web))"
        );
        assert_eq!(select("100 (web)", &vms), Ok(7));
    }

    #[test]
    fn the_error_says_what_there_is() {
        let vms = [vm(7, "web"), vm(8, "db")];
        assert_eq!(
            select("wob", &vms).unwrap_err(),
            "no VM is `wob`; there is 7 (web), 8 (db)"
        );
        assert_eq!(
            select("web", &[]).unwrap_err(),
            "no VM is `web`; there is none running that we may see"
        );
        let same = [vm(7, "web"), vm(8, "web")];
        assert_eq!(
            select("web", &same).unwrap_err(),
            "`web` means 2 VMs; say which by its process: 7 (web), 8 (web)"
        );
        let many: Vec<_> = (0..13).map(|pid| vm(pid, "x")).collect();
        assert!(select("y", &many).unwrap_err().ends_with("and 3 more"));
    }
}
