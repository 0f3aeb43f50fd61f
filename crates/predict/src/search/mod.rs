//! The search for a reordering after which given steps of different threads come next: two accesses that
//! race, or acquisitions of locks that wait for each other in a cycle.
//!
//! The paper uses a refinement checker for CSP. Here it is an explicit-state search over the same semantics:
//!
//! 1. `bounds.rs` determines the steps that every such reordering contains, and those that can be useful.
//!    Often that settles the question.
//! 2. `machine.rs` executes and undoes steps.
//! 3. `explore.rs` enumerates the orders. A safe step is executed at once, so that only contended locks and
//!    writes that others see are choices; states that were visited before are pruned.

mod bounds;
mod classes;
mod explore;
mod machine;

pub(crate) use classes::Classes;

use crate::{critical_sections::CriticalSections, model::Model, order::MustHappenBefore};
use bounds::Bounds;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// A reordering, as steps in order.
    Found(Vec<u32>),
    /// There is no such reordering.
    Impossible,
    /// The budget is exhausted.
    Undecided,
}

/// The data shared by all searches in one model.
#[derive(Debug)]
pub(crate) struct Searcher<'m> {
    pub(crate) model: &'m Model,
    pub(crate) order: &'m MustHappenBefore,
    pub(crate) critical_sections: &'m CriticalSections,
    pub(crate) classes: &'m Classes,
}

impl Searcher<'_> {
    /// Searches for a reordering after which all these steps, of different threads, come next. Every executed
    /// step reduces the budget.
    pub(crate) fn reach(&self, targets: &[u32], budget: &mut u64) -> SearchResult {
        self.reach_after(&[], targets, budget)
    }

    /// Like [`Self::reach`], with some other steps done by then.
    pub(crate) fn reach_after(&self, done: &[u32], targets: &[u32], budget: &mut u64) -> SearchResult {
        let bounds = Bounds::of(self, done, targets);
        *budget = budget.saturating_sub(1);
        match bounds {
            Some(bounds) => explore::explore(self, &bounds, budget),
            None => SearchResult::Impossible,
        }
    }
}
