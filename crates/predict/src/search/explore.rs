//! Depth-first exploration of the orders.

use super::{SearchResult, Searcher, bounds::Bounds, machine::SearchMachine};
use crate::hash::Set;

/// A state with several enabled steps.
struct ChoicePoint {
    /// The number of steps done at that point.
    done: usize,
    /// The other enabled steps, the most promising last.
    alternatives: Vec<u32>,
}

/// Searches for an order of the steps within the bounds that contains all required ones.
pub(super) fn explore(search: &Searcher<'_>, bounds: &Bounds, budget: &mut u64) -> SearchResult {
    let mut machine = SearchMachine::new(search, bounds);
    let mut met: Set<u128> = Set::default();
    let mut forks: Vec<ChoicePoint> = Vec::new();
    loop {
        if !run_safely(&mut machine, budget) {
            return SearchResult::Undecided;
        }
        if machine.is_complete() {
            return SearchResult::Found(machine.done);
        }
        let mut choices = if met.insert(machine.fingerprint) { choices(&machine) } else { Vec::new() };
        loop {
            if let Some(choice) = choices.pop() {
                forks.push(ChoicePoint { done: machine.done.len(), alternatives: choices });
                machine.execute(choice);
                break;
            }
            let Some(fork) = forks.pop() else { return SearchResult::Impossible };
            while machine.done.len() > fork.done {
                machine.undo();
            }
            choices = fork.alternatives;
        }
    }
}

/// Executes safe steps until there are none left. Returns false if the budget is exhausted.
fn run_safely(machine: &mut SearchMachine<'_>, budget: &mut u64) -> bool {
    loop {
        let mut moved = false;
        for thread in 0..machine.at.len() {
            while let Some(next) = machine.next(thread)
                && machine.is_enabled(next)
                && machine.is_safe(next)
            {
                if *budget == 0 {
                    return false;
                }
                *budget -= 1;
                machine.execute(next);
                moved = true;
            }
        }
        if machine.is_complete() || !moved {
            // Every choice costs something, even if nothing is safe.
            *budget = budget.saturating_sub(1);
            return *budget > 0 || machine.is_complete();
        }
    }
}

/// Returns the enabled steps, the most promising last: threads that must continue are preferred to those that
/// may, and then the order of the trace, which is known to work.
fn choices(machine: &SearchMachine<'_>) -> Vec<u32> {
    let mut choices: Vec<(bool, u32)> = (0..machine.at.len())
        .filter_map(|thread| {
            let next = machine.next(thread).filter(|&next| machine.is_enabled(next))?;
            Some((machine.must_continue(thread), next))
        })
        .collect();
    choices.sort_unstable_by_key(|&(must, number)| (must, std::cmp::Reverse(number)));
    choices.into_iter().map(|(_, number)| number).collect()
}
