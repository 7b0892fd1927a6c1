//! Compiles the BPF programs with clang and generates their Rust skeleton.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

/// BPF programs that record halts, count exits, keep samples, and watch this machine's own idle CPUs: each
/// loads by itself.
const SOURCES: [&str; 4] = ["collector", "exits", "sample", "idle"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let arch = match env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "s390x" => "s390",
        "powerpc64" => "powerpc",
        "riscv64" => "riscv",
        "loongarch64" => "loongarch",
        other => return Err(format!("no BPF argument layout known for {other}").into()),
    };
    for name in SOURCES {
        let source = format!("src/bpf/{name}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            // v3: 32-bit registers, and atomics that return what was there (5.12).
            .clang_args([
                format!("-D__TARGET_ARCH_{arch}"),
                "-mcpu=v3".to_owned(),
                "-Wall".to_owned(),
                "-Werror".to_owned(),
            ])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .map_err(|error| format!("compile {source} (needs clang): {error:#}"))?;
    }
    println!("cargo:rerun-if-changed=src/bpf");
    Ok(())
}
