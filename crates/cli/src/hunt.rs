//! `unsnarl hunt`: from a program that fails once in a while to why, in one command.

use crate::{
    explore::{self, Explore, Search, Wishes},
    judge,
    options::{Follow, Target, duration},
    output, report,
    simplify::{self, Told},
    slice::{self, Sliced},
    target, traces,
    verdict::Verdict,
};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};
use unsnarl_model::{Stats, Trace};
use unsnarl_report::{
    Case, CaseResult, ProgramNames, RenderOptions, cause_text, counterfactuals_json, headline_text,
    interleaving_table, junit, rest_text, stats_json,
};
use unsnarl_simplify::combined;
use unsnarl_symbols::Symbols;

/// Find a failing schedule, simplify it, and show why it fails, with the lines that matter
#[derive(clap::Args)]
pub(crate) struct Hunt {
    /// Build first, by this shell command, with `unsnarl cc` and `unsnarl c++` as CC and CXX
    #[arg(long, value_name = "CMD")]
    build: Option<String>,
    /// How hard to simplify: see `unsnarl simplify --help`
    #[arg(long, value_name = "N", default_value_t = 2)]
    effort: u32,
    /// Simplify for this long at most; what is there then is shown
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    simplify_time: Duration,
    /// Look for the lines that made it fail for this long at most
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    slice_time: Duration,
    /// Also write a page about it: one file that needs no other
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    follow: Follow,
    #[command(flatten)]
    target: Target,
}

/// What was found and what is left of it.
struct Prey {
    /// As it was found, and where that trace is.
    found: Trace,
    original: PathBuf,
    told: Told,
    path: PathBuf,
    /// The lines that made it fail, or why they are not known.
    slice: String,
    sliced: bool,
}

impl Hunt {
    pub(crate) fn run(self) -> Result<Verdict> {
        if let Some(command) = &self.build {
            build(command)?;
        }
        let json = self.wishes.run.json;
        let (program, _launcher) = target::followed(&self.target, &self.follow)?;
        let interrupt = explore::interrupt()?;
        say(json, "searching for a schedule that fails");
        let bar = explore::progress(self.wishes.runs, json);
        let mut search = self.wishes.explore(program, &interrupt, &bar)?;
        if search.failures.0.is_empty() {
            let explore = Explore { wishes: self.wishes, follow: self.follow, target: self.target };
            return explore.tell(&mut search);
        }
        let prey = self.simplify(&search, &interrupt)?;
        if let Some(path) = &self.html {
            report::write(path, &prey.told.after, Some(&prey.found))?;
        }
        if let Some(path) = &self.wishes.junit {
            let name = report::program(&prey.found);
            let case = Case {
                result: CaseResult::Failed(vec![report::failure(&prey.told.after)]),
                ..search.case("unsnarl", &name)
            };
            report::save(path, &junit(&name, &[case]))?;
        }
        if json {
            output::json(&prey.json(&search));
        } else {
            output::print(&prey.page(&search, &self.wishes));
        }
        Ok(Verdict::Failure)
    }

    /// Simplifies the first failure, and saves it before and after.
    fn simplify(&self, search: &Search, interrupt: &Arc<AtomicBool>) -> Result<Prey> {
        let found = search.failures.0[0].trace.clone();
        let original = traces::save(&found, None)?;
        say(self.wishes.run.json, "simplifying it");
        let wishes = simplify::program::Wishes {
            jobs: self.wishes.jobs,
            until: Instant::now().checked_add(self.simplify_time),
            executions: 10_000,
            snapshots: true,
            checks: self.wishes.checks.clone(),
            quiet: self.wishes.run.json,
        };
        let options =
            combined::Options { effort: self.effort, batch: wishes.jobs, ..combined::Options::default() };
        let mut told = simplify::Way::Both(options).simplify(&found, wishes, interrupt)?;
        judge::add_calls(&mut told.after);
        let name =
            Path::new(&found.program.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path =
            traces::save_as(&told.after, self.wishes.path(0).as_deref(), &format!("{name}-simplified"))?;
        say(self.wishes.run.json, "looking for the lines that made it fail");
        let (sliced, slice) = match slice::failure(&told.after, self.slice_time, interrupt) {
            Ok(Some(Sliced::Told(text))) => (true, text),
            Ok(Some(Sliced::NotReproduced(why))) => (false, why),
            Ok(None) => (
                false,
                format!(
                    "no slice within {:?}, which --slice-time limits: `unsnarl slice {}` takes its time\n",
                    self.slice_time,
                    path.display()
                ),
            ),
            Err(error) => (false, format!("no slice: {error:#}\n")),
        };
        Ok(Prey { found, original, told, path, slice, sliced })
    }
}

impl Prey {
    /// The final page: what failed and why, the interleaving, the lines that mattered, what to do next.
    fn page(&self, search: &Search, wishes: &Wishes) -> String {
        let after = &self.told.after;
        let mut symbols = Symbols::new();
        let mut names = ProgramNames::new(&after.modules, &mut symbols);
        let look = output::look();
        let (before, left) = (self.found.stats(), after.stats());
        let (path, original) = (output::quoted(&self.path), output::quoted(&self.original));
        let tried = match self.told.preserved {
            Some(true) => "tried: the same failure",
            _ => "tried: it does NOT reproduce; the program depends on something outside",
        };
        let parts = [
            headline_text(after, &mut names, &look),
            cause_text(after, &mut names, &look),
            interleaving_table(after, &mut names, &look),
            rest_text(after, &mut names, &look).trim_start_matches('\n').to_owned(),
            self.slice.trim().to_owned() + "\n",
            self.races(),
            format!(
                "found    in run {} of {} ({}), {:.2} s\n\
                 reduced  {}, {} runs, {:.2} s{}\n\
                 trace    {path} (as it was found: {original})\n\
                 replay   unsnarl replay {path}   ({tried})\n\
                 debug    unsnarl replay {path} --gdb\n\
                 look     unsnarl report {path} --before {original} --html report.html\n\
                 share    unsnarl pack {path}\n\
                 prove    unsnarl simplify --prove {path}\n\
                 fixed?   unsnarl replay {path} --program FIXED\n",
                search.runs,
                wishes.runs,
                explore::how_found(&self.found.plan),
                search.elapsed.as_secs_f64(),
                reduction(&before, &left),
                self.told.tally.executions,
                self.told.elapsed.as_secs_f64(),
                self.told.stopped_text(),
            ),
        ];
        parts.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// The racing accesses of the run that is shown, where the slice does not tell of them.
    fn races(&self) -> String {
        let told = explore::races_of(&self.told.after);
        if told.is_empty() || self.sliced {
            String::new()
        } else {
            format!("data races in this run:\n{told}")
        }
    }

    fn cause(&self) -> String {
        let mut symbols = Symbols::new();
        let after = &self.told.after;
        let plain = RenderOptions { width: 200, colour: false, full: false };
        cause_text(after, &mut ProgramNames::new(&after.modules, &mut symbols), &plain)
    }

    fn json(&self, search: &Search) -> serde_json::Value {
        let after = &self.told.after;
        let mut symbols = Symbols::new();
        let (outcome, stats, _) = output::trace_json(after);
        let needs = counterfactuals_json(after, &mut ProgramNames::new(&after.modules, &mut symbols));
        json!({
            "found": true, "runs": search.runs, "elapsed_s": (search.elapsed + self.told.elapsed).as_secs_f64(),
            "trace": self.path, "original": self.original, "outcome": outcome, "stats": stats,
            "before": stats_json(&self.found.stats()), "preemptions": needs,
            "cause": self.cause(), "executions": self.told.tally.executions, "outcome_preserved": self.told.preserved, "slice": self.slice,
        })
    }
}

/// Context switches before and after.
fn reduction(before: &Stats, after: &Stats) -> String {
    format!(
        "from {} context switches to {}, from {} preemptions to {}",
        before.context_switches, after.context_switches, before.preemptive, after.preemptive
    )
}

/// Which stage it is, where progress goes.
fn say(quiet: bool, what: &str) {
    if !quiet {
        eprintln!("{what}");
    }
}

/// Builds the program by the user's command.
fn build(command: &str) -> Result<()> {
    let own = std::env::current_exe().context("cannot find the path of unsnarl itself")?;
    let wrapper = |language: &str| format!("{} {language}", output::quoted(&own));
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("CC", wrapper("cc")).env("CXX", wrapper("c++"));
    // What the build prints is progress, not a result.
    let status = shell.stdin(Stdio::null()).stdout(std::io::stderr()).status().context("cannot run sh")?;
    if !status.success() {
        bail!("the build failed ({status}): `{command}`");
    }
    Ok(())
}
