//! VMs that follow and VMs that do not, as a screen shows them.

use super::*;
use crate::knob::text;
use crate::page::Page;

fn vm(name: &str, effect: Effect, ceiling_ns: Option<u32>) -> Watched {
    let is_disabled = effect == Effect::GuestDisabled;
    let why = "none of its halts was seen".to_owned();
    Watched {
        name: name.to_owned(),
        pid: 7,
        vcpus: 2,
        effect,
        ceiling_ns,
        step: None,
        window_ns: (!is_disabled).then_some((0, 160_000)),
        vetoed_vcpus: if is_disabled { vec![0, 1] } else { Vec::new() },
        running: Some(true),
        why: (effect == Effect::NotTold).then_some(why),
    }
}

fn screen(vms: &Vms) -> String {
    let mut page = Page::new(80);
    text::vms(&mut page, &vms.rows, vms.unwatched.as_deref());
    page.finish()
}

#[test]
fn a_vm_that_keeps_its_ceiling_is_named_with_what_to_do() {
    let follows = vm("new", Effect::Follows, Some(80_000));
    let text = screen(&Vms::from(Ok(vec![follows.clone()])));
    assert!(!text.contains("restart"), "{text}");
    let text = screen(&Vms::from(Ok(vec![
        follows,
        vm("old", Effect::Keeps, Some(200_000)),
        vm("capped", Effect::OwnCap, Some(50_000)),
        vm("haltpoll", Effect::GuestDisabled, None),
        vm("quiet", Effect::NotTold, None),
    ])));
    for line in [
        "  new         7      2  80.0 us  0 ns to 160 us  yes\n",
        "  old         7      2   200 us  0 ns to 160 us  no: until restart\n",
        "  capped      7      2  50.0 us  0 ns to 160 us  no: own cap\n",
        "  haltpoll    7      2        -  not polled      no: guest disabled it\n",
        "  quiet       7      2        -  0 ns to 160 us  not known\n",
        "  haltpoll: the guest disabled host polling on vCPUs 0, 1: their halts are not\n",
        "  quiet: none of its halts was seen.\n",
        "restart or migrate it",
    ] {
        assert!(text.contains(line), "{line:?} in\n{text}");
    }
}

/// A change that no VM follows is not made without a warning.
#[test]
fn vms_that_do_not_follow_are_warned_of() {
    let warning = |vms: &[&Watched]| {
        let vms = vms.iter().map(|vm| (*vm).clone()).collect();
        Vms::from(Ok(vms)).warning()
    };
    let own = vm("a", Effect::OwnCap, Some(50_000));
    let disabled = vm("b", Effect::GuestDisabled, None);
    let follows = vm("c", Effect::Follows, Some(80_000));
    let unknown = vm("d", Effect::NotTold, None);
    assert_eq!(
        warning(&[&own, &disabled]).unwrap(),
        "halt_poll_ns applies to no running VM: a (its own ceiling), b (its guest disabled host polling)"
    );
    assert_eq!(
        warning(&[&own, &follows]).unwrap(),
        "halt_poll_ns does not apply to 1 of 2 running VMs: a (its own ceiling)"
    );
    assert_eq!(warning(&[&follows, &unknown]), None);
    assert_eq!(warning(&[]), None);
}

#[test]
fn not_being_able_to_look_is_told() {
    let text = screen(&Vms::from(Err(CollectError::Denied {
        what: "load BPF programs".to_owned(),
        need: "CAP_BPF",
    })));
    assert!(text.contains("needs CAP_BPF"), "{text}");
}
