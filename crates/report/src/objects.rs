//! Names of the objects that threads act on.

use crate::{Names, expressions::Expressions, facts::HoldInterval};
use std::collections::HashMap;
use unsnarl_model::{Event, FileName, ObjectKind, Op, Trace, Warning};
use unsnarl_semantics::{Blocks, MemoryOp, ObjectIx, Objects, Operation, SchedulingOp};

/// A name for each object of a trace: its global variable, or the expression by which the source reaches it, or `lock#1`
/// and `memory#3` in order of appearance. Unlike addresses, that order is the same in every replay.
#[derive(Debug)]
pub struct ObjectNames {
    objects: Objects,
    by_object: Vec<String>,
    /// The names of memory by address, and by generation of the block that it was in: memory that is allocated
    /// again is another object.
    memory: HashMap<MemoryPlace, String>,
    /// For each event its memory.
    accessed: Vec<Option<MemoryPlace>>,
    /// The blocks at the end of the run.
    blocks: Blocks,
    /// The names of the program's own schedule points, by their addresses.
    points: HashMap<u64, String>,
    /// The paths of files, by their objects.
    files: HashMap<u64, String>,
}

/// Memory: its address, and the generation of the block at that address.
type MemoryPlace = (u64, u32);

impl ObjectNames {
    /// Names the objects of a trace.
    pub fn of(trace: &Trace, names: &mut dyn Names) -> Self {
        let objects = Objects::of(&trace.events);
        let (accessed, blocks) = accessed_memory(&trace.events);
        let mut named = Named::default();
        let globals: Vec<Option<String>> =
            objects.all.iter().map(|object| names.variable(object.addr)).collect();
        let mut memory: HashMap<MemoryPlace, String> = HashMap::new();
        let mut expressions = Expressions::default();
        let futexes: HashMap<u64, u32> = (objects.all.iter())
            .filter(|object| object.kind == ObjectKind::Futex)
            .map(|object| (object.addr, object.nth))
            .collect();
        for found in memory_of(trace, &accessed, &mut expressions, names) {
            let name = found.global.map(|name| named.global(name));
            let name = name.or_else(|| found.expression.map(|expression| named.unique(&expression)));
            // A futex word is also accessed by atomic operations; both get the same name.
            let futex =
                || futexes.get(&found.place.0).map(|nth| format!("{}#{nth}", ObjectKind::Futex.name()));
            memory.insert(found.place, name.or_else(futex).unwrap_or_else(|| named.numbered()));
        }
        let expressions = expressions_of_objects(trace, &objects, &globals, &mut expressions, names);
        let files: HashMap<u64, String> = (trace.names.iter())
            .filter(|(addr, _)| FileName::from_addr(*addr).is_some())
            .map(|(addr, path)| (*addr, shortened(path, &trace.program.cwd)))
            .collect();
        let mut by_object = Vec::with_capacity(objects.all.len());
        for ((object, global), expression) in objects.all.iter().zip(globals).zip(expressions) {
            let word = || {
                let is_word = |place: &&MemoryPlace| place.0 == object.addr;
                let first = memory.keys().filter(is_word).min()?;
                (object.kind == ObjectKind::Futex).then(|| memory[first].clone())
            };
            if let Some(path) = files.get(&object.addr) {
                by_object.push(path.clone());
                continue;
            }
            let name = global.map(|name| named.global(name)).or_else(word);
            let name = name.or_else(|| expression.map(|expression| named.unique(&expression)));
            by_object.push(name.unwrap_or_else(|| format!("{}#{}", object.kind.name(), object.nth)));
        }
        let points = trace.events.iter().filter_map(|event| match Operation::decode(event) {
            Operation::Scheduling(SchedulingOp::Point { name }) => Some((name, names.text(name)?)),
            _ => None,
        });
        let points = points.collect();
        Self { objects, by_object, memory, accessed, blocks, points, files }
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

    /// Returns the path of a file.
    pub(crate) fn file(&self, object: u64) -> Option<String> {
        self.files.get(&object).cloned()
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

/// Returns a path relative to the directory of the run, if it is below that.
fn shortened(path: &str, cwd: &str) -> String {
    let below = path.strip_prefix(cwd).and_then(|rest| rest.strip_prefix('/'));
    below.filter(|rest| !rest.is_empty()).unwrap_or(path).to_owned()
}

/// The names given so far.
#[derive(Default)]
struct Named {
    /// The number of objects with each name.
    count: HashMap<String, u32>,
    /// The number of accessed places without a name.
    unnamed: u32,
}

impl Named {
    fn global(&mut self, name: String) -> String {
        *self.count.entry(name.clone()).or_default() = 1;
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

/// Returns the memory that each event accesses, and the blocks at the end of the run.
fn accessed_memory(events: &[Event]) -> (Vec<Option<MemoryPlace>>, Blocks) {
    let mut blocks = Blocks::default();
    let mut accessed = Vec::with_capacity(events.len());
    for event in events {
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
        accessed.push(Some((addr, blocks.generation(addr))));
    }
    (accessed, blocks)
}

/// Memory that a run accessed, with what can name it.
struct AccessedMemory {
    place: MemoryPlace,
    global: Option<String>,
    expression: Option<String>,
}

/// Returns the accessed memory in the order of the first accesses.
fn memory_of(
    trace: &Trace,
    accessed: &[Option<MemoryPlace>],
    expressions: &mut Expressions,
    names: &mut dyn Names,
) -> Vec<AccessedMemory> {
    let mut order: Vec<AccessedMemory> = Vec::new();
    let mut known: HashMap<MemoryPlace, usize> = HashMap::new();
    for (event, place) in trace.events.iter().zip(accessed) {
        let Some(place) = *place else { continue };
        let at = *known.entry(place).or_insert_with(|| {
            order.push(AccessedMemory { place, global: names.variable(place.0), expression: None });
            order.len() - 1
        });
        let memory = &mut order[at];
        if memory.global.is_none() && memory.expression.is_none() {
            memory.expression = expressions.certain(trace, event, names);
        }
    }
    order
}

/// Returns for each object the expression by which the source reaches it, if there is one.
fn expressions_of_objects(
    trace: &Trace,
    objects: &Objects,
    globals: &[Option<String>],
    expressions: &mut Expressions,
    names: &mut dyn Names,
) -> Vec<Option<String>> {
    let mut found: Vec<Option<String>> = vec![None; objects.all.len()];
    for (number, event) in trace.events.iter().enumerate() {
        let Some(ObjectIx(ix)) = objects.at(number) else { continue };
        let ix = ix as usize;
        if found[ix].is_none() && globals[ix].is_none() && is_variable(objects.all[ix].kind) {
            found[ix] = expressions.certain(trace, event, names);
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
