//! The time for a search.

use std::time::{Duration, Instant};

/// The time of a search for which neither a time nor a number of runs was given.
pub(crate) const DEFAULT_TIME: Duration = Duration::from_secs(60);

/// The runs and the time that a search may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) runs: Option<u64>,
    /// The time for the search.
    pub(crate) time: Option<Duration>,
    /// Its end.
    pub(crate) until: Option<Instant>,
}

impl Budget {
    /// Returns the budget of a search that begins now.
    pub(crate) fn begin(runs: Option<u64>, time: Option<Duration>) -> Self {
        let time = time.or_else(|| runs.is_none().then_some(DEFAULT_TIME));
        // A time too long to represent is no limit.
        Self { runs, time, until: time.and_then(|time| Instant::now().checked_add(time)) }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Describes the time that is used up, and the option that raises it.
    pub(crate) fn time_text(&self) -> String {
        match self.time {
            Some(time) => format!("the time of {time:?} is used up (--time raises it)"),
            None => "the time is used up (--time raises it)".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_without_options_has_a_minute() {
        assert_eq!(Budget::begin(None, None).time, Some(Duration::from_secs(60)));
        assert_eq!(Budget::begin(Some(7), None).time, None, "a number of runs is a budget of its own");
        let both = Budget::begin(Some(7), Some(Duration::from_secs(1)));
        assert_eq!((both.runs, both.time), (Some(7), Some(Duration::from_secs(1))));
        assert!(Budget::begin(None, Some(Duration::MAX)).until.is_none());
        assert!(Budget::begin(None, Some(Duration::ZERO)).is_over());
    }
}
