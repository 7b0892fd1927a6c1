//! crosvm: `--name`, else the stem of its socket, else `cid-N`.

use super::arguments::{Arguments, stem};

/// Whether a program of this name is crosvm.
pub(super) fn is(program: &str) -> bool {
    program == "crosvm"
}

pub(super) fn name(arguments: &Arguments) -> Option<String> {
    let named = arguments.option("--name").map(str::to_owned);
    let socket = || {
        let path = arguments
            .option("--socket")
            .or_else(|| arguments.option("-s"))?;
        stem(path).map(str::to_owned)
    };
    let cid = || {
        let cid = arguments
            .option("--cid")
            .or_else(|| arguments.option("-c"))?;
        cid.parse::<u32>().ok().map(|cid| format!("cid-{cid}"))
    };
    named.or_else(socket).or_else(cid)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_best_name_there_is() {
        for (line, expected) in [
            ("crosvm\0run\0--name\0arcvm\0--cid\x005\0", Some("arcvm")),
            (
                "crosvm\0run\0--socket\0/run/vm/a.sock\0--cid\x005\0",
                Some("a"),
            ),
            ("crosvm\0run\0-s\0/run/b.sock\0", Some("b")),
            ("crosvm\0run\0--cid=33\0", Some("cid-33")),
            ("crosvm\0run\0-c\0many\0", None),
            ("crosvm\0", None),
        ] {
            let arguments = Arguments::parse(line.as_bytes());
            assert_eq!(name(&arguments).as_deref(), expected, "{line:?}");
        }
    }
}
