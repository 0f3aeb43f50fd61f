//! `cargo xtask bench fix`: verdicts of `unsnarl replay --program` on builds whose right verdict is known.

use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs with a bug; each has a counterpart without it.
const C_PROGRAMS: [(&str, &str); 8] = [
    ("account", "account_fixed"),
    ("bluetooth", "bluetooth_fixed"),
    ("bounded_buffer", "bounded_buffer_fixed"),
    ("lazy_init", "lazy_init_fixed"),
    ("reorder_3", "reorder_fixed"),
    ("stringbuffer", "stringbuffer_fixed"),
    ("twostage_2", "twostage_fixed"),
    ("workstealing_queue", "workstealing_queue_fixed"),
];

/// Programs with the bug unless `FIXED` is defined, or the feature `fixed` is given.
const TALLY: &str = include_str!("fix/tally.cpp");
const LEDGER: &str = include_str!("fix/ledger.rs");

/// A compiler and its level of optimisation.
#[derive(Clone, Copy)]
struct Toolchain {
    c: &'static str,
    cpp: &'static str,
    level: &'static str,
}

const TOOLCHAINS: [Toolchain; 4] = [
    Toolchain { c: "gcc", cpp: "g++", level: "-O1" },
    Toolchain { c: "gcc", cpp: "g++", level: "-O0" },
    Toolchain { c: "gcc", cpp: "g++", level: "-O2" },
    Toolchain { c: "clang", cpp: "clang++", level: "-O2" },
];

/// Searches for each program: strategy and seed.
const STRATEGIES: [&str; 3] = ["random", "race", "pct"];
const SEEDS: usize = 6;

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
    tools::require(tools::CLANG)?;
    eprintln!("building unsnarl");
    let bench = Bench { unsnarl: workspace.build_unsnarl()?, directory: workspace.scratch("bench-fix")? };
    let mut table = [Counts::default(); BUILDS.len()];
    let mut traces = 0;
    for toolchain in TOOLCHAINS {
        let programs = workspace.root.join("programs/c");
        for (program, fixed) in C_PROGRAMS {
            let name = format!("{program}, {} {}", toolchain.c, toolchain.level);
            bench.build_c(&programs, (program, fixed), toolchain).with_context(|| name.clone())?;
            traces += bench.check_all(&name, &mut table)?;
        }
        let name = format!("tally, {} {}", toolchain.cpp, toolchain.level);
        bench.build_cpp(toolchain).with_context(|| name.clone())?;
        traces += bench.check_all(&name, &mut table)?;
    }
    for level in ["0", "2"] {
        let name = format!("ledger, rustc -O{level}");
        bench.build_rust(level).with_context(|| name.clone())?;
        traces += bench.check_all(&name, &mut table)?;
    }
    println!("{traces} traces");
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
    /// Searches with each seed, and asks for all verdicts; returns the number of traces.
    fn check_all(&self, program: &str, table: &mut [Counts]) -> Result<usize> {
        let mut traces = 0;
        for seed in 1..=SEEDS {
            let strategy = STRATEGIES[seed % STRATEGIES.len()];
            if !self.find(strategy, seed).with_context(|| program.to_owned())? {
                continue;
            }
            traces += 1;
            for (number, (build, counts)) in BUILDS.iter().zip(table.iter_mut()).enumerate() {
                let verdict = self.verdict(number).with_context(|| program.to_owned())?;
                if counts.add(*build, &verdict)? {
                    println!("{program}, {strategy}, seed {seed}: {verdict} of {}", build.name);
                }
            }
        }
        Ok(traces)
    }

    /// Builds the program in all variants.
    fn build_c(&self, programs: &Path, (program, fixed): (&str, &str), toolchain: Toolchain) -> Result<()> {
        let source = fs::read_to_string(programs.join(format!("{program}.c")))?;
        let fixed = fs::read_to_string(programs.join(format!("{fixed}.c")))?;
        let compile = |name: &str, source: &str| {
            let include = ["-I".to_owned(), programs.display().to_string()];
            self.compile("cc", name, ("program.c", source), toolchain, &include)
        };
        self.build_variants(compile, &source, &fixed)
    }

    fn build_cpp(&self, toolchain: Toolchain) -> Result<()> {
        let fixed = format!("#define FIXED\n#line 1\n{TALLY}");
        let compile = |name: &str, source: &str| {
            self.compile("c++", name, ("program.cpp", source), toolchain, &["-std=c++17".to_owned()])
        };
        self.build_variants(compile, TALLY, &fixed)
    }

    fn build_variants(
        &self,
        compile: impl Fn(&str, &str) -> Result<()>,
        source: &str,
        fixed: &str,
    ) -> Result<()> {
        let unrelated = format!(
            "static int spare[64];\nint more_of(int n) {{ return spare[n & 63] + n; }}\n#line 1\n{source}"
        );
        compile("bug", source)?;
        fs::copy(self.directory.join("bug"), self.directory.join(file_of(0)))?;
        for (number, source) in [source, &unrelated, fixed].into_iter().enumerate() {
            compile(&file_of(number + 1), source)?;
        }
        Ok(())
    }

    fn compile(
        &self,
        wrapped: &str,
        name: &str,
        (file, source): (&str, &str),
        toolchain: Toolchain,
        flags: &[String],
    ) -> Result<()> {
        let folder = self.directory.join(format!("source-of-{name}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(file), source)?;
        let mut command = Command::new(&self.unsnarl);
        command.env("UNSNARL_CC", toolchain.c).env("UNSNARL_CXX", toolchain.cpp);
        command.args([wrapped, toolchain.level, "-g", "-pthread", "-w"]).args(flags);
        command.arg("-o").arg(self.directory.join(name)).arg(file).current_dir(&folder);
        output(&mut command, "the compiler")?;
        Ok(())
    }

    fn build_rust(&self, level: &str) -> Result<()> {
        let unrelated = format!("{LEDGER}\npub fn spare(n: u64) -> u64 {{\n    n * 3\n}}\n");
        let variants = [
            ("bug".to_owned(), LEDGER, false),
            (file_of(1), LEDGER, false),
            (file_of(2), &unrelated, false),
            (file_of(3), LEDGER, true),
        ];
        for (name, source, fixed) in variants {
            // Each is built in a directory of its own, like a checkout.
            let package = self.directory.join(format!("package-{level}-{name}"));
            fs::create_dir_all(package.join("src"))?;
            let manifest = format!(
                "[package]\nname = \"ledger\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
                 [features]\nfixed = []\n[profile.dev]\nopt-level = {level}\n"
            );
            fs::write(package.join("Cargo.toml"), manifest)?;
            fs::write(package.join("src/main.rs"), source)?;
            let mut cargo = Command::new(&self.unsnarl);
            cargo.args(["cargo", "build", "--quiet", "--offline"]).current_dir(&package);
            cargo.args(fixed.then_some("--features=fixed")).env_remove("CARGO_TARGET_DIR");
            output(&mut cargo, "unsnarl cargo build")?;
            let built = package.join("target/unsnarl/x86_64-unknown-linux-gnu/debug/ledger");
            fs::copy(built, self.directory.join(name))?;
        }
        fs::copy(self.directory.join("bug"), self.directory.join(file_of(0)))?;
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
