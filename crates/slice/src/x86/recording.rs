//! The words of an instruction trace as steps.
//!
//! The words are read three times: once to learn which code there is, which calls left it and how control came
//! back, and then forwards or backwards as often as somebody asks. Nothing is stored for a step: memory is
//! needed for the words, for each call that left the traced code, and for each instruction of the program.

use super::{Code, Knowledge, Summary, summaries::Touched};
use crate::{CELLS, Flow, History, Place, Span, Step, hash::Hashed};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use unsnarl_insn::{
    Copy, Effects, Layout, MAX_BLOCK, Part, gpr,
    iced::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic},
};
use unsnarl_model::{Event, Flags, Op, ThreadIx};
use unsnarl_wire::{ENTER_WORDS, LEAVE_WORDS, SIGNAL_WORDS, StepKind, StepWord};

/// The words make no sense: the trace was damaged, or it is of other code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// At which word.
    pub word: usize,
}

/// How an instruction passes control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    Next,
    Branch,
    Jump,
    IndirectJump,
    Call,
    Return,
}

/// An instruction that was executed.
#[derive(Clone, Debug)]
pub struct Insn {
    /// Where it is.
    pub pc: u64,
    /// How many bytes it has.
    pub len: u8,
    effects: Effects,
    passes: Passes,
    /// Part of a stub, through which other modules are called: of interest to nobody.
    stub: bool,
    /// A call of a stub.
    calls_stub: bool,
    pushes: bool,
}

#[derive(Clone, Debug)]
struct Block {
    insns: Vec<u32>,
    layout: Layout,
    /// Which argument registers it writes, a bit for each.
    sets_arguments: u8,
}

/// A call of code that is not traced.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its step.
    pub step: u64,
    /// Who called.
    pub thread: ThreadIx,
    /// The instruction that called.
    pub place: Place,
    /// The first six arguments, of as many as there are.
    pub arguments: [u64; 6],
    /// What it returned, if it did.
    pub result: Option<u64>,
    /// The thread that it created.
    pub created: Option<ThreadIx>,
    /// The thread that it joined.
    pub joined: Option<ThreadIx>,
    name: u32,
    stack: u64,
    returns_to: u64,
    /// Control left by a jump: the caller's caller is returned to.
    tail: bool,
    /// How many calls were under way.
    depth: u16,
    /// Which argument registers were set for it.
    set: u8,
    /// Vector registers with arguments.
    vectors: u8,
    /// The caller was itself called from outside and left by a jump: the result goes there.
    ends: Option<u64>,
}

/// How control left.
#[derive(Clone, Copy, Debug)]
enum Left {
    Call(u32),
    /// A function that was called from outside returned: what it returned goes there.
    Return(u64),
}

#[derive(Clone, Copy, Debug)]
struct Entered {
    pc: u64,
    flow: Flow,
    /// The call that it is the return of.
    resumes: Option<u32>,
    /// Where the arguments come from.
    arguments: Option<u64>,
}

/// Where one is in the words.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    word: usize,
    step: u64,
    left: u32,
    entered: u32,
    thread: ThreadIx,
    thread_pointer: u64,
    events: u64,
}

/// A record of the trace, with all that its steps have in common.
#[derive(Clone, Copy, Debug)]
struct Record {
    at: Cursor,
    what: What,
    steps: u64,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A block; whether control left the traced code after it.
    Block(u32, bool),
    Left(u32),
    Entered(u32),
}

/// An instruction trace.
#[derive(Debug)]
pub struct Recording<'a> {
    words: &'a [u64],
    insns: Vec<Insn>,
    by_pc: Hashed<u64, u32>,
    blocks: Vec<Block>,
    by_head: Hashed<u64, u32>,
    calls: Vec<Call>,
    left: Vec<Left>,
    entered: Vec<Entered>,
    names: Vec<(String, Summary)>,
    chunks: Vec<Cursor>,
    steps: u64,
    instructions: u64,
    by_thread: BTreeMap<ThreadIx, OfThread>,
    jumps: HashMap<u64, BTreeSet<u64>>,
    /// Returns from what no traced code called: their steps, who, and where that began.
    returns: Vec<(u64, ThreadIx, u64)>,
}

/// What is known of a thread.
#[derive(Clone, Debug, Default)]
struct OfThread {
    open: Vec<Open>,
    arguments_set: u8,
    last: Option<u32>,
    /// What stubs have pushed since: the loader looks a function up when it is first called.
    pushed: u64,
    last_step: u64,
    instructions: u64,
    stack: Option<(u64, u64)>,
    creator: Option<u32>,
    /// The stack pointers with which functions were entered from outside.
    begins: Vec<u64>,
    /// Where it was last entered from code that nobody traced had called.
    begun: u64,
}

#[derive(Clone, Copy, Debug)]
enum Open {
    Call(u32),
    Signal { pc: u64, stack: u64, begun: bool },
}

/// Words of a trace that are looked at together.
const CHUNK: usize = 1 << 16;

/// rdi, rsi, rdx, rcx, r8, r9.
const ARGUMENTS: [Part; 6] = [gpr(7), gpr(6), gpr(2), gpr(1), gpr(8), gpr(9)];

/// rax, rdx and the first vector register: what a function returns.
static RESULT: [Part; 4] =
    [gpr(0), gpr(2), Part { granule: 16, mask: 0xff }, Part { granule: 17, mask: 0xff }];

/// All that may hold arguments.
static ALL_ARGUMENTS: [Part; 8] = [
    gpr(7),
    gpr(6),
    gpr(2),
    gpr(1),
    gpr(8),
    gpr(9),
    Part { granule: 16, mask: 0xff },
    Part { granule: 24, mask: 0xff },
];

const fn cell(kind: u64, thread: ThreadIx, depth: u16) -> u64 {
    CELLS | kind << 56 | (thread.0 as u64) << 32 | (depth as u64) << 4
}
/// What a call is given.
const GIVEN: u64 = 1;
/// What is passed to a callback.
const PASSED: u64 = 2;
/// What a thread is started with.
const STARTED: u64 = 3;
/// What a thread returned.
const ENDED: u64 = 4;
/// What a callback returned.
const ANSWERED: u64 = 5;

impl<'a> Recording<'a> {
    /// Reads a trace of this code; `name` tells the names of functions elsewhere by their addresses.
    ///
    /// # Errors
    /// If the words make no sense.
    pub fn new(
        words: &'a [u64],
        code: &Code,
        events: &[Event],
        name: &mut dyn FnMut(u64) -> Option<String>,
    ) -> Result<Self, Damaged> {
        let recording = Self {
            words,
            insns: Vec::new(),
            by_pc: Hashed::default(),
            blocks: Vec::new(),
            by_head: Hashed::default(),
            calls: Vec::new(),
            left: Vec::new(),
            entered: Vec::new(),
            names: Vec::new(),
            chunks: Vec::new(),
            steps: 0,
            instructions: 0,
            by_thread: BTreeMap::new(),
            jumps: HashMap::new(),
            returns: Vec::new(),
        };
        let mut learn = Learn {
            recording,
            code,
            events,
            name,
            factory: InstructionInfoFactory::new(),
            known_names: HashMap::new(),
        };
        learn.all()?;
        Ok(learn.recording)
    }

    /// The instruction at a place.
    #[must_use]
    pub fn insn(&self, place: Place) -> &Insn {
        &self.insns[place.0 as usize]
    }

    /// The place of an instruction that was executed.
    #[must_use]
    pub fn place(&self, pc: u64) -> Option<Place> {
        self.by_pc.get(&pc).map(|&number| Place(number))
    }

    /// All instructions that were executed.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        (0..self.insns.len() as u32).map(Place)
    }

    /// How many instructions were executed.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The threads that executed any, each with how many.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadIx, u64)> + '_ {
        self.by_thread.iter().map(|(thread, of)| (*thread, of.instructions))
    }

    /// The thread's latest step.
    #[must_use]
    pub fn last_step(&self, thread: ThreadIx) -> Option<u64> {
        self.by_thread.get(&thread).filter(|of| of.instructions > 0).map(|of| of.last_step)
    }

    /// The calls that left the traced code.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The name of the function that was called; empty if there is none.
    #[must_use]
    pub fn callee(&self, call: &Call) -> &str {
        &self.names[call.name as usize].0
    }

    /// Functions of which nothing is known, by what was called.
    pub fn unknown(&self, call: &Call) -> bool {
        self.names[call.name as usize].1.knowledge == Knowledge::Unknown
    }

    /// Where jumps by address went.
    #[must_use]
    pub fn jumps(&self) -> &HashMap<u64, BTreeSet<u64>> {
        &self.jumps
    }

    /// Whether an address is on the thread's own stack, roughly.
    #[must_use]
    pub fn own_stack(&self, thread: ThreadIx, addr: u64) -> bool {
        const BELOW: u64 = 256 << 10;
        const ABOVE: u64 = 8 << 10;
        self.by_thread
            .get(&thread)
            .and_then(|of| of.stack)
            .is_some_and(|(low, high)| (low.saturating_sub(BELOW)..high + ABOVE).contains(&addr))
    }

    /// The latest return of a thread from the function at this address.
    pub(super) fn returned(&self, thread: ThreadIx, function: u64) -> Option<u64> {
        let from_it = |(_, who, begun): &&(u64, ThreadIx, u64)| (*who, *begun) == (thread, function);
        self.returns.iter().rev().find(from_it).map(|(step, ..)| *step)
    }

    /// The records of a chunk.
    fn records(&self, chunk: usize, records: &mut Vec<Record>) {
        records.clear();
        let mut at = self.chunks[chunk];
        let end = self.chunks.get(chunk + 1).map_or(self.words.len(), |next| next.word);
        while at.word < end {
            let head = StepWord(self.words[at.word]);
            match head.kind() {
                Some(StepKind::Block) => {
                    let block = self.by_head[&head.0];
                    let (next, steps, leaves) = self.extent(at.word, block);
                    records.push(Record { at, what: What::Block(block, leaves), steps });
                    at.step += steps;
                    at.word = next;
                }
                Some(StepKind::Leave) => {
                    records.push(Record { at, what: What::Left(at.left), steps: 1 });
                    at.left += 1;
                    at.step += 1;
                    at.word += 1 + LEAVE_WORDS;
                }
                Some(StepKind::Enter) => {
                    self.who(&mut at);
                    records.push(Record { at, what: What::Entered(at.entered), steps: 1 });
                    at.entered += 1;
                    at.step += 1;
                    at.word += 1 + ENTER_WORDS;
                }
                Some(StepKind::Signal) => at.word += 1 + SIGNAL_WORDS,
                Some(StepKind::Fault) | None => at.word += 1,
            }
        }
    }

    /// Who runs from an entering record on.
    fn who(&self, at: &mut Cursor) {
        let words = &self.words[at.word..];
        at.thread = ThreadIx(words[4] as u16);
        at.events = words[4] >> 16;
        at.thread_pointer = words[5];
    }

    /// Where the record after a block's begins, how many of its instructions were executed, and whether control left
    /// after it.
    fn extent(&self, word: usize, block: u32) -> (usize, u64, bool) {
        let block = &self.blocks[block as usize];
        let next = word + 1 + block.layout.words();
        let mut steps = block.insns.len() as u64;
        let following = self.words.get(next).map(|&word| StepWord(word));
        let kind = following.and_then(StepWord::kind);
        if let (Some(kind @ (StepKind::Fault | StepKind::Signal)), Some(following)) = (kind, following)
            && let Some(at) =
                block.insns.iter().position(|&insn| self.insns[insn as usize].pc == following.pc())
        {
            // What faults was begun; what a signal came before was not.
            steps = at as u64 + u64::from(kind == StepKind::Fault);
        }
        (next, steps, kind == Some(StepKind::Leave))
    }

    /// Shows one step of a record.
    fn show<R>(&self, record: &Record, nth: u64, room: &mut Room, show: impl FnOnce(&Step<'_>) -> R) -> R {
        room.touched.reads.clear();
        room.touched.writes.clear();
        room.touched.may_write.clear();
        let mut step = Step::new(record.at.step + nth, record.at.thread, Place(0));
        step.events = record.at.events;
        match record.what {
            What::Block(block, leaves) => {
                let block = &self.blocks[block as usize];
                let nth = nth as usize;
                let place = block.insns[nth];
                let insn = &self.insns[place as usize];
                step.place = Place(place);
                if insn.stub {
                    step.copy = true;
                    return show(&step);
                }
                let samples = &self.words[record.at.word + 1..];
                room.memory(&block.layout, nth, samples, record.at.thread_pointer);
                step.copy = insn.effects.copy != Copy::No;
                step.uses = &insn.effects.uses;
                step.defs = &insn.effects.defs;
                let is_last = nth + 1 == block.insns.len();
                step.flow = match insn.passes {
                    Passes::Next | Passes::Jump => Flow::Next,
                    Passes::Branch | Passes::IndirectJump => Flow::Branch,
                    Passes::Return => Flow::Return,
                    Passes::Call if insn.calls_stub || is_last && leaves => Flow::Next,
                    Passes::Call => {
                        let (sample, offset) = block.layout.stack[nth].unwrap_or((0, 0));
                        Flow::Call(samples.get(usize::from(sample)).map_or(0, |s| s.wrapping_add(offset)))
                    }
                };
            }
            What::Left(left) => match self.left[left as usize] {
                Left::Call(call) => self.call(&self.calls[call as usize], &mut step, room),
                Left::Return(cell) => {
                    step.copy = true;
                    step.uses = &RESULT;
                    room.touched.writes.push(Span::new(cell, 8));
                }
            },
            What::Entered(entered) => self.enter(&self.entered[entered as usize], &mut step, room),
        }
        let Room { touched, parts } = room;
        if matches!(record.what, What::Left(left) if matches!(self.left[left as usize], Left::Call(_))) {
            step.uses = parts;
        }
        step.reads = &touched.reads;
        step.writes = &touched.writes;
        step.may_write = &touched.may_write;
        step.fresh = touched.fresh.take();
        show(&step)
    }

    /// A call of code that is not traced. What it does to memory it does when it is about to return: it may have had to
    /// wait for other threads before.
    fn call(&self, call: &Call, step: &mut Step<'_>, room: &mut Room) {
        step.place = call.place;
        let summary = &self.names[call.name as usize].1;
        room.parts.clear();
        for (n, &part) in ARGUMENTS.iter().enumerate() {
            let given = n < usize::from(summary.arguments);
            if given || summary.variadic && call.set >> n & 1 == 1 {
                room.parts.push(part);
            }
        }
        let vectors = if summary.variadic { call.vectors } else { summary.vectors };
        for vector in 0..u16::from(vectors.min(8)) {
            room.parts.push(Part { granule: 16 + vector * 8, mask: 0xff });
        }
        if call.result.is_some() {
            step.copy = true;
        } else {
            self.effects(call, room);
        }
        room.touched.writes.push(Span::new(cell(GIVEN, call.thread, call.depth), 8));
        room.touched.writes.push(Span::new(cell(PASSED, call.thread, call.depth), 8));
        if let Some(created) = call.created {
            room.touched.writes.push(Span::new(cell(STARTED, created, 0), 8));
        }
        room.touched.writes.extend(call.ends.map(|cell| Span::new(cell, 8)));
        if self.callee(call) == "pthread_exit" {
            room.touched.writes.push(Span::new(cell(ENDED, call.thread, 0), 8));
        }
    }

    /// What a call did to memory.
    fn effects(&self, call: &Call, room: &mut Room) {
        let summary = &self.names[call.name as usize].1;
        room.touched = summary.touched(call.arguments, call.result);
        if summary.knowledge == Knowledge::Unknown {
            // It may write where it was pointed to.
            for n in (0..6).filter(|n| call.set >> n & 1 == 1) {
                // What points to the runtime's own memory is left over from there.
                let own = 0x6000_0000_0000..0x7000_0000_0000;
                if (0x1_0000..1 << 47).contains(&call.arguments[n]) && !own.contains(&call.arguments[n]) {
                    room.touched.may_write.push(Span::new(call.arguments[n], 64));
                }
            }
        }
    }

    /// Control came back, or came from elsewhere: values arrive in registers.
    fn enter(&self, entered: &Entered, step: &mut Step<'_>, room: &mut Room) {
        step.flow = entered.flow;
        step.place = self.place(entered.pc).unwrap_or(Place(0));
        step.copy = true;
        if let Some(call) = entered.resumes {
            let call = &self.calls[call as usize];
            step.place = call.place;
            step.copy = false;
            step.defs = &RESULT;
            self.effects(call, room);
            room.touched.reads.push(Span::new(cell(GIVEN, call.thread, call.depth), 8));
            room.touched.reads.push(Span::new(cell(ANSWERED, call.thread, call.depth), 8));
            if let Some(joined) = call.joined {
                room.touched.reads.push(Span::new(cell(ENDED, joined, 0), 8));
                if call.arguments[1] >= 4096 && self.callee(call).starts_with("pthread_") {
                    room.touched.writes.push(Span::new(call.arguments[1], 8));
                }
            }
        } else if let Some(from) = entered.arguments {
            step.defs = &ALL_ARGUMENTS;
            room.touched.reads.push(Span::new(from, 8));
        }
    }
}

/// Room for what a step touches, used again and again.
#[derive(Default)]
struct Room {
    touched: Touched,
    parts: Vec<Part>,
}

impl Room {
    fn memory(&mut self, layout: &Layout, nth: usize, samples: &[u64], thread_pointer: u64) {
        for memory in &layout.memories[nth] {
            let sample = |n: u8| samples.get(usize::from(n)).copied().unwrap_or(0);
            let mut addr = memory.sample.map_or(0, sample).wrapping_add(memory.offset);
            if memory.thread_local {
                addr = addr.wrapping_add(thread_pointer);
            }
            let times = memory.repeated.map_or(1, sample).min(1 << 40);
            let span = Span::new(addr, u64::from(memory.size).wrapping_mul(times));
            if span.len == 0 || addr >= CELLS {
                continue;
            }
            if memory.read || memory.write && !memory.certain {
                self.touched.reads.push(span);
            }
            if memory.write {
                let list =
                    if memory.certain { &mut self.touched.writes } else { &mut self.touched.may_write };
                list.push(span);
            }
        }
    }
}

impl History for Recording<'_> {
    fn len(&self) -> u64 {
        self.steps
    }

    fn forwards(&self, show: &mut dyn FnMut(&Step<'_>)) {
        let (mut records, mut room) = (Vec::new(), Room::default());
        for chunk in 0..self.chunks.len() {
            self.records(chunk, &mut records);
            for record in &records {
                (0..record.steps).for_each(|nth| self.show(record, nth, &mut room, &mut *show));
            }
        }
    }

    fn backwards(&self, from: u64, show: &mut dyn FnMut(&Step<'_>) -> bool) {
        let (mut records, mut room) = (Vec::new(), Room::default());
        let last = self.chunks.partition_point(|chunk| chunk.step <= from);
        for chunk in (0..last).rev() {
            self.records(chunk, &mut records);
            for record in records.iter().rev() {
                for nth in (0..record.steps).rev().filter(|nth| record.at.step + nth <= from) {
                    if !self.show(record, nth, &mut room, &mut *show) {
                        return;
                    }
                }
            }
        }
    }
}

/// The first reading.
struct Learn<'a, 'b> {
    recording: Recording<'a>,
    code: &'b Code,
    events: &'b [Event],
    name: &'b mut dyn FnMut(u64) -> Option<String>,
    factory: InstructionInfoFactory,
    known_names: HashMap<String, u32>,
}

impl Learn<'_, '_> {
    fn all(&mut self) -> Result<(), Damaged> {
        let words = self.recording.words;
        let mut at = Cursor {
            word: 0,
            step: 0,
            left: 0,
            entered: 0,
            thread: ThreadIx::MAIN,
            thread_pointer: 0,
            events: 0,
        };
        let mut next_chunk = 0;
        // A jump by address whose target is the next block.
        let mut jumped = None;
        while at.word < words.len() {
            let head = StepWord(words[at.word]);
            let kind = head.kind().ok_or(Damaged { word: at.word })?;
            if at.word >= next_chunk && matches!(kind, StepKind::Block | StepKind::Enter) {
                self.recording.chunks.push(at);
                next_chunk = at.word + CHUNK;
            }
            let following = match kind {
                StepKind::Block => 0,
                StepKind::Leave => LEAVE_WORDS,
                StepKind::Enter => ENTER_WORDS,
                StepKind::Signal => SIGNAL_WORDS,
                StepKind::Fault => 0,
            };
            if at.word + following >= words.len() {
                // The target died in the middle of a record.
                break;
            }
            match kind {
                StepKind::Block => {
                    if let Some(from) = jumped.take() {
                        self.recording.jumps.entry(from).or_default().insert(head.pc());
                    }
                    let block = self.block(head).ok_or(Damaged { word: at.word })?;
                    let (next, steps, _) = self.recording.extent(at.word, block);
                    if next > words.len() {
                        break;
                    }
                    jumped = self.executed(&at, block, steps);
                    at.step += steps;
                    at.word = next;
                }
                StepKind::Leave => {
                    self.leave(&at);
                    at.left += 1;
                    at.step += 1;
                    at.word += 1 + LEAVE_WORDS;
                    jumped = None;
                }
                StepKind::Enter => {
                    let events = at.events;
                    self.recording.who(&mut at);
                    self.happened(events, at.events);
                    self.enter(&at);
                    at.entered += 1;
                    at.step += 1;
                    at.word += 1 + ENTER_WORDS;
                }
                StepKind::Signal => {
                    let open = Open::Signal { pc: head.pc(), stack: words[at.word + 1], begun: false };
                    self.thread(at.thread).open.push(open);
                    at.word += 1 + SIGNAL_WORDS;
                    jumped = None;
                }
                StepKind::Fault => at.word += 1,
            }
        }
        self.recording.words = &words[..at.word];
        self.recording.steps = at.step;
        Ok(())
    }

    fn thread(&mut self, thread: ThreadIx) -> &mut OfThread {
        self.recording.by_thread.entry(thread).or_default()
    }

    /// The block that a head tells of.
    fn block(&mut self, head: StepWord) -> Option<u32> {
        if let Some(&known) = self.recording.by_head.get(&head.0) {
            return Some(known);
        }
        let mut instructions = Vec::with_capacity(head.count().into());
        let mut pc = head.pc();
        for _ in 0..head.count().min(MAX_BLOCK as u8) {
            let instruction = self.code.decode(pc)?;
            pc = instruction.next_ip();
            instructions.push(instruction);
        }
        let layout = Layout::of(&instructions, &mut self.factory);
        let insns: Vec<u32> = instructions.iter().map(|instruction| self.insn(instruction)).collect();
        let mut sets_arguments = 0;
        for &insn in &insns {
            for part in &self.recording.insns[insn as usize].effects.defs {
                if let Some(n) = ARGUMENTS.iter().position(|argument| argument.granule == part.granule) {
                    sets_arguments |= 1 << n;
                }
            }
        }
        let number = self.recording.blocks.len() as u32;
        self.recording.blocks.push(Block { insns, layout, sets_arguments });
        self.recording.by_head.insert(head.0, number);
        Some(number)
    }

    fn insn(&mut self, instruction: &Instruction) -> u32 {
        let pc = instruction.ip();
        if let Some(&known) = self.recording.by_pc.get(&pc) {
            return known;
        }
        let passes = match instruction.flow_control() {
            FlowControl::ConditionalBranch => Passes::Branch,
            FlowControl::UnconditionalBranch => Passes::Jump,
            FlowControl::IndirectBranch => Passes::IndirectJump,
            FlowControl::Call | FlowControl::IndirectCall if instruction.mnemonic() == Mnemonic::Call => {
                Passes::Call
            }
            FlowControl::Return => Passes::Return,
            _ => Passes::Next,
        };
        let number = self.recording.insns.len() as u32;
        self.recording.insns.push(Insn {
            pc,
            len: instruction.len() as u8,
            effects: Effects::of(instruction, &mut self.factory),
            passes,
            stub: self.code.is_stub(pc),
            pushes: instruction.mnemonic() == Mnemonic::Push,
            calls_stub: passes == Passes::Call && self.code.is_stub(instruction.near_branch_target()),
        });
        self.recording.by_pc.insert(pc, number);
        number
    }

    /// Some instructions were executed; the address of the last one if it jumped by address.
    fn executed(&mut self, at: &Cursor, block: u32, steps: u64) -> Option<u64> {
        let Recording { blocks, insns, by_thread, instructions, .. } = &mut self.recording;
        let block = &blocks[block as usize];
        let of = by_thread.entry(at.thread).or_default();
        *instructions += steps;
        of.instructions += steps;
        of.arguments_set |= block.sets_arguments;
        let executed = &block.insns[..steps as usize];
        for &number in executed.iter().rev() {
            let insn = &insns[number as usize];
            if !insn.stub {
                of.last = Some(number);
                of.pushed = 0;
                break;
            }
        }
        let stubs = executed.iter().rev().map(|&number| &insns[number as usize]).take_while(|i| i.stub);
        of.pushed += 8 * stubs.filter(|insn| insn.pushes).count() as u64;
        if steps > 0 {
            of.last_step = at.step + steps - 1;
        }
        let last = &insns[*executed.last()? as usize];
        (last.passes == Passes::IndirectJump && !last.stub).then_some(last.pc)
    }

    fn leave(&mut self, at: &Cursor) {
        let words = &self.recording.words[at.word..];
        let target = StepWord(words[0]).pc();
        let of = self.recording.by_thread.entry(at.thread).or_default();
        let stack = words[1] + of.pushed;
        of.see_stack(stack);
        of.last_step = at.step;
        let calls_open = |open: &[Open]| open.iter().filter(|o| matches!(o, Open::Call(_))).count() as u16;
        let depth = calls_open(&of.open);
        let Some(last) = of.last else {
            self.recording.left.push(Left::Return(cell(ENDED, at.thread, 0)));
            return;
        };
        let insn = &self.recording.insns[last as usize];
        if insn.passes == Passes::Return {
            of.begins.pop();
            let to = if depth == 0 {
                self.recording.returns.push((at.step, at.thread, of.begun));
                cell(ENDED, at.thread, 0)
            } else {
                cell(ANSWERED, at.thread, depth - 1)
            };
            self.recording.left.push(Left::Return(to));
            return;
        }
        let set = of.arguments_set;
        let call = Call {
            step: at.step,
            thread: at.thread,
            place: Place(last),
            arguments: [words[2], words[3], words[4], words[5], words[6], words[7]],
            result: None,
            created: None,
            joined: None,
            name: 0,
            stack,
            returns_to: insn.pc + u64::from(insn.len),
            tail: insn.passes != Passes::Call,
            depth,
            set,
            vectors: words[8] as u8,
            ends: None,
        };
        let number = self.recording.calls.len() as u32;
        let returns_outside = call.tail && of.begins.last() == Some(&stack);
        let ends = returns_outside.then(|| {
            of.begins.pop();
            if depth == 0 { cell(ENDED, at.thread, 0) } else { cell(ANSWERED, at.thread, depth - 1) }
        });
        if !returns_outside {
            of.open.push(Open::Call(number));
        }
        self.recording.left.push(Left::Call(number));
        let name = self.name_of(last, target);
        self.recording.calls.push(Call { name, ends, ..call });
    }

    /// The number of the name of what was called.
    fn name_of(&mut self, insn: u32, target: u64) -> u32 {
        let pc = self.recording.insns[insn as usize].pc;
        let instruction = self.code.decode(pc);
        let imported = instruction.as_ref().and_then(|i| self.code.imported(i)).map(str::to_owned);
        let name = imported.or_else(|| (self.name)(target)).unwrap_or_default();
        let names = &mut self.recording.names;
        *self.known_names.entry(name).or_insert_with_key(|name| {
            names.push((name.clone(), Summary::of(name)));
            names.len() as u32 - 1
        })
    }

    /// Events of the schedule that came while control was elsewhere.
    fn happened(&mut self, from: u64, to: u64) {
        for event in self.events.iter().skip(from as usize).take(to.saturating_sub(from) as usize) {
            if event.flags.has(Flags::FAILED) || !matches!(event.op, Op::Create | Op::Join) {
                continue;
            }
            let other = ThreadIx(event.value as u16);
            let Some(&Open::Call(call)) = self.thread(event.thread).open.last() else { continue };
            if event.op == Op::Create {
                self.recording.calls[call as usize].created = Some(other);
                self.thread(other).creator = Some(call);
            } else {
                self.recording.calls[call as usize].joined = Some(other);
            }
        }
    }

    fn enter(&mut self, at: &Cursor) {
        let words = &self.recording.words[at.word..];
        let (pc, stack, result) = (StepWord(words[0]).pc(), words[1], words[2]);
        let Recording { by_thread, calls, entered, .. } = &mut self.recording;
        let of = by_thread.entry(at.thread).or_default();
        of.see_stack(stack);
        of.last_step = at.step;
        let first = of.open.is_empty();
        let mut new = Entered { pc, flow: Flow::Begin(None), resumes: None, arguments: None };
        match of.open.last_mut() {
            Some(&mut Open::Call(call)) => {
                let called = &mut calls[call as usize];
                let returned = stack == called.stack + 8;
                if returned && (called.tail || pc == called.returns_to) {
                    called.result = Some(result);
                    new.flow = if called.tail { Flow::Return } else { Flow::Next };
                    new.resumes = Some(call);
                    of.open.pop();
                    // What the callee left in them is nobody's argument.
                    of.arguments_set = 0;
                } else if returned {
                    // Caught in the very function that threw.
                    new.flow = Flow::Next;
                    of.open.pop();
                } else if stack > called.stack {
                    new.flow = Flow::Unwound(stack);
                    of.unwind(stack, calls);
                } else {
                    new.flow = Flow::Begin(Some(called.step));
                    new.arguments = Some(cell(PASSED, at.thread, called.depth));
                    of.arguments_set = 0x3f;
                }
            }
            Some(Open::Signal { pc: interrupted, stack: then, begun }) => {
                if (*interrupted, *then) == (pc, stack) {
                    new.flow = Flow::Next;
                    of.open.pop();
                } else if *begun {
                    // The handler did not come back: it jumped out.
                    new.flow = Flow::Unwound(stack);
                    of.open.pop();
                    of.unwind(stack, calls);
                } else {
                    *begun = true;
                }
            }
            None => {}
        }
        if first {
            of.begun = pc;
            of.arguments_set = 0x3f;
            if let Some(creator) = of.creator.filter(|_| of.instructions == 0) {
                new.flow = Flow::Begin(Some(calls[creator as usize].step));
                new.arguments = Some(cell(STARTED, at.thread, 0));
            }
        }
        if matches!(new.flow, Flow::Begin(_)) {
            of.begins.push(stack);
        }
        entered.push(new);
    }
}

impl OfThread {
    fn see_stack(&mut self, stack: u64) {
        let (low, high) = self.stack.unwrap_or((stack, stack));
        // A handler may have a stack of its own, far away.
        if stack.abs_diff(high) < 64 << 20 {
            self.stack = Some((low.min(stack), high.max(stack)));
        }
    }

    /// Calls whose stack is gone are no longer under way.
    fn unwind(&mut self, stack: u64, calls: &[Call]) {
        while let Some(&Open::Call(call)) = self.open.last()
            && calls[call as usize].stack < stack
        {
            self.open.pop();
        }
        while self.begins.last().is_some_and(|&begun| begun < stack) {
            self.begins.pop();
        }
    }
}
