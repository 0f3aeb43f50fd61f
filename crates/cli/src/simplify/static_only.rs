//! Simplification by the trace's dependences only.

use super::{
    Simplify,
    program::{ProgramPool, StopReason},
    report::{SimplificationReport, name_of},
    streaming,
};
use crate::{output, traces};
use anyhow::Result;
use std::{sync::atomic::AtomicBool, time::Instant};
use unsnarl_model::{Plan, Policy, Stats, Trace};
use unsnarl_report::{ProgramNames, divergence_place_text};
use unsnarl_simplify::{
    Runner,
    dynamic::{SimplificationResult, SimplificationStats, Transformation},
    static_order::{self, Granularity, Graph, OrderStrategy, Reordering, Rules, reorder},
};
use unsnarl_symbols::Symbols;

/// Improves the order of an imported trace, which cannot be run. `None` if there is a program.
pub(super) fn without_program(
    options: &Simplify,
    begin: Instant,
    interrupt: &AtomicBool,
) -> Result<Option<StaticOutcome>> {
    let path = traces::find(&options.trace);
    let Ok(reader) = unsnarl_trace::open(&path) else {
        // The error is reported when the trace is loaded.
        return Ok(None);
    };
    if !reader.header().program.path.is_empty() {
        return Ok(None);
    }
    let make_report = |before: Stats, figures: Stats, after: Trace, saved| SimplificationReport {
        before,
        after,
        figures,
        saved,
        preserved: None,
        stats: SimplificationStats::of(
            Transformation::Static,
            before.context_switches,
            figures.context_switches,
        ),
        proof: None,
        switches_ruled_out: None,
        has_hidden_dependence: false,
        proving: false,
        stopped: None,
        unexplained: None,
        resumed: 0,
        refused: None,
        elapsed: begin.elapsed(),
    };
    if reader.events() > streaming::LONG {
        drop(reader);
        let target = traces::place(options.output.as_deref(), &name_of(&options.trace))?;
        return Ok(Some(match streaming::reorder_file(&path, options.merges, &target, interrupt)? {
            Some(found) => {
                traces::remember(&target);
                StaticOutcome::Report(Box::new(make_report(
                    found.before,
                    found.after,
                    found.header,
                    Some(target),
                )))
            }
            None => StaticOutcome::Interrupted,
        }));
    }
    let trace = traces::load(&options.trace)?;
    let after = reordered(&trace, options.merges).apply(&trace);
    Ok(Some(StaticOutcome::Report(Box::new(make_report(trace.stats(), after.stats(), after, None)))))
}

/// Result for a trace without a program.
pub(super) enum StaticOutcome {
    Report(Box<SimplificationReport>),
    Interrupted,
}

/// Returns a better order of a trace's events: by our own search, or by the paper's merges in an arbitrary order.
fn reordered(trace: &Trace, merges: Option<u64>) -> Reordering {
    let rules = Rules::of(trace);
    match merges {
        Some(seed) => reorder(
            &Graph::of_trace(&trace.events, rules, Granularity::Event),
            OrderStrategy::Arbitrary(seed),
        ),
        None => static_order::simplify(trace, rules),
    }
}

/// Improves the order of the events, and confirms it by one run.
pub(crate) fn with_one_run(
    trace: &Trace,
    merges: Option<u64>,
    program: &mut ProgramPool,
) -> SimplificationResult<StopReason> {
    let order = reordered(trace, merges);
    let expected = order.apply(trace);
    let mut simplified = SimplificationResult {
        trace: trace.clone(),
        stats: SimplificationStats::default(),
        proof: None,
        switches_ruled_out: None,
        has_hidden_dependence: false,
        stopped: None,
    };
    // If the run diverges, its outcome is reported, so it continues with a fair schedule.
    let plan = Plan { tail: Policy::Fair, ..expected.replay_plan() };
    let actual = match program.run(&plan) {
        Ok(actual) => actual,
        Err(stopped) => {
            simplified.stopped = Some(stopped);
            return simplified;
        }
    };
    if actual.signature() == trace.signature() {
        let (before, after) = (trace.stats().context_switches, actual.stats().context_switches);
        if after <= before {
            simplified.stats = SimplificationStats::of(Transformation::Static, before, after);
            simplified.trace = actual;
        }
    } else {
        simplified.has_hidden_dependence = true;
        eprint!("{}", hidden_dependence_warning(&expected, &actual));
    }
    simplified.stats.executions = 1;
    simplified
}

/// Describes a run that diverged although its order keeps all dependences of the trace.
fn hidden_dependence_warning(expected: &Trace, actual: &Trace) -> String {
    let mut symbols = Symbols::new();
    let mut names = ProgramNames::new(&expected.modules, &mut symbols);
    let mut text = "unsnarl: a hidden dependence: the reordered schedule diverges, so some dependence \
                    is not among the trace's events (record with --points all to include every access)\n"
        .to_owned();
    match expected.first_difference(actual) {
        Some(divergence) => text += &divergence_place_text(&divergence, expected, actual, &mut names),
        None => text += &format!("  all {} events are the same, and then:\n", expected.events.len()),
    }
    text + &output::outcome(actual)
}
