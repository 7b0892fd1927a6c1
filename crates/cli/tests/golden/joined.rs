//! `tune --host`: a guest and its host that recorded one VM at the same time, in a stock kernel (Linux 6.12 under QEMU,
//! emulated, `xtask/src/kernels/linux_guest/joined.rs`): the guest under haltpoll, then under the governor menu, the host
//! all the while. These tests never record it again.

use serde_json::Value;

use super::{compare, haltwise, home};

const HOST: &str = "recorded/joined-host";

fn joined(guest: &str, more: &[&str]) -> Value {
    let all = [&["tune", "--json", guest, "--host", HOST], more].concat();
    let (text, code) = haltwise(&home(), &all);
    assert_eq!(code, Some(0), "{guest}");
    serde_json::from_str(&text).unwrap()
}

/// Each of the two guests' captures finds its own stretch of the host's, with its VM and its CPUs.
#[test]
fn a_guest_and_its_host_are_matched_by_time() {
    let mut offsets = Vec::new();
    for guest in ["recorded/joined-guest", "recorded/joined-menu"] {
        let view = joined(guest, &[]);
        let join = &view["join"];
        assert_eq!(join["vm"], "web2", "{guest}");
        assert!(
            join["consistent_share"].as_f64() >= Some(0.99),
            "{guest}: {join:#}"
        );
        assert!(
            join["by_chance_share"]
                .as_f64()
                .is_some_and(|share| share < 0.3),
            "{guest}: {join:#}"
        );
        assert_eq!(join["cpus"].as_array().unwrap().len(), 2, "{guest}");
        for cpu in join["cpus"].as_array().unwrap() {
            assert_eq!(cpu["cpu"], cpu["vcpu"], "{guest}");
        }
        // The price of an exit is that of the match, unless it is given; --vm selects the VM.
        assert_eq!(view["basis"]["exit_cpu_ns"], join["exit_ns"]);
        assert!(join["exit_ns"].as_u64() > Some(0), "{guest}: {join:#}");
        assert_eq!(view["basis"]["exit_cpu_source"], "joined");
        let given = joined(guest, &["--exit-cpu", "3us", "--vm", "web2"]);
        assert_eq!(given["basis"]["exit_cpu_ns"], 3_000);
        assert_eq!(given["join"]["vm"], "web2", "{guest}");
        offsets.push(join["clock_offset_ns"].as_i64().unwrap());
    }
    // One clock in the guest, one in the host.
    assert!((offsets[0] - offsets[1]).abs() < 200_000, "{offsets:?}");
}

#[test]
fn the_page_says_how_well_they_match() {
    let (text, code) = haltwise(&home(), &["tune", "recorded/joined-guest", "--host", HOST]);
    assert_eq!(code, Some(0));
    compare("recorded/joined.txt", &text).unwrap();
}

/// menu chooses HLT nearly always, in the recording and in its replay. They are not the same periods that poll: the
/// governor looks at the next timer before the way to HLT, and the capture has what is left at its end (docs/guest.md).
#[test]
fn menu_chooses_hlt_about_as_often_as_its_replay_says() {
    let all = ["tune", "recorded/joined-menu", "--json", "--policy", "menu"];
    let replayed: Value = serde_json::from_str(&haltwise(&home(), &all).0).unwrap();
    let of = &replayed["host"];
    let share = |polls: &Value| polls["polls"].as_f64().unwrap() / of["halts"].as_f64().unwrap();
    let (recorded, played) = (share(&of["recorded"]), share(&of["played"][0]["from_zero"]));
    assert!((recorded - played).abs() < 0.03, "{recorded} {played}");
    assert!(recorded > 0.0 && recorded < 0.1, "{recorded}");
}
