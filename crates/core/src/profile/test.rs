//! Tables of areas and handlers, and the laws of sums, shares and trees.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::account::{Account, ExitOf, Sum, sums};
use super::area;
use super::sample::Book;
use super::tree::{self, Kind, Naming, Node};
use super::{Event, Frame, Hit, Phase, Sample, Space, Stack};
use crate::exit::Isa;
use crate::exit::names::Names;
use crate::ids::{Tid, VcpuId, VmIndex};
use crate::stats::{Fold, folded};

const ENTRY: &str = "vcpu_run < kvm_arch_vcpu_ioctl_run < kvm_vcpu_ioctl < do_syscall_64";

/// Area, handler and stack as kernels show them, innermost function first. Before 5.17 `kvm_vcpu_block` polls, too.
const STACKS: &str = "\
HaltPolling HLT: kvm_vcpu_check_block < kvm_vcpu_halt < ENTRY
HaltPolling HLT: ktime_get < kvm_vcpu_halt < ENTRY
HaltBlocking HLT: finish_task_switch < __schedule < schedule < kvm_vcpu_block < kvm_vcpu_halt < ENTRY
HaltPolling -: kvm_vcpu_check_block < kvm_vcpu_block < ENTRY
HaltBlocking -: __schedule < schedule < kvm_vcpu_block < ENTRY
HostInterrupts HLT: asm_sysvec_apic_timer_interrupt < kvm_vcpu_check_block < kvm_vcpu_halt < ENTRY
MmuLock EPT_VIOLATION: native_queued_spin_lock_slowpath < _raw_spin_lock < kvm_tdp_mmu_map < handle_ept_violation
KernelOther -: native_queued_spin_lock_slowpath < _raw_spin_lock < futex_wake
HostMemory -: clear_page_erms < __handle_mm_fault < ENTRY
Emulation emulation: x86_decode_insn < x86_emulate_instruction < ENTRY
Emulation EPT_MISCONFIG: x86_emulate_insn < x86_emulate_instruction < kvm_emulate_instruction < handle_ept_misconfig < ENTRY
EntryExit -: native_read_msr < vmx_vcpu_load < ENTRY
KernelOther -: do_sys_poll < __x64_sys_ppoll
Unknown -:";

#[test]
fn stacks_of_real_kernels_are_sorted() {
    for line in STACKS.lines() {
        let (expected, text) = line.split_once(':').unwrap();
        let text = text.replace("ENTRY", ENTRY);
        let functions = text.split(" < ").map(str::trim);
        let stack: Vec<&str> = functions.filter(|it| !it.is_empty()).collect();
        let (area, handler) = (area::of_stack(&stack), area::exit_of_stack(&stack));
        let found = format!("{area:?} {}", handler.unwrap_or("-"));
        assert_eq!(found, expected, "{text}");
    }
}

/// The interval of Wilson for 10 of 100, as tables give it; the ends of the scale stay inside of it.
#[test]
fn shares_have_the_interval_of_wilson() {
    let sum = |samples: u64| {
        let mut sum = Sum::default();
        (0..samples).for_each(|_| sum.fold(&Sum::one(7)));
        sum
    };
    let share = sum(100).share_of(&sum(10)).unwrap();
    assert!((share.share - 0.1).abs() < 1e-12);
    assert!((share.low - 0.0552).abs() < 1e-4, "{share:?}");
    assert!((share.high - 0.1744).abs() < 1e-4, "{share:?}");
    let none = sum(100).share_of(&Sum::default()).unwrap();
    assert!(none.low.abs() < 1e-12, "{none:?}");
    assert!((none.high - 0.0370).abs() < 1e-4, "{none:?}");
    let all = sum(100).share_of(&sum(100)).unwrap();
    assert!((all.low - 0.9630).abs() < 1e-4 && (all.high - 1.0).abs() < 1e-12);
    assert_eq!(Sum::default().share_of(&Sum::default()), None);
}

/// One heavy sample beside many light ones counts as little more than one.
#[test]
fn unequal_weights_count_as_fewer_samples() {
    let mut sum = Sum::one(1_000_000);
    (0..99).for_each(|_| sum.fold(&Sum::one(1)));
    let effective = sum.effective();
    assert!((1.0..1.001).contains(&effective), "{effective}");
    assert!(sum.scatter() > 1.9);
    assert!(Sum::one(0).effective().abs() < 1e-12);
}

fn book() -> Book {
    let mut book = Book::default();
    for (id, space, symbol) in [
        (1, Space::Kernel, Some("kvm_vcpu_check_block")),
        (2, Space::Kernel, Some("kvm_vcpu_halt")),
        (3, Space::User, Some("a;b")),
        (4, Space::User, None),
        (5, Space::Kernel, Some("vmx_vcpu_run")),
    ] {
        book.frame(Frame {
            id,
            space,
            module: "/usr/lib/m.so (deleted)".into(),
            symbol: symbol.map(str::to_owned),
            address: symbol.is_none().then_some(0x42),
        });
    }
    for (id, frames) in (1..).zip([&[1, 2, 3][..], &[3, 4], &[5, 3], &[3, 3, 99]]) {
        let (frames, cut) = (frames.to_vec(), false);
        book.stack(Stack { id, frames, cut });
    }
    book
}

#[test]
fn what_is_not_there_is_left_out_and_said() {
    let book = book();
    let names: Vec<String> = book.frames(4).map(Frame::name).collect();
    assert_eq!(names, ["a;b", "a;b"]);
    assert!(book.is_cut(4) && book.is_cut(7) && !book.is_cut(1) && !book.is_cut(0));
    let names: Vec<String> = book.frames(2).map(Frame::name).collect();
    assert_eq!(names, ["a;b", "m.so+0x42"]);
}

fn sample(hit: Hit, stack: u64, phase: Phase, reason: Option<u32>) -> Sample {
    Sample {
        time_ns: 0,
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(0)),
        tid: Tid(9),
        cpu: 0,
        event: Event::CpuClock,
        weight: 10,
        hit,
        stack,
        phase,
        isa: Isa::Vmx,
        reason,
    }
}

#[test]
fn an_exit_is_told_or_read_from_the_stack_or_not_known() {
    let book = book();
    let told = |reason| ExitOf::Told(Isa::Vmx, reason);
    for (hit, stack, phase, reason, exit) in [
        (Hit::GuestUser, 0, Phase::Exit, Some(12), ExitOf::Guest),
        (Hit::Kernel, 1, Phase::Exit, Some(48), told(48)),
        (Hit::User, 2, Phase::Exit, Some(30), told(30)),
        (Hit::Kernel, 1, Phase::Unknown, None, ExitOf::Stack("HLT")),
        (Hit::Kernel, 1, Phase::Entered, None, ExitOf::Stack("HLT")),
        (Hit::Kernel, 3, Phase::Entered, None, ExitOf::Between),
        (Hit::User, 2, Phase::Unknown, None, ExitOf::NotKnown),
    ] {
        let mut account = Account::default();
        account.book(&sample(hit, stack, phase, reason), &book);
        let (site, _) = account.sites(Event::CpuClock).next().unwrap();
        assert_eq!(site.exit, exit, "{hit} {stack} {phase}");
    }
}

prop_compose! {
    fn any_sample()(
        hit in prop::sample::select(Hit::ALL.to_vec()),
        phase in prop::sample::select(Phase::ALL.to_vec()),
        (stack, reason) in (0..6_u64, prop::option::of(0..60_u32)),
        (vm, who, weight) in (0..3_u32, 0..2_u32, 1..1000_u64),
    ) -> Sample {
        Sample {
            vm: (vm < 2).then_some(VmIndex(vm)),
            vcpu: (who == 0).then_some(VcpuId(who)),
            tid: Tid(who),
            weight,
            ..sample(hit, stack, phase, reason)
        }
    }
}

fn check(node: &Node) -> Result<(), TestCaseError> {
    let mut all = node.own;
    for child in &node.children {
        check(child)?;
        all.fold(&child.all);
    }
    prop_assert_eq!(all, node.all);
    Ok(())
}

proptest! {
    /// Nothing is lost and nothing counted twice: the account, the tree, the folded stacks and the
    /// symbols' own hits all add up to the samples that were booked.
    #[test]
    fn every_way_of_adding_up_gives_the_same(samples in prop::collection::vec(any_sample(), 0..60)) {
        let book = book();
        let mut account = Account::default();
        let mut whole = Sum::default();
        for sample in &samples {
            account.book(sample, &book);
            whole.fold(&Sum::one(sample.weight));
        }
        let by_area = sums(account.sites(Event::CpuClock), |site| site.area);
        prop_assert_eq!(folded::<Sum>(by_area.values()), whole);
        let names = Names::default();
        let vms = BTreeMap::from([(VmIndex(0), "a".to_owned())]);
        let naming = Naming { book: &book, reasons: &names, vms: &vms };
        let tree = tree::tree(account.sites(Event::CpuClock), &naming);
        prop_assert_eq!(tree.all, whole);
        check(&tree)?;
        let folded = tree::folded(&tree);
        let counts = folded.iter().map(|line| line.rsplit_once(' ').unwrap().1);
        let folded: u64 = counts.map(|count| count.parse::<u64>().unwrap()).sum();
        prop_assert_eq!(folded, whole.samples);
        let heats = tree::symbols(account.sites(Event::CpuClock), &book);
        let own: u64 = heats.iter().map(|(_, heat)| heat.own.samples).sum();
        prop_assert_eq!(own, whole.samples);
        for (symbol, heat) in &heats {
            prop_assert!(heat.own.weight <= heat.all.weight, "{symbol:?}");
            prop_assert!(heat.all.weight <= whole.weight, "{symbol:?}");
        }
    }

    /// The order in which samples come changes nothing.
    #[test]
    fn order_does_not_matter(samples in prop::collection::vec(any_sample(), 0..40)) {
        let book = book();
        let (mut there, mut back) = (Account::default(), Account::default());
        for (one, other) in samples.iter().zip(samples.iter().rev()) {
            there.book(one, &book);
            back.book(other, &book);
        }
        prop_assert_eq!(there.events, back.events);
    }
}

/// A function that calls itself is hot once, and a semicolon in a name parts no step.
#[test]
fn recursion_and_semicolons_count_for_nothing_more() {
    let book = book();
    let mut account = Account::default();
    account.book(&sample(Hit::User, 4, Phase::Unknown, None), &book);
    let heats = tree::symbols(account.sites(Event::CpuClock), &book);
    assert_eq!(heats.len(), 1);
    assert_eq!((heats[0].1.own.samples, heats[0].1.all.samples), (1, 1));
    let naming = Naming {
        book: &book,
        reasons: &Names::default(),
        vms: &BTreeMap::new(),
    };
    let tree = tree::tree(account.sites(Event::CpuClock), &naming);
    assert_eq!(tree.step.kind, Kind::Root);
    let expected = "unknown VM;vCPU 0;not known;a,b;a,b 1";
    assert_eq!(tree::folded(&tree), [expected]);
}
