//! A slice for the terminal: annotated source, newest first.

use super::{
    LineRace, SliceReport,
    reason_text::{is_about_library, is_criterion},
};
use crate::{Names, RenderOptions, paths};
use std::{collections::BTreeSet, fmt::Write};
use unsnarl_model::{ThreadIx, Trace};

/// Lines shown without `--all`.
const LINES: usize = 25;
/// Reasons shown per line without `--all`.
const REASONS: usize = 3;
/// Functions with unknown effects that are listed without `--all`.
const MAX_UNKNOWN: usize = 5;

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
        1 => ", 1 data race".into(),
        n => format!(", {n} data races"),
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
            let _ = writeln!(text, "\nearlier lines that contributed");
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
        let is_important = |reason: &String| reason.starts_with("race") || is_criterion(reason);
        let mut reasons: Vec<&String> = line.reasons.iter().collect();
        reasons.sort_by_key(|reason| !is_important(reason));
        // Library code is no help to the reader if there is anything else to say.
        if !options.full && reasons.iter().any(|reason| !is_about_library(reason)) {
            reasons.retain(|reason| !is_about_library(reason));
        }
        let most = if options.full { usize::MAX } else { REASONS };
        for reason in reasons.iter().take(most) {
            let colour = if is_important(reason) { red } else { dim };
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
        let _ = writeln!(text, "\ndata races in this run");
        for race in &report.races {
            let _ = writeln!(text, "  {}", race_text(race, trace, &place));
        }
    }
    tail(&mut text, report, &place, options.full);
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

fn tail(text: &mut String, report: &SliceReport, place: &dyn Fn(&super::SourceLine) -> String, full: bool) {
    if report.without_line > 0 {
        let instructions = match report.without_line {
            1 => "1 instruction of the slice has".to_owned(),
            n => format!("{n} instructions of the slice have"),
        };
        let _ =
            writeln!(text, "\n{instructions} no source line of yours (library code, or built without -g)");
    }
    if !report.unknown.is_empty() {
        if full || report.unknown.len() <= MAX_UNKNOWN {
            let _ =
                writeln!(text, "\nthe slice may be incomplete: the effects of these functions are unknown:");
            for unknown in &report.unknown {
                let at = unknown
                    .line
                    .as_ref()
                    .map_or_else(String::new, |line| format!(" called at {}", place(line)));
                let _ = writeln!(text, "  {}{at}", unknown.function);
            }
        } else {
            let _ = writeln!(
                text,
                "\nthe slice may be incomplete: the effects of {} called functions are unknown (unsnarl slice --all \
                 lists them)",
                report.unknown.len()
            );
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
