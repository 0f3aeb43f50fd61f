//! The words of an instruction trace as steps.
//!
//! The words are read several times: once to find the code, the calls that left it and how control returned
//! ([`FirstPass`]), and then forwards or backwards as often as needed. Nothing is stored for a step: memory
//! is needed for the words, for each call that left the traced code, and for each instruction of the program.

use super::{
    Call, Code, Insn, Summary, SummaryQuality, WordSource,
    calls::{EntryRecord, ExitRecord, RESULT, Scratch},
    first_pass::FirstPass,
    insns::{ControlTransfer, Insns},
    threads::ThreadRecord,
    words::{RecordKind, TraceRecord, WordCursor, WordWindow},
};
use crate::{ByteSpan, CELLS, Flow, History, InstructionIx, InstructionStep};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use unsnarl_insn::{BlockLayout, CopyKind};
use unsnarl_model::{Event, ThreadIx};
use unsnarl_wire::{ENTER_WORDS, LEAVE_WORDS, SIGNAL_WORDS, StepKind, StepWord};

/// The words are invalid: the trace is damaged, or belongs to other code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceCorrupt {
    /// The number of the word.
    pub word: u64,
}

/// An instruction trace.
#[derive(Debug)]
pub struct Recording<'a> {
    pub(super) words: &'a dyn WordSource,
    /// The number of words in complete records.
    pub(super) end: u64,
    pub(super) insns: Insns,
    pub(super) calls: Vec<Call>,
    pub(super) exits: Vec<ExitRecord>,
    pub(super) entries: Vec<EntryRecord>,
    pub(super) names: Vec<(String, Summary)>,
    /// The first record of each chunk.
    pub(super) chunks: Vec<WordCursor>,
    pub(super) steps: u64,
    pub(super) instructions: u64,
    pub(super) by_thread: BTreeMap<ThreadIx, ThreadRecord>,
    pub(super) jumps: HashMap<u64, BTreeSet<u64>>,
    /// Returns from functions that no traced code called: step, thread, and the function's address.
    pub(super) returns: Vec<(u64, ThreadIx, u64)>,
}

impl<'a> Recording<'a> {
    /// Reads a trace of this code; `name` returns the names of functions elsewhere by address.
    ///
    /// # Errors If the words are invalid.
    pub fn new(
        words: &'a dyn WordSource,
        code: &Code,
        events: &[Event],
        name: &mut dyn FnMut(u64) -> Option<String>,
    ) -> Result<Self, TraceCorrupt> {
        let recording = Self {
            words,
            end: words.len(),
            insns: Insns::default(),
            calls: Vec::new(),
            exits: Vec::new(),
            entries: Vec::new(),
            names: Vec::new(),
            chunks: Vec::new(),
            steps: 0,
            instructions: 0,
            by_thread: BTreeMap::new(),
            jumps: HashMap::new(),
            returns: Vec::new(),
        };
        FirstPass::new(recording, code, events, name).run()
    }

    /// Returns an instruction by its number.
    #[must_use]
    pub fn insn(&self, instruction: InstructionIx) -> &Insn {
        self.insns.insn(instruction.0)
    }

    /// Returns the number of an executed instruction.
    #[must_use]
    pub fn instruction_at(&self, pc: u64) -> Option<InstructionIx> {
        self.insns.instruction_at(pc)
    }

    /// Iterates over all executed instructions.
    pub fn all_instructions(&self) -> impl Iterator<Item = InstructionIx> + '_ {
        (0..self.insns.len()).map(InstructionIx)
    }

    /// Returns the number of executed instructions.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Iterates over the threads that executed instructions, with the number of instructions.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadIx, u64)> + '_ {
        self.by_thread.iter().map(|(thread, record)| (*thread, record.instructions))
    }

    /// Returns the thread's latest step.
    #[must_use]
    pub fn last_step(&self, thread: ThreadIx) -> Option<u64> {
        self.by_thread.get(&thread).filter(|thread| thread.instructions > 0).map(|thread| thread.last_step)
    }

    /// Returns the calls that left the traced code.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Returns the name of the called function; empty if it has none.
    #[must_use]
    pub fn callee(&self, call: &Call) -> &str {
        &self.names[call.name as usize].0
    }

    /// Returns whether nothing is known about the called function.
    pub fn is_unknown(&self, call: &Call) -> bool {
        self.names[call.name as usize].1.quality == SummaryQuality::Unknown
    }

    /// Returns the targets of indirect jumps.
    #[must_use]
    pub fn jumps(&self) -> &HashMap<u64, BTreeSet<u64>> {
        &self.jumps
    }

    /// Returns whether an address is on the thread's own stack, approximately.
    #[must_use]
    pub fn own_stack(&self, thread: ThreadIx, addr: u64) -> bool {
        const BELOW: u64 = 256 << 10;
        const ABOVE: u64 = 8 << 10;
        self.by_thread
            .get(&thread)
            .and_then(|thread| thread.stack)
            .is_some_and(|(low, high)| (low.saturating_sub(BELOW)..high + ABOVE).contains(&addr))
    }

    /// Returns a thread's latest return from the function at this address.
    pub(super) fn returned(&self, thread: ThreadIx, function: u64) -> Option<u64> {
        let from_it =
            |(_, thread_ix, entered): &&(u64, ThreadIx, u64)| (*thread_ix, *entered) == (thread, function);
        self.returns.iter().rev().find(from_it).map(|(step, ..)| *step)
    }

    /// Reads the records of a chunk; returns false if the work was cancelled.
    pub(super) fn records(
        &self,
        chunk: usize,
        window: &mut WordWindow,
        records: &mut Vec<TraceRecord>,
    ) -> bool {
        records.clear();
        if !window.move_to(self.words, chunk) {
            return false;
        }
        let mut at = self.chunks[chunk];
        let end = self.chunks.get(chunk + 1).map_or(self.end, |next| next.word);
        while at.word < end {
            let words = window.from(at.word);
            let head = StepWord(words[0]);
            match head.kind() {
                Some(StepKind::Block) => {
                    let Some(block) = self.insns.known(head) else { return false };
                    let (next, steps, leaves) = self.extent(words, block);
                    records.push(TraceRecord { at, kind: RecordKind::Block(block, leaves), steps });
                    at.step += steps;
                    at.word += next;
                }
                Some(StepKind::Leave) => {
                    records.push(TraceRecord { at, kind: RecordKind::Exit(at.exits), steps: 1 });
                    at.exits += 1;
                    at.step += 1;
                    at.word += 1 + LEAVE_WORDS as u64;
                }
                Some(StepKind::Enter) => {
                    at.enter(words);
                    records.push(TraceRecord { at, kind: RecordKind::Entry(at.entries), steps: 1 });
                    at.entries += 1;
                    at.step += 1;
                    at.word += 1 + ENTER_WORDS as u64;
                }
                Some(StepKind::Signal) => at.word += 1 + SIGNAL_WORDS as u64,
                Some(StepKind::Fault) | None => at.word += 1,
            }
        }
        true
    }

    /// Returns the number of words of a block's record, the number of its executed instructions, and whether
    /// control left the traced code after it.
    pub(super) fn extent(&self, words: &[u64], block: u32) -> (u64, u64, bool) {
        let block = self.insns.block(block);
        let next = 1 + block.layout.words();
        let mut steps = block.insns.len() as u64;
        let following = words.get(next).map(|&word| StepWord(word));
        let kind = following.and_then(StepWord::kind);
        if let (Some(kind @ (StepKind::Fault | StepKind::Signal)), Some(following)) = (kind, following)
            && let Some(at) = block.insns.iter().position(|&insn| self.insns.insn(insn).pc == following.pc())
        {
            // A faulting instruction was begun; an instruction interrupted by a signal was not.
            steps = at as u64 + u64::from(kind == StepKind::Fault);
        }
        (next as u64, steps, kind == Some(StepKind::Leave))
    }

    /// Visits one step of a record.
    fn visit_step<R>(
        &self,
        record: &TraceRecord,
        nth: u64,
        window: &WordWindow,
        scratch: &mut Scratch,
        visit: impl FnOnce(&InstructionStep<'_>) -> R,
    ) -> R {
        scratch.touched.reads.clear();
        scratch.touched.writes.clear();
        scratch.touched.may_write.clear();
        let mut step = InstructionStep::new(record.at.step + nth, record.at.thread, InstructionIx(0));
        step.events = record.at.events;
        match record.kind {
            RecordKind::Block(block, leaves) => {
                let block = self.insns.block(block);
                let nth = nth as usize;
                let instruction = block.insns[nth];
                let insn = self.insns.insn(instruction);
                step.instruction = InstructionIx(instruction);
                if insn.stub {
                    step.copy = true;
                    return visit(&step);
                }
                let samples = &window.from(record.at.word)[1..];
                scratch.memory(&block.layout, nth, samples, record.at.thread_pointer);
                step.copy = insn.effects.copy != CopyKind::No;
                step.atomic = insn.effects.atomic;
                step.uses = &insn.effects.uses;
                step.defs = &insn.effects.defs;
                let is_last = nth + 1 == block.insns.len();
                step.flow = match insn.transfer {
                    ControlTransfer::Next | ControlTransfer::Jump => Flow::Next,
                    ControlTransfer::Branch | ControlTransfer::IndirectJump => Flow::Branch,
                    ControlTransfer::Return => Flow::Return,
                    ControlTransfer::Call if insn.calls_stub || is_last && leaves => Flow::Next,
                    ControlTransfer::Call => {
                        let (sample, offset) = block.layout.stack[nth].unwrap_or((0, 0));
                        Flow::Call(samples.get(usize::from(sample)).map_or(0, |s| s.wrapping_add(offset)))
                    }
                };
            }
            RecordKind::Exit(exit) => match self.exits[exit as usize] {
                ExitRecord::Call(call) => self.call(&self.calls[call as usize], &mut step, scratch),
                ExitRecord::Return(cell) => {
                    step.copy = true;
                    step.uses = &RESULT;
                    scratch.touched.writes.push(ByteSpan::new(cell, 8));
                }
            },
            RecordKind::Entry(entry) => self.enter(&self.entries[entry as usize], &mut step, scratch),
        }
        let Scratch { touched, parts } = scratch;
        if matches!(record.kind, RecordKind::Exit(exit) if matches!(self.exits[exit as usize], ExitRecord::Call(_)))
        {
            step.uses = parts;
        }
        step.reads = &touched.reads;
        step.writes = &touched.writes;
        step.may_write = &touched.may_write;
        step.guessed = std::mem::take(&mut touched.guessed);
        step.atomic |= std::mem::take(&mut touched.atomic);
        step.fresh = touched.fresh.take();
        visit(&step)
    }
}

impl Scratch {
    fn memory(&mut self, layout: &BlockLayout, nth: usize, samples: &[u64], thread_pointer: u64) {
        for memory in &layout.memories[nth] {
            let sample = |n: u8| samples.get(usize::from(n)).copied().unwrap_or(0);
            let mut addr = memory.sample.map_or(0, sample).wrapping_add(memory.offset);
            if memory.thread_local {
                addr = addr.wrapping_add(thread_pointer);
            }
            let times = memory.repeated.map_or(1, sample).min(1 << 40);
            let span = ByteSpan::new(addr, u64::from(memory.size).wrapping_mul(times));
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

    fn threads(&self) -> u64 {
        self.by_thread.values().filter(|thread| thread.instructions > 0).count() as u64
    }

    fn forwards(&self, visit: &mut dyn FnMut(&InstructionStep<'_>)) {
        let (mut records, mut window, mut scratch) = (Vec::new(), WordWindow::default(), Scratch::default());
        for chunk in 0..self.chunks.len() {
            if !self.records(chunk, &mut window, &mut records) {
                return;
            }
            for record in &records {
                (0..record.steps)
                    .for_each(|nth| self.visit_step(record, nth, &window, &mut scratch, &mut *visit));
            }
        }
    }

    fn backwards(&self, from: u64, visit: &mut dyn FnMut(&InstructionStep<'_>) -> bool) {
        let (mut records, mut window, mut scratch) = (Vec::new(), WordWindow::default(), Scratch::default());
        let last = self.chunks.partition_point(|chunk| chunk.step <= from);
        for chunk in (0..last).rev() {
            if !self.records(chunk, &mut window, &mut records) {
                return;
            }
            for record in records.iter().rev() {
                for nth in (0..record.steps).rev().filter(|nth| record.at.step + nth <= from) {
                    if !self.visit_step(record, nth, &window, &mut scratch, &mut *visit) {
                        return;
                    }
                }
            }
        }
    }
}
