//! Directories as another user may leave them for root; FIFOs, links and devices are in `transcripts/hostile.txt`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};

use super::{ran, sample};

#[test]
#[expect(clippy::print_stdout, reason = "what is skipped is said")]
fn a_directory_of_another_or_open_to_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(sample("ftrace_tgid.txt"), dir.path().join("text")).unwrap();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let mut refused = vec![("open", "others may write to the directory (mode 777)")];
    if rustix::process::geteuid().is_root() {
        let foreign = dir.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        chown(&foreign, Some(65_534), None).unwrap();
        refused.push(("foreign", "the directory belongs to user 65534"));
    } else {
        println!("skipped: only root makes directories of others");
    }
    for (name, why) in refused {
        for words in [
            format!("record -o {name} --duration 1s"),
            format!("import -o {name} text"),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let (code, _, said) = ran(dir.path(), &words);
            assert_eq!(code, 1, "{words:?}: {said}");
            assert!(said.contains(why), "{words:?}: {said}");
        }
        assert_eq!(fs::read_dir(dir.path().join(name)).unwrap().count(), 0);
    }
}
