//! Which VMs of a capture are meant.

use anyhow::anyhow;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Roster;

use crate::exit::{Exit, Failure};
use crate::page;

/// The VMs that `--vm` means: by name, else by another of its names, else by process. Without it, all.
pub(crate) fn vms(roster: &Roster, selector: Option<&str>) -> Result<Vec<VmIndex>, Failure> {
    let all = &roster.vms;
    let pick = |is_it: &dyn Fn(&Vm) -> bool| -> Vec<_> {
        all.iter()
            .filter(|vm| is_it(vm))
            .map(|vm| vm.index)
            .collect()
    };
    let Some(selector) = selector else {
        return Ok(pick(&|_| true));
    };
    let mut picked = pick(&|vm| vm.name == selector);
    if picked.is_empty() {
        picked = pick(&|vm| vm.identity.has(selector));
    }
    if picked.is_empty() {
        picked = pick(&|vm| vm.key.pid.to_string() == selector);
    }
    if picked.is_empty() {
        let known: Vec<String> = all
            .iter()
            .map(|vm| format!("{} ({})", page::harmless(&vm.name), vm.key.pid))
            .collect();
        let error = anyhow!("no VM `{}` in this capture", page::harmless(selector));
        let hint = if known.is_empty() {
            "the capture contains no VM".to_owned()
        } else {
            format!("it holds {}", known.join(", "))
        };
        return Err(Failure::new(Exit::Usage, error).hint(hint));
    }
    Ok(picked)
}

pub(crate) fn is_among(wanted: Option<&[VmIndex]>, vm: Option<VmIndex>) -> bool {
    wanted.is_none_or(|wanted| vm.is_some_and(|vm| wanted.contains(&vm)))
}

/// The VMs of which the name, or another of their names, is like a pattern: `*` stands for any text, `?` for one
/// character.
pub(crate) fn like(roster: &Roster, pattern: &str) -> Vec<VmIndex> {
    let is_like = |vm: &&Vm| {
        let others = vm.identity.names().into_iter().filter_map(|(_, name)| name);
        let mut names = std::iter::once(&*vm.name).chain(others);
        names.any(|name| fits(name, pattern))
    };
    let vms = roster.vms.iter().filter(is_like);
    vms.map(|vm| vm.index).collect()
}

/// Whether a text is a pattern, and no VM's name.
pub(crate) fn is_pattern(roster: &Roster, text: &str) -> bool {
    text.contains(['*', '?']) && roster.vms.iter().all(|vm| vm.name != text)
}

/// Whether a text is like a pattern. Takes as many steps as one text is long times the other, at most.
pub(crate) fn fits(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut of) = (0, 0);
    // The last `*`, and what it stands for so far: if the rest does not fit, it stands for one character more.
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match pattern.get(of) {
            Some('*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(c) if *c == '?' || *c == text[at] => (at, of) = (at + 1, of + 1),
            _ => {
                let Some((before, end)) = star else {
                    return false;
                };
                star = Some((before, end + 1));
                (at, of) = (end + 1, before + 1);
            }
        }
    }
    pattern[of..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn patterns_are_like_those_of_a_shell() {
        for (pattern, like, unlike) in [
            (
                "web-*",
                &["web-", "web-1", "web-*"][..],
                &["web", "my-web-1"][..],
            ),
            ("*", &["", "x"], &[]),
            ("?", &["x", "\u{e4}"], &["", "xy"]),
            ("*-db?", &["a-db1", "a-db-db2"], &["a-db", "-db12"]),
            (
                "a*b*c",
                &["abc", "aXbYbZc", "abcbc"],
                &["ab", "acb", "abcd"],
            ),
        ] {
            let misses: Vec<_> = like.iter().filter(|text| !fits(text, pattern)).collect();
            let hits: Vec<_> = unlike.iter().filter(|text| fits(text, pattern)).collect();
            assert!(
                misses.is_empty() && hits.is_empty(),
                "{pattern}: {misses:?} {hits:?}"
            );
        }
    }
}
