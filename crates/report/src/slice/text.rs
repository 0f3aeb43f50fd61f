//! A slice for the terminal: annotated source, newest first.

use super::{LineRace, SliceReport};
use crate::{Names, RenderOptions, paths};
use std::{collections::BTreeSet, fmt::Write};
use unsnarl_model::{ThreadIx, Trace};

/// Lines shown without `--all`.
const LINES: usize = 25;
/// Reasons shown per line without `--all`.
const REASONS: usize = 3;

/// Returns the slice as text.
pub fn slice_text(
    report: &SliceReport,
    trace: &Trace,
    names: &mut dyn Names,
    options: &RenderOptions,
) -> String {
    let mut text = String::new();
    let threads = |threads: &BTreeSet<ThreadIx>| {
        let ids: Vec<String> = threads.iter().map(|&t| trace.thread_id(t).to_string()).collect();
        ids.join(", ")
    };
    let short = paths::shortest(report.lines.iter().map(|line| line.line.file.as_str()));
    let place =
        |line: &super::SourceLine| format!("{}:{}", short.get(&line.file).unwrap_or(&line.file), line.line);
    let races = report.races.len();
    let passes = match races {
        0 => String::new(),
        1 => ", past 1 race".into(),
        n => format!(", past {n} races"),
    };
    let _ = writeln!(
        text,
        "slice    {} of {} executed lines{passes}; {} instructions traced",
        report.lines.len(),
        report.executed_lines,
        report.instructions,
    );
    let (bold, dim, red, plain) =
        if options.colour { ("\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[0m") } else { ("", "", "", "") };
    let wide = report.lines.iter().map(|line| place(&line.line).len()).max().unwrap_or(0).min(32);
    let wide_threads = report.lines.iter().map(|l| threads(&l.threads).len()).max().unwrap_or(0).min(20);
    let lines = if options.full { usize::MAX } else { LINES };
    let first_unshared = report.lines.iter().position(|line| !line.criterion && !line.is_shared);
    for (number, line) in report.lines.iter().enumerate().take(lines) {
        if Some(number) == first_unshared && report.lines.iter().any(|line| line.is_shared) {
            let _ = writeln!(text, "\nwhat led there");
        }
        let source = names.source_line(&line.line.file, line.line.line);
        let source = source.as_deref().map(str::trim_end).unwrap_or("(source not found)");
        let times =
            if line.instances > 1 { format!("  {dim}×{}{plain}", line.instances) } else { String::new() };
        let _ = writeln!(
            text,
            "\n{bold}{:wide$}{plain}  {:wide_threads$}  {}{times}",
            place(&line.line),
            threads(&line.threads),
            source.trim_start(),
        );
        let mut reasons: Vec<&String> = line.reasons.iter().collect();
        reasons.sort_by_key(|reason| !(reason.starts_with("race") || reason.starts_with("this")));
        let most = if options.full { usize::MAX } else { REASONS };
        for reason in reasons.iter().take(most) {
            let colour = if reason.starts_with("race") || reason.starts_with("this") { red } else { dim };
            let _ = writeln!(text, "{:wide$}  {:wide_threads$}  {colour}· {reason}{plain}", "", "");
        }
        if reasons.len() > most {
            let more = reasons.len() - most;
            let _ = writeln!(text, "{:wide$}  {:wide_threads$}  {dim}· and {more} more{plain}", "", "");
        }
    }
    if report.lines.len() > lines {
        let more = report.lines.len() - lines;
        let _ = writeln!(text, "\n{more} more lines, further back (unsnarl slice --all shows them)");
    }
    if !report.races.is_empty() {
        let _ = writeln!(text, "\nraces on the way");
        for race in &report.races {
            let _ = writeln!(text, "  {}", race_text(race, trace, &place));
        }
    }
    tail(&mut text, report, &place);
    text
}

fn race_text(race: &LineRace, trace: &Trace, place: &dyn Fn(&super::SourceLine) -> String) -> String {
    let side = |(line, thread): &(super::SourceLine, ThreadIx)| {
        format!("{} (thread {})", place(line), trace.thread_id(*thread))
    };
    let did = if race.kind == "WAW" { "wrote" } else { "read" };
    let order = if race.by_lock { "only a lock orders them" } else { "nothing orders them" };
    format!("{} {did} {}, then {} wrote it: {order}", side(&race.from), race.object, side(&race.to))
}

fn tail(text: &mut String, report: &SliceReport, place: &dyn Fn(&super::SourceLine) -> String) {
    if report.without_line > 0 {
        let _ = writeln!(
            text,
            "\n{} instructions of the slice are in code without lines of yours (libraries compiled in, or no -g)",
            report.without_line
        );
    }
    if !report.unknown.is_empty() {
        let _ = writeln!(text, "\nthe slice may be cut at functions of which nothing is known:");
        for unknown in &report.unknown {
            let at =
                unknown.line.as_ref().map_or_else(String::new, |line| format!(" called at {}", place(line)));
            let _ = writeln!(text, "  {}{at}", unknown.function);
        }
    }
    if let Some(counts) = report.counts {
        let sum = |pair: [u64; 2]| pair[0] + pair[1];
        let _ = writeln!(
            text,
            "\ndependences between threads: {} by a write after an access, {} of them consecutive, {} unordered; \
             {} reads of what another thread wrote",
            counts.before,
            sum(counts.consecutive),
            sum(counts.unordered),
            counts.raw_between,
        );
    }
}
