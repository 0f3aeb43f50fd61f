//! Every program of `programs/` under control, each as its own test. It must end as its `.expect` file says, and each
//! of a hundred random schedules must replay event for event, on fibers and on kernel threads.

mod build;
mod check;
mod enabled;
mod expectation;
mod swaps;
mod threads;

use expectation::Expectation;
use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};

/// A program and its expectation.
struct Case {
    source: PathBuf,
    expected: Expectation,
}

impl Case {
    fn name(&self) -> String {
        let folder = self.source.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        format!("{folder}/{}", self.source.file_stem().unwrap_or_default().to_string_lossy())
    }
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs").canonicalize().expect("programs/ is there")
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = ["c", "cpp", "rust"]
        .iter()
        .flat_map(|folder| programs().join(folder).read_dir().expect("a folder of programs"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "c" || e == "cpp" || e == "rs"))
        .map(|source| Case { expected: Expectation::read(&source.with_extension("expect")), source })
        .collect();
    cases.sort_by_key(Case::name);
    cases
}

fn main() {
    let arguments = Arguments::from_args();
    let trials = cases()
        .into_iter()
        .map(|case| {
            Trial::test(case.name(), move || {
                let program = build::build(&case.source, &case.expected);
                threads::check(&program, &case.expected)?;
                check::check(&program, &case.expected)?;
                // The prebuilt standard library is not instrumented; accesses that it orders must not be reported as
                // races.
                if let Some(instrumented) = build::instrumented_too(&case.source, &case.expected) {
                    check::has_no_race(&instrumented, &case.expected)?;
                }
                Ok::<(), Failed>(())
            })
        })
        .chain([Trial::test("the corpus covers every kind of outcome and language", || {
            let kinds = [
                "exit",
                "deadlock",
                "signal",
                "assertion",
                "abort",
                "exception",
                "panic",
                "livelock",
                "undecided",
            ];
            let cases = cases();
            let missing =
                kinds.iter().find(|kind| !cases.iter().any(|c| c.expected.outcome.starts_with(*kind)));
            match missing {
                Some(kind) => Err(format!("no program ends by {kind}").into()),
                None if cases.len() < 30 => Err("fewer than 30 programs".into()),
                None => Ok(()),
            }
        })])
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}
