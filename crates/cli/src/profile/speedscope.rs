//! The stacks as a file for speedscope.app (its format's version 0.0.1): a profile for each VM.
//!
//! The schema is speedscope's `file-format-schema.json`; the picture is made where the file is opened.

use std::collections::BTreeMap;

use haltwise_core::profile::Event;
use haltwise_core::profile::tree::{Node, Step};
use serde_json::{Value, json};

/// The file. `root` is the tree of all samples: VM, thread, exit, frames.
pub(crate) fn render(root: &Node, event: Event, name: &str) -> Value {
    let mut frames = Frames::default();
    let profiles: Vec<Value> = root
        .children
        .iter()
        .map(|vm| profile(vm, event, &mut frames))
        .collect();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("haltwise ", env!("CARGO_PKG_VERSION")),
        "name": name,
        "activeProfileIndex": 0,
        "shared": { "frames": frames.list },
        "profiles": profiles,
    })
}

/// Frames, each once.
#[derive(Debug, Default)]
struct Frames {
    list: Vec<Value>,
    known: BTreeMap<(String, String), usize>,
}

impl Frames {
    fn number(&mut self, step: &Step) -> usize {
        let key = (step.name.clone(), step.module.clone());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let number = self.list.len();
        self.list.push(if step.module.is_empty() {
            json!({ "name": step.name })
        } else {
            json!({ "name": step.name, "file": step.module })
        });
        self.known.insert(key, number);
        number
    }
}

fn profile(vm: &Node, event: Event, frames: &mut Frames) -> Value {
    let mut samples = Vec::new();
    let mut weights = Vec::new();
    let mut path = Vec::new();
    for thread in &vm.children {
        walk(thread, frames, &mut path, &mut samples, &mut weights);
    }
    // The only unit of ours that speedscope knows.
    let unit = match event {
        Event::CpuClock => "nanoseconds",
        _ => "none",
    };
    json!({
        "type": "sampled",
        "name": vm.step.name,
        "unit": unit,
        "startValue": 0,
        "endValue": vm.all.weight,
        "samples": samples,
        "weights": weights,
    })
}

/// A node's own samples and those behind it. A tree is no deeper than the stacks that are kept.
fn walk(
    node: &Node,
    frames: &mut Frames,
    path: &mut Vec<usize>,
    samples: &mut Vec<Vec<usize>>,
    weights: &mut Vec<u64>,
) {
    path.push(frames.number(&node.step));
    if node.own.samples > 0 {
        samples.push(path.clone());
        weights.push(node.own.weight);
    }
    for child in &node.children {
        walk(child, frames, path, samples, weights);
    }
    path.pop();
}
