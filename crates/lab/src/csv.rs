//! Rounds and halts as CSV.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use haltwise_lab::run::Finished;

pub(crate) fn rounds(path: &Path, finished: &Finished) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "vm,vcpu,round,gap_ns,signal_ns,woke_ns,answer_ns")?;
    for (vm, vcpus) in finished.rounds.iter().enumerate() {
        for (vcpu, rounds) in vcpus.iter().enumerate() {
            for (index, round) in rounds.rounds.iter().enumerate() {
                let (gap, signal, answer) = (round.gap_ns, round.signal_ns, round.answer_ns);
                let woke = rounds
                    .woke_ns(round)
                    .map_or(String::new(), |ns| ns.to_string());
                writeln!(file, "{vm},{vcpu},{index},{gap},{signal},{woke},{answer}")?;
            }
        }
    }
    Ok(file.flush()?)
}

pub(crate) fn halts(path: &Path, finished: &Finished) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(
        file,
        "vm,vcpu,start_ns,window_ns,halt_ns,poll_ns,wake_latency_ns,waited"
    )?;
    for (vm, vcpus) in finished.halts.iter().enumerate() {
        for (vcpu, halts) in vcpus.iter().enumerate() {
            for halt in halts {
                let (start, window, length) = (halt.start_ns, halt.window_ns, halt.halt_ns);
                let (poll, latency, waited) = (halt.poll_ns, halt.wake_latency_ns, halt.waited);
                writeln!(
                    file,
                    "{vm},{vcpu},{start},{window},{length},{poll},{latency},{waited}"
                )?;
            }
        }
    }
    Ok(file.flush()?)
}
