//! `cargo xtask bench fix`: verdicts of `unsnarl replay --program` on builds whose right verdict is known.

use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs with a bug; each has a counterpart without it.
const PROGRAMS: [&str; 8] = [
    "account",
    "bluetooth",
    "bounded_buffer",
    "lazy_init",
    "reorder",
    "stringbuffer",
    "twostage",
    "workstealing_queue",
];

/// Searches for each program: strategy and seed.
const STRATEGIES: [&str; 3] = ["random", "race", "pct"];
const SEEDS: usize = 9;

/// The build whose verdict is asked for.
#[derive(Clone, Copy)]
struct Build {
    name: &'static str,
    /// True if it still has the bug.
    fails: bool,
}

const BUILDS: [Build; 4] = [
    Build { name: "identical copy", fails: true },
    Build { name: "built again elsewhere", fails: true },
    Build { name: "unrelated change", fails: true },
    Build { name: "fixed", fails: false },
];

pub(crate) fn bench() -> Result<()> {
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    eprintln!("building unsnarl");
    let bench = Bench { unsnarl: workspace.build_unsnarl()?, directory: workspace.scratch("bench-fix")? };
    let programs = workspace.root.join("programs/c");
    let mut table = [Counts::default(); BUILDS.len()];
    for program in PROGRAMS {
        bench.build(&programs, program).with_context(|| program)?;
        for seed in 1..=SEEDS {
            let strategy = STRATEGIES[seed % STRATEGIES.len()];
            if !bench.find(strategy, seed).with_context(|| program)? {
                continue;
            }
            for (number, (build, counts)) in BUILDS.iter().zip(&mut table).enumerate() {
                let verdict = bench.verdict(number).with_context(|| program)?;
                if counts.add(*build, &verdict)? {
                    println!("{program}, {strategy}, seed {seed}: {} of {}", verdict, build.name);
                }
            }
        }
    }
    println!(
        "{:<24} {:>7} {:>6} {:>12} {:>12} {:>6}",
        "build", "failing", "fixed", "unreachable", "cannot tell", "wrong"
    );
    for (build, counts) in BUILDS.iter().zip(&table) {
        let Counts { failing, fixed, unreachable, cannot_tell, wrong } = counts;
        println!("{:<24} {failing:>7} {fixed:>6} {unreachable:>12} {cannot_tell:>12} {wrong:>6}", build.name);
    }
    let wrong: usize = table.iter().map(|counts| counts.wrong).sum();
    if wrong > 0 {
        bail!("{wrong} verdicts are wrong");
    }
    println!("no verdict is wrong");
    Ok(())
}

#[derive(Clone, Copy, Default)]
struct Counts {
    failing: usize,
    fixed: usize,
    unreachable: usize,
    cannot_tell: usize,
    wrong: usize,
}

impl Counts {
    /// Counts a verdict; returns whether it is wrong.
    fn add(&mut self, build: Build, verdict: &str) -> Result<bool> {
        let is_wrong = match verdict {
            "failing" => {
                self.failing += 1;
                !build.fails
            }
            "fixed" => {
                self.fixed += 1;
                build.fails
            }
            "unreachable" => {
                self.unreachable += 1;
                build.fails
            }
            "cannot-tell" => {
                self.cannot_tell += 1;
                false
            }
            other => bail!("an unknown verdict: {other}"),
        };
        self.wrong += usize::from(is_wrong);
        Ok(is_wrong)
    }
}

struct Bench {
    unsnarl: PathBuf,
    directory: PathBuf,
}

impl Bench {
    /// Builds the program in all variants.
    fn build(&self, programs: &Path, program: &str) -> Result<()> {
        let source = fs::read_to_string(programs.join(format!("{program}.c")))?;
        let fixed = fs::read_to_string(programs.join(format!("{program}_fixed.c")))?;
        let unrelated = format!(
            "static int spare[64];\nint more_of(int n) {{ return spare[n & 63] + n; }}\n#line 1\n{source}"
        );
        self.compile(programs, "bug", &source)?;
        fs::copy(self.directory.join("bug"), self.directory.join(file_of(0)))?;
        for (number, source) in [&source, &unrelated, &fixed].into_iter().enumerate() {
            self.compile(programs, &file_of(number + 1), source)?;
        }
        Ok(())
    }

    fn compile(&self, programs: &Path, name: &str, source: &str) -> Result<()> {
        let folder = self.directory.join(format!("source-of-{name}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("program.c"), source)?;
        let mut command = Command::new(&self.unsnarl);
        command.args(["cc", "-O1", "-g", "-pthread", "-w", "-I"]).arg(programs);
        command.arg("-o").arg(self.directory.join(name)).arg("program.c").current_dir(&folder);
        output(&mut command, "the compiler")?;
        Ok(())
    }

    /// Searches for the failure; returns whether one was found.
    fn find(&self, strategy: &str, seed: usize) -> Result<bool> {
        let seed = seed.to_string();
        let mut command = self.unsnarl();
        command.args(["explore", "--json", "--runs", "2000", "--strategy", strategy, "--seed", &seed]);
        command.args(["-o", "bug.snarl", "--", "./bug"]);
        let report: Value =
            serde_json::from_slice(&command.output()?.stdout).context("explore prints JSON")?;
        Ok(report["found"] == true)
    }

    fn verdict(&self, build: usize) -> Result<String> {
        let mut command = self.unsnarl();
        command.args(["replay", "--json", "bug.snarl", "--program", &format!("./{}", file_of(build))]);
        let checked = command.output()?;
        let report: Value = serde_json::from_slice(&checked.stdout)
            .with_context(|| String::from_utf8_lossy(&checked.stderr).into_owned())?;
        let verdict = report["verdict"].as_str().context("a verdict")?.to_owned();
        let status = if verdict == "failing" {
            100
        } else if verdict == "cannot-tell" {
            103
        } else {
            0
        };
        ensure!(checked.status.code() == Some(status), "{verdict} with {}", checked.status);
        Ok(verdict)
    }

    fn unsnarl(&self) -> Command {
        let mut command = Command::new(&self.unsnarl);
        command.current_dir(&self.directory).stdin(Stdio::null());
        command
    }
}

fn file_of(build: usize) -> String {
    format!("build-{build}")
}
