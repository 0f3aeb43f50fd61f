//! `cargo xtask bench real --times`: the cost of control for third-party programs.
//!
//! For each program: how often the result was right, how often the replay was identical, and the cost of control
//! compared with the program by itself on one processor, with valgrind's null tool, and, if it was compiled here, with
//! ThreadSanitizer.

use super::servers::{Host, SERVERS, Server};
use crate::bench::BenchEffort;
use crate::bench::distribution::{Archive, PACKAGES};
use crate::bench::measure::Measurement;
use crate::tools;
use crate::workspace::{Workspace, output};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A program with its arguments.
struct Subject {
    name: &'static str,
    command: Vec<String>,
    /// The build without instrumentation, if that is another program.
    plain: Option<Vec<String>>,
    /// The build with ThreadSanitizer, if there is one.
    with_tsan: Option<Vec<String>>,
}

impl Subject {
    /// Returns the command without unsnarl.
    fn native(&self) -> &[String] {
        self.plain.as_ref().unwrap_or(&self.command)
    }
}

/// Source packages of the distribution: the row that they are compiled for, and their arguments.
const FROM_SOURCE: [(&str, &str, &str); 3] = [
    ("pbzip2", "pbzip2, cc", "-p4 -b1 -c few-words"),
    ("libzstd", "zstd, cc", "-q -T4 -B64KB --stdout few-words"),
    ("xz-utils", "xz, cc", "-T4 -1 --block-size=16KiB -c few-words"),
];

/// Measures all programs, or those of these names.
pub(crate) fn bench(effort: BenchEffort, programs: &[&str]) -> Result<()> {
    let selected = |name: &str| programs.is_empty() || programs.contains(&name);
    let workspace = Workspace::find()?;
    tools::require(tools::COMPILERS)?;
    tools::require(tools::VALGRIND)?;
    tools::require(tools::REAL)?;
    eprintln!("building unsnarl");
    let bench = Bench {
        unsnarl: workspace.build_unsnarl()?,
        sources: workspace.root.join("xtask/bench"),
        directory: workspace.scratch("bench-real")?,
    };
    let (schedules, turns) = match effort {
        BenchEffort::Quick => (3, 1),
        BenchEffort::Full => (20, 3),
    };
    let subjects = bench.subjects(&selected)?;
    println!(
        "{:<12} {:>7} {:>9} {:>8} {:>11} {:>8}   {schedules} random schedules; times as ratios",
        "program", "right", "replayed", "/native", "/valgrind", "/TSan"
    );
    for subject in subjects.into_iter().filter(|subject| selected(subject.name)) {
        let expected = bench.native(subject.native())?.1;
        let (mut right, mut identical) = (0, 0);
        let mut wrong = String::new();
        for seed in 1..=schedules {
            match bench.record(&subject, seed, &expected) {
                Ok(()) => right += 1,
                Err(error) => wrong = format!("   seed {seed}: {error:#}"),
            }
            identical += u64::from(bench.replays()?);
        }
        let time = |command: &[String]| bench.native(command).map(|(took, _)| took.as_secs_f64());
        let ours = || {
            let start = Instant::now();
            let _ = bench.recorded(&subject, 1)?;
            Ok(start.elapsed().as_secs_f64())
        };
        let against = |theirs: &[String]| -> Result<f64> {
            Ok(Measurement::measure(turns, ours, || time(theirs), |ours, theirs| ours / theirs)?
                .ratios
                .median())
        };
        let native = against(subject.native())?;
        let valgrind = ["valgrind", "--tool=none", "-q", "--error-exitcode=0"].map(str::to_owned);
        let valgrind = against(&[&valgrind[..], subject.native()].concat())?;
        let tsan = match &subject.with_tsan {
            Some(command) => format!("{:.2}", against(command)?),
            None => "–".into(),
        };
        println!(
            "{:<12} {right:>4}/{schedules} {identical:>6}/{schedules} {native:>8.2} {valgrind:>11.2} {tsan:>8}{wrong}",
            subject.name
        );
    }
    for server in SERVERS.iter().filter(|server| selected(server.name)) {
        bench.serve(server, schedules, turns)?;
    }
    Ok(())
}

struct Bench {
    unsnarl: PathBuf,
    sources: PathBuf,
    directory: PathBuf,
}

impl Bench {
    /// Measures a server with its client, like the other programs.
    fn serve(&self, server: &Server, schedules: u64, turns: usize) -> Result<()> {
        let host = Host { unsnarl: &self.unsnarl, directory: &self.directory };
        let (mut right, mut identical) = (0, 0);
        let mut wrong = String::new();
        for seed in 1..=schedules {
            match host.record(server, seed) {
                Ok(_) => right += 1,
                Err(error) => wrong = format!("   seed {seed}: {error:#}"),
            }
            identical += u64::from(host.replays()?);
        }
        let against = |before: &str| -> Result<f64> {
            let before: Vec<String> = before.split(' ').map(str::to_owned).collect();
            let ours = || Ok(host.record(server, 1)?.as_secs_f64());
            let theirs = || Ok(host.serve(server, &before)?.as_secs_f64());
            Ok(Measurement::measure(turns, ours, theirs, |ours, theirs| ours / theirs)?.ratios.median())
        };
        let native = against("taskset -c 0")?;
        // Not every server works with it: memcached needs a limit on files that valgrind reserves.
        let valgrind = against("taskset -c 0 valgrind --tool=none -q --error-exitcode=0")
            .map_or_else(|_| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        println!(
            "{:<12} {right:>4}/{schedules} {identical:>6}/{schedules} {native:>8.2} {valgrind:>11} {:>8}{wrong}",
            server.name, "–"
        );
        Ok(())
    }

    fn subjects(&self, selected: &dyn Fn(&str) -> bool) -> Result<Vec<Subject>> {
        fs::write(self.directory.join("few-words"), words(8_000, b' '))?;
        fs::write(self.directory.join("words"), words(60_000, b' '))?;
        fs::write(self.directory.join("lines"), words(140_000, b'\n'))?;
        let of_system =
            |name, line: &str| Subject { name, command: words_of(line), plain: None, with_tsan: None };
        let script = self.sources.join("threads.py").display().to_string();
        let mut subjects = vec![
            of_system("xz", "xz -T4 -1 --block-size=64KiB -c words"),
            of_system("zstd", "zstd -q -T4 -B64KB --stdout words"),
            of_system("pigz", "pigz -p 4 -b 32 -c words"),
            of_system("pbzip2", "pbzip2 -p4 -b1 -c words"),
            of_system("lbzip2", "lbzip2 -n 4 -1 -c words"),
            of_system("sort", "sort --parallel=4 -S 20M lines"),
            of_system("python", &format!("/usr/bin/python3 {script}")),
        ];
        self.add_compiled_here(&mut subjects, selected)?;
        let plain = vec![self.compile("openmp", &[])?.display().to_string()];
        let with_tsan = Some(vec![self.compile("openmp", &["-fsanitize=thread"])?.display().to_string()]);
        subjects.push(Subject {
            name: "OpenMP",
            command: plain.clone(),
            plain: None,
            with_tsan: with_tsan.clone(),
        });
        let ours = self.compile_by(Command::new(&self.unsnarl).arg("cc"), "openmp", "ours", &[])?;
        let command = vec![ours.display().to_string()];
        subjects.push(Subject { name: "OpenMP, cc", command, plain: Some(plain), with_tsan });
        subjects.extend(self.crates()?);
        Ok(subjects)
    }

    /// Adds programs of the distribution that are compiled here, with `unsnarl cc` and with ThreadSanitizer; the
    /// distribution's own builds are compared with the latter too.
    fn add_compiled_here(&self, subjects: &mut Vec<Subject>, selected: &dyn Fn(&str) -> bool) -> Result<()> {
        let of_system = |name: &str| name.split(',').next().unwrap_or_default().to_owned();
        let compiled: Vec<_> =
            FROM_SOURCE.iter().filter(|(_, name, _)| selected(name) || selected(&of_system(name))).collect();
        if compiled.is_empty() {
            return Ok(());
        }
        let directory = self.directory.join("distribution");
        fs::create_dir_all(&directory)?;
        let archive = match Archive::open(&directory) {
            Ok(archive) => archive,
            Err(reason) => {
                eprintln!("the sources of the distribution cannot be had here: {reason:#}");
                return Ok(());
            }
        };
        for &(package, name, args) in compiled {
            eprintln!("building {package} from its source");
            let package = PACKAGES.iter().find(|known| known.name == package).context("a known package")?;
            let unsnarl = self.unsnarl.display();
            let ours = archive.unpack(package, "ours")?;
            let ours = ours.build(package, &format!("{unsnarl} cc"), &format!("{unsnarl} c++"), "")?;
            let flag = "-fsanitize=thread";
            let theirs = archive.unpack(package, "theirs")?;
            let theirs = theirs.build(package, &format!("gcc {flag}"), &format!("g++ {flag}"), flag)?;
            let command = |program: &Path| -> Vec<String> {
                std::iter::once(program.display().to_string()).chain(words_of(args)).collect()
            };
            let system = of_system(name);
            let plain = subjects.iter_mut().find(|subject| subject.name == system);
            let plain = plain.context("the distribution's own is there too")?;
            plain.with_tsan = Some([&[theirs.display().to_string()], &plain.command[1..]].concat());
            subjects.push(Subject {
                name,
                command: command(&ours),
                plain: Some(command(Path::new(&system))),
                with_tsan: Some(command(&theirs)),
            });
        }
        Ok(())
    }

    fn compile(&self, source: &str, flags: &[&str]) -> Result<PathBuf> {
        let suffix = if flags.is_empty() { "plain" } else { "tsan" };
        self.compile_by(&mut Command::new("gcc"), source, suffix, flags)
    }

    fn compile_by(
        &self,
        compiler: &mut Command,
        source: &str,
        suffix: &str,
        flags: &[&str],
    ) -> Result<PathBuf> {
        let program = self.directory.join(format!("{source}-{suffix}"));
        compiler.args(["-O2", "-g", "-fopenmp"]).args(flags);
        compiler.arg(self.sources.join(format!("{source}.c"))).arg("-o").arg(&program);
        output(compiler, &format!("compiling {source}.c"))?;
        Ok(program)
    }

    /// Returns our own programs with well-known crates, plain and instrumented, and the test suite of one of the
    /// crates.
    fn crates(&self) -> Result<Vec<Subject>> {
        let project = self.sources.join("crates");
        let target = self.directory.join("crates-target");
        let subject = |name, program: PathBuf, plain: Option<PathBuf>, args: &[&str]| Subject {
            name,
            command: std::iter::once(program.display().to_string())
                .chain(args.iter().map(|&arg| arg.to_owned()))
                .collect(),
            plain: plain.map(|plain| vec![plain.display().to_string()]),
            with_tsan: None,
        };
        let cargo = || {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.current_dir(&project).env("CARGO_TARGET_DIR", &target);
            cargo
        };
        eprintln!("building programs with rayon and tokio");
        output(cargo().args(["build", "--quiet", "--bins"]), "cargo build")?;
        let mut instrumented = Command::new(&self.unsnarl);
        instrumented.args(["cargo", "build", "--quiet", "--bins"]).current_dir(&project);
        output(instrumented.env("CARGO_TARGET_DIR", &target), "unsnarl cargo build")?;
        let instrumented = ["unsnarl/x86_64-unknown-linux-gnu/debug", "x86_64-unknown-linux-gnu/debug"]
            .map(|place| target.join(place))
            .into_iter()
            .find(|place| place.join("with_rayon").exists())
            .context("unsnarl cargo left no program")?;
        let suite = self.test_suite(cargo, "once_cell")?;
        let plain = |name: &str| target.join("debug").join(name);
        Ok(vec![
            subject("rayon", plain("with_rayon"), None, &[]),
            subject("rayon, cargo", instrumented.join("with_rayon"), Some(plain("with_rayon")), &[]),
            subject("tokio", plain("with_tokio"), None, &[]),
            subject("tokio, cargo", instrumented.join("with_tokio"), Some(plain("with_tokio")), &[]),
            // Three tests are left out. One starts a program of the crate that is not built here. One has a hundred
            // threads wait for a plain variable a hundred times, each of which the watchdog would have to detect. One
            // has a thousand threads leave a barrier at once: a million futex operations in random order.
            subject(
                "once_cell's",
                suite,
                None,
                &[
                    "--test-threads=2",
                    "--skip",
                    "reentrant_init",
                    "--skip",
                    "partially_constructed",
                    "--skip",
                    "get_or_init_stress",
                ],
            ),
        ])
    }

    /// Builds the tests of a crate that our project depends on as one program.
    fn test_suite(&self, cargo: impl Fn() -> Command, name: &str) -> Result<PathBuf> {
        let metadata = output(cargo().args(["metadata", "--format-version", "1"]), "cargo metadata")?.stdout;
        let metadata: Value = serde_json::from_slice(&metadata)?;
        let package = metadata["packages"].as_array().into_iter().flatten().find(|p| p["name"] == name);
        let manifest = package.and_then(|p| p["manifest_path"].as_str()).context("the crate is not there")?;
        let from = Path::new(manifest).parent().context("a directory")?;
        let copy = self.directory.join(name);
        output(Command::new("cp").arg("-r").arg(from).arg(&copy), "copying the crate")?;
        // The copy is a separate workspace; the lock file of the crate's author is kept.
        let manifest = copy.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)?;
        fs::write(&manifest, format!("{text}\n[workspace]\n"))?;
        let built =
            output(
                cargo()
                    .current_dir(&copy)
                    .env("CARGO_TARGET_DIR", self.directory.join("suite-target"))
                    .args(["test", "--no-run", "--quiet", "--test", "it", "--message-format=json"]),
                "building the crate's tests",
            )?;
        let messages = serde_json::Deserializer::from_slice(&built.stdout).into_iter::<Value>();
        let program = messages.flatten().filter_map(|m| m["executable"].as_str().map(PathBuf::from)).last();
        program.context("the crate has no such tests")
    }

    /// Runs the command by itself on one processor; returns its duration and output.
    fn native(&self, command: &[String]) -> Result<(Duration, Vec<u8>)> {
        let start = Instant::now();
        let mut native = Command::new("taskset");
        native.args(["-c", "0"]).args(command).current_dir(&self.directory);
        native.env("OMP_NUM_THREADS", "4").env("TSAN_OPTIONS", "report_bugs=0");
        let printed = output(&mut native, &command.join(" "))?.stdout;
        Ok((start.elapsed(), printed))
    }

    fn trace(&self) -> PathBuf {
        self.directory.join("real.snarl")
    }

    /// Records one random schedule; returns the exit status and output.
    fn recorded(&self, subject: &Subject, seed: u64) -> Result<std::process::Output> {
        let mut command = Command::new(&self.unsnarl);
        command.args(["record", "--timeout", "120s", "--seed", &seed.to_string(), "-o"]).arg(self.trace());
        command.arg("--").args(&subject.command).current_dir(&self.directory);
        command.env("OMP_NUM_THREADS", "4").stdin(std::process::Stdio::null());
        command.output().context("unsnarl runs")
    }

    /// Records one random schedule and checks its result.
    fn record(&self, subject: &Subject, seed: u64, expected: &[u8]) -> Result<()> {
        let run = self.recorded(subject, seed)?;
        let reported = String::from_utf8_lossy(&run.stderr).into_owned();
        ensure!(run.status.success(), "{}: {}", run.status, reported.lines().next().unwrap_or_default());
        ensure!(same_but_for_order(&run.stdout, expected), "another output");
        Ok(())
    }

    /// Returns whether the last recording replays event for event.
    fn replays(&self) -> Result<bool> {
        let mut command = Command::new(&self.unsnarl);
        command.args(["replay", "--json"]).arg(self.trace()).current_dir(&self.directory);
        let report: Value = serde_json::from_slice(&command.output()?.stdout).unwrap_or_default();
        Ok(report["identical"] == true)
    }
}

/// Compares output regardless of order and times: a test harness prints tests as they end, their duration, and, by
/// virtual time, which jumps, which of them take long.
fn same_but_for_order(printed: &[u8], expected: &[u8]) -> bool {
    let lines = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| !line.ends_with(" has been running for over 60 seconds"))
            .map(|line| line.split("; finished in").next().unwrap_or(line).to_owned())
            .collect();
        lines.sort();
        lines
    };
    printed == expected || expected.starts_with(b"\nrunning ") && lines(printed) == lines(expected)
}

fn words_of(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Returns a fixed sequence of words from a small vocabulary.
fn words(count: u32, between: u8) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut text = Vec::new();
    for _ in 0..count {
        let word = next() % 5000;
        text.extend((0..2 + word % 7).map(|n| b'a' + ((word >> n) * 7 % 26) as u8));
        text.push(between);
    }
    text
}
