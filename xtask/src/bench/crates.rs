//! `cargo xtask bench crates`: published concurrency bugs of crates. The affected versions are fetched from the registry, and
//! a test of each as its users would write it (`xtask/bench/advisories`) is explored with default options.

use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A published bug.
struct Bug {
    /// The test, a file in `xtask/bench/advisories`.
    test: &'static str,
    /// The name under which it was published.
    source: &'static str,
    /// The affected crates and their versions, with features.
    dependencies: &'static [Dependency],
    /// The bug needs a memory that is not sequentially consistent, which unsnarl does not have.
    needs_weak_memory: bool,
}

struct Dependency {
    name: &'static str,
    version: &'static str,
    /// Features as in a manifest; the default ones if there are none.
    features: &'static str,
}

const fn bug(test: &'static str, source: &'static str, dependencies: &'static [Dependency]) -> Bug {
    Bug { test, source, dependencies, needs_weak_memory: false }
}

const fn weak(bug: Bug) -> Bug {
    Bug { needs_weak_memory: true, ..bug }
}

const fn of(name: &'static str, version: &'static str) -> Dependency {
    Dependency { name, version, features: "" }
}

const fn with(name: &'static str, version: &'static str, features: &'static str) -> Dependency {
    Dependency { name, version, features }
}

const BUGS: [Bug; 18] = [
    bug("crossbeam-deque", "RUSTSEC-2021-0093", &[of("crossbeam-deque", "0.8.0")]),
    bug("crossbeam-channel", "RUSTSEC-2025-0024", &[of("crossbeam-channel", "0.5.14")]),
    bug("tokio-oneshot", "RUSTSEC-2021-0124", &[with("tokio", "1.13.0", "\"sync\"")]),
    bug("tokio-broadcast", "RUSTSEC-2025-0023", &[with("tokio", "1.44.1", "\"sync\"")]),
    bug("tokio-local-set", "RUSTSEC-2021-0072", &[with("tokio", "1.8.0", "\"rt\"")]),
    bug("internment", "RUSTSEC-2020-0017", &[of("internment", "0.3.13")]),
    bug("spin-call-once", "spin-rs issue 117", &[of("spin", "0.9.2")]),
    bug("spin-try-call-once", "RUSTSEC-2023-0031", &[of("spin", "0.9.7")]),
    bug("sys-info", "RUSTSEC-2020-0100", &[of("sys-info", "0.7.0")]),
    bug(
        "lock_api",
        "RUSTSEC-2020-0070",
        &[with("parking_lot", "0.11.0", "\"send_guard\""), of("lock_api", "0.4.1")],
    ),
    bug("dashmap", "RUSTSEC-2022-0002", &[of("dashmap", "5.0.0")]),
    bug("oneshot", "RUSTSEC-2026-0005", &[of("oneshot", "0.1.11")]),
    bug("oneshot", "oneshot 0.1.11, changes", &[of("oneshot", "0.1.10")]),
    bug("futures-intrusive", "RUSTSEC-2020-0072", &[of("futures-intrusive", "0.3.1")]),
    bug("late-static", "RUSTSEC-2020-0102", &[of("late-static", "0.3.0")]),
    bug("concread", "RUSTSEC-2020-0092", &[of("concread", "0.2.5")]),
    weak(bug("thread_local", "RUSTSEC-2022-0006", &[of("thread_local", "1.1.3")])),
    weak(bug("spin-rwlock", "RUSTSEC-2019-0013", &[of("spin", "0.5.1")])),
];

/// Searches all of them, or those whose tests are named.
pub(crate) fn bench(only: &[&str]) -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let directory = workspace.download_dir("bench-crates")?;
    let unsnarl = directory.join("unsnarl");
    fs::copy(workspace.build_unsnarl()?, &unsnarl)?;
    let registry = registry(&workspace.root.join("Cargo.lock"))?;
    let bench = Bench { unsnarl, tests: workspace.root.join("xtask/bench/advisories"), directory, registry };
    println!(
        "{:<19} {:<8} {:<24} {:<12} {:>6} {:>7}  {:>11}  same in two builds",
        "test", "version", "published as", "failure", "run", "seconds", "preemptions"
    );
    let (mut found, mut counted) = (0, 0);
    for bug in BUGS.iter().filter(|bug| only.is_empty() || only.contains(&bug.test)) {
        let searched = bench.search(bug).with_context(|| format!("{} {}", bug.test, bug.version()))?;
        let note = if bug.needs_weak_memory { "  (needs weak memory: not counted)" } else { "" };
        let head = format!("{:<19} {:<8} {:<24}", bug.test, bug.version(), bug.source);
        match &searched {
            Searched::Found { failure, run, seconds, preemptions, same } => {
                let [before, after] = preemptions;
                let left = format!("{before} → {after}");
                println!("{head} {failure:<12} {run:>6} {seconds:>7.2}  {left:>11}  {same}{note}");
            }
            Searched::NotFound { runs, seconds } => {
                println!("{head} {:<12} {runs:>6} {seconds:>7.2}{note}", "not found");
            }
        }
        counted += u32::from(!bug.needs_weak_memory);
        found += u32::from(!bug.needs_weak_memory && matches!(searched, Searched::Found { .. }));
    }
    println!("{found} of {counted} found within the default budget");
    Ok(())
}

/// Returns cargo's name for the registry, as the workspace's own lock file has it.
fn registry(lock_file: &Path) -> Result<String> {
    let text = fs::read_to_string(lock_file)?;
    let source = text.lines().find_map(|line| line.strip_prefix("source = \"registry+"));
    let source = source.context("the workspace's lock file names no registry")?;
    Ok(format!("registry+{}", source.trim_end_matches('"')))
}

impl Bug {
    fn version(&self) -> &'static str {
        self.dependencies.last().map_or("", |dependency| dependency.version)
    }

    /// Returns the name of the directory that it is built in.
    fn folder(&self) -> String {
        format!("{}-{}", self.test, self.version())
    }

    fn manifest(&self) -> String {
        let mut text = String::from(
            "[package]\nname = \"test\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n",
        );
        for Dependency { name, version, features } in self.dependencies {
            text += &format!("{name} = {{ version = \"={version}\", features = [{features}] }}\n");
        }
        text
    }

    /// Returns a lock file with the affected versions: some were withdrawn, and cargo takes these only from there.
    fn lock_file(&self, registry: &str) -> String {
        let package = |Dependency { name, version, .. }: &Dependency| {
            format!("\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"{registry}\"\n")
        };
        "version = 3\n".to_owned() + &self.dependencies.iter().map(package).collect::<String>()
    }
}

/// The result of a search.
enum Searched {
    Found {
        failure: String,
        run: u64,
        seconds: f64,
        /// Before and after simplification.
        preemptions: [u64; 2],
        /// True, in words, if another build shows the same failure.
        same: String,
    },
    NotFound {
        runs: u64,
        seconds: f64,
    },
}

struct Bench {
    unsnarl: PathBuf,
    tests: PathBuf,
    directory: PathBuf,
    /// Cargo's name for the registry.
    registry: String,
}

impl Bench {
    fn search(&self, bug: &Bug) -> Result<Searched> {
        let place = self.directory.join(bug.folder());
        let program = self.build(bug, &place.join("build"))?;
        let report = self.json(&place, &["explore", "--json", "-o", "found.snarl", "--"], &program)?;
        let seconds = report["elapsed_s"].as_f64().context("a time")?;
        let runs = report["runs"].as_u64().context("runs")?;
        if report["found"] != true {
            return Ok(Searched::NotFound { runs, seconds });
        }
        let simplified =
            self.json(&place, &["simplify", "--json", "-o", "simple.snarl"], Path::new("found.snarl"))?;
        let preemptions = |side: &str| simplified[side]["preemptive"].as_u64().context("preemptions");
        // The same source and the same dependencies, built from scratch elsewhere.
        let other = place.join("elsewhere/second-build");
        if other.exists() {
            fs::remove_dir_all(&other)?;
        }
        let rebuilt = self.build(bug, &other)?;
        let checked = self.json(&place, &["replay", "--json", "simple.snarl", "--program"], &rebuilt)?;
        let again = self.json(&place, &["explore", "--json", "-o", "again.snarl", "--"], &rebuilt)?;
        let same = match checked["verdict"].as_str() {
            Some("failing") if identity(&again) == identity(&report) => "yes".to_owned(),
            Some("failing") => "replayed; its own search found another failure first".to_owned(),
            verdict => format!("no: {}", verdict.unwrap_or("no verdict")),
        };
        Ok(Searched::Found {
            failure: report["outcome"]["kind"].as_str().unwrap_or_default().to_owned(),
            run: runs,
            seconds,
            preemptions: [preemptions("before")?, preemptions("after")?],
            same,
        })
    }

    /// Writes the package into this directory and builds it.
    fn build(&self, bug: &Bug, place: &Path) -> Result<PathBuf> {
        fs::create_dir_all(place.join("src"))?;
        fs::write(place.join("Cargo.toml"), bug.manifest())?;
        if !place.join("Cargo.lock").exists() {
            fs::write(place.join("Cargo.lock"), bug.lock_file(&self.registry))?;
        }
        fs::copy(self.tests.join(bug.test).with_extension("rs"), place.join("src/main.rs"))?;
        let mut command = self.unsnarl(place);
        command.args(["cargo", "build", "--quiet"]);
        output(&mut command, "unsnarl cargo build")?;
        let program = place.join("target/unsnarl/x86_64-unknown-linux-gnu/debug/test");
        ensure!(program.is_file(), "there is no {}", program.display());
        Ok(program)
    }

    /// Runs a command that prints JSON, with a last argument.
    fn json(&self, place: &Path, args: &[&str], last: &Path) -> Result<Value> {
        let mut command = self.unsnarl(place);
        let printed = command.args(args).arg(last).output()?;
        serde_json::from_slice(&printed.stdout)
            .with_context(|| format!("{args:?}: {}", String::from_utf8_lossy(&printed.stderr)))
    }

    fn unsnarl(&self, place: &Path) -> Command {
        let mut command = Command::new(&self.unsnarl);
        command.current_dir(place).stdin(Stdio::null());
        // These are of the workspace's own build.
        for variable in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"]
        {
            command.env_remove(variable);
        }
        command
    }
}

/// Returns what a user would recognise the failure by.
fn identity(report: &Value) -> [&Value; 2] {
    ["kind", "message"].map(|field| &report["outcome"][field])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_a_test_and_a_place() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/advisories");
        let folders: std::collections::BTreeSet<String> = BUGS.iter().map(Bug::folder).collect();
        assert_eq!(folders.len(), BUGS.len());
        for bug in &BUGS {
            assert!(tests.join(bug.test).with_extension("rs").is_file(), "{}", bug.test);
        }
        assert!(BUGS.iter().filter(|bug| !bug.needs_weak_memory).count() >= 12);
    }
}
