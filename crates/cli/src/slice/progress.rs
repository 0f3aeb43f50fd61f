//! What is being done, and how long it took.

use indicatif::{ProgressBar, ProgressDrawTarget};
use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

/// How long each part of the work took.
pub(super) struct Laps {
    begin: Instant,
    ended: Vec<(&'static str, f64)>,
}

impl Laps {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now(), ended: Vec::new() }
    }

    pub(super) fn end(&mut self, part: &'static str) {
        self.ended.push((part, self.begin.elapsed().as_secs_f64()));
        self.begin = Instant::now();
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let parts =
            self.ended.iter().map(|&(part, seconds)| (part.to_owned(), serde_json::Value::from(seconds)));
        serde_json::Value::Object(parts.collect())
    }
}

/// What is being done, on a terminal.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        bar.set_draw_target(target);
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// How much was traced.
    pub(super) fn words(&self, words: u64) {
        self.0.set_message(format!("tracing: some {} million instructions so far", words / 270_000));
    }

    pub(super) fn now(&self, what: &'static str) {
        self.0.set_message(what);
    }
}

impl Progress {
    /// What is printed from now on is the result.
    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
