//! Resolves the sanitizer's reports to lines and variables of the program. The sanitizer does not do it itself, because
//! that would make each run with a report ten times slower.

use super::Reports;
use crate::workspace::output;
use anyhow::{Context, Result};
use std::collections::{HashMap, hash_map::Entry};
use std::path::Path;
use std::process::Command;

/// The lines and variables of a program, by offset.
pub(super) struct ProgramSymbols<'a> {
    binary: &'a Path,
    /// The program's name in reports, with the sign that follows it.
    prefix: String,
    places: HashMap<u64, String>,
    variables: Vec<(u64, u64, String)>,
}

impl<'a> ProgramSymbols<'a> {
    pub(super) fn of(binary: &'a Path) -> Result<Self> {
        let listed = output(Command::new("nm").args(["-S", "--defined-only"]).arg(binary), "nm")?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let variables = String::from_utf8_lossy(&listed.stdout)
            .lines()
            .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
                [at, size, "b" | "B" | "d" | "D", name] => {
                    Some((number(at)?, number(size)?, name.to_owned()))
                }
                _ => None,
            })
            .collect();
        let name = binary.file_name().context("a program has a name")?.display();
        Ok(Self { binary, prefix: format!("({name}+0x"), places: HashMap::new(), variables })
    }

    /// Adds the reports in a text.
    pub(super) fn read(&mut self, text: &str, reports: &mut Reports) -> Result<()> {
        let mut kind = "";
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("WARNING: ThreadSanitizer: ") {
                kind = rest.split(" (pid=").next().unwrap_or(rest);
                reports.deadlocks =
                    reports.deadlocks.max(usize::from(kind.starts_with("lock-order-inversion")));
            } else if line.starts_with("Location is global") {
                let variable = self.offset(line).and_then(|at| self.variable(at));
                reports.races.extend(variable.map(str::to_owned));
            } else if line.starts_with('#') && !kind.is_empty() {
                // The first frame in the program itself: those above it belong to the sanitizer.
                if let Some(at) = self.offset(line) {
                    let place = self.place(at)?;
                    reports.places.insert(format!("{kind} {place}"));
                    kind = "";
                }
            }
        }
        Ok(())
    }

    /// Returns the offset in the program that a line contains, if there is one.
    fn offset(&self, line: &str) -> Option<u64> {
        let (_, rest) = line.split_once(&self.prefix)?;
        u64::from_str_radix(rest.split(')').next()?, 16).ok()
    }

    fn variable(&self, at: u64) -> Option<&str> {
        let variable = self.variables.iter().find(|(first, size, _)| (*first..first + size).contains(&at));
        variable.map(|(_, _, name)| name.as_str())
    }

    fn place(&mut self, at: u64) -> Result<&str> {
        let place = match self.places.entry(at) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let mut addr2line = Command::new("addr2line");
                addr2line.arg("-e").arg(self.binary).arg(format!("{at:#x}"));
                let report = output(&mut addr2line, "addr2line")?;
                let report = String::from_utf8_lossy(&report.stdout);
                // Some lines are printed in parts.
                unknown.insert(report.split_whitespace().next().unwrap_or("?").to_owned())
            }
        };
        Ok(place.as_str())
    }
}
