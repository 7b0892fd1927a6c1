//! Faults on consoles of boots, of the emulator or ours: recorded, without what the firmware says.

use super::*;

/// Whether the fault of a boot is ours; `None` if there is none.
fn is_ours(console: &str, ended: &Ended) -> Option<bool> {
    is_ours_after(None, console, ended)
}

/// The same where programs of ours begin after a sign.
fn is_ours_after(sign: Option<&'static str>, console: &str, ended: &Ended) -> Option<bool> {
    let fault = fault_of(console, ended, &|_| sign);
    fault.map(|fault| matches!(fault, Fault::Ours(_)))
}

const PANIC_BEFORE: &str = include_str!("consoles/panic-before-init");
const PANIC_AFTER: &str = include_str!("consoles/panic-after-a-program");
const RESET: &str = include_str!("consoles/reset");
const STANDS_STILL: &str = include_str!("consoles/stands-still");
const NO_INT3: &str = include_str!("consoles/int3-that-is-not-there");
const CORRUPTED_STACK: &str = include_str!("consoles/corrupted-stack");
const LOST_INTERRUPT: &str = include_str!("consoles/lost-interrupt");

#[test]
fn a_reset_a_cpu_that_stands_still_a_panic_before_our_programs_and_stale_code_are_the_emulators() {
    for (console, ended) in [
        (RESET, &Ended::ByItself),
        (STANDS_STILL, &Ended::Frozen),
        (STANDS_STILL, &Ended::Stalled),
        (PANIC_BEFORE, &Ended::ByItself),
        (NO_INT3, &Ended::ByItself),
        ("", &Ended::ByItself),
    ] {
        assert_eq!(is_ours(console, ended), Some(false), "{console}");
    }
}

#[test]
fn a_panic_after_a_program_of_ours_and_a_program_that_hangs_are_ours() {
    assert_eq!(is_ours(PANIC_AFTER, &Ended::ByItself), Some(true));
    assert_eq!(is_ours(STANDS_STILL, &Ended::Late), Some(true));
    let oops = RESET.replace("sysrq: Resetting", "BUG: kernel NULL pointer dereference");
    for oops in [
        oops,
        NO_INT3.replace("e9 <25>", "cc <25>"),
        NO_INT3.replace(" int3", ""),
    ] {
        assert_eq!(is_ours(&oops, &Ended::ByItself), Some(true), "{oops}");
    }
}

/// Recorded while two Linux guests booted under nested SVM, after other checks.
#[test]
fn a_vcpu_that_lost_its_stack_is_the_emulators_unless_a_program_of_ours_stands_on_it() {
    assert_eq!(is_ours(CORRUPTED_STACK, &Ended::ByItself), Some(false));
    for ours in [
        CORRUPTED_STACK.replace("  schedule+", "  bpf_prog_5f8e+0x1/0x2\n  schedule+"),
        CORRUPTED_STACK.replace("Comm: CPU 1/KVM", "Comm: haltwise"),
        CORRUPTED_STACK.replace("corrupted stack", "Fatal exception"),
    ] {
        assert_ne!(ours, CORRUPTED_STACK);
        assert_eq!(is_ours(&ours, &Ended::ByItself), Some(true), "{ours}");
    }
}

/// With a Linux guest, nothing of ours runs before both VMs are there; after another check, something of ours has run.
#[test]
fn a_check_says_when_its_own_programs_begin() {
    let sign = Some("web2: up with ");
    let is_ours = |console: &str| is_ours_after(sign, console, &Ended::ByItself);
    assert_eq!(is_ours(PANIC_AFTER), Some(false));
    let up = PANIC_AFTER.replace("about to panic", "web2: up with haltpoll");
    assert_eq!(is_ours(&up), Some(true));
    let second = format!("init: knob begins\ninit: knob is on the disk\n{PANIC_AFTER}");
    assert_eq!(is_ours(&second), Some(true));
}

#[test]
fn what_is_left_undone_in_a_boot_that_came_to_its_end_lost_an_interrupt() {
    let check = Check::new("script", String::new(), Duration::ZERO, |_| Vec::new());
    let booted = Booted {
        console: LOST_INTERRUPT.to_owned(),
        ended: Ended::ByItself,
        left: Vec::new(),
        elapsed: Duration::ZERO,
    };
    assert_eq!(fault(&booted, &[]), None, "all were judged");
    let fault = fault(&booted, &[check]);
    assert!(matches!(fault, Some(Fault::Emulator(_))), "{fault:?}");
}

#[test]
fn a_stall_is_no_fault_of_a_boot_and_a_warning_is_one() {
    for (line, expected) in [
        ("watchdog: BUG: soft lockup - CPU#0 stuck for 22s!", None),
        ("kvm: SMP vm created on host with unstable TSC", None),
        ("[ 9.0] WARNING: CPU: 1 PID: 7 at a.c", Some(false)),
    ] {
        let console = format!("fine\n{line}\n{POWERED_OFF}\n");
        assert_eq!(is_ours(&console, &Ended::ByItself), expected, "{line}");
    }
}
