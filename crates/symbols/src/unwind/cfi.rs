//! The call frame information of one module.

use super::{
    StackCopy,
    step::{FrameRegisters, UnwindStep},
};
use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, EhFrameHdr, EhFrameOffset, Encoding, EndianSlice,
    Evaluation, EvaluationResult, FrameDescriptionEntry, LittleEndian, Location, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, Value, X86_64,
};
use object::{Object, ObjectSection, ObjectSegment};
use std::{fs, ops::Range, path::Path};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// `mov $15, %rax; syscall`: the code by which a signal handler returns to the kernel.
const SIGRETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// An expression with more steps is damaged.
const EVALUATION_STEPS: u32 = 1000;

/// A module's call frame information and the data needed to read it.
pub(crate) struct Cfi {
    bytes: Vec<u8>,
    eh_frame: Range<usize>,
    /// A search index of `eh_frame`.
    eh_frame_hdr: Range<usize>,
    debug_frame: Range<usize>,
    bases: BaseAddresses,
    /// Address ranges with their offsets in the file.
    segments: Vec<(Range<u64>, usize)>,
}

impl Cfi {
    /// Reads the information of a file; returns `None` if it cannot be read or is no ELF file.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let section = |name: &str| {
            let (start, size) = file.section_by_name(name)?.file_range()?;
            let range = usize::try_from(start).ok()?..usize::try_from(start.checked_add(size)?).ok()?;
            bytes.get(range.clone()).map(|_| range)
        };
        let address = |name: &str| file.section_by_name(name).map_or(0, |section| section.address());
        let segments = file.segments().filter_map(|segment| {
            let (start, size) = segment.file_range();
            let address = segment.address();
            Some((address..address.checked_add(size)?, usize::try_from(start).ok()?))
        });
        Some(Self {
            eh_frame: section(".eh_frame").unwrap_or_default(),
            eh_frame_hdr: section(".eh_frame_hdr").unwrap_or_default(),
            debug_frame: section(".debug_frame").unwrap_or_default(),
            bases: BaseAddresses::default()
                .set_eh_frame(address(".eh_frame"))
                .set_eh_frame_hdr(address(".eh_frame_hdr"))
                .set_text(address(".text"))
                .set_got(address(".got")),
            segments: segments.collect(),
            bytes,
        })
    }

    /// Returns the step from a frame at this address of the file; `None` if nothing is known about it.
    pub(super) fn step(
        &self,
        registers: &FrameRegisters,
        address: u64,
        stack: &StackCopy,
    ) -> Option<UnwindStep> {
        self.by_eh_frame(registers, address, stack)
            .or_else(|| self.by_debug_frame(registers, address, stack))
            .or_else(|| {
                // A handler returns to the start of this code; `address` is one less by now.
                let code = self.code_from(address.wrapping_add(1))?;
                code.starts_with(&SIGRETURN)
                    .then(|| registers.by_signal_frame(stack))
                    .flatten()
                    .map(UnwindStep::Interrupted)
            })
    }

    /// Returns the register that the frame address is relative to at this code address, and the offset from
    /// it.
    pub(crate) fn frame_address(&self, address: u64) -> Option<(Register, i64)> {
        let mut section = EhFrame::new(&self.bytes[self.eh_frame.clone()], LittleEndian);
        section.set_address_size(8);
        let entry = section.fde_for_address(&self.bases, address, EhFrame::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&section, &self.bases, &mut context, address).ok()?;
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Some((*register, *offset)),
            CfaRule::Expression(_) => None,
        }
    }

    /// Returns the file's contents from this address on.
    fn code_from(&self, address: u64) -> Option<&[u8]> {
        let (range, start) = self.segments.iter().find(|(range, _)| range.contains(&address))?;
        self.bytes.get(start.checked_add(usize::try_from(address - range.start).ok()?)?..)
    }

    fn by_eh_frame(&self, registers: &FrameRegisters, address: u64, stack: &StackCopy) -> Option<UnwindStep> {
        let mut section = EhFrame::new(&self.bytes[self.eh_frame.clone()], LittleEndian);
        section.set_address_size(8);
        let header =
            EhFrameHdr::new(&self.bytes[self.eh_frame_hdr.clone()], LittleEndian).parse(&self.bases, 8).ok();
        let entry = match header.as_ref().and_then(|header| header.table()) {
            Some(table) => {
                // Not gimli's own shortcut, which overflows on a damaged index.
                let entry = table.lookup(address, &self.bases).ok()?.direct().ok()?;
                let offset = entry.checked_sub(self.bases.eh_frame.section?)?;
                let offset = EhFrameOffset(usize::try_from(offset).ok()?);
                section.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset)
            }
            None => section.fde_for_address(&self.bases, address, EhFrame::cie_from_offset),
        };
        let entry = entry.ok().filter(|entry| entry.contains(address))?;
        self.step_by(&section, &entry, registers, address, stack)
    }

    fn by_debug_frame(
        &self,
        registers: &FrameRegisters,
        address: u64,
        stack: &StackCopy,
    ) -> Option<UnwindStep> {
        let mut section = DebugFrame::new(&self.bytes[self.debug_frame.clone()], LittleEndian);
        section.set_address_size(8);
        let entry = section.fde_for_address(&self.bases, address, DebugFrame::cie_from_offset).ok()?;
        self.step_by(&section, &entry, registers, address, stack)
    }

    fn step_by<'a, S: UnwindSection<Slice<'a>>>(
        &self,
        section: &S,
        entry: &FrameDescriptionEntry<Slice<'a>>,
        registers: &FrameRegisters,
        address: u64,
        stack: &StackCopy,
    ) -> Option<UnwindStep> {
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(section, &self.bases, &mut context, address).ok()?;
        let frame = Frame { section, encoding: entry.cie().encoding(), registers, stack };
        let caller = frame.caller(row)?;
        if caller.rip() == 0 {
            return Some(UnwindStep::End);
        }
        if entry.is_signal_trampoline() {
            return Some(UnwindStep::Interrupted(caller));
        }
        // A call has pushed something, so a stack that does not shrink is damaged.
        (caller.get(X86_64::RSP) > registers.get(X86_64::RSP)).then_some(UnwindStep::Caller(caller))
    }
}

/// A frame whose caller is to be found.
struct Frame<'f, S> {
    section: &'f S,
    encoding: Encoding,
    registers: &'f FrameRegisters,
    stack: &'f StackCopy,
}

impl<'a, S: UnwindSection<Slice<'a>>> Frame<'_, S> {
    fn caller(&self, row: &UnwindTableRow<usize>) -> Option<FrameRegisters> {
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.registers.get(*register)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => self.evaluate(*expression, None)?,
        };
        let mut caller = *self.registers;
        caller.set(X86_64::RSP, Some(cfa));
        // Without a rule for the return address the caller is unknown.
        caller.set(X86_64::RA, None);
        for register in FrameRegisters::registers() {
            if let Some(rule) = row.register(register) {
                caller.set(register, self.saved(register, &rule, cfa));
            }
        }
        Some(caller)
    }

    fn saved(&self, register: Register, rule: &RegisterRule<usize>, cfa: u64) -> Option<u64> {
        match rule {
            RegisterRule::SameValue => self.registers.get(register),
            RegisterRule::Offset(offset) => self.stack.word(cfa.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => self.registers.get(*other),
            RegisterRule::Expression(at) => self.stack.word(self.evaluate(*at, Some(cfa))?),
            RegisterRule::ValExpression(value) => self.evaluate(*value, Some(cfa)),
            RegisterRule::Constant(value) => Some(*value),
            RegisterRule::Undefined | RegisterRule::Architectural => None,
        }
    }

    /// Evaluates an expression; for register rules the canonical frame address is on the stack.
    fn evaluate(&self, expression: UnwindExpression<usize>, cfa: Option<u64>) -> Option<u64> {
        let mut evaluation: Evaluation<Slice<'a>> =
            expression.get(self.section).ok()?.evaluation(self.encoding);
        evaluation.set_max_iterations(EVALUATION_STEPS);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = Value::Generic(self.registers.get(register)?);
                    evaluation.resume_with_register(value).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    let value = Value::Generic(self.stack.word(address)?);
                    evaluation.resume_with_memory(value).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result().first()?.location {
            Location::Address { address } => Some(address),
            Location::Value { value: Value::Generic(value) } => Some(value),
            _ => None,
        }
    }
}
