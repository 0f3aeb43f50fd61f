//! Pending uses: the bytes whose writers are still to be found, with their consumers.

use crate::{ByteSpan, Reason, hash::Hashed};
use unsnarl_insn::{REGISTERS, RegisterPart};
use unsnarl_model::ThreadIx;

use crate::InstructionIx;

/// An execution of an instruction that consumes a value or is controlled by a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consumer {
    /// The instruction.
    pub instruction: InstructionIx,
    /// The executing thread.
    pub thread: ThreadIx,
    pub step: u64,
}

/// The way in which a value was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataPath {
    /// A register.
    Register,
    /// Memory, or a pseudo-cell.
    Memory(u64),
}

type PendingUse = Vec<(u8, Consumer, DataPath)>;

/// All pending uses.
#[derive(Debug, Default)]
pub(crate) struct PendingUses {
    /// For each thread, the pending bytes of its registers: a fast check that an instruction is irrelevant.
    masks: Vec<Box<[u8]>>,
    registers: Hashed<(u16, u16), PendingUse>,
    memory: Hashed<u64, PendingUse>,
}

impl PendingUses {
    pub(crate) fn is_empty(&self) -> bool {
        self.registers.is_empty() && self.memory.is_empty()
    }

    /// Returns whether any of these registers is pending.
    #[inline]
    pub(crate) fn has_registers(&self, thread: ThreadIx, parts: &[RegisterPart]) -> bool {
        let Some(masks) = self.masks.get(thread.index()) else { return false };
        parts.iter().any(|part| masks[part.granule as usize] & part.mask != 0)
    }

    pub(crate) fn add_register(
        &mut self,
        thread: ThreadIx,
        part: RegisterPart,
        consumer: Consumer,
        path: DataPath,
    ) {
        while self.masks.len() <= thread.index() {
            self.masks.push(vec![0; REGISTERS as usize].into());
        }
        self.masks[thread.index()][part.granule as usize] |= part.mask;
        add(self.registers.entry((thread.0, part.granule)).or_default(), part.mask, consumer, path);
    }

    pub(crate) fn add_memory(&mut self, span: ByteSpan, consumer: Consumer) {
        for (granule, mask) in span.granules() {
            add(self.memory.entry(granule).or_default(), mask, consumer, DataPath::Memory(span.addr));
        }
    }

    fn add_granule(&mut self, granule: u64, mask: u8, consumer: Consumer, path: DataPath) {
        add(self.memory.entry(granule).or_default(), mask, consumer, path);
    }

    /// Resolves these bytes and adds their consumers to `found`.
    pub(crate) fn take_register(
        &mut self,
        thread: ThreadIx,
        part: RegisterPart,
        found: &mut Vec<(Consumer, DataPath)>,
    ) {
        let Some(masks) = self.masks.get_mut(thread.index()) else { return };
        let pending = &mut masks[part.granule as usize];
        if *pending & part.mask == 0 {
            return;
        }
        *pending &= !part.mask;
        let key = (thread.0, part.granule);
        if let Some(list) = self.registers.get_mut(&key) {
            take(list, part.mask, found);
            if list.is_empty() {
                self.registers.remove(&key);
            }
        }
    }

    /// Adds the consumers of these bytes, whose write a branch prevented.
    pub(crate) fn peek_register(&self, thread: ThreadIx, part: RegisterPart, reasons: &mut Vec<Reason>) {
        if !self.has_registers(thread, &[part]) {
            return;
        }
        let pending = self.registers.get(&(thread.0, part.granule)).into_iter().flatten();
        reasons.extend(
            pending.filter(|(m, ..)| m & part.mask != 0).map(|(_, consumer, _)| Reason::Decides(*consumer)),
        );
    }

    /// Like [`Self::take_register`], for memory.
    pub(crate) fn take_memory(&mut self, span: ByteSpan, found: &mut Vec<(Consumer, DataPath)>) {
        self.each_granule(span, |memory, granule, mask| {
            if let Some(list) = memory.get_mut(&granule) {
                take(list, mask, found);
                if list.is_empty() {
                    memory.remove(&granule);
                }
            }
        });
    }

    /// Adds the consumers of these bytes, which other steps may have written too.
    pub(crate) fn peek_memory(&mut self, span: ByteSpan, found: &mut Vec<(Consumer, DataPath)>) {
        self.each_granule(span, |memory, granule, mask| {
            if let Some(list) = memory.get(&granule) {
                found.extend(
                    list.iter().filter(|(m, ..)| m & mask != 0).map(|(_, consumer, path)| (*consumer, *path)),
                );
            }
        });
    }

    fn each_granule(&mut self, span: ByteSpan, mut f: impl FnMut(&mut Hashed<u64, PendingUse>, u64, u8)) {
        if span.len / 8 <= 16 + self.memory.len() as u64 {
            span.granules().for_each(|(granule, mask)| f(&mut self.memory, granule, mask));
            return;
        }
        // For a large block it is faster to iterate over the pending uses.
        let (first, last) = (span.addr / 8, (span.addr + span.len - 1) / 8);
        let inside: Vec<u64> = self.memory.keys().copied().filter(|g| (first..=last).contains(g)).collect();
        for granule in inside {
            let clipped = ByteSpan::new(granule * 8, 8);
            let from = clipped.addr.max(span.addr);
            let to = (clipped.addr + 8).min(span.addr + span.len);
            for (granule, mask) in ByteSpan::new(from, to - from).granules() {
                f(&mut self.memory, granule, mask);
            }
        }
    }

    /// Makes the resolved uses pending again at other locations, for the same consumers.
    pub(crate) fn forward(
        &mut self,
        found: &[(Consumer, DataPath)],
        thread: ThreadIx,
        uses: &[RegisterPart],
        reads: &[ByteSpan],
    ) {
        for &(consumer, path) in found {
            uses.iter().for_each(|&part| self.add_register(thread, part, consumer, path));
            for span in reads {
                span.granules().for_each(|(granule, mask)| self.add_granule(granule, mask, consumer, path));
            }
        }
    }
}

fn add(list: &mut PendingUse, mask: u8, consumer: Consumer, path: DataPath) {
    // An instruction in a loop may use the same byte again and again: the latest use represents all.
    match list
        .iter_mut()
        .find(|(_, known, _)| known.instruction == consumer.instruction && known.thread == consumer.thread)
    {
        Some((known, ..)) => *known |= mask,
        None => list.push((mask, consumer, path)),
    }
}

fn take(list: &mut PendingUse, mask: u8, found: &mut Vec<(Consumer, DataPath)>) {
    for (pending, consumer, path) in list.iter_mut() {
        if *pending & mask != 0 {
            *pending &= !mask;
            found.push((*consumer, *path));
        }
    }
    list.retain(|(pending, ..)| *pending != 0);
}
