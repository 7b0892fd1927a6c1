//! The machine: parameters, boot files, ceilings of VMs and parameters in guests, read, changed and read back.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;

use haltwise_core::ids::VmKey;
use haltwise_core::kvm::Version;
use haltwise_core::parameter::Parameter;

use super::disk;
use super::error::{Differs, KnobError};
use super::target::{BootFile, Change, Found, InGuest, Target};
use crate::ceiling::{CeilingError, Governed, Governor};
use crate::guest_agent::{AgentError, Sessions};
use crate::params;
use crate::root::{Root, RootError};
use crate::support::KernelRelease;

const LONGEST_FILE: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) root: Root,
    agents: Sessions,
}

impl Machine {
    pub(super) fn new(root: &Root) -> Self {
        Self {
            root: root.clone(),
            agents: Sessions::default(),
        }
    }

    pub(super) fn boot(&self) -> Result<String, KnobError> {
        Ok(self.root.value("proc/sys/kernel/random/boot_id")?)
    }

    pub(super) fn read(&self, target: Target) -> Result<Found, KnobError> {
        let root = &self.root;
        match target {
            Target::Parameter(parameter) => Ok(self::parameter(root, parameter)?.into()),
            Target::File(boot_file) => Ok(file(root, boot_file)?.into()),
            Target::Ceiling(vm) => ceiling(root, vm),
            Target::Guest(InGuest { vm, parameter }) => {
                Ok(self.agents.read(root, vm, parameter)?.into())
            }
        }
    }

    /// Present value of a target, where it is the wanted value or may be changed.
    pub(super) fn wanted(&self, target: Target, value: u32) -> Result<Found, KnobError> {
        if matches!(target, Target::Parameter(it) if !it.is_of_guest())
            && !params::kvm_is_loaded(&self.root)
        {
            return Err(KnobError::NoKvm);
        }
        let found = self.read(target)?;
        match (target, &found.value) {
            (Target::Parameter(parameter), None) => return Err(KnobError::Absent(parameter)),
            (Target::Parameter(parameter), Some(now)) if *now != parameter.written(value) => {
                is_writable(&self.root, parameter)?;
            }
            (target, None) => ended(target)?,
            _ => {}
        }
        Ok(found)
    }

    /// Makes a change, unless it was modified since it was looked at, and looks whether it was taken.
    pub(super) fn change(&self, change: &Change) -> Result<(), KnobError> {
        let name = || change.target.name();
        let found = self.read(change.target)?;
        if found.value.is_none() {
            ended(change.target)?;
        }
        if (&found.value, found.follows) != (&change.old.value, change.old.follows) {
            return Err(KnobError::Meanwhile { name: name() });
        }
        self.write(change)?;
        // Only a file can be taken away; nothing was written.
        if change.new.is_none() && change.target.file().is_none() {
            return Ok(());
        }
        let found = self.read(change.target)?;
        if found.value == change.new && !found.follows {
            return Ok(());
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        Err(KnobError::NotTaken(Differs {
            name: name(),
            expected: text(&change.new),
            found: text(&found.value),
        }))
    }

    fn write(&self, change: &Change) -> Result<(), KnobError> {
        let root = &self.root;
        match (change.target, &change.new) {
            (Target::Parameter(parameter), Some(value)) => {
                disk::set(&root.path(parameter.path()), value)
            }
            (Target::File(file), Some(text)) => {
                let path = root.path(file.path());
                if !file.is_ours(text) {
                    return Err(KnobError::Forged { path });
                }
                disk::replace(&path, text, 0o644)
            }
            (Target::Ceiling(vm), Some(value)) => {
                disk::set_outside(&root.path(format!("proc/{}", vm.pid)))?;
                set_ceiling(root, vm, value)
            }
            (Target::Guest(InGuest { vm, parameter }), Some(value)) => {
                disk::set_outside(&root.path(format!("proc/{}", vm.pid)))?;
                Ok(self.agents.write(root, vm, parameter, value)?)
            }
            (Target::Parameter(_) | Target::Ceiling(_) | Target::Guest(_), None) => Ok(()),
            (Target::File(file), None) => disk::remove(&root.path(file.path())),
        }
    }
}

fn parameter(root: &Root, parameter: Parameter) -> Result<Option<String>, KnobError> {
    let path = parameter.path();
    let text = match root.value(path) {
        Err(error) if error.is_absent() => return Ok(None),
        read => read?,
    };
    if Target::Parameter(parameter).number(&text).is_some() {
        return Ok(Some(text));
    }
    let expected = if parameter.is_flag() {
        "Y or N"
    } else {
        "a number"
    };
    Err(root.malformed(path, &text, expected).into())
}

fn ceiling(root: &Root, vm: VmKey) -> Result<Found, KnobError> {
    let Some((_, governed)) = governed(root, vm)? else {
        return Ok(Found::default());
    };
    let own = governed.ceiling_ns.map(|ns| ns.to_string());
    Ok(Found {
        follows: own.is_none(),
        guest_boot: None,
        value: match own {
            Some(ns) => Some(ns),
            None => parameter(root, Parameter::HaltPollNs)?,
        },
    })
}

/// Process to ask about a VM's ceiling; `None` if the VM has ended.
fn governed(root: &Root, vm: VmKey) -> Result<Option<(Governor, Governed)>, KnobError> {
    let governor = match Governor::of(root, vm.pid) {
        Ok(governor) => governor,
        Err(CeilingError::Gone(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let own = governor.key();
    if (own.pid, own.start_ticks) != (vm.pid, vm.start_ticks) {
        return Ok(None);
    }
    let governed = governor.vm(vm.ordinal)?;
    Ok(governed.map(|governed| (governor, governed)))
}

fn set_ceiling(root: &Root, vm: VmKey, value: &str) -> Result<(), KnobError> {
    let gone = || KnobError::from(CeilingError::Gone(vm.pid));
    let (governor, governed) = governed(root, vm)?.ok_or_else(gone)?;
    let ns = Parameter::HaltPollNs.value(value)?;
    Ok(governor.set(governed.fd, ns)?)
}

fn file(root: &Root, boot_file: BootFile) -> Result<Option<String>, KnobError> {
    let path = root.path(boot_file.path());
    let mut bytes = Vec::new();
    // A boot file may be a link of its owner's.
    match disk::read_regular(&path)
        .and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes))
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RootError::new(path, error).into()),
        Ok(_) => {}
    }
    if bytes.len() as u64 > LONGEST_FILE {
        let why = "it is longer than 64 KiB";
        return Err(KnobError::NotText { path, why });
    }
    String::from_utf8(bytes).map(Some).map_err(|_| {
        let why = "it is no UTF-8";
        KnobError::NotText { path, why }
    })
}

fn ended(target: Target) -> Result<(), KnobError> {
    match target {
        Target::Ceiling(vm) => Err(CeilingError::Gone(vm.pid).into()),
        Target::Guest(it) => Err(AgentError::Gone(it.vm.pid).into()),
        Target::Parameter(_) | Target::File(_) => Ok(()),
    }
}

/// Fails where a parameter is read-only, by the mode of its file or of its mount.
pub fn is_writable(root: &Root, parameter: Parameter) -> Result<(), KnobError> {
    let path = root.path(parameter.path());
    let mode = match fs::metadata(&path) {
        Ok(metadata) => metadata.permissions().mode(),
        Err(source) => return Err(RootError::Failed { path, source }.into()),
    };
    // sysfs lets no user open such a file for writing (kernfs_fop_open, fs/kernfs/file.c).
    let mount = rustix::fs::statvfs(&path);
    let is_mounted_read_only =
        mount.is_ok_and(|it| it.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    if mode & 0o222 == 0 || is_mounted_read_only {
        let since: Option<Version> = parameter.since().parse().ok();
        let kernel = KernelRelease::read(root).ok();
        let is_older = kernel
            .zip(since)
            .is_some_and(|(kernel, since)| kernel.version < since);
        return Err(KnobError::ReadOnly {
            parameter,
            path,
            is_older,
        });
    }
    Ok(())
}
