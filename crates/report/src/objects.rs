//! Names of the objects that threads act on.

use crate::{Names, facts::HoldInterval};
use std::collections::HashMap;
use unsnarl_model::{ObjectKind, Op, Trace, Warning};
use unsnarl_semantics::{Blocks, MemoryOp, ObjectIx, Objects, Operation, SchedulingOp};

/// A name for each object of a trace: its global variable, or `lock#1` and `memory#3` in order of appearance. Unlike
/// addresses, that order is the same in every replay.
#[derive(Debug)]
pub struct ObjectNames {
    objects: Objects,
    by_object: Vec<String>,
    /// The names of memory by address, and by generation of the block that it was in: memory that is allocated
    /// again is another object.
    memory: HashMap<(u64, u32), String>,
    /// For each event its memory: the address and the generation.
    accessed: Vec<Option<(u64, u32)>>,
    /// The blocks at the end of the run.
    blocks: Blocks,
    /// The names of the program's own schedule points, by their addresses.
    points: HashMap<u64, String>,
}

impl ObjectNames {
    /// Names the objects of a trace.
    pub fn of(trace: &Trace, names: &mut dyn Names) -> Self {
        let objects = Objects::of(&trace.events);
        let by_object: Vec<String> = objects
            .all
            .iter()
            .map(|o| names.variable(o.addr).unwrap_or_else(|| format!("{}#{}", o.kind.name(), o.nth)))
            .collect();
        let mut memory = HashMap::new();
        let mut unnamed = 0;
        // A futex word is also accessed by atomic operations; both get the same name.
        let futexes: HashMap<u64, &String> = (objects.all.iter().zip(&by_object))
            .filter(|(object, _)| object.kind == ObjectKind::Futex)
            .map(|(object, name)| (object.addr, name))
            .collect();
        let futex = |addr: u64| futexes.get(&addr).map(|&name| name.clone());
        let (mut blocks, mut accessed) = (Blocks::default(), Vec::with_capacity(trace.events.len()));
        for event in &trace.events {
            let addr = match Operation::decode(event) {
                Operation::Memory(MemoryOp::Access(access)) => access.range.first,
                Operation::Memory(MemoryOp::Alloc(block)) => {
                    blocks.renew(block);
                    block.first
                }
                // Accesses after this are to the same block, although it is freed.
                Operation::Memory(MemoryOp::Free(block)) => block.first,
                _ => {
                    accessed.push(None);
                    continue;
                }
            };
            let place = (addr, blocks.generation(addr));
            accessed.push(Some(place));
            memory.entry(place).or_insert_with(|| {
                names.variable(addr).or_else(|| futex(addr)).unwrap_or_else(|| {
                    unnamed += 1;
                    format!("memory#{unnamed}")
                })
            });
        }
        let points = trace.events.iter().filter_map(|event| match Operation::decode(event) {
            Operation::Scheduling(SchedulingOp::Point { name }) => Some((name, names.text(name)?)),
            _ => None,
        });
        let points = points.collect();
        Self { objects, by_object, memory, accessed, blocks, points }
    }

    /// Returns the name of an event's object.
    pub(crate) fn at(&self, trace: &Trace, event: usize) -> String {
        if let Some(ObjectIx(ix)) = self.objects.at(event) {
            return self.by_object[ix as usize].clone();
        }
        let operation = Operation::decode(&trace.events[event]);
        let name = self.accessed[event].and_then(|place| self.memory.get(&place));
        name.cloned().unwrap_or_else(|| format!("{:#x}", operation.object().unwrap_or(0)))
    }

    /// Returns the name of a held lock.
    pub(crate) fn held(&self, trace: &Trace, hold: HoldInterval) -> String {
        // The object of the event that ended a wait is the condition variable.
        let mutex = trace.events[hold.first].waited_mutex();
        mutex.and_then(|mutex| self.lock(mutex)).unwrap_or_else(|| self.at(trace, hold.first))
    }

    /// Returns the name of the object at an address at the end of the run, for an operation of this kind.
    pub(crate) fn for_op(&self, op: Op, addr: u64) -> Option<String> {
        let kind = op.object_kind()?;
        self.last(|object| object.kind == kind && object.addr == addr).or_else(|| self.memory_at_end(addr))
    }

    /// Returns the name of the object at an address at the end of the run.
    #[must_use]
    pub fn at_end(&self, addr: u64) -> Option<String> {
        self.last(|object| object.addr == addr).or_else(|| self.memory_at_end(addr))
    }

    /// Returns the name of the object that was at an address when this event happened. Another object may have been
    /// there before, and another may follow.
    #[must_use]
    pub fn at_event(&self, addr: u64, event: u64) -> Option<String> {
        let latest = usize::try_from(event).unwrap_or(usize::MAX).min(self.accessed.len().saturating_sub(1));
        let object = |event: usize| {
            let ObjectIx(ix) = self.objects.at(event).filter(|&ix| self.objects.get(ix).addr == addr)?;
            Some(self.by_object[ix as usize].clone())
        };
        let memory = |event: usize| {
            let place = self.accessed.get(event).copied().flatten().filter(|&(at, _)| at == addr)?;
            self.memory.get(&place).cloned()
        };
        let find = |name: &dyn Fn(usize) -> Option<String>| (0..=latest).rev().find_map(name);
        find(&object).or_else(|| find(&memory)).or_else(|| self.at_end(addr))
    }

    /// Returns the name of the object that a warning is about, if it is about one.
    pub(crate) fn of_warning(&self, warning: &Warning, names: &mut dyn Names) -> Option<String> {
        let addr = Some(warning.addr).filter(|&addr| addr != 0)?;
        self.at_event(addr, warning.at).or_else(|| names.variable(addr))
    }

    /// Returns the name of the program's own schedule point at this address.
    pub(crate) fn point(&self, addr: u64) -> Option<&str> {
        self.points.get(&addr).map(String::as_str)
    }

    /// Returns the name of the mutex at an address.
    pub(crate) fn lock(&self, addr: u64) -> Option<String> {
        self.for_op(Op::Lock, addr)
    }

    fn memory_at_end(&self, addr: u64) -> Option<String> {
        self.memory.get(&(addr, self.blocks.generation(addr))).cloned()
    }

    fn last(&self, fits: impl Fn(&unsnarl_semantics::Object) -> bool) -> Option<String> {
        let ix = self.objects.all.iter().rposition(fits)?;
        Some(self.by_object[ix].clone())
    }
}

/// Describes an event and its place, like "`lock m` at visit.c:6".
#[must_use]
pub fn operation_text(trace: &Trace, number: usize, names: &mut dyn Names) -> String {
    let words = crate::describe::event(trace, &ObjectNames::of(trace, names), number);
    let frame = names.place(trace.user_site(&trace.events[number]));
    let place = frame.file.as_deref().zip(frame.line).filter(|_| !frame.system);
    let place = place.map(|(file, line)| format!(" at {}:{line}", crate::paths::base(file)));
    format!("`{words}`{}", place.unwrap_or_default())
}
