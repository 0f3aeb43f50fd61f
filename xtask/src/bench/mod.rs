//! Benchmarks. They print ratios instead of absolute times: both sides of a ratio are measured alternately in the same
//! run, and the result is the median of the ratios with its quartiles.

mod corpus;
pub(crate) mod coverage;
pub(crate) mod crates;
pub(crate) mod determinism;
mod distribution;
pub(crate) mod fix;
pub(crate) mod lost;
mod measure;
pub(crate) mod predict;
pub(crate) mod real;
pub(crate) mod replays;
pub(crate) mod runtime;
pub(crate) mod search;
pub(crate) mod semantics;
pub(crate) mod simplify;
pub(crate) mod slice;
pub(crate) mod soak;
mod table;

/// Duration of the measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BenchEffort {
    Quick,
    Full,
}

impl BenchEffort {
    const fn repetitions(self) -> usize {
        match self {
            Self::Quick => 3,
            Self::Full => 11,
        }
    }
}
