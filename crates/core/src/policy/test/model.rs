//! A vCPU in few lines, to try policies on: gaps in, windows and costs out. The replay proper lives
//! elsewhere and knows more.

use super::super::*;

/// Where policies are tried: upstream 6.12 on x86, with this break-even.
pub(in crate::policy) fn setting(break_even_ns: u64) -> Setting {
    Setting::upstream(Version::new(6, 12), Arch::X86, break_even_ns)
}

pub(in crate::policy) fn build(text: &str, setting: &Setting) -> Box<dyn Policy> {
    let spec: Spec = text
        .parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    spec.build(setting)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Result of a halt under a window, on a machine that wakes after `latency_ns`.
pub(in crate::policy) fn seen(gap_ns: u64, window_ns: u64, latency_ns: u64) -> Seen {
    let waited = gap_ns > window_ns;
    let wake_latency_ns = if waited { latency_ns } else { 0 };
    Seen {
        halt_ns: gap_ns.saturating_add(wake_latency_ns),
        poll_ns: gap_ns.min(window_ns),
        wake_latency_ns,
        waited,
        valid: true,
    }
}

/// The windows of halts with these gaps, and of the one after; waking takes no time.
pub(in crate::policy) fn walk(policy: &mut dyn Policy, gaps: &[u64]) -> Vec<u64> {
    let mut windows = Vec::new();
    for gap_ns in gaps {
        let window_ns = policy.window(None);
        windows.push(window_ns);
        policy.learn(&seen(*gap_ns, window_ns, 0));
    }
    windows.push(policy.window(None));
    windows
}
