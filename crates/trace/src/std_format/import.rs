//! Import: from STD text to a trace.

use super::{
    Irregularity, MODULE, Note, StdNames,
    line::StdOp,
    text::{LineEntry, StdText, each_line},
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io::{self, BufRead},
};
use unsnarl_model::{
    Event, Flags, Module, ModuleIx, Op, Order, Site, SiteIx, Thread, ThreadId, ThreadIx, Trace,
};
use unsnarl_semantics::{
    Machine,
    preemption::{ExecutionFacts, mark_preemptions},
};

/// A trace imported from another tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedTrace {
    /// The trace; it has no program and is assumed to have ended normally.
    pub trace: Trace,
    /// The names of locks and variables in the text.
    pub names: StdNames,
    /// Irregularities, which were kept as they are.
    pub notes: Vec<Note>,
    /// The number of skipped lines by operation.
    pub skipped: BTreeMap<&'static str, u64>,
    /// By event: its line, from 1.
    pub lines: Vec<u64>,
}

/// The reason why text is not an STD trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdError {
    /// A malformed line.
    #[error("line {line} {reason}; correct or remove it")]
    StdLine {
        /// The line, from 1.
        line: u64,
        /// The problem.
        reason: &'static str,
    },
    /// Compressed by gzip.
    #[error("is compressed; unpack it first: gunzip")]
    Compressed,
    /// There are no events.
    #[error("has no events; an STD trace has lines like T1|w(x)|42")]
    Empty,
    /// The text could not be read.
    #[error("cannot be read after line {line}: {reason}")]
    Io {
        /// The last line read.
        line: u64,
        /// The system's error.
        reason: io::Error,
    },
    /// The text is read twice, and differed the second time.
    #[error("changed while it was being read; import it when it is complete")]
    Changed,
    /// Events could not be written to the temporary file.
    #[error("cannot write temporary events to disk: {0}; free some space")]
    SpillFile(io::Error),
}

/// Reads a trace. The [module's documentation](super) describes the translation.
pub fn import(text: impl BufRead) -> Result<ImportedTrace, StdError> {
    let (mut words, mut entries) = (StdText::default(), Vec::new());
    each_line(text, |line, parsed| {
        entries.push(words.note(line, parsed));
        Ok(())
    })?;
    let mut import = Importer::new(&words, usize::MAX, InMemory::default());
    for (index, entry) in entries.iter().enumerate() {
        import.entry(index as u64, entry)?;
    }
    let ImportOutcome { mut trace, names, notes, skipped, events, .. } = import.finish()?;
    let InMemory { mut events, lines } = events;
    let executed = ExecutionFacts::of(&events);
    mark_preemptions(&mut events, executed, &[]);
    trace.events = events;
    Ok(ImportedTrace { trace, names, notes, skipped, lines })
}

/// The destination of events.
pub(super) trait Sink {
    /// Adds the next event, with its line.
    fn put(&mut self, event: Event, line: u64) -> io::Result<()>;
}

/// Keeps all events in memory.
#[derive(Default)]
struct InMemory {
    events: Vec<Event>,
    lines: Vec<u64>,
}

impl Sink for InMemory {
    fn put(&mut self, event: Event, line: u64) -> io::Result<()> {
        self.events.push(event);
        self.lines.push(line);
        Ok(())
    }
}

/// The result of all lines.
pub(super) struct ImportOutcome<S> {
    /// The trace without its events.
    pub(super) trace: Trace,
    pub(super) names: StdNames,
    pub(super) notes: Vec<Note>,
    /// The number of notes, including those that were not kept.
    pub(super) odd: u64,
    pub(super) skipped: BTreeMap<&'static str, u64>,
    pub(super) count: u64,
    pub(super) events: S,
}

/// The maximum number of generations of threads. A thread's identity is as long as its line of ancestors, so
/// a long chain of forks would take memory quadratic in its length.
const MAX_DEPTH: usize = 1024;

/// A trace under construction.
pub(super) struct Importer<'a, S> {
    text: &'a StdText,
    names: StdNames,
    notes: Vec<Note>,
    /// The number of notes, and how many are kept.
    odd: u64,
    most_notes: usize,
    skipped: BTreeMap<&'static str, u64>,
    threads: Vec<Thread>,
    numbers: HashMap<String, ThreadIx>,
    /// By thread: the number of threads it has forked.
    children: Vec<u32>,
    parents: Vec<ThreadIx>,
    sites: Vec<Site>,
    site_numbers: HashMap<i64, SiteIx>,
    events: S,
    count: u64,
    machine: Machine,
    waiting: HashMap<ThreadIx, OpenWait>,
    /// By condition: the waiting threads that no notification has reached yet.
    queues: HashMap<u64, VecDeque<ThreadIx>>,
}

/// A wait that is not over.
struct OpenWait {
    on: u64,
    site: SiteIx,
    woken_by: Option<u64>,
}

impl<'a, S: Sink> Importer<'a, S> {
    pub(super) fn new(text: &'a StdText, most_notes: usize, events: S) -> Self {
        Self {
            text,
            names: StdNames::default(),
            notes: Vec::new(),
            odd: 0,
            most_notes,
            skipped: BTreeMap::new(),
            threads: Vec::new(),
            numbers: HashMap::new(),
            children: Vec::new(),
            parents: Vec::new(),
            sites: Vec::new(),
            site_numbers: HashMap::new(),
            events,
            count: 0,
            machine: Machine::default(),
            waiting: HashMap::new(),
            queues: HashMap::new(),
        }
    }

    /// Processes the entry with this number.
    pub(super) fn entry(&mut self, index: u64, entry: &LineEntry) -> Result<(), StdError> {
        let text = self.text;
        let thread = self.thread(text.word(entry.thread), None, entry.line)?;
        let site = self.site(entry.location);
        self.wake(thread, entry.line)?;
        let lines = text.threads[&entry.thread];
        let operand = text.word(entry.operand);
        let event = |op, addr, value| Event {
            thread,
            op,
            flags: Flags::NONE,
            order: Order::Relaxed,
            site,
            context: 0,
            size: u64::from(Op::is_plain_access(op)),
            addr,
            value,
        };
        let event = match entry.word {
            StdOp::Read => event(Op::Read, self.names.address(operand), 0),
            StdOp::Write => event(Op::Write, self.names.address(operand), 0),
            StdOp::Acquire => {
                let lock = self.names.address(operand);
                self.note_acquire(thread, lock, entry.line);
                event(Op::Lock, lock, self.depth(thread, lock) + 1)
            }
            StdOp::Release => {
                let lock = self.names.address(operand);
                self.note_release(thread, lock, entry.line);
                event(Op::Unlock, lock, self.depth(thread, lock).saturating_sub(1))
            }
            StdOp::Fork => {
                let child = self.fork(thread, entry)?;
                event(Op::Create, 0, u64::from(child.0))
            }
            StdOp::Join => {
                let child = self.thread(&text.thread_name(entry.operand), None, entry.line)?;
                self.remember_spelling(child, operand);
                event(Op::Join, 0, u64::from(child.0))
            }
            StdOp::Begin if index == lines.first => {
                let parent = self.parents[thread.index()];
                event(Op::Start, self.names.address(operand), u64::from(parent.0))
            }
            StdOp::End if index == lines.last => event(Op::End, self.names.address(operand), 0),
            StdOp::Begin | StdOp::End | StdOp::Request => {
                *self.skipped.entry(entry.word.text()).or_default() += 1;
                return Ok(());
            }
            StdOp::Wait => {
                let lock = self.names.address(operand);
                self.note_release(thread, lock, entry.line);
                self.waiting.insert(thread, OpenWait { on: lock, site, woken_by: None });
                self.queues.entry(lock).or_default().push_back(thread);
                event(Op::CondWait, lock, lock)
            }
            StdOp::Notify => {
                let lock = self.names.address(operand);
                event(Op::Signal, lock, self.notify(lock, 1))
            }
            StdOp::NotifyAll => {
                let lock = self.names.address(operand);
                event(Op::Broadcast, lock, self.notify(lock, usize::MAX))
            }
        };
        self.push(event, entry.line)
    }

    fn push(&mut self, event: Event, line: u64) -> Result<(), StdError> {
        self.machine.follow(&event);
        self.count += 1;
        self.events.put(event, line).map_err(StdError::SpillFile)
    }

    /// Returns the thread of this name; a new one becomes a child of `parent`, or of main if it was not
    /// forked.
    fn thread(&mut self, name: &str, parent: Option<ThreadIx>, line: u64) -> Result<ThreadIx, StdError> {
        if let Some(&thread) = self.numbers.get(name) {
            return Ok(thread);
        }
        let wrong = |reason| StdError::StdLine { line, reason };
        let number = u16::try_from(self.threads.len())
            .map_err(|_| wrong("has more threads than the 65536 that unsnarl supports"))?;
        let parent = parent.unwrap_or(ThreadIx::MAIN);
        let id = if number == 0 {
            ThreadId::main()
        } else {
            let nth = &mut self.children[parent.index()];
            *nth += 1;
            self.threads[parent.index()].id.child(*nth)
        };
        if id.path().len() > MAX_DEPTH {
            return Err(wrong("forks deeper than the 1024 generations of threads that unsnarl supports"));
        }
        let first = self.text.numbers.get(name).and_then(|word| self.text.threads.get(word));
        let location = first.map_or(0, |lines| lines.location);
        self.threads.push(Thread { id, name: name.into(), start: place(location) });
        self.children.push(0);
        self.parents.push(parent);
        self.numbers.insert(name.into(), ThreadIx(number));
        Ok(ThreadIx(number))
    }

    fn fork(&mut self, thread: ThreadIx, entry: &LineEntry) -> Result<ThreadIx, StdError> {
        let name = self.text.thread_name(entry.operand);
        if self.numbers.contains_key(&name) {
            self.note(entry.line, thread, Irregularity::ForkedAlready { child: name.clone() });
        }
        let child = self.thread(&name, Some(thread), entry.line)?;
        self.remember_spelling(child, self.text.word(entry.operand));
        Ok(child)
    }

    fn remember_spelling(&mut self, thread: ThreadIx, spelling: &str) {
        if self.threads[thread.index()].name != spelling {
            self.names.threads.entry(thread).or_insert_with(|| spelling.into());
        }
    }

    fn site(&mut self, location: i64) -> SiteIx {
        let sites = &mut self.sites;
        *self.site_numbers.entry(location).or_insert_with(|| {
            sites.push(place(location));
            SiteIx(sites.len() as u32 - 1)
        })
    }

    fn depth(&self, thread: ThreadIx, lock: u64) -> u64 {
        self.machine.hold_of(thread, lock).map_or(0, |hold| hold.depth)
    }

    fn note_acquire(&mut self, thread: ThreadIx, lock: u64, line: u64) {
        let name = || self.names.of(lock).into_owned();
        let holders = self.machine.holders(lock);
        let irregularity = if self.machine.hold_of(thread, lock).is_some() {
            Irregularity::TakenAgain { lock: name() }
        } else if let Some(holder) = holders.last() {
            Irregularity::TakenFromAnother {
                lock: name(),
                holder: self.threads[holder.thread.index()].name.clone(),
            }
        } else {
            return;
        };
        self.note(line, thread, irregularity);
    }

    fn note_release(&mut self, thread: ThreadIx, lock: u64, line: u64) {
        if self.depth(thread, lock) == 0 {
            self.note(line, thread, Irregularity::NotHeld { lock: self.names.of(lock).into_owned() });
        }
    }

    /// Wakes up to `most` waiters and returns their number.
    fn notify(&mut self, condition: u64, most: usize) -> u64 {
        let Some(queue) = self.queues.get_mut(&condition) else { return 0 };
        let woken = most.min(queue.len());
        for thread in queue.drain(..woken) {
            if let Some(waiting) = self.waiting.get_mut(&thread) {
                waiting.woken_by = Some(self.count);
            }
        }
        woken as u64
    }

    /// Ends a thread's wait: a thread that has another line no longer waits.
    fn wake(&mut self, thread: ThreadIx, line: u64) -> Result<(), StdError> {
        let Some(OpenWait { on, site, woken_by }) = self.waiting.remove(&thread) else { return Ok(()) };
        if let Some(queue) = self.queues.get_mut(&on) {
            queue.retain(|&other| other != thread);
        }
        self.note_acquire(thread, on, line);
        let event = Event {
            thread,
            op: Op::CondWake,
            flags: if woken_by.is_some() { Flags::NONE } else { Flags::SPURIOUS },
            order: Order::Relaxed,
            site,
            context: 0,
            size: 0,
            addr: on,
            value: on,
        }
        .with_waker(woken_by);
        self.push(event, line)
    }

    fn note(&mut self, line: u64, thread: ThreadIx, irregularity: Irregularity) {
        self.odd += 1;
        if self.notes.len() < self.most_notes {
            self.notes.push(Note { line, thread: self.threads[thread.index()].name.clone(), irregularity });
        }
    }

    pub(super) fn finish(self) -> Result<ImportOutcome<S>, StdError> {
        if self.count == 0 {
            return Err(StdError::Empty);
        }
        let trace = Trace {
            modules: vec![Module { path: MODULE.into(), ..Module::default() }],
            threads: self.threads,
            sites: self.sites,
            names: self.names.all(),
            ..Trace::default()
        };
        let Self { names, notes, odd, skipped, count, events, .. } = self;
        Ok(ImportOutcome { trace, names, notes, odd, skipped, count, events })
    }
}

fn place(location: i64) -> Site {
    Site { module: ModuleIx(0), offset: location.cast_unsigned() }
}
