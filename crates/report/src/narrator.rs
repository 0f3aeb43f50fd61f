//! Explains a failure sentence by sentence: the pattern that was found, and the remaining preemptions.

use crate::{
    Names,
    cause::{Sentence, StepFact},
    counterfactuals::outcome_without,
    describe,
    objects::ObjectNames,
    paths,
    patterns::{self, Fact, Finding, Moment, Pattern},
    scene::Scene,
    story::{Gap, Story},
    used_thing::{UsedThing, effect_of, read_by},
};
use unsnarl_model::{Event, Flags, Op, ThreadIx, Trace};
use unsnarl_semantics::{AccessKind, CondOp, MemoryOp, MutexOp, Operation, RwLockOp};

/// Maximum number of facts about one preemption.
const MAX_FACTS: usize = 3;

/// Puts a story into sentences with names.
pub(crate) struct Narrator<'a> {
    scene: &'a Scene<'a>,
    story: &'a Story,
    finding: Option<&'a Finding>,
    objects: ObjectNames,
}

impl<'a> Narrator<'a> {
    pub(crate) fn new(scene: &'a Scene<'a>, finding: Option<&'a Finding>, names: &mut dyn Names) -> Self {
        let story = scene.story;
        Self { scene, story, finding, objects: ObjectNames::of(&story.trace, names) }
    }

    const fn trace(&self) -> &Trace {
        &self.story.trace
    }

    /// Names the pattern and describes its steps.
    pub(crate) fn pattern(&self, names: &mut dyn Names) -> Vec<Sentence> {
        let Some(finding) = self.finding else { return Vec::new() };
        let mut sentences = vec![Sentence::head(self.headline(finding))];
        if finding.pattern == Pattern::LockOrder {
            // The cycle of waits follows, which says more.
            return sentences;
        }
        sentences[0].event = finding.gap.and_then(|gap| self.story.number(gap));
        let mut facts = finding.facts.as_slice();
        let mut nth = 0;
        while let Some((fact, rest)) = facts.split_first() {
            let mut sentence = self.describe_fact(fact, names);
            facts = rest;
            // Two reads of one thread, one right after the other, are one look.
            if let Some(next) = rest.first()
                && self.is_second_read(fact, next)
            {
                let (object, value) = (self.object(next.step), self.value(next.step));
                sentence.text += &format!(" and `{object}`{value}{}", self.at_line(next.step, names));
                facts = &rest[1..];
            }
            sentences.push(sentence);
            let is_last = facts.is_empty();
            let is_signal = fact.tail.starts_with(", which woke");
            if nth == 0 || is_last || is_signal {
                let code = self.code(fact.step, names);
                sentences.extend(code.filter(|code| sentences.iter().all(|known| known.text != code.text)));
            }
            nth += 1;
        }
        sentences.extend(self.not_held(finding, names));
        sentences.extend(finding.gap.and_then(|gap| self.without(gap)));
        sentences
    }

    /// Returns the preemption that the pattern explains.
    pub(crate) fn gap_of_pattern(&self) -> Option<usize> {
        self.finding?.gap
    }

    fn headline(&self, finding: &Finding) -> String {
        let mut objects: Vec<String> = Vec::new();
        for fact in &finding.facts {
            let object = format!("`{}`", self.object(fact.step));
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        let name = finding.pattern.name();
        let lock = finding.lock.and_then(|lock| self.objects.at_end(lock)).map(|lock| format!("`{lock}`"));
        let shown = match finding.pattern {
            Pattern::Publication | Pattern::TwoSections | Pattern::Atomicity => objects.join(" and "),
            Pattern::LockOrder | Pattern::DoubleRelease => return name.to_owned(),
            // The access says more than the free does.
            Pattern::UseAfterFree => objects.pop().unwrap_or_default(),
            _ => objects.into_iter().next().unwrap_or_default(),
        };
        match (finding.pattern, lock) {
            (Pattern::TwoSections, Some(lock)) => format!("{name} of {lock}: {shown}"),
            (_, Some(lock)) => format!("{name}, across two critical sections of {lock}: {shown}"),
            (_, None) => format!("{name}: {shown}"),
        }
    }

    fn is_second_read(&self, fact: &Fact, next: &Fact) -> bool {
        let reads = |step: usize| self.story.read(step).is_some_and(|access| !access.writes);
        self.story.thread(fact.step) == self.story.thread(next.step)
            && reads(fact.step)
            && reads(next.step)
            && fact.tail.is_empty()
            && next.tail.is_empty()
            && next.when != Moment::NotYet
    }

    /// Describes one fact.
    fn describe_fact(&self, fact: &Fact, names: &mut dyn Names) -> Sentence {
        let Fact { step, when, ref tail } = *fact;
        let thread = describe::id(self.trace(), self.story.thread(step));
        let did = self.did(step, when == Moment::NotYet);
        let (lead, verb) = match when {
            Moment::First => ("", did),
            Moment::Meanwhile => ("meanwhile ", did),
            Moment::Then => ("then ", did),
            Moment::NotYet => ("", format!("had not yet {did}")),
        };
        let at_line = self.at_line(step, names);
        let text = format!("{lead}thread {thread} {verb}{tail}{at_line}");
        Sentence { about: Some(self.step_fact(step, names)), ..Sentence::more(text) }
    }

    /// Describes a step in the past tense, or as a participle: "wrote `x` = 1" or "written `x` = 1".
    fn did(&self, step: usize, is_participle: bool) -> String {
        let event = &self.trace().events[step];
        let choose =
            |past: &'static str, participle: &'static str| if is_participle { participle } else { past };
        let verb = match Operation::decode(event) {
            Operation::Memory(MemoryOp::Access(access)) => match access.kind {
                AccessKind::Read | AccessKind::Load => "read",
                AccessKind::Write | AccessKind::Store => choose("wrote", "written"),
                AccessKind::CompareExchange if !access.writes => "compared",
                AccessKind::Update | AccessKind::CompareExchange => "updated",
            },
            Operation::Memory(MemoryOp::Free(_)) => return format!("freed {}", self.block(step)),
            Operation::Memory(MemoryOp::Alloc(_)) => return format!("allocated {}", self.block(step)),
            Operation::Mutex(MutexOp::Lock { .. }) | Operation::RwLock(RwLockOp::Lock { .. }) => "locked",
            Operation::Mutex(MutexOp::Unlock { .. }) | Operation::RwLock(RwLockOp::Unlock { .. }) => {
                "unlocked"
            }
            Operation::Cond(CondOp::Wait { .. }) => choose("began to wait on", "begun to wait on"),
            Operation::Cond(CondOp::Wake { .. }) => choose("woke from", "woken from"),
            Operation::Cond(CondOp::Signal { broadcast: true, .. }) => choose("broadcast on", "broadcast on"),
            Operation::Cond(CondOp::Signal { .. }) => "signalled",
            _ => {
                return format!(
                    "{} `{}`",
                    choose("did", "done"),
                    describe::event(self.trace(), &self.objects, step)
                );
            }
        };
        format!("{verb} `{}`{}", self.object(step), self.value(step))
    }

    /// Names a block of memory, if it has a name of its own.
    fn block(&self, step: usize) -> String {
        let name = self.object(step);
        if name.contains('#') { "the block".to_owned() } else { format!("`{name}`") }
    }

    /// Returns the value that an access read or left, like " = 1".
    fn value(&self, step: usize) -> String {
        let Some(access) = self.story.access(step) else { return String::new() };
        let shown = |value: u64| describe::number_of(value, access.range.len);
        let (found, left) = (self.story.value_found(step), self.story.value_left(step));
        match (found.filter(|_| access.reads), left, found) {
            (Some(old), Some(new), _) => format!(" from {} to {}", shown(old), shown(new)),
            (Some(read), None, _) => format!(" = {}", shown(read)),
            (None, Some(new), _) => format!(" = {}", shown(new)),
            (None, None, Some(old)) if access.writes => format!(", which was {}", shown(old)),
            _ => String::new(),
        }
    }

    fn object(&self, step: usize) -> String {
        self.objects.at(self.trace(), step)
    }

    fn place(&self, step: usize, names: &mut dyn Names) -> Option<(String, u32)> {
        let site = self.trace().user_site(&self.trace().events[step]);
        crate::facts::place(site, names).map(|(file, line, _)| (file, line))
    }

    fn at_line(&self, step: usize, names: &mut dyn Names) -> String {
        let place = self.place(step, names);
        place.map(|(file, line)| format!(" ({}:{line})", paths::base(&file))).unwrap_or_default()
    }

    fn code(&self, step: usize, names: &mut dyn Names) -> Option<Sentence> {
        let (file, line) = self.place(step, names)?;
        let source = names.source_line(&file, line)?;
        Some(Sentence::code(&file, line, &source))
    }

    fn step_fact(&self, step: usize, names: &mut dyn Names) -> StepFact {
        let (file, line) = self.place(step, names).unzip();
        let value = self.value(step);
        let value = value.trim_start_matches([' ', '=', ',']).to_owned();
        StepFact {
            thread: describe::id(self.trace(), self.story.thread(step)),
            event: self.story.number(step),
            file,
            line,
            object: Some(self.object(step)),
            value: (!value.is_empty()).then_some(value),
        }
    }

    /// Says that a lock is not held at a step of the pattern, if it is held nearly everywhere else.
    fn not_held(&self, finding: &Finding, names: &mut dyn Names) -> Option<Sentence> {
        let access = |fact: &&Fact| fact.step < self.story.end && self.story.access(fact.step).is_some();
        let (fact, missing) = finding
            .facts
            .iter()
            .filter(access)
            .find_map(|fact| Some((fact, patterns::lock_not_held(self.scene, fact.step)?)))?;
        let lock = self.objects.at_end(missing.lock)?;
        let thread = describe::id(self.trace(), self.story.thread(fact.step));
        let place = self.place(fact.step, names);
        let at = place.map_or_else(String::new, |(file, line)| format!(" at {}:{line}", paths::base(&file)));
        Some(Sentence::more(format!(
            "thread {thread} does not hold `{lock}`{at}; it is held at {} of {} other accesses to `{}`",
            missing.at,
            missing.of,
            self.object(fact.step)
        )))
    }

    /// Says how the program ends without a preemption, if that was tried.
    fn without(&self, gap: usize) -> Option<Sentence> {
        let without = self.trace().counterfactuals.iter().find(|without| without.event == gap as u64)?;
        let thread = describe::id(self.trace(), self.story.thread(gap - 1));
        Some(Sentence::more(format!(
            "if thread {thread} is not preempted in between, {}",
            outcome_without(without)
        )))
    }

    /// Returns the steps that preempt a thread, the most relevant first.
    pub(crate) fn preemptions(&self) -> Vec<usize> {
        let steps = self.story.executed();
        let mut all: Vec<usize> =
            (1..steps.len()).filter(|&at| steps[at].flags.has(Flags::PREEMPTS)).collect();
        if all.len() <= MOST_RANKED {
            // The sort is stable: among equals, time decides.
            all.sort_by_key(|&at| std::cmp::Reverse(self.relevance(at)));
        }
        all
    }

    /// Returns how much what happened during a preemption has to do with the failure.
    fn relevance(&self, at: usize) -> u32 {
        let is_needed = self.trace().counterfactuals.iter().any(|without| without.event == at as u64);
        let gap = self.gap(at);
        let own = || self.story.before(gap.thread, at).take(NEAR).chain(self.story.after(&gap).take(NEAR));
        let meanwhile = self.story.meanwhile(&gap);
        let changed = meanwhile.take(FAR).filter(|&other| self.story.write(other).is_some());
        let related: Vec<usize> =
            changed.filter(|&other| own().any(|step| self.story.meet(step, other))).collect();
        let relation = if related.iter().any(|&step| self.scene.is_failing(step)) {
            3
        } else if related.iter().any(|&step| self.scene.is_earlier(step)) {
            2
        } else {
            u32::from(!related.is_empty())
        };
        2 * relation + u32::from(is_needed)
    }

    fn gap(&self, at: usize) -> Gap {
        let thread = self.story.thread(at - 1);
        let resumed = (at..self.story.end).find(|&later| self.story.thread(later) == thread);
        Gap { at, thread, resumed, preemptive: true }
    }

    /// Describes where a thread was preempted, what happened meanwhile, and what happens without the preemption.
    pub(crate) fn describe_preemption(&self, at: usize, names: &mut dyn Names) -> Vec<Sentence> {
        let trace = self.trace();
        let gap = self.gap(at);
        let preempted = gap.thread;
        let thread_name = describe::id(trace, preempted);
        // A thread that never resumed may have been about to wait, in a deadlock.
        let wait = trace.outcome.waits.iter().find(|wait| wait.thread == preempted && gap.resumed.is_none());
        let next = gap.resumed.or_else(|| self.story.after(&gap).next());
        let site = next.map(|at| trace.user_site(&trace.events[at])).or(wait.map(|wait| wait.site));
        let place = site.and_then(|site| crate::facts::place(site, names));
        let waits_for = wait.and_then(|wait| Some((wait.op, self.objects.for_op(wait.op, wait.addr)?)));
        let before = match (next, waits_for) {
            (Some(at), _) => format!(", before {}", self.pending_operation(at)),
            (None, Some((op, object))) => {
                format!(", before {} `{object}`", gerund(op).unwrap_or("waiting for"))
            }
            (None, None) => String::new(),
        };
        let held = self.held(preempted, at);
        let held = if held.is_empty() { String::new() } else { format!(", holding {}", held.join(", ")) };
        let here = if place.is_some() { " here" } else { "" };
        let for_good = match (gap.resumed, wait) {
            (None, None) => " and did not run again",
            _ => "",
        };
        let head =
            Sentence::head(format!("thread {thread_name} was preempted{here}{before}{held}{for_good}"));
        let mut sentences = vec![Sentence { event: self.story.number(at), ..head }];
        if let Some((file, line, _)) = &place {
            sentences.push(Sentence::code(file, *line, &names.source_line(file, *line).unwrap_or_default()));
        }
        let changes = self.changes_while_preempted(&gap, names);
        let mut facts: Vec<Sentence> = Vec::new();
        if gap.resumed.is_none() {
            facts.extend(self.last_own_step(&gap, names));
        }
        facts.extend(self.stale_read(&gap, &changes, names));
        for (nth, (_, text, about)) in changes.into_iter().enumerate() {
            let lead = if nth == 0 { "meanwhile" } else { "then" };
            facts.push(Sentence { about: Some(about), ..Sentence::more(format!("{lead} {text}")) });
        }
        sentences.extend(facts.into_iter().take(MAX_FACTS));
        if let Some(counterfactual) = trace.counterfactuals.iter().find(|without| without.event == at as u64)
        {
            sentences.push(Sentence::more(format!(
                "without this preemption, {}",
                outcome_without(counterfactual)
            )));
        }
        sentences
    }

    /// Says what a thread that did not run again had done last that others can see.
    fn last_own_step(&self, gap: &Gap, names: &mut dyn Names) -> Option<Sentence> {
        let mut own = self.story.before(gap.thread, gap.at).take(NEAR);
        let is_worth_it = |at: usize| {
            effect_of(&self.trace().events[at]).is_some_and(|(_, changes)| changes)
                && !self.object(at).starts_with("memory#")
        };
        let written = own.find(|&at| is_worth_it(at))?;
        let thread = describe::id(self.trace(), gap.thread);
        let text = format!(
            "before that, thread {thread} {}{}",
            self.did(written, false),
            self.at_line(written, names)
        );
        Some(Sentence { about: Some(self.step_fact(written, names)), ..Sentence::more(text) })
    }

    /// Returns the locks that a thread holds before this step.
    fn held(&self, thread: ThreadIx, step: usize) -> Vec<String> {
        let held = crate::facts::holds(self.story.executed());
        let is_held = |hold: &crate::facts::HoldInterval| {
            hold.thread == thread && hold.first < step && hold.last >= step
        };
        let held = held.into_iter().filter(is_held);
        held.map(|hold| format!("`{}`", self.objects.held(self.trace(), hold))).collect()
    }

    /// Returns the changes by other threads, while a thread was preempted, to objects that it was using: the object,
    /// the text and the same as data.
    fn changes_while_preempted(
        &self,
        gap: &Gap,
        names: &mut dyn Names,
    ) -> Vec<(UsedThing, String, StepFact)> {
        let events = &self.trace().events;
        let before = (0..gap.at).rev().take_while(|&at| events[at].thread == gap.thread).take(FAR);
        let after = gap.resumed.into_iter().chain(self.story.after(gap).take(NEAR));
        let own: Vec<usize> = before.chain(after).collect();
        let own_writes: Vec<usize> =
            own.iter().copied().filter(|&at| self.story.write(at).is_some()).collect();
        let in_use: Vec<UsedThing> = own.iter().filter_map(|&at| UsedThing::of(&events[at])).collect();
        let named: Vec<usize> =
            self.finding.iter().flat_map(|finding| &finding.facts).map(|fact| fact.step).collect();
        let mut sentences: Vec<(bool, UsedThing, String, usize)> = Vec::new();
        let mut places = Vec::new();
        for at in self.story.meanwhile(gap) {
            let other: &Event = &events[at];
            let Some((_, changes)) = effect_of(other) else { continue };
            let Some(used) = UsedThing::of(other).filter(|used| in_use.iter().any(|own| own.meets(*used)))
            else {
                continue;
            };
            // A look matters if the preempted thread changes the same memory.
            let is_idle_look = !changes
                && matches!(used, UsedThing::Memory(_))
                && !own_writes.iter().any(|&own| self.story.meet(own, at));
            let is_known = named.contains(&at) || self.object(at).starts_with("memory#");
            if is_idle_look || is_known {
                continue;
            }
            let place = (other.thread, other.op, used, self.trace().user_site(other));
            if places.contains(&place) {
                continue;
            }
            places.push(place);
            let at_line = self.at_line(at, names);
            let thread_name = describe::id(self.trace(), other.thread);
            let text = format!("thread {thread_name} {}{at_line}", self.did(at, false));
            sentences.push((changes, used, text, at));
        }
        // Changes of memory explain more than those of locks, and changes more than looks.
        let worth = |(changes, used, ..): &(bool, UsedThing, String, usize)| {
            2 * u32::from(*changes) + u32::from(matches!(used, UsedThing::Memory(_)))
        };
        let best = sentences.iter().map(worth).max().unwrap_or(0);
        // Beside a pattern, only changes are worth a sentence.
        let least = if self.finding.is_some() { best.max(2) } else { best };
        sentences.retain(|sentence| worth(sentence) >= least);
        let first = sentences.into_iter().take(MAX_FACTS);
        first.map(|(_, used, text, at)| (used, text, self.step_fact(at, names))).collect()
    }

    /// Describes the last value that a preempted thread had read of a variable that others then changed.
    fn stale_read(
        &self,
        gap: &Gap,
        changes: &[(UsedThing, String, StepFact)],
        names: &mut dyn Names,
    ) -> Option<Sentence> {
        let events = &self.trace().events;
        let at = self.story.before(gap.thread, gap.at).take(FAR).find(|&at| {
            let read = read_by(&events[at]).map(|read| UsedThing::Memory(read.range));
            read.is_some_and(|read| changes.iter().any(|(used, ..)| used.meets(read)))
        })?;
        let text = format!("it had read `{}`{}{}", self.object(at), self.value(at), self.at_line(at, names));
        Some(Sentence { about: Some(self.step_fact(at, names)), ..Sentence::more(text) })
    }

    /// Describes the next operation of a thread.
    fn pending_operation(&self, step: usize) -> String {
        match gerund(self.trace().events[step].op) {
            Some(verb) => format!("{verb} `{}`", self.object(step)),
            None => format!("`{}`", describe::event(self.trace(), &self.objects, step)),
        }
    }
}

/// Beyond this number, preemptions are not ordered by relevance.
const MOST_RANKED: usize = 64;
/// Number of a thread's own steps around a preemption that are looked at.
const NEAR: usize = 16;
/// Number of steps during a preemption that are looked at.
const FAR: usize = 1 << 12;

/// Returns the gerund for an operation, if there is a short one.
fn gerund(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Read | Op::AtomicLoad => "reading",
        Op::Write | Op::AtomicStore => "writing",
        Op::AtomicRmw | Op::AtomicCas => "updating",
        Op::Lock | Op::ReadLock | Op::WriteLock => "locking",
        Op::Unlock | Op::RwUnlock => "unlocking",
        Op::Signal | Op::Broadcast => "signalling",
        Op::CondWait => "waiting on",
        Op::SemWait => "waiting for",
        Op::SemPost => "posting",
        Op::Free => "freeing",
        _ => return None,
    })
}
