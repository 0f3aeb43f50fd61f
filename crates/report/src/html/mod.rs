//! The report as one self-contained page: no network, no other file.
//!
//! The page gets its data as JSON in a script element and builds everything with text nodes, so no text from the
//! program can become markup. `page.js` renders only the visible rows, so that it can handle a hundred thousand events.

mod data;

use crate::{Names, RenderOptions, interleaving, outcome_text, paths::base};
use serde_json::{Value, json};
use unsnarl_model::Trace;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Returns the page about a trace, with the trace before simplification, if there is one.
#[must_use]
pub fn html(trace: &Trace, before: Option<&Trace>, names: &mut dyn Names) -> String {
    let plain = RenderOptions { width: 100, colour: false, full: false };
    let outcome = outcome_text(trace, names, &plain);
    let mut sources = data::Sources::default();
    let mut shown = vec![data::trace(trace, "the failing run", names, &mut sources)];
    if let Some(before) = before {
        shown[0]["title"] = "simplified".into();
        shown.push(data::trace(before, "before simplification", names, &mut sources));
    }
    let command =
        trace.program.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ");
    let value = json!({
        "program": base(&trace.program.path), "command": command, "outcome": outcome, "failed": trace.outcome.is_failure(),
        "why": data::causes(trace, names), "traces": shown,
        "files": sources.files(names),
    });
    let headline = outcome.lines().next().unwrap_or_default();
    PAGE.replace("{{title}}", &escaped(&format!("{} – {headline}", base(&trace.program.path))))
        .replace("{{text}}", &escaped(&interleaving(trace, names, &plain)))
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT)
        // Last, so that text from the program is not searched for placeholders.
        .replace("{{data}}", &embedded(&value))
}

/// Escapes text between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace("{{", "{\u{200b}{")
}

/// Escapes JSON inside a script element, so that nothing in it ends the element.
fn embedded(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
