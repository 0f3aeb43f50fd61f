//! `unsnarl replay`: replays a recorded schedule.

use crate::{
    fix, gdb, judge::judge_like, options::ThreadArgs, output, output_difference::OutputDifference, traces,
    verdict::Verdict,
};
use anyhow::{Result, bail};
use serde_json::json;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};
use unsnarl_exec::{Error, Executor, FileChanges, Settings};
use unsnarl_model::{Divergence, Fidelity, OutcomeKind, Plan, Policy, Trace};
use unsnarl_report::{ProgramNames, difference_json, difference_text, divergence_json, divergence_text};
use unsnarl_symbols::{Symbols, build_id};

/// Replay a recorded schedule and check that the same thing happens
#[derive(clap::Args)]
pub(crate) struct Replay {
    /// The trace: a path, or `latest`
    #[arg(default_value = "latest")]
    trace: PathBuf,
    /// Follow the schedule as far as possible, then continue without preemptions
    #[arg(long)]
    relaxed: bool,
    /// Try the schedule on another build of the program: is it fixed, does it still fail, or is the schedule no longer
    /// reachable?
    #[arg(long, value_name = "PATH", conflicts_with = "relaxed")]
    program: Option<PathBuf>,
    /// For CI: try the schedule on the program as it is now, or on --program, and succeed if the failure is fixed or
    /// no longer reachable; 100 if it still fails, 103 if there is no verdict
    #[arg(long, value_name = "VERDICT", value_parser = ["fixed"], conflicts_with_all = ["relaxed", "gdb", "vscode"])]
    expect: Option<String>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Replay in gdb, which stops at context switches; `help unsnarl` lists the commands
    #[arg(long, conflicts_with_all = ["relaxed", "program", "json", "threads"])]
    gdb: bool,
    /// Write .vscode/launch.json to debug the replay in VS Code; print it if the file exists
    #[arg(long, conflicts_with_all = ["gdb", "relaxed", "program", "json", "threads"])]
    vscode: bool,
    /// With --gdb: arguments for gdb, like `-batch -ex 'unsnarl next-switch'`
    #[arg(last = true, requires = "gdb", value_name = "GDB ARGS")]
    arguments: Vec<OsString>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// Result of a replay.
pub(crate) struct ReplayResult {
    pub(crate) trace: Trace,
    /// The failure, or the ordinary end, is the same.
    pub(crate) reproduced: bool,
    /// The first event that differs; `None` if all are the same.
    pub(crate) difference: Option<Divergence>,
    /// The program was loaded at the addresses of the recording.
    pub(crate) same_layout: bool,
    /// The first difference between the program's output and the recording's.
    pub(crate) output_difference: Option<OutputDifference>,
    pub(crate) divergence: Option<Divergence>,
}

impl ReplayResult {
    /// Returns whether all events are the same, including addresses, and so is the output.
    pub(crate) fn identical(&self) -> bool {
        self.difference.is_none() && self.same_layout && self.output_difference.is_none()
    }
}

impl Replay {
    pub(crate) fn run(self) -> Result<Verdict> {
        let recorded = traces::load(&self.trace)?;
        let program_now = self.expect.as_ref().map(|_| PathBuf::from(&recorded.program.path));
        if let Some(program) = self.program.as_ref().or(program_now.as_ref()) {
            return fix::check(&recorded, program, self.json);
        }
        if self.gdb {
            return gdb::debug(&self.trace, &recorded, &self.arguments);
        }
        if self.vscode {
            gdb::launch_json(&self.trace, &recorded)?;
            return Ok(Verdict::Fine);
        }
        // A replayed run changes files, like a recorded one.
        let files = FileChanges::Keep;
        let settings =
            Settings { echo: !self.json, threads: self.threads.kind(), files, ..Settings::default() };
        let plan = if self.relaxed {
            Plan {
                prefix: recorded.as_prefix(Fidelity::Relaxed),
                tail: Policy::Fair,
                ..recorded.plan.clone()
            }
        } else {
            recorded.replay_plan()
        };
        let replayed = replay(&recorded, &plan, settings)?;
        self.print(&recorded, &replayed);
        Ok(match (replayed.reproduced, recorded.outcome.is_failure()) {
            (true, true) => Verdict::Failure,
            (true, false) => Verdict::Fine,
            (false, _) => Verdict::NotReproduced,
        })
    }

    fn print(&self, recorded: &Trace, replayed: &ReplayResult) {
        let mut symbols = Symbols::new();
        if self.json {
            let (outcome, stats, _) = output::trace_json(&replayed.trace);
            let mut names = ProgramNames::new(&recorded.modules, &mut symbols);
            let divergence = replayed.divergence.as_ref().map(|d| divergence_json(d, recorded, &mut names));
            let difference = replayed.difference.as_ref();
            let difference = difference.map(|d| difference_json(d, recorded, &replayed.trace, &mut names));
            output::json(&json!({
                "reproduced": replayed.reproduced, "identical": replayed.identical(), "outcome": outcome,
                "stats": stats, "divergence": divergence, "difference": difference,
                "same_layout": replayed.same_layout, "same_output": replayed.output_difference.is_none(),
            }));
            return;
        }
        match (&replayed.divergence, replayed.reproduced) {
            (Some(divergence), false) => {
                let mut names = ProgramNames::new(&recorded.modules, &mut symbols);
                eprint!("{}", divergence_text(divergence, recorded, &replayed.trace, &mut names));
            }
            (_, true) => {
                eprint!("{}", output::outcome(&replayed.trace));
                if recorded.outcome.kind == OutcomeKind::Check {
                    eprintln!("  (recorded as a failure by your check, which a replay does not make again)");
                }
                let events = recorded.events.len();
                let how = if replayed.identical() {
                    format!(": all {events} events are the same")
                } else if replayed.difference.is_none() && replayed.same_layout {
                    format!(": all {events} events are the same, but not the output")
                } else if replayed.difference.is_none() {
                    format!(
                        ": all {events} events are the same, but the program was loaded at other addresses"
                    )
                } else if same_operations(recorded, &replayed.trace) {
                    format!(": all {events} operations are the same, at other addresses or with other values")
                } else {
                    ", by other events".into()
                };
                eprintln!("reproduced{how}");
                if let Some(difference) = &replayed.difference {
                    let mut names = ProgramNames::new(&recorded.modules, &mut symbols);
                    eprint!("{}", difference_text(difference, recorded, &replayed.trace, &mut names));
                } else if let Some(difference) = &replayed.output_difference {
                    eprint!("{difference}");
                }
            }
            (None, false) => {
                eprint!("{}", output::outcome(&replayed.trace));
                eprintln!("not reproduced; the recording ended differently:");
                eprint!("{}", output::outcome(recorded));
            }
        }
    }
}

/// Runs a plan made from a trace, and compares.
pub(crate) fn replay(recorded: &Trace, plan: &Plan, settings: Settings) -> Result<ReplayResult> {
    check(recorded)?;
    let mut executor = Executor::new(recorded.program.clone(), settings)?;
    let run = executor.run(plan)?;
    let mut divergence = run.divergence();
    let cut_off = run.reached_plan_end();
    let mut trace = run.trace();
    let difference = recorded.first_difference(&trace);
    let same_events = difference.is_none();
    // A run that was cut off ends where its recording did. If it never reaches another schedule point, some limit ends
    // the replay too; which one comes first depends on their sizes.
    let cut_off = cut_off || trace.outcome.limit().is_some() && divergence.is_none();
    if cut_off && same_events && was_cut_off(recorded.outcome.kind) {
        trace.outcome = recorded.outcome.clone();
        divergence = None;
    }
    judge_like(recorded, &mut trace);
    match recorded.outcome.kind {
        // The user's own check is not repeated; the same events count as the same result.
        OutcomeKind::Check if same_events && !trace.outcome.is_failure() => {
            trace.outcome = recorded.outcome.clone()
        }
        _ => {}
    }
    let reproduced = divergence.is_none() && trace.signature() == recorded.signature();
    // With relaxed fidelity other events are no divergence; only the outcome counts.
    if !reproduced && divergence.is_none() && plan.prefix.fidelity == Fidelity::Exact {
        divergence.clone_from(&difference);
    }
    let same_layout = recorded.has_layout_of(&trace);
    let output_difference = OutputDifference::of(recorded, &trace);
    Ok(ReplayResult { trace, reproduced, difference, same_layout, output_difference, divergence })
}

/// Returns whether a run with this outcome may have been cut off: it was stopped by a limit, or would never have ended,
/// or it is a failure by what happened before its end.
const fn was_cut_off(kind: OutcomeKind) -> bool {
    matches!(
        kind,
        OutcomeKind::Undecided(_) | OutcomeKind::Livelock | OutcomeKind::Race | OutcomeKind::Misuse
    )
}

/// Returns whether the same threads execute the same operations at the same sites in the same order.
fn same_operations(recorded: &Trace, other: &Trace) -> bool {
    let steps = |trace: &Trace| -> Vec<_> {
        trace
            .events
            .iter()
            .map(|event| (trace.thread_id(event.thread).clone(), trace.action(event)))
            .collect()
    };
    steps(recorded) == steps(other)
}

/// Checks that the program of a trace exists and can be run.
pub(crate) fn check(recorded: &Trace) -> Result<()> {
    if recorded.program.path.is_empty() {
        bail!(Error::NotThisBuild(
            "the trace was imported from another tool and has no program to run".into()
        ));
    }
    check_builds(recorded)?;
    unsnarl_exec::check(Path::new(&recorded.program.path))?;
    Ok(())
}

/// Checks that the program's files are the recorded builds.
pub(crate) fn check_builds(recorded: &Trace) -> Result<()> {
    for module in recorded.modules.iter().filter(|m| !m.build_id.is_empty()) {
        if !Path::new(&module.path).exists() {
            bail!(Error::NotThisBuild(format!(
                "{}, with which the trace was recorded, is gone; bring it back, \
                 or try the schedule on another build with `unsnarl replay --program PATH`",
                module.path
            )));
        }
        if build_id(Path::new(&module.path)) != module.build_id {
            bail!(Error::NotThisBuild(format!(
                "{} is not the file that the trace was recorded with; record again, bring back that build, \
                 or try the schedule on another one with `unsnarl replay --program PATH`",
                module.path
            )));
        }
    }
    Ok(())
}
