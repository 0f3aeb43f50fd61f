//! The order that holds in every reordering: a vector clock for each step.
//!
//! A step's clock is the number of steps of each thread that it depends on: those before it in its own
//! thread, its needs, the writes that it sees, and everything that these depend on. Locks play no part: the
//! order of critical sections is open. This is the weakened happens-before of section 3, and for
//! [`ReadRule::Same`](crate::ReadRule::Same) the order of Mathur et al. (POPL 2021) that their closure starts from.

use crate::model::{INITIAL, Model, ModelStep, NONE};

/// A frontier of an execution: the number of steps of each thread before it.
pub(crate) type Frontier = Vec<u32>;

/// The clocks of all steps.
#[derive(Debug)]
pub(crate) struct MustHappenBefore {
    threads: usize,
    /// The concatenated clocks.
    pool: Vec<u32>,
    /// By step: its clock. The entry of the step's own thread is meaningless.
    clocks: Vec<u32>,
}

impl MustHappenBefore {
    pub(crate) fn of(model: &Model) -> Self {
        let threads = model.threads.len();
        let mut order =
            Self { threads, pool: vec![0; threads], clocks: Vec::with_capacity(model.steps.len()) };
        // Steps given at the start are already done.
        order.pool.copy_from_slice(&model.given);
        let mut current = vec![0_u32; threads];
        for step in &model.steps {
            let me = step.thread.index();
            let mut clock = current[me];
            let written = model.touches(step).iter().map(|touch| touch.sees);
            let seen = written.filter(|&sees| sees != NONE && sees != INITIAL).map(|sees| sees - 1);
            for needed in model.needs(step).iter().copied().chain(seen) {
                order.join(&mut clock, current[me], me, model.step(needed), needed);
            }
            current[me] = clock;
            order.clocks.push(clock);
        }
        order
    }

    /// Joins a step and its dependences into a clock; into a new one if the clock is still shared with the
    /// previous step.
    fn join(&mut self, clock: &mut u32, shared: u32, me: usize, step: &ModelStep, number: u32) {
        let (other, at) = (step.thread.index(), step.at);
        let width = self.threads;
        if other == me || self.pool[*clock as usize * width + other] > at {
            return;
        }
        if *clock == shared {
            let from = shared as usize * width;
            *clock = (self.pool.len() / width) as u32;
            self.pool.extend_from_within(from..from + width);
        }
        let (from, to) = (self.clocks[number as usize] as usize * width, *clock as usize * width);
        for thread in 0..width {
            let known = self.pool[from + thread];
            let mine = &mut self.pool[to + thread];
            if thread != other && thread != me && known > *mine {
                *mine = known;
            }
        }
        self.pool[to + other] = at + 1;
    }

    /// Returns the dependences of a step, without its own thread.
    pub(crate) fn clock(&self, number: u32) -> &[u32] {
        let from = self.clocks[number as usize] as usize * self.threads;
        &self.pool[from..from + self.threads]
    }

    /// Extends a frontier by the step and all its dependences.
    pub(crate) fn include(&self, model: &Model, frontier: &mut Frontier, number: u32) -> bool {
        let step = model.step(number);
        let me = step.thread.index();
        if frontier[me] > step.at {
            return false;
        }
        raise(frontier, self.clock(number), me);
        frontier[me] = step.at + 1;
        true
    }

    /// Extends a frontier so that the step comes next in its thread and is enabled: with everything before it
    /// and its needs; the writes that it sees are open.
    pub(crate) fn extend_to(&self, model: &Model, frontier: &mut Frontier, number: u32) {
        let step = model.step(number);
        let me = step.thread.index();
        if step.at > 0 {
            self.include(model, frontier, model.threads[me][step.at as usize - 1]);
        }
        for &needed in model.needs_to_come_next(step) {
            self.include(model, frontier, needed);
        }
    }

    /// Returns whether the second step cannot come next without the first being done.
    pub(crate) fn behind(&self, model: &Model, first: u32, second: u32) -> bool {
        let (first, second) = (model.step(first), model.step(second));
        let me = second.thread.index();
        let before = |number: u32| self.clock(number)[first.thread.index()] > first.at;
        let by_thread = second.at > 0 && before(model.threads[me][second.at as usize - 1]);
        let by_need = |&needed: &u32| {
            let need = model.step(needed);
            need.thread == first.thread && need.at >= first.at || before(needed)
        };
        by_thread || model.needs_to_come_next(second).iter().any(by_need)
    }

    /// Returns whether one of the two steps cannot come next without the other being done.
    pub(crate) fn ordered(&self, model: &Model, a: u32, b: u32) -> bool {
        self.behind(model, a, b) || self.behind(model, b, a)
    }
}

fn raise(frontier: &mut Frontier, clock: &[u32], but: usize) {
    for (thread, (mine, &needed)) in frontier.iter_mut().zip(clock).enumerate() {
        if thread != but && needed > *mine {
            *mine = needed;
        }
    }
}
