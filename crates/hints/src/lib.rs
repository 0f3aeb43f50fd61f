//! Hints in a program for unsnarl, a concurrency debugger.
//!
//! Hints take effect under `unsnarl explore` and the other commands that run a program. In a program that runs without
//! unsnarl each costs a test of an address and does nothing. There is nothing to link with and nothing to configure; on
//! systems other than x86-64 Linux they are empty.
//!
//! ```
//! fn withdraw(balance: &std::sync::atomic::AtomicI64, amount: i64) {
//!     use std::sync::atomic::Ordering::Relaxed;
//!     let before = balance.load(Relaxed);
//!     unsnarl_hints::point!("between load and store");
//!     balance.store(before - amount, Relaxed);
//!     unsnarl_hints::assert!(balance.load(Relaxed) >= 0, "no overdraft");
//! }
//! # withdraw(&10.into(), 3);
//! ```

#![no_std]

#[doc(hidden)]
pub mod runtime;

/// A schedule point: another thread may run here. The name, a literal, is shown in the interleaving.
#[macro_export]
macro_rules! point {
    ($name:literal) => {
        if let ::core::option::Option::Some(point) = $crate::runtime::point() {
            point(::core::concat!($name, "\0").as_ptr());
        }
    };
}

/// Under unsnarl, fails the run with an assertion of this name, a literal, if the condition does not hold. Without
/// unsnarl, the condition is not evaluated.
#[macro_export]
macro_rules! assert {
    ($condition:expr, $name:literal $(,)?) => {
        if let ::core::option::Option::Some(fail) = $crate::runtime::fail() {
            if !$condition {
                fail(::core::concat!($name, "\0").as_ptr());
            }
        }
    };
}

/// The search begins here: up to the first checkpoint, threads run without preemptions.
#[macro_export]
macro_rules! checkpoint {
    () => {
        if let ::core::option::Option::Some(checkpoint) = $crate::runtime::checkpoint() {
            checkpoint();
        }
    };
}

/// Starts a region without preemption: no other thread runs until the returned value is dropped, unless this thread
/// blocks or yields. Regions nest.
#[must_use = "the region ends when this is dropped"]
pub fn undivided() -> Undivided {
    runtime::undivided(1);
    Undivided { of_one_thread: core::marker::PhantomData }
}

/// A region without preemption; see [`undivided`].
#[derive(Debug)]
pub struct Undivided {
    of_one_thread: core::marker::PhantomData<*const ()>,
}

impl Drop for Undivided {
    fn drop(&mut self) {
        runtime::undivided(-1);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use core::cell::Cell;

    #[test]
    fn hints_do_nothing_outside_unsnarl() {
        let evaluated = Cell::new(0);
        let count = || {
            evaluated.set(evaluated.get() + 1);
            false
        };
        crate::point!("here");
        crate::checkpoint!();
        crate::assert!(count(), "nobody looks");
        {
            let _outer = crate::undivided();
            let _inner = crate::undivided();
        }
        std::assert_eq!(evaluated.get(), 0, "the condition is not evaluated");
    }
}
