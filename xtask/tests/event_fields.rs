//! One crate knows what the fields of an event mean. This test finds other code that reads `value`, `addr`, `size` or the
//! flags of an event, and lets it become less only.

use regex::Regex;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Files that read these fields, the number of lines, and the reason.
const ALLOWED: &[(&str, usize, &str)] = &[
    ("crates/cli/src/bench/predict.rs", 1, "makes up sites for events of other tools"),
    ("crates/predict/src/check/mod.rs", 29, "is independent of the model that it checks"),
    ("crates/predict/src/check/state.rs", 3, "is independent of the model that it checks"),
    ("crates/report/src/divergence.rs", 12, "compares what was recorded with what was replayed, bit by bit"),
    ("crates/sched/src/spin_detector.rs", 4, "is part of the runtime, before there is an event"),
    ("crates/search/src/novelty.rs", 5, "hashes observed values"),
    ("crates/simplify/src/combined/mod.rs", 1, "compares events of two runs as they are"),
    ("crates/simplify/src/combined/rounds.rs", 1, "compares events of two rounds as they are"),
    ("crates/simplify/src/livelock.rs", 4, "compares events of two rounds as they are"),
    ("crates/simplify/src/static_order/fingerprint.rs", 1, "hashes what is the same in every run"),
    ("crates/trace/src/chunk.rs", 12, "is the codec of trace files"),
    ("crates/trace/src/lanes.rs", 4, "is the codec of temporary files"),
    ("crates/trace/src/std_format/export.rs", 2, "is the codec of STD"),
    ("crates/trace/src/std_format/import.rs", 1, "is the codec of STD"),
    ("crates/trace/src/upgrade.rs", 11, "translates events of older files"),
];

/// Crates that define events, write them, or store and transfer them.
const EXEMPT: &[&str] = &["semantics", "model", "wire", "runtime"];

const FIELDS: &str = r"\b(event|e|other|next|last|upcoming|a|b|wake_up)\.(value|addr|size|flags)\b|Flags::(FAILED|TIMED_OUT|CANCELLED|INTERRUPTED|SPURIOUS|FOREIGN|OWN_STACK)\b";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the number of lines with such fields in each file, without tests.
fn counts() -> BTreeMap<String, usize> {
    let fields = Regex::new(FIELDS).expect("a pattern");
    let mut counts = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if EXEMPT.contains(&name.as_str()) {
            continue;
        }
        let mut files = Vec::new();
        sources(&path.join("src"), &mut files);
        for file in files.iter().filter(|file| !file.components().any(|part| part.as_os_str() == "tests")) {
            let text = fs::read_to_string(file).expect("text");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let count = code.lines().filter(|line| fields.is_match(line) && !is_ignored(line)).count();
            if count > 0 && !file.ends_with("tests.rs") {
                let relative = file.strip_prefix(root()).expect("below the root");
                counts.insert(relative.to_string_lossy().into_owned(), count);
            }
        }
    }
    counts
}

/// Comments do not count, nor do the scheduler's marks, which are no part of an operation.
fn is_ignored(line: &str) -> bool {
    line.trim_start().starts_with("//") || line.contains("PREEMPTS")
}

#[test]
fn fields_of_events_are_read_in_one_crate() {
    let allowed: BTreeMap<&str, usize> = ALLOWED.iter().map(|&(file, count, _)| (file, count)).collect();
    let counts = counts();
    let mut wrong: Vec<String> = Vec::new();
    for (file, count) in &counts {
        let allowed = allowed.get(file.as_str()).copied().unwrap_or(0);
        if *count != allowed {
            wrong.push(format!("(\"{file}\", {count}), was {allowed}"));
        }
    }
    wrong.extend(
        ALLOWED
            .iter()
            .filter(|(file, ..)| !counts.contains_key(*file))
            .map(|(file, ..)| format!("{file} has none now")),
    );
    assert!(wrong.is_empty(), "decode the event instead, or write a lower count down:\n{}", wrong.join("\n"));
}
