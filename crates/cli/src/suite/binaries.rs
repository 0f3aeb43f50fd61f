//! The test binaries of a cargo project, each with the directory, environment and arguments that cargo gives it.
//!
//! Cargo builds them and then starts each of them through a runner. The runner is this program: it starts nothing and
//! prints how it was started. This is exact, whereas imitating cargo would be a guess. Cargo's own JSON names the
//! source of each binary.

use crate::{
    target,
    verdict::{UnusableError, Verdict},
    wrap::cargo::{CargoCall, cargo, command},
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::Stdio,
};
use unsnarl_model::Program;

/// The `reason` field of the runner's messages among cargo's.
const REASON: &str = "unsnarl-test-binary";

/// A test binary.
#[derive(Debug)]
pub(super) struct TestBinary {
    /// The program as cargo would start it.
    pub(super) program: Program,
    /// Name of the target.
    pub(super) name: String,
    /// Its source as cargo prints it: `unittests src/lib.rs`.
    pub(super) source: String,
}

/// The result of a build by cargo.
pub(super) enum BuildResult {
    Built(TestBinaries),
    /// Cargo's exit status.
    Failed(i32),
}

/// The binaries that cargo has built.
pub(super) struct TestBinaries {
    pub(super) binaries: Vec<TestBinary>,
    /// There are documentation tests, which are compiled only while they are run.
    pub(super) doc_tests: bool,
}

/// Builds the tests.
pub(super) fn build(call: &CargoCall<'_>) -> Result<BuildResult> {
    let rest = without_message_format(call.rest);
    let building = [&[OsString::from("--no-run")], &rest[..]].concat();
    let status = cargo(call, &building)?;
    if status != 0 {
        return Ok(BuildResult::Failed(status));
    }
    let answer = command(call)?
        .args(["--message-format", "json-render-diagnostics", "--config", &runner()?])
        .args(&rest)
        // Skips compiling documentation tests.
        .env("RUSTDOC", "true")
        .stdin(Stdio::null())
        .output()
        .context("cannot run cargo")?;
    let stderr = String::from_utf8_lossy(&answer.stderr);
    if !answer.status.success() {
        bail!(UnusableError(format!("cargo did not report its test binaries:\n{}", stderr.trim_end())));
    }
    let binaries = read(&answer.stdout)?;
    Ok(BuildResult::Built(TestBinaries { binaries, doc_tests: stderr.contains("Doc-tests ") }))
}

/// Returns the cargo setting that makes this program the runner of tests.
fn runner() -> Result<String> {
    let own = env::current_exe().context("cannot find the path of unsnarl itself")?;
    let own = own.to_str().context("the path of unsnarl is not UTF-8")?;
    // JSON strings are valid TOML strings.
    Ok(format!("target.{}.runner={}", crate::wrap::cargo::TARGET, json!([own, "describe-test-binary"])))
}

/// Runs in place of a test binary and prints how cargo started it.
pub(crate) fn describe_test_binary(args: &[OsString]) -> Result<Verdict> {
    let directory = env::current_dir().context("cannot determine the current directory")?;
    let path = std::path::absolute(args.first().context("no test binary")?)?;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("the path of a test is not UTF-8");
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    println!(
        "{}",
        json!({ "reason": REASON, "path": text(&path)?, "args": args, "env": target::environment(),
            "cwd": text(&directory)? })
    );
    Ok(Verdict::Fine)
}

/// Parses cargo's messages and the runner's.
fn read(messages: &[u8]) -> Result<Vec<TestBinary>> {
    let messages: Vec<Value> =
        messages.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let of = |reason: &'static str| messages.iter().filter(move |message| message["reason"] == reason);
    let binary = |message: &Value| {
        let artifact = of("compiler-artifact").find(|artifact| artifact["executable"] == message["path"]);
        let target = artifact.map_or(&Value::Null, |artifact| &artifact["target"]);
        let cwd = text(&message["cwd"]);
        Some(TestBinary {
            name: target["name"].as_str().unwrap_or("a test").to_owned(),
            source: source(target, &cwd),
            program: Program {
                path: text(&message["path"]),
                args: strings(&message["args"])?,
                env: without_backtraces(strings(&message["env"])?),
                cwd,
                stdin: Vec::new(),
            },
        })
    };
    of(REASON).map(|message| binary(message).context("cannot parse cargo's output")).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn strings(value: &Value) -> Option<Vec<Vec<u8>>> {
    serde_json::from_value(value.clone()).ok()
}

/// Returns the source as cargo prints it: unit tests are those of libraries and programs.
fn source(target: &Value, package: &str) -> String {
    let path = text(&target["src_path"]);
    let relative = Path::new(&path).strip_prefix(package).unwrap_or(Path::new(&path)).display().to_string();
    if target["kind"] == json!(["test"]) { relative } else { format!("unittests {relative}") }
}

/// Disables backtraces of panics. The standard library needs a hundred thousand operations to print one, and a trace
/// has the stack anyway.
fn without_backtraces(mut env: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    env.retain(|entry| !entry.starts_with(b"RUST_BACKTRACE="));
    env.push(b"RUST_BACKTRACE=0".to_vec());
    env.sort();
    env
}

/// Returns cargo's arguments without `--message-format`, because this program parses the messages.
fn without_message_format(rest: &[OsString]) -> Vec<OsString> {
    let own = rest.iter().position(|arg| arg == "--").unwrap_or(rest.len());
    let mut remaining = Vec::new();
    let mut args = rest[..own].iter();
    while let Some(arg) = args.next() {
        if arg == "--message-format" {
            args.next();
        } else if !OsStr::as_bytes(arg).starts_with(b"--message-format=") {
            remaining.push(arg.clone());
        }
    }
    remaining.extend_from_slice(&rest[own..]);
    remaining
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_come_from_runner_and_names_from_cargo() {
        let messages = r#"
{"reason":"compiler-artifact","executable":null,"target":{"name":"other","kind":["lib"]}}
{"reason":"compiler-artifact","executable":"/p/target/it-1","target":{"name":"it","kind":["test"],"src_path":"/p/tests/it.rs"}}
noise
{"reason":"unsnarl-test-binary","path":"/p/target/it-1","cwd":"/p","args":[[105],[97]],"env":[[82,61,49]]}
{"reason":"unsnarl-test-binary","path":"/p/target/new","cwd":"/p","args":[],"env":[]}
"#;
        let read = read(messages.as_bytes()).unwrap();
        assert_eq!((read[0].name.as_str(), read[0].source.as_str()), ("it", "tests/it.rs"));
        assert_eq!(read[0].program.args, [b"i", b"a"]);
        assert_eq!(read[0].program.env, [&b"R=1"[..], b"RUST_BACKTRACE=0"]);
        assert_eq!(read[1].program.path, "/p/target/new", "a binary that cargo says nothing of is not lost");
    }

    #[test]
    fn only_cargos_message_format_is_removed() {
        let os = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
        let given =
            os(&["-p", "a", "--message-format", "short", "--message-format=json", "--", "--message-format"]);
        assert_eq!(without_message_format(&given), os(&["-p", "a", "--", "--message-format"]));
    }
}
