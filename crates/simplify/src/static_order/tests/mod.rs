//! What the static simplification promises, on traces made at random.

mod brute;
mod closure;
mod figures;
mod minimum;
mod random;
mod schedule_rebuilder;
