//! Deadlocks: cycles of threads, each of which waits for something that the next one holds or has yet to do.
//!
//! Candidates are cycles in the graph of lock requests (section 2.2.2 of the paper, with the abstract
//! patterns of Tunç et al., PLDI 2023): each thread requests a lock that the next one holds, or joins the
//! next one; all threads are different, and no two of them hold a common lock that excludes the other (a
//! gate). Whether they can all reach that point is decided by the search.
//!
//! If a run will decide, a thread may also wait for something that the next one has yet to do: its signal,
//! its post, its arrival at a barrier, the end of its once routine. Another thread may do the same, which the
//! trace does not show, so these are never reported without a run.

use crate::{
    findings::{ErrorSites, Findings},
    hash::Map,
    model::{Model, StepAction},
    predict::PredictOptions,
    search::{SearchResult, Searcher},
    sync_preserving,
    witness::{Window, Witness},
};
use unsnarl_model::{SiteIx, ThreadIx};
use unsnarl_semantics::{HeldLock, LockMode};

/// A cycle of threads that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictedDeadlock {
    /// The threads, each waiting for the next, the last for the first.
    pub cycle: Vec<WaitingThread>,
    /// The reordering that leads there.
    pub witness: Witness,
}

/// A thread that waits while holding locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingThread {
    pub thread: ThreadIx,
    /// The event of the trace by which it acquired a lock or joined a thread.
    pub event: u64,
    /// The site of the operation.
    pub site: SiteIx,
    /// The addresses of the locks that it holds.
    pub holds: Vec<u64>,
    /// The target of the wait.
    pub target: WaitTarget,
}

/// The target of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// The lock at this address, which the next thread holds.
    Lock(u64),
    /// The end of the next thread.
    End,
    /// The execution of this event by the next thread.
    Done(u64),
    /// A signal that was sent by this event before any thread waited for it.
    Lost(u64),
}

/// Requests of a thread for the same target from the same site with the same locks held.
#[derive(Debug)]
struct WaitRequest {
    thread: ThreadIx,
    site: SiteIx,
    target: RequestTarget,
    held: u32,
    steps: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum RequestTarget {
    Lock(u32, bool),
    End(ThreadIx),
    /// A step of another thread.
    Done(u32),
}

/// The maximum length of a cycle.
const LONGEST: usize = 16;

/// The maximum number of cycles examined in a window; further ones are reported as undecided.
const MAX_CYCLES: u64 = 100_000;

/// Searches a window for deadlocks; if a run will decide, also for those in which a thread waits for a signal
/// or similar.
pub(crate) fn deadlocks(
    search: &Searcher<'_>,
    window: &Window<'_>,
    options: &PredictOptions,
    findings: &mut Findings,
) {
    let model = search.model;
    let budget = options.budget;
    let requests = requests(model, options.free_reads);
    let next = successors(model, &requests);
    let mut walk = CycleSearch {
        search,
        window,
        requests: &requests,
        next: &next,
        path: Vec::new(),
        left: MAX_CYCLES,
        budget,
    };
    for first in 0..requests.len() {
        walk.path.push(first);
        walk.extend(first, findings);
        walk.path.pop();
    }
}

fn requests(model: &Model, run_decides: bool) -> Vec<WaitRequest> {
    let mut requests: Vec<WaitRequest> = Vec::new();
    let mut numbers: Map<(u64, u64, RequestTarget), usize> = Map::default();
    for (step, number) in model.steps.iter().zip(0..) {
        let target = match step.action {
            StepAction::Acquires { lock, shared, waits: true } => Some(RequestTarget::Lock(lock, shared)),
            StepAction::Joins(thread) => Some(RequestTarget::End(thread)),
            _ => None,
        };
        let awaited = if run_decides && !matches!(step.action, StepAction::Joins(_)) {
            model.awaited(step)
        } else {
            &[]
        };
        for target in target.into_iter().chain(awaited.iter().map(|&other| RequestTarget::Done(other))) {
            // A thread without locks is waited for only by a join, or by a wait for something that it has yet
            // to do.
            let key = (u64::from(step.thread.0), u64::from(step.site.0) << 32 | u64::from(step.held), target);
            let request = *numbers.entry(key).or_insert_with(|| {
                let (thread, site, held) = (step.thread, step.site, step.held);
                requests.push(WaitRequest { thread, site, target, held, steps: Vec::new() });
                requests.len() - 1
            });
            requests[request].steps.push(number);
        }
    }
    requests
}

/// Returns, for each request, the requests that it may wait for.
fn successors(model: &Model, requests: &[WaitRequest]) -> Vec<Vec<usize>> {
    let mut holders: Map<u32, Vec<(usize, LockMode)>> = Map::default();
    let mut of_thread: Map<u16, Vec<usize>> = Map::default();
    for (at, request) in requests.iter().enumerate() {
        of_thread.entry(request.thread.0).or_default().push(at);
        for &HeldLock { lock, mode } in model.locksets.of(request.held) {
            holders.entry(lock).or_default().push((at, mode));
        }
    }
    let waits_for = |request: &WaitRequest| match request.target {
        RequestTarget::Lock(lock, shared) => {
            let all = holders.get(&lock).into_iter().flatten();
            all.filter(|&&(_, mode)| !shared || mode == LockMode::Exclusive).map(|&(at, _)| at).collect()
        }
        RequestTarget::End(thread) => of_thread.get(&thread.0).cloned().unwrap_or_default(),
        RequestTarget::Done(step) => {
            let all = of_thread.get(&model.step(step).thread.0).cloned().unwrap_or_default();
            all.into_iter().filter(|&at| is_before(model, requests[at].steps[0], step)).collect()
        }
    };
    requests
        .iter()
        .map(|request| {
            let mut next: Vec<usize> = waits_for(request);
            next.retain(|&at| requests[at].thread != request.thread);
            next
        })
        .collect()
}

/// Returns whether a thread that is at one of its steps has another one still to do.
fn is_before(model: &Model, at: u32, other: u32) -> bool {
    model.step(at).at <= model.step(other).at
}

struct CycleSearch<'a> {
    search: &'a Searcher<'a>,
    window: &'a Window<'a>,
    requests: &'a [WaitRequest],
    next: &'a [Vec<usize>],
    path: Vec<usize>,
    left: u64,
    budget: u64,
}

impl CycleSearch<'_> {
    /// Extends to cycles whose smallest request is the path's first.
    fn extend(&mut self, first: usize, findings: &mut Findings) {
        let Some(&last) = self.path.last() else { return };
        for &next in &self.next[last] {
            if next == first {
                if self.path.len() > 1 {
                    self.check_cycle(findings);
                }
            } else if next > first && self.path.len() < LONGEST && self.fits(next) && self.left > 0 {
                self.left -= 1;
                self.path.push(next);
                self.extend(first, findings);
                self.path.pop();
            }
        }
    }

    /// Returns whether this is another thread whose locks are compatible with those of the path.
    fn fits(&self, next: usize) -> bool {
        let new = &self.requests[next];
        self.path.iter().all(|&at| {
            let old = &self.requests[at];
            old.thread != new.thread && self.search.model.locksets.compatible(old.held, new.held)
        })
    }

    fn check_cycle(&self, findings: &mut Findings) {
        let model = self.search.model;
        let cycle: Vec<&WaitRequest> = self.path.iter().map(|&at| &self.requests[at]).collect();
        let places = ErrorSites::new(cycle.iter().map(|request| request.site).collect());
        if findings.is_settled(&places) {
            return;
        }
        findings.suspect(&places, model.reads);
        findings.figures.cycles += 1;
        let lists: Vec<&[u32]> = cycle.iter().map(|request| request.steps.as_slice()).collect();
        let Searcher { order, critical_sections, .. } = *self.search;
        let meeting = sync_preserving::first_meeting(model, order, critical_sections, &lists);
        if let Some((targets, frontier)) = meeting.filter(|(targets, _)| self.all_wait(targets)) {
            findings.figures.sync_preserving += 1;
            let witness = Witness::in_trace_order(model, self.window, &frontier, &targets);
            return self.found(places, &cycle, witness, &targets, findings);
        }
        let mut left = findings.budget(&places, model.reads, self.budget);
        match self.choose(&lists, &mut Vec::new(), &mut left) {
            SearchResult::Found(mut steps) => {
                let targets = steps.split_off(steps.len() - cycle.len());
                findings.figures.searched += 1;
                let witness = Witness::thread_by_thread(model, self.window, &steps, &targets);
                self.found(places, &cycle, witness, &targets, findings);
            }
            SearchResult::Impossible => findings.spent(places, model.reads, left),
            SearchResult::Undecided => findings.undecided(places, model.reads),
        }
    }

    /// Tries every choice of one step from each list. Stops at the first success.
    fn choose(&self, lists: &[&[u32]], chosen: &mut Vec<u32>, left: &mut u64) -> SearchResult {
        const LEAST: u64 = 50;
        let Some((list, others)) = lists.split_first() else {
            if *left <= LEAST {
                return SearchResult::Undecided;
            }
            if !self.all_wait(chosen) {
                return SearchResult::Impossible;
            }
            *left -= LEAST;
            return match self.search.reach(chosen, left) {
                SearchResult::Found(mut steps) => {
                    steps.extend_from_slice(chosen);
                    SearchResult::Found(steps)
                }
                other => other,
            };
        };
        for &step in *list {
            let ordered = |&other: &u32| self.search.order.ordered(self.search.model, step, other);
            if chosen.iter().any(ordered) {
                continue;
            }
            chosen.push(step);
            let answer = self.choose(others, chosen, left);
            chosen.pop();
            if answer != SearchResult::Impossible {
                return answer;
            }
        }
        SearchResult::Impossible
    }

    /// Returns whether no thread waits for something that the next one has already done.
    fn all_wait(&self, targets: &[u32]) -> bool {
        let nexts = targets.iter().cycle().skip(1);
        self.path.iter().zip(nexts).all(|(&at, &next)| match self.requests[at].target {
            RequestTarget::Done(step) => is_before(self.search.model, next, step),
            RequestTarget::Lock(..) | RequestTarget::End(_) => true,
        })
    }

    fn found(
        &self,
        places: ErrorSites,
        cycle: &[&WaitRequest],
        witness: Witness,
        targets: &[u32],
        findings: &mut Findings,
    ) {
        let model = self.search.model;
        let waits = cycle.iter().zip(targets).map(|(request, &target)| WaitingThread {
            thread: request.thread,
            event: self.window.first + u64::from(model.step(target).event),
            site: request.site,
            holds: model
                .locksets
                .of(request.held)
                .iter()
                .map(|held| model.locks[held.lock as usize])
                .collect(),
            target: match request.target {
                RequestTarget::Lock(lock, _) => WaitTarget::Lock(model.locks[lock as usize]),
                RequestTarget::End(_) => WaitTarget::End,
                RequestTarget::Done(step) => {
                    WaitTarget::Done(self.window.first + u64::from(model.step(step).event))
                }
            },
        });
        findings.deadlock(places, PredictedDeadlock { cycle: waits.collect(), witness });
    }
}
