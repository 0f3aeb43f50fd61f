//! The schedule as a Graphviz graph: a column for each thread, a box for each segment with its operations, arrows for
//! switches and races.

use crate::{Names, describe, facts::races, interleaving::columns, line::cut, objects::ObjectNames};
use std::fmt::Write;
use unsnarl_model::{Flags, Trace};

/// Segments shown from the beginning and before the end of a long schedule, and operations shown per segment.
const MAX_SEGMENTS: usize = 60;
const MAX_OPERATIONS: usize = 6;

/// Returns the schedule in the `dot` language.
#[must_use]
pub fn schedule_dot(trace: &Trace, names: &mut dyn Names) -> String {
    let objects = ObjectNames::of(trace, names);
    let mut from = 0;
    let segments: Vec<(usize, usize)> = trace
        .schedule()
        .segments
        .iter()
        .map(|segment| {
            let first = from;
            from += segment.points as usize;
            (first, from)
        })
        .collect();
    let is_shown = |at: usize| at < MAX_SEGMENTS || at + MAX_SEGMENTS >= segments.len();
    let shown: Vec<usize> = (0..segments.len()).filter(|&at| is_shown(at)).collect();
    let mut dot = String::from(
        "digraph schedule {\n  rankdir=TB;\n  node [shape=box, fontname=monospace, style=rounded];\n  newrank=true;\n",
    );
    for (nth, column) in columns(trace, names).iter().enumerate() {
        let title = format!("{} {}", column.title, column.function);
        let _ = writeln!(dot, "  subgraph cluster_{nth} {{\n    label={};", quoted(title.trim_end()));
        for &at in &shown {
            let (first, last) = segments[at];
            if trace.events[first].thread != column.thread {
                continue;
            }
            let mut lines: Vec<String> = (first..last)
                .take(MAX_OPERATIONS)
                .map(|n| format!("{n}: {}", describe::event(trace, &objects, n)))
                .collect();
            if last - first > MAX_OPERATIONS {
                lines.push(format!("… {} more", last - first - MAX_OPERATIONS));
            }
            let label: Vec<String> = lines.iter().map(|line| cut(line, 60)).collect();
            // `\l` left-aligns the lines of a label.
            let label = quoted(&label.join("\n")).replace("\\n", "\\l");
            let _ = writeln!(dot, "    s{at} [label={}\\l\"];", label.trim_end_matches('"'));
        }
        dot += "  }\n";
    }
    for pair in shown.windows(2) {
        let (before, at) = (pair[0], pair[1]);
        let preempts = trace.events[segments[at].0].flags.has(Flags::PREEMPTS);
        let style = match (at == before + 1, preempts) {
            (false, _) => format!("style=dotted, label=\"{} segments left out\"", at - before - 1),
            (true, true) => "color=red, fontcolor=red, penwidth=2, label=\"preempts\"".to_owned(),
            (true, false) => "color=gray40".to_owned(),
        };
        let _ = writeln!(dot, "  s{before} -> s{at} [{style}];");
    }
    let segment_of = |number: usize| segments.partition_point(|&(_, last)| last <= number);
    for (one, other) in races(trace) {
        let (one, other) = (segment_of(one), segment_of(other));
        if is_shown(one) && is_shown(other) {
            let _ = writeln!(
                dot,
                "  s{one} -> s{other} [color=purple, fontcolor=purple, style=dashed, constraint=false, label=\"race\"];"
            );
        }
    }
    dot + "}\n"
}

fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
