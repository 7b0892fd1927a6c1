//! How often an attack is tried, and what came of it: one line for each, in every driver of attacks.

/// So often, if `HALTWISE_TRIES` does not say otherwise.
pub(crate) fn tries(in_the_gate: u64) -> u64 {
    let wanted = std::env::var("HALTWISE_TRIES").ok();
    wanted.map_or(in_the_gate, |n| n.parse().unwrap())
}

/// Says it, and fails where anything did.
#[expect(clippy::print_stdout, reason = "the figures of the attack")]
pub(crate) fn judge(attack: &str, tries: u64, failures: &[String]) {
    println!("{attack}: {tries} tries, {} failures", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
