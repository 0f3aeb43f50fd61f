//! Where two runs part.

use crate::{Action, Event, Flags, ThreadId, Trace};
use alloc::string::String;

/// Where a run left its plan, or the run it was to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// At which point of the run, counted from 0.
    pub point: u64,
    /// Who was expected to run, and did (if anybody could).
    pub thread: ThreadId,
    /// What was expected, with the path of its module; none if the run should have ended.
    pub expected: Option<(Action, String)>,
    /// What happened instead; none if the thread could not run or the run ended.
    pub actual: Option<(Action, String)>,
}

impl Trace {
    /// The first event at which another run of the same program differs: another thread, operation, place,
    /// object or value, or no event at all.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<Divergence> {
        let longest = self.events.len().max(other.events.len());
        let at = (0..longest).find(|&at| !self.agrees_at(other, at))?;
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

    fn agrees_at(&self, other: &Self, at: usize) -> bool {
        match (self.events.get(at), other.events.get(at)) {
            (Some(a), Some(b)) => {
                self.site(a) == other.site(b)
                    && self.thread_id(a.thread) == other.thread_id(b.thread)
                    && Event { site: b.site, value: comparable(a, b), ..*a } == *b
            }
            (None, None) => true,
            _ => false,
        }
    }
}

/// The first event's value, unless it means nothing: then the other's.
fn comparable(a: &Event, b: &Event) -> u64 {
    if a.flags.has(Flags::OWN_STACK) { b.value } else { a.value }
}
