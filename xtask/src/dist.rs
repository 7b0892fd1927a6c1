//! `cargo xtask dist`: static programs as an archive, packages of Debian and of RPM, and their checksums, all
//! in `target/packages`. Lab and experiments are packages of their own: no VMM comes to a host with haltwise.
//!
//! The programs are linked with glibc's static libraries, and with Debian's static libelf and zlib. musl would
//! need libelf built for it, and that needs three libraries (argp, fts, obstack) that Debian has for no musl. The library
//! that is preloaded into VMMs cannot be static: `preloaded` links it with an old glibc.

mod clean_root;
mod licences;
mod package;
mod preloaded;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use self::package::Package;
use crate::{repo, say, tool};

const TARGET: &str = "x86_64-unknown-linux-gnu";

const STATIC: &str = "-C target-feature=+crt-static";

/// The crate getrandom looks its function up by `dlsym`, which finds nothing in a static program, and would need
/// /dev/urandom then, which a container FROM scratch may lack.
const SYSTEM_CALL: &str = r#"--cfg getrandom_backend="linux_getrandom""#;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Pack the programs of this folder, instead of building them
    #[arg(long, value_name = "DIR")]
    built: Option<PathBuf>,
    /// Install, run, upgrade and purge the .deb in clean roots of Debian 11, 12 and 13, which are fetched
    #[arg(long)]
    check: bool,
}

const PACKAGES: [Package; 3] = [
    Package {
        name: "haltwise",
        about: "Measure and tune the halt polling of KVM virtual machines",
    },
    Package {
        name: "haltwise-lab",
        about: "A small VMM whose guests halt in known ways, for haltwise",
    },
    Package {
        name: "haltwise-experiments",
        about: "Experiments of the literature on halts, repeated on VMs of the lab",
    },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let built = match &args.built {
        Some(dir) => std::path::absolute(dir)?,
        None => build()?,
    };
    // Not the folder of the profile's name: cargo keeps there what it has built for the host.
    let out = repo::target_dir().join("packages");
    if out.exists() {
        std::fs::remove_dir_all(&out).context("remove what was made last time")?;
    }
    std::fs::create_dir_all(&out).context("create target/packages")?;
    let mut made = Vec::new();
    for package in &PACKAGES {
        say::step(&format!("packing {}", package.name));
        let tree = package.stage(&built, &out.join("tree"))?;
        made.push(package.archive(&tree, &out)?);
        made.extend(package.deb(&tree, &out, package::VERSION)?);
        made.extend(package.rpm(&tree, &out)?);
        made.push(package.symbols(&built, &out)?);
    }
    let names = made.iter().filter_map(|path| path.file_name());
    let sums = tool::ask(Command::new("sha256sum").current_dir(&out).args(names))?;
    std::fs::write(out.join("SHA256SUMS"), &sums).context("write SHA256SUMS")?;
    for path in &made {
        let bytes = std::fs::metadata(path)?.len();
        say::note(&format!(
            "{:>6.1} MB  {}",
            bytes as f64 / 1e6,
            path.display()
        ));
    }
    if args.check {
        say::step("what was made, on hosts without our tools");
        clean_root::check(&PACKAGES[0], &out)?;
    }
    std::fs::remove_dir_all(out.join("tree")).context("remove the trees")?;
    Ok(())
}

fn build() -> Result<PathBuf> {
    preloaded::build()?;
    say::step("building static programs");
    let libelf = tool::ask(Command::new("cc").arg("-print-file-name=libelf.a"))?;
    let libraries = Path::new(libelf.trim()).parent();
    let libraries = libraries.filter(|folder| folder.is_absolute());
    let libraries =
        libraries.context("libelf.a is not installed: it comes with Debian's libelf-dev")?;
    let mut cargo = tool::cargo(
        "build --profile=dist --package=haltwise --package=haltwise-lab --package=haltwise-experiments \
         --package=haltwise-exec --features=haltwise/static --target",
    );
    cargo.arg(TARGET);
    cargo.env("RUSTFLAGS", format!("{STATIC} {SYSTEM_CALL}"));
    cargo.env("LIBBPF_SYS_LIBRARY_PATH", libraries);
    tool::run(&mut cargo)?;
    Ok(repo::target_dir().join(TARGET).join("dist"))
}
