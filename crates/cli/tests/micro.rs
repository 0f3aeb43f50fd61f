//! The scenarios in `programs/micro`: from one run each, exactly the real errors are found.

mod common;

use common::{Place, programs};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

fn unsnarl(place: &Place, args: &[&str]) -> Result<String, String> {
    let output = place.ends(args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.code() {
        Some(0 | 100) => Ok(text(&output.stdout)),
        status => Err(format!("{args:?} ends with {status:?}: {}", text(&output.stderr))),
    }
}

/// Returns the errors that a scenario declares.
fn real(source: &str) -> BTreeSet<String> {
    let lines = source.lines().filter_map(|line| line.trim().strip_prefix("* real: "));
    let errors = lines.map(|line| line.trim_end_matches("*/").trim().to_owned());
    errors.filter(|error| error != "none").collect()
}

fn found(report: &Value) -> BTreeSet<String> {
    let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    let races =
        list("races").into_iter().map(|race| format!("race {}", race["object"].as_str().unwrap_or("?")));
    let deadlocks = list("deadlocks").into_iter().map(|deadlock| {
        let threads = deadlock["cycle"].as_array().map_or(0, Vec::len);
        format!("deadlock {threads}")
    });
    races.chain(deadlocks).collect()
}

/// Checks the prediction for a scenario.
fn wrong(source: &Path) -> Result<(), String> {
    let name = source.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let text = fs::read_to_string(source).map_err(|error| error.to_string())?;
    if !text.contains("* real: ") {
        return Err("does not say what is real".into());
    }
    let place = Place::new(&name);
    let path = source.to_string_lossy();
    unsnarl(&place, &["cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", "prog", &path])?;
    unsnarl(&place, &["record", "-o", "run.snarl", "--", "./prog"])?;
    let report = unsnarl(&place, &["predict", "run.snarl", "--confirm", "--json"])?;
    let report = serde_json::from_str(&report).map_err(|error| error.to_string())?;
    let (found, real) = (found(&report), real(&text));
    if found == real { Ok(()) } else { Err(format!("found {found:?}, real are {real:?}")) }
}

#[test]
fn prediction_finds_exactly_the_real_errors() {
    let files = fs::read_dir(programs().join("micro"))
        .expect("the scenarios")
        .filter_map(|entry| Some(entry.ok()?.path()));
    let mut sources: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "c")).collect();
    sources.sort();
    assert!(sources.len() >= 48, "{} scenarios", sources.len());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(reason) = wrong(source) {
                        failures.lock().expect("no panics").push(format!("{}: {reason}", source.display()));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panics");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
