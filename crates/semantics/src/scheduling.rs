//! Operations that concern the scheduler alone.
//!
//! | operation | enabled | effect | touches | happens-before |
//! | --- | --- | --- | --- | --- |
//! | yield | always | none | nothing | none |
//! | sleep | time passes | virtual time is at least its end | the time, if the program may observe it | none |
//! | point, checkpoint | always | none | nothing | none |

use crate::{
    machine::Enabled,
    touch::{SharedObject, Touch},
};
use unsnarl_model::{Event, Op};

/// An operation that concerns the scheduler alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchedulingOp {
    /// The thread offers the processor to others.
    Yield,
    /// A sleep is over.
    Sleep {
        /// Its end in virtual nanoseconds.
        end: u64,
    },
    /// A schedule point that the program declared.
    Point {
        /// The address of its name.
        name: u64,
    },
    /// The program marks where the search should begin.
    Checkpoint,
}

impl SchedulingOp {
    #[inline]
    pub(crate) fn decode(event: &Event) -> Self {
        match event.op {
            Op::Sleep => Self::Sleep { end: event.value },
            Op::Point => Self::Point { name: event.value },
            Op::Checkpoint => Self::Checkpoint,
            _ => Self::Yield,
        }
    }

    #[inline]
    pub(crate) fn touches(&self, emit: &mut impl FnMut(Touch)) {
        if matches!(self, Self::Sleep { .. }) {
            emit(Touch::writes(SharedObject::Time));
        }
    }

    pub(crate) const fn enabled(&self) -> Enabled {
        match self {
            Self::Sleep { .. } => Enabled::IfTimePasses,
            Self::Yield | Self::Point { .. } | Self::Checkpoint => Enabled::Yes,
        }
    }
}
