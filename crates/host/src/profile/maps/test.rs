//! The file as the kernel prints it.

use super::*;

const FILE: &str = "\
55d0c8a00000-55d0c8a02000 r--p 00000000 fd:00 1234                       /usr/bin/a vmm
55d0c8a02000-55d0c8a21000 r-xp 00002000 fd:00 1234                       /usr/bin/a vmm (deleted)
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f0000002000-7f0000003000 rw-p 00000000 00:00 0                          [heap]
7ffc3a1f6000-7ffc3a1f8000 r-xp 00000000 00:00 0                          [vdso]
broken
";

#[test]
fn only_code_counts_and_paths_may_hold_spaces() {
    let mappings = parse(FILE);
    let paths: Vec<&str> = mappings.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["/usr/bin/a vmm (deleted)", "", "[vdso]"]);
    let vmm = find(&mappings, 0x55d0_c8a0_2000).unwrap();
    assert_eq!(
        (vmm.offset, vmm.inode, vmm.device),
        (0x2000, 1234, (0xfd, 0))
    );
    assert!(vmm.is_file() && !mappings[1].is_file() && !mappings[2].is_file());
    for outside in [
        0,
        0x55d0_c8a0_1fff,
        0x55d0_c8a2_1000,
        0x7f00_0000_2000,
        u64::MAX,
    ] {
        assert_eq!(find(&mappings, outside), None, "{outside:#x}");
    }
}
