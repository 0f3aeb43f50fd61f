//! `cargo xtask test`: everything that must hold before a change goes in.

use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
    time::Instant,
};

/// The steps; those that fail fastest come first. The tests are built with overflow checks and debug assertions; the
/// runtime inside the targets is built as it is shipped.
const STEPS: &[(&str, &[&str])] = &[
    ("formatting", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("tests", &["test", "--quiet", "--workspace", "--no-fail-fast"]),
];

/// Runs all steps, also after one has failed, and ends with a list of failures.
pub(crate) fn test() -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::TESTS)?;
    tools::require_components(|| workspace.cargo())?;
    let start = Instant::now();
    let mut failures = Vec::new();
    for (name, args) in STEPS {
        println!("== {name}: cargo {}", args.join(" "));
        let step = Instant::now();
        let (succeeded, tests) = run(workspace.cargo().args(*args))?;
        println!("== {name}: {:.1} s", step.elapsed().as_secs_f64());
        if !succeeded {
            failures.push(format!("{name}; repeat with: cargo {}", args.join(" ")));
            failures.extend(tests.iter().map(|test| format!("  {test}")));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    if !failures.is_empty() {
        bail!("failed after {seconds:.1} s:\n{}", failures.join("\n"));
    }
    println!("all passed in {seconds:.1} s");
    Ok(())
}

/// Runs a command and shows its output as it comes. Returns whether it succeeded, and the names of the tests that failed.
fn run(command: &mut Command) -> Result<(bool, Vec<String>)> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no standard output")?;
    let failed = show(BufReader::new(output), std::io::stdout())?;
    Ok((child.wait()?.success(), failed))
}

/// Copies test output, and collects the names under the last `failures:` of each test binary.
fn show(mut output: impl BufRead, mut to: impl Write) -> Result<Vec<String>> {
    let (mut failed, mut list, mut line) = (Vec::new(), None::<Vec<String>>, Vec::new());
    while output.by_ref().take(1 << 16).read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        match &mut list {
            _ if text == "failures:" => list = Some(Vec::new()),
            Some(names) => match text.strip_prefix("    ") {
                Some(name) => names.push(name.to_owned()),
                None if text.starts_with("test result:") => failed.extend(list.take().into_iter().flatten()),
                None => {}
            },
            None => {}
        }
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::show;

    #[test]
    fn names_of_all_failing_tests_are_collected() {
        let output = "running 2 tests\n.F\nfailures:\n\n---- first stdout ----\nfailures:\n\n\nfailures:\n    first\n\n\
                      test result: FAILED. 1 passed; 1 failed\n\
                      running 1 test\n.\ntest result: ok. 1 passed\n\
                      running 1 test\nF\nfailures:\n    second::case\n\ntest result: FAILED. 0 passed; 1 failed\n";
        let failed = show(output.as_bytes(), std::io::sink()).expect("readable output");
        assert_eq!(failed, ["first", "second::case"]);
    }
}
