//! Runs cargo so that its builds are instrumented: a stable Rust toolchain, the passes of LLVM's thread sanitizer, and
//! unsnarl's runtime.
//!
//! `--target` is always given, which keeps the flags away from build scripts and procedural macros. A separate target
//! directory keeps these builds apart from ordinary ones. The standard library comes precompiled and is not
//! instrumented; the runtime observes it through its calls of pthread functions and futexes.

use super::{ALLOCATIONS, RUNTIME, run};
use crate::verdict::UsageError;
use anyhow::{Context, Result, ensure};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only target triple that the runtime supports.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Separates flags in cargo's `CARGO_ENCODED_…` variables, so that flags may hold spaces.
const SEPARATOR: &str = "\x1f";

/// Runs cargo as it was called, with `rest` as the remaining arguments, so that its builds report to the runtime.
/// Returns its exit status.
pub(crate) fn cargo(call: &CargoCall<'_>, rest: &[OsString]) -> Result<i32> {
    run(command(call)?.args(rest))
}

/// Returns the command for cargo and its subcommand, set up so that its builds report to the runtime. The caller adds
/// the remaining arguments.
pub(crate) fn command(call: &CargoCall<'_>) -> Result<Command> {
    let runtime_dir = unsnarl_exec::runtime_directory()?;
    // CARGO names the cargo of one toolchain, which does not understand `+toolchain`.
    let own = std::env::var_os("CARGO").filter(|_| call.toolchain.is_none());
    let cargo = own.unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command.args(call.toolchain).arg(call.subcommand);
    match call.option("--target").or_else(|| std::env::var_os("CARGO_BUILD_TARGET")) {
        Some(target) => {
            ensure!(target == TARGET, "unsnarl runs programs for {TARGET} only: leave --target out")
        }
        None => drop(command.args(["--target", TARGET])),
    }
    let elsewhere =
        ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"].iter().any(|v| std::env::var_os(v).is_some());
    if !elsewhere && call.option("--target-dir").is_none() {
        command.arg("--target-dir").arg(call.workspace(&cargo)?.join("target/unsnarl"));
    }
    let flags = rust_flags(&runtime_dir);
    for (encoded, plain) in
        [("CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"), ("CARGO_ENCODED_RUSTDOCFLAGS", "RUSTDOCFLAGS")]
    {
        let users = users_flags(std::env::var_os(encoded), std::env::var_os(plain));
        command.env(encoded, join(users.iter().chain(&flags)));
    }
    instrument_build_scripts(&mut command)?;
    // Without line tables a release build shows only functions and offsets.
    for (variable, value) in [("CARGO_PROFILE_RELEASE_DEBUG", "2"), ("CARGO_PROFILE_RELEASE_STRIP", "none")] {
        if std::env::var_os(variable).is_none() {
            command.env(variable, value);
        }
    }
    Ok(command)
}

/// Lets the C and C++ code that build scripts compile for the program be instrumented, too. The crate `cc` and most other
/// tools look at these variables; a compiler that the user has named is used by the wrapper.
fn instrument_build_scripts(command: &mut Command) -> Result<()> {
    let own = std::env::current_exe().context("cannot find the path of unsnarl itself")?;
    let target = TARGET.replace('-', "_");
    for (variable, language, wrapped) in [("CC", "cc", "UNSNARL_CC"), ("CXX", "c++", "UNSNARL_CXX")] {
        let named = format!("{variable}_{target}");
        let users = [named.as_str(), &format!("TARGET_{variable}"), variable]
            .iter()
            .find_map(std::env::var_os)
            .filter(|users| !users.is_empty());
        if let Some(users) = users.filter(|users| !is_wrapper(users, language))
            && std::env::var_os(wrapped).is_none()
        {
            command.env(wrapped, users);
        }
        let mut wrapper = own.clone().into_os_string();
        wrapper.push(" ");
        wrapper.push(language);
        command.env(named, wrapper);
    }
    Ok(())
}

/// Returns whether a compiler command is unsnarl's own.
fn is_wrapper(command: &OsStr, language: &str) -> bool {
    let end = format!("unsnarl {language}");
    command.as_bytes().ends_with(end.as_bytes())
}

/// The parsed arguments of cargo.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CargoCall<'a> {
    /// `+toolchain`.
    toolchain: Option<&'a OsStr>,
    subcommand: &'a OsStr,
    pub(crate) rest: &'a [OsString],
}

impl<'a> CargoCall<'a> {
    pub(crate) fn parse(args: &'a [OsString]) -> Result<Self> {
        let (toolchain, args) = match args.split_first() {
            Some((first, rest)) if first.as_bytes().starts_with(b"+") => (Some(first.as_os_str()), rest),
            _ => (None, args),
        };
        match args.split_first() {
            Some((first, rest))
                if ["build", "b", "run", "r", "test", "t"].iter().any(|known| first == known) =>
            {
                Ok(Self { toolchain, subcommand: first, rest })
            }
            Some((other, _)) => Err(UsageError(format!(
                "unsupported cargo command `{}`: use build, run or test (unsnarl cargo --help)",
                other.to_string_lossy()
            ))
            .into()),
            None => Err(UsageError("unsnarl cargo needs one of build, run and test".into()).into()),
        }
    }

    /// Returns whether cargo only builds, so that it can be asked afterwards what it has built.
    pub(crate) fn is_build(&self) -> bool {
        let (own, _) = self.arguments();
        let asks = |arg: &OsString| {
            let arg = arg.as_bytes();
            arg.starts_with(b"--message-format") || arg == b"--help" || arg == b"-h" || arg == b"--build-plan"
        };
        (self.subcommand == "build" || self.subcommand == "b") && !own.iter().any(asks)
    }

    /// Returns whether the user wants no messages.
    pub(crate) fn is_quiet(&self) -> bool {
        self.arguments().0.iter().any(|arg| arg == "-q" || arg == "--quiet")
    }

    pub(crate) fn is_test(&self) -> bool {
        self.subcommand == "test" || self.subcommand == "t"
    }

    /// Returns cargo's own arguments, and those for the program or the tests.
    pub(crate) fn arguments(&self) -> (&'a [OsString], &'a [OsString]) {
        let own = self.rest.iter().position(|arg| arg == "--").unwrap_or(self.rest.len());
        (&self.rest[..own], self.rest.get(own + 1..).unwrap_or_default())
    }

    /// Returns the value of cargo's option `name`, given as one argument or two.
    fn option(&self, name: &str) -> Option<OsString> {
        let mut args = self.arguments().0.iter();
        while let Some(arg) = args.next() {
            if arg == name {
                return args.next().cloned();
            }
            let value = arg.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            if let Some(value) = value {
                return Some(OsString::from_vec(value.to_vec()));
            }
        }
        None
    }

    /// Returns the directory of the workspace that cargo would build.
    fn workspace(&self, cargo: &OsStr) -> Result<PathBuf> {
        let mut command = Command::new(cargo);
        command.args(self.toolchain).args(["locate-project", "--workspace", "--message-format", "plain"]);
        if let Some(path) = self.option("--manifest-path") {
            command.arg("--manifest-path").arg(path);
        }
        let answer = command.output().context("cannot run cargo: install a Rust toolchain")?;
        ensure!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr).trim_end());
        let manifest = PathBuf::from(OsString::from_vec(answer.stdout.trim_ascii_end().to_vec()));
        Ok(manifest.parent().context("cargo names no workspace")?.to_owned())
    }
}

/// Returns the flags that make a stable rustc instrument the code and link the runtime.
fn rust_flags(runtime_dir: &Path) -> Vec<OsString> {
    let mut flags: Vec<OsString> = [
        "-Cpasses=forceattrs",
        "-Cpasses=tsan-module",
        "-Cpasses=tsan",
        "-Cllvm-args=-force-attribute=sanitize_thread",
        "-Cllvm-args=-tsan-instrument-read-before-write",
        "-Cllvm-args=-tsan-instrument-func-entry-exit=0",
    ]
    .map(OsString::from)
    .into();
    let mut link = |before: &str, after: &OsStr| {
        let mut flag = OsString::from("-Clink-arg=");
        flag.push(before);
        flag.push(after);
        flags.push(flag);
    };
    link("-L", runtime_dir.as_os_str());
    // -Wl, would split a directory's name at its commas.
    link("-Xlinker", OsStr::new(""));
    link("-rpath", OsStr::new(""));
    link("-Xlinker", OsStr::new(""));
    link("", runtime_dir.as_os_str());
    // rustc's own instrumentation calls the runtime for memcpy and similar functions, so these are not wrapped.
    for symbol in ALLOCATIONS {
        link("-Wl,--wrap=", OsStr::new(symbol));
    }
    // This symbol marks the standard library as part of the program and not instrumented.
    link("-Wl,--defsym=", OsStr::new("__unsnarl_prebuilt_library=1"));
    link("-Wl,--export-dynamic-symbol=", OsStr::new("__unsnarl_prebuilt_library"));
    link("-Wl,--push-state,--no-as-needed", OsStr::new(""));
    link("-l", OsStr::new(RUNTIME));
    link("-Wl,--pop-state", OsStr::new(""));
    flags
}

/// Returns the user's flags; as in cargo, the encoded variable has precedence over the plain one.
fn users_flags(encoded: Option<OsString>, plain: Option<OsString>) -> Vec<OsString> {
    let (text, is_separator): (_, fn(&u8) -> bool) = match (encoded, plain) {
        (Some(encoded), _) => (encoded, |byte| *byte == SEPARATOR.as_bytes()[0]),
        (None, plain) => (plain.unwrap_or_default(), u8::is_ascii_whitespace),
    };
    let flags = text.as_bytes().split(is_separator).filter(|flag| !flag.is_empty());
    flags.map(|flag| OsString::from_vec(flag.to_vec())).collect()
}

fn join<'a>(flags: impl Iterator<Item = &'a OsString>) -> OsString {
    flags.map(OsString::as_os_str).collect::<Vec<_>>().join(OsStr::new(SEPARATOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(args: &[&str]) -> Vec<OsString> {
        args.iter().map(OsString::from).collect()
    }

    #[test]
    fn build_run_and_test_are_forwarded_to_cargo() {
        let args = os(&["+1.95", "test", "--release", "--", "--target", "x"]);
        let call = CargoCall::parse(&args).unwrap();
        assert_eq!((call.toolchain, call.subcommand), (Some(OsStr::new("+1.95")), OsStr::new("test")));
        assert_eq!(call.option("--target"), None, "what follows -- is not cargo's");
        assert!(CargoCall::parse(&os(&["install"])).unwrap_err().to_string().contains("build, run or test"));
        assert!(CargoCall::parse(&[]).is_err());
    }

    #[test]
    fn options_are_parsed_with_space_or_equals_sign() {
        for args in [&["build", "--target-dir", "x"][..], &["b", "-q", "--target-dir=x"]] {
            assert_eq!(CargoCall::parse(&os(args)).unwrap().option("--target-dir"), Some("x".into()));
            assert_eq!(CargoCall::parse(&os(args)).unwrap().option("--target"), None);
        }
    }

    #[test]
    fn user_flags_come_first_and_are_kept() {
        assert_eq!(users_flags(None, Some(" -Ca  -Cb ".into())), os(&["-Ca", "-Cb"]));
        assert_eq!(users_flags(Some("-Ca b\x1f-Cc".into()), Some("-Cx".into())), os(&["-Ca b", "-Cc"]));
        assert_eq!(users_flags(None, None), os(&[]));
        assert_eq!(join(os(&["-Ca b", "-Cc"]).iter()), OsString::from("-Ca b\x1f-Cc"));
    }

    #[test]
    fn runtime_is_linked_from_any_directory() {
        let flags = rust_flags(Path::new("/a b,c"));
        assert!(flags.contains(&"-Clink-arg=-L/a b,c".into()));
        assert!(flags.contains(&"-Clink-arg=/a b,c".into()));
        assert!(flags.contains(&"-Clink-arg=-lunsnarl_rt".into()));
    }
}
