//! The slicing criterion: the failure, or a line or variable that the user names.

use super::code;
use crate::verdict::UsageError;
use anyhow::{Result, bail};
use std::path::Path;
use unsnarl_model::{ThreadIx, Trace};
use unsnarl_report::{Names, on_line};
use unsnarl_slice::{
    ByteSpan, Criterion, History, InstructionIx,
    x86::{Recording, register},
};
use unsnarl_symbols::{self as symbols, NoLocation, VariableLocation, site_of};

/// A line, the number of its execution, and perhaps a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineCriterion {
    file: String,
    line: u32,
    variable: Option<String>,
    instance: Option<u64>,
}

impl std::str::FromStr for LineCriterion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "a line is written like queue.c:42, its third execution like queue.c:42#3, a variable as it was after it \
             like queue.c:42:count"
                .to_owned()
        };
        let (place, instance) = match text.split_once('#') {
            Some((place, instance)) => {
                (place, Some(instance.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?))
            }
            None => (text, None),
        };
        let (before, last) = place.rsplit_once(':').ok_or_else(wrong)?;
        let (file, line, variable) = match last.parse() {
            Ok(line) => (before, line, None),
            Err(_) => {
                let (file, line) = before.rsplit_once(':').ok_or_else(wrong)?;
                (file, line.parse().map_err(|_| wrong())?, Some(last.to_owned()))
            }
        };
        if file.is_empty() || variable.as_ref().is_some_and(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { file: file.to_owned(), line, variable, instance })
    }
}

/// Returns the criterion as steps of the trace.
pub(super) fn find(
    at: Option<&LineCriterion>,
    recorded: &Trace,
    modules: &[String],
    recording: &Recording<'_>,
    names: &mut dyn Names,
) -> Result<Criterion> {
    let Some(at) = at else {
        let criterion = recording.failure(recorded);
        if criterion.latest().is_none() {
            bail!(UsageError(
                "the failure is in code that was not traced; name a line with --at FILE:LINE".into()
            ));
        }
        return Ok(criterion);
    };
    let instructions = on_line(recorded, recording, names, &at.file, at.line);
    if instructions.is_empty() {
        bail!(UsageError(format!(
            "--at: {}:{} was not executed, or the program is built without -g",
            at.file, at.line
        )));
    }
    let (steps, count) =
        recording.line_execution(&|instruction| instructions.contains(&instruction), at.instance);
    if steps.is_empty() {
        let s = if count == 1 { "" } else { "s" };
        bail!(UsageError(format!("--at: {}:{} was executed only {count} time{s}", at.file, at.line)));
    }
    let Some(variable) = &at.variable else { return Ok(Criterion { steps, ..Criterion::default() }) };
    let after = steps.iter().copied().max().unwrap_or(0);
    match local(recorded, recording, after, variable) {
        Ok(criterion) => return Ok(criterion),
        Err(NoLocation::Unknown) => {}
        Err(reason) => bail!(UsageError(format!(
            "--at: the local variable `{variable}` {}; a build with less optimisation may help, or give the line alone: \
             {}:{}",
            match reason {
                NoLocation::Constant => "is a constant",
                NoLocation::Computed => "has a location there that unsnarl cannot follow",
                NoLocation::Unknown | NoLocation::Nowhere =>
                    "has no location there: the compiler optimised it out",
            },
            at.file,
            at.line
        ))),
    }
    let spans = code::variables(recorded, modules, variable);
    if spans.is_empty() {
        bail!(UsageError(format!(
            "--at: no variable `{variable}` is visible at {}:{}, and there is no global one; for what the line uses, \
             give it alone: {}:{}",
            at.file, at.line, at.file, at.line
        )));
    }
    Ok(Criterion { bytes: spans.into_iter().map(|span| (after, span)).collect(), ..Criterion::default() })
}

/// Returns the local variable that is in scope after a step.
fn local(
    recorded: &Trace,
    recording: &Recording<'_>,
    after: u64,
    name: &str,
) -> Result<Criterion, NoLocation> {
    let mut instruction = None;
    recording.backwards(after, &mut |step| {
        instruction = Some(step.instruction);
        false
    });
    let insn = recording.insn(instruction.ok_or(NoLocation::Unknown)?);
    let site = site_of(&recorded.modules, insn.pc).ok_or(NoLocation::Unknown)?;
    let module = &recorded.modules[usize::from(site.module.0)];
    let path = Path::new(&module.path);
    // Its location after the instruction; at the end of a function there is none any more.
    let behind = symbols::local(path, site.offset + u64::from(insn.len), name);
    let local = behind.or_else(|_| symbols::local(path, site.offset, name))?;
    let mut criterion = Criterion::default();
    match local.location {
        VariableLocation::Frame(offset) => {
            let frame = recording.frame(after).ok_or(NoLocation::Computed)?;
            criterion.bytes.push((after, ByteSpan::new(frame.wrapping_add_signed(offset), local.size)));
        }
        VariableLocation::Register(number) => {
            criterion.registers.push((after, register(number).ok_or(NoLocation::Computed)?));
        }
        VariableLocation::Static(address) => {
            criterion.bytes.push((after, ByteSpan::new(address + module.base, local.size)));
        }
    }
    Ok(criterion)
}

/// Returns the instructions of a criterion, and the threads that executed them.
pub(super) fn instructions(
    recording: &Recording<'_>,
    criterion: &Criterion,
) -> Vec<(InstructionIx, ThreadIx)> {
    let selected = criterion.all_steps();
    let mut instructions = Vec::new();
    let first = selected.iter().copied().min().unwrap_or(0);
    let Some(latest) = criterion.latest() else { return instructions };
    recording.backwards(latest, &mut |step| {
        if selected.contains(&step.number) {
            instructions.push((step.instruction, step.thread));
        }
        step.number > first
    });
    instructions.sort();
    instructions.dedup();
    instructions
}
