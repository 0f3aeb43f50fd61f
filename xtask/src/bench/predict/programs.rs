//! Table 2: the programs in `programs/`.

use super::{Bench, Call, Reports, Row, name, sanitizer::in_parallel, sources};
use crate::workspace::output;
use anyhow::Result;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The relevant part of a program's expectation.
struct Expected(String);

impl Expected {
    fn of(source: &Path) -> Self {
        Self(std::fs::read_to_string(source.with_extension("expect")).unwrap_or_default())
    }

    fn value(&self, key: &str) -> &str {
        let line = self.0.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
        line.unwrap_or_default().trim()
    }

    fn call(&self) -> Call {
        let words = |key: &str| self.value(key).split_whitespace().map(str::to_owned).collect();
        Call { flags: words("flags"), args: words("args") }
    }

    /// Returns whether the program is comparable: it ends, may run without control, and uses its locks correctly.
    fn is_comparable(&self) -> bool {
        let endless = matches!(self.value("outcome"), "livelock" | "timeout");
        !endless && self.value("native") != "no" && self.value("misuse").is_empty()
    }

    fn is_correct(&self) -> bool {
        self.value("correct") == "true"
    }
}

/// Result of a program.
struct ComparisonRow {
    row: Row,
    /// A correct program with a report.
    has_false_report: bool,
    /// Runs of the sanitizer that were made, if fewer than requested because the program hangs in each of them.
    hangs: Option<usize>,
}

impl Bench {
    /// Compares the programs with a candidate or with a report of the sanitizer.
    pub(super) fn programs(&self) -> Result<()> {
        println!("\n## Programs of this repository, one recorded run each\n");
        println!(
            "Those with a candidate, or of which TSan ({}) says something. Locations are pairs of lines for us, lines for TSan; of \
             Rust programs no stable compiler brings a TSan.\n",
            self.sanitizers[0].compiler
        );
        let mut files = Vec::new();
        for (folder, ending) in [("c", "c"), ("cpp", "cpp"), ("rust", "rs")] {
            files.extend(sources(&self.root.join("programs").join(folder), ending)?);
        }
        let all = files.len();
        files.retain(|file| Expected::of(file).is_comparable());
        eprintln!("{} programs", files.len());
        let rust = self.rust_programs()?;
        let rows = in_parallel(&files, |file| {
            let compared = self.program(file, &rust)?;
            // This takes a while, so rows are printed as they come.
            eprintln!("{}", compared.row);
            Ok(compared)
        })?;
        self.print_heads();
        for compared in rows.iter().filter(|compared| !compared.row.is_quiet()) {
            println!("{}", compared.row);
        }
        let quiet = rows.iter().filter(|compared| compared.row.is_quiet()).count();
        println!(
            "\n{quiet} more programs have no candidate, and TSan has nothing to say of them either; {} were left out: they do \
             not end by themselves, need unsnarl for it, or use locks wrongly.",
            all - files.len()
        );
        let symbols = |which: &dyn Fn(&ComparisonRow) -> bool| {
            let those = files.iter().zip(&rows).filter(|(_, compared)| which(compared));
            those.map(|(file, _)| format!("`{}`", name(file))).collect::<Vec<_>>().join(", ")
        };
        let hangs = symbols(&|compared| compared.hangs.is_some());
        if !hangs.is_empty() {
            println!(
                "\nTSan's runs of {hangs} wait for ever, each of the first {}: no more were made.",
                super::sanitizer::HANGS
            );
        }
        let has_false_report = symbols(&|compared| compared.has_false_report);
        if !has_false_report.is_empty() {
            println!("\nRight by their results, and yet something is confirmed: {has_false_report}.");
        }
        Ok(())
    }

    fn program(&self, file: &Path, rust: &Path) -> Result<ComparisonRow> {
        let expected = Expected::of(file);
        let call = expected.call();
        let is_rust = file.extension().is_some_and(|ending| ending == "rs");
        let ((ours, report), theirs): ((Reports, Value), _) = if is_rust {
            (self.recorded(&rust.join(name(file)), &self.scratch(file)?, &call.args)?, None)
        } else {
            let include = self.root.join("include");
            let ours = self.ours(file, &call)?;
            let places = (include.as_path(), self.directory.as_path());
            let (_, theirs) = self.sanitizers[0].of_source(file, places, &call, self.all_runs())?;
            (ours, Some(theirs))
        };
        let lines = std::fs::read_to_string(file)?.lines().count();
        Ok(ComparisonRow {
            has_false_report: expected.is_correct() && !ours.places.is_empty(),
            hangs: theirs.as_ref().map(|theirs| theirs.runs).filter(|&runs| runs < self.runs),
            row: Row::of(&name(file), lines, &ours, &report, theirs.as_ref()),
        })
    }

    /// Builds all Rust programs with instrumentation, as binaries of one package; returns their directory.
    fn rust_programs(&self) -> Result<PathBuf> {
        let package = self.directory.join("rust");
        std::fs::create_dir_all(&package)?;
        let mut manifest = format!(
            "[package]\nname = \"programs\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
             unsnarl-hints = {{ path = {:?} }}\n",
            self.root.join("crates/hints")
        );
        for source in sources(&self.root.join("programs/rust"), "rs")? {
            manifest += &format!("[[bin]]\nname = {:?}\npath = {source:?}\n", name(&source));
        }
        std::fs::write(package.join("Cargo.toml"), manifest)?;
        let mut build = Command::new(&self.unsnarl);
        build.args(["cargo", "build", "--quiet", "--offline"]).current_dir(&package);
        output(build.env_remove("CARGO_TARGET_DIR"), "unsnarl cargo")?;
        Ok(package.join("target/unsnarl/x86_64-unknown-linux-gnu/debug"))
    }
}
