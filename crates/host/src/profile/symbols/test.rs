//! The file as kernels print it, in any order, and as they hide it.

use super::*;

const FILE: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T srso_alias_untrain_ret
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t __pfx_kvm_vcpu_halt
ffffffff81000200 t do_work.isra.0
ffffffff81000110 T kvm_vcpu_halt
ffffffff81000300 D some_data
ffffffffc0000000 t vmx_vcpu_run\t[kvm_intel]
ffffffffc0100000 t bpf_prog_6deef7357e7b4530_on_exit\t[bpf]
nonsense
";

#[test]
fn an_address_belongs_to_the_function_that_begins_before_it() {
    let symbols = Kallsyms::parse(FILE);
    let find = |address| symbols.find(address).map(|it| (it.name, it.module));
    assert_eq!(find(0xffff_ffff_80ff_ffff), None);
    assert_eq!(
        find(0xffff_ffff_8100_0000),
        Some(("srso_alias_untrain_ret", "kernel"))
    );
    assert_eq!(
        find(0xffff_ffff_8100_01ff),
        Some(("kvm_vcpu_halt", "kernel"))
    );
    assert_eq!(find(0xffff_ffff_8100_0310), Some(("do_work", "kernel")));
    // Far behind the last function of the kernel, far before the first of a module.
    assert_eq!(find(0xffff_ffff_9000_0000), None);
    assert_eq!(
        find(0xffff_ffff_c000_0fff),
        Some(("vmx_vcpu_run", "kvm_intel"))
    );
    assert_eq!(
        find(0xffff_ffff_c010_0001),
        Some(("bpf_prog_6deef7357e7b4530_on_exit", "bpf"))
    );
    assert_eq!(find(u64::MAX), None);
}

#[test]
fn hidden_addresses_are_no_functions() {
    assert!(Kallsyms::parse("").is_empty());
    assert!(Kallsyms::parse("0000000000000000 T kvm_vcpu_halt\n").is_empty());
}
