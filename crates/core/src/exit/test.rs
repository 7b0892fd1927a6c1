//! Tests of counted events: codes, names, halts.

use super::names::Names;
use super::*;

#[test]
fn names_and_codes_come_back() {
    for (code, kind) in (0..).zip(Kind::ALL) {
        assert_eq!(Kind::from_name(kind.as_str()), Some(kind));
        assert_eq!(Kind::from_code(code), Some(kind));
    }
    for (code, isa) in (0..).zip(Isa::ALL) {
        assert_eq!(Isa::from_name(isa.as_str()), Some(isa));
        assert_eq!(Isa::from_code(code), isa);
    }
    for key in SubKey::ALL {
        assert_eq!(key.as_str().parse(), Ok(key));
    }
    assert!("port".parse::<SubKey>().is_err());
    assert_eq!(Kind::from_code(17), None);
    assert_eq!(Isa::from_code(8), Isa::None);
}

#[test]
fn an_exit_is_a_halt_by_the_number_of_its_own_instruction_set() {
    let exit = |isa, reason| Cause {
        kind: Kind::Exit,
        isa,
        reason: Some(reason),
        sub: None,
    };
    for (isa, reason, name) in [
        (Isa::Vmx, 12, "HLT"),
        (Isa::Svm, 0x78, "hlt"),
        (Isa::Svm, 0xa6, "idle-halt"),
        (Isa::Arm64, 1, "WFx"),
        (Isa::S390, 0x1c, "0x1c (s390)"),
        (Isa::Loongarch, 64, "0x40 (loongarch)"),
    ] {
        let halt = exit(isa, reason);
        assert!(halt.is_halt(), "{name}");
        assert_eq!(halt.name(&Names::default()), name);
    }
    assert!(!exit(Isa::Svm, 12).is_halt());
    let mut unknown = exit(Isa::Riscv, 0);
    unknown.reason = None;
    assert!(!unknown.is_halt());
    assert_eq!(unknown.name(&Names::default()), "unknown (riscv)");
}

#[test]
fn sub_keys_say_what_they_are() {
    let sub = |kind, sub| {
        let cause = Cause {
            kind,
            isa: Isa::None,
            reason: None,
            sub: Some(sub),
        };
        cause.sub_name().unwrap()
    };
    assert_eq!(sub(Kind::MsrWrite, 0x830), "msr_write 0x830 (x2APIC ICR)");
    assert_eq!(sub(Kind::MsrWrite, 0x831), "msr_write 0x831");
    assert_eq!(sub(Kind::Vector, 236), "vector 236");
    assert_eq!(sub(Kind::PageFault, 0xfee0_0000), "page 0xfee00000");
}
