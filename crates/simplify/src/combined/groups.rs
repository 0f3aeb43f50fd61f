//! Groups of segments, executed thread by thread: halves before singles, as in delta debugging.
//!
//! A long trace has thousands of segments, few of which matter. So a change is made to a group of consecutive segments
//! at once: within the group, each thread runs until its part is done or it has to wait, and then the next one does.
//! If the failure stays, thousands of switches are gone with one run. If it does not, the group contains something
//! that matters, and its halves are tried.
//!
//! The order within a group is feasible as far as the events show, because it is simulated; it breaks only
//! dependences of memory and the order in which locks are acquired.

use crate::{
    dynamic::segment_order::{Piece, SegmentOrder},
    static_order::feasibility::is_enabled,
};
use std::{collections::VecDeque, ops::Range};
use unsnarl_model::{Event, ThreadIx};
use unsnarl_semantics::Machine;

/// The state of the program at the beginning of a segment, advanced as the groups of a trace are tried in order.
pub(super) struct Position {
    machine: Machine,
    /// The number of events so far.
    events: usize,
}

impl Position {
    /// Returns the position at the beginning of a run with these events.
    pub(super) fn start(events: &[Event]) -> Self {
        Self { machine: Machine::before(events), events: 0 }
    }

    /// Advances to this event.
    pub(super) fn advance(&mut self, events: &[Event], to: usize) {
        events[self.events..to.max(self.events)].iter().for_each(|event| self.machine.follow(event));
        self.events = self.events.max(to);
    }

    /// Returns the segments with those of a group executed thread by thread; `None` if that saves no switch. The
    /// position must be the beginning of the group.
    pub(super) fn consolidated(
        &self,
        events: &[Event],
        segments: &SegmentOrder,
        group: Range<usize>,
    ) -> Option<SegmentOrder> {
        let before = group.start.checked_sub(1).map(|at| segments.pieces[at].thread);
        let after = segments.pieces.get(group.end).map(|piece| piece.thread);
        let inner = &segments.pieces[group.clone()];
        let simulated = self.simulate(events, inner, before, after)?;
        let switches = |pieces: &[Piece]| {
            let threads = pieces.iter().map(|piece| piece.thread);
            let threads: Vec<ThreadIx> = before.into_iter().chain(threads).chain(after).collect();
            threads.windows(2).filter(|pair| pair[0] != pair[1]).count()
        };
        if switches(&simulated) >= switches(inner) {
            return None;
        }
        let (head, tail) = (&segments.pieces[..group.start], &segments.pieces[group.end..]);
        Some(SegmentOrder { pieces: [head, &simulated, tail].concat() })
    }

    /// Executes the pieces thread by thread; `None` if the threads block each other.
    fn simulate(
        &self,
        events: &[Event],
        pieces: &[Piece],
        before: Option<ThreadIx>,
        after: Option<ThreadIx>,
    ) -> Option<Vec<Piece>> {
        let mut lanes = lanes(pieces, before, after);
        let mut machine = self.machine.clone();
        let first = pieces.first()?.from;
        let mut places = vec![None; pieces.last()?.to - first];
        let mut simulated: Vec<Piece> = Vec::new();
        while !lanes.is_empty() {
            let mut progress = false;
            for lane in &mut lanes {
                while let Some(piece) = lane.front_mut() {
                    let event = renumbered(events[piece.from], first, &places);
                    if !is_enabled(&machine, &event) {
                        break;
                    }
                    places[piece.from - first] = Some(machine.events());
                    machine.follow(&event);
                    append(&mut simulated, piece.thread, piece.from);
                    progress = true;
                    piece.from += 1;
                    if piece.from == piece.to {
                        lane.pop_front();
                    }
                }
            }
            if !progress {
                return None;
            }
            lanes.retain(|lane| !lane.is_empty());
        }
        Some(simulated)
    }
}

/// Returns the pieces of each thread, in the order in which the threads run: the thread that runs before the group goes
/// first, and the one that runs after it last.
fn lanes(pieces: &[Piece], before: Option<ThreadIx>, after: Option<ThreadIx>) -> Vec<VecDeque<Piece>> {
    let mut lanes: Vec<VecDeque<Piece>> = Vec::new();
    for &piece in pieces {
        match lanes.iter_mut().find(|lane| lane[0].thread == piece.thread) {
            Some(lane) => lane.push_back(piece),
            None => lanes.push(VecDeque::from([piece])),
        }
    }
    lanes.sort_by_key(|lane| match Some(lane[0].thread) {
        thread if thread == before => 0,
        thread if thread == after => 2,
        _ => 1,
    });
    lanes
}

/// Returns the event with the new number of the event that woke its thread.
fn renumbered(event: Event, first: usize, places: &[Option<u64>]) -> Event {
    if !event.op.has_waker() {
        return event;
    }
    let place = |old: u64| match (old as usize).checked_sub(first) {
        Some(at) => places.get(at).copied().flatten(),
        None => Some(old),
    };
    event.with_waker(event.waker().and_then(place))
}

/// Appends an event to the last piece, or begins a new one.
fn append(pieces: &mut Vec<Piece>, thread: ThreadIx, at: usize) {
    match pieces.last_mut() {
        Some(last) if last.thread == thread && last.to == at => last.to = at + 1,
        _ => pieces.push(Piece { thread, from: at, to: at + 1 }),
    }
}
