//! The programs that the repository needs besides Rust: checks for them, installs them, or names them.

use crate::workspace::run;
use anyhow::{Result, bail};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// A program and its Debian package.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    program: &'static str,
    package: &'static str,
}

const fn tool(program: &'static str, package: &'static str) -> Tool {
    Tool { program, package }
}

/// For compiling the C programs of the demonstration and the benchmarks. `g++` depends on libc's headers.
pub(crate) const COMPILERS: &[Tool] = &[tool("gcc", "gcc"), tool("g++", "g++")];

/// A large C++ program.
pub(crate) const CLANG: &[Tool] = &[tool("clang", "clang")];

/// Searches are compared with it.
pub(crate) const VALGRIND: &[Tool] = &[tool("valgrind", "valgrind")];

/// Multi-threaded programs of the distribution.
pub(crate) const REAL: &[Tool] = &[
    tool("xz", "xz-utils"),
    tool("zstd", "zstd"),
    tool("pigz", "pigz"),
    tool("pbzip2", "pbzip2"),
    tool("lbzip2", "lbzip2"),
    tool("sort", "coreutils"),
    tool("memcached", "memcached"),
    tool("redis-server", "redis-server"),
    tool("taskset", "util-linux"),
    tool("/usr/bin/python3", "python3"),
];

/// For fetching and compiling programs of the distribution.
pub(crate) const DISTRIBUTION: &[Tool] =
    &[tool("make", "make"), tool("dpkg-source", "dpkg-dev"), tool("/usr/include/bzlib.h", "libbz2-dev")];

/// For making a release.
pub(crate) const RELEASE: &[Tool] = &[
    tool("git", "git"),
    tool("strip", "binutils"),
    tool("tar", "tar"),
    tool("gzip", "gzip"),
    tool("sha256sum", "coreutils"),
    tool("dpkg-deb", "dpkg"),
];

/// For installing a release in a fresh system.
pub(crate) const DEBIAN_ROOT: &[Tool] = &[tool("debootstrap", "debootstrap"), tool("mount", "mount")];

/// The distribution's own, which finds the distribution's modules.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// For checking files against the schemas of their formats.
pub(crate) const VALIDATORS: &[Tool] = &[
    tool(PYTHON, "python3"),
    tool("/usr/lib/python3/dist-packages/jsonschema/__init__.py", "python3-jsonschema"),
    tool("xmllint", "libxml2-utils"),
    tool("java", "default-jre-headless"),
    tool("npm", "npm"),
    tool("tar", "tar"),
];

/// For the tests.
pub(crate) const TESTS: &[Tool] = &[
    tool("gcc", "gcc"),
    tool("g++", "g++"),
    tool("clang", "clang"),
    tool("gdb", "gdb"),
    tool("make", "make"),
    tool("xz", "xz-utils"),
    tool("cmake", "cmake"),
    tool("autoconf", "autoconf"),
    tool("automake", "automake"),
    // A library is found by its full path.
    tool("/usr/include/gtest/gtest.h", "libgtest-dev"),
    // Reports are tested in a real browser.
    tool("chromium", "chromium"),
];

/// Makes sure that these programs exist. Silent if they do.
pub(crate) fn require(tools: &[Tool]) -> Result<()> {
    let missing: Vec<&str> = tools.iter().filter(|t| !is_on_path(t.program)).map(|t| t.package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if !is_on_path("apt-get") {
        bail!("missing: {packages}; install them with this system's package manager and try again");
    }
    if !is_root() {
        bail!(
            "missing: {packages}; this installs them:\n\
             sudo apt-get update && sudo apt-get install -y {packages}"
        );
    }
    eprintln!("installing {packages}");
    run(apt_get().arg("update"), "apt-get update")?;
    run(apt_get().args(["install", "-y"]).args(&missing), "apt-get install")?;
    match tools.iter().find(|t| !is_on_path(t.program)) {
        Some(still) => bail!("{} was installed but there is no {}", still.package, still.program),
        None => Ok(()),
    }
}

/// Makes sure that this toolchain can format and lint.
pub(crate) fn require_components(cargo: impl Fn() -> Command) -> Result<()> {
    let has = |subcommand: &str| {
        let status =
            cargo().args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if has("fmt") && has("clippy") {
        return Ok(());
    }
    if !is_on_path("rustup") {
        bail!("this Rust toolchain lacks rustfmt or clippy; install both and try again");
    }
    eprintln!("installing rustfmt and clippy");
    run(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]), "rustup component add")
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    // The package manager's progress is not a result.
    command.arg("-qq").env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

pub(crate) fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|own| own.uid() == 0)
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
