//! What threads did after which past.

use super::{
    mix,
    state::{HiddenDependence, Known, SimulatedState, UpcomingOperation},
};
use crate::static_order::hash::HashMap;
use std::collections::HashSet;
use unsnarl_model::{
    Event, Flags, Module, Op, Order, Outcome, OutcomeKind, Points, Site, SiteIx, Thread, ThreadId, ThreadIx,
    Trace, Wait,
};

/// Events that are learned from again when more is known, over all.
const MAX_RELEARNED_EVENTS: usize = 500_000;

/// How often that is done to find out where there is something that is no event.
const MAX_HIDDEN_DEPENDENCE_PASSES: usize = 32;

/// How often that is done to follow those who are alone further.
const MAX_FOLLOW_PASSES: usize = 4;

/// The runtime's words for an end in which nobody can go on, and for one in which some wait for each other.
pub(super) const NO_RUNNABLE_THREAD: &str = "no thread can go on";
pub(super) const CIRCLE: &str = "threads wait for each other in a circle";

/// What a thread does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NextOperation {
    /// The operation as it is asked for.
    pub(super) op: Op,
    pub(super) site: Site,
    pub(super) addr: u64,
    pub(super) size: u32,
    pub(super) order: Order,
    pub(super) flags: Flags,
    /// The event's value, where that does not hang on others.
    pub(super) value: u64,
    /// Whose end it waits for.
    pub(super) target: Option<ThreadId>,
    /// It was only seen to wait for this.
    pub(super) only_waited: bool,
    /// It does not survive this.
    pub(super) dies: bool,
}

/// What comes after a past.
#[derive(Clone, Debug)]
pub(super) enum Continuation {
    /// The thread goes on.
    Operation(NextOperation),
    /// The thread goes on, and nobody has seen how.
    Lives,
    /// The run ends.
    Ends(ObservedEnd),
    /// The run ends, and others have a say in what is told of it.
    EndsSomehow,
}

/// How a run ended, and who its threads were.
#[derive(Clone, Debug)]
pub(super) struct ObservedEnd {
    outcome: Outcome,
    threads: Vec<ThreadId>,
}

/// What came of an operation that others have a say in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperationResult {
    pub(super) flags: Flags,
    pub(super) addr: u64,
    pub(super) size: u32,
    pub(super) value: u64,
}

#[derive(Debug)]
pub(super) struct Observations {
    /// Who is there at the start.
    pub(super) first: Vec<ThreadId>,
    pub(super) known: Known,
    pub(super) sees_all_accesses: bool,
    /// By the thread's past.
    pub(super) continuations: HashMap<u64, Continuation>,
    /// By the thread's past and what it found; none if different things came of the same.
    results: HashMap<u64, Option<OperationResult>>,
    /// What threads with this past expect to find, and what they leave there if it is so.
    pub(super) expected_values: HashMap<u64, (u64, u64)>,
    /// By who wrote what stands there; none for what was seen to change by itself.
    values: HashMap<u64, Option<u64>>,
    /// How runs ended that were not one thread's doing, by where everybody was.
    pub(super) ends: HashMap<u64, ObservedEnd>,
    pub(super) sites: Vec<Site>,
    pub(super) site_of: HashMap<Site, SiteIx>,
    /// What is the same in all runs.
    pub(super) template: Trace,
    pub(super) threads: HashMap<Vec<u32>, Thread>,
    pub(super) modules: Vec<String>,
    /// Of the longest run.
    pub(super) longest: usize,
    /// What was learned from, so that it can be learned again with what is known now.
    runs: Vec<Trace>,
    /// How many events they have.
    events: usize,
    /// How many events were learned from again.
    again: usize,
    /// The pasts with which threads that were alone were last followed.
    left: HashSet<u64>,
}

impl Observations {
    pub(super) fn new(trace: &Trace) -> Self {
        Self {
            first: first(trace),
            known: Known::default(),
            sees_all_accesses: trace.plan.points == Points::All
                && trace.events.iter().any(|event| event.op.is_plain_access()),
            continuations: HashMap::default(),
            results: HashMap::default(),
            expected_values: HashMap::default(),
            values: HashMap::default(),
            ends: HashMap::default(),
            sites: Vec::new(),
            site_of: HashMap::default(),
            template: Trace {
                events: Vec::new(),
                sites: Vec::new(),
                callers: Vec::new(),
                counterfactuals: Vec::new(),
                ..trace.clone()
            },
            threads: HashMap::default(),
            modules: trace.modules.iter().map(|module| module.path.clone()).collect(),
            longest: 0,
            runs: Vec::new(),
            events: 0,
            again: 0,
            left: HashSet::new(),
        }
    }

    /// Learns from a run; whether it does not contradict what was learned.
    pub(super) fn learn(&mut self, trace: &Trace) -> bool {
        let same = |a: &Module, b: &Module| a.path == b.path && a.base == b.base;
        let modules = self.template.modules.iter().zip(&trace.modules);
        if trace.modules.len() != self.modules.len()
            || !modules.into_iter().all(|(a, b)| same(a, b))
            || trace.plan.points != self.template.plan.points
            || first(trace) != self.first
        {
            return true;
        }
        self.longest = self.longest.max(trace.events.len());
        for thread in &trace.threads {
            self.threads.entry(thread.id.path().to_vec()).or_insert_with(|| thread.clone());
        }
        self.learn_facts(&trace.events);
        self.events += trace.events.len();
        let known = self.known.written.len();
        let mut consistent = self.learn_events(trace);
        self.runs.push(trace.clone());
        // With what is known now, about values or about who was alone, runs may turn out to be alike that looked
        // different.
        let knows_more = self.sees_all_accesses && self.known.written.len() > known;
        if !consistent
            || (knows_more || self.can_follow_further()) && self.again + self.events <= MAX_RELEARNED_EVENTS
        {
            consistent = self.learn_again();
        }
        consistent
    }

    /// The events do not tell all after all. Learns all of it again with that in mind; whether that goes together.
    pub(super) fn distrust_events(&mut self) -> bool {
        std::mem::take(&mut self.sees_all_accesses) && self.learn_again()
    }

    /// All runs that were learned from.
    pub(super) fn runs(&self) -> &[Trace] {
        &self.runs
    }

    /// Learns from all runs again, with what is known now. If they do not go together, there is something between
    /// threads that is no event.
    fn learn_again(&mut self) -> bool {
        for _ in 0..MAX_HIDDEN_DEPENDENCE_PASSES {
            self.again += self.events;
            if self.again > MAX_RELEARNED_EVENTS {
                return false;
            }
            self.continuations.clear();
            self.results.clear();
            self.expected_values.clear();
            self.values.clear();
            self.ends.clear();
            if self.go_over_runs() {
                return true;
            }
        }
        false
    }

    /// Learns from all runs what is not known yet; whether they go together.
    fn go_over_runs(&mut self) -> bool {
        let runs = std::mem::take(&mut self.runs);
        let mut consistent = true;
        for _ in 0..MAX_FOLLOW_PASSES {
            self.left.clear();
            consistent &= runs.iter().all(|run| self.learn_events(run));
            // What a thread does in company may be shown by a later run than the one in which it is alone.
            if !consistent || !self.can_follow_further() || self.again + self.events > MAX_RELEARNED_EVENTS {
                break;
            }
            self.again += self.events;
        }
        self.runs = runs;
        consistent
    }

    /// Whether it is known by now what threads do where they could be followed no further.
    fn can_follow_further(&self) -> bool {
        self.left.iter().any(|past| !matches!(self.continuations.get(past), None | Some(Continuation::Lives)))
    }

    /// The same past led to different things: what was done last is followed by something that is no event.
    fn add_hidden_dependence(&mut self, after: Option<(Op, Site)>) {
        if let Some(place) = after {
            let hidden_dependence = match self.known.hidden_dependences.get(&place) {
                None => HiddenDependence::Order,
                Some(HiddenDependence::Order) => HiddenDependence::Waits,
                Some(HiddenDependence::Waits | HiddenDependence::All) => HiddenDependence::All,
            };
            self.known.hidden_dependences.insert(place, hidden_dependence);
        }
    }

    fn learn_events(&mut self, trace: &Trace) -> bool {
        let known = std::mem::take(&mut self.known);
        let mut state = SimulatedState::new(&self.first, &known, self.sees_all_accesses);
        let mut last: HashMap<ThreadIx, (Op, Site)> = HashMap::default();
        let mut seen = Vec::new();
        let mut consistent = true;
        let fatal = fatal(trace);
        let about = about(trace);
        for (at, event) in trace.events.iter().enumerate() {
            let site = trace.site(event);
            if event.thread.index() >= state.threads.len() {
                self.known = known;
                return false;
            }
            self.learn_site(site);
            let past = state.threads[event.thread.index()].past;
            let target = trace.threads.get(event.value as usize).filter(|_| event.op == Op::Join);
            let next = NextOperation {
                op: consulted_unknown(event.op),
                site,
                addr: event.addr,
                size: event.size,
                order: event.order,
                flags: event.flags,
                value: event.value,
                target: target.map(|target| target.id.clone()),
                only_waited: false,
                dies: fatal == Some(at),
            };
            if !self.note(past, next) {
                self.known = known;
                self.add_hidden_dependence(last.get(&event.thread).copied());
                return false;
            }
            last.insert(event.thread, (event.op, site));
            self.note_result(&state, past, event);
            if let Some(writer) =
                state.reveals_value(event).then(|| state.memory.writer(event.addr, event.size)).flatten()
            {
                seen.push((writer, event.value));
            }
            state.apply(event, site);
            let past = state.threads[event.thread.index()].past;
            state.threads[event.thread.index()].about =
                about[at].or_else(|| self.about(past)).unwrap_or_default();
            if state.is_sole_runner(event.thread) {
                self.left.extend(self.follow(&mut state, event.thread));
            }
            // It came to its next operation before others went on.
            if trace.events.get(at + 1).is_some_and(|next| next.thread != event.thread) && event.op != Op::End
            {
                let continuations = self
                    .continuations
                    .entry(state.threads[event.thread.index()].past)
                    .or_insert(Continuation::Lives);
                consistent &= !matches!(continuations, Continuation::Ends(_) | Continuation::EndsSomehow);
            }
            if let (Op::Create, false) = (event.op, event.flags.has(Flags::FAILED)) {
                let named = state.threads.last().map(|local| &local.id);
                consistent &= named == trace.threads.get(event.value as usize).map(|thread| &thread.id);
            }
        }
        let ends = self.learn_end(&state, trace);
        drop(state);
        self.known = known;
        if !ends {
            self.add_hidden_dependence(trace.events.last().map(|event| (event.op, trace.site(event))));
        }
        consistent &= ends;
        for (writer, value) in seen {
            let known = self.known.written.entry(writer).or_insert(Some(value));
            if *known != Some(value) {
                *known = None;
            }
        }
        consistent
    }

    fn learn_site(&mut self, site: Site) {
        let sites = &mut self.sites;
        self.site_of.entry(site).or_insert_with(|| {
            sites.push(site);
            SiteIx(sites.len() as u32 - 1)
        });
    }

    /// What somebody does after this past; whether that was so before.
    fn note(&mut self, past: u64, next: NextOperation) -> bool {
        match self.continuations.get_mut(&past) {
            Some(Continuation::Operation(known)) if !known.only_waited => {
                known.flags = known.flags | Flags(next.flags.0 & Flags::UNDETERMINED.0);
                // How large a block is that is freed a second time is not to be known.
                let size = |next: &NextOperation| if next.op == Op::Free { 0 } else { next.size };
                let place = |next: &NextOperation| (next.op, next.site, size(next), next.target.clone());
                let allocates = next.op == Op::Alloc;
                place(known) == place(&next) && (allocates || known.addr == next.addr)
                    || allocates && (known.op, known.site) == (next.op, next.site)
            }
            Some(Continuation::Operation(known)) => {
                let same = (known.op, known.site) == (next.op, next.site);
                self.continuations.insert(past, Continuation::Operation(next));
                same
            }
            // Where it ends it does not go on.
            Some(Continuation::Ends(_) | Continuation::EndsSomehow) => false,
            Some(Continuation::Lives) | None => {
                self.continuations.insert(past, Continuation::Operation(next));
                true
            }
        }
    }

    /// The run ends after this past; whether nobody went on after it.
    fn note_end(&mut self, past: u64, continuations: Continuation) -> bool {
        let ends = |continuations: &Continuation| {
            matches!(continuations, Continuation::Ends(_) | Continuation::EndsSomehow)
        };
        self.continuations.insert(past, continuations).is_none_or(|known| ends(&known))
    }

    /// What came of an operation that others have a say in.
    fn note_result(&mut self, state: &SimulatedState<'_>, past: u64, event: &Event) {
        let Event { op, addr, size, value, flags, .. } = *event;
        match op {
            _ if state.reveals_value(event) => {
                for content in contents(state, past, event) {
                    let known = self.values.entry(content).or_insert(Some(value));
                    if *known != Some(value) {
                        *known = None;
                    }
                }
            }
            Op::AtomicRmw | Op::AtomicCas | Op::FutexWait | Op::FutexWake | Op::Alloc | Op::Free => {
                let results = OperationResult { flags: Flags(flags.0 & Flags::FAILED.0), addr, size, value };
                let expected_values = match op {
                    Op::FutexWait => Some(value),
                    Op::AtomicCas if self.sees_all_accesses => state.memory.value(addr, size),
                    _ => None,
                };
                if let Some(expected_values) = expected_values.filter(|_| !flags.has(Flags::FAILED)) {
                    self.expected_values.insert(past, (expected_values, value));
                }
                for finding in findings(state, past, event) {
                    let known = self.results.entry(finding).or_insert(Some(results));
                    if *known != Some(results) {
                        *known = None;
                    }
                }
            }
            _ => {}
        }
    }

    fn learn_facts(&mut self, events: &[Event]) {
        let mut arrivals: HashMap<(u64, u64), u64> = HashMap::default();
        let mut begun = HashSet::new();
        let mut known: HashSet<u64> = HashSet::new();
        for event in events {
            let done = !event.flags.has(Flags::FAILED) && !event.flags.has(Flags::TIMED_OUT);
            match event.op {
                Op::SemInit => drop(known.insert(event.addr)),
                Op::SemPost | Op::SemWait | Op::SemTryWait | Op::SemGet if known.insert(event.addr) => {
                    let before = match event.op {
                        Op::SemPost if done => Some(event.value.wrapping_sub(1)),
                        Op::SemWait | Op::SemTryWait if done => Some(event.value + 1),
                        Op::SemTryWait => Some(0),
                        Op::SemGet => Some(event.value),
                        _ => None,
                    };
                    if let Some(before) = before {
                        self.known.facts.counts.entry(event.addr).or_insert(before);
                    }
                }
                Op::BarrierArrive => *arrivals.entry((event.addr, event.value)).or_default() += 1,
                Op::BarrierLeave => {
                    if let Some(&size) = arrivals.get(&(event.addr, event.value)) {
                        self.known.facts.barriers.entry(event.addr).or_insert(size);
                    }
                }
                Op::OnceBegin | Op::OncePass if begun.insert(event.addr) => {
                    self.known.facts.once.entry(event.addr).or_insert(event.op == Op::OncePass);
                }
                _ => {}
            }
        }
    }

    fn learn_end(&mut self, state: &SimulatedState<'_>, trace: &Trace) -> bool {
        let outcome = &trace.outcome;
        let threads = || trace.threads.iter().map(|thread| thread.id.clone()).collect();
        let end = || ObservedEnd { outcome: outcome.clone(), threads: threads() };
        let Some(last) = trace.events.last() else { return true };
        for wait in waits_for_ever(outcome, last.thread) {
            self.learn_wait(state, trace, wait);
        }
        let me = state.threads[last.thread.index()].past;
        match outcome.kind {
            OutcomeKind::Deadlock => {
                let waits = |ix: usize| outcome.waits.iter().any(|wait| wait.thread.index() == ix);
                self.ends.insert(blocked_fingerprint(state, &waits, &outcome.message), end());
            }
            OutcomeKind::Exit(_) if state.threads.iter().all(|local| local.ended) => {
                self.ends.insert(blocked_fingerprint(state, &|_| false, ""), end());
            }
            OutcomeKind::Livelock
            | OutcomeKind::Timeout
            | OutcomeKind::Race
            | OutcomeKind::Misuse
            | OutcomeKind::Check => {}
            OutcomeKind::Exit(_) if last.op != Op::Exit => {}
            OutcomeKind::Exit(_) if outcome.message.is_empty() => {
                return self.note_end(me, Continuation::Ends(end()));
            }
            _ if outcome.thread == Some(last.thread) => return self.note_end(me, Continuation::Ends(end())),
            // What is told is another thread's words, or what the program wrote.
            OutcomeKind::Exit(_) | OutcomeKind::Panic => {
                self.ends.insert(state.fingerprint(), end());
                return self.note_end(me, Continuation::EndsSomehow);
            }
            // Who died without an event of its own did so somewhere else than where it was last seen.
            _ => {}
        }
        true
    }

    /// What somebody waited for in the end.
    fn learn_wait(&mut self, state: &SimulatedState<'_>, trace: &Trace, wait: &Wait) {
        let target = wait.holders.first().filter(|_| wait.op == Op::Join);
        if target.is_none() && wait.addr == 0 {
            return;
        }
        let past = state.threads[wait.thread.index()].past;
        let next = NextOperation {
            op: consulted_unknown(wait.op),
            site: wait.site,
            addr: wait.addr,
            size: 0,
            order: Order::Relaxed,
            flags: Flags::NONE,
            value: 0,
            target: target.map(|&target| trace.thread_id(target).clone()),
            only_waited: true,
            dies: false,
        };
        self.learn_site(wait.site);
        if let Continuation::Lives = self.continuations.entry(past).or_insert(Continuation::Lives) {
            self.continuations.insert(past, Continuation::Operation(next));
        }
    }

    /// What comes of an operation that others have a say in, after this past; none if that was never seen.
    pub(super) fn results(
        &self,
        state: &SimulatedState<'_>,
        past: u64,
        event: &Event,
    ) -> Option<Option<OperationResult>> {
        let [finding, more] = findings(state, past, event);
        let results = self.results.get(&finding)?;
        Some(results.or_else(|| self.results.get(&more).copied().flatten()))
    }

    /// What a thread with this past is about to do.
    pub(super) fn about(&self, past: u64) -> Option<UpcomingOperation> {
        match self.continuations.get(&past) {
            Some(Continuation::Operation(next)) => Some(UpcomingOperation::new(next.op, next.addr)),
            _ => None,
        }
    }

    /// What a thread with this past reads there.
    pub(super) fn value(&self, state: &SimulatedState<'_>, past: u64, event: &Event) -> Option<u64> {
        let simulated =
            if self.sees_all_accesses { state.memory.value(event.addr, event.size) } else { None };
        simulated.or_else(|| {
            contents(state, past, event)
                .iter()
                .find_map(|content| self.values.get(content).copied().flatten())
        })
    }
}

impl ObservedEnd {
    /// The outcome in a run with these threads.
    pub(super) fn outcome(&self, state: &SimulatedState<'_>) -> Outcome {
        let mut outcome = self.outcome.clone();
        let here = |thread| state.resolve_thread(self.threads.get(usize::from(thread))?);
        outcome.thread = outcome.thread.and_then(|thread| here(thread.0));
        outcome.backtraces.retain_mut(|trace| {
            here(trace.thread.0).is_some_and(|new| {
                trace.thread = new;
                true
            })
        });
        outcome.waits.retain_mut(|wait| {
            wait.holders = wait.holders.iter().filter_map(|holder| here(holder.0)).collect();
            here(wait.thread.0).is_some_and(|new| {
                wait.thread = new;
                true
            })
        });
        outcome
    }
}

/// Numbers of what a thread with this past finds there, each with more that it may hang on. If not all accesses are
/// told, others that come before it may have changed it. Code that is not instrumented may have changed it as well:
/// on a thread's own stack only the thread's own code, and anywhere as far as everybody has come.
fn contents(state: &SimulatedState<'_>, past: u64, event: &Event) -> [u64; 2] {
    let content = mix(state.memory.content(event.addr, event.size), event.size.into());
    let content = if state.sees_all_accesses() { content } else { mix(content, past) };
    let own = event.flags.has(Flags::OWN_STACK);
    [content, mix(mix(content, past), if own { 37 } else { state.fingerprint() })]
}

/// Numbers of a thread's past and what it finds, the second with more that it may hang on: what code that is not
/// instrumented left there, which follows from how far everybody has come.
fn findings(state: &SimulatedState<'_>, past: u64, event: &Event) -> [u64; 2] {
    let finding = finding(state, past, event);
    [finding, mix(finding, state.fingerprint())]
}

/// The number of a thread's past and what it finds.
fn finding(state: &SimulatedState<'_>, past: u64, event: &Event) -> u64 {
    let found = match event.op {
        Op::Alloc => state.heap(event.thread),
        Op::Free => state.is_freed(event.addr).into(),
        Op::FutexWake => {
            let (unserved, is_pending) = state.unserved(event.addr);
            unserved.saturating_sub(is_pending)
        }
        Op::FutexWait => state.found(&Event { size: 4, ..*event }),
        _ => state.found(event),
    };
    mix(mix(past, found), state.user(event.addr))
}

/// The event that a thread did not survive, if it says so itself.
fn fatal(trace: &Trace) -> Option<usize> {
    let last = trace.events.last()?;
    let by_itself = trace.outcome.thread == Some(last.thread)
        && matches!(
            trace.outcome.kind,
            OutcomeKind::Signal(_)
                | OutcomeKind::Abort
                | OutcomeKind::Assertion
                | OutcomeKind::Exception
                | OutcomeKind::Panic
        );
    let modelled = matches!(
        last.op,
        Op::TryLock
            | Op::TryReadLock
            | Op::TryWriteLock
            | Op::SemTryWait
            | Op::AtomicCas
            | Op::FutexWait
            | Op::FutexWake
    );
    (by_itself && last.flags.has(Flags::FAILED) && !modelled).then_some(trace.events.len() - 1)
}

/// Those of the waits that have no deadline: all if nobody could go on; in a circle, those who are in it.
fn waits_for_ever(outcome: &Outcome, last: ThreadIx) -> Vec<&Wait> {
    let of = |thread: ThreadIx| outcome.waits.iter().find(move |wait| wait.thread == thread);
    if outcome.kind != OutcomeKind::Deadlock {
        return Vec::new();
    }
    if outcome.message == NO_RUNNABLE_THREAD {
        return outcome.waits.iter().collect();
    }
    let mut circle = Vec::new();
    let mut at = of(last);
    while let Some(wait) = at.filter(|wait| circle.len() < outcome.waits.len() && !circle.contains(wait)) {
        circle.push(wait);
        at = wait.holders.first().and_then(|&holder| of(holder));
    }
    circle
}

/// For each event, what its thread is about to do after it, as far as that is told.
fn about(trace: &Trace) -> Vec<Option<UpcomingOperation>> {
    let waits =
        trace.outcome.waits.iter().map(|wait| (wait.thread, UpcomingOperation::new(wait.op, wait.addr)));
    let mut next: HashMap<ThreadIx, UpcomingOperation> = waits.collect();
    let mut about = vec![None; trace.events.len()];
    for (at, event) in trace.events.iter().enumerate().rev() {
        about[at] = next.insert(event.thread, UpcomingOperation::new(event.op, event.addr));
    }
    about
}

/// Some operations are known only when they are executed.
pub(super) const fn consulted_unknown(op: Op) -> Op {
    match op {
        Op::OnceBegin => Op::OncePass,
        other => other,
    }
}

/// Who is there at the start.
fn first(trace: &Trace) -> Vec<ThreadId> {
    let created =
        |event: &Event| (event.op == Op::Create && !event.flags.has(Flags::FAILED)).then_some(event.value);
    let created: HashSet<u64> = trace.events.iter().filter_map(created).collect();
    let there = (0..trace.threads.len() as u64).filter(|ix| !created.contains(ix));
    there.map(|ix| trace.threads[ix as usize].id.clone()).collect()
}

/// The number of an end in which these threads could not go on.
pub(super) fn blocked_fingerprint(
    state: &SimulatedState<'_>,
    waits: &dyn Fn(usize) -> bool,
    message: &str,
) -> u64 {
    message
        .bytes()
        .fold(state.fingerprint_of_blocked(waits), |fingerprint, byte| mix(fingerprint, byte.into()))
}
