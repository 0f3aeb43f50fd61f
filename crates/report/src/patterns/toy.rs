//! Runs for tests, step by step. Site n is line n.

use crate::story::Story;
use unsnarl_model::{
    Continuation, Event, Flags, LoggedAccess, ModuleIx, Op, Order, Outcome, OutcomeKind, Site, SiteIx,
    Thread, ThreadId, ThreadIx, Trace, Wait,
};

/// A run under construction.
pub(crate) struct Toy {
    trace: Trace,
    preempts: bool,
}

impl Toy {
    pub(crate) fn new(threads: u16) -> Self {
        let thread = |ix: u16| Thread {
            id: if ix == 0 { ThreadId::main() } else { ThreadId::main().child(ix.into()) },
            ..Thread::default()
        };
        let mut trace = Trace { threads: (0..threads).map(thread).collect(), ..Trace::default() };
        trace.outcome = Outcome { kind: OutcomeKind::Assertion, ..Outcome::exit(0) };
        trace.outcome.thread = Some(ThreadIx(0));
        Self { trace, preempts: false }
    }

    pub(crate) fn story(&self) -> Story {
        Story::of(&self.trace)
    }

    /// Returns the number of the last step.
    pub(crate) fn last(&self) -> u64 {
        self.trace.events.len() as u64 - 1
    }

    fn event(&mut self, thread: u16, line: u64, op: Op) -> Event {
        let site = Site { module: ModuleIx(0), offset: line };
        let known = self.trace.sites.iter().position(|known| *known == site);
        let ix = known.unwrap_or_else(|| {
            self.trace.sites.push(site);
            self.trace.sites.len() - 1
        });
        let preempts = if std::mem::take(&mut self.preempts) { Flags::PREEMPTS } else { Flags::NONE };
        Event { site: SiteIx(ix as u32), flags: preempts, ..Event::new(ThreadIx(thread), op) }
    }

    fn push(&mut self, event: Event) -> &mut Self {
        self.trace.events.push(event);
        self
    }

    /// The next step preempts the thread of the last one.
    pub(crate) fn preempt(&mut self) -> &mut Self {
        self.preempts = true;
        self
    }

    pub(crate) fn start(&mut self, thread: u16) -> &mut Self {
        let event = self.event(thread, 0, Op::Start);
        self.push(event)
    }

    pub(crate) fn read(&mut self, thread: u16, line: u64, addr: u64, value: u64) -> &mut Self {
        let event = Event { addr, value, size: 8, ..self.event(thread, line, Op::Read) };
        self.push(event)
    }

    /// A write with the values before and after it.
    pub(crate) fn write(&mut self, thread: u16, line: u64, addr: u64, (old, new): (u64, u64)) -> &mut Self {
        let event = Event { addr, value: old, size: 8, ..self.event(thread, line, Op::Write) };
        let events_before = self.trace.events.len() as u64;
        let logged = LoggedAccess { access: event, written: Some(new), events_before, is_event: true };
        self.trace.accesses.push(logged);
        self.push(event)
    }

    pub(crate) fn atomic(&mut self, thread: u16, line: u64, op: Op, addr: u64, value: u64) -> &mut Self {
        let event = Event { addr, value, size: 8, order: Order::SeqCst, ..self.event(thread, line, op) };
        self.push(event)
    }

    pub(crate) fn block(&mut self, thread: u16, line: u64, op: Op, addr: u64, size: u64) -> &mut Self {
        let event = Event { addr, size, ..self.event(thread, line, op) };
        self.push(event)
    }

    pub(crate) fn lock(&mut self, thread: u16, line: u64, addr: u64, acquire: bool) -> &mut Self {
        let (op, value) = if acquire { (Op::Lock, 1) } else { (Op::Unlock, 0) };
        let event = Event { addr, value, ..self.event(thread, line, op) };
        self.push(event)
    }

    pub(crate) fn signal(&mut self, thread: u16, line: u64, addr: u64, woken: u64) -> &mut Self {
        let event = Event { addr, value: woken, ..self.event(thread, line, Op::Signal) };
        self.push(event)
    }

    pub(crate) fn cond_wait(&mut self, thread: u16, line: u64, addr: u64) -> &mut Self {
        let event = Event { addr, ..self.event(thread, line, Op::CondWait) };
        self.push(event)
    }

    pub(crate) fn cond_wake(&mut self, thread: u16, line: u64, addr: u64, waker: u64) -> &mut Self {
        let event = Event { addr, ..self.event(thread, line, Op::CondWake) }.with_waker(Some(waker));
        self.push(event)
    }

    /// Adds a step that the thread preempted last would have executed next.
    fn would(&mut self, event: Event, written: Option<u64>) -> &mut Self {
        let preempting = self.trace.events.iter().rposition(|event| event.flags.has(Flags::PREEMPTS));
        let event_number = preempting.expect("a preemption") as u64;
        if self.trace.continuations.is_empty() {
            self.trace.continuations.push(Continuation { event: event_number, steps: Vec::new() });
        }
        let steps = &mut self.trace.continuations[0].steps;
        let events_before = event_number + steps.len() as u64;
        steps.push(LoggedAccess { access: event, written, events_before, is_event: true });
        self
    }

    pub(crate) fn would_write(
        &mut self,
        thread: u16,
        line: u64,
        addr: u64,
        (old, new): (u64, u64),
    ) -> &mut Self {
        let event = Event { addr, value: old, size: 8, ..self.event(thread, line, Op::Write) };
        self.would(event, Some(new))
    }

    pub(crate) fn would_read(&mut self, thread: u16, line: u64, addr: u64, value: u64) -> &mut Self {
        let event = Event { addr, value, size: 8, ..self.event(thread, line, Op::Read) };
        self.would(event, None)
    }

    pub(crate) fn would_lock(&mut self, thread: u16, line: u64, addr: u64) -> &mut Self {
        let event = Event { addr, value: 1, ..self.event(thread, line, Op::Lock) };
        self.would(event, None)
    }

    /// The thread in which the run failed.
    pub(crate) fn fail(&mut self, thread: u16) -> &mut Self {
        self.trace.outcome.thread = Some(ThreadIx(thread));
        self
    }

    /// The thread in which the run crashed.
    pub(crate) fn crash(&mut self, thread: u16) -> &mut Self {
        self.trace.outcome.kind = OutcomeKind::Signal(11);
        self.fail(thread)
    }

    /// The run ends in a deadlock in which this thread waits.
    pub(crate) fn waits(&mut self, thread: u16, op: Op, addr: u64, holders: &[u16]) -> &mut Self {
        let outcome = &mut self.trace.outcome;
        outcome.kind = OutcomeKind::Deadlock;
        let holders = holders.iter().map(|&holder| ThreadIx(holder)).collect();
        outcome.waits.push(Wait { thread: ThreadIx(thread), op, addr, site: Site::default(), holders });
        self
    }
}
