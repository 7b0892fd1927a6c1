//! Accepted and refused configurations, and the place of each refusal.

use proptest::prelude::*;

use super::*;

#[test]
fn the_file_in_the_package_is_the_default() {
    let text = include_str!("../../../../../contrib/pilot.toml");
    assert_eq!(parse(text).unwrap(), Config::default());
    assert_eq!(parse("").unwrap(), Config::default());
    // Settings that are commented out there are valid, too.
    let all: String = text
        .lines()
        .filter(|line| !line.starts_with("#weight"))
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let config = parse(&all).unwrap();
    assert_eq!(config.goals.of_vms.len(), 2);
    assert_eq!(config.goals.of_vms[1].goal, None);
    // Not the port of `haltwise metrics`, so that both can run.
    let own: Address = "127.0.0.1:9478".parse().unwrap();
    assert_eq!(config.metrics.listen, Some(own));
    assert_eq!(config.limits.max_poll_cpu_percent, Some(50.0));
}

#[test]
fn parameters_are_set_for_vms_left_alone_only_where_that_is_allowed() {
    for (text, parameters) in [
        ("", Parameters::Unshared),
        ("shared_parameters = true", Parameters::Shared),
        ("parameters = false", Parameters::Never),
        (
            "parameters = false\nshared_parameters = true",
            Parameters::Never,
        ),
    ] {
        let config = parse(&format!("[limits]\n{text}")).unwrap();
        assert_eq!(config.limits.parameters, parameters, "{text}");
    }
}

#[test]
fn a_mistake_has_its_line_and_column() {
    for (text, mistake) in [
        ("act = maybe", "1:7 "),
        (
            "goal = \"fast\"",
            "1:8 unknown goal `fast`: possible are density, balanced, latency",
        ),
        (
            "\nact = true\ngaol = \"latency\"",
            "3:1 unknown field `gaol`",
        ),
        ("goal = \"latency\"\nweight = 2", "2:10 exclude each other"),
        ("weight = -1", "1:10 from 0 to 1000000"),
        ("[[vm]]\nname = \"a\"", "1:1 goal, weight and leave_alone"),
        ("[[vm]]\ngoal = \"latency\"", "1:1 missing field `name`"),
        ("[[vm]]\nname = \"\"\ngoal = \"latency\"", "2:8 a name"),
        (
            "[limits]\nmax_ceiling_ns = 3000000",
            "2:18 from 0 to 2000000",
        ),
        (
            "[limits]\n  max_poll_cpu_percent = nan",
            "2:26 percent of one CPU",
        ),
        ("[metrics]\nlisten = \"0.0.0.0:80\"", "2:10 loopback"),
        ("[metrics]\ntextfile = \"x.prom\"", "2:12 absolute path"),
        (
            "# \u{e4}\n[metrics]\nmax_series = \"\u{e4}\"",
            "3:14 invalid type",
        ),
        ("act = true\nact = true", "2:1 duplicate key"),
    ] {
        let found = parse(text).unwrap_err().to_string();
        let (place, what) = mistake.split_once(' ').unwrap();
        let (line, column) = place.split_once(':').unwrap();
        let begins = found.starts_with(&format!("line {line}, column {column}: "));
        assert!(begins && found.contains(what), "{text}: {found}");
    }
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pilot.toml");
    std::fs::write(&path, "act = true\n").unwrap();
    let mode =
        |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o644);
    assert!(read(&path).unwrap().limits.may_act);
    mode(0o666);
    let refused = format!("{:#}", read(&path).unwrap_err().error);
    assert!(refused.contains("mode 666"), "{refused}");
    let absent = read(&dir.path().join("none.toml")).unwrap_err();
    assert!(format!("{:#}", absent.error).contains("none.toml"));
}

proptest! {
    /// Any text is read, or refused at a place within it.
    #[test]
    fn a_mistake_lies_within_the_text(text in "[a-z\\[\\]=\"\\n #.0-9ä]{0,60}") {
        if let Err(mistake) = parse(&text) {
            let mistake = mistake.to_string();
            let parts = mistake.split(|it: char| !it.is_ascii_digit());
            let mut numbers = parts.filter_map(|it| it.parse::<usize>().ok());
            let [line, column] = [numbers.next().unwrap(), numbers.next().unwrap()];
            let line = text.split('\n').nth(line - 1);
            let line = line.ok_or_else(|| TestCaseError::fail(mistake.clone()))?;
            prop_assert!(column <= line.chars().count() + 1, "{mistake}");
        }
    }
}
