//! An agent that a made-up VMM has: a thread of this process behind a socket, with files of its own in memory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haltwise_core::ids::VmKey;
use serde_json::{Value, json};

use haltwise_core::parameter::Parameter;

pub(crate) const BOOTS: [&str; 2] = [
    "0d4b3f6c-6f4a-4d4c-9a55-0f6a2b1c7e10",
    "7be1c0de-21d5-4f0e-8c3b-5a9d84e2f311",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mood {
    /// As `qemu-ga` does.
    Good,
    /// It takes everything and never answers.
    Silent,
    /// It answers rightly, each time after so long.
    Slow(Duration),
    /// It has `guest-file-*` disabled.
    Denied,
    /// It answers that it has written, and has not.
    Lying,
    /// It answers a command with these bytes.
    Says(&'static str, Vec<u8>),
}

#[derive(Debug)]
struct State {
    mood: Mood,
    values: BTreeMap<String, String>,
    asked: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct FakeAgent(Arc<Mutex<State>>);

impl FakeAgent {
    /// Listens below a made-up root, as the agent of this VM, whose command line says so.
    pub(crate) fn start(root: &Path, vm: VmKey) -> Self {
        let process = root.join(format!("proc/{}", vm.pid));
        fs::create_dir_all(&process).unwrap();
        symlink(root, process.join("root")).unwrap();
        let line = "/usr/bin/qemu-system-x86_64\0-name\0web1\0-chardev\0socket,path=/qga.sock,server=on,id=qga0\0\
                    -device\0virtserialport,chardev=qga0,name=org.qemu.guest_agent.0\0";
        fs::write(process.join("cmdline"), line).unwrap();
        let before = "0 ".repeat(18);
        let stat = format!("{} (vmm) S {before}{} 0", vm.pid, vm.start_ticks);
        fs::write(process.join("stat"), stat).unwrap();
        let listener = UnixListener::bind(root.join("qga.sock")).unwrap();
        let values = [
            (Parameter::GuestHaltPollNs, "200000\n"),
            (Parameter::GuestGrow, "2\n"),
            (Parameter::GuestAllowShrink, "Y\n"),
        ];
        let values = values.map(|(it, value)| (format!("/{}", it.path()), value.to_owned()));
        let boot = (super::BOOT_ID.to_owned(), format!("{}\n", BOOTS[0]));
        let agent = Self(Arc::new(Mutex::new(State {
            mood: Mood::Good,
            values: values.into_iter().chain([boot]).collect(),
            asked: Vec::new(),
        })));
        let serving = agent.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(&stream.unwrap()));
            }
        });
        agent
    }

    pub(crate) fn is(&self, mood: Mood) {
        self.0.lock().unwrap().mood = mood;
    }

    pub(crate) fn value(&self, parameter: Parameter) -> String {
        let values = &self.0.lock().unwrap().values;
        values[&format!("/{}", parameter.path())].trim().to_owned()
    }

    pub(crate) fn set(&self, parameter: Parameter, value: &str) {
        let path = format!("/{}", parameter.path());
        self.0.lock().unwrap().values.insert(path, value.to_owned());
    }

    /// The guest says that its boot is this one, or cannot say.
    pub(crate) fn boots(&self, boot: Option<&str>) {
        let values = &mut self.0.lock().unwrap().values;
        values.remove(super::BOOT_ID);
        let boot = boot.map(|boot| (super::BOOT_ID.to_owned(), format!("{boot}\n")));
        values.extend(boot);
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }

    fn serve(&self, mut stream: &UnixStream) {
        let mut open = BTreeMap::new();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut line = Vec::new();
        while lines
            .read_until(b'\n', &mut line)
            .is_ok_and(|read| read > 0)
        {
            let text = line.strip_prefix(b"\xff").unwrap_or(&line);
            let request: Value = serde_json::from_slice(text).unwrap();
            let mut answer = self.answer(&request, &mut open);
            if !answer.is_empty() {
                answer.push(b'\n');
            }
            if stream.write_all(&answer).is_err() {
                return;
            }
            line.clear();
        }
    }

    fn answer(&self, request: &Value, open: &mut BTreeMap<i64, (String, bool)>) -> Vec<u8> {
        let mut state = self.0.lock().unwrap();
        let command = request["execute"].as_str().unwrap().to_owned();
        let arguments = &request["arguments"];
        state.asked.push(command.clone());
        match &state.mood {
            Mood::Silent => return Vec::new(),
            Mood::Slow(time) => std::thread::sleep(*time),
            Mood::Says(of, bytes) if *of == command => return bytes.clone(),
            _ => {}
        }
        let enabled = state.mood != Mood::Denied;
        let handle = arguments["handle"].as_i64().unwrap_or_default();
        let returned = match command.as_str() {
            "guest-sync-delimited" => {
                let mut bytes = vec![0xff];
                bytes.extend(json!({"return": arguments["id"]}).to_string().bytes());
                return bytes;
            }
            "guest-info" => {
                let names = [
                    "guest-file-open",
                    "guest-file-read",
                    "guest-file-write",
                    "guest-file-close",
                ];
                let commands = names.map(
                    |name| json!({"name": name, "enabled": enabled, "success-response": true}),
                );
                json!({"version": "7.2", "supported_commands": commands})
            }
            "guest-file-open" => {
                let path = arguments["path"].as_str().unwrap().to_owned();
                if !state.values.contains_key(&path) {
                    let desc = format!(
                        "failed to open file '{path}' (mode: 'r'): No such file or directory"
                    );
                    return json!({"error": {"class": "GenericError", "desc": desc}})
                        .to_string()
                        .into_bytes();
                }
                let handle = 1_000 + i64::try_from(open.len()).unwrap();
                open.insert(handle, (path, arguments["mode"] == "w"));
                json!(handle)
            }
            "guest-file-read" => {
                let text = &state.values[&open[&handle].0];
                json!({"count": text.len(), "buf-b64": STANDARD.encode(text), "eof": true})
            }
            "guest-file-write" => {
                let (path, writes) = open[&handle].clone();
                assert!(writes);
                let bytes = STANDARD
                    .decode(arguments["buf-b64"].as_str().unwrap())
                    .unwrap();
                if state.mood != Mood::Lying {
                    state
                        .values
                        .insert(path, String::from_utf8(bytes.clone()).unwrap());
                }
                json!({"count": bytes.len(), "eof": false})
            }
            "guest-file-close" => json!({}),
            other => panic!("{other} is never asked for"),
        };
        json!({ "return": returned }).to_string().into_bytes()
    }
}
