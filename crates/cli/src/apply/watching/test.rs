//! The trap of 5.8 to 6.0, as a host in which it is made up shows it on a screen.

use haltwise_core::ids::Pid;
use haltwise_host::collector::CollectError;

use super::*;
use crate::apply::text;
use crate::page::Page;

/// A host whose VMs are made up.
#[derive(Debug)]
struct MadeUp(Vec<(&'static str, Effect)>);

impl Watch for MadeUp {
    fn watch(&mut self, _: &Change) -> Result<Vec<Watched>, CollectError> {
        let rows = (1..).zip(&self.0).map(|(pid, (name, effect))| Watched {
            pid: Pid(pid),
            name: (*name).to_owned(),
            vcpus: 2,
            window_ns: Some((0, 160_000)),
            effect: effect.clone(),
        });
        Ok(rows.collect())
    }
}

#[derive(Debug)]
struct Refused;

impl Watch for Refused {
    fn watch(&mut self, _: &Change) -> Result<Vec<Watched>, CollectError> {
        Err(CollectError::Denied {
            what: "load BPF programs".to_owned(),
            need: "CAP_BPF",
        })
    }
}

fn screen(watcher: &mut dyn Watch) -> String {
    let now = Knobs {
        halt_poll_ns: 80_000,
        grow: 2,
        grow_start: 10_000,
        shrink: 0,
    };
    let vms = watch_with(watcher, &Change { old: 200_000, now });
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
        (
            "quiet",
            Effect::NotTold("none of its halts was seen".to_owned()),
        ),
    ]));
    for line in [
        "  new       1      2  80.0 us  0 ns to 160 us  yes\n",
        "  old       2      2   200 us  0 ns to 160 us  no: until restart\n",
        "  capped    3      2  50.0 us  0 ns to 160 us  no: own cap\n",
        "  quiet     4      2        -  0 ns to 160 us  not known\n",
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

#[test]
fn not_being_able_to_look_is_told() {
    let text = screen(&mut Refused);
    assert!(text.contains("needs CAP_BPF"), "{text}");
}
