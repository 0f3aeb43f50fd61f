//! Developer commands of this repository: `cargo xtask demo|test|bench`.

#![forbid(unsafe_code)]

mod bench;
mod demo;
mod dist;
mod plots;
mod test;
mod tools;
mod validate;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo                     build unsnarl, find a bug in a small program, replay it, show it
  test                     formatting, lints, all tests
  dist [--check]           make a release in target/dist; check that it works in a fresh Debian (as root)
  validate                 check reports of every kind of failure against the published schemas of their formats
  plots [--into DIR]       draw the plots of docs/results.md from the CSV files in docs/results/data
  bench runtime [--quick]  the cost of control, as ratios measured side by side
  bench simplify [--quick] results and cost of simplification, compared with the papers' algorithms
                           (or one part of it: programs, start, static, minimum)
  bench predict [--quick]  findings from one run, compared with ThreadSanitizer; events per second
                           (or one table of it: scenarios, programs, distribution, injected, speed)
  bench slice [--quick]    cost of an instruction trace, compared with native, stepping and lackey; slices of it
                           (or one part of it: native, stepping, lackey, slices, reductions)
  bench real [--quick] [PROGRAM…]  third-party programs: right results, identical replays, the cost of control
  bench determinism [--runs N]  replays of a program that hashes uninitialised memory
  bench fix                verdicts on other builds of a failing program, whose right verdict is known
  bench semantics [--sequences N]  random operations have the same results as without control
  bench soak [--quick]     ten thousand runs: memory stays flat, no zombies, every failing trace replays
  bench search [--quick]   schedules to the first failure, runs per second, no false failures
                           (or one part of it: failures, hard, clean, memory, speed)

All of them install what is missing (compilers, gdb, …) when run as root on Debian or a derivative,
and otherwise print the command that installs it.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["demo"] => demo::demo(),
        ["test"] => test::test(),
        ["dist"] => dist::dist(false),
        ["dist", "--check"] => dist::dist(true),
        ["validate"] => validate::validate(),
        ["plots"] => plots::draw_all(None),
        ["plots", "--into", directory] => plots::draw_all(Some(directory)),
        ["bench", "runtime"] => bench::runtime::bench(bench::BenchEffort::Full),
        ["bench", "runtime", "--quick"] => bench::runtime::bench(bench::BenchEffort::Quick),
        ["bench", "simplify"] => bench::simplify::bench(bench::BenchEffort::Full, None),
        ["bench", "simplify", "--quick"] => bench::simplify::bench(bench::BenchEffort::Quick, None),
        ["bench", "simplify", part] => bench::simplify::bench(bench::BenchEffort::Full, Some(part)),
        ["bench", "simplify", part, "--quick"] => {
            bench::simplify::bench(bench::BenchEffort::Quick, Some(part))
        }
        ["bench", "predict"] => bench::predict::bench(bench::BenchEffort::Full, None),
        ["bench", "predict", "--quick"] => bench::predict::bench(bench::BenchEffort::Quick, None),
        ["bench", "predict", table] => bench::predict::bench(bench::BenchEffort::Full, Some(table)),
        ["bench", "slice"] => bench::slice::bench(bench::BenchEffort::Full, None),
        ["bench", "slice", "--quick"] => bench::slice::bench(bench::BenchEffort::Quick, None),
        ["bench", "slice", part] => bench::slice::bench(bench::BenchEffort::Full, Some(part)),
        ["bench", "slice", part, "--quick"] => bench::slice::bench(bench::BenchEffort::Quick, Some(part)),
        ["bench", "real", "--quick", ref programs @ ..] => {
            bench::real::bench(bench::BenchEffort::Quick, programs)
        }
        ["bench", "real", ref programs @ ..] => bench::real::bench(bench::BenchEffort::Full, programs),
        ["bench", "determinism"] => bench::determinism::bench(None),
        ["bench", "determinism", "--runs", runs] => {
            runs.parse().map_err(Into::into).and_then(|runs| bench::determinism::bench(Some(runs)))
        }
        ["bench", "fix"] => bench::fix::bench(),
        ["bench", "semantics"] => bench::semantics::bench(None),
        ["bench", "semantics", "--sequences", sequences] => sequences
            .parse()
            .map_err(Into::into)
            .and_then(|sequences| bench::semantics::bench(Some(sequences))),
        ["bench", "soak"] => bench::soak::bench(bench::BenchEffort::Full),
        ["bench", "soak", "--quick"] => bench::soak::bench(bench::BenchEffort::Quick),
        ["bench", "search"] => bench::search::bench(bench::BenchEffort::Full, None),
        ["bench", "search", "--quick"] => bench::search::bench(bench::BenchEffort::Quick, None),
        ["bench", "search", part] => bench::search::bench(bench::BenchEffort::Full, Some(part)),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
