//! `unsnarl bench-predict`: prediction on synthetic events, which are held in memory only if requested.

use super::static_order::{SyntheticEvents, most_memory};
use crate::{output, verdict::Verdict};
use anyhow::Result;
use serde_json::json;
use std::time::{Duration, Instant};
use unsnarl_model::{Event, Op, SiteIx, ThreadIx};
use unsnarl_predict::{PredictOptions, Predictor};

/// Time prediction on synthetic events
#[derive(clap::Args)]
pub(crate) struct BenchPredict {
    /// Number of events
    #[arg(long, default_value_t = 10_000)]
    events: u64,
    /// Number of events analysed at a time
    #[arg(long, default_value_t = 10_000)]
    window: usize,
    /// Analyse all events at once
    #[arg(long)]
    whole: bool,
}

impl BenchPredict {
    pub(crate) fn run(self) -> Result<Verdict> {
        const CHUNK: u64 = 1 << 16;
        let options =
            PredictOptions { window: (!self.whole).then_some(self.window), ..PredictOptions::default() };
        let mut predictor = Predictor::new(options);
        let mut events = (0..).zip(SyntheticEvents::new(1)).map(racy);
        let (mut left, mut chunk) = (self.events, Vec::new());
        let mut elapsed = Duration::ZERO;
        while left > 0 {
            let count = left.min(CHUNK);
            left -= count;
            chunk.clear();
            chunk.extend(events.by_ref().take(count as usize));
            let begin = Instant::now();
            predictor.push(&chunk, &mut |_| {})?;
            elapsed += begin.elapsed();
        }
        let begin = Instant::now();
        let prediction = predictor.finish(&mut |_| {})?;
        elapsed += begin.elapsed();
        output::json(&json!({
            "events": self.events, "reduced": prediction.figures.reduced,
            "synchronising": prediction.figures.synchronising, "candidates": prediction.figures.candidates,
            "races": prediction.races.len(), "elapsed_s": elapsed.as_secs_f64(), "memory_kib": most_memory()?,
        }));
        Ok(Verdict::Fine)
    }
}

/// Assigns sites to the events and adds, now and then, two unprotected writes.
fn racy((number, event): (u64, Event)) -> Event {
    const EVERY: u64 = 10_007;
    // Each site accesses one object.
    let site = SiteIx((event.op as u32) << 16 | (event.addr >> 12) as u32 & 0xffff);
    // Accesses can be replaced; lock operations cannot.
    if number % EVERY < 8 && event.op.is_plain_access() {
        let thread = ThreadIx((number % 8) as u16);
        return Event { thread, op: Op::Write, addr: 0x20_0000, site: SiteIx(1), ..event };
    }
    Event { site, ..event }
}
