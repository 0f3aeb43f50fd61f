//! Operations of libraries: what a function does in words, from a table, and the events of one call as one operation.

use crate::{Names, functions, library_calls::LibraryCall, objects::ObjectNames};
use std::{collections::HashMap, sync::OnceLock};
use unsnarl_model::{Event, Flags, Op, ThreadIx, Trace};
use unsnarl_semantics::{MemoryOp, Operation};

/// The operations that are known without the user's help.
const BUILT_IN: &str = include_str!("operations.txt");

/// The user's additions to the table, which come first.
static ADDED: OnceLock<Table> = OnceLock::new();

/// Stands in the table for functions whose events say better what they do.
const EVENTS: &str = "-";
/// Stands in the table for functions whose only purpose is to call another one.
const TRANSPARENT: &str = "+";

/// A table of operations: patterns of function names, and what the functions do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table(Vec<(String, String)>);

/// A line of a table of operations is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationError {
    /// The line, from 1.
    pub line: usize,
}

impl std::fmt::Display for OperationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "line {} has no words for its function: write `my::Lock::acquire  lock {{}}`, with two blanks between",
            self.line
        )
    }
}

impl std::error::Error for OperationError {}

/// Adds operations to the table. Only the first call of a process counts.
///
/// # Errors
/// Returns an error if a line has a function and no words.
pub fn add_operations(text: &str) -> Result<(), OperationError> {
    let table = Table::parse(text)?;
    // A second table would make descriptions depend on when they were made.
    let _ = ADDED.set(table);
    Ok(())
}

impl Table {
    fn parse(text: &str) -> Result<Self, OperationError> {
        let is_entry = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with('#');
        let entries = (1..).zip(text.lines().map(str::trim)).filter(is_entry).map(|(number, line)| {
            let (pattern, words) = line.split_once("  ").ok_or(OperationError { line: number })?;
            Ok((pattern.to_owned(), words.trim().to_owned()))
        });
        entries.collect::<Result<_, _>>().map(Self)
    }

    fn words(&self, function: &str) -> Option<&str> {
        self.0.iter().find(|(pattern, _)| matches(pattern, function)).map(|(_, words)| words.as_str())
    }
}

/// Returns what a function does, with `{}` for its object.
fn words_of(function: &str) -> Option<&'static str> {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let built_in = TABLE.get_or_init(|| Table::parse(BUILT_IN).unwrap_or_default());
    ADDED.get().and_then(|added| added.words(function)).or_else(|| built_in.words(function))
}

/// Returns whether a name matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => {
            let Some(name) = name.strip_prefix(start) else { return false };
            rest.is_empty()
                || (0..=name.len()).any(|at| name.is_char_boundary(at) && matches(rest, &name[at..]))
        }
    }
}

/// Events that are one operation to the user: one event, or all of one call of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperationGroup {
    /// The numbers of the events.
    pub(crate) events: Vec<usize>,
    /// What the call does; `None` if the event itself says it better.
    pub(crate) words: Option<String>,
}

/// Groups consecutive ones of these events that belong to the same call of a library. Events of the user's own code, and
/// operations on threads, stand alone.
pub(crate) fn operations(
    trace: &Trace,
    objects: &ObjectNames,
    events: &[usize],
    names: &mut dyn Names,
) -> Vec<OperationGroup> {
    let mut groups: Vec<Group> = Vec::new();
    let mut last_of: HashMap<ThreadIx, usize> = HashMap::new();
    for &number in events {
        let thread = trace.events[number].thread;
        let call = library_call(trace, &trace.events[number], names);
        let before = last_of.get(&thread).copied();
        let is_continued = before.is_some_and(|before| {
            let Group { events, call: known, .. } = &groups[before];
            known.as_ref().zip(call.as_ref()).is_some_and(|(known, call)| is_same_call(known, call))
                && continues(trace, events, number)
        });
        match before.filter(|_| is_continued) {
            Some(before) if before + 1 == groups.len() => groups[before].events.push(number),
            before => {
                // Other threads ran during the call.
                if let Some(before) = before {
                    groups[before].is_interrupted = true;
                }
                last_of.insert(thread, groups.len());
                groups.push(Group {
                    events: vec![number],
                    call,
                    is_interrupted: false,
                    resumes: is_continued,
                });
            }
        }
    }
    let described = groups.into_iter().map(|Group { events, call, is_interrupted, resumes }| {
        let words = call.and_then(|call| words(trace, objects, &events, &call));
        let words = words.map(|words| {
            let (before, after) = (if resumes { "… " } else { "" }, if is_interrupted { " …" } else { "" });
            format!("{before}{words}{after}")
        });
        OperationGroup { events, words }
    });
    described.collect()
}

/// Events of one call, without interruption by other threads.
struct Group {
    events: Vec<usize>,
    call: Option<LibraryCall>,
    /// The call continues after events of other threads.
    is_interrupted: bool,
    /// The call began before events of other threads.
    resumes: bool,
}

/// Returns the call during which an event happened, if it belongs to a call that is one operation.
fn library_call(trace: &Trace, event: &Event, names: &mut dyn Names) -> Option<LibraryCall> {
    if matches!(Operation::decode(event), Operation::Thread(_) | Operation::Scheduling(_)) {
        return None;
    }
    LibraryCall::of(trace, event, names).filter(|call| !call.functions.is_empty())
}

fn is_same_call(a: &LibraryCall, b: &LibraryCall) -> bool {
    a.site == b.site && a.frame == b.frame && a.called() == b.called()
}

/// Returns whether an event belongs to the same execution of a call as the events before it: it directly follows them,
/// and the call has not begun again, as it may after a failed attempt.
fn continues(trace: &Trace, group: &[usize], number: usize) -> bool {
    let (first, last) = (group[0], group[group.len() - 1]);
    let [first, last, next] = [first, last, number].map(|number| &trace.events[number]);
    let begins_again = trace.site(next) == trace.site(first)
        && next.op == first.op
        && !last.flags.has(Flags::FAILED)
        && !matches!(Operation::decode(last), Operation::Futex(_));
    last.thread == next.thread && !begins_again
}

/// Returns what the events of a call do together; `None` if each says it better.
fn words(trace: &Trace, objects: &ObjectNames, group: &[usize], call: &LibraryCall) -> Option<String> {
    let mut is_direct = true;
    for function in call.functions.iter().rev() {
        match words_of(function) {
            Some(EVENTS) => return None,
            Some(TRANSPARENT) => is_direct = false,
            Some(words) => {
                let receiver = call.receiver.clone().filter(|_| is_direct);
                let object = || receiver.or_else(|| objects.established(trace, group[0])).unwrap_or_default();
                let words =
                    if words.contains("{}") { words.replace("{}", &object()) } else { words.to_owned() };
                return Some(words.trim_end().to_owned() + result(trace, group));
            }
            None => break,
        }
    }
    // A single operation is described by itself.
    let is_several = group.len() > 1;
    call.call.clone().or_else(|| call.called().map(functions::short)).filter(|_| is_several)
}

/// Returns how a call ended, if that is not as usual.
fn result(trace: &Trace, group: &[usize]) -> &'static str {
    let last = &trace.events[group[group.len() - 1]];
    let is_attempt = matches!(Operation::decode(last), Operation::Memory(MemoryOp::Access(_)));
    if last.flags.has(Flags::TIMED_OUT) {
        ": timed out"
    } else if last.flags.has(Flags::FAILED) && is_attempt {
        ": not acquired"
    } else if group.iter().any(|&number| trace.events[number].op == Op::FutexWoken) {
        " (after waiting)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        assert!(matches("a::b", "a::b") && !matches("a::b", "a::bc") && !matches("a::b", "x::a::b"));
        assert!(matches("a::*::f", "a::x::y::f") && !matches("a::*::f", "a::x::g"));
        assert!(matches("a::f*", "a::f") && matches("a::f*", "a::find") && matches("*::f", "a::b::f"));
    }

    #[test]
    fn operations_are_found_by_function() {
        for (function, words) in [
            ("std::sync::poison::mutex::Mutex::lock", Some("lock {}")),
            ("std::sync::poison::mutex::MutexGuard::drop", Some("unlock {}")),
            ("std::sync::mpsc::Sender::send", Some("send on {}")),
            ("crossbeam_channel::channel::Receiver::recv", Some("receive from {}")),
            ("my::Mutex::lock", None),
        ] {
            assert_eq!(words_of(function), words, "{function}");
        }
    }

    #[test]
    fn tables_of_users_are_checked() {
        let table = Table::parse("# ours\n\nmy::Lock::acquire   lock {}\n").expect("a table");
        assert_eq!(table.words("my::Lock::acquire"), Some("lock {}"));
        assert_eq!(Table::parse("my::f\n"), Err(OperationError { line: 1 }));
    }
}
