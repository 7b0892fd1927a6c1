//! What the machine says now: parameters and boot files, read.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::OFlags;

use super::disk::{self, Disk};
use super::error::KnobError;
use super::parameter::Parameter;
use super::target::{Change, Form, Target};
use crate::params;
use crate::root::{Root, RootError};

/// No boot file that we keep for an undo is longer, in bytes.
const LONGEST_FILE: u64 = 64 << 10;

/// This boot's name.
pub(super) fn boot(root: &Root) -> Result<String, KnobError> {
    Ok(root.value("proc/sys/kernel/random/boot_id")?)
}

/// What something is now. `None`: it is not there.
pub(super) fn read(root: &Root, target: Target) -> Result<Option<String>, KnobError> {
    match target {
        Target::Parameter(parameter) => match root.number::<u32>(parameter.path()) {
            Ok(value) => Ok(Some(value.to_string())),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error.into()),
        },
        Target::File(_) => file(root, target),
    }
}

fn file(root: &Root, target: Target) -> Result<Option<String>, KnobError> {
    let path = root.path(target.path());
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

/// How a file lies there.
pub(super) fn form(root: &Root, target: Target) -> Result<Form, KnobError> {
    let path = root.path(target.path());
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

/// A parameter's value, where it is there and may be written by somebody.
pub(super) fn writable(root: &Root, parameter: Parameter) -> Result<String, KnobError> {
    if !params::kvm_is_loaded(root) {
        return Err(KnobError::NoKvm);
    }
    let value = read(root, Target::Parameter(parameter))?.ok_or(KnobError::Absent(parameter))?;
    let path = root.path(parameter.path());
    let mode = match fs::metadata(&path) {
        Ok(metadata) => metadata.permissions().mode(),
        Err(source) => return Err(RootError::Failed { path, source }.into()),
    };
    // sysfs refuses to open such a file for writing, whoever asks (kernfs_fop_open, fs/kernfs/file.c).
    if mode & 0o222 == 0 {
        return Err(KnobError::ReadOnly { parameter, path });
    }
    Ok(value)
}

/// Makes a change, and looks whether it was taken.
pub(super) fn write(root: &Root, disk: &mut Disk, change: &Change) -> Result<(), KnobError> {
    let path = root.path(change.target.path());
    match (change.target, &change.new) {
        (Target::Parameter(_), Some(value)) => disk.set(&path, value)?,
        (Target::File(file), Some(text)) => {
            let form = change.new_form.as_ref();
            if form.is_none() && !file.is_ours(text) {
                return Err(KnobError::Forged { path });
            }
            disk.replace(&path, text, 0o644, form)?;
        }
        // A parameter cannot be taken away; no baseline says so.
        (Target::Parameter(_), None) => return Ok(()),
        (Target::File(_), None) => disk.remove(&path)?,
    }
    // What a link leads to is not ours, and may have changed since.
    let form = change.new_form.as_ref();
    if form.is_some_and(|form| form.link.is_some()) {
        return Ok(());
    }
    let found = read(root, change.target)?;
    if found == change.new {
        return Ok(());
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
    Err(KnobError::NotTaken {
        name: change.target.name(),
        wanted: text(&change.new),
        found: text(&found),
    })
}
