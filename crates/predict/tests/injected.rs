//! Traces of Java programs into which a race was injected that happens-before, or the closure of
//! synchronisation-preserving races, misses. They are under the licence beside them.

use unsnarl_predict::{PredictOptions, Prediction, predict};
use unsnarl_trace::std_format::{ImportedTrace, import};

fn looked_at(text: &str) -> (ImportedTrace, Prediction) {
    let imported = import(text.as_bytes()).expect("valid STD text");
    let options = PredictOptions { window: None, ..PredictOptions::default() };
    let prediction = predict(&imported.trace, &options, &mut |_| {}).expect("a consistent trace");
    (imported, prediction)
}

/// Returns the locations of the accesses that race on the injected variable.
fn injected(imported: &ImportedTrace, prediction: &Prediction) -> Vec<[u64; 2]> {
    let races = prediction.races.iter().filter(|race| imported.names.of(race.addr) == "BUGGY_ADDR");
    races.map(|race| race.sides.map(|side| imported.trace.site(&side).offset)).collect()
}

#[test]
fn race_missed_by_happens_before_is_found() {
    for text in [
        include_str!("data/hb_missed_arraylist_injectedTrace108.std"),
        include_str!("data/hb_missed_treeset_injectedTrace100.std"),
    ] {
        let (imported, prediction) = looked_at(text);
        assert_eq!(injected(&imported, &prediction), [[9999, 10000]]);
        assert!(prediction.undecided.is_empty());
        assert_eq!(prediction.figures.searched, 0, "the order of critical sections can stay");
    }
}

#[test]
fn race_behind_critical_section_reversal_is_found() {
    let (imported, prediction) = looked_at(include_str!("data/syncp_missed_treeset_1.std"));
    assert_eq!(injected(&imported, &prediction), [[9999, 10000]]);
    assert_eq!(prediction.figures.searched, 1, "only the search finds it");
}
