//! The command line of unsnarl: one file per subcommand, exit statuses in one `match`.

#![forbid(unsafe_code)]

/// The standard macros panic when standard error is a closed pipe. What is not read need not be written.
macro_rules! eprint {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($argument)*);
    }};
}
macro_rules! eprintln {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}

mod bench;
mod cargo;
mod checkpoint;
mod convert;
mod doctor;
mod examined;
mod explore;
mod fix;
mod gdb;
mod hunt;
mod judge;
mod manual;
mod options;
mod output;
mod output_difference;
mod ownership;
mod pack;
mod pool;
mod predict;
mod record;
mod replay;
mod report;
mod show;
mod simplify;
mod sites;
mod slice;
mod suite;
mod target;
mod traces;
mod verdict;
mod wrap;

use clap::{
    Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{ffi::OsString, process::ExitCode};
use verdict::Verdict;

/// Find the thread schedule that makes a program fail, replay it deterministically, and see why.
#[derive(Parser)]
#[command(name = "unsnarl", version, max_term_width = 100)]
#[command(after_help = "Exit status: 0 done, nothing wrong found; 100 a failure was found or reproduced; \
    103 replay diverged or did not reproduce; 96 the target or this machine cannot be used; 2 wrong usage; \
    1 internal error.")]
struct Cli {
    #[command(flatten)]
    ownership: ownership::Ownership,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find a failing schedule, simplify it, and explain the failure, in one command
    Hunt(hunt::Hunt),
    /// Search for a failing schedule and save its trace
    Explore(explore::Explore),
    /// Record one controlled run: non-preemptive and fair, or random with --seed
    Record(record::Record),
    /// Replay a recorded schedule and check that the same thing happens
    Replay(replay::Replay),
    /// Reduce a failing trace to the fewest context switches
    Simplify(simplify::Simplify),
    /// Check the proof of a simplified trace, or a pack
    Verify(simplify::proof::Verify),
    /// Predict data races and deadlocks in other interleavings of a run
    Predict(predict::Predict),
    /// Show the few source lines that led to the failure, across threads
    Slice(slice::Slice),
    /// Show the interleaving, one column per thread
    Show(show::Show),
    /// Report a failing run as an HTML page, or as SARIF, JUnit, Perfetto or Graphviz
    Report(report::Report),
    /// Pack a trace with everything its replay needs into one file, to share or to keep
    Pack(pack::PackCommand),
    /// Export a trace to another tool's format
    Export(convert::Export),
    /// Import a trace of another tool
    Import(convert::Import),
    /// Compile C with instrumentation: CC="unsnarl cc" in make, cmake, configure
    #[command(disable_help_flag = true)]
    Cc(Arguments),
    /// Compile C++ with instrumentation: CXX="unsnarl c++"
    #[command(name = "c++", disable_help_flag = true)]
    Cxx(Arguments),
    Cargo(cargo::Cargo),
    /// Check what this machine and a program support
    Doctor(doctor::Doctor),
    /// Print shell completions
    Completions(manual::Completions),
    /// Write the manual pages
    Man(manual::Man),
    /// Run by cargo in place of a test binary: prints how the binary would have been started
    #[command(hide = true, disable_help_flag = true)]
    DescribeTestBinary(Arguments),
    /// Run by gdb in place of the program: becomes the program, scheduled by a trace
    #[command(hide = true)]
    Debuggee(gdb::Debuggee),
    /// Print what the gdb commands need to know of a trace
    #[command(hide = true)]
    DebuggerInfo(gdb::DebuggerInfo),
    /// Time consecutive controlled runs, for `cargo xtask bench`
    #[command(hide = true)]
    BenchRun(bench::run::BenchRun),
    /// Search by several strategies from several seeds, for `cargo xtask bench`
    #[command(hide = true)]
    BenchSearch(bench::search::BenchSearch),
    /// Simplify failing traces with our algorithm and the paper's, for `cargo xtask bench`
    #[command(hide = true)]
    BenchSimplify(bench::simplify::BenchSimplify),
    /// Simplify a failing trace in several ways, and print what was left when, for `cargo xtask bench`
    #[command(hide = true)]
    BenchSimplifyCurve(bench::simplify_curve::BenchSimplifyCurve),
    /// Time the simplification of long traces by their dependences, for `cargo xtask bench`
    #[command(hide = true)]
    BenchStatic(bench::static_order::BenchStatic),
    /// Time prediction on synthetic events, for `cargo xtask bench`
    #[command(hide = true)]
    BenchPredict(bench::predict::BenchPredict),
}

/// Arguments that are passed on unchanged.
#[derive(clap::Args)]
struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Bytes of stack that the main thread needs; if it has less, another thread does the work.
const STACK: u64 = 4 << 20;

fn main() -> ExitCode {
    unsnarl_exec::ignore_file_size_signal();
    if unsnarl_exec::stack_limit().is_some_and(|limit| limit < STACK) {
        let work = std::thread::Builder::new().stack_size(2 * STACK as usize).spawn(run);
        if let Ok(work) = work {
            return work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }
    run()
}

fn run() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => match cli.ownership.apply() {
            Ok(()) => cli.command,
            Err(error) => return verdict::exit(Err(error)),
        },
        Err(error) => return refuse(&error),
    };
    // Without memory even an error message may be impossible later.
    if let Err(error) = unsnarl_exec::check_data_limit() {
        if matches!(command, Command::Doctor(_)) {
            doctor::print_data_limit(&error);
            return verdict::exit(Ok(Verdict::Unusable));
        }
        return verdict::exit(Err(error.into()));
    }
    if command.runs_programs()
        && let Err(error) =
            unsnarl_exec::raise_descriptor_limit().and_then(|()| unsnarl_exec::check_threads())
    {
        return verdict::exit(Err(error.into()));
    }
    // Build systems parse a compiler's output, so notes are not printed.
    let is_compiler = matches!(command, Command::Cc(_) | Command::Cxx(_));
    let result = execute(command);
    for note in unsnarl_exec::take_notes() {
        // An error message makes the notes redundant.
        if result.is_ok() && !is_compiler {
            eprintln!("unsnarl: {note}");
        }
    }
    verdict::exit(result)
}

/// Prints what is wrong with the command line.
fn refuse(error: &clap::Error) -> ExitCode {
    let mut arguments = std::env::args();
    let subcommand = arguments.nth(1).unwrap_or_default();
    let takes_program = matches!(subcommand.as_str(), "hunt" | "explore" | "record");
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(program))
            if takes_program && error.kind() == ErrorKind::UnknownArgument && !program.starts_with('-') =>
        {
            let program = output::quoted(program.as_ref());
            eprintln!("error: put `--` before the program: unsnarl {subcommand} -- {program}");
            ExitCode::from(2)
        }
        _ => {
            // An unwritable standard error is ignored.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

impl Command {
    /// Returns whether the command starts programs, and threads to supervise them.
    fn runs_programs(&self) -> bool {
        matches!(
            self,
            Self::Hunt(_)
                | Self::Explore(_)
                | Self::Record(_)
                | Self::Replay(_)
                | Self::Simplify(_)
                | Self::Verify(_)
                | Self::Predict(_)
                | Self::Slice(_)
                | Self::Pack(_)
        )
    }
}

fn execute(command: Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Cc(a) => compile(wrap::Language::C, &a.args),
        Command::Cxx(a) => compile(wrap::Language::Cxx, &a.args),
        Command::Cargo(command) => command.run(),
        Command::DescribeTestBinary(a) => suite::describe_test_binary(&a.args),
        Command::Hunt(command) => command.run(),
        Command::Explore(command) => command.run(),
        Command::Record(command) => command.run(),
        Command::Replay(command) => command.run(),
        Command::Simplify(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Predict(command) => command.run(),
        Command::Slice(command) => command.run(),
        Command::Show(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Pack(command) => command.run(),
        Command::Export(command) => command.run(),
        Command::Import(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Debuggee(command) => command.run(),
        Command::DebuggerInfo(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
        Command::BenchRun(command) => command.run(),
        Command::BenchSearch(command) => command.run(),
        Command::BenchSimplify(command) => command.run(),
        Command::BenchSimplifyCurve(command) => command.run(),
        Command::BenchStatic(command) => command.run(),
        Command::BenchPredict(command) => command.run(),
    }
}

fn compile(language: wrap::Language, args: &[OsString]) -> anyhow::Result<Verdict> {
    let directory = unsnarl_exec::runtime_directory()?;
    wrap::cc(language, args, &directory).map(Verdict::Status)
}
