//! When a program's calls of library functions are bound to addresses: all of them before it starts, if possible.
//!
//! With lazy binding the loader saves the vector registers on the caller's stack at the first call of each function.
//! The saved bytes depend on which registers the kernel has marked as in use, and that differs from run to run. A
//! program that reads uninitialised stack memory would see the difference.

use crate::{Error, process::preload};
use std::{
    collections::HashMap,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};
use unsnarl_model::Program;

/// Environment variable with which the user asks for lazy binding: `UNSNARL_BINDING=lazy`.
const BINDING_VARIABLE: &str = "UNSNARL_BINDING";

/// The time at which the loader looks up the functions that a program calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Before the program starts.
    Eager,
    /// At the first call of each function, for this reason.
    Lazy(String),
}

/// The bindings chosen so far, by the paths of programs.
static BINDINGS: Mutex<Option<HashMap<String, Binding>>> = Mutex::new(None);

impl Binding {
    /// Chooses the binding of a program. The loader is asked once per program and process; the program itself does not
    /// run.
    pub(crate) fn of(program: &Program) -> Result<Self, Error> {
        if std::env::var_os(BINDING_VARIABLE).is_some_and(|value| value == "lazy") {
            return Ok(Self::Lazy(format!("{BINDING_VARIABLE} is `lazy`")));
        }
        let mut bindings = BINDINGS.lock().unwrap_or_else(PoisonError::into_inner);
        let bindings = bindings.get_or_insert_default();
        if let Some(known) = bindings.get(&program.path) {
            return Ok(known.clone());
        }
        let binding = Self::from_report(&report(program)?);
        bindings.insert(program.path.clone(), binding.clone());
        Ok(binding)
    }

    /// Binds a program lazily from now on, because a library that it opened cannot be bound eagerly.
    pub(crate) fn become_lazy(&mut self, program: &Program, reason: String) {
        *self = Self::Lazy(reason);
        let mut bindings = BINDINGS.lock().unwrap_or_else(PoisonError::into_inner);
        bindings.get_or_insert_default().insert(program.path.clone(), self.clone());
    }

    /// Parses the loader's report, which has one line for each symbol that no library defines. Eager binding would
    /// refuse such a program; lazy binding lets it run as long as it does not call the function.
    fn from_report(report: &str) -> Self {
        let mut missing = report.lines().filter_map(|line| line.strip_prefix("undefined symbol: "));
        let Some(first) = missing.next() else { return Self::Eager };
        let first = match first.split_once('\t') {
            Some((symbol, library)) => format!("`{symbol}` of {}", library.trim_matches(['(', ')'])),
            None => format!("`{first}`"),
        };
        Self::Lazy(match missing.count() {
            0 => format!("{first} is undefined"),
            more => format!("{first} and {more} more symbols are undefined"),
        })
    }

    /// Returns the warning for a trace; `None` if functions are bound eagerly.
    pub(crate) fn warning(&self) -> Option<String> {
        let Self::Lazy(reason) = self else { return None };
        Some(format!(
            "library functions are bound at their first call, because {reason}; \
             what the program reads from uninitialised stack memory may differ in a replay"
        ))
    }
}

/// Returns the loader's output when it binds everything without starting the program (`ldd -r`).
fn report(program: &Program) -> Result<String, Error> {
    let mut command = Command::new(&program.path);
    preload(&mut command, None, &program.env)?;
    command.current_dir(&program.cwd);
    command.env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_WARN", "1").env("LD_BIND_NOW", "1");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // Errors are ignored here: a program that cannot be started reports that when it is run.
    let stderr = command.output().map(|output| output.stderr).unwrap_or_default();
    Ok(String::from_utf8_lossy(&stderr).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_undefined_symbols_are_bound_lazily() {
        assert_eq!(Binding::from_report(""), Binding::Eager);
        let one = Binding::from_report("undefined symbol: missing\t(/lib/liba.so)\n");
        assert_eq!(one, Binding::Lazy("`missing` of /lib/liba.so is undefined".into()));
        let two = "undefined symbol: f\t(./a.so)\nundefined symbol: g\t(./a.so)\n";
        let two = Binding::from_report(two);
        assert_eq!(two, Binding::Lazy("`f` of ./a.so and 1 more symbols are undefined".into()));
    }
}
