//! The page of `report --html`, of every kind of capture: what is in the file, and what a browser makes
//! of it.
//!
//! The browser is Chromium, driven by `tests/page/browser.mjs`; what that needs comes by
//! `tools/setup`. Where something of it is missing the test says so. Pages and screenshots stay in the
//! build directory, to be looked at.

mod hour;
mod long_names;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use haltwise_capture::info::CaptureInfo;
use haltwise_core::event::Observable;
use haltwise_core::recording::Mode;

use super::scenarios::Scenario;
use super::{exits, home, many, profile, ran, sample, scenarios, write};

/// A host of so many VMs.
fn info_of_vms(count: u32, name: impl Fn(u32) -> String) -> CaptureInfo {
    let fleet = scenarios::named("fleet");
    let mut info = super::info_of(&fleet);
    info.roster.vcpus.clear();
    let template = info.roster.vms.remove(0);
    let vm = |vm: u32| {
        let mut one = template.clone();
        (one.index.0, one.key.pid.0) = (vm, 5_000 + vm);
        one.observable = Observable::Yes;
        one.name = name(vm);
        one
    };
    info.roster.vms = (0..count).map(vm).collect();
    info
}

/// The most that a file may take.
const MOST_BYTES: u64 = 2_000_000;

const ALWAYS: [&str; 3] = ["found", "findings", "quality"];

/// Sections of a page whose halts can be played.
const PLAYED: [&str; 4] = ["account", "vms", "timeline", "whatif"];

/// A page: its name, and the sections that it must have.
struct Page {
    name: String,
    sections: Vec<&'static str>,
}

fn out() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("page")
}

/// Makes a page; `more` are words of the command line.
fn make(capture: &Path, name: &str, more: &[&str]) {
    let file = out().join(format!("{name}.html"));
    let output = Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(["report", "--html"])
        .arg(&file)
        .arg(capture)
        .args(more)
        .current_dir(home())
        .output()
        .unwrap();
    let code = output.status.code();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(code, Some(0 | 5)), "{name}: {said}");
    assert!(output.stdout.is_empty(), "stdout is for results");
    assert!(said.starts_with("Wrote ") && said.contains(" kB"), "{said}");
}

fn page(name: &str, sections: &[&'static str]) -> Page {
    Page {
        name: name.to_owned(),
        sections: ALWAYS.iter().chain(sections).copied().collect(),
    }
}

/// A page that is to be made: of which capture, and with which words.
struct Wish {
    page: Page,
    capture: PathBuf,
    more: Vec<String>,
}

fn pages() -> &'static [Page] {
    static PAGES: OnceLock<Vec<Page>> = OnceLock::new();
    PAGES.get_or_init(|| {
        if out().exists() {
            fs::remove_dir_all(out()).unwrap();
        }
        fs::create_dir_all(out()).unwrap();
        let captures = tempfile::tempdir().unwrap();
        let wishes = wishes(captures.path());
        // Some take a while: a thread for each CPU takes what is next.
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(wish) = wishes.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let more: Vec<&str> = wish.more.iter().map(String::as_str).collect();
                        make(&wish.capture, &wish.page.name, &more);
                    }
                });
            }
        });
        wishes.into_iter().map(|wish| wish.page).collect()
    })
}

/// Every page, those that take longest first; captures that are not kept are written to `dir`.
fn wishes(dir: &Path) -> Vec<Wish> {
    let at = |name: &str| dir.join(name);
    many::write(&at("crowd"));
    long_names::write(&at("long-names"));
    exits::write(&at("exits"), "vmx");
    let text = sample("ftrace_tgid.txt").display().to_string();
    let import = [
        "import", "-o", "imported", "--kernel", "6.18", "--max", "200us",
    ];
    assert_eq!(ran(dir, &[&import[..], &[&text]].concat()).0, 0);
    exits::write(&at("software"), "returns");
    profile::write(&at("profile"), "fleet", true, false);
    later(&at("later"));
    let later = at("later").display().to_string();
    let (with_exits, with_profile) = (
        ["account", "vms", "timeline", "whatif", "exits"],
        ["account", "vms", "timeline", "whatif", "exits", "profile"],
    );
    let wish = |name: &str, capture: PathBuf, more: &[&str], sections: &[&'static str]| Wish {
        page: page(name, sections),
        capture,
        more: more.iter().map(ToString::to_string).collect(),
    };
    let mut wishes = vec![
        wish("crowd", at("crowd"), &[], &PLAYED),
        wish("long-names", at("long-names"), &[], &PLAYED),
        wish("imported", at("imported"), &[], &PLAYED),
        wish("exits", at("exits"), &[], &with_exits),
        wish("software", at("software"), &[], &with_exits),
        wish(
            "in-guest",
            home().join("recorded/inside"),
            &[],
            &["account", "vms", "timeline"],
        ),
        wish("profile", at("profile"), &[], &with_profile),
        wish(
            "against",
            home().join("captures/transactional"),
            &[
                "--against",
                "captures/bursty",
                "--proof",
                "prove/better.json",
                "--ledger",
                "prove/ledger.jsonl",
            ],
            &["account", "vms", "timeline", "whatif", "prediction", "diff"],
        ),
        wish(
            "one-vm",
            home().join("captures/fleet"),
            &["--vm", "web-1"],
            &PLAYED,
        ),
        wish(
            "one-vm-against",
            home().join("captures/fleet"),
            &["--vm", DB, "--against", &later],
            &["account", "vms", "timeline", "whatif", "diff"],
        ),
    ];
    wishes.extend(scenarios::all().iter().map(of_golden));
    wishes
}

/// The process of the VM `db` in the capture `fleet`.
const DB: &str = "4811";

/// The fleet after each VM was started again: what was the process of `db` is another's now, and `db` comes
/// last.
fn later(dir: &Path) {
    let mut fleet = scenarios::named("fleet");
    let mut keys: Vec<_> = fleet.roster.vms.iter().map(|vm| vm.key).collect();
    keys.rotate_left(2);
    for (vm, key) in fleet.roster.vms.iter_mut().zip(keys) {
        vm.key = key;
    }
    write(fleet, dir);
}

fn of_golden(scenario: &Scenario) -> Wish {
    let name = scenario.name;
    let sections: &[&str] = match scenario.mode {
        _ if scenario.facts.halts.is_empty() && scenario.facts.counts.is_empty() => {
            &["account", "vms"]
        }
        // Histograms: what-if says why it is empty.
        Mode::Counts | Mode::Stats => &["account", "vms", "whatif"],
        Mode::Full => &PLAYED,
    };
    Wish {
        page: page(name, sections),
        capture: home().join("captures").join(name),
        more: Vec::new(),
    }
}

fn read(page: &Page) -> String {
    fs::read_to_string(out().join(format!("{}.html", page.name))).unwrap()
}

/// Texts between each occurrence of `before` and the next `after`.
fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = text.split(before).skip(1);
    parts.filter_map(move |part| part.split(after).next())
}

#[test]
fn every_page_has_its_sections_and_stays_small() {
    for page in pages() {
        let html = read(page);
        assert!(
            html.len() as u64 <= MOST_BYTES,
            "{}: {}",
            page.name,
            html.len()
        );
        for id in &page.sections {
            let is_there = html.contains(&format!("<section id=\"{id}\""));
            assert!(is_there, "{}: no section {id}", page.name);
        }
    }
}

#[test]
fn links_lead_somewhere_and_no_name_is_given_twice() {
    for page in pages() {
        let html = read(page);
        let (body, _) = html
            .split_once("<script type=\"application/json\"")
            .unwrap();
        let mut ids = BTreeSet::new();
        for id in between(body, " id=\"", "\"") {
            assert!(ids.insert(id), "{}: two of {id}", page.name);
        }
        for link in between(body, "href=\"#", "\"") {
            assert!(ids.contains(link), "{}: no {link}", page.name);
        }
    }
}

#[test]
fn a_page_asks_for_nothing_and_holds_no_strangers_markup() {
    for page in pages() {
        let html = read(page);
        let (body, rest) = html
            .split_once("<script type=\"application/json\" id=\"data\">")
            .unwrap();
        let (data, script) = rest.split_once("</script>").unwrap();
        assert!(!data.contains(['<', '>', '&']), "{}", page.name);
        assert!(
            !body.contains("<script"),
            "{}: a script in the body",
            page.name
        );
        assert_eq!(script.matches("<script").count(), 1, "{}", page.name);
        for word in "src=,url(,@import,style=, onerror, onclick,javascript:,<iframe,<img".split(',')
        {
            assert!(!body.contains(word), "{}: {word}", page.name);
        }
        let calls =
            "innerHTML outerHTML insertAdjacentHTML eval( fetch( XMLHttpRequest document.write";
        for word in calls.split(' ') {
            assert!(!script.contains(word), "{}: {word}", page.name);
        }
        for code in (0x202a..=0x202e).chain(0x2066..=0x2069).chain([0x1b]) {
            for steers in [format!("&#{code};"), format!("\\u{code:04x}")] {
                assert!(!html.contains(&steers), "{}: {steers}", page.name);
            }
        }
        assert!(!html.contains('\u{1b}'), "{}: an escape", page.name);
        assert!(html.is_ascii(), "{}: not ASCII", page.name);
    }
}

fn named(name: &str) -> String {
    read(pages().iter().find(|page| page.name == name).unwrap())
}

#[test]
fn the_head_counts_what_the_page_is_about() {
    for (name, facts) in [
        ("fleet", ["5 VMs", "6 vCPUs"]),
        ("one-vm", ["1 of 5 VMs", "1 vCPU"]),
    ] {
        let html = named(name);
        let head = between(&html, "<header>", "</header>").next().unwrap();
        for fact in facts {
            assert!(head.contains(&format!("<li>{fact}</li>")), "{fact}: {head}");
        }
    }
    let halts = |name| {
        let html = named(name);
        let facts: Vec<String> = between(&html, "<li>", "</li>").map(str::to_owned).collect();
        facts.into_iter().find(|fact| fact.ends_with(" halts"))
    };
    assert_ne!(halts("fleet"), halts("one-vm"));
}

#[test]
fn where_no_exit_was_seen_it_says_what_stands_for_them() {
    let html = named("software");
    let section = between(&html, "<section id=\"exits\"", "</section>").next();
    let section = section.unwrap();
    for words in [
        "The tracepoint kvm_exit did not fire.",
        "Counted: 0 entries, ",
        "Returns to the VMM</summary>",
    ] {
        assert!(section.contains(words), "{words}: {section}");
    }
    assert!(!section.contains("Exits by reason"), "{section}");
}

#[test]
fn one_vm_is_compared_with_its_namesake() {
    let html = named("one-vm-against");
    let section = between(&html, "<section id=\"diff\"", "</section>").next();
    let section = section.unwrap();
    let whose = "All figures are for VM <bdi class=\"name\">db</bdi>.";
    assert!(section.contains(whose), "{section}");
    // It is the same load: what differs is who.
    assert!(section.contains("0 of "), "{section}");
    for other in ["web-1", "late", "haltpoll", "pinned"] {
        assert!(!section.contains(&format!(">{other}<")), "{other}");
    }
}

/// For `bench/reading.py page`: where to, and how many halts, comes by the environment.
#[test]
#[ignore = "makes what a benchmark looks at"]
fn an_hour_of_ten_vms() {
    let told = |name: &str| std::env::var(name).unwrap_or_default();
    let dir = PathBuf::from(told("HALTWISE_PAGE_DIR"));
    let halts = told("HALTWISE_PAGE_HALTS").parse().unwrap();
    let capture = dir.join("hour");
    if capture.exists() {
        fs::remove_dir_all(&capture).unwrap();
    }
    hour::write(&capture, halts);
    let made = Command::new(env!("CARGO_BIN_EXE_haltwise"))
        .args(["report", "--html"])
        .arg(dir.join("hour.html"))
        .arg(&capture)
        .status()
        .unwrap();
    assert!(made.success());
    fs::remove_dir_all(&capture).unwrap();
}

/// Missing requirement of a browser test.
fn missing() -> Option<&'static str> {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/node_modules");
    match () {
        () if !runs("node") => Some("node is not installed"),
        () if !runs("chromium") => Some("chromium is not installed"),
        () if !modules.join("puppeteer-core").exists() => {
            Some("tests/page has no node_modules (tools/setup)")
        }
        () if !modules.join("axe-core").exists() => Some("tests/page lacks axe-core (tools/setup)"),
        () => None,
    }
}

/// Has a browser look at these pages: sections, links, keys, sizes, contrast, and figures of what-if.
#[expect(clippy::print_stdout, reason = "what is skipped is said")]
fn look_at(is_wanted: impl Fn(&str) -> bool) {
    if let Some(reason) = missing() {
        println!("skipped: {reason}, so no page was looked at in a browser");
        return;
    }
    let wanted = pages().iter().filter(|page| is_wanted(&page.name));
    let list =
        wanted.map(|page| serde_json::json!({ "name": page.name, "sections": page.sections }));
    let list: Vec<_> = list.collect();
    fs::write(out().join("pages.json"), serde_json::to_vec(&list).unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/browser.mjs");
    let output = Command::new("node")
        .arg(script)
        .arg(out())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "\n{said}\n{complaints}");
    let pages = format!("{} pages are well", list.len());
    assert!(said.contains(&pages), "\n{said}\n{complaints}");
}

#[test]
fn a_browser_shows_pages_and_the_sliders_give_cores_numbers() {
    look_at(|name| ["profile", "against", "long-names", "in-guest", "fleet"].contains(&name));
}

#[test]
#[ignore = "long: make test-long"]
fn a_browser_shows_every_page() {
    look_at(|_| true);
}
