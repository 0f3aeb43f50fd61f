//! The synchronisation objects of a run.

use crate::{Operation, SignalOp};
use alloc::{collections::BTreeMap, vec::Vec};
use unsnarl_model::{Event, ObjectKind};

/// A synchronisation object of one trace, numbered by its kind in the order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectIx(pub u32);

/// An object that threads synchronise through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// The kind of object.
    pub kind: ObjectKind,
    /// The address in memory.
    pub addr: u64,
    /// The ordinal among the objects of its kind, by first appearance, from 1.
    pub nth: u32,
}

/// All synchronisation objects of a trace; objects that reuse an address are distinguished.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Indexed by [`ObjectIx`].
    pub all: Vec<Object>,
    at_event: Vec<Option<ObjectIx>>,
}

impl Objects {
    /// Finds the objects of a whole run.
    #[must_use]
    pub fn of(events: &[Event]) -> Self {
        let mut objects = Self::default();
        let mut here: BTreeMap<(ObjectKind, u64), ObjectIx> = BTreeMap::new();
        let mut counts: BTreeMap<ObjectKind, u32> = BTreeMap::new();
        for event in events {
            objects.at_event.push(key_of(event).map(|key| {
                let (kind, addr) = key;
                match here.get(&key) {
                    Some(&ix) if !event.op.is_init() => ix,
                    _ => {
                        let nth = counts.entry(kind).and_modify(|n| *n += 1).or_insert(1);
                        let ix = ObjectIx(objects.all.len() as u32);
                        objects.all.push(Object { kind, addr, nth: *nth });
                        here.insert(key, ix);
                        ix
                    }
                }
            }));
        }
        objects
    }

    /// Returns the object that the event with this number operated on.
    #[must_use]
    pub fn at(&self, event: usize) -> Option<ObjectIx> {
        self.at_event.get(event).copied().flatten()
    }

    /// Returns the object itself.
    #[must_use]
    pub fn get(&self, ix: ObjectIx) -> &Object {
        &self.all[ix.0 as usize]
    }
}

/// Returns the kind and address of the object that an event operates on; a signal has its number as address.
fn key_of(event: &Event) -> Option<(ObjectKind, u64)> {
    let kind = event.op.object_kind()?;
    let addr = match Operation::decode(event) {
        Operation::Signal(
            SignalOp::SetAction { signal }
            | SignalOp::Send { signal, .. }
            | SignalOp::Handle { signal, .. }
            | SignalOp::Wait { signal, .. },
        ) => signal,
        operation => operation.object()?,
    };
    Some((kind, addr))
}
