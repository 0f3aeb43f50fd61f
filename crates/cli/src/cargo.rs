//! `unsnarl cargo build|run|test`: cargo with instrumentation; `test` explores each test separately.

use crate::{
    explore::SearchOptions,
    suite,
    verdict::{UsageError, Verdict},
    wrap::{
        built,
        cargo::{CargoCall, cargo},
    },
};
use anyhow::Result;
use std::ffi::OsString;

/// Build, run or test Rust with instrumentation; `test` explores each test
///
/// `unsnarl cargo build` and `run` do the same as cargo's, with instrumentation. `unsnarl cargo test` builds the tests
/// with instrumentation and searches for a failing schedule of each of them, as `unsnarl explore` does.
///
/// Options of the search come before `test` and apply to each test. What follows `test` is for cargo, and what follows
/// `--` for the tests: unsnarl cargo --runs 200 test -p mycrate -- queue::
///
/// `unsnarl cargo test --no-run` only builds, and `unsnarl cargo test -- --list` lists the tests.
#[derive(clap::Args)]
#[command(override_usage = "unsnarl cargo [+TOOLCHAIN] build|run [ARGS]...\n       \
    unsnarl cargo [OPTIONS] [+TOOLCHAIN] test [ARGS]... [-- [ARGS]...]")]
pub(crate) struct Cargo {
    #[command(flatten)]
    options: SearchOptions,
    /// Arguments as for `cargo`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

impl Cargo {
    pub(crate) fn run(self) -> Result<Verdict> {
        let call = CargoCall::parse(&self.args)?;
        let (own, tests) = call.arguments();
        let given =
            |args: &[OsString], names: &[&str]| args.iter().any(|a| names.iter().any(|name| a == name));
        let explores = call.is_test()
            && !given(own, &["--no-run", "--help", "-h"])
            && !given(tests, &["--list", "--help", "-h"]);
        if !explores {
            // A user who gives search options must not mistake an ordinary run for a search.
            if std::env::args_os().nth(2).as_ref() != self.args.first() {
                let reason = "search options (`--runs` …) work only with `unsnarl cargo … test`; \
                           `unsnarl explore -- PROG` searches in a program";
                return Err(UsageError(reason.into()).into());
            }
            let status = cargo(&call, call.rest)?;
            if status == 0 && call.is_build() && !call.is_quiet() {
                eprint!("{}", built::describe(&call)?);
            }
            return Ok(Verdict::Status(status));
        }
        if given(own, &["--doc"]) {
            let reason = "doc-tests cannot be explored: `cargo test --doc` runs them";
            return Err(UsageError(reason.into()).into());
        }
        suite::explore(&self.options, &call)
    }
}
