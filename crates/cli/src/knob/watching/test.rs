//! The trap of 5.8 to 6.0, as a host in which it is made up shows it on a screen.

use haltwise_core::ids::{Pid, VcpuId};
use haltwise_host::collector::CollectError;

use super::*;
use crate::knob::text;
use crate::page::Page;

#[derive(Debug)]
struct MadeUp(Vec<(&'static str, Effect)>);

impl Watch for MadeUp {
    fn watch(&mut self, _: &CeilingChange) -> Result<Vec<Watched>, CollectError> {
        let rows = (1..).zip(&self.0).map(|(pid, (name, effect))| Watched {
            pid: Pid(pid),
            name: (*name).to_owned(),
            vcpus: 2,
            window_ns: (*effect != Effect::GuestDisabled).then_some((0, 160_000)),
            disabled: match effect {
                Effect::GuestDisabled => vec![VcpuId(0), VcpuId(1)],
                _ => Vec::new(),
            },
            effect: effect.clone(),
            running: Some(*name != "stopped"),
        });
        Ok(rows.collect())
    }
}

#[derive(Debug)]
struct Refused;

impl Watch for Refused {
    fn watch(&mut self, _: &CeilingChange) -> Result<Vec<Watched>, CollectError> {
        Err(CollectError::Denied {
            what: "load BPF programs".to_owned(),
            need: "CAP_BPF",
        })
    }
}

fn screen(watcher: &mut dyn Watch) -> String {
    let now = Knobs::of([80_000, 2, 10_000, 0]);
    let vms = watch_with(watcher, &CeilingChange { old: 200_000, now });
    let mut page = Page::new(80);
    text::vms(&mut page, &vms.rows, vms.unwatched.as_deref());
    page.finish()
}

#[test]
fn a_vm_that_keeps_its_ceiling_is_named_with_what_to_do() {
    let text = screen(&mut MadeUp(vec![
        ("new", Effect::Follows),
        ("old", Effect::Keeps(Some(200_000))),
        ("capped", Effect::OwnCap(50_000)),
        ("haltpoll", Effect::GuestDisabled),
        (
            "quiet",
            Effect::NotTold("none of its halts was seen".to_owned()),
        ),
    ]));
    for line in [
        "  new         1      2  80.0 us  0 ns to 160 us  yes\n",
        "  old         2      2   200 us  0 ns to 160 us  no: until restart\n",
        "  capped      3      2  50.0 us  0 ns to 160 us  no: own cap\n",
        "  haltpoll    4      2        -  not polled      no: guest disabled it\n",
        "  quiet       5      2        -  0 ns to 160 us  not known\n",
        "  haltpoll: the guest disabled host polling on vCPUs 0, 1: their halts are not\n",
        "  quiet: none of its halts was seen.\n",
        "restart or migrate it",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
}

#[test]
fn where_all_follow_nothing_is_advised() {
    let text = screen(&mut MadeUp(vec![("new", Effect::Follows)]));
    assert!(!text.contains("restart"), "{text}");
}

/// A change that no VM follows is not made without a warning.
#[test]
fn vms_that_do_not_follow_are_warned_of() {
    let now = Knobs::of([80_000, 2, 10_000, 0]);
    let warning = |effects: &[(&'static str, Effect)]| {
        watch_with(
            &mut MadeUp(effects.to_vec()),
            &CeilingChange { old: 0, now },
        )
        .warning()
    };
    let own = ("a", Effect::OwnCap(50_000));
    let disabled = ("b", Effect::GuestDisabled);
    assert_eq!(
        warning(&[own.clone(), disabled.clone()]).unwrap(),
        "halt_poll_ns applies to no running VM: a (its own ceiling), b (its guest disabled host polling)"
    );
    assert_eq!(
        warning(&[own, ("c", Effect::Follows)]).unwrap(),
        "halt_poll_ns does not apply to 1 of 2 running VMs: a (its own ceiling)"
    );
    let unknown = (
        "d",
        Effect::NotTold("none of its halts was seen".to_owned()),
    );
    assert_eq!(warning(&[("c", Effect::Follows), unknown]), None);
    assert_eq!(warning(&[]), None);
}

#[test]
fn not_being_able_to_look_is_told() {
    let text = screen(&mut Refused);
    assert!(text.contains("needs CAP_BPF"), "{text}");
}
