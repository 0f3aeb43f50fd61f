//! The result of a simplification as text and as JSON.

use super::{Simplify, best::BestTrace, program::StopReason, proof};
use crate::{explore, output, verdict::Verdict};
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    time::Duration,
};
use unsnarl_model::{OutcomeKind, Stats, Trace};
use unsnarl_report::{ProgramNames, counterfactuals_json, counterfactuals_text, stats_json};
use unsnarl_simplify::{
    dynamic::{SimplificationStats, Transformation},
    prove::Proof,
};
use unsnarl_symbols::Symbols;

/// The result of a simplification.
pub(crate) struct SimplificationReport {
    pub(crate) before: Stats,
    /// The simplified trace; without its events if it is saved already.
    pub(crate) after: Trace,
    pub(crate) figures: Stats,
    pub(crate) saved: Option<PathBuf>,
    /// The simplified trace fails in the same way; `None` if there is no program to run.
    pub(crate) preserved: Option<bool>,
    pub(crate) stats: SimplificationStats,
    pub(crate) proof: Option<Proof>,
    pub(crate) switches_ruled_out: Option<u64>,
    /// The failure depends on something that is not an event.
    pub(crate) has_hidden_dependence: bool,
    pub(crate) proving: bool,
    pub(crate) stopped: Option<StopReason>,
    /// The reason why it is not known what the preemptions are needed for.
    pub(crate) unexplained: Option<&'static str>,
    /// Runs that resumed from a snapshot, and why there are none if the program does not allow snapshots.
    pub(crate) resumed: u64,
    pub(crate) refused: Option<String>,
    pub(crate) elapsed: Duration,
}

impl SimplificationReport {
    /// Replaces the simplified trace by the original, which is known to reproduce.
    pub(crate) fn keep_original(&mut self, original: &Trace) {
        (self.after, self.figures) = (original.clone(), original.stats());
        self.preserved = Some(true);
    }

    /// Saves the trace and prints the report.
    pub(crate) fn print(self, options: &Simplify, best: &mut BestTrace) -> Result<Verdict> {
        let path = match &self.saved {
            Some(path) => path.clone(),
            None => best.finish(&self.after)?,
        };
        let proof_path = self.proof.as_ref().map(|proof| proof::save(proof, &path)).transpose()?;
        if options.json {
            let by_operation: Map<String, Value> = Transformation::ALL
                .iter()
                .map(|&transformation| {
                    (transformation.name().to_owned(), self.stats.removed_by(transformation).into())
                })
                .collect();
            let mut symbols = Symbols::new();
            let mut names = ProgramNames::new(&self.after.modules, &mut symbols);
            output::json(&json!({
                "trace": path, "before": stats_json(&self.before), "after": stats_json(&self.figures),
                "executions": self.stats.executions, "elapsed_s": self.elapsed.as_secs_f64(),
                "rounds": self.stats.rounds, "by_operation": by_operation,
                "outcome_preserved": self.preserved.unwrap_or(true),
                "preemptions": counterfactuals_json(&self.after, &mut names), "unexplained": self.unexplained_text(),
                "proof": proof_path, "proved": self.proof.is_some(), "none_with": self.switches_ruled_out,
                "unobserved": self.has_hidden_dependence,
                "snapshots": { "runs": self.resumed, "refused": self.refused },
                "stopped": self.stopped.as_ref().map(StopReason::name),
            }));
        } else {
            output::print(&self.text(&path, proof_path.as_deref()));
        }
        Ok(match (&self.stopped, self.preserved) {
            (_, Some(false)) => Verdict::NotReproduced,
            (Some(StopReason::Interrupted), _) => Verdict::Interrupted,
            _ => Verdict::Fine,
        })
    }

    /// Returns a suffix that says why simplification stopped early, and why preemptions have no reason; empty if
    /// neither is the case.
    pub(crate) fn stopped_text(&self) -> String {
        let stopped = self.stopped.as_ref().map(|stop_reason| format!("; stopped: {}", stop_reason.name()));
        let unexplained = self.unexplained_text().map(|text| format!("; {text}"));
        stopped.into_iter().chain(unexplained).collect()
    }

    /// Says that it is not known what the preemptions are needed for, and why.
    fn unexplained_text(&self) -> Option<String> {
        let reason = self.unexplained.filter(|_| self.figures.preemptive > 0)?;
        let preemptions = output::counted(self.figures.preemptive, "preemption");
        Some(format!("{preemptions} without a reason: {reason}"))
    }

    /// Returns the context switches that each operation removed (Tinertia, section 5.2); empty if none did.
    fn contributions(&self) -> String {
        let removed = Transformation::ALL.map(|operation| (operation, self.stats.removed_by(operation)));
        let parts: Vec<String> = removed
            .iter()
            .filter(|(_, removed)| *removed > 0)
            .map(|(operation, removed)| format!("{removed} by {}", operation.words()))
            .collect();
        if parts.is_empty() { String::new() } else { format!("removed  {}\n", parts.join(", ")) }
    }

    fn text(&self, path: &Path, proof_path: Option<&Path>) -> String {
        let mut symbols = Symbols::new();
        let mut names = ProgramNames::new(&self.after.modules, &mut symbols);
        let mut text = format!(
            "{}\n{}{}",
            output::outcome(&self.after).trim_end(),
            table(&self.before, &self.figures),
            counterfactuals_text(&self.after, &mut names)
        );
        text += &self.contributions();
        if let Some(stop_reason) = &self.stopped {
            let _ = writeln!(text, "stopped  {}: the best so far", stop_reason.name());
        }
        if let Some(unexplained) = self.unexplained_text() {
            text += &unexplained;
            text.push('\n');
        }
        match (&self.proof, self.switches_ruled_out) {
            (Some(c), _) => {
                let (runs, states) = (c.executions, c.states);
                let _ = writeln!(
                    text,
                    "proved minimal: no schedule of these points fails with fewer context switches ({runs} runs, {states} states)"
                );
            }
            (None, Some(none)) if self.proving => {
                let _ = writeln!(
                    text,
                    "not proved: no failure with at most {none} context switches, and then the runs were used up \
                     (--executions N allows more)"
                );
            }
            (None, _) if self.proving && self.after.outcome.kind == OutcomeKind::Livelock => {
                text += "not proved: a livelock never ends, so no part of it is the shortest\n";
            }
            (None, None) if self.proving && self.has_hidden_dependence => {
                text += "not proved: something that matters is not among the trace's events; a trace recorded with \
                         --points all has them all\n";
            }
            (None, None) if self.proving => {
                text += "not proved: the runs were used up (--executions N allows more)\n";
            }
            _ => {}
        }
        if let Some(reason) = &self.refused {
            let _ = match self.resumed {
                0 => writeln!(text, "no snapshots: {reason}; every run was made from the start"),
                _ => writeln!(text, "no more snapshots: {reason}; other runs were made from the start"),
            };
        }
        let quoted = output::quoted(path);
        let _ = writeln!(text, "trace    {quoted}");
        if let Some(proof_path) = proof_path {
            let _ =
                writeln!(text, "proof    {}\nverify   unsnarl verify {quoted}", output::quoted(proof_path));
        }
        // Another tool's trace has no program to run.
        if let Some(preserved) = self.preserved {
            let checked = match preserved {
                true if self.after.outcome.is_failure() => explore::SAME_FAILURE,
                true => "checked: ends in the same way",
                false => explore::NOT_REPRODUCED,
            };
            let _ = writeln!(text, "replay   unsnarl replay {quoted}   ({checked})");
        }
        let _ = writeln!(text, "show     unsnarl show {quoted}");
        let resumed = match self.resumed {
            0 => String::new(),
            n => format!(" ({n} from a snapshot)"),
        };
        let SimplificationStats { executions, rounds, search_executions, .. } = self.stats;
        let searched = match search_executions {
            0 => String::new(),
            n => format!(", {n} of them looking for something better"),
        };
        let _ = writeln!(
            text,
            "took     {}{resumed}{searched}, {}, {:.2} s",
            output::counted(executions, "run"),
            output::counted(rounds, "round"),
            self.elapsed.as_secs_f64()
        );
        text
    }
}

/// Returns the name of the simplified trace.
pub(super) fn name_of(trace: &Path) -> String {
    let name = trace.file_stem().unwrap_or_default().to_string_lossy();
    if name == "latest" || name.is_empty() { "simplified".into() } else { format!("{name}-simplified") }
}

/// Formats the figures before and after, like table 1 of the Tinertia paper.
fn table(before: &Stats, after: &Stats) -> String {
    let mut text = format!("{:<24}{:>10}{:>10}{:>12}\n", "", "before", "after", "reduction");
    let rows = [
        ("events", before.events, after.events),
        ("threads", before.threads, after.threads),
        ("context switches", before.context_switches, after.context_switches),
        ("  non-preemptive", before.non_preemptive(), after.non_preemptive()),
        ("  preemptive", before.preemptive, after.preemptive),
    ];
    for (label, old, new) in rows {
        let reduction = if old == 0 {
            String::new()
        } else {
            format!("{:.0} %", 100.0 * (1.0 - new as f64 / old as f64))
        };
        let _ = writeln!(text, "{label:<24}{old:>10}{new:>10}{reduction:>12}");
    }
    text
}
