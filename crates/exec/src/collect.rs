//! Converts the contents of the shared memory to a trace after the target has ended.

use crate::{memory::SharedMemory, monitor::LimitReached, outcome};
use std::{collections::HashMap, process::ExitStatus, sync::Arc};
use unsnarl_model::{
    Action, Conflict, ConflictKind, Divergence, Event, Input, Misuse, Module, ModuleIx, Op, Output, Plan,
    Program, Side, Site, SiteIx, Thread, ThreadId, ThreadIx, Trace, Warning,
};
use unsnarl_symbols::{Symbols, Unwinder, build_id};
use unsnarl_wire::{End, EndKind, RUNTIME_LIBRARY, RawInput, RawStack};

/// Pseudo-module of code outside every module: generated at run time, or a wild jump.
const NO_MODULE: &str = "[no module]";

/// Data read from the files of the program and its libraries, kept from run to run.
#[derive(Default)]
pub(crate) struct ModuleFiles {
    pub(crate) symbols: Symbols,
    pub(crate) unwinder: Unwinder,
    build_ids: HashMap<String, Vec<u8>>,
}

impl ModuleFiles {
    fn build_id(&mut self, path: &str) -> Vec<u8> {
        self.build_ids.entry(path.to_owned()).or_insert_with(|| build_id(path.as_ref())).clone()
    }
}

pub(crate) fn trace(
    memory: &SharedMemory,
    files: &mut ModuleFiles,
    program: &Program,
    plan: &Plan,
    end: (ExitStatus, Option<LimitReached>),
    output: Output,
) -> Trace {
    let mut modules = modules(memory, program);
    for module in &mut modules {
        module.build_id = files.build_id(&module.path);
    }
    let mut site_table = SiteTable::new(&modules);
    let events: Vec<Event> = memory
        .events()
        .iter()
        .filter_map(|raw| {
            Some(Event {
                thread: raw.thread(),
                op: raw.op()?,
                flags: raw.flags(),
                order: raw.order(),
                site: site_table.intern(raw.pc()),
                // Calling contexts come from another run.
                context: 0,
                size: raw.size(),
                addr: raw.addr,
                value: raw.value(),
            })
        })
        .collect();
    let threads = threads(memory, &site_table);
    let mut races = conflicts(memory, &site_table);
    races.retain(|conflict| conflict.kind == ConflictKind::Race);
    Trace {
        races,
        counterfactuals: Vec::new(),
        callers: Vec::new(),
        contexts: Vec::new(),
        names: Vec::new(),
        program: program.clone(),
        plan: Plan { inputs: Some(Arc::new(inputs(memory, &threads))), ..plan.clone() },
        warnings: warnings(memory, &site_table, &events),
        program_warnings: Vec::new(),
        native: false,
        outcome: outcome::outcome(memory, files, &modules, &site_table, end, &output, (&threads, &events)),
        threads,
        sites: site_table.sites,
        events,
        modules,
        output,
    }
}

/// Returns the results of I/O with peers outside the program.
fn inputs(memory: &SharedMemory, threads: &[Thread]) -> Vec<Input> {
    let collected = memory.inputs().into_iter().filter_map(|(raw, bytes)| {
        Some(Input {
            thread: threads.get(raw.thread as usize)?.id.clone(),
            op: Op::from_number(raw.op as u8)?,
            timed_out: raw.flags & RawInput::TIMED_OUT != 0,
            blocked: raw.flags & RawInput::BLOCKED != 0,
            requested: raw.requested,
            result: raw.result,
            bytes: bytes.to_vec(),
        })
    });
    collected.collect()
}

pub(crate) fn modules(memory: &SharedMemory, program: &Program) -> Vec<Module> {
    let loaded = memory.modules().iter().map(|raw| {
        let path = text(&raw.path);
        Module {
            path: if path.is_empty() { program.path.clone() } else { path },
            build_id: Vec::new(),
            base: raw.base,
            size: raw.end - raw.base,
        }
    });
    let no_module = Module { path: NO_MODULE.into(), ..Module::default() };
    loaded.chain([no_module]).collect()
}

/// Maps code addresses to sites.
pub(crate) struct SiteTable {
    /// Begin, end, module and base of each module, the highest begin first.
    ranges: Vec<(u64, u64, ModuleIx, u64)>,
    no_module: ModuleIx,
    known: HashMap<u64, SiteIx>,
    sites: Vec<Site>,
}

impl SiteTable {
    pub(crate) fn new(modules: &[Module]) -> Self {
        let numbered =
            modules.iter().enumerate().map(|(ix, m)| (m.base, m.base + m.size, ModuleIx(ix as u16), m.base));
        let mut ranges: Vec<_> = numbered.filter(|(from, to, ..)| from < to).collect();
        // A program at fixed addresses has base 0 and would match every address, so it is searched last.
        ranges.sort_by_key(|&(from, ..)| std::cmp::Reverse(from));
        let no_module = ModuleIx(modules.len().saturating_sub(1) as u16);
        Self { ranges, no_module, known: HashMap::new(), sites: Vec::new() }
    }

    /// Returns the site of a code address.
    pub(crate) fn site(&self, addr: u64) -> Site {
        let found = self.ranges.iter().find(|(from, to, ..)| (*from..*to).contains(&addr));
        found.map_or(
            Site { module: self.no_module, offset: addr & 0xff_ffff_ffff },
            |&(_, _, module, base)| Site { module, offset: addr - base },
        )
    }

    /// Returns the site of the call that returns to `pc`.
    pub(crate) fn caller(&self, pc: u64) -> Site {
        self.site(pc.saturating_sub(1))
    }

    fn intern(&mut self, pc: u64) -> SiteIx {
        if let Some(&known) = self.known.get(&pc) {
            return known;
        }
        let ix = SiteIx(self.sites.len() as u32);
        self.sites.push(self.caller(pc));
        self.known.insert(pc, ix);
        ix
    }
}

fn threads(memory: &SharedMemory, site_table: &SiteTable) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    for (ix, raw) in memory.threads().iter().enumerate() {
        let id = if ix == 0 {
            ThreadId::main()
        } else {
            threads.get(raw.parent as usize).map_or_else(ThreadId::main, |parent| parent.id.child(raw.nth))
        };
        threads.push(Thread { id, name: text(&raw.name), start: site_table.site(raw.start) });
    }
    threads
}

fn warnings(memory: &SharedMemory, site_table: &SiteTable, events: &[Event]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = memory
        .warnings()
        .iter()
        .filter_map(|raw| {
            Some(Warning {
                misuse: Misuse::from_number(raw.misuse as u8)?,
                thread: ThreadIx(raw.thread as u16),
                site: site_table.caller(raw.pc),
                addr: raw.addr,
                at: raw.at,
                detail: text(&raw.detail),
            })
        })
        .collect();
    let exited = matches!(memory.header().end.kind, EndKind::Exit) && events.iter().any(|e| e.op == Op::Exit);
    for (ix, raw) in memory.threads().iter().enumerate().skip(1) {
        if exited && raw.joined_or_detached == 0 {
            warnings.push(Warning {
                misuse: Misuse::LeakedThread,
                thread: ThreadIx(ix as u16),
                site: site_table.site(raw.start),
                addr: 0,
                at: events.len() as u64,
                detail: String::new(),
            });
        }
    }
    warnings
}

/// Returns the conflicts that the runtime found.
pub(crate) fn conflicts(memory: &SharedMemory, site_table: &SiteTable) -> Vec<Conflict> {
    let collected = memory.conflicts().iter().filter_map(|raw| {
        let side = |at: usize| {
            Some(Side {
                thread: ThreadIx(raw.threads[at]),
                op: Op::from_number(raw.ops[at])?,
                site: site_table.caller(raw.pcs[at]),
            })
        };
        Some(Conflict {
            kind: ConflictKind::from_number(raw.kind)?,
            addr: raw.addr,
            sides: [side(0)?, side(1)?],
        })
    });
    collected.collect()
}

/// Returns the call stacks of both sides of the requested conflict.
pub(crate) fn conflict_stacks(
    memory: &SharedMemory,
    files: &mut ModuleFiles,
    program: &Program,
) -> [Vec<Site>; 2] {
    let modules = modules(memory, program);
    memory.side_stacks().map(|copied| {
        copied.map_or_else(Vec::new, |stack| program_frames(&mut files.unwinder, &modules, &stack))
    })
}

/// Returns the call stacks of the requested events.
pub(crate) fn event_stacks(
    memory: &SharedMemory,
    files: &mut ModuleFiles,
    program: &Program,
) -> Vec<(u64, Vec<Site>)> {
    let modules = modules(memory, program);
    let stacks = memory.call_stacks().into_iter();
    stacks.map(|(number, stack)| (number, program_frames(&mut files.unwinder, &modules, &stack))).collect()
}

/// Unwinds a stack that the runtime copied, and drops the runtime's own frames.
fn program_frames(unwinder: &mut Unwinder, modules: &[Module], stack: &(RawStack, &[u8])) -> Vec<Site> {
    let mut frames = outcome::backtrace(unwinder, modules, stack).frames;
    // The innermost frames belong to the runtime.
    let ours = |site: &Site| modules[site.module.0 as usize].path.ends_with(RUNTIME_LIBRARY);
    frames.drain(..frames.iter().take_while(|site| ours(site)).count());
    frames
}

/// Returns where the run diverged from its plan.
pub(crate) fn divergence(memory: &SharedMemory, program: &Program, plan: &Plan) -> Option<Divergence> {
    let end = &memory.header().end;
    if !matches!(end.kind, EndKind::Diverged | EndKind::PlanEnd) {
        return None;
    }
    let modules = modules(memory, program);
    let site_table = SiteTable::new(&modules);
    let planned = plan.prefix.actions.get(end.diverged_point as usize);
    let expected = planned.and_then(|planned| planned.action()).map(|&action| {
        let path = plan.prefix.modules.get(action.site.module.0 as usize).cloned();
        (action, path.unwrap_or_default())
    });
    let actual = end.diverged_op.checked_sub(1).and_then(|op| Op::from_number(op as u8)).map(|op| {
        let site = site_table.caller(end.pc);
        (Action { op, site }, modules[site.module.0 as usize].path.clone())
    });
    let thread = if end.kind == EndKind::PlanEnd {
        threads(memory, &site_table).get(end.thread as usize).map(|t| t.id.clone()).unwrap_or_default()
    } else {
        // The wire numbers threads by its own table; the plan's order maps the number back to an id.
        thread_at(&crate::memory::threads_of(plan), end.diverged_thread)
    };
    Some(Divergence { point: end.diverged_point, thread, expected, actual })
}

/// Returns the thread at an entry of the wire's table.
fn thread_at(ids: &[ThreadId], entry: u32) -> ThreadId {
    crate::memory::plan_order(ids).into_iter().nth(entry as usize).unwrap_or_default()
}

/// Returns the message with which the run ended.
pub(crate) fn message(end: &End) -> String {
    let len = (end.message_len as usize).min(end.message.len());
    String::from_utf8_lossy(&end.message[..len]).into_owned()
}

fn text(field: &[u8]) -> String {
    let len = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..len]).into_owned()
}
