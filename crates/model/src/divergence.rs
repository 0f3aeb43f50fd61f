//! The first difference between two runs.

use crate::{Action, Event, Flags, ThreadId, Trace};
use alloc::string::String;

/// The point where a run left its plan, or the run that it was to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The point of the run, from 0.
    pub point: u64,
    /// The thread that was expected to run, and did if it could.
    pub thread: ThreadId,
    /// The expected action with the path of its module; `None` if the run should have ended.
    pub expected: Option<(Action, String)>,
    /// The actual action; `None` if the thread could not run or the run ended.
    pub actual: Option<(Action, String)>,
}

impl Trace {
    /// Returns whether the program and its libraries are at the same addresses in both runs. A library that was loaded twice
    /// is listed twice.
    #[must_use]
    pub fn has_layout_of(&self, other: &Self) -> bool {
        self.modules.iter().all(|module| {
            let mut same_file = other.modules.iter().filter(|there| there.path == module.path).peekable();
            same_file.peek().is_none() || same_file.any(|there| there.base == module.base)
        })
    }

    /// Returns the first event at which another run of the same program differs: another thread, operation,
    /// site, object or value, or no event at all. Addresses are not compared if the program is loaded at
    /// other addresses.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<Divergence> {
        let longest = self.events.len().max(other.events.len());
        let same_layout = self.has_layout_of(other);
        let at = (0..longest).find(|&at| !self.agrees_at(other, at, same_layout))?;
        let action_with_module = |trace: &Self| {
            let action = trace.action(trace.events.get(at)?);
            Some((action, trace.modules.get(action.site.module.0 as usize)?.path.clone()))
        };
        let thread_at = |trace: &Self| Some(trace.thread_id(trace.events.get(at)?.thread).clone());
        let thread = thread_at(self).or_else(|| thread_at(other)).unwrap_or_default();
        Some(Divergence {
            point: at as u64,
            thread,
            expected: action_with_module(self),
            actual: action_with_module(other),
        })
    }

    fn agrees_at(&self, other: &Self, at: usize, same_layout: bool) -> bool {
        match (self.events.get(at), other.events.get(at)) {
            (Some(a), Some(b)) => {
                let moved = if same_layout { *a } else { without_addresses(a, b) };
                self.site(a) == other.site(b)
                    && self.thread_id(a.thread) == other.thread_id(b.thread)
                    && as_replayed(&moved, b) == *b
            }
            (None, None) => true,
            _ => false,
        }
    }
}

/// Returns the first event with the second's properties wherever the first's are meaningless, or may be missing in an
/// older trace.
fn as_replayed(a: &Event, b: &Event) -> Event {
    let of_call = Flags(b.flags.0 & Flags::OF_CALL.0);
    Event {
        site: b.site,
        context: b.context,
        flags: a.flags.without(Flags::OF_CALL) | of_call,
        value: if a.flags.has(Flags::OWN_STACK) { b.value } else { a.value },
        ..*a
    }
}

/// Returns the first event with the second's addresses wherever both have one.
fn without_addresses(a: &Event, b: &Event) -> Event {
    // The range of position-independent programs, their heaps, libraries, mappings and stacks.
    const ADDRESSES: core::ops::Range<u64> = 0x5500_0000_0000..0x8000_0000_0000;
    let choose = |a: u64, b: u64| if ADDRESSES.contains(&a) && ADDRESSES.contains(&b) { b } else { a };
    Event { addr: choose(a.addr, b.addr), value: choose(a.value, b.value), ..*a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Module, Op, Order, Outcome, Output, Plan, Program, Site, SiteIx, Thread, ThreadIx};
    use alloc::vec;

    fn trace(base: u64, addr: u64, value: u64) -> Trace {
        let event = Event {
            thread: ThreadIx::MAIN,
            op: Op::Write,
            flags: Flags::NONE,
            order: Order::Relaxed,
            site: SiteIx(0),
            context: 0,
            size: 8,
            addr,
            value,
        };
        Trace {
            program: Program::default(),
            modules: vec![Module { path: "p".into(), base, size: 0x1000, ..Module::default() }],
            plan: Plan::default(),
            threads: vec![Thread::default()],
            sites: vec![Site::default()],
            callers: vec![],
            contexts: vec![],
            events: vec![event],
            outcome: Outcome::exit(0),
            warnings: vec![],
            program_warnings: vec![],
            native: false,
            races: vec![],
            counterfactuals: vec![],
            names: vec![],
            output: Output::default(),
        }
    }

    #[test]
    fn addresses_count_only_in_the_same_layout() {
        let (here, there) = (0x5555_5555_4000, 0x5500_0000_0000);
        let recorded = trace(here, here + 8, 3);
        assert!(recorded.first_difference(&trace(here, here + 8, 3)).is_none());
        assert!(recorded.first_difference(&trace(here, here + 16, 3)).is_some());
        assert!(recorded.first_difference(&trace(there, there + 8, 3)).is_none());
        assert!(recorded.first_difference(&trace(there, there + 8, 4)).is_some());
        let pointer = trace(here, here + 8, here + 64);
        assert!(pointer.first_difference(&trace(there, there + 8, there + 64)).is_none());
        assert!(pointer.first_difference(&trace(there, there + 8, 0)).is_some());
    }
}
