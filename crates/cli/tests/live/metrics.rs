//! `haltwise metrics` on real VMs: what it serves against the lab's own counts, and in the hands of a real Prometheus
//! with the rules and the dashboard of contrib/.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::bench::{Bench, Running, haltwise, told, until, until_so};
use crate::counted::{Counted, counted};
use crate::pilot::{PARAMETERS, Scene};

/// An exporter that serves, and where.
struct Exporter {
    running: Running,
    address: SocketAddr,
}

fn exporter(options: &[&str]) -> Exporter {
    let mut running = Running::start(
        Command::new(haltwise())
            .args(["metrics", "--listen", "127.0.0.1:0", "--interval", "200ms"])
            .args(options)
            .stderr(Stdio::piped()),
    );
    let mut said = BufReader::new(running.stderr());
    let mut address = None;
    while address.is_none() {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
        let url = line.split_once("http://").map(|(_, rest)| rest);
        address = url.and_then(|url| url.split_once('/')?.0.parse().ok());
    }
    // It writes nothing more, but a closed pipe would end it.
    std::thread::spawn(move || drop(said.read_to_end(&mut Vec::new())));
    Exporter {
        running,
        address: address.unwrap(),
    }
}

fn answer(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str, accept: &str) -> String {
    let (head, body) = answer(address, path, accept);
    assert!(head.contains(" 200 "), "{path}: {head}\n{body}");
    body
}

fn sample(text: &str, name: &str, vm: &str) -> Option<String> {
    let label = format!("vm=\"{vm}\"");
    let mut lines = text.lines();
    let line = lines.find(|it| {
        it.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('{'))
            && it.contains(&label)
    })?;
    Some(line.rsplit_once(' ')?.1.to_owned())
}

#[test]
fn the_lab_s_halts_are_served_to_the_unit() {
    let Some(bench) = Bench::set_up() else { return };
    let serving = exporter(&[]);
    let line = "pingpong --duration 1s --gap bimodal:0.7:20us:2ms --name scraped";
    let counted = counted(&bench.lab_ran(line));
    let sum = |of: fn(&Counted) -> u64| counted.iter().map(of).sum::<u64>().to_string();
    let successful = sum(|vcpu| vcpu.successful);
    let all = [
        ("haltwise_vm_polls_total", sum(|vcpu| vcpu.attempted)),
        ("haltwise_vm_successful_polls_total", successful),
        ("haltwise_vm_sleeps_total", sum(|vcpu| vcpu.waits)),
    ];
    // The VM has ended; the last of its counts come with the intervals that follow.
    let text = until("all counts", || {
        let text = get(serving.address, "/metrics", "");
        let is_there =
            |(name, of): &(&str, String)| sample(&text, name, "scraped").as_ref() == Some(of);
        all.iter().all(is_there).then_some(text)
    });
    let of = |name: &str| sample(&text, name, "scraped").unwrap();
    let failed_ns = sum(|vcpu| vcpu.fail_ns).parse::<f64>().unwrap();
    let served = of("haltwise_vm_poll_fail_seconds_total");
    let served = served.parse::<f64>().unwrap();
    assert!(
        (served * 1e9 - failed_ns).abs() < 1.0,
        "{served} s, {failed_ns} ns"
    );
    assert!(text.contains("haltwise_exporter_cpu_seconds_total "));
    let open = get(serving.address, "/metrics", "application/openmetrics-text");
    assert!(open.ends_with("# EOF\n"), "{open}");
    let ended = serving.running.end(Signal::TERM);
    assert!(ended.status.success(), "{}", told(&ended));
}

#[test]
fn a_slow_or_large_request_keeps_nobody_else_from_metrics() {
    let Some(_bench) = Bench::set_up() else {
        return;
    };
    let serving = exporter(&[]);
    let slow: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(serving.address).unwrap();
            stream.write_all(b"GET /met").unwrap();
            stream
        })
        .collect();
    assert!(get(serving.address, "/metrics", "").contains("haltwise_build_info{"));
    let mut large = TcpStream::connect(serving.address).unwrap();
    // It may be closed before all is written.
    let _ = large.write_all("GET /metrics HTTP/1.1\r\nX: ".as_bytes());
    let _ = large.write_all(&vec![b'x'; 20_000]);
    let mut answer = Vec::new();
    let _ = large.read_to_end(&mut answer);
    until_so("a refusal is counted", || {
        let text = get(serving.address, "/metrics", "");
        let refused = "haltwise_exporter_refused_requests_total ";
        let line = text.lines().find_map(|line| line.strip_prefix(refused));
        line.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count > 0))
    });
    drop(slow);
}

#[test]
fn a_unix_socket_and_a_file_are_served_and_removed() {
    let Some(bench) = Bench::set_up() else { return };
    let (socket, file) = (bench.path("socket"), bench.path("haltwise.prom"));
    let running = Running::start(
        Command::new(haltwise())
            .args(["metrics", "--interval", "200ms", "--listen"])
            .arg(format!("unix:{}", socket.display()))
            .arg("--textfile")
            .arg(&file)
            .stderr(Stdio::null()),
    );
    let text = until("the file", || fs::read_to_string(&file).ok());
    assert!(text.contains("haltwise_build_info{"));
    let mut stream = until("the socket", || UnixStream::connect(&socket).ok());
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("haltwise_build_info{"), "{answer}");
    let ended = running.end(Signal::TERM);
    assert!(ended.status.success(), "{}", told(&ended));
    assert!(!file.exists() && !socket.exists());
}

fn contrib(file: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("contrib").join(file).canonicalize().unwrap()
}

/// A Prometheus that scrapes these and has our rules, and where it is asked.
fn prometheus(bench: &Bench, scraped: &[SocketAddr]) -> Option<(Running, SocketAddr)> {
    let rules = contrib("prometheus/haltwise.rules.yml");
    let targets: Vec<String> = scraped.iter().map(|it| format!("\"{it}\"")).collect();
    let config = format!(
        "global: {{ scrape_interval: 500ms, evaluation_interval: 500ms }}\n\
         rule_files: [\"{}\"]\n\
         scrape_configs:\n  - job_name: haltwise\n    static_configs: [{{ targets: [{}] }}]\n",
        rules.display(),
        targets.join(", ")
    );
    let path = bench.path("prometheus.yml");
    fs::write(&path, config).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let mut program = Command::new("prometheus");
    program
        .arg(format!("--config.file={}", path.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            bench.path("tsdb").display()
        ))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let checked = Command::new("promtool")
        .args(["check", "config"])
        .arg(&path)
        .output();
    match checked {
        Ok(checked) => assert!(checked.status.success(), "{}", told(&checked)),
        Err(error) => {
            println!("skipped: promtool cannot be started (package prometheus): {error}");
            return None;
        }
    }
    let running = Running::start(&mut program);
    until_so("prometheus is ready", || {
        TcpStream::connect(address).is_ok() && answer(address, "/-/ready", "").0.contains(" 200 ")
    });
    Some((running, address))
}

fn query(prometheus: SocketAddr, expression: &str) -> Vec<Value> {
    let encoded = expression.bytes().fold(String::new(), |text, byte| {
        if byte.is_ascii_alphanumeric() {
            text + std::str::from_utf8(&[byte]).unwrap()
        } else {
            text + &format!("%{byte:02X}")
        }
    });
    let body = get(prometheus, &format!("/api/v1/query?query={encoded}"), "");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    answer["data"]["result"].as_array().unwrap().clone()
}

/// Every query of the dashboard, with its variables as Grafana fills them in.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(contrib("grafana/haltwise.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let filled = |target: &Value| {
        let text = target["expr"].as_str().unwrap();
        let text = text.replace("$instance", ".*").replace("$vm", ".*");
        text.replace("$__rate_interval", "1m")
    };
    targets.map(filled).collect()
}

/// Asks for these until each has an answer about the VM of the test.
fn answers(prometheus: SocketAddr, expressions: &[String]) {
    for expression in expressions {
        until_so(expression, || {
            let series = query(prometheus, expression);
            let is_number = |it: &Value| it["value"][1] != "NaN";
            // Other tests run VMs, too: a quantile of one that did not wake is no number.
            let is_ours =
                |it: &&Value| it["metric"]["vm"].as_str().is_none_or(|vm| vm == "watched");
            let mut ours = series.iter().filter(is_ours).peekable();
            ours.peek().is_some() && ours.all(is_number)
        });
    }
}

#[test]
#[ignore = "long: make test-long"]
fn a_real_prometheus_answers_every_panel_and_evaluates_every_rule() {
    let Some(scene) = Scene::of("watched", "pingpong --gap bimodal:0.7:20us:2ms") else {
        return;
    };
    let bench = &scene.bench;
    let serving = exporter(&[]);
    // A pilot with a setting that is kept, and trials that were measured.
    scene.left_by_an_earlier_run(true);
    scene.remember("errors", &json!([0.05, 0.1]));
    let listens = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
    scene.configure(&format!("act = true\n{PARAMETERS}{listens}"));
    let pilot = scene.daemon("");
    let Some((running, address)) = prometheus(bench, &[serving.address, pilot.address()]) else {
        return;
    };
    let all = queries();
    assert!(all.len() > 40, "{}", all.len());
    let (of_decisions, others): (Vec<String>, Vec<String>) = all
        .into_iter()
        .partition(|it| it.contains("decision_age_seconds"));
    answers(address, &others);
    scene.write(145_000);
    answers(address, &of_decisions);
    let hands_off = "haltwise_pilot_vm_state{vm=\"watched\", state=\"hands-off\"} == 1";
    let alert = "ALERTS{alertname=\"HaltwisePilotHandsOff\", vm=\"watched\"}";
    answers(address, &[hands_off, alert].map(str::to_owned));
    let up = query(address, "sum(up{job=\"haltwise\"})");
    assert_eq!(up[0]["value"][1], "2", "scrapes fail");
    until_so("the rules were evaluated", || {
        let body = get(address, "/api/v1/rules", "");
        let answer: Value = serde_json::from_str(&body).unwrap();
        let groups = answer["data"]["groups"].as_array().unwrap().iter();
        let rules: Vec<Value> = groups
            .flat_map(|group| group["rules"].as_array().unwrap().clone())
            .collect();
        assert!(rules.iter().all(|it| it["health"] != "err"), "{rules:#?}");
        !rules.is_empty() && rules.iter().all(|it| it["health"] == "ok")
    });
    for record in [
        "haltwise:host_poll_fail:cpus",
        "haltwise:vm_wake_latency_seconds:p99",
    ] {
        until_so(record, || !query(address, record).is_empty());
    }
    running.end(Signal::TERM);
}
