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
