//! Barriers. Passing one is two steps: the thread arrives, and it leaves when its round is complete.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | init | always | sets the number of threads of a round | writes the barrier | none |
//! | destroy | always | none | writes the barrier | none |
//! | arrive | always | one more has arrived in the round | writes the barrier and the round | releases the round |
//! | leave | all threads of the round have arrived | none | reads the round | acquires the round |
//!
//! Leaving does not touch the barrier: others may arrive for the next round meanwhile, or destroy it.

use crate::{
    edge::{Edge, SyncPoint},
    machine::{Blocker, Enabled, Machine},
    step::Step,
    touch::{SharedObject, Touch},
};
use alloc::collections::BTreeMap;
use unsnarl_model::{Event, Op};

/// An operation on a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierOp {
    /// It is initialised.
    Init {
        /// The barrier's address.
        barrier: u64,
        /// The number of threads of a round.
        threads: u64,
    },
    /// It is destroyed.
    Destroy {
        /// The barrier's address.
        barrier: u64,
    },
    /// The thread arrives.
    Arrive {
        /// The barrier's address.
        barrier: u64,
        /// The round, from 0.
        round: u64,
    },
    /// The thread continues.
    Leave {
        /// The barrier's address.
        barrier: u64,
        /// The round that it arrived in.
        round: u64,
    },
}

/// The barriers of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Barriers {
    /// The number of threads of a round, by barrier.
    threads: BTreeMap<u64, u64>,
    /// The number of arrivals in each round.
    arrived: BTreeMap<(u64, u64), u64>,
}

impl Barriers {
    /// Returns the number of threads that have arrived in a round.
    pub(crate) fn arrived(&self, barrier: u64, round: u64) -> u64 {
        self.arrived.get(&(barrier, round)).copied().unwrap_or(0)
    }
}

impl BarrierOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        let (barrier, value) = (event.addr, event.value);
        match event.op {
            Op::BarrierInit => Self::Init { barrier, threads: value },
            Op::BarrierDestroy => Self::Destroy { barrier },
            Op::BarrierArrive => Self::Arrive { barrier, round: value },
            _ => Self::Leave { barrier, round: value },
        }
    }

    /// Returns the barrier's address.
    #[must_use]
    #[inline]
    pub const fn barrier(&self) -> u64 {
        match *self {
            Self::Init { barrier, .. }
            | Self::Destroy { barrier }
            | Self::Arrive { barrier, .. }
            | Self::Leave { barrier, .. } => barrier,
        }
    }

    #[inline]
    pub(crate) fn touches(&self, emit: &mut impl FnMut(Touch)) {
        match *self {
            Self::Init { barrier, .. } | Self::Destroy { barrier } => {
                emit(Touch::writes(SharedObject::Barrier(barrier)));
            }
            Self::Arrive { barrier, round } => {
                emit(Touch::writes(SharedObject::Barrier(barrier)));
                emit(Touch::writes(SharedObject::Round(barrier, round)));
            }
            Self::Leave { barrier, round } => emit(Touch::reads(SharedObject::Round(barrier, round))),
        }
    }

    #[inline]
    pub(crate) fn edges(&self, mut emit: impl FnMut(Edge)) {
        match *self {
            Self::Arrive { barrier, round } => emit(Edge::Release(SyncPoint::Round(barrier, round))),
            Self::Leave { barrier, round } => emit(Edge::Acquire(SyncPoint::Round(barrier, round))),
            Self::Init { .. } | Self::Destroy { .. } => {}
        }
    }

    pub(crate) fn enabled(&self, machine: &Machine) -> Enabled {
        let Self::Leave { barrier, round } = *self else { return Enabled::Yes };
        let expected = machine.expectations.arrivals(barrier, round);
        match expected.or_else(|| machine.barriers.threads.get(&barrier).copied()) {
            Some(all) if machine.barriers.arrived(barrier, round) >= all => Enabled::Yes,
            Some(_) => Enabled::No { by: Blocker::MissingArrivals },
            None => Enabled::Unknown,
        }
    }

    pub(crate) fn apply(&self, step: &Step, machine: &mut Machine) {
        match *self {
            Self::Init { barrier, threads } if step.succeeded() => {
                machine.barriers.threads.insert(barrier, threads);
                machine.barriers.arrived.retain(|&(other, _), _| other != barrier);
            }
            Self::Arrive { barrier, round } => {
                *machine.barriers.arrived.entry((barrier, round)).or_default() += 1
            }
            Self::Init { .. } | Self::Destroy { .. } | Self::Leave { .. } => {}
        }
    }
}
