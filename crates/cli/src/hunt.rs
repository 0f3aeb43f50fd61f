//! `unsnarl hunt`: explains a failure that occurs once in a while, in one command.

use crate::{
    examined::Examined,
    explore::{self, Explore, SearchOptions, SearchReport, found::Destination},
    judge,
    options::{Follow, PointSet, Target, duration},
    output, report,
    simplify::{self, SimplificationReport, best::BestTrace},
    slice::{self, SliceOutcome},
    target, traces,
    verdict::Verdict,
    wrap::cargo::TARGET,
};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};
use unsnarl_model::{Module, Program, Stats, Trace};
use unsnarl_report::{
    Case, CaseResult, ProgramNames, cause_json, cause_text, counterfactuals_json, headline_text,
    interleaving_table, junit, rest_text, stats_json,
};
use unsnarl_simplify::combined;
use unsnarl_symbols::Symbols;

/// Find a failing schedule, simplify it, and explain the failure with the lines that matter
#[derive(clap::Args)]
pub(crate) struct Hunt {
    /// Build first with this shell command, with `unsnarl cc` and `unsnarl c++` as CC and CXX
    #[arg(long, value_name = "CMD")]
    build: Option<String>,
    /// Simplification effort: see `unsnarl simplify --help`
    #[arg(long, value_name = "N", default_value_t = 2)]
    effort: u32,
    /// Time limit for the simplification; the best result so far is shown
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    simplify_time: Duration,
    /// Time limit for the slice
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    slice_time: Duration,
    /// Also write a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    options: SearchOptions,
    #[command(flatten)]
    follow: Follow,
    #[command(flatten)]
    target: Target,
}

/// The failure that was found, and its simplified trace.
struct HuntResult {
    /// The trace as it was found, and its path.
    found: Trace,
    original: PathBuf,
    simplification: SimplificationReport,
    path: PathBuf,
    /// The slice as text, or why there is none.
    slice: String,
    sliced: bool,
}

impl Hunt {
    pub(crate) fn run(self) -> Result<Verdict> {
        self.options.check()?;
        self.html.as_deref().map_or(Ok(()), traces::check_file)?;
        if let Some(command) = &self.build {
            build(command)?;
        }
        let json = self.options.run.json;
        let (program, _launcher) = target::program_to_control(&self.target, &self.follow)?;
        let interrupt = explore::interrupt()?;
        for note in
            [uninstrumented(&program, self.build.is_some()), outdated(&program.path)].into_iter().flatten()
        {
            print_progress(json, &note);
        }
        print_progress(json, "searching for a schedule that fails");
        let budget = self.options.budget();
        // Without a time for the whole command, the parts after the search have their own.
        let until = budget.until.filter(|_| self.options.time.is_some());
        let bar = explore::progress(&budget, json);
        let destination = self.destination(&program);
        let mut search = self.options.explore(program, budget, (&interrupt, &bar), &destination)?;
        let original = search.failures.0.first().and_then(|failure| failure.saved.path());
        let Some(original) = original.map(Path::to_path_buf) else {
            let explore = Explore { options: self.options, follow: self.follow, target: self.target };
            return explore.report(&mut search, &destination);
        };
        let result = self.simplify(&search, original, until, &interrupt)?;
        if let Some(path) = &self.html {
            report::write(path, &result.simplification.after, Some(&result.found))?;
        }
        if let Some(path) = &self.options.junit {
            let name = report::program(&result.found);
            let case = Case {
                result: CaseResult::Failed(vec![report::failure(&result.simplification.after)]),
                ..search.case("unsnarl", &name)
            };
            report::save(path, &junit(&name, &[case]))?;
        }
        if json {
            output::json(&result.json(&search));
        } else {
            output::print(&result.page(&search));
        }
        Ok(Verdict::Failure)
    }

    /// Returns where the traces of the search go. The path that the user named is that of the simplified trace.
    fn destination(&self, program: &Program) -> Destination {
        let name = traces::name_of_program(&program.path);
        Destination { requested: None, before: 0, name, beside: self.options.run.output.clone() }
    }

    /// Simplifies the first failure, and saves the result.
    fn simplify(
        &self,
        search: &SearchReport,
        original: PathBuf,
        until: Option<Instant>,
        interrupt: &Arc<AtomicBool>,
    ) -> Result<HuntResult> {
        let found = search.failures.0[0].trace.clone();
        let name = traces::program_name(&found);
        print_progress(self.options.run.json, "simplifying it");
        let run_options = simplify::program::RunOptions {
            jobs: self.options.jobs,
            until: [Instant::now().checked_add(self.simplify_time), until].into_iter().flatten().min(),
            executions: u64::MAX,
            snapshots: true,
            checks: self.options.checks.clone(),
            quiet: self.options.run.json,
        };
        let options = combined::SimplifyOptions {
            effort: self.effort,
            batch: run_options.jobs,
            executions: run_options.executions,
            ..combined::SimplifyOptions::default()
        };
        let mut best = BestTrace::new(self.options.run.output.clone(), format!("{name}-simplified"));
        let method = simplify::Method::Both(options);
        let mut simplification = method.simplify(&found, run_options, interrupt, &mut best)?;
        if simplification.preserved != Some(true) {
            // The failure that was found has been reproduced.
            simplification.keep_original(&found);
        }
        judge::add_stacks(&mut simplification.after);
        judge::add_accesses(&mut simplification.after);
        let path = best.finish(&simplification.after).unwrap_or_else(|error| {
            eprintln!("error: {error:#}; {} has the failure as it was found", output::quoted(&original));
            original.clone()
        });
        print_progress(self.options.run.json, "looking for the lines that contributed");
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let slice_time = left.map_or(self.slice_time, |left| left.min(self.slice_time));
        let (sliced, slice) =
            match slice::failure(&simplification.after, slice_time, self.options.run.json, interrupt) {
                Ok(Some(SliceOutcome::Text(text))) => (true, text),
                Ok(Some(SliceOutcome::NotReproduced(reason))) => (false, reason),
                Ok(None) => (
                    false,
                    format!(
                        "no slice within {:?} ({}): `unsnarl slice {}` has no time limit\n",
                        if slice_time < self.slice_time {
                            Duration::from_secs(slice_time.as_secs())
                        } else {
                            slice_time
                        },
                        if slice_time < self.slice_time { "--time" } else { "--slice-time" },
                        path.display()
                    ),
                ),
                Err(error) => (false, format!("no slice: {error:#}\n")),
            };
        Ok(HuntResult { found, original, simplification, path, slice, sliced })
    }
}

impl HuntResult {
    /// Returns the final page: the failure and its cause, the interleaving, the slice, and the next commands.
    fn page(&self, search: &SearchReport) -> String {
        let after = &self.simplification.after;
        let mut symbols = Symbols::new();
        let mut names = ProgramNames::new(&after.modules, &mut symbols);
        let look = output::render_options();
        let (before, left) = (self.found.stats(), after.stats());
        let (path, original) = (output::quoted(&self.path), output::quoted(&self.original));
        let run = search.failures.0[0].run;
        let checked = explore::SAME_FAILURE;
        let parts = [
            headline_text(after, &mut names, &look),
            cause_text(after, &mut names, &look),
            interleaving_table(after, &mut names, &look),
            rest_text(after, &mut names, &look).trim_start_matches('\n').to_owned(),
            self.slice.trim().to_owned() + "\n",
            self.races(),
            format!(
                "found    in run {} ({}), {:.2} s\n\
                 reduced  {}, {}, {:.2} s{}\n\
                 trace    {path} (original: {original})\n\
                 replay   unsnarl replay {path}   ({checked})\n\
                 debug    unsnarl replay {path} --gdb\n\
                 report   unsnarl report {path} --before {original} --html report.html\n\
                 share    unsnarl pack {path}\n\
                 prove    unsnarl simplify --prove {path}\n\
                 fixed?   unsnarl replay {path} --program FIXED\n",
                run,
                explore::strategy_name(&self.found.plan),
                search.elapsed.as_secs_f64(),
                reduction(&before, &left),
                output::counted(self.simplification.stats.executions, "run"),
                self.simplification.elapsed.as_secs_f64(),
                self.simplification.stopped_text(),
            ),
        ];
        parts.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Returns the racing accesses of the run that is shown, if the slice does not mention them.
    fn races(&self) -> String {
        let simplification = explore::races_of(&self.simplification.after);
        if simplification.is_empty() || self.sliced {
            String::new()
        } else {
            format!("data races in this run:\n{simplification}")
        }
    }

    /// Returns the slice as `slice --json` has it, or why there is none.
    fn slice_json(&self) -> serde_json::Value {
        let value = serde_json::from_str(&self.slice).ok().filter(|_| self.sliced);
        value.unwrap_or_else(|| json!({ "missing": self.slice.trim() }))
    }

    fn json(&self, search: &SearchReport) -> serde_json::Value {
        let after = &self.simplification.after;
        let mut symbols = Symbols::new();
        let (outcome, stats, _) = output::trace_json(after);
        let mut names = ProgramNames::new(&after.modules, &mut symbols);
        let (needs, cause) = (counterfactuals_json(after, &mut names), cause_json(after, &mut names));
        json!({
            "found": true, "runs": search.runs, "undecided": search.undecided, "elapsed_s": (search.elapsed + self.simplification.elapsed).as_secs_f64(),
            "trace": self.path, "original": self.original, "outcome": outcome, "stats": stats,
            "before": stats_json(&self.found.stats()), "preemptions": needs,
            "cause": cause, "executions": self.simplification.stats.executions, "outcome_preserved": self.simplification.preserved, "slice": self.slice_json(),
        })
    }
}

/// Formats the number of context switches before and after.
fn reduction(before: &Stats, after: &Stats) -> String {
    if (before.context_switches, before.preemptive) == (after.context_switches, after.preemptive) {
        let (switches, preemptions) = (
            output::counted(after.context_switches, "context switch"),
            output::counted(after.preemptive, "preemption"),
        );
        return format!("not further: {switches}, {preemptions}");
    }
    format!(
        "from {} to {}, from {} to {}",
        output::counted(before.context_switches, "context switch"),
        after.context_switches,
        output::counted(before.preemptive, "preemption"),
        after.preemptive
    )
}

/// Says that the program's accesses will not be examined, and where there is a build whose accesses would.
fn uninstrumented(program: &Program, built: bool) -> Option<String> {
    let module = Module { path: program.path.clone(), size: 1, ..Module::default() };
    let examined = Examined::new(&PointSet::default(), 1, &[module], &program.cwd);
    let unseen = examined.unseen_text(&program.cwd);
    let build = if built { " (the command of --build must use CC or CXX)" } else { "" };
    (!unseen.is_empty()).then(|| match instrumented_build(&program.path) {
        Some(other) => format!("{unseen}there is an instrumented build: {}", output::quoted(&other)),
        None => format!("{}{build}", unseen.trim_end()),
    })
}

/// Returns the build of the same name that `unsnarl cargo` made: `target/debug/prog` has one in
/// `target/unsnarl/…/debug/prog`.
fn instrumented_build(path: &str) -> Option<PathBuf> {
    let (directory, name) = path.rsplit_once('/')?;
    let (target, profile) = directory.rsplit_once('/')?;
    let other = PathBuf::from(format!("{target}/unsnarl/{TARGET}/{profile}/{name}"));
    unsnarl_symbols::is_instrumented(&other).then_some(other)
}

/// Says that an ordinary build of the same name is newer than this one that `unsnarl cargo` made.
fn outdated(path: &str) -> Option<String> {
    let (directory, name) = path.rsplit_once('/')?;
    let (above, profile) = directory.rsplit_once('/')?;
    let target = above.strip_suffix(TARGET)?.strip_suffix("/unsnarl/")?;
    let other = PathBuf::from(format!("{target}/{profile}/{name}"));
    let built = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let is_newer = built(&other)? > built(Path::new(path))?;
    is_newer.then(|| {
        format!(
            "{} is newer than {}: `unsnarl cargo build` first?",
            output::quoted(&other),
            output::quoted(path.as_ref())
        )
    })
}

/// Prints the current stage as progress.
fn print_progress(quiet: bool, stage: &str) {
    if !quiet {
        eprintln!("{stage}");
    }
}

/// Builds the program with the user's command.
fn build(command: &str) -> Result<()> {
    let own = std::env::current_exe().context("cannot find the path of unsnarl itself")?;
    let wrapper = |language: &str| format!("{} {language}", output::quoted(&own));
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("CC", wrapper("cc")).env("CXX", wrapper("c++"));
    // The build's output is progress, not a result.
    let status = shell.stdin(Stdio::null()).stdout(std::io::stderr()).status().context("cannot run sh")?;
    if !status.success() {
        bail!("the build failed ({status}): `{command}`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn build_that_is_older_than_an_ordinary_one_is_noticed() {
        let target = std::env::temp_dir().join(format!("unsnarl-outdated-{}", std::process::id()));
        let own = target.join(format!("unsnarl/{TARGET}/debug/prog"));
        let ordinary = target.join("debug/prog");
        let build = |path: &Path, age: u64| {
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            let file = std::fs::File::create(path).expect("a file");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("a time");
        };
        build(&own, 10);
        let note = || outdated(own.to_str().expect("a path"));
        assert_eq!(note(), None, "there is no other build");
        build(&ordinary, 20);
        assert_eq!(note(), None);
        build(&ordinary, 5);
        assert!(note().is_some_and(|note| note.contains("debug/prog is newer than ")));
        assert_eq!(outdated("/work/prog"), None);
        std::fs::remove_dir_all(&target).expect("the directory");
    }
}
