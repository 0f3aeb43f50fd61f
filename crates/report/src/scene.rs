//! The input of the patterns of bugs: the steps of a run, where they are in the source, the locks held, and what failed.

use crate::{
    Names,
    facts::{self, HoldInterval, SourcePlace, holds},
    story::{Gap, Story},
};
use std::collections::{HashMap, HashSet};
use unsnarl_model::{OutcomeKind, SiteIx, ThreadIx};

/// A run and what is known about its steps.
pub(crate) struct Scene<'a> {
    pub(crate) story: &'a Story,
    places: HashMap<SiteIx, SourcePlace>,
    /// Sites at which a condition is tested.
    conditions: HashSet<SiteIx>,
    holds: Vec<HoldInterval>,
    /// For each step that preempted a thread for good, the locks held if it had gone on.
    holds_after: HashMap<usize, Vec<HoldInterval>>,
    /// The thread that failed, or waits.
    pub(crate) failed: Vec<ThreadIx>,
    /// The reads of shared memory at the line that failed.
    pub(crate) failing: Vec<usize>,
    /// Other reads of shared memory shortly before.
    pub(crate) earlier: Vec<usize>,
}

/// Number of reads before the failure that may have led to it.
const MOST_EARLIER: usize = 12;

impl<'a> Scene<'a> {
    pub(crate) fn new(story: &'a Story, names: &mut dyn Names) -> Self {
        let trace = &story.trace;
        let (mut places, mut conditions) = (HashMap::new(), HashSet::new());
        for event in trace.events.iter().filter(|event| event.op.is_plain_access() || event.op.is_atomic()) {
            if places.contains_key(&event.site) {
                continue;
            }
            if let Some(place) = facts::place(trace.user_site(event), names) {
                if names.source_line(&place.0, place.1).is_some_and(|line| tests_condition(&line)) {
                    conditions.insert(event.site);
                }
                places.insert(event.site, place);
            }
        }
        let mut scene = Self {
            story,
            places,
            conditions,
            holds: holds(story.executed()),
            holds_after: HashMap::new(),
            failed: Vec::new(),
            failing: Vec::new(),
            earlier: Vec::new(),
        };
        scene.find_holds_after();
        let line = scene.failing_line(names);
        scene.find_failing_reads(line);
        scene
    }

    /// Returns the line of the user's code at which the run failed.
    fn failing_line(&self, names: &mut dyn Names) -> Option<(String, u32)> {
        let outcome = &self.story.trace.outcome;
        let stack =
            outcome.thread.map(|thread| crate::stack::Stack::at_end(&self.story.trace, thread, names));
        let on_stack = stack.and_then(|stack| stack.users().next().cloned());
        let frame = on_stack.or_else(|| outcome.site.map(|site| names.place(site)))?;
        (!frame.system).then_some(())?;
        frame.file.zip(frame.line)
    }

    fn find_failing_reads(&mut self, line: Option<(String, u32)>) {
        let story = self.story;
        let outcome = &story.trace.outcome;
        let mut failed: Vec<ThreadIx> = outcome.waits.iter().map(|wait| wait.thread).collect();
        if outcome.kind != OutcomeKind::Deadlock {
            let last = story.executed().last().map(|step| step.thread);
            failed = outcome.thread.or(last).into_iter().collect();
        }
        for &thread in &failed {
            let reads = story.before(thread, story.end).filter(|&at| self.reads_others(at));
            for at in reads.take(MOST_EARLIER).collect::<Vec<usize>>() {
                let place = self.places.get(&story.trace.events[at].site);
                let is_at_line = place
                    .zip(line.as_ref())
                    .is_some_and(|((file, number, _), line)| (file, *number) == (&line.0, line.1));
                if is_at_line { self.failing.push(at) } else { self.earlier.push(at) }
            }
        }
        self.failed = failed;
    }

    /// Returns whether a step reads memory that another thread writes, or would have written next.
    fn reads_others(&self, step: usize) -> bool {
        let story = self.story;
        if story.read(step).is_none() {
            return false;
        }
        let thread = story.thread(step);
        let mut met = story.meeting(step, 0..story.end);
        met.extend((story.end..story.trace.events.len()).filter(|&at| story.meet(at, step)));
        met.into_iter().any(|at| story.thread(at) != thread && story.write(at).is_some())
    }

    fn find_holds_after(&mut self) {
        let story = self.story;
        for gap in story.gaps() {
            let continued = story.continuation(gap.at);
            if !continued.is_empty() {
                let steps = [&story.executed()[..gap.at], &story.trace.events[continued]].concat();
                self.holds_after.insert(gap.at, holds(&steps));
            }
        }
    }

    /// Returns the file and line of a step in the user's source.
    pub(crate) fn place(&self, step: usize) -> Option<&SourcePlace> {
        self.places.get(&self.story.trace.events[step].site)
    }

    /// Returns whether both steps are in the same function of the user's.
    pub(crate) fn same_function(&self, one: usize, other: usize) -> bool {
        let function = |step| self.place(step).map(|(file, _, function)| (file, function.as_ref()));
        function(one).is_some_and(|one| Some(one) == function(other))
    }

    /// Returns whether a read is part of a condition.
    pub(crate) fn is_condition(&self, step: usize) -> bool {
        self.conditions.contains(&self.story.trace.events[step].site)
    }

    /// Returns the locks that the thread of an executed step holds at it, each with the step that acquired it.
    pub(crate) fn held_at(&self, step: usize) -> Vec<(u64, usize)> {
        let thread = self.story.thread(step);
        let is_held = |hold: &&HoldInterval| hold.thread == thread && hold.first < step && step <= hold.last;
        self.holds.iter().filter(is_held).map(|hold| (hold.lock, hold.first)).collect()
    }

    /// Returns the locks held at a step of a thread after a gap, as [`held_at`](Self::held_at) does.
    pub(crate) fn held_after(&self, gap: &Gap, step: usize) -> Vec<(u64, usize)> {
        if step < self.story.end {
            return self.held_at(step);
        }
        let Some(all) = self.holds_after.get(&gap.at) else { return Vec::new() };
        let at = gap.at + (step - self.story.continuation(gap.at).start);
        let is_held = |hold: &&HoldInterval| hold.thread == gap.thread && hold.first < at && at <= hold.last;
        all.iter().filter(is_held).map(|hold| (hold.lock, hold.first)).collect()
    }

    /// Returns the lock in two critical sections of which these steps are, the one before a gap, the other after it.
    pub(crate) fn lock_of_two_sections(&self, gap: &Gap, before: usize, after: usize) -> Option<u64> {
        let later = self.held_after(gap, after);
        let in_both = self
            .held_at(before)
            .into_iter()
            .find(|(lock, since)| later.iter().any(|(other, then)| other == lock && then != since))?;
        Some(in_both.0)
    }

    /// Returns the lock of which a thread's last critical section before a gap contains the first step, and its first one
    /// after the gap the other.
    pub(crate) fn lock_of_adjacent_sections(&self, gap: &Gap, before: usize, after: usize) -> Option<u64> {
        let lock = self.lock_of_two_sections(gap, before, after)?;
        let own = |hold: &&HoldInterval| hold.thread == gap.thread && hold.lock == lock;
        let (holds, at) = match self.holds_after.get(&gap.at) {
            Some(holds) if after >= self.story.end => {
                (holds, gap.at + (after - self.story.continuation(gap.at).start))
            }
            _ => (&self.holds, after),
        };
        let last = holds.iter().filter(own).filter(|hold| hold.first < gap.at).next_back()?;
        let next = holds.iter().filter(own).find(|hold| hold.first >= gap.at)?;
        let contains = |hold: &HoldInterval, step: usize| hold.first < step && step <= hold.last;
        (contains(last, before) && contains(next, at)).then_some(lock)
    }

    /// Returns whether a step, or another read of the same memory, decided about the failure.
    pub(crate) fn is_failing(&self, step: usize) -> bool {
        self.failing.iter().any(|&read| read == step || self.story.meet(read, step))
    }

    /// Returns whether a step, or another read of the same memory, came shortly before the failure in its thread.
    pub(crate) fn is_earlier(&self, step: usize) -> bool {
        self.earlier.iter().any(|&read| read == step || self.story.meet(read, step))
    }
}

/// Returns whether a line of source decides something by what it reads.
fn tests_condition(line: &str) -> bool {
    let words = line.trim_start_matches(['}', ' ', '\t']);
    let words = words.strip_prefix("else ").unwrap_or(words);
    ["if ", "if(", "while ", "while(", "match ", "switch "].iter().any(|word| words.starts_with(word))
        || line.contains(" ? ")
}

#[cfg(test)]
impl<'a> Scene<'a> {
    /// Creates a scene whose site n is line n; a hundred lines are a function. The reads at these lines are conditions.
    pub(crate) fn toy(story: &'a Story, conditions: &[u64], failing_line: u64) -> Self {
        let sites = story.trace.sites.iter().zip(0..).map(|(site, ix)| (SiteIx(ix), site.offset));
        let function = |line: u64| Some(format!("f{}", line / 100));
        let places = sites.clone().map(|(ix, line)| (ix, ("main.c".into(), line as u32, function(line))));
        let mut scene = Self {
            story,
            places: places.collect(),
            conditions: sites.filter(|(_, line)| conditions.contains(line)).map(|(ix, _)| ix).collect(),
            holds: holds(story.executed()),
            holds_after: HashMap::new(),
            failed: Vec::new(),
            failing: Vec::new(),
            earlier: Vec::new(),
        };
        scene.find_holds_after();
        scene.find_failing_reads(Some(("main.c".into(), failing_line as u32)));
        scene
    }
}
