//! What the machine says now: parameters and boot files, read.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use haltwise_core::ids::VmKey;
use haltwise_core::parameter::{Parameter, ValueError};
use rustix::fs::OFlags;

use super::disk;
use super::error::KnobError;
use super::own;
use super::target::{BootFile, Change, Form, Found, InGuest, Target};
use crate::ceiling::{CeilingError, Governed, Governor};
use crate::guest_agent::{AgentError, Sessions};
use crate::params;
use crate::root::{Root, RootError};

/// No boot file that we keep for an undo is longer, in bytes.
const LONGEST_FILE: u64 = 64 << 10;

pub(super) fn boot(root: &Root) -> Result<String, KnobError> {
    Ok(root.value("proc/sys/kernel/random/boot_id")?)
}

pub(super) fn read(root: &Root, agents: &Sessions, target: Target) -> Result<Found, KnobError> {
    match target {
        Target::Parameter(parameter) => Ok(self::parameter(root, parameter)?.into()),
        Target::File(boot_file) => Ok(file(root, boot_file)?.into()),
        Target::Ceiling(vm) => ceiling(root, vm),
        Target::Guest(InGuest { vm, parameter }) => Ok(agents.read(root, vm, parameter)?.into()),
    }
}

fn parameter(root: &Root, parameter: Parameter) -> Result<Option<String>, KnobError> {
    let read = if parameter == Parameter::GuestAllowShrink {
        flag(root, parameter.path())
    } else {
        let number = root.number::<u32>(parameter.path());
        number.map(|value| value.to_string())
    };
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn flag(root: &Root, path: &str) -> Result<String, RootError> {
    let value = root.value(path)?;
    match value.as_str() {
        "Y" | "N" => Ok(value),
        _ => Err(root.malformed(path, &value, "Y or N")),
    }
}

/// The ceiling in force of a VM that lives and can be asked.
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

/// Whom to ask about a VM's ceiling; `None` if the VM has ended.
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
    let ns = value.parse().map_err(|_| ValueError::Large {
        parameter: Parameter::HaltPollNs,
        text: value.to_owned(),
    })?;
    Ok(governor.set(governed.fd, ns)?)
}

fn file(root: &Root, boot_file: BootFile) -> Result<Option<String>, KnobError> {
    let path = root.path(boot_file.path());
    let mut bytes = Vec::new();
    // A boot file may be a link of its owner's, but nothing that is waited for.
    let opened = disk::read_regular(&path, OFlags::NONBLOCK.bits().cast_signed());
    match opened.and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(RootError::Denied { path }.into());
        }
        Err(source) => return Err(RootError::Failed { path, source }.into()),
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

/// How a file of somebody else lies there, if undo may bring it back.
pub(super) fn kept_form(root: &Root, file: BootFile, text: &str) -> Result<Form, KnobError> {
    let form = form(root, file)?;
    restorable(root, file, text, &form).map_err(|why| {
        let path = root.path(file.path());
        KnobError::NotText { path, why }
    })?;
    Ok(form)
}

/// What undo brings back of somebody else sets options and does nothing else, and nobody but root can have written
/// it: whatever a baseline says, no command gets into a boot file by it.
fn restorable(root: &Root, file: BootFile, text: &str, form: &Form) -> Result<(), &'static str> {
    if !file.sets_options_alone(text) {
        return Err("it does more than set options");
    }
    let Some(link) = &form.link else {
        let is_safe = form.mode & 0o7022 == 0;
        return is_safe.then_some(()).ok_or("others may write it");
    };
    let path = root.path(file.path());
    let leads_to = path.parent().map(|directory| directory.join(link));
    let metadata = leads_to.and_then(|path| fs::metadata(path).ok());
    own::is_ours(&metadata.ok_or("its link leads nowhere")?)
}

fn form(root: &Root, file: BootFile) -> Result<Form, KnobError> {
    let path = root.path(file.path());
    let look = || -> io::Result<Form> {
        let metadata = path.symlink_metadata()?;
        let link = if metadata.is_symlink() {
            Some(fs::read_link(&path)?)
        } else {
            None
        };
        let link = link.map(|to| to.into_os_string().into_string());
        let link = link.transpose();
        let not_text = |_| io::Error::other("it is a link to a name that is no UTF-8");
        Ok(Form {
            mode: metadata.permissions().mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            link: link.map_err(not_text)?,
        })
    };
    look().map_err(|source| {
        RootError::Failed {
            path: path.clone(),
            source,
        }
        .into()
    })
}

/// That a VM which is not found has ended.
pub(super) fn ended(target: Target) -> Result<(), KnobError> {
    match target {
        Target::Ceiling(vm) => Err(CeilingError::Gone(vm.pid).into()),
        Target::Guest(it) => Err(AgentError::Gone(it.vm.pid).into()),
        Target::Parameter(_) | Target::File(_) => Ok(()),
    }
}

/// What is there now, where it has the wanted value or may be changed by somebody.
pub(super) fn wanted(
    root: &Root,
    agents: &Sessions,
    target: Target,
    value: u32,
) -> Result<Found, KnobError> {
    let found = match target {
        Target::Parameter(it) if !it.is_of_guest() && !params::kvm_is_loaded(root) => {
            return Err(KnobError::NoKvm);
        }
        _ => read(root, agents, target)?,
    };
    match (target, &found.value) {
        (Target::Parameter(parameter), None) => return Err(KnobError::Absent(parameter)),
        (Target::Parameter(parameter), Some(now)) if *now != parameter.written(value) => {
            is_writable(root, parameter)?;
        }
        (target, None) => ended(target)?,
        _ => {}
    }
    Ok(found)
}

/// Fails where a parameter is read-only, by the mode of its file or of its mount.
pub fn is_writable(root: &Root, parameter: Parameter) -> Result<(), KnobError> {
    let path = root.path(parameter.path());
    let mode = match fs::metadata(&path) {
        Ok(metadata) => metadata.permissions().mode(),
        Err(source) => return Err(RootError::Failed { path, source }.into()),
    };
    // sysfs refuses to open such a file for writing, whoever asks (kernfs_fop_open, fs/kernfs/file.c).
    let mount = rustix::fs::statvfs(&path);
    let is_mounted_read_only =
        mount.is_ok_and(|it| it.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    if mode & 0o222 == 0 || is_mounted_read_only {
        return Err(KnobError::ReadOnly { parameter, path });
    }
    Ok(())
}

/// Makes a change, and looks whether it was taken.
pub(super) fn write(root: &Root, agents: &Sessions, change: &Change) -> Result<(), KnobError> {
    match (change.target, &change.new) {
        (Target::Parameter(parameter), Some(value)) => {
            disk::set(&root.path(parameter.path()), value)?;
        }
        (Target::File(file), Some(text)) => {
            let path = root.path(file.path());
            let form = change.new_form.as_ref();
            let may_lie_there = form.map_or(file.is_ours(text), |form| {
                restorable(root, file, text, form).is_ok()
            });
            if !may_lie_there {
                return Err(KnobError::Forged { path });
            }
            disk::replace(&path, text, 0o644, form)?;
        }
        (Target::Ceiling(vm), Some(value)) => {
            disk::set_outside(&root.path(format!("proc/{}", vm.pid)))?;
            set_ceiling(root, vm, value)?;
        }
        (Target::Guest(InGuest { vm, parameter }), Some(value)) => {
            disk::set_outside(&root.path(format!("proc/{}", vm.pid)))?;
            agents.write(root, vm, parameter, value)?;
        }
        // None of these can be taken away; no baseline says so.
        (Target::Parameter(_) | Target::Ceiling(_) | Target::Guest(_), None) => return Ok(()),
        (Target::File(file), None) => disk::remove(&root.path(file.path()))?,
    }
    // What a link leads to is not ours, and may have changed since.
    let form = change.new_form.as_ref();
    if form.is_some_and(|form| form.link.is_some()) {
        return Ok(());
    }
    let found = read(root, agents, change.target)?;
    if found.value == change.new && !found.follows {
        return Ok(());
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    Err(KnobError::NotTaken {
        name: change.target.name(),
        wanted: text(&change.new),
        found: text(&found.value),
    })
}
