//! Following a schedule as far as it makes sense: the rules of Tinertia (Jalbert and Sen, FSE 2010), section
//! 4.2.1, all in this file.
//!
//! Segments are executed in order. The possible deviations and their handling:
//!
//! - *Disabled threads.* A thread may block, or have ended, or not exist yet, before its whole segment was
//!   executed: go on with the next segment.
//! - *Control flow changes.* A thread may be about to do something else than expected: it runs on until it
//!   rejoins the expected path, then completes the rest of the segment. If it blocks or spins without
//!   rejoining, go on with the next segment.
//! - *Condition variables.* A signal that was missed may now find a waiter. The waiter that is scheduled
//!   first goes on, so the schedule itself covers this case.
//! - *No bug.* After the last segment the plan's tail takes over: non-preemptive and fair.
//!
//! The paper leaves open what "rejoins" means. Here it means that the thread's next operation is still
//! expected in this segment (skipped operations count as done), or that it is the first one of the thread's
//! next segment. In the latter case this segment is over: the thread took a shorter path and must not execute
//! what the schedule has for later.

use crate::{Pick, PrefixSteps, RunView, is_about_to};
use unsnarl_model::ThreadIx;

/// The number of operations off the expected path after which a thread counts as lost.
const MAX_OFF_PATH: u32 = 10_000;

#[derive(Debug)]
pub(crate) struct RelaxedFollower {
    prefix: PrefixSteps,
    segment: usize,
    /// The number of schedule points of the current segment that are done or were skipped.
    done: u32,
    /// The index of the current segment's first action.
    first_action: usize,
    /// The number of operations off the expected path in the current segment.
    off_path: u32,
}

impl RelaxedFollower {
    pub(crate) const fn new(prefix: PrefixSteps) -> Self {
        Self { prefix, segment: 0, done: 0, first_action: 0, off_path: 0 }
    }

    /// Picks the next thread; returns `None` at the end of the schedule.
    pub(crate) fn pick(&mut self, world: &impl RunView) -> Option<Pick> {
        loop {
            let segment = *self.prefix.segments.get(self.segment)?;
            if self.done < segment.points
                && let Some(thread) = world.resolve_thread(segment.thread)
                && (world.ready().contains(thread) || world.may_expire().contains(thread))
                && self.continues_segment(world, thread)
            {
                return Some(Pick::Run(thread));
            }
            self.first_action += segment.points as usize;
            self.segment += 1;
            self.done = 0;
            self.off_path = 0;
        }
    }

    /// Returns whether the thread's next operation still belongs to the current segment; counts it if so.
    fn continues_segment(&mut self, world: &impl RunView, thread: ThreadIx) -> bool {
        let segment = self.prefix.segments[self.segment];
        if self.prefix.actions.is_empty() {
            self.done += 1;
            return true;
        }
        let end = self.first_action + segment.points as usize;
        let left = &self.prefix.actions[self.first_action + self.done as usize..end];
        if let Some(skipped) = left.iter().position(|planned| is_about_to(world, thread, planned)) {
            self.done += skipped as u32 + 1;
            self.off_path = 0;
            return true;
        }
        if self.next_segment_begins(world, thread) {
            return false;
        }
        self.off_path += 1;
        self.off_path < MAX_OFF_PATH && !(self.off_path > 1 && world.yields(thread))
    }

    /// Returns whether the thread is at the beginning of its next segment.
    fn next_segment_begins(&self, world: &impl RunView, thread: ThreadIx) -> bool {
        let here = self.prefix.segments[self.segment];
        let mut at = self.first_action + here.points as usize;
        for segment in &self.prefix.segments[self.segment + 1..] {
            if segment.thread == here.thread {
                return self
                    .prefix
                    .actions
                    .get(at)
                    .is_some_and(|planned| is_about_to(world, thread, planned));
            }
            at += segment.points as usize;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toy;
    use alloc::vec::Vec;
    use unsnarl_model::{Action, ModuleIx, Op, Segment, Site};

    /// Creates a prefix from (thread, sites of its segment).
    fn prefix(parts: &[(u16, &[u64])]) -> RelaxedFollower {
        let at = |&offset: &u64| Action { op: Op::Write, site: Site { module: ModuleIx(0), offset } }.into();
        RelaxedFollower::new(PrefixSteps {
            segments: parts
                .iter()
                .map(|(t, sites)| Segment { thread: ThreadIx(*t), points: sites.len() as u32 })
                .collect(),
            actions: parts.iter().flat_map(|(_, sites)| sites.iter().map(at)).collect(),
        })
    }

    /// Runs threads along their lists of sites under the prefix; returns what was executed.
    fn execute(relaxed: &mut RelaxedFollower, threads: &[&[u64]]) -> Vec<(u16, u64)> {
        let mut toy = Toy::new(threads.len() as u16);
        let mut at = alloc::vec![0; threads.len()];
        let mut executed = Vec::new();
        loop {
            for (ix, sites) in threads.iter().enumerate() {
                match sites.get(at[ix]) {
                    Some(&site) => toy.next(ThreadIx(ix as u16), Op::Write, site),
                    None => toy.block(ThreadIx(ix as u16)),
                }
            }
            match relaxed.pick(&toy) {
                Some(Pick::Run(t)) => {
                    executed.push((t.0, threads[t.index()][at[t.index()]]));
                    at[t.index()] += 1;
                }
                _ => return executed,
            }
        }
    }

    #[test]
    fn expected_path_is_followed_by_segments() {
        let mut relaxed = prefix(&[(0, &[1, 2]), (1, &[11]), (0, &[3])]);
        assert_eq!(execute(&mut relaxed, &[&[1, 2, 3], &[11]]), [(0, 1), (0, 2), (1, 11), (0, 3)]);
    }

    #[test]
    fn disabled_thread_loses_rest_of_segment() {
        let mut relaxed = prefix(&[(0, &[1, 2]), (1, &[11])]);
        assert_eq!(execute(&mut relaxed, &[&[1], &[11]]), [(0, 1), (1, 11)]);
    }

    #[test]
    fn detour_runs_until_path_is_rejoined() {
        let mut relaxed = prefix(&[(0, &[1, 2]), (1, &[11]), (0, &[3])]);
        let executed = execute(&mut relaxed, &[&[1, 7, 8, 2, 3], &[11]]);
        assert_eq!(executed, [(0, 1), (0, 7), (0, 8), (0, 2), (1, 11), (0, 3)]);
    }

    #[test]
    fn shortcut_stops_at_next_segment() {
        // The loop at 1 is left at once; 3 must still wait for the other thread's 11.
        let mut relaxed = prefix(&[(0, &[1, 1, 1]), (1, &[11]), (0, &[3])]);
        assert_eq!(execute(&mut relaxed, &[&[1, 3], &[11]]), [(0, 1), (1, 11), (0, 3)]);
    }

    #[test]
    fn thread_off_path_is_left_when_it_ends_or_spins() {
        let mut relaxed = prefix(&[(0, &[1, 2]), (1, &[11])]);
        assert_eq!(execute(&mut relaxed, &[&[7, 8], &[11]]), [(0, 7), (0, 8), (1, 11)]);

        let mut relaxed = prefix(&[(0, &[1]), (1, &[11])]);
        let mut toy = Toy::new(2);
        toy.next(ThreadIx(0), Op::Write, 7);
        toy.set_yields(ThreadIx(0), true);
        toy.next(ThreadIx(1), Op::Write, 11);
        assert_eq!(relaxed.pick(&toy), Some(Pick::Run(ThreadIx(0))));
        assert_eq!(relaxed.pick(&toy), Some(Pick::Run(ThreadIx(1))));
        assert_eq!(relaxed.pick(&toy), None);
    }
}
