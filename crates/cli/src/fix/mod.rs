//! `unsnarl replay --program`: tries the schedule of a failure on another build of the program.

mod counterparts;
mod report;

use crate::{
    judge::{self, judge_like},
    output, replay, traces,
    verdict::{UsageError, Verdict},
};
use anyhow::{Result, bail};
use counterparts::Counterparts;
use report::FixReport;
use serde_json::json;
use std::{collections::HashMap, os::unix::ffi::OsStrExt, path::Path};
use unsnarl_exec::{Error, Executor, Settings};
use unsnarl_fix::{Build, Doubt, FixCheck, FixVerdict};
use unsnarl_model::{Event, OutcomeKind, Plan, Program, Site, Trace, stable_hash};
use unsnarl_report::{Names, ProgramNames};
use unsnarl_semantics::Operation;
use unsnarl_symbols::Symbols;

/// Tries the schedule of a recorded failure on the program at this path.
pub(crate) fn check(recorded: &Trace, path: &Path, json: bool) -> Result<Verdict> {
    if recorded.program.path.is_empty() {
        bail!(Error::NotThisBuild(
            "the trace was imported from another tool and has no program to compare with".into()
        ));
    }
    if !recorded.outcome.is_failure() {
        bail!(UsageError("the recorded run did not fail: there is nothing to fix".into()));
    }
    if recorded.outcome.kind == OutcomeKind::Check {
        bail!(UsageError(
            "this failure was found by a check of your own, which a trace does not keep; \
             search in the other build with the same option: `unsnarl explore`"
                .into()
        ));
    }
    let program = program(recorded, path)?;
    let checked = match as_recorded_build(recorded, &program) {
        Some(same_build) => replay_same_build(&same_build)?,
        None => check_other_build(recorded, program)?,
    };
    let mut old = Symbols::with_builds(traces::builds());
    let names = ProgramNames::new(&recorded.modules, &mut old);
    let mut report = FixReport { recorded, names, path, checked };
    let same = report.is_same();
    let saved = match report.checked.verdict {
        FixVerdict::Failing => {
            judge::add_stacks(&mut report.checked.trace);
            // The verdict does not need the trace.
            let saved = traces::try_save(&report.checked.trace, None, &traces::program_name(recorded));
            saved.inspect_err(|error| eprintln!("unsnarl: the trace is not saved: {error:#}")).ok()
        }
        _ => None,
    };
    if json {
        let (outcome, stats, _) = output::trace_json(&report.checked.trace);
        let failing = report.checked.verdict == FixVerdict::Failing;
        output::json(&json!({
            "verdict": report.verdict_name(), "why": report.reason_text(), "same_failure": failing && same, "reproduced": failing && same,
            "identical": false, "divergence": null, "outcome": outcome, "stats": stats, "trace": saved,
            "runs": report.checked.runs,
        }));
    } else {
        output::print(&report.text(same, saved.as_deref()));
    }
    Ok(match report.checked.verdict {
        FixVerdict::Failing => Verdict::Failure,
        FixVerdict::Fixed | FixVerdict::Unreachable(_) => Verdict::Fine,
        FixVerdict::CannotTell(_) => Verdict::NotReproduced,
    })
}

/// Returns the other build, with the recorded arguments and environment.
fn program(recorded: &Trace, path: &Path) -> Result<Program> {
    let found = unsnarl_exec::find(path.as_os_str())?;
    unsnarl_exec::check(&found)?;
    let mut program = recorded.program.clone();
    program.path = found.to_string_lossy().into_owned();
    if let Some(name) = program.args.first_mut() {
        *name = path.as_os_str().as_bytes().to_vec();
    }
    Ok(program)
}

/// Returns the recording as if it had been made with the program at another path, if that is the recorded
/// build and its libraries are the recorded ones, too.
fn as_recorded_build(recorded: &Trace, program: &Program) -> Option<Trace> {
    let mut moved = recorded.clone();
    let old_path = std::mem::replace(&mut moved.program, program.clone()).path;
    let is_program = |path: &&mut String| **path == old_path;
    let paths = moved.modules.iter_mut().map(|module| &mut module.path);
    for path in paths.chain(&mut moved.plan.places.modules).filter(is_program) {
        path.clone_from(&program.path);
    }
    let has_build_id = moved.modules.first().is_some_and(|module| !module.build_id.is_empty());
    (has_build_id && replay::check_builds(&moved).is_ok()).then_some(moved)
}

/// Replays the recording exactly: nothing has to be translated.
fn replay_same_build(recorded: &Trace) -> Result<FixCheck> {
    let settings = Settings { echo: false, ..Settings::default() };
    let replayed = replay::replay(recorded, &recorded.replay_plan(), settings)?;
    let verdict =
        if replayed.reproduced { FixVerdict::Failing } else { FixVerdict::CannotTell(Doubt::NotReproduced) };
    Ok(FixCheck { verdict, trace: replayed.trace, runs: 1 })
}

/// Translates the schedule to another build, and runs it.
fn check_other_build(recorded: &Trace, program: Program) -> Result<FixCheck> {
    let mut old = Symbols::with_builds(traces::builds());
    let mut new = Symbols::new();
    let new_path = program.path.clone();
    let counterparts = Counterparts::new(recorded, &mut old, &new_path, &mut new);
    let mut names = ProgramNames::new(&recorded.modules, &mut old);
    if !knows_functions(recorded, &mut names) {
        bail!(Error::NotThisBuild(format!(
            "{} was rebuilt since, and the old build was not kept, so its schedule cannot be compared; \
             pack a trace to keep all of it",
            recorded.program.path
        )));
    }
    let plan = counterparts.plan(&mut names, &mut new);
    let plan = Plan { prefix: counterparts.prefix(), ..plan };
    let labels = labels(recorded, &mut names, |site| {
        counterparts.place_in_recording(site).map(|(name, offset)| (name.to_owned(), offset))
    });
    let executor = Executor::new(program, Settings { echo: false, ..Settings::default() })?;
    let mut rebuilt = RebuiltProgram { recorded, names, counterparts: &counterparts, executor, symbols: new };
    unsnarl_fix::check(recorded, &labels, &plan, &mut rebuilt)
}

/// The other build as a runner of schedules.
struct RebuiltProgram<'a> {
    recorded: &'a Trace,
    /// Names of the recorded code.
    names: ProgramNames<'a>,
    counterparts: &'a Counterparts<'a>,
    executor: Executor,
    /// Symbols of the new build.
    symbols: Symbols,
}

impl Build for RebuiltProgram<'_> {
    type Error = anyhow::Error;

    fn run(&mut self, plan: &Plan) -> Result<Trace> {
        let mut trace = self.executor.run(plan)?.trace();
        judge_like(self.recorded, &mut trace);
        Ok(trace)
    }

    fn labels(&mut self, trace: &Trace) -> Vec<u64> {
        let mut places: HashMap<Site, (String, u64)> = HashMap::new();
        for &site in trace.sites.iter().filter(|site| site.module.0 == 0) {
            let code = self.symbols.function_code(&trace.modules, site);
            let place = code.as_ref().and_then(|code| self.counterparts.place_in_new_build(code, site));
            if let Some((name, offset)) = place {
                places.insert(site, (name.to_owned(), offset));
            }
        }
        labels(trace, &mut ProgramNames::new(&trace.modules, &mut self.symbols), |site| {
            places.get(&site).cloned()
        })
    }

    fn has_function_of(&mut self, recorded_event: usize) -> bool {
        let site = self.recorded.site(&self.recorded.events[recorded_event]);
        self.counterparts.has_function_of(site, &mut self.names, &mut self.symbols)
    }
}

/// Returns a label for each event that is comparable across builds: its operation, and its place in a function
/// that was not changed, or its function and variable.
fn labels(
    trace: &Trace,
    names: &mut ProgramNames<'_>,
    unchanged_place: impl Fn(Site) -> Option<(String, u64)>,
) -> Vec<u64> {
    let mut known = HashMap::new();
    let mut label = |event: &Event| {
        let operation = Operation::decode(event);
        let object = operation.object().or_else(|| operation.bytes().map(|bytes| bytes.first));
        *known.entry((event.op as u8, event.site, object)).or_insert_with(|| {
            let site = trace.site(event);
            if let Some((function, offset)) = unchanged_place(site) {
                return hash_of_texts(&[event.op.name(), &function, &format!("+{offset:#x}")]);
            }
            let function = names.place(site).function.unwrap_or_default();
            let on = object.and_then(|object| names.variable(object));
            hash_of_texts(&[event.op.name(), &function, on.as_deref().unwrap_or_default()])
        })
    };
    trace.events.iter().map(&mut label).collect()
}

fn hash_of_texts(texts: &[&str]) -> u64 {
    stable_hash(texts.iter().flat_map(|text| text.bytes().chain([0])))
}

/// Returns whether the functions at the recording's sites have known names.
fn knows_functions(recorded: &Trace, names: &mut ProgramNames<'_>) -> bool {
    let mut own = recorded.sites.iter().filter(|site| site.module.0 == 0).peekable();
    own.peek().is_none()
        || own.any(|&site| names.place(site).function.is_some_and(|name| !name.contains("+0x")))
}
