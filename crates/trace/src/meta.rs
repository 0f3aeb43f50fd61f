//! The encoding of everything but the events: the fields and their order.

use crate::bytes::{ByteCursor, Codec, CodecError, put_length, put_zigzag};
use unsnarl_model::{
    Action, Backtrace, Conflict, ConflictKind, Context, Counterfactual, Fidelity, Input, Limit, Misuse,
    Module, ModuleIx, Op, Outcome, OutcomeKind, Output, Places, Plan, PlannedAction, Points, Policy, Prefix,
    Program, RunLimits, Segment, Side, Site, Span, Thread, ThreadId, ThreadIx, Timeouts, Wait, Warning,
};

/// Encodes a struct as its fields in order.
macro_rules! fields {
    ($($name:ident { $($field:ident: $type:ty),* $(,)? $(; $($elsewhere:ident),+)? })*) => {$(
        impl Codec for $name {
            const LEAST: usize = 0 $(+ <$type as Codec>::LEAST)*;

            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
                Ok(Self { $($field: <$type as Codec>::take(from)?,)* $($($elsewhere: Default::default(),)+)? })
            }
        }
    )*};
}

fields! {
    Program { path: String, args: Vec<Vec<u8>>, env: Vec<Vec<u8>>, cwd: String, stdin: Vec<u8> }
    Module { path: String, build_id: Vec<u8>, base: u64, size: u64 }
    Plan {
        prefix: Prefix, tail: Policy, seed: u64, points: Points, places: Places, one_in: u32, conflicts: bool,
        choices: bool, from_checkpoint: bool, spurious: bool, entropy: u64, epoch: u64, limits: RunLimits;
        inputs, timeouts, continuations
    }
    Places { modules: Vec<String>, spans: Vec<Span> }
    Span { module: ModuleIx, start: u64, end: u64 }
    Prefix {
        threads: Vec<ThreadId>, modules: Vec<String>, segments: Vec<Segment>, actions: Vec<PlannedAction>,
        fidelity: Fidelity,
    }
    Segment { thread: ThreadIx, points: u32 }
    Action { op: Op, site: Site }
    RunLimits { events: u64, spins: u32, millis: u64 }
    Thread { id: ThreadId, name: String, start: Site }
    Outcome {
        kind: OutcomeKind, thread: Option<ThreadIx>, site: Option<Site>, message: String,
        backtraces: Vec<Backtrace>, waits: Vec<Wait>,
    }
    Backtrace { thread: ThreadIx, frames: Vec<Site> }
    Context { site: Site, caller: u32 }
    Wait { thread: ThreadIx, op: Op, addr: u64, site: Site, holders: Vec<ThreadIx> }
    Conflict { kind: ConflictKind, addr: u64, sides: [Side; 2] }
    Side { thread: ThreadIx, op: Op, site: Site }
    Warning { misuse: Misuse, thread: ThreadIx, site: Site, addr: u64, at: u64, detail: String }
    Counterfactual { event: u64, outcome_without: OutcomeKind, message: String }
    Output { stdout: Vec<u8>, stderr: Vec<u8> }
}

impl Codec for Input {
    const LEAST: usize = ThreadId::LEAST + 3 + 16 + Vec::<u8>::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        self.thread.put(out);
        self.op.put(out);
        self.timed_out.put(out);
        self.blocked.put(out);
        out.extend_from_slice(&self.requested.to_le_bytes());
        out.extend_from_slice(&self.result.to_le_bytes());
        self.bytes.put(out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        Ok(Self {
            thread: ThreadId::take(from)?,
            op: Op::take(from)?,
            timed_out: bool::take(from)?,
            blocked: bool::take(from)?,
            requested: from.array().map(u64::from_le_bytes)?,
            result: from.array().map(i64::from_le_bytes)?,
            bytes: Vec::take(from)?,
        })
    }
}

/// The action that stands for [`PlannedAction::RunUntilBlocked`] in a file: no instruction has this offset.
const RUN_UNTIL_BLOCKED: Action =
    Action { op: Op::Exit, site: Site { module: ModuleIx(0), offset: u64::MAX } };

impl Codec for PlannedAction {
    const LEAST: usize = Action::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        self.action().unwrap_or(&RUN_UNTIL_BLOCKED).put(out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        let action = Action::take(from)?;
        Ok(if action == RUN_UNTIL_BLOCKED { Self::RunUntilBlocked } else { Self::Execute(action) })
    }
}

impl Codec for Site {
    const LEAST: usize = ModuleIx::LEAST + 1;

    fn put(&self, out: &mut Vec<u8>) {
        self.module.put(out);
        self.offset.put(out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        Ok(Self { module: ModuleIx::take(from)?, offset: u64::take(from)? })
    }

    /// Consecutive sites are often close to each other.
    fn put_all(all: &[Self], out: &mut Vec<u8>) {
        let mut before = 0;
        for site in all {
            site.module.put(out);
            put_zigzag(site.offset.wrapping_sub(before).cast_signed(), out);
            before = site.offset;
        }
    }

    fn take_all(count: usize, from: &mut ByteCursor<'_>) -> Result<Vec<Self>, CodecError> {
        let mut all = Vec::with_capacity(count);
        let mut before = 0_u64;
        for _ in 0..count {
            let module = ModuleIx::take(from)?;
            before = before.wrapping_add(from.zigzag()?.cast_unsigned());
            all.push(Self { module, offset: before });
        }
        Ok(all)
    }
}

/// Encodes a closed set by numbers; unknown numbers are rejected.
macro_rules! numbers {
    ($($name:ident { $($variant:ident = $number:literal),* })*) => {$(
        impl Codec for $name {
            const LEAST: usize = 1;

            fn put(&self, out: &mut Vec<u8>) {
                out.push(match self { $(Self::$variant => $number,)* });
            }

            fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
                match from.byte()? {
                    $($number => Ok(Self::$variant),)*
                    _ => Err(concat!("it has no such ", stringify!($name))),
                }
            }
        }
    )*};
}

numbers! {
    Points { Sync = 0, All = 1, Places = 2 }
    Timeouts { Eager = 0, Fair = 1, Late = 2 }
    ConflictKind { Race = 0, Hidden = 1, Contention = 2 }
    Fidelity { Exact = 0, Relaxed = 1 }
    Misuse {
        UnlockNotHeld = 0, DestroyBusy = 1, UseDestroyed = 2, Relock = 3, LeakedThread = 4, BadJoin = 5,
        WaitUnlocked = 6, EndedHolding = 7, NotModelled = 8
    }
}

impl Codec for Policy {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Stop => out.push(0),
            Self::Fair => out.push(1),
            Self::Random => out.push(2),
            Self::Pct { depth, steps } => {
                out.push(3);
                depth.put(out);
                steps.put(out);
            }
            Self::Pos => out.push(4),
            Self::Race { first, second } => {
                out.push(5);
                first.put(out);
                second.put(out);
            }
        }
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        Ok(match from.byte()? {
            0 => Self::Stop,
            1 => Self::Fair,
            2 => Self::Random,
            3 => Self::Pct { depth: u32::take(from)?, steps: u64::take(from)? },
            4 => Self::Pos,
            5 => Self::Race { first: u16::take(from)?, second: u16::take(from)? },
            _ => return Err("it has no such Policy"),
        })
    }
}

impl<T: Codec> Codec for [T; 2] {
    const LEAST: usize = 2 * T::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|one| one.put(out));
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        Ok([T::take(from)?, T::take(from)?])
    }
}

impl Codec for Op {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        Self::from_number(from.byte()?).ok_or("it has no such operation")
    }
}

impl Codec for ThreadIx {
    const LEAST: usize = u16::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        u16::take(from).map(Self)
    }
}

impl Codec for ModuleIx {
    const LEAST: usize = u16::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        u16::take(from).map(Self)
    }
}

impl Codec for ThreadId {
    const LEAST: usize = Vec::<u32>::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.path().len(), out);
        u32::put_all(self.path(), out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        Vec::take(from).map(Self::from_path)
    }
}

impl Codec for OutcomeKind {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        let (number, detail) = match *self {
            Self::Exit(status) => (0_u8, Some(status)),
            Self::Deadlock => (1, None),
            Self::Signal(signal) => (2, Some(signal)),
            Self::Assertion => (3, None),
            Self::Abort => (4, None),
            Self::Exception => (5, None),
            Self::Panic => (6, None),
            Self::Livelock => (7, None),
            Self::Undecided(limit) => (12, Some(limit as i32)),
            Self::Race => (9, None),
            Self::Misuse => (10, None),
            Self::Check => (11, None),
        };
        number.put(out);
        detail.iter().for_each(|detail: &i32| detail.put(out));
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        Ok(match from.byte()? {
            0 => Self::Exit(i32::take(from)?),
            1 => Self::Deadlock,
            2 => Self::Signal(i32::take(from)?),
            3 => Self::Assertion,
            4 => Self::Abort,
            5 => Self::Exception,
            6 => Self::Panic,
            7 => Self::Livelock,
            // Up to format 10 the message says which limit it was.
            8 => Self::Undecided(Limit::Time),
            9 => Self::Race,
            10 => Self::Misuse,
            11 => Self::Check,
            12 => {
                let limit = u8::try_from(i32::take(from)?).ok().and_then(Limit::from_number);
                Self::Undecided(limit.ok_or("it has no such limit")?)
            }
            _ => return Err("it has no such kind of end"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory growth per byte of a section; `section::UnpackBudget` relies on it.
    #[test]
    fn decoded_values_grow_at_most_sixfold() {
        fn growth<T: Codec>() -> usize {
            size_of::<T>().div_ceil(T::LEAST)
        }
        let all = [
            growth::<String>(),
            growth::<Vec<u8>>(),
            growth::<u32>(),
            growth::<Module>(),
            growth::<ThreadId>(),
            growth::<Segment>(),
            growth::<PlannedAction>(),
            growth::<Thread>(),
            growth::<Site>(),
            growth::<Context>(),
            growth::<Backtrace>(),
            growth::<Wait>(),
            growth::<ThreadIx>(),
            growth::<Warning>(),
            growth::<Conflict>(),
            growth::<Span>(),
            growth::<Input>(),
        ];
        assert!(all.iter().all(|&times| times <= 6), "{all:?}");
    }

    /// Operations and orders are written as the model's numbers.
    #[test]
    fn operation_numbers_match_the_format() {
        let words = Op::ALL.iter().map(|op| op.name()).collect::<Vec<_>>().join(",");
        const KNOWN: &str = "start,end,exit,create,join,detach,cancel,cancelled,lock init,lock destroy,lock,\
            try lock,unlock,rwlock init,rwlock destroy,read lock,try read lock,write lock,try write lock,\
            rwlock unlock,cond init,cond destroy,cond wait,cond wake,signal,broadcast,sem init,sem destroy,\
            sem wait,sem try wait,sem post,sem value,barrier init,barrier destroy,barrier arrive,\
            barrier leave,once begin,once end,once pass,futex wait,futex woken,futex wake,futex requeue,\
            atomic load,atomic store,atomic update,atomic compare-exchange,fence,read,write,yield,sleep";
        assert!(words.starts_with(KNOWN), "operations are added at the end, or FORMAT is bumped");
    }
}
