//! Events as bytes: one chunk at a time, one column per field, each value encoded relative to a prediction.
//!
//! A thread in a loop passes the same sites again and again. So the predicted next site of a thread is the
//! one that followed last time, and the predicted operation is the last one at that site. Before anything is
//! known, the prediction is the next new site (sites are numbered as they appear) and an address near the
//! last one. A column holds the prediction errors: mostly zeros, which compress to almost nothing.
//! Predictions start afresh with each chunk.

use crate::{
    CONTEXTS,
    bytes::{ByteCursor, Malformed, put_length, put_varint, put_zigzag},
};
use unsnarl_model::{Event, Flags, Op, Order, SiteIx, ThreadIx};

/// The number of events per chunk; only the last chunk has fewer.
pub const CHUNK: usize = 1 << 16;

/// Thread, site, op, low flags, order, size, addr, value.
const FULL_COLUMNS: usize = 8;

/// The columns that every chunk has, then the high flags and the calling context. A column of the latter kind is
/// empty if it would hold nothing but zeros.
const COLUMNS: usize = FULL_COLUMNS + 2;

/// The number of columns in a file of this format.
const fn columns_of(format: u32) -> usize {
    if format < CONTEXTS { FULL_COLUMNS } else { COLUMNS }
}

/// The minimum number of bytes of an event: one in each column that is never empty.
pub(crate) const LEAST: usize = FULL_COLUMNS;

/// The maximum number of bytes of an event: thread 3, site 5, op 1, low flags 1, order 1, size 10, addr 10, value
/// 10, high flags 1, context 5.
const MAX_EVENT_BYTES: usize = 47;

/// The maximum number of bytes of a chunk.
pub(crate) const MAX_IN_CHUNK: usize = COLUMNS * size_of::<u64>() + MAX_EVENT_BYTES * CHUNK;

/// The last event at a site.
#[derive(Clone, Copy, Default)]
struct LastAtSite {
    seen: bool,
    op: u8,
    order: u8,
    context: u32,
    size: u64,
    addr: u64,
    value: u64,
}

/// Predicts the next event from the earlier events of this chunk.
struct EventPredictor {
    /// By thread: its last site.
    at: Vec<u32>,
    /// By site: the site that followed it in its thread.
    after: Vec<Option<u32>>,
    /// By site.
    last: Vec<LastAtSite>,
    /// One more than the highest site so far.
    new_site: u32,
    /// The address of the previous event, of any thread.
    addr: u64,
}

impl EventPredictor {
    /// Beyond this many, sites share entries, which costs bytes but is not wrong. The limit keeps the tables
    /// small enough for the processor's cache, and independent of what a file claims.
    const SITES: usize = 1 << 14;

    fn new() -> Self {
        Self {
            at: vec![0; 1 << u16::BITS],
            after: vec![None; Self::SITES],
            last: vec![LastAtSite::default(); Self::SITES],
            new_site: 0,
            addr: 0,
        }
    }

    fn site(&self, thread: ThreadIx) -> u32 {
        self.after[self.at[thread.index()] as usize % Self::SITES].unwrap_or(self.new_site)
    }

    fn event(&self, site: u32) -> LastAtSite {
        let last = self.last[site as usize % Self::SITES];
        if last.seen { last } else { LastAtSite { addr: self.addr, ..last } }
    }

    /// Records the actual event.
    fn learn(&mut self, thread: ThreadIx, site: u32, event: LastAtSite) {
        let at = &mut self.at[thread.index()];
        self.after[*at as usize % Self::SITES] = Some(site);
        *at = site;
        self.last[site as usize % Self::SITES] = event;
        self.new_site = self.new_site.max(site.saturating_add(1));
        self.addr = event.addr;
    }
}

pub(crate) fn put(events: &[Event], out: &mut Vec<u8>) {
    let mut columns: [Vec<u8>; COLUMNS] = std::array::from_fn(|_| Vec::with_capacity(events.len()));
    let [threads, sites, ops, flags, orders, sizes, addrs, values, high_flags, contexts] = &mut columns;
    let has_high_flags = events.iter().any(|event| event.flags.0 > u16::from(u8::MAX));
    let has_contexts = events.iter().any(|event| event.context > 0);
    let mut expected = EventPredictor::new();
    for event in events {
        put_varint(u64::from(event.thread.0), threads);
        let site = event.site.0;
        let as_expected = expected.site(event.thread) == site;
        put_varint(if as_expected { 0 } else { u64::from(site) + 1 }, sites);
        let last = expected.event(site);
        let now = LastAtSite {
            seen: true,
            op: event.op as u8,
            order: event.order as u8,
            context: event.context,
            size: event.size,
            addr: event.addr,
            value: event.value,
        };
        ops.push(now.op ^ last.op);
        let [low, high] = event.flags.0.to_le_bytes();
        flags.push(low);
        orders.push(now.order ^ last.order);
        put_varint(now.size ^ last.size, sizes);
        put_zigzag(now.addr.wrapping_sub(last.addr).cast_signed(), addrs);
        put_zigzag(now.value.wrapping_sub(last.value).cast_signed(), values);
        if has_high_flags {
            high_flags.push(high);
        }
        if has_contexts {
            put_varint(u64::from(now.context ^ last.context), contexts);
        }
        expected.learn(event.thread, site, now);
    }
    for column in &columns {
        put_length(column.len(), out);
        out.extend_from_slice(column);
    }
}

/// Appends `count` events of a file of this format, whose threads and sites are below these limits.
pub(crate) fn take(
    format: u32,
    count: usize,
    (threads, sites): (usize, usize),
    bytes: &[u8],
    events: &mut Vec<Event>,
) -> Result<(), Malformed> {
    let mut all = ByteCursor::new(bytes);
    let mut columns: [ByteCursor<'_>; COLUMNS] = std::array::from_fn(|_| ByteCursor::new(&[]));
    for column in &mut columns[..columns_of(format)] {
        let length = all.length(1)?;
        *column = ByteCursor::new(all.bytes(length)?);
    }
    all.finish()?;
    let [thread_column, site_column, ops, flags, orders, sizes, addrs, values, high_flags, contexts] =
        &mut columns;
    let (has_high_flags, has_contexts) = (!high_flags.is_empty(), !contexts.is_empty());
    let mut expected = EventPredictor::new();
    for _ in 0..count {
        let thread = u16::try_from(thread_column.varint()?).ok().map(ThreadIx);
        let thread =
            thread.filter(|t| t.index() < threads).ok_or("an event is of a thread that does not exist")?;
        let site = match site_column.varint()? {
            0 => Some(expected.site(thread)),
            site => u32::try_from(site - 1).ok(),
        };
        let site = site
            .filter(|&site| (site as usize) < sites)
            .ok_or("an event is at a site that does not exist")?;
        let last = expected.event(site);
        let context = if has_contexts { contexts.varint()? } else { 0 };
        let context = u32::try_from(context).map_err(|_| "the number of a calling context is too large")?;
        let now = LastAtSite {
            seen: true,
            op: ops.byte()? ^ last.op,
            order: orders.byte()? ^ last.order,
            context: context ^ last.context,
            size: sizes.varint()? ^ last.size,
            addr: last.addr.wrapping_add(addrs.zigzag()?.cast_unsigned()),
            value: last.value.wrapping_add(values.zigzag()?.cast_unsigned()),
        };
        let low = flags.byte()?;
        let high = if has_high_flags { high_flags.byte()? } else { 0 };
        events.push(Event {
            thread,
            op: Op::from_number(now.op).ok_or("it has no such operation")?,
            flags: Flags(u16::from_le_bytes([low, high])),
            order: Order::from_number(now.order).ok_or("it has no such memory order")?,
            site: SiteIx(site),
            context: now.context,
            size: now.size,
            addr: now.addr,
            value: now.value,
        });
        expected.learn(thread, site, now);
    }
    columns.into_iter().try_for_each(ByteCursor::finish)
}
