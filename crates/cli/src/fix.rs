//! `unsnarl replay --program`: tries the schedule of a failure on another build of the program.

use crate::{
    judge, output,
    replay::judge_like,
    sites, traces,
    verdict::{UsageError, Verdict},
};
use anyhow::{Result, bail};
use serde_json::json;
use std::{
    collections::{BTreeSet, HashMap},
    os::unix::ffi::OsStrExt,
    path::Path,
};
use unsnarl_exec::{Error, Executor, Settings};
use unsnarl_fix::{Build, FixCheck, FixVerdict, MissReason, MissedPreemption};
use unsnarl_model::{Op, OutcomeKind, Places, Plan, Points, Program, Trace};
use unsnarl_report::{Names, ProgramNames, operation_text, preemption_text};
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
    let mut old = Symbols::with_builds(traces::builds());
    let mut names = ProgramNames::new(&recorded.modules, &mut old);
    if !knows_functions(recorded, &mut names) {
        bail!(Error::NotThisBuild(format!(
            "{} was rebuilt since, and the old build was not kept, so its schedule cannot be compared; \
             pack a trace to keep all of it",
            recorded.program.path
        )));
    }
    let program = program(recorded, path)?;
    let plan = plan(recorded, &program, &mut names);
    let labels = labels(recorded, &mut names);
    let mut rebuilt = RebuiltProgram {
        recorded,
        executor: Executor::new(program, Settings { echo: false, ..Settings::default() })?,
        symbols: Symbols::new(),
    };
    let checked = unsnarl_fix::check(recorded, &labels, &plan, &mut rebuilt)?;
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
            "verdict": report.verdict_name(), "why": report.miss_text(), "same_failure": failing && same, "reproduced": failing && same,
            "identical": false, "divergence": null, "outcome": outcome, "stats": stats, "trace": saved,
            "runs": report.checked.runs,
        }));
    } else {
        output::print(&report.text(same, saved.as_deref()));
    }
    Ok(match report.checked.verdict {
        FixVerdict::Failing => Verdict::Failure,
        FixVerdict::Fixed => Verdict::Fine,
        FixVerdict::Unreachable(_) | FixVerdict::Undecided => Verdict::NotReproduced,
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

/// Returns the plan for the other build, with the same schedule points as far as they can be found there.
fn plan(recorded: &Trace, program: &Program, names: &mut ProgramNames<'_>) -> Plan {
    let plan = recorded.plan.clone();
    if plan.points != Points::Places {
        return plan;
    }
    let accesses = recorded.events.iter().filter(|event| matches!(event.op, Op::Read | Op::Write));
    let functions: BTreeSet<String> =
        accesses.filter_map(|event| names.place(recorded.site(event)).function).collect();
    let functions: Vec<String> = functions.into_iter().collect();
    match sites::resolve(program, &functions) {
        Ok(places) => Plan { places, ..plan },
        // The functions may have been renamed: make every access a schedule point.
        Err(_) => Plan { points: Points::All, places: Places::default(), ..plan },
    }
}

/// The other build as a runner of schedules.
struct RebuiltProgram<'a> {
    recorded: &'a Trace,
    executor: Executor,
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
        labels(trace, &mut ProgramNames::new(&trace.modules, &mut self.symbols))
    }
}

/// Returns a label for each event that is comparable across builds: its operation, function and variable.
fn labels(trace: &Trace, names: &mut ProgramNames<'_>) -> Vec<u64> {
    let mut known = HashMap::new();
    let mut label = |event: &unsnarl_model::Event| {
        let operation = Operation::decode(event);
        let object = operation.object().or_else(|| operation.bytes().map(|bytes| bytes.first));
        *known.entry((event.op as u8, event.site, object)).or_insert_with(|| {
            let function = names.place(trace.site(event)).function.unwrap_or_default();
            let on = object.and_then(|object| names.variable(object));
            fingerprint(&[event.op.name(), &function, on.as_deref().unwrap_or_default()])
        })
    };
    trace.events.iter().map(&mut label).collect()
}

/// Returns the FNV-1a hash of these texts.
fn fingerprint(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns whether the functions at the recording's sites have known names.
fn knows_functions(recorded: &Trace, names: &mut ProgramNames<'_>) -> bool {
    let mut own = recorded.sites.iter().filter(|site| site.module.0 == 0).peekable();
    own.peek().is_none()
        || own.any(|&site| names.place(site).function.is_some_and(|name| !name.contains("+0x")))
}

struct FixReport<'a> {
    recorded: &'a Trace,
    names: ProgramNames<'a>,
    path: &'a Path,
    checked: FixCheck,
}

impl FixReport<'_> {
    fn verdict_name(&self) -> &'static str {
        match self.checked.verdict {
            FixVerdict::Failing => "failing",
            FixVerdict::Fixed => "fixed",
            FixVerdict::Unreachable(_) => "unreachable",
            FixVerdict::Undecided => "cannot-tell",
        }
    }

    /// Returns whether it fails in the same way. Sites differ between builds, so the message or the function decides.
    fn is_same(&mut self) -> bool {
        let (old_outcome, new_outcome) = (&self.recorded.outcome, &self.checked.trace.outcome);
        let mut symbols = Symbols::new();
        let mut others = ProgramNames::new(&self.checked.trace.modules, &mut symbols);
        let old_function = old_outcome.site.and_then(|site| self.names.place(site).function);
        let new_function = new_outcome.site.and_then(|site| others.place(site).function);
        old_outcome.kind == new_outcome.kind
            && (old_outcome.message == new_outcome.message
                || (old_function.is_some() && old_function == new_function))
    }

    /// Describes why the schedule is not reachable.
    fn miss_text(&mut self) -> Option<String> {
        let FixVerdict::Unreachable(MissedPreemption { event, reason }) = self.checked.verdict else {
            return None;
        };
        let preemption = preemption_text(self.recorded, event, &mut self.names).unwrap_or_default();
        let trace = &self.checked.trace;
        let mut symbols = Symbols::new();
        let mut others = ProgramNames::new(&trace.modules, &mut symbols);
        Some(match reason {
            MissReason::Gone(number) => {
                let thread = self.recorded.thread_id(self.recorded.events[number].thread);
                let operation = operation_text(self.recorded, number, &mut self.names);
                format!("{preemption}: thread {thread} does not {operation} there any more")
            }
            MissReason::Waits(Some(number)) => {
                let thread = trace.thread_id(trace.events[number].thread);
                let operation = operation_text(trace, number, &mut others);
                format!("{preemption}: thread {thread} is blocked then, waiting to {operation}")
            }
            MissReason::Waits(None) => format!("{preemption}: the other threads are blocked then"),
        })
    }

    fn text(&mut self, same: bool, saved: Option<&Path>) -> String {
        let path = output::quoted(self.path);
        let mut arguments = String::new();
        for arg in self.recorded.program.args.iter().skip(1) {
            arguments += " ";
            arguments += &output::quoted(Path::new(std::ffi::OsStr::from_bytes(arg)));
        }
        let explore = format!("unsnarl explore -- {path}{arguments}");
        let preemptions = self.recorded.stats().preemptive;
        let preemptions = match preemptions {
            1 => "the preemption".to_owned(),
            n => format!("all {n} preemptions"),
        };
        match (self.checked.verdict.clone(), saved) {
            (FixVerdict::Failing, saved) => {
                let how = if same { "in the same way" } else { "in another way" };
                let saved = saved.map(output::quoted).unwrap_or_default();
                format!(
                    "still failing: {path} follows the recorded schedule and fails {how}\n\n{}\n\
                     trace    {saved}\nshow     unsnarl show {saved}\n",
                    output::outcome(&self.checked.trace)
                )
            }
            (FixVerdict::Fixed, _) => format!(
                "fixed: {path} followed the recorded schedule, with {preemptions}, and ended normally\n\
                 This is one schedule; to try others: {explore}\n"
            ),
            (FixVerdict::Unreachable(_), _) => format!(
                "no longer reachable: {path} cannot follow the recorded schedule; it ended normally\n  \
                 {}\nThe reason may be a lock that was added, or code that was removed. To try other schedules: {explore}\n",
                self.miss_text().unwrap_or_default()
            ),
            (FixVerdict::Undecided, _) => format!(
                "undecided: {path} was stopped before it ended: {}\n",
                self.checked.trace.outcome.message
            ),
        }
    }
}
