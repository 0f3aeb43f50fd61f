//! The coverage of a search without a failure, as text and as JSON.

use crate::examined::grouped;
use serde_json::{Value, json};
use unsnarl_search::Coverage;

/// The number of further runs that the estimate is about.
const FURTHER: u32 = 1000;

/// A bound above this says nothing.
const TOO_LITTLE: f64 = 0.75;

/// Describes what a search has seen and what may be left. `compares` is false if it did not look for conflicts.
pub(crate) fn text(coverage: &Coverage, compares: bool) -> String {
    let parts = [compares.then(|| pairs_text(coverage)), chance_text(coverage)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("coverage {}\n", parts.join("; ")) }
}

pub(crate) fn json(coverage: &Coverage, compares: bool) -> Value {
    json!({
        "pairs": compares.then_some(coverage.pairs),
        "both_orders": compares.then_some(coverage.both_orders),
        "chance_of_new_in_1000": coverage.chance_of_new(FURTHER),
        "chance_is_bound": coverage.is_bound(),
        "classified_runs": coverage.classified,
        "classes": coverage.classes,
    })
}

/// Describes the conflicting pairs.
pub(crate) fn pairs_text(coverage: &Coverage) -> String {
    match (coverage.pairs, coverage.both_orders) {
        (0, _) => "no two operations of different threads conflicted".into(),
        (1, 0) => "the only conflicting pair of operations was seen in one order".into(),
        (1, _) => "the only conflicting pair of operations was seen in both orders".into(),
        (pairs, both) => format!(
            "{} of {} conflicting pairs of operations were seen in both orders",
            grouped(both as u64),
            grouped(pairs as u64)
        ),
    }
}

/// Describes the chance that more runs show something new; `None` if that cannot be estimated.
fn chance_text(coverage: &Coverage) -> Option<String> {
    let chance = coverage.chance_of_new(FURTHER)?;
    let further = format!("{} more random schedules", grouped(FURTHER.into()));
    Some(if coverage.is_bound() && chance > TOO_LITTLE {
        format!(
            "too few random schedules ({}) to estimate what more would show",
            grouped(coverage.classified)
        )
    } else if chance > 0.99 {
        format!("{further} would almost certainly show a new order")
    } else {
        let at_most = if coverage.is_bound() { "at most " } else { "" };
        format!("{further} would show a new order with a chance of {at_most}{}", percent(chance))
    })
}

/// Formats a probability.
fn percent(chance: f64) -> String {
    if chance < 0.01 { "1%".into() } else { format!("{:.0}%", chance * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_described_in_words() {
        let seen = Coverage { pairs: 37, both_orders: 31, classified: 2000, classes: 90, singletons: 1 };
        assert_eq!(
            text(&seen, true),
            "coverage 31 of 37 conflicting pairs of operations were seen in both orders; 1,000 more random \
             schedules would show a new order with a chance of 39%\n"
        );
        let all_seen = Coverage { singletons: 0, classified: 1_000_000, ..seen };
        assert!(
            text(&all_seen, true).ends_with("with a chance of at most 1%\n"),
            "{}",
            text(&all_seen, true)
        );
        let few = Coverage { singletons: 0, classified: 40, ..seen };
        assert!(
            text(&few, true).ends_with("; too few random schedules (40) to estimate what more would show\n")
        );
        let little = Coverage { singletons: 50, ..seen };
        assert!(
            text(&little, false).starts_with("coverage 1,000 more random schedules would almost certainly")
        );
        let systematic = Coverage { classified: 0, ..seen };
        assert!(text(&systematic, true).ends_with("seen in both orders\n"));
        assert_eq!(text(&systematic, false), "");
        assert_eq!(json(&systematic, true)["chance_of_new_in_1000"], Value::Null);
        assert_eq!(json(&seen, true)["both_orders"], 31);
        assert_eq!(json(&seen, false)["pairs"], Value::Null);
    }
}
