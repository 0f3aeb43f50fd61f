//! `unsnarl bench-static`: simplification by dependences only, on traces of any length.

use crate::{output, traces, verdict::Verdict};
use anyhow::{Context, Result};
use serde_json::json;
use std::{
    fs::{self, File},
    io::BufReader,
    path::{Path, PathBuf},
    time::Instant,
};
use unsnarl_model::{
    Event, Flags, Module, ModuleIx, Op, Order, Site, SiteIx, Thread, ThreadId, ThreadIx, Trace,
};
use unsnarl_simplify::static_order::{
    Builder, Effort, Granularity, OrderStrategy, Reordering, Rules, baseline, reorder,
};
use unsnarl_trace::{EventReader, EventWriter};

/// Time simplification by dependences only
#[derive(clap::Args)]
pub(crate) struct BenchStatic {
    /// A trace; without one, events are synthetic
    trace: Option<PathBuf>,
    /// Number of synthetic events
    #[arg(long, default_value_t = 10_000)]
    events: u64,
    /// The algorithm: `ours`, `arbitrary` (the paper's order of merges), `paper` (its algorithms as printed), or
    /// `exact`
    #[arg(long, default_value = "ours")]
    by: String,
    /// Seed of synthetic events and arbitrary orders
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only write the synthetic events to a file, as another tool's trace
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl BenchStatic {
    pub(crate) fn run(self) -> Result<Verdict> {
        if let Some(path) = &self.save {
            self.save(path)?;
            return Ok(Verdict::Fine);
        }
        // Reading or generating the events is timed separately, because it is not what is measured.
        let begin = Instant::now();
        let mut count = 0u64;
        self.each(|event| {
            std::hint::black_box(event);
            count += 1;
        })?;
        let reading = begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let rules = Rules { end: false, ..Rules::default() };
        let found = if self.by == "paper" {
            let mut events = Vec::new();
            self.each(|event| events.push(event))?;
            baseline::simplify(&events, rules)
        } else {
            let mut builder = Builder::new(rules, Granularity::Event);
            self.each(|event| builder.push(event))?;
            let graph = builder.finish();
            let strategy = match self.by.as_str() {
                "arbitrary" => OrderStrategy::Arbitrary(self.seed),
                "exact" => OrderStrategy::FewSegments(Effort::EXACT),
                _ => OrderStrategy::FewSegments(Effort::for_events(graph.events())),
            };
            reorder(&graph, strategy)
        };
        let elapsed = begin.elapsed().as_secs_f64();
        let Reordering { before, after, least, minimal, .. } = found;
        output::json(&json!({
            "events": count, "before": before, "after": after, "least": least, "minimal": minimal,
            "elapsed_s": elapsed, "reading_s": reading, "memory_kib": most_memory()?,
        }));
        Ok(Verdict::Fine)
    }

    fn save(&self, path: &Path) -> Result<()> {
        let place = Site { module: ModuleIx(0), offset: 1 };
        let main = ThreadId::main();
        let others = (1..SyntheticEvents::THREADS as u32).map(|nth| main.child(nth));
        let threads = std::iter::once(main.clone()).chain(others);
        let header = Trace {
            modules: vec![Module { path: "made up".into(), ..Module::default() }],
            threads: threads.map(|id| Thread { id, name: String::new(), start: place }).collect(),
            sites: vec![place],
            ..Trace::default()
        };
        unsnarl_trace::write_atomically(path, |out| {
            let mut writer = EventWriter::new(&header, self.events, out)?;
            SyntheticEvents::new(self.seed)
                .take(self.events as usize)
                .try_for_each(|event| writer.push(event))?;
            writer.finish()
        })
        .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Passes all events to `take`, never holding all of them in memory.
    fn each(&self, mut take: impl FnMut(Event)) -> Result<()> {
        let Some(path) = &self.trace else {
            SyntheticEvents::new(self.seed).take(self.events as usize).for_each(take);
            return Ok(());
        };
        let file =
            File::open(traces::find(path)).with_context(|| format!("cannot read {}", path.display()))?;
        let mut reader = EventReader::new(BufReader::new(file))?;
        while let Some(events) = reader.next_chunk()? {
            events.iter().copied().for_each(&mut take);
        }
        Ok(())
    }
}

/// Returns the peak memory of this process.
pub(super) fn most_memory() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    Ok(line.split_whitespace().next().and_then(|figure| figure.parse().ok()).unwrap_or(0))
}

/// Synthetic events of a program with eight threads. Each thread often accesses its own memory, and accesses shared
/// data under one of sixteen locks. The running thread is redrawn every few events.
pub(super) struct SyntheticEvents {
    state: u64,
    thread: u16,
    /// For each thread the lock that it holds, and the number of accesses left under it.
    held: [Option<(u64, u32)>; Self::THREADS],
    owners: [Option<u16>; Self::LOCKS],
}

impl SyntheticEvents {
    const THREADS: usize = 8;
    const LOCKS: usize = 16;

    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed | 1, thread: 0, held: [None; Self::THREADS], owners: [None; Self::LOCKS] }
    }

    /// Draws a random number by xorshift.
    fn draw(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % below
    }

    fn event(&self, op: Op, addr: u64) -> Event {
        let size = if op.is_plain_access() { 8 } else { 0 };
        Event {
            thread: ThreadIx(self.thread),
            op,
            flags: Flags::NONE,
            order: Order::Relaxed,
            site: SiteIx(0),
            context: 0,
            size,
            addr,
            value: 0,
        }
    }
}

impl Iterator for SyntheticEvents {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.draw(8) == 0 {
            self.thread = self.draw(Self::THREADS as u64) as u16;
        }
        let me = usize::from(self.thread);
        let access = if self.draw(3) == 0 { Op::Write } else { Op::Read };
        Some(match self.held[me] {
            Some((lock, 0)) => {
                self.held[me] = None;
                self.owners[lock as usize] = None;
                self.event(Op::Unlock, 0x1000 + lock * 64)
            }
            Some((lock, left)) => {
                self.held[me] = Some((lock, left - 1));
                let object = self.draw(32);
                self.event(access, 0x10_0000 + lock * 4096 + object * 8)
            }
            None => {
                let lock = self.draw(Self::LOCKS as u64);
                if self.draw(6) == 0 && self.owners[lock as usize].is_none() {
                    self.owners[lock as usize] = Some(self.thread);
                    self.held[me] = Some((lock, self.draw(6) as u32));
                    self.event(Op::Lock, 0x1000 + lock * 64)
                } else {
                    let object = self.draw(4096);
                    self.event(access, 0x1000_0000 + me as u64 * 0x10_0000 + object * 8)
                }
            }
        })
    }
}
