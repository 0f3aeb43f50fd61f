//! Going through the orders, depth first.

use super::{SearchResult, Searcher, bounds::Bounds, machine::Machine};
use crate::hash::Set;

/// A state with several ways to go on.
struct ChoicePoint {
    /// How many steps were done there.
    done: usize,
    /// What else can be done, the most promising last.
    alternatives: Vec<u32>,
}

/// Looks for an order of the steps within the bounds that does all those that must be done.
pub(super) fn explore(search: &Searcher<'_>, bounds: &Bounds, budget: &mut u64) -> SearchResult {
    let mut machine = Machine::new(search, bounds);
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

/// Does what is in nobody's way, until there is no more of it. False if the budget is used up.
fn run_safely(machine: &mut Machine<'_>, budget: &mut u64) -> bool {
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
            // Every choice costs something, also where nothing is safe.
            *budget = budget.saturating_sub(1);
            return *budget > 0 || machine.is_complete();
        }
    }
}

/// What can be done, the most promising last: who must go on before who may, and then by the order of the trace,
/// which is known to work.
fn choices(machine: &Machine<'_>) -> Vec<u32> {
    let mut choices: Vec<(bool, u32)> = (0..machine.at.len())
        .filter_map(|thread| {
            let next = machine.next(thread).filter(|&next| machine.is_enabled(next))?;
            Some((machine.must(thread), next))
        })
        .collect();
    choices.sort_unstable_by_key(|&(must, number)| (must, std::cmp::Reverse(number)));
    choices.into_iter().map(|(_, number)| number).collect()
}
