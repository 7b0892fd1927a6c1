//! Interceptions of s390: `sie_intercept_code` in `arch/s390/include/uapi/asm/sie.h`.

pub(super) const NAMES: &[(u32, &str)] = &[
    (0x0, "Host interruption"),
    (0x4, "Instruction"),
    (0x8, "Program interruption"),
    (0xc, "Instruction and program interruption"),
    (0x10, "External request"),
    (0x14, "External interruption"),
    (0x18, "I/O request"),
    (0x1c, "Wait state"),
    (0x20, "Validity"),
    (0x28, "Stop request"),
    (0x2c, "Operation exception"),
    (0x38, "Partial-execution"),
    (0x3c, "I/O interruption"),
    (0x40, "I/O instruction"),
    (0x48, "Timing subset"),
];
