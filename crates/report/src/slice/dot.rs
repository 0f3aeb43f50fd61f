//! A slice as a Graphviz graph: an arrow from each line to the lines that depend on it.

use super::{SliceReport, SourceLine};
use crate::{Names, paths};
use std::fmt::Write;
use unsnarl_model::Trace;

/// Returns the slice in the `dot` language.
pub fn slice_dot(report: &SliceReport, trace: &Trace, names: &mut dyn Names) -> String {
    let short = paths::shortest(report.lines.iter().map(|line| line.line.file.as_str()));
    let place = |line: &SourceLine| format!("{}:{}", short.get(&line.file).unwrap_or(&line.file), line.line);
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut dot = String::from("digraph slice {\n  rankdir=BT;\n  node [shape=box, fontname=monospace];\n");
    for line in &report.lines {
        let source = names.source_line(&line.line.file, line.line.line).unwrap_or_default();
        let threads: Vec<String> = line.threads.iter().map(|&t| trace.thread_id(t).to_string()).collect();
        let label = format!("{}  [{}]\n{}", place(&line.line), threads.join(", "), source.trim());
        let label = quoted(&label).replace('\n', "\\n");
        let bold = if line.criterion { ", penwidth=3" } else { "" };
        let _ = writeln!(dot, "  {} [label={label}{bold}];", quoted(&place(&line.line)));
    }
    for line in &report.lines {
        for (kind, to) in &line.dependents {
            let style = match *kind {
                "control" | "call" => "style=dashed",
                "data" => "style=solid",
                _ => "color=red, fontcolor=red",
            };
            let (from, to) = (quoted(&place(&line.line)), quoted(&place(to)));
            let _ = writeln!(dot, "  {from} -> {to} [label={kind}, {style}];");
        }
    }
    dot.push_str("}\n");
    dot
}
