//! The search for a reordering after which some steps come next, one in each of several threads: two accesses
//! that race, or the takings of locks that wait for each other in a circle.
//!
//! The paper asks a refinement checker for CSP. Here it is a search over the same semantics, with explicit states:
//!
//! 1. `bounds.rs` works out which steps every such reordering has, and which others it can have use for. Often
//!    that settles it.
//! 2. `machine.rs` executes steps and takes them back.
//! 3. `explore.rs` goes through the orders. A step that cannot be in anybody's way is done at once, so that
//!    only contended locks and writes that others see are choices; states that were met before are left.

mod bounds;
mod classes;
mod explore;
mod machine;

pub(crate) use classes::Classes;

use crate::{critical_sections::CriticalSections, model::Model, order::MustHappenBefore};
use bounds::Bounds;

/// What came of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// These steps, in this order.
    Found(Vec<u32>),
    /// There is no such reordering.
    Impossible,
    /// The budget was used up.
    Undecided,
}

/// What searches in one model share.
#[derive(Debug)]
pub(crate) struct Searcher<'m> {
    pub(crate) model: &'m Model,
    pub(crate) order: &'m MustHappenBefore,
    pub(crate) critical_sections: &'m CriticalSections,
    pub(crate) classes: &'m Classes,
}

impl Searcher<'_> {
    /// Looks for a reordering after which all these steps, of different threads, come next. Takes from the budget as
    /// many steps as it executes.
    pub(crate) fn reach(&self, targets: &[u32], budget: &mut u64) -> SearchResult {
        self.reach_after(&[], targets, budget)
    }

    /// The same, with some other steps done by then.
    pub(crate) fn reach_after(&self, done: &[u32], targets: &[u32], budget: &mut u64) -> SearchResult {
        let bounds = Bounds::of(self, done, targets);
        *budget = budget.saturating_sub(1);
        match bounds {
            Some(bounds) => explore::explore(self, &bounds, budget),
            None => SearchResult::Impossible,
        }
    }
}
