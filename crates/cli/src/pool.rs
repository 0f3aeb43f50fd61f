//! Parallel runs with the same results as sequential ones.

use anyhow::Result;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use unsnarl_exec::Executor;
use unsnarl_model::Plan;

/// Executors of the same program, each with its own thread while plans are run.
pub(crate) struct Pool {
    pub(crate) executors: Vec<Executor>,
}

/// A job on another thread, or a finished one.
enum PoolJob<'a, T> {
    Beside(std::thread::ScopedJoinHandle<'a, T>),
    Here(T),
}

impl<T> PoolJob<'_, T> {
    fn join(self) -> T {
        match self {
            Self::Beside(worker) => worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Self::Here(done) => done,
        }
    }
}

impl Pool {
    /// Runs a job on every executor in parallel.
    pub(crate) fn each<T: Send>(&mut self, job: impl Fn(&mut Executor) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let job = &job;
            let start = |executor| {
                // The executor is shared because the job runs on its own thread or, if none can be started, on this
                // one.
                let executor = Arc::new(Mutex::new(executor));
                let work = |executor: &Mutex<&mut Executor>| {
                    job(&mut executor.lock().unwrap_or_else(PoisonError::into_inner))
                };
                let same = Arc::clone(&executor);
                match std::thread::Builder::new().spawn_scoped(scope, move || work(&same)) {
                    Ok(worker) => PoolJob::Beside(worker),
                    Err(_) => PoolJob::Here(work(&executor)),
                }
            };
            let started: Vec<PoolJob<'_, T>> = self.executors.iter_mut().map(start).collect();
            started.into_iter().map(PoolJob::join).collect()
        })
    }

    /// Runs plans and returns their results in order, up to the first one that ends the search. Which one that is does
    /// not depend on the number of executors, because all plans before it are run to their end.
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
                for executor in others {
                    // If the system allows no more threads, the existing ones do all the work.
                    let _ = std::thread::Builder::new().spawn_scoped(scope, || work(executor));
                }
                work(first);
            }
        });
        let count = last.into_inner().saturating_add(1).min(plans.len());
        let results = results.into_iter().take(count);
        results.filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}
