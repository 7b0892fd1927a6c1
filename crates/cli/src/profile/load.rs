//! From a capture on disk to the account of its samples. Memory grows with the stacks that differ, not
//! with the samples.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;
use haltwise_core::exit::names::Names;
use haltwise_core::ids::VmIndex;
use haltwise_core::profile::account::Account;
use haltwise_core::profile::sample::Book;
use haltwise_core::profile::tree::Naming;
use haltwise_core::profile::{Event, Recorded};

use crate::exit::{Exit, Failure};
use crate::reading::load::{self, OverTime};
use crate::reading::opened::{Broken, Opened};
use crate::reading::pass::feed;
use crate::reading::recording::Recording;
use crate::reading::select;

#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) recording: Recording,
    pub(crate) recorded: Recorded,
    pub(crate) account: Account,
    pub(crate) book: Book,
    pub(crate) reasons: Names,
    pub(crate) vms: BTreeMap<VmIndex, String>,
}

impl Loaded {
    /// The event that the page is about: the one asked for, or the first.
    pub(crate) fn event(&self, wanted: Option<Event>) -> Result<Event, Failure> {
        let recorded = &self.recorded.events;
        match wanted {
            None => Ok(recorded.first().copied().unwrap_or(Event::CpuClock)),
            Some(event) if recorded.contains(&event) => Ok(event),
            Some(event) => {
                let names: Vec<&str> = recorded.iter().map(|event| event.as_str()).collect();
                let error = anyhow!("this capture contains no samples of {event}");
                Err(Failure::new(Exit::Usage, error)
                    .hint(format!("it contains samples of {}", names.join(", "))))
            }
        }
    }

    pub(crate) fn naming(&self) -> Naming<'_> {
        Naming {
            book: &self.book,
            reasons: &self.reasons,
            vms: &self.vms,
        }
    }
}

pub(crate) fn load(dir: &Path, vm: Option<&str>) -> Result<Loaded, Failure> {
    let opened = Opened::open(dir)?;
    if opened.info().profile.is_none() {
        let error = anyhow!("show samples: {} contains none", dir.display());
        return Err(Failure::new(Exit::Failed, error)
            .hint("`haltwise record --profile` takes them with the halts"));
    }
    let (recording, _) = load::load(&opened, OverTime::Host, &mut [])?;
    let vms = vm.map(|vm| select::vms(&recording.info.roster, Some(vm)));
    let vms = vms.transpose()?;
    Ok(samples(&opened, recording, vms.as_deref()))
}

pub(crate) fn samples(
    opened: &Opened,
    mut recording: Recording,
    vms: Option<&[VmIndex]>,
) -> Loaded {
    let capture = opened.capture();
    let recorded = opened.info().profile.clone().unwrap_or_default();
    let vcpus = recording.info.roster.vcpus.iter();
    let mut account = Account::new(vcpus.map(|vcpu| (vcpu.vm, vcpu.tid, vcpu.id)));
    let mut book = Book::default();
    let broken = [
        feed(capture.sample_frames(), |row| book.frame(row)).err(),
        feed(capture.sample_stacks(), |row| book.stack(row)).err(),
        feed(capture.sample_threads(), |row| book.thread(row)).err(),
        feed(capture.samples(), |sample| {
            if select::is_among(vms, sample.vm) {
                account.book(&sample, &book);
            }
        })
        .err(),
    ];
    // A table that broke off counts up to the break.
    for error in broken.into_iter().flatten() {
        recording.breaks_off(&Broken::new(error));
    }
    recording.take_notes(capture);
    let exits = capture.info().exits.as_ref();
    let reasons = exits.map(haltwise_core::exit::Recorded::names);
    Loaded {
        vms: names(&recording),
        recording,
        recorded,
        account,
        book,
        reasons: reasons.unwrap_or_default(),
    }
}

/// A name for each VM. Two of one name are told apart by their processes.
fn names(recording: &Recording) -> BTreeMap<VmIndex, String> {
    let vms = &recording.info.roster.vms;
    let name = |vm: &haltwise_core::event::Vm| {
        let same = vms.iter().filter(|other| other.name == vm.name);
        match same.count() {
            0 | 1 => vm.name.clone(),
            _ => format!("{} ({})", vm.name, vm.key.pid),
        }
    };
    vms.iter().map(|vm| (vm.index, name(vm))).collect()
}
