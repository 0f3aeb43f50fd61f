//! The scope of an answer without a failure: the schedule points and modules that were examined, and the claim that
//! follows.

use crate::options::PointSet;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use unsnarl_exec::HiddenInfluences;
use unsnarl_model::{Module, Points, Trace};
use unsnarl_search::CompleteSearch;
use unsnarl_symbols::{Binary, is_system};

/// The schedule points of the runs, and whose accesses could be among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Examined {
    points: PointSet,
    one_in: u32,
    /// The program and the libraries that are not the system's.
    modules: Vec<ExaminedModule>,
}

#[derive(Clone, Debug)]
struct ExaminedModule {
    path: String,
    /// Compiled by unsnarl, so that its accesses are seen.
    compiled: bool,
    /// The command to compile it by.
    rebuild: &'static str,
    /// The source files of a compiled module that were compiled without unsnarl.
    unseen_parts: Vec<String>,
    /// It contains Rust's standard library, which is prebuilt.
    has_rust_library: bool,
    /// The functions of the C library that it calls and that keep data of their own.
    stateful_calls: Vec<&'static str>,
}

/// Functions of the C library that keep data from call to call, for all threads together. These calls are no events.
const STATEFUL: [&str; 26] = [
    "asctime",
    "ctime",
    "drand48",
    "ecvt",
    "fcvt",
    "getgrgid",
    "getgrnam",
    "gethostbyaddr",
    "gethostbyname",
    "getpwnam",
    "getpwuid",
    "gmtime",
    "hcreate",
    "hsearch",
    "l64a",
    "localtime",
    "lrand48",
    "mrand48",
    "putenv",
    "rand",
    "random",
    "setenv",
    "strtok",
    "tmpnam",
    "ttyname",
    "unsetenv",
];

/// The most names in a list.
const NAMED: usize = 3;

impl ExaminedModule {
    fn new(path: &str, binary: Option<&Binary>) -> Self {
        let compiled = binary.is_some_and(|binary| binary.instrumented);
        let has_rust_library = compiled && binary.is_some_and(|binary| binary.panic_count.is_some());
        // The parts of Rust's library are named after its crates.
        let is_named = |unit: &&String| !has_rust_library || is_c_source(unit);
        let units = binary.into_iter().flat_map(|binary| &binary.uninstrumented_units);
        let calls =
            |name: &&&str| binary.is_some_and(|binary| binary.imports.iter().any(|import| import == **name));
        Self {
            path: path.to_owned(),
            compiled,
            rebuild: binary.map_or("unsnarl cc", rebuild_command),
            unseen_parts: units.filter(is_named).cloned().collect(),
            has_rust_library,
            stateful_calls: STATEFUL.iter().filter(calls).copied().collect(),
        }
    }
}

fn is_c_source(unit: &str) -> bool {
    let extension = Path::new(unit).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| ["c", "cc", "cpp", "cxx", "C", "s", "S"].contains(&extension))
}

/// Lists a few names.
fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

impl Examined {
    /// Returns what runs with these schedule points examine in these modules. Paths are relative to `cwd`.
    pub(crate) fn new(points: &PointSet, one_in: u32, modules: &[Module], cwd: &str) -> Self {
        let own = modules.iter().filter(|module| module.size > 0 && !is_system(&module.path));
        let modules = own.map(|module| {
            let binary = Binary::read(&Path::new(cwd).join(&module.path)).ok();
            ExaminedModule::new(&module.path, binary.as_ref())
        });
        Self { points: points.clone(), one_in, modules: modules.collect() }
    }

    /// Returns what a recorded run shows of its program; `None` for traces of other tools.
    pub(crate) fn of_trace(trace: &Trace) -> Option<Self> {
        let points = match trace.plan.points {
            Points::Sync => PointSet::Sync,
            Points::All => PointSet::All,
            Points::Places => PointSet::Races,
        };
        let of_program = !trace.program.path.is_empty();
        of_program.then(|| Self::new(&points, trace.plan.one_in, &trace.modules, &trace.program.cwd))
    }

    /// Returns the modules whose accesses were not seen.
    fn unseen(&self) -> impl Iterator<Item = &ExaminedModule> {
        self.modules.iter().filter(|module| !module.compiled)
    }

    fn sees_any(&self) -> bool {
        self.modules.iter().any(|module| module.compiled)
    }

    /// Returns the code in compiled modules that was compiled otherwise.
    fn unseen_parts(&self) -> Vec<String> {
        let mut parts: Vec<String> =
            self.modules.iter().flat_map(|module| module.unseen_parts.iter().cloned()).collect();
        if self.modules.iter().any(|module| module.has_rust_library) {
            parts.push("Rust's standard library".into());
        }
        parts
    }

    /// Returns the functions of the C library that keep data and that the program calls.
    fn stateful_calls(&self) -> Vec<String> {
        let calls = self.modules.iter().flat_map(|module| &module.stateful_calls);
        let calls: BTreeSet<&str> = calls.copied().collect();
        calls.into_iter().map(|name| format!("{name}()")).collect()
    }

    /// Returns whether every access that can matter is a schedule point.
    fn sees_all(&self) -> bool {
        self.one_in == 1
            && self.unseen().next().is_none()
            && matches!(self.points, PointSet::All | PointSet::Races)
    }

    /// Describes the schedule points.
    fn points(&self) -> &'static str {
        if !self.sees_any() {
            return "synchronisation operations";
        }
        match self.points {
            PointSet::Sync => "synchronisation operations and atomics",
            PointSet::All => "synchronisation operations, atomics and accesses",
            PointSet::Races => "synchronisation operations, atomics and accesses that conflict",
            PointSet::Named(_) => "synchronisation operations, atomics and the named accesses",
        }
    }

    /// Describes what was not examined, one module per line. `cwd` shortens paths.
    pub(crate) fn unseen_text(&self, cwd: &str) -> String {
        let line = |module: &ExaminedModule| {
            format!(
                "accesses of {} were not examined: it was not compiled by unsnarl (rebuild: {})\n",
                short(&module.path, cwd),
                module.rebuild
            )
        };
        let part = |module: &ExaminedModule| {
            let parts = listed(&module.unseen_parts);
            let path = short(&module.path, cwd);
            format!("accesses of {parts} in {path} were not examined: not compiled by unsnarl\n")
        };
        let parts = self.modules.iter().filter(|module| !module.unseen_parts.is_empty()).map(part);
        self.unseen().map(line).chain(parts).collect()
    }

    /// Describes what was examined, and what was not.
    pub(crate) fn text(&self, cwd: &str) -> String {
        let sampled =
            if self.one_in > 1 { format!(", one access in {}", self.one_in) } else { String::new() };
        let rust = self.modules.iter().any(|module| module.has_rust_library);
        let outside = if rust { ", outside Rust's standard library" } else { "" };
        format!("examined {}{sampled}{outside}\n{}", self.points(), self.unseen_text(cwd))
    }

    pub(crate) fn json(&self) -> Value {
        let modules = self.modules.iter().map(|module| {
            let accesses = if module.compiled { "compiled" } else { "none" };
            json!({ "path": module.path, "accesses": accesses, "not_compiled": module.unseen_parts })
        });
        json!({ "points": self.points.name(), "modules": modules.collect::<Vec<_>>() })
    }
}

/// Returns the command by which a program in this language is compiled.
fn rebuild_command(binary: &Binary) -> &'static str {
    let needs = |library: &str| binary.needed.iter().any(|needed| needed.starts_with(library));
    let imports = |name: &str| binary.imports.iter().any(|import| import == name);
    if needs("libstdc++.so") || needs("libc++.so") {
        "CXX=\"unsnarl c++\""
    } else if binary.panic_count.is_some() || imports("_Unwind_Backtrace") {
        "unsnarl cargo build"
    } else {
        "CC=\"unsnarl cc\""
    }
}

/// Returns a path as a user would type it.
fn short(path: &str, cwd: &str) -> String {
    let inside = path.strip_prefix(cwd.trim_end_matches('/')).filter(|_| !cwd.is_empty());
    match inside.and_then(|rest| rest.strip_prefix('/')) {
        Some(rest) => format!("./{rest}"),
        None => path.to_owned(),
    }
}

/// The claim of a search without a failure.
pub(crate) struct Claim<'a> {
    pub(crate) examined: &'a Examined,
    /// The schedules that were run completely, if there is such a class.
    pub(crate) complete: Option<CompleteSearch>,
    /// Some runs were stopped by a limit, or their failures did not happen again: nothing is complete.
    pub(crate) undecided: bool,
    pub(crate) one_thread: bool,
    /// The program used random numbers, which the systematic search keeps the same.
    pub(crate) random_numbers: bool,
    /// The search began at the program's checkpoint.
    pub(crate) from_checkpoint: bool,
    /// The program did something that is not modelled.
    pub(crate) not_modelled: bool,
    /// Influences on the runs beside the order of their events.
    pub(crate) influences: HiddenInfluences,
    /// Data races were seen.
    pub(crate) races: bool,
    pub(crate) cwd: &'a str,
}

impl Claim<'_> {
    /// Returns the schedules that were run completely.
    pub(crate) fn complete(&self) -> Option<CompleteSearch> {
        self.complete.filter(|_| !self.undecided)
    }

    /// Returns whether every inequivalent schedule was run.
    pub(crate) fn is_all(&self) -> bool {
        (self.one_thread || self.complete().is_some()) && self.restrictions().is_empty()
    }

    /// Returns why the claim does not cover all schedules.
    fn restrictions(&self) -> Vec<String> {
        let complete = self.complete().filter(|_| !self.one_thread);
        let bound = complete.and_then(|complete| complete.preemptions).map(|most| {
            let s = if most == 1 { "" } else { "s" };
            format!("with at most {most} preemption{s}")
        });
        let timeouts = complete
            .filter(|complete| complete.bounds_timeouts)
            .map(|_| "with bounded early time-outs".to_owned());
        self.limits().into_values().chain(bound).chain(timeouts).collect()
    }

    /// Returns what the runs did not examine.
    fn limits(&self) -> BTreeMap<&'static str, String> {
        let mut limits = BTreeMap::new();
        if self.random_numbers {
            limits.insert("random", "with one set of random numbers".to_owned());
        }
        if self.from_checkpoint {
            limits.insert("checkpoint", "from the checkpoint on".to_owned());
        }
        if self.not_modelled {
            limits.insert("model", "as far as the program is modelled".to_owned());
        }
        if self.influences.processes {
            limits.insert("processes", "apart from child processes".to_owned());
        }
        if self.influences.handlers {
            limits.insert("signals", "with signals handled at schedule points".to_owned());
        }
        if !self.one_thread {
            limits.extend(self.limits_of_threads());
        }
        // A single thread has no conflicting accesses.
        if !self.examined.sees_all() && !self.one_thread {
            limits.insert("at", format!("at {}", self.examined.points()));
            if self.examined.one_in > 1 && self.examined.sees_any() {
                limits.insert("at one in", format!("for one access in {}", self.examined.one_in));
            }
        }
        limits
    }

    /// Returns what runs with several threads did not examine.
    fn limits_of_threads(&self) -> BTreeMap<&'static str, String> {
        let mut limits = BTreeMap::new();
        let parts = self.examined.unseen_parts();
        if !parts.is_empty() {
            limits.insert("outside", format!("outside {}", listed(&parts)));
        }
        let calls = self.examined.stateful_calls();
        if !calls.is_empty() {
            limits.insert("data", format!("apart from the data kept by {}", listed(&calls)));
        }
        let HiddenInfluences { clock, waiting_writers, delayed_stores, lost_conflicts, .. } = self.influences;
        if clock {
            limits.insert("clock", "as far as clock readings do not matter".to_owned());
        }
        if waiting_writers {
            limits.insert("writers", "apart from when writers begin to wait".to_owned());
        }
        if delayed_stores || self.races {
            limits.insert("stores", "under sequential consistency".to_owned());
        }
        if lost_conflicts {
            limits.insert("conflicts", "for the first conflicts only".to_owned());
        }
        limits
    }

    /// Returns the claim, and what was not examined.
    pub(crate) fn text(&self) -> String {
        if self.one_thread {
            let notes = [
                (self.random_numbers, "; random numbers may matter"),
                (self.influences.processes, "; child processes run without control"),
                (self.influences.handlers, "; signals are handled at schedule points"),
            ];
            let notes: String = notes.iter().filter(|(applies, _)| *applies).map(|(_, note)| *note).collect();
            return format!("the program has one thread, so all its schedules are the same{notes}\n");
        }
        let Some(complete) = self.complete() else { return self.examined.text(self.cwd) };
        let s = if complete.schedules == 1 { "" } else { "s" };
        let explored = format!("{} schedule{s}, all explored\n", grouped(complete.schedules));
        let scope = self.restrictions();
        let scope = if scope.is_empty() { "in any schedule".to_owned() } else { scope.join(", ") };
        format!("{}no failure {scope}: {explored}", self.examined.unseen_text(self.cwd))
    }

    pub(crate) fn json(&self) -> Value {
        let complete = self.complete().filter(|_| !self.one_thread);
        let bound = complete.and_then(|complete| complete.preemptions);
        let schedules = if self.one_thread { Some(1) } else { complete.map(|complete| complete.schedules) };
        let because = if self.is_all() {
            None
        } else if self.undecided {
            Some("some runs were undecided".to_owned())
        } else if schedules.is_none() {
            Some("not all schedules were run".to_owned())
        } else {
            Some(format!("only {}", self.restrictions().join(", ")))
        };
        json!({
            "all": self.is_all(), "schedules": schedules,
            "bound": bound, "preemptions": bound, "because": because,
        })
    }
}

/// Formats a number with separators: 1,482.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group));
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(points: PointSet, compiled: &[bool]) -> Examined {
        let module = |(nth, &compiled): (usize, &bool)| ExaminedModule {
            path: format!("/work/prog{nth}"),
            compiled,
            rebuild: "CC=\"unsnarl cc\"",
            unseen_parts: Vec::new(),
            has_rust_library: false,
            stateful_calls: Vec::new(),
        };
        Examined { points, one_in: 1, modules: compiled.iter().enumerate().map(module).collect() }
    }

    fn claim(examined: &Examined, preemptions: Option<u32>) -> Claim<'_> {
        Claim {
            examined,
            complete: Some(CompleteSearch { preemptions, schedules: 1300, bounds_timeouts: false }),
            undecided: false,
            one_thread: false,
            random_numbers: false,
            from_checkpoint: false,
            not_modelled: false,
            influences: HiddenInfluences::default(),
            races: false,
            cwd: "/work",
        }
    }

    fn bounded_timeouts(preemptions: Option<u32>) -> Option<CompleteSearch> {
        Some(CompleteSearch { preemptions, schedules: 1300, bounds_timeouts: true })
    }

    #[test]
    fn all_is_claimed_only_if_all_was_seen() {
        let seen = examined(PointSet::Races, &[true]);
        assert_eq!(claim(&seen, None).text(), "no failure in any schedule: 1,300 schedules, all explored\n");
        assert!(claim(&seen, None).is_all());
        assert_eq!(claim(&seen, None).json()["because"], Value::Null);
        assert!(!Claim { random_numbers: true, ..claim(&seen, None) }.is_all());
        assert!(!Claim { not_modelled: true, ..claim(&seen, None) }.is_all());
        assert!(!Claim { complete: None, ..claim(&seen, None) }.is_all());
        assert!(!claim(&seen, Some(2)).is_all());
        assert!(!Claim { undecided: true, ..claim(&seen, None) }.is_all());
        assert!(!Claim { complete: bounded_timeouts(None), ..claim(&seen, None) }.is_all());
        assert!(!Claim { races: true, ..claim(&seen, None) }.is_all());
        for influences in [
            HiddenInfluences { clock: true, ..HiddenInfluences::default() },
            HiddenInfluences { waiting_writers: true, ..HiddenInfluences::default() },
            HiddenInfluences { processes: true, ..HiddenInfluences::default() },
            HiddenInfluences { handlers: true, ..HiddenInfluences::default() },
            HiddenInfluences { delayed_stores: true, ..HiddenInfluences::default() },
            HiddenInfluences { lost_conflicts: true, ..HiddenInfluences::default() },
        ] {
            assert!(!Claim { influences, ..claim(&seen, None) }.is_all(), "{influences:?}");
        }
        for examined in [
            examined(PointSet::Sync, &[true]),
            examined(PointSet::Races, &[false]),
            examined(PointSet::All, &[true, false]),
            Examined { one_in: 3, ..seen.clone() },
        ] {
            assert!(!claim(&examined, None).is_all(), "{examined:?}");
            assert_ne!(claim(&examined, None).json()["because"], Value::Null);
        }
    }

    #[test]
    fn claim_names_what_was_not_examined() {
        let plain = examined(PointSet::Races, &[false]);
        assert_eq!(
            claim(&plain, None).text(),
            "accesses of ./prog0 were not examined: it was not compiled by unsnarl (rebuild: CC=\"unsnarl cc\")\n\
             no failure at synchronisation operations: 1,300 schedules, all explored\n"
        );
        let bounded = Claim { random_numbers: true, ..claim(&plain, Some(2)) };
        assert!(
            bounded.text().ends_with(
                "no failure at synchronisation operations, with one set of random numbers, with at most 2 preemptions: \
                 1,300 schedules, all explored\n"
            ),
            "{}",
            bounded.text()
        );
        let bounded = examined(PointSet::Races, &[true]);
        assert_eq!(
            claim(&bounded, Some(1)).text(),
            "no failure with at most 1 preemption: 1,300 schedules, all explored\n"
        );
        let timeouts = Claim { complete: bounded_timeouts(Some(1)), ..claim(&bounded, None) };
        assert_eq!(
            timeouts.text(),
            "no failure with at most 1 preemption, with bounded early time-outs: 1,300 schedules, all explored\n"
        );
        let undecided = Claim { undecided: true, ..timeouts };
        assert!(!undecided.text().contains("all explored"), "{}", undecided.text());
        assert_eq!(undecided.json()["because"], "some runs were undecided");
    }

    #[test]
    fn parts_that_were_not_compiled_limit_the_claim() {
        let mut partly = examined(PointSet::Races, &[true]);
        partly.modules[0].unseen_parts = ["a.c", "b.c", "c.c", "d.c"].map(String::from).into();
        assert_eq!(
            claim(&partly, None).text(),
            "accesses of a.c, b.c, c.c and 1 more in ./prog0 were not examined: not compiled by unsnarl\n\
             no failure outside a.c, b.c, c.c and 1 more: 1,300 schedules, all explored\n"
        );
        let mut rust = examined(PointSet::Races, &[true]);
        rust.modules[0].has_rust_library = true;
        assert!(!claim(&rust, None).is_all());
        assert!(claim(&rust, None).text().starts_with("no failure outside Rust's standard library: "));
        assert!(claim(&rust, None).examined.text("").ends_with(", outside Rust's standard library\n"));
        let mut calls = examined(PointSet::Races, &[true]);
        calls.modules[0].stateful_calls = vec!["strtok", "rand"];
        assert!(claim(&calls, None).text().contains("apart from the data kept by rand(), strtok(): "));
    }

    #[test]
    fn program_with_one_thread_has_one_schedule() {
        let plain = examined(PointSet::Races, &[false]);
        let one = Claim { one_thread: true, ..claim(&plain, None) };
        assert_eq!(one.text(), "the program has one thread, so all its schedules are the same\n");
        let one = Claim { complete: None, ..one };
        assert_eq!((&one.json()["all"], &one.json()["schedules"]), (&true.into(), &1.into()));
        assert!(!Claim { random_numbers: true, ..one }.is_all());
    }
}
