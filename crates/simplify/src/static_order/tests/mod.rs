//! Properties of the static simplification, tested on random traces.

mod brute;
mod closure;
mod figures;
mod minimum;
mod random;
mod schedule_rebuilder;
