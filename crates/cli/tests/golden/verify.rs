//! `haltwise verify` on the captures, and on what cannot be verified.

use std::fmt::Write;
use std::path::Path;

use haltwise_core::kvm::{Arch, Knobs, Observed, Rule, Version};
use serde_json::Value;

use super::{haltwise, home, prints, ran};

/// Capture, options, and what the text is kept as.
const CASES: [(&str, &[&str], &str); 5] = [
    // Its guest had a shrink of 0 all along, and its host says 2.
    ("bursty", &[], "verify.txt"),
    ("bursty", &["--json"], "verify.json"),
    ("bursty", &["--shrink", "0"], "verify-told.txt"),
    ("tracepoints", &[], "verify.txt"),
    ("transactional", &[], "verify.txt"),
];

#[test]
fn results_are_as_committed() {
    let home = home();
    let mut wrong = String::new();
    for (name, options, file) in CASES {
        let capture = format!("captures/{name}");
        let arguments = [&["verify", &capture], options].concat();
        wrong += &prints(&home, &format!("{name}/{file}"), &arguments);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn verify(home: &Path, arguments: &[&str]) -> (i32, String, String) {
    ran(home, &[&["verify"], arguments].concat())
}

#[test]
fn a_wrong_setting_differs() {
    let home = home();
    for wrong in ["--grow 3", "--shrink 7", "--cap 100us", "--grow-start 11us"] {
        let line = format!("captures/transactional --json {wrong}");
        let (code, out, _) = verify(&home, &line.split(' ').collect::<Vec<_>>());
        let result: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(code, 1, "{wrong}");
        assert!(result["differences"].as_u64() > Some(0), "{wrong}: {out}");
    }
}

fn copy_of(capture: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(capture).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

#[test]
fn an_unreadable_table_of_calls_is_told_and_the_halts_stand_for_it() {
    let home = home();
    let dir = copy_of(&home.join("captures/transactional"));
    std::fs::write(dir.path().join("window_changes.parquet"), "PAR1 no more").unwrap();
    let (code, out, _) = verify(dir.path(), &["."]);
    assert_eq!(code, 5, "{out}");
    assert!(out.contains("window_changes cannot be read"), "{out}");
    assert!(out.contains("calls of grow or shrink are missing"), "{out}");
}

/// Text of other tools, taken on hosts whose KVM had its default settings.
#[test]
fn imported_text_matches() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/import/samples");
    let dir = tempfile::tempdir().unwrap();
    let mut checked = 0;
    for entry in std::fs::read_dir(samples).unwrap() {
        let sample = entry.unwrap().path();
        if sample.extension().is_none_or(|name| name != "txt") {
            continue;
        }
        let name = sample.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = sample.to_str().unwrap();
        let (code, ..) = ran(dir.path(), &["import", text, "-o", &name]);
        assert!(matches!(code, 0 | 5), "{name}");
        let arguments = [&name, "--json", "--kernel", "6.18", "--max", "200us"];
        let (_, out, error) = verify(dir.path(), &arguments);
        let result: Value = serde_json::from_str(&out).expect(&error);
        assert_eq!(result["differences"], 0, "{name}: {out}");
        checked += result["checked"].as_u64().unwrap();
    }
    assert!(checked > 300, "{checked}");
}

#[test]
fn what_the_kernel_of_imported_text_carries_is_kept_in_the_capture() {
    let text = "../capture/tests/import/samples/trace_cmd.txt";
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join(text);
    let dir = tempfile::tempdir().unwrap();
    for (kernel, is_open) in [("5.10.0-32-amd64", true), ("6.12.1", false)] {
        let import = ["import", "--max", "200us", "--kernel", kernel, "-o", kernel];
        let (code, ..) = ran(
            dir.path(),
            &[&import[..], &[text.to_str().unwrap()]].concat(),
        );
        assert!(matches!(code, 0 | 5), "{kernel}");
        let json = std::fs::read_to_string(dir.path().join(kernel).join("capture.json"));
        let json: Value = serde_json::from_str(&json.unwrap()).unwrap();
        assert_eq!(json["carried"]["backports"].is_array(), is_open, "{kernel}");
    }
}

/// Without polling KVM never calls grow or shrink, and nothing else tells a window.
#[test]
fn under_a_ceiling_of_zero_halts_are_checked_without_any_call() {
    let dir = tempfile::tempdir().unwrap();
    let line = |(at, ns)| {
        format!(
            "       CPU 0/KVM-4201    (   4190) [000] d..1.     5.000{at}: kvm_vcpu_wakeup: wait time \
             {ns} ns, polling valid\n"
        )
    };
    let text: String = [(100, 50_000), (400, 250_000), (500, 900)]
        .map(line)
        .concat();
    std::fs::write(dir.path().join("text"), text).unwrap();
    for (name, import, options) in [
        ("told", &["--max", "0"][..], &[][..]),
        ("asked", &[], &["--max", "0"]),
        ("capped", &["--max", "200us"], &["--cap", "0"]),
    ] {
        let arguments = [&["import", "text", "-o", name, "--kernel", "6.12"], import].concat();
        assert_eq!(ran(dir.path(), &arguments).0, 0, "{name}");
        let (code, out, error) = verify(dir.path(), &[&[name, "--json"], options].concat());
        let result: Value = serde_json::from_str(&out).expect(&error);
        assert_eq!(
            (code, &result["checked"], &result["matched"]),
            (0, &3.into(), &3.into())
        );
    }
    let (code, _, error) = verify(dir.path(), &["asked"]);
    assert_eq!(code, 1);
    assert!(
        error.contains("kvm_halt_poll_ns must have been recorded"),
        "{error}"
    );
}

/// A recorded capture as if a stable 5.10 had made it: its halts follow the rule of a later kernel.
#[test]
fn what_a_stable_kernel_carries_is_found_and_used_by_every_verb() {
    let home = home();
    let dir = copy_of(&home.join("captures/transactional"));
    let info = dir.path().join("capture.json");
    let text = std::fs::read_to_string(&info).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    json["host"]["kernel_release"] = "5.10.0-32-amd64".into();
    // Its checksum is that of the text before the edit.
    json.as_object_mut().unwrap().remove("crc32");
    std::fs::write(&info, json.to_string()).unwrap();

    let (code, out, error) = verify(dir.path(), &[".", "--json"]);
    let result: Value = serde_json::from_str(&out).expect(&error);
    let rule = &result["rule"];
    assert_eq!((code, &result["differences"]), (0, &0.into()), "{out}");
    assert_eq!(
        (&rule["kernel"], &rule["backports_found"]),
        (&"5.10".into(), &true.into())
    );
    let carried = rule["backports"].as_array().unwrap();
    assert!(carried.contains(&"live-ceiling".into()), "{rule}");
    assert!(rule["differences_upstream"].as_u64().unwrap() > 0, "{rule}");
    let (_, text, _) = verify(dir.path(), &["."]);
    assert!(text.contains("detected from"), "{text}");

    // Told, they are taken as told.
    let (code, out, _) = verify(dir.path(), &[".", "--json", "--backport", "shrink-floor"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["rule"]["backports_found"]), (1, &false.into()));

    let names: Vec<&str> = carried.iter().filter_map(Value::as_str).collect();
    same_kernel_by_every_verb(dir.path(), &names);

    // Kept in the capture, it is taken from there.
    json["carried"] = serde_json::json!({
        "backports": ["shrink-floor"], "equally": [], "undecided": [],
        "differences_upstream": 77, "differences": 0,
    });
    std::fs::write(&info, json.to_string()).unwrap();
    same_kernel_by_every_verb(dir.path(), &["shrink-floor"]);
    let (_, out, _) = verify(dir.path(), &[".", "--json"]);
    let kept: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(kept["rule"]["differences_upstream"], 77);
    // A backport that a newer writer found is unknown here: backports are detected again.
    json["carried"]["backports"] = serde_json::json!(["of-tomorrow"]);
    std::fs::write(&info, json.to_string()).unwrap();
    same_kernel_by_every_verb(dir.path(), &names);
}

/// Tracer output for one vCPU of a kernel: each halt, and the call that the halt made.
fn traced(kernel: &str, cap: u32, lengths: &[u64]) -> String {
    let kernel: Version = kernel.parse().unwrap();
    let rule = Rule::of(kernel, Arch::X86);
    let knobs = Knobs {
        shrink: 2,
        ..Knobs::defaults(kernel, Arch::X86)
    };
    let (mut text, mut window, mut now) = (String::new(), 0, 5_000_000);
    for &halt_ns in lengths {
        let entry = rule.entry(window, cap);
        let step = rule.after(&knobs, cap, entry, Observed::valid(halt_ns));
        window = step.window;
        now += halt_ns / 1000 + 20;
        let (seconds, micros) = (now / 1_000_000, now % 1_000_000);
        let head =
            format!("       CPU 0/KVM-4201    (   4190) [000] d..1.     {seconds}.{micros:06}: ");
        if let Some(call) = step.call {
            let how = if call.grow { "grow" } else { "shrink" };
            let (new, old) = (call.new, call.old);
            writeln!(
                text,
                "{head}kvm_halt_poll_ns: vcpu 0: halt_poll_ns {new} ({how} {old})"
            )
            .unwrap();
        }
        let how = if halt_ns > entry.into() {
            "wait"
        } else {
            "poll"
        };
        writeln!(
            text,
            "{head}kvm_vcpu_wakeup: {how} time {halt_ns} ns, polling valid"
        )
        .unwrap();
    }
    text
}

/// Imports the text beside it as recorded on a kernel of this release.
fn import_traced(dir: &Path, name: &str, release: &str, more: &[&str]) {
    let import = ["import", "text", "-o", name, "--kernel", release];
    let knobs = ["--max", "200us", "--shrink", "2"];
    let (said, code) = haltwise(dir, &[&import[..], &knobs, more].concat());
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_distributors_kernel_is_assumed_to_be_upstreams_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let text = traced("4.19", 200_000, &[[150_000; 8], [900_000; 8]].concat());
    std::fs::write(dir.path().join("text"), text).unwrap();
    import_traced(dir.path(), "euler", "4.19.90-2112.8.0.oe1.x86_64", &[]);
    let (code, text, _) = verify(dir.path(), &["euler"]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "kernel: Linux 4.19 of openEuler: upstream's algorithm of 4.19 is assumed; verified on 12 of 12 calls";
    assert_eq!((code, words.contains(said)), (0, true), "{text}");
    // For a kernel other than the recorded one, nothing is known.
    let (_, text, _) = verify(dir.path(), &["euler", "--kernel", "5.0"]);
    assert!(!text.contains("openEuler"), "{text}");
}

/// Debian's 5.10.0-32 carries the shrink floor and the VM's own ceiling of growth; neither alone explains it.
#[test]
fn two_changes_of_a_stable_kernel_are_found_together() {
    let dir = tempfile::tempdir().unwrap();
    let lengths = [[450_000; 8], [900_000; 8]].concat().repeat(8);
    let carried = "growth-cap+shrink-floor";
    let text = traced(&format!("5.10+{carried}"), 500_000, &lengths);
    std::fs::write(dir.path().join("text"), text).unwrap();
    import_traced(dir.path(), "stable", "5.10.0-32-amd64", &["--cap", "500us"]);
    let wrong = prints(dir.path(), "stable/verify.txt", &["verify", "stable"]);
    assert!(wrong.is_empty(), "\n{wrong}");
    let names: Vec<&str> = carried.split('+').collect();
    same_kernel_by_every_verb(&dir.path().join("stable"), &names);
    let (_, out, _) = verify(
        dir.path(),
        &["stable", "--json", "--backport", "shrink-floor"],
    );
    let one: Value = serde_json::from_str(&out).unwrap();
    assert!(one["differences"].as_u64().unwrap() > 0, "{out}");
}

fn same_kernel_by_every_verb(dir: &Path, carried: &[&str]) {
    let kernel = format!("5.10+{}", carried.join("+"));
    for policy in [&["--policy", "usual"][..], &[]] {
        let words = ["tune", ".", "--json", "--wake-latency", "30us"];
        let (out, _) = haltwise(dir, &[&words, policy].concat());
        let json: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(json["basis"]["kernel"], kernel, "{policy:?}");
    }
}
