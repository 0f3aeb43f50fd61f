//! Several runs at a time, with results as if they had been made one after the other.

use anyhow::Result;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use unsnarl_exec::Executor;
use unsnarl_model::Plan;

/// Executors of the same program, each with a thread of its own while plans are run.
pub(crate) struct Pool {
    pub(crate) executors: Vec<Executor>,
}

impl Pool {
    /// Has each executor do something, all at a time.
    pub(crate) fn each<T: Send>(&mut self, job: impl Fn(&mut Executor) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                self.executors.iter_mut().map(|executor| scope.spawn(|| job(executor))).collect();
            let done = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
            done.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    /// Runs plans; what came of them, in their order, up to the first that ends the search. Which one that
    /// is does not depend on how many executors there are: plans before it are always run to their end.
    pub(crate) fn run<T: Send>(
        &mut self,
        plans: &[Plan],
        job: impl Fn(&mut Executor, &Plan) -> Result<T> + Sync,
        ends_search: impl Fn(&T) -> bool + Sync,
    ) -> Result<Vec<T>> {
        let next = AtomicUsize::new(0);
        let last = AtomicUsize::new(usize::MAX);
        let results: Vec<Mutex<Option<Result<T>>>> = plans.iter().map(|_| Mutex::new(None)).collect();
        let work = |executor: &mut Executor| {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= plans.len() || at > last.load(Ordering::Relaxed) {
                    return;
                }
                let result = job(executor, &plans[at]);
                if result.as_ref().map_or(true, &ends_search) {
                    last.fetch_min(at, Ordering::Relaxed);
                }
                *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            }
        };
        std::thread::scope(|scope| {
            if let Some((first, others)) = self.executors.split_first_mut() {
                others.iter_mut().for_each(|executor| drop(scope.spawn(|| work(executor))));
                work(first);
            }
        });
        let count = last.into_inner().saturating_add(1).min(plans.len());
        let results = results.into_iter().take(count);
        results.filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}
