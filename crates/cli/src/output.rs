//! Output of commands.

use serde_json::Value;
use std::{
    io::{ErrorKind, IsTerminal, Write},
    sync::Once,
};
use unsnarl_model::Trace;
use unsnarl_report::{
    ProgramNames, RenderOptions, outcome_json, outcome_text, stats_json, stats_text, warnings_json,
};
use unsnarl_symbols::Symbols;

/// Returns the width and colours of our standard output.
pub(crate) fn render_options() -> RenderOptions {
    let terminal = std::io::stdout().is_terminal();
    let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    RenderOptions {
        width: width
            .or_else(|| console::Term::stdout().size_checked().map(|(_, columns)| columns.into()))
            .unwrap_or(100),
        colour: terminal && std::env::var_os("NO_COLOR").is_none(),
        full: false,
    }
}

/// Describes the outcome.
pub(crate) fn outcome(trace: &Trace) -> String {
    let mut symbols = Symbols::new();
    let mut names = ProgramNames::new(&trace.modules, &mut symbols);
    outcome_text(trace, &mut names, &render_options())
}

/// Returns the outcome and the figures of a trace for JSON.
pub(crate) fn trace_json(trace: &Trace) -> (Value, Value, Value) {
    let mut symbols = Symbols::new();
    let mut names = ProgramNames::new(&trace.modules, &mut symbols);
    (outcome_json(trace, &mut names), stats_json(&trace.stats()), warnings_json(trace, &mut names))
}

/// Formats the figures of a trace.
pub(crate) fn figures(trace: &Trace) -> String {
    stats_text(&trace.stats())
}

/// Formats a number with its noun, in the plural unless it is 1.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let ending = match (number, noun.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {noun}{ending}")
}

/// Prints one JSON object.
pub(crate) fn json(value: &Value) {
    print(&format!("{value:#}\n"));
}

/// Prints to standard output; a closed reader is no error. Any other error is reported once.
pub(crate) fn print(text: &str) {
    static REPORTED: Once = Once::new();
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            REPORTED.call_once(|| eprintln!("error: cannot write to standard output: {error}"));
        }
        _ => {}
    }
}

/// Writes a file atomically.
pub(crate) fn write(path: &std::path::Path, content: &[u8]) -> std::io::Result<()> {
    unsnarl_trace::write_atomically(path, |file| file.write_all(content))
}

/// Quotes a path for a command line.
pub(crate) fn quoted(path: &std::path::Path) -> String {
    let text = path.to_string_lossy();
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "./_-+@%:=,".contains(c));
    if plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
