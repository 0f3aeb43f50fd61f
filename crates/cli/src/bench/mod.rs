//! Hidden commands for `cargo xtask bench`: they measure from within, so that our own start-up is excluded.

pub(crate) mod predict;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod simplify;
pub(crate) mod simplify_curve;
pub(crate) mod static_order;
