//! Tables of names in format files.

use super::*;

const X86: &str = r#"name: kvm_exit
format:
	field:unsigned int exit_reason;	offset:8;	size:4;	signed:0;

print fmt: "vcpu %u reason %s%s%s rip 0x%lx", REC->vcpu_id, (REC->isa == 1) ? __print_symbolic(REC->exit_reason & 0xffff, { 0, "EXCEPTION_NMI" }, { 12, "HLT" }) : __print_symbolic(REC->exit_reason, { 0x040 + 6, "UD excp" }, { 0x78, "hlt" }, { -1, "invalid_guest_state" }), (REC->isa == 1) ? __print_flags(REC->exit_reason & ~0xffff, " ", { 0x80000000, "FAILED_VMENTRY" }) : "", REC->guest_rip
"#;

fn pairs(table: &[(u32, String)]) -> Vec<(u32, &str)> {
    table.iter().map(|(n, name)| (*n, name.as_str())).collect()
}

#[test]
fn tables_are_read_in_their_order_and_flags_are_none() {
    let tables = symbol_tables(X86);
    assert_eq!(tables.len(), 2);
    assert_eq!(pairs(&tables[0]), [(0, "EXCEPTION_NMI"), (12, "HLT")]);
    let svm = [
        (0x46, "UD excp"),
        (0x78, "hlt"),
        (u32::MAX, "invalid_guest_state"),
    ];
    assert_eq!(pairs(&tables[1]), svm);
}

#[test]
fn pieces_of_a_name_are_joined_and_nonsense_is_left_out() {
    let text = r#"__print_symbolic(REC->reason, { 5, "KVM_EXIT_" "HLT" }, { what, "x" }, { 6"#;
    assert_eq!(pairs(&symbol_tables(text)[0]), [(5, "KVM_EXIT_HLT")]);
    assert!(symbol_tables("print fmt: \"\"").is_empty());
}

#[test]
fn only_what_our_tables_do_not_say_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let event = dir.path().join("sys/kernel/tracing/events/kvm/kvm_exit");
    std::fs::create_dir_all(&event).unwrap();
    let text = X86.replace("{ 12, \"HLT\" }", "{ 12, \"HLT\" }, { 99, \"NEW\" }");
    std::fs::write(event.join("format"), text).unwrap();
    let named = kernel_names(&Root::at(dir.path()));
    if cfg!(target_arch = "x86_64") {
        let [named] = &named[..] else {
            panic!("{named:?}")
        };
        assert_eq!(
            (named.isa, named.reason, named.name.as_str()),
            (Isa::Vmx, 99, "NEW")
        );
    }
    assert!(kernel_names(&Root::at(dir.path().join("none"))).is_empty());
}
