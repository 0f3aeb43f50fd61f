//! The first pass over an instruction trace: finds the executed code, the calls that left it, and how control
//! returned.

use super::{
    Call, Code, Recording, Summary, TraceCorrupt,
    calls::{
        CALLBACK_ARGUMENTS, CALLBACK_RESULT, EntryRecord, ExitRecord, THREAD_ARGUMENT, THREAD_RESULT, cell,
    },
    insns::ControlTransfer,
    threads::{OpenFrame, ThreadRecord},
    words::{WordCursor, WordWindow},
};
use crate::{Flow, InstructionIx};
use std::collections::HashMap;
use unsnarl_insn::iced::InstructionInfoFactory;
use unsnarl_model::{Event, ThreadIx};
use unsnarl_semantics::{Operation, ThreadOp, succeeded};
use unsnarl_wire::{CHUNK_WORDS, ENTER_WORDS, LEAVE_WORDS, SIGNAL_WORDS, StepKind, StepWord};

/// Functions that do not return but transfer control elsewhere.
const THROWS: &[&str] = &[
    "__cxa_throw",
    "__cxa_rethrow",
    "_Unwind_RaiseException",
    "_Unwind_Resume",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__longjmp_chk",
];

pub(super) struct FirstPass<'a, 'b> {
    recording: Recording<'a>,
    code: &'b Code,
    events: &'b [Event],
    name: &'b mut dyn FnMut(u64) -> Option<String>,
    factory: InstructionInfoFactory,
    known_names: HashMap<String, u32>,
    /// An indirect jump whose target is the next block.
    jumped: Option<u64>,
}

impl<'a, 'b> FirstPass<'a, 'b> {
    pub(super) fn new(
        recording: Recording<'a>,
        code: &'b Code,
        events: &'b [Event],
        name: &'b mut dyn FnMut(u64) -> Option<String>,
    ) -> Self {
        Self {
            recording,
            code,
            events,
            name,
            factory: InstructionInfoFactory::new(),
            known_names: HashMap::new(),
            jumped: None,
        }
    }

    /// Runs the pass and returns the recording.
    pub(super) fn run(mut self) -> Result<Recording<'a>, TraceCorrupt> {
        let (words, end) = (self.recording.words, self.recording.end);
        let mut at = WordCursor::START;
        let mut window = WordWindow::default();
        for chunk in 0..end.div_ceil(CHUNK_WORDS as u64) as usize {
            if !window.move_to(words, chunk) {
                self.recording.end = at.word;
                break;
            }
            self.recording.chunks.push(at);
            let last = ((chunk as u64 + 1) * CHUNK_WORDS as u64).min(end);
            while at.word < last {
                if !self.read_record(&mut at, &window)? {
                    self.recording.end = at.word;
                    self.recording.steps = at.step;
                    return Ok(self.recording);
                }
            }
        }
        self.recording.steps = at.step;
        Ok(self.recording)
    }

    /// Reads a record and moves to the next one; returns false if the target died in the middle of it.
    fn read_record(&mut self, at: &mut WordCursor, window: &WordWindow) -> Result<bool, TraceCorrupt> {
        let words = window.from(at.word);
        let damaged = TraceCorrupt { word: at.word };
        let head = StepWord(words[0]);
        let kind = head.kind().ok_or(damaged)?;
        let following = match kind {
            StepKind::Block | StepKind::Fault => 0,
            StepKind::Leave => LEAVE_WORDS,
            StepKind::Enter => ENTER_WORDS,
            StepKind::Signal => SIGNAL_WORDS,
        };
        if following >= words.len() {
            return Ok(false);
        }
        match kind {
            StepKind::Block => {
                if let Some(from) = self.jumped.take() {
                    self.recording.jumps.entry(from).or_default().insert(head.pc());
                }
                let block =
                    self.recording.insns.block_for(head, self.code, &mut self.factory).ok_or(damaged)?;
                let (next, steps, _) = self.recording.extent(words, block);
                if next > words.len() as u64 {
                    return Ok(false);
                }
                self.jumped = self.record_executed(at, block, steps);
                at.step += steps;
                at.word += next;
                return Ok(true);
            }
            StepKind::Leave => {
                self.record_exit(at, words);
                at.exits += 1;
                at.step += 1;
                self.jumped = None;
            }
            StepKind::Enter => {
                let events = at.events;
                at.enter(words);
                self.record_events(events, at.events);
                self.record_entry(at, words);
                at.entries += 1;
                at.step += 1;
            }
            StepKind::Signal => {
                let open = OpenFrame::Signal { pc: head.pc(), stack: words[1], begun: false };
                self.thread_record(at.thread).open.push(open);
                self.jumped = None;
            }
            StepKind::Fault => {}
        }
        at.word += 1 + following as u64;
        Ok(true)
    }

    fn thread_record(&mut self, thread: ThreadIx) -> &mut ThreadRecord {
        self.recording.by_thread.entry(thread).or_default()
    }

    /// Records executed instructions; returns the address of the last one if it was an indirect jump.
    fn record_executed(&mut self, at: &WordCursor, block: u32, steps: u64) -> Option<u64> {
        let Recording { insns, by_thread, instructions, .. } = &mut self.recording;
        let block = insns.block(block);
        let thread = by_thread.entry(at.thread).or_default();
        *instructions += steps;
        thread.instructions += steps;
        thread.arguments_set |= block.sets_arguments;
        let executed = &block.insns[..steps as usize];
        for &number in executed.iter().rev() {
            let insn = insns.insn(number);
            if !insn.stub {
                thread.last = Some(number);
                thread.pushed = 0;
                break;
            }
        }
        let stubs = executed.iter().rev().map(|&number| insns.insn(number)).take_while(|i| i.stub);
        thread.pushed += 8 * stubs.filter(|insn| insn.pushes).count() as u64;
        if steps > 0 {
            thread.last_step = at.step + steps - 1;
        }
        let last = insns.insn(*executed.last()?);
        (last.transfer == ControlTransfer::IndirectJump && !last.stub).then_some(last.pc)
    }

    fn record_exit(&mut self, at: &WordCursor, words: &[u64]) {
        let target = StepWord(words[0]).pc();
        let thread = self.recording.by_thread.entry(at.thread).or_default();
        let stack = words[1] + thread.pushed;
        thread.note_stack(stack);
        thread.last_step = at.step;
        let calls_open =
            |open: &[OpenFrame]| open.iter().filter(|o| matches!(o, OpenFrame::Call(_))).count() as u16;
        let depth = calls_open(&thread.open);
        let Some(last) = thread.last else {
            self.recording.exits.push(ExitRecord::Return(cell(THREAD_RESULT, at.thread, 0)));
            return;
        };
        let insn = self.recording.insns.insn(last);
        if insn.transfer == ControlTransfer::Return {
            thread.entry_stacks.pop();
            let to = if depth == 0 {
                self.recording.returns.push((at.step, at.thread, thread.entry_function));
                cell(THREAD_RESULT, at.thread, 0)
            } else {
                cell(CALLBACK_RESULT, at.thread, depth - 1)
            };
            self.recording.exits.push(ExitRecord::Return(to));
            return;
        }
        let arguments_set = thread.arguments_set;
        let call = Call {
            step: at.step,
            thread: at.thread,
            instruction: InstructionIx(last),
            arguments: [words[2], words[3], words[4], words[5], words[6], words[7]],
            result: None,
            created: None,
            joined: None,
            name: 0,
            stack,
            returns_to: insn.pc + u64::from(insn.len),
            tail: insn.transfer != ControlTransfer::Call,
            depth,
            arguments_set,
            vectors: words[8] as u8,
            result_cell: None,
        };
        let number = self.recording.calls.len() as u32;
        let returns_outside = call.tail && thread.entry_stacks.last() == Some(&stack);
        let result_cell = returns_outside.then(|| {
            thread.entry_stacks.pop();
            if depth == 0 {
                cell(THREAD_RESULT, at.thread, 0)
            } else {
                cell(CALLBACK_RESULT, at.thread, depth - 1)
            }
        });
        if !returns_outside {
            thread.open.push(OpenFrame::Call(number));
        }
        self.recording.exits.push(ExitRecord::Call(number));
        let name = self.name_of(last, target);
        self.recording.calls.push(Call { name, result_cell, ..call });
    }

    /// Returns the number of the called function's name.
    fn name_of(&mut self, insn: u32, target: u64) -> u32 {
        let pc = self.recording.insns.insn(insn).pc;
        let instruction = self.code.decode(pc);
        let imported = instruction.as_ref().and_then(|i| self.code.imported(i)).map(str::to_owned);
        let name = imported.or_else(|| (self.name)(target)).unwrap_or_default();
        let names = &mut self.recording.names;
        *self.known_names.entry(name).or_insert_with_key(|name| {
            names.push((name.clone(), Summary::of(name)));
            names.len() as u32 - 1
        })
    }

    /// Records the schedule events that occurred while control was elsewhere.
    fn record_events(&mut self, from: u64, to: u64) {
        for event in self.events.iter().skip(from as usize).take(to.saturating_sub(from) as usize) {
            let (creates, other) = match Operation::decode(event) {
                Operation::Thread(ThreadOp::Create { thread }) => (true, thread),
                Operation::Thread(ThreadOp::Join { thread }) => (false, thread),
                _ => continue,
            };
            let Some(other) = other.known().filter(|_| succeeded(event)) else { continue };
            let Some(&OpenFrame::Call(call)) = self.thread_record(event.thread).open.last() else { continue };
            if creates {
                self.recording.calls[call as usize].created = Some(other);
                self.thread_record(other).creator = Some(call);
            } else {
                self.recording.calls[call as usize].joined = Some(other);
            }
        }
    }

    fn record_entry(&mut self, at: &WordCursor, words: &[u64]) {
        let (pc, stack, result) = (StepWord(words[0]).pc(), words[1], words[2]);
        let Recording { by_thread, calls, entries, names, .. } = &mut self.recording;
        let thread = by_thread.entry(at.thread).or_default();
        thread.note_stack(stack);
        thread.last_step = at.step;
        let first = thread.open.is_empty();
        let mut new = EntryRecord { pc, flow: Flow::Begin(None), resumes: None, arguments: None };
        match thread.open.last_mut() {
            Some(&mut OpenFrame::Call(call)) => {
                let called = &mut calls[call as usize];
                let returned = stack == called.stack + 8;
                // The catching code may directly follow the throwing call.
                let throws = THROWS.contains(&names[called.name as usize].0.as_str());
                if returned && !throws && (called.tail || pc == called.returns_to) {
                    called.result = Some(result);
                    new.flow = if called.tail { Flow::Return } else { Flow::Next };
                    new.resumes = Some(call);
                    thread.open.pop();
                    // Values that the callee left in argument registers are no arguments.
                    thread.arguments_set = 0;
                } else if returned {
                    // Caught in the same function that threw.
                    new.flow = Flow::Unwound { stack: None, by: Some(called.step) };
                    thread.open.pop();
                } else if stack > called.stack {
                    new.flow = Flow::Unwound { stack: Some(stack), by: Some(called.step) };
                    thread.unwind(stack, calls);
                } else {
                    new.flow = Flow::Begin(Some(called.step));
                    new.arguments = Some(cell(CALLBACK_ARGUMENTS, at.thread, called.depth));
                    thread.arguments_set = 0x3f;
                }
            }
            Some(OpenFrame::Signal { pc: interrupted, stack: stack_then, begun }) => {
                if (*interrupted, *stack_then) == (pc, stack) {
                    new.flow = Flow::Next;
                    thread.open.pop();
                } else if *begun {
                    // The handler did not return but jumped out.
                    new.flow = Flow::Unwound { stack: Some(stack), by: None };
                    thread.open.pop();
                    thread.unwind(stack, calls);
                } else {
                    *begun = true;
                }
            }
            None => {}
        }
        if first {
            thread.entry_function = pc;
            thread.arguments_set = 0x3f;
            if let Some(creator) = thread.creator.filter(|_| thread.instructions == 0) {
                new.flow = Flow::Begin(Some(calls[creator as usize].step));
                new.arguments = Some(cell(THREAD_ARGUMENT, at.thread, 0));
            }
        }
        if matches!(new.flow, Flow::Begin(_)) {
            thread.entry_stacks.push(stack);
        }
        entries.push(new);
    }
}
