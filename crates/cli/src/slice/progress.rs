//! Progress and timing of the stages.

use indicatif::{ProgressBar, ProgressDrawTarget};
use std::{
    io::IsTerminal,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use unsnarl_exec::processor_time;

/// Duration and processor time of each stage, including the programs that were run.
pub(super) struct StageTimes {
    begin: (Instant, Duration),
    ended: Vec<(&'static str, [f64; 2])>,
}

impl StageTimes {
    pub(super) fn new() -> Self {
        Self { begin: (Instant::now(), processor_time()), ended: Vec::new() }
    }

    pub(super) fn end(&mut self, part: &'static str) {
        let (begin, used) = self.begin;
        self.begin = (Instant::now(), processor_time());
        let seconds = [self.begin.0 - begin, self.begin.1.saturating_sub(used)];
        self.ended.push((part, seconds.map(|time| time.as_secs_f64())));
    }

    /// Returns the seconds of each stage, and of processor time.
    pub(super) fn json(&self) -> [serde_json::Value; 2] {
        [0, 1].map(|which| {
            let parts = self.ended.iter().map(|(part, seconds)| ((*part).to_owned(), seconds[which].into()));
            serde_json::Value::Object(parts.collect())
        })
    }
}

/// The progress line on a terminal.
pub(super) struct SliceProgress {
    bar: ProgressBar,
    stage: Mutex<&'static str>,
    /// Chunks of the trace read in this stage.
    read: AtomicU64,
}

impl SliceProgress {
    pub(super) fn new(stage: &'static str) -> Self {
        let bar = ProgressBar::new_spinner();
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        bar.set_draw_target(target);
        bar.set_message(stage);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, stage: Mutex::new(stage), read: AtomicU64::new(0) }
    }

    /// Reports the number of words traced.
    pub(super) fn words(&self, words: u64) {
        self.bar.set_message(format!("tracing: some {} million instructions so far", words / 240_000));
    }

    pub(super) fn now(&self, stage: &'static str) {
        if let Ok(mut now) = self.stage.lock() {
            *now = stage;
        }
        self.read.store(0, Ordering::Relaxed);
        self.bar.set_message(stage);
    }

    /// Reports that one of `chunks` chunks is about to be read.
    pub(super) fn count_chunk_of(&self, chunks: u64) {
        let read = self.read.fetch_add(1, Ordering::Relaxed);
        if let Ok(stage) = self.stage.lock() {
            self.bar.set_message(format!("{stage}: {} %", (100 * read / chunks.max(1)).min(100)));
        }
    }

    /// Clears the progress line before the result is printed.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for SliceProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
