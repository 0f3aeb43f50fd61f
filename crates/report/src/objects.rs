//! Names of the objects that threads act on.

use crate::{Names, expressions::Expressions, facts::HoldInterval, library_calls::LibraryCall, paths};
use serde_json::{Value, json};
use std::collections::HashMap;
use unsnarl_model::{ObjectKind, Op, Trace, Warning};
use unsnarl_semantics::{Blocks, ByteRange, MemoryOp, ObjectIx, Objects, Operation, SchedulingOp};
use unsnarl_symbols::Frame;

/// A name for each object of a trace: its global variable, or the expression by which the source reaches it. If neither
/// is known, the block of memory that it is in, or the call or line of its first access. Numbers distinguish objects with
/// the same name, in order of appearance. Unlike addresses, that order is the same in every replay.
#[derive(Debug)]
pub struct ObjectNames {
    objects: Objects,
    by_object: Vec<ObjectName>,
    /// The names of memory: memory that is allocated again is another object.
    memory: HashMap<MemoryPlace, ObjectName>,
    /// For each event its memory.
    accessed: Vec<Option<MemoryPlace>>,
    /// The blocks at the end of the run.
    blocks: Blocks,
    /// By generation: the allocated blocks.
    allocated: HashMap<u32, AllocatedBlock>,
    /// The names of the program's own schedule points, by their addresses.
    points: HashMap<u64, String>,
}

/// Accessed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct MemoryPlace {
    addr: u64,
    /// The generation of the block at that address.
    generation: u32,
    /// The number of bytes: a structure and its first member have the same address.
    len: u64,
}

/// A name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ObjectName {
    text: String,
    /// True for a variable or an expression of the source.
    is_established: bool,
}

/// A block of memory that the run allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AllocatedBlock {
    bytes: ByteRange,
    /// The user's code that allocated it.
    frame: Frame,
    nth: u32,
}

impl ObjectNames {
    /// Names the objects of a trace.
    pub fn of(trace: &Trace, names: &mut dyn Names) -> Self {
        let objects = Objects::of(&trace.events);
        let AccessedMemory { accessed, blocks, allocated } = AccessedMemory::of(trace, names);
        let mut named = Named::default();
        let globals: Vec<Option<String>> =
            objects.all.iter().map(|object| names.variable(object.addr)).collect();
        let mut memory: HashMap<MemoryPlace, ObjectName> = HashMap::new();
        let mut expressions = Expressions::default();
        for found in memory_of(trace, &accessed, &mut expressions, names) {
            let global = found.global.map(|name| named.global(name));
            let by_expression = |expression: String| named.of_memory(&expression, found.place);
            let established = global.or_else(|| found.expression.map(by_expression));
            let is_established = established.is_some();
            let text = established.unwrap_or_else(|| {
                let block = allocated.get(&found.place.generation);
                match (block, found.makeshift) {
                    (Some(block), _) => block.name_at(found.place.addr),
                    (None, Some(makeshift)) => named.of_memory(&format!("data {makeshift}"), found.place),
                    (None, None) => named.numbered(),
                }
            });
            memory.insert(found.place, ObjectName { text, is_established });
        }
        let found = expressions_of_objects(trace, &objects, &globals, &mut expressions, names);
        let mut by_object = Vec::with_capacity(objects.all.len());
        for ((object, global), (expression, makeshift)) in objects.all.iter().zip(globals).zip(found) {
            let is_word = object.kind == ObjectKind::Futex;
            // A futex word is also accessed by atomic operations; both get the same name.
            let word = || {
                let at_word = |place: &&MemoryPlace| place.addr == object.addr;
                memory.get(memory.keys().filter(at_word).min()?).cloned()
            };
            let established = |text| ObjectName { text, is_established: true };
            let name = global.map(|name| established(named.global(name)));
            let name = name.or_else(|| word().filter(|_| is_word));
            let name = name.or_else(|| expression.map(|expression| established(named.unique(&expression))));
            by_object.push(name.unwrap_or_else(|| {
                let kind = object.kind.name();
                let text = match makeshift {
                    Some(makeshift) => named.unique(&format!("{kind} {makeshift}")),
                    None => format!("{kind}#{}", object.nth),
                };
                ObjectName { text, is_established: false }
            }));
        }
        let points = trace.events.iter().filter_map(|event| match Operation::decode(event) {
            Operation::Scheduling(SchedulingOp::Point { name }) => Some((name, names.text(name)?)),
            _ => None,
        });
        let points = points.collect();
        Self { objects, by_object, memory, accessed, blocks, allocated, points }
    }

    /// Returns the name of an event's object if it is a variable or an expression of the source.
    pub(crate) fn established(&self, trace: &Trace, event: usize) -> Option<String> {
        let of_object = || {
            let ObjectIx(ix) = self.objects.at(event)?;
            Some(&self.by_object[ix as usize])
        };
        let of_memory = || self.memory.get(&self.accessed[event]?);
        let is_memory = trace.events[event].op.object_kind() == Some(ObjectKind::Memory);
        let name = if is_memory { of_memory() } else { of_object() };
        name.filter(|name| name.is_established).map(|name| name.text.clone())
    }

    /// Returns the allocated block that contains an address when this event happened, as JSON; `None` if it is not
    /// known.
    #[must_use]
    pub fn block_json(&self, addr: u64, event: u64) -> Option<Value> {
        let latest = usize::try_from(event).ok()?.min(self.accessed.len().checked_sub(1)?);
        let containing = |place: &MemoryPlace| {
            let block = self.allocated.get(&place.generation)?;
            (block.bytes.first <= addr && addr < block.bytes.end()).then_some(block)
        };
        let block = self.accessed[..=latest].iter().rev().flatten().find_map(containing)?;
        let AllocatedBlock { bytes, frame, .. } = block;
        Some(json!({ "size": bytes.len, "allocated": { "file": frame.file, "line": frame.line } }))
    }

    /// Returns the name of an event's object.
    pub(crate) fn at(&self, trace: &Trace, event: usize) -> String {
        // Memory has a name for each number of bytes at its address.
        let memory = || self.accessed[event].and_then(|place| self.memory.get(&place));
        let object = || self.objects.at(event).map(|ObjectIx(ix)| &self.by_object[ix as usize]);
        let name = memory().or_else(object).map(|name| name.text.clone());
        name.unwrap_or_else(|| {
            let operation = Operation::decode(&trace.events[event]);
            format!("{:#x}", operation.object().unwrap_or(0))
        })
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
            let is_memory = self.objects.get(ObjectIx(ix)).kind == ObjectKind::Memory;
            (!is_memory).then(|| self.by_object[ix as usize].text.clone())
        };
        let memory = |event: usize| {
            let place = self.accessed.get(event).copied().flatten().filter(|place| place.addr == addr)?;
            Some(self.memory.get(&place)?.text.clone())
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
        let generation = self.blocks.generation(addr);
        let is_there = |place: &&MemoryPlace| (place.addr, place.generation) == (addr, generation);
        // The smallest access names the object itself and not what it is part of.
        let place = self.memory.keys().filter(is_there).min_by_key(|place| place.len)?;
        Some(self.memory.get(place)?.text.clone())
    }

    fn last(&self, fits: impl Fn(&unsnarl_semantics::Object) -> bool) -> Option<String> {
        let ix = self.objects.all.iter().rposition(fits)?;
        Some(self.by_object[ix].text.clone())
    }
}

impl AllocatedBlock {
    /// Returns a name for the bytes at an address of the block, like "block#2+0x10 (queue.c:31)".
    fn name_at(&self, addr: u64) -> String {
        let offset = addr.saturating_sub(self.bytes.first);
        let offset = if offset == 0 { String::new() } else { format!("+{offset:#x}") };
        let place = match self.frame.file.as_deref().zip(self.frame.line) {
            Some((file, line)) => format!("{}:{line}", paths::base(file)),
            None => format!("allocated at {}", self.frame.function.as_deref().unwrap_or("an unknown place")),
        };
        format!("block#{}{offset} ({place})", self.nth)
    }
}

/// The names given so far.
#[derive(Default)]
struct Named {
    /// The number of objects with each name.
    count: HashMap<String, u32>,
    /// The names by expression, address and generation of the block.
    of_memory: HashMap<(String, u64, u32), String>,
    /// The number of accessed places without a name.
    unnamed: u32,
}

impl Named {
    fn global(&mut self, name: String) -> String {
        *self.count.entry(name.clone()).or_default() = 1;
        name
    }

    /// Returns the expression as a name for memory. Accesses to the same memory by several sizes have one name.
    fn of_memory(&mut self, expression: &str, place: MemoryPlace) -> String {
        let key = (expression.to_owned(), place.addr, place.generation);
        if let Some(known) = self.of_memory.get(&key) {
            return known.clone();
        }
        let name = self.unique(expression);
        self.of_memory.insert(key, name.clone());
        name
    }

    /// Returns the expression, with a number if it already names another object.
    fn unique(&mut self, expression: &str) -> String {
        let count = self.count.entry(expression.to_owned()).or_default();
        *count += 1;
        if *count == 1 { expression.to_owned() } else { format!("{expression}#{count}") }
    }

    fn numbered(&mut self) -> String {
        self.unnamed += 1;
        format!("memory#{}", self.unnamed)
    }
}

/// The memory that the events of a run access.
struct AccessedMemory {
    /// For each event.
    accessed: Vec<Option<MemoryPlace>>,
    /// The blocks at the end of the run.
    blocks: Blocks,
    /// By generation.
    allocated: HashMap<u32, AllocatedBlock>,
}

impl AccessedMemory {
    fn of(trace: &Trace, names: &mut dyn Names) -> Self {
        let mut memory = Self { accessed: Vec::new(), blocks: Blocks::default(), allocated: HashMap::new() };
        for event in &trace.events {
            let range = match Operation::decode(event) {
                Operation::Memory(MemoryOp::Access(access)) => access.range,
                Operation::Memory(MemoryOp::Alloc(block)) => {
                    let generation = memory.blocks.renew(block);
                    let nth = memory.allocated.len() as u32 + 1;
                    let frame = match LibraryCall::of(trace, event, names) {
                        Some(call) => call.frame,
                        None => names.place(trace.user_site(event)),
                    };
                    memory.allocated.insert(generation, AllocatedBlock { bytes: block, frame, nth });
                    block
                }
                // Accesses after this are to the same block, although it is freed.
                Operation::Memory(MemoryOp::Free(block)) => block,
                _ => {
                    memory.accessed.push(None);
                    continue;
                }
            };
            let generation = memory.blocks.generation(range.first);
            memory.accessed.push(Some(MemoryPlace { addr: range.first, generation, len: range.len }));
        }
        memory
    }
}

/// Memory that a run accessed, with what can name it.
struct UnnamedMemory {
    place: MemoryPlace,
    global: Option<String>,
    expression: Option<String>,
    /// The call or line of the first access.
    makeshift: Option<String>,
}

/// Returns the accessed memory in the order of the first accesses.
fn memory_of(
    trace: &Trace,
    accessed: &[Option<MemoryPlace>],
    expressions: &mut Expressions,
    names: &mut dyn Names,
) -> Vec<UnnamedMemory> {
    let mut order: Vec<UnnamedMemory> = Vec::new();
    let mut known: HashMap<MemoryPlace, usize> = HashMap::new();
    for (event, place) in trace.events.iter().zip(accessed) {
        let Some(place) = *place else { continue };
        let at = *known.entry(place).or_insert_with(|| {
            let global = names.accessed_variable(place.addr, place.len);
            order.push(UnnamedMemory { place, global, expression: None, makeshift: None });
            order.len() - 1
        });
        let memory = &mut order[at];
        if memory.global.is_none() && memory.expression.is_none() {
            memory.expression = expressions.of(trace, event, names);
            if memory.makeshift.is_none() {
                memory.makeshift = expressions.makeshift(trace, event, names);
            }
        }
    }
    order
}

/// Returns for each object the expression by which the source reaches it, if there is one, and else the call or line of
/// its first use.
fn expressions_of_objects(
    trace: &Trace,
    objects: &Objects,
    globals: &[Option<String>],
    expressions: &mut Expressions,
    names: &mut dyn Names,
) -> Vec<(Option<String>, Option<String>)> {
    let mut found: Vec<(Option<String>, Option<String>)> = vec![(None, None); objects.all.len()];
    for (number, event) in trace.events.iter().enumerate() {
        let Some(ObjectIx(ix)) = objects.at(number) else { continue };
        let ix = ix as usize;
        let (expression, makeshift) = &mut found[ix];
        if expression.is_none() && globals[ix].is_none() && is_variable(objects.all[ix].kind) {
            *expression = expressions.of(trace, event, names);
            if makeshift.is_none() {
                *makeshift = expressions.makeshift(trace, event, names);
            }
        }
    }
    found
}

/// Returns whether objects of this kind are variables of the program, which expressions name.
const fn is_variable(kind: ObjectKind) -> bool {
    use ObjectKind as K;
    matches!(kind, K::Lock | K::RwLock | K::Cond | K::Semaphore | K::Barrier | K::Once)
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
