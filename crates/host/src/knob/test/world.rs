//! A made-up host with the files that matter, and what a boot does to them.

use std::fs;
use std::path::PathBuf;

use haltwise_core::ids::VmKey;
use haltwise_core::parameter::Parameter;

use super::vmm::Vmm;
use crate::knob::*;
use crate::root::Root;

/// Values of the parameters after a boot, in the order of [`Parameter::ALL`].
pub(super) const AT_BOOT: [u32; 9] = [2, 10_000, 0, 200_000, 2, 50_000, 2, 1, 200_000];

pub(super) const VMS: u32 = 2;

#[derive(Debug)]
pub(super) struct World {
    dir: tempfile::TempDir,
    boots: u32,
    starts: u64,
    pub(super) vmm: Vmm,
}

/// A VM of the VMM that was started so many times.
pub(super) fn key(ordinal: u32, starts: u64) -> VmKey {
    VmKey {
        pid: Vmm::pid(),
        start_ticks: starts,
        ordinal,
    }
}

impl World {
    pub(super) fn new() -> Self {
        // In memory where that can be had: every baseline is flushed.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        for below in [
            "proc/sys/kernel/random",
            "sys/module/kvm/parameters",
            "sys/module/haltpoll/parameters",
            "etc/modprobe.d",
            "etc/tmpfiles.d",
        ] {
            fs::create_dir_all(dir.path().join(below)).unwrap();
        }
        let vmm = Vmm::start(dir.path(), VMS);
        let mut world = Self {
            dir,
            boots: 0,
            starts: 0,
            vmm,
        };
        world.reboot();
        world
    }

    pub(super) fn root(&self) -> Root {
        Root::at(self.dir.path())
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// Parameters come back as the kernel has them, then what the boot files say is set. Reads them
    /// as modprobe and systemd-tmpfiles would, not as haltwise does.
    pub(super) fn reboot(&mut self) {
        self.restart();
        self.boots += 1;
        let boot = format!("boot-{}\n", self.boots);
        fs::write(self.path("proc/sys/kernel/random/boot_id"), boot).unwrap();
        for (parameter, value) in Parameter::ALL.into_iter().zip(AT_BOOT) {
            self.set(parameter, value);
        }
        let modprobe = self.file(BootFile::Modprobe).unwrap_or_default();
        for line in modprobe.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words[0], "options");
            for pair in &words[2..] {
                let (name, value) = pair.split_once('=').unwrap();
                let parameter: Parameter = name.parse().unwrap();
                assert!(
                    parameter
                        .path()
                        .starts_with(&format!("sys/module/{}/", words[1]))
                );
                self.set(parameter, parameter.value(value).unwrap());
            }
        }
        let tmpfiles = self.file(BootFile::Tmpfiles).unwrap_or_default();
        for line in tmpfiles.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!((words[0], &words[2..6]), ("w", &["-"; 4][..]));
            fs::write(self.path(&words[1][1..]), words[6]).unwrap();
        }
    }

    /// The VMM ends, and another with as many VMs of no ceiling has its number.
    pub(super) fn restart(&mut self) {
        self.starts += 1;
        self.vmm.restart(self.dir.path(), self.starts);
    }

    pub(super) fn vm(&self, ordinal: u32) -> VmKey {
        key(ordinal, self.starts)
    }

    pub(super) fn ceiling(&self, ordinal: u32) -> u32 {
        let own = self.vmm.ceiling(ordinal);
        own.unwrap_or_else(|| self.get(Parameter::HaltPollNs))
    }

    pub(super) fn set(&self, parameter: Parameter, value: u32) {
        let text = parameter.written(value) + "\n";
        fs::write(self.path(parameter.path()), text).unwrap();
    }

    pub(super) fn get(&self, parameter: Parameter) -> u32 {
        let text = fs::read_to_string(self.path(parameter.path())).unwrap();
        parameter.value(&text).unwrap()
    }

    pub(super) fn values(&self) -> [u32; 9] {
        Parameter::ALL.map(|parameter| self.get(parameter))
    }

    pub(super) fn file(&self, file: BootFile) -> Option<String> {
        fs::read_to_string(self.path(file.path())).ok()
    }

    pub(super) fn set_file(&self, file: BootFile, text: Option<&str>) {
        let path = self.path(file.path());
        match text {
            Some(text) => fs::write(path, text).unwrap(),
            None => drop(fs::remove_file(path)),
        }
    }

    pub(super) fn apply(&self, request: &Request) -> Result<Option<u64>, KnobError> {
        let mut writer = Writer::open(&self.root(), "haltwise apply")?;
        let proposal = writer.now().propose(request)?;
        writer.apply(&proposal)
    }

    pub(super) fn undo(&self) -> Result<Reversal, KnobError> {
        self.undo_as(false)
    }

    pub(super) fn undo_as(&self, take_over: bool) -> Result<Reversal, KnobError> {
        let mut writer = Writer::open(&self.root(), "haltwise undo")?;
        let reversal = writer.now().reversal(take_over)?;
        writer.undo(&reversal)?;
        Ok(reversal)
    }

    /// Undoes what there is to undo, and holds it against what looking said would be done.
    pub(super) fn undo_whole(&self) {
        let look = Snapshot::read(&self.root()).unwrap();
        let meant = look.reversal(false);
        match (meant, self.undo()) {
            (Ok(meant), Ok(done)) => assert_eq!(meant, done),
            (Err(KnobError::Nothing), Err(KnobError::Nothing)) => {}
            (meant, done) => panic!("{meant:?}, {done:?}"),
        }
        let nothing = self.undo().unwrap_err();
        assert!(matches!(nothing, KnobError::Nothing), "{nothing}");
    }
}

pub(super) fn request(parameters: &[(Parameter, u32)]) -> Request {
    Request {
        wanted: (parameters.iter())
            .map(|(it, value)| (Target::Parameter(*it), *value))
            .collect(),
        ..Request::default()
    }
}

pub(super) fn persisted(parameters: &[(Parameter, u32)]) -> Request {
    Request {
        persist: true,
        ..request(parameters)
    }
}
