//! Reorders traces that are too long for memory: they are read from one file and written to another, event by event.
//!
//! Memory grows with the interactions between threads (the nodes of the dependence graph), not with the number of
//! events. The events of each thread are kept in a temporary file of their own, because the new order takes the next
//! event of some thread at each step.

use anyhow::Result;
use std::{
    io,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};
use unsnarl_model::{Event, Stats, StatsCounter, Trace};
use unsnarl_simplify::static_order::{
    Builder, Effort, Granularity, OrderStrategy, Reordering, Rules,
    rebuild_schedule::{RebuildFacts, ScheduleRebuilder},
    reorder,
};
use unsnarl_trace::{CHUNK, EventWriter, Lanes, LoadError, SaveError};

/// Longer traces are not held in memory.
pub(super) const LONG: u64 = 1 << 20;

/// Result of reordering a file.
pub(super) struct StreamedOrder {
    /// The trace without its events.
    pub(super) header: Trace,
    pub(super) before: Stats,
    pub(super) after: Stats,
}

/// Writes a trace with its events in a better order; `None` if interrupted. With a seed, the paper's merges are made in
/// an order drawn with it.
pub(super) fn reorder_file(
    path: &Path,
    merges: Option<u64>,
    target: &Path,
    interrupt: &AtomicBool,
) -> Result<Option<StreamedOrder>> {
    let mut header = unsnarl_trace::open(path)?.header().clone();
    header.forget_accesses();
    let rules = rules(path, &header)?;
    let mut facts = RebuildFacts::new(&header.warnings);
    let mut builder = Builder::new(rules, Granularity::Event);
    if !each(path, interrupt, |event| {
        builder.push(event);
        facts.first_pass(&event);
        Ok(())
    })? {
        return Ok(None);
    }
    let before = facts.stats();
    let order = search_order(builder, merges);
    facts.end_first_pass();

    let unwritable = |reason| SaveError::Write { path: target.into(), reason };
    let scratch = unsnarl_trace::scratch(target).map_err(unwritable)?;
    let mut lanes = Lanes::new(scratch, facts.of_threads().len())?;
    if !each(path, interrupt, |event| {
        facts.second_pass(&event);
        lanes.put(event)
    })? {
        return Ok(None);
    }
    let waits = header.outcome.waits.clone();
    let schedule_rebuilder = facts.schedule_rebuilder(&order.schedule, &waits, &mut header.warnings);
    let mut after = None;
    let written = unsnarl_trace::write_atomically(target, |file| {
        let writer = EventWriter::new(&header, before.events, file)?;
        after = Some(rebuild_schedule(&order, schedule_rebuilder, lanes, writer, interrupt)?);
        Ok(())
    });
    match (written, after) {
        (Ok(()), Some(after)) => Ok(Some(StreamedOrder { header, before, after })),
        (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        (Err(reason), _) => Err(SaveError::Write { path: target.into(), reason }.into()),
        (Ok(()), None) => Ok(None),
    }
}

/// As [`Rules::of`] for a trace that is held in memory.
fn rules(path: &Path, header: &Trace) -> Result<Rules> {
    let recorded = !header.program.path.is_empty();
    let mut reader = unsnarl_trace::open(path)?;
    let mut accesses = false;
    while recorded && !accesses {
        let undecoded = |reason| LoadError::Decode { path: path.into(), reason };
        let Some(events) = reader.next_chunk().map_err(undecoded)? else { break };
        accesses = events.iter().any(|event| event.op.is_plain_access());
    }
    Ok(Rules { hides_sole_accesses: recorded && accesses, ..Rules::default() })
}

/// Passes all events of a file to `take`; returns false if interrupted.
fn each(path: &Path, interrupt: &AtomicBool, mut take: impl FnMut(Event) -> io::Result<()>) -> Result<bool> {
    let mut reader = unsnarl_trace::open(path)?;
    let undecoded = |reason| LoadError::Decode { path: path.into(), reason };
    while let Some(events) = reader.next_chunk().map_err(undecoded)? {
        if interrupt.load(Ordering::Relaxed) {
            return Ok(false);
        }
        events.iter().try_for_each(|&event| take(event))?;
    }
    Ok(true)
}

fn search_order(builder: Builder, merges: Option<u64>) -> Reordering {
    let graph = builder.finish();
    let search = OrderStrategy::FewSegments(Effort::for_events(graph.events()));
    reorder(&graph, merges.map_or(search, OrderStrategy::Arbitrary))
}

/// Writes the events in their new order and returns its statistics.
fn rebuild_schedule(
    order: &Reordering,
    mut schedule_rebuilder: ScheduleRebuilder<'_>,
    mut lanes: Lanes<std::fs::File>,
    mut writer: EventWriter<impl io::Write>,
    interrupt: &AtomicBool,
) -> io::Result<Stats> {
    let mut count = StatsCounter::default();
    let mut last = None;
    for segment in &order.schedule.segments {
        for at in 0..segment.points {
            if (at as usize).is_multiple_of(CHUNK) && interrupt.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let left = last.filter(|_| at == 0);
            let upcoming = left.map_or(Ok(None), |thread| lanes.peek(thread))?;
            let event = lanes.take(segment.thread)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let event = schedule_rebuilder.rebuild(event, upcoming);
            count.add(&event);
            writer.push(event)?;
        }
        last = Some(segment.thread);
    }
    writer.finish()?;
    Ok(count.stats)
}
