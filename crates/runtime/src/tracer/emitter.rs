//! Writes the machine code of translations: the moves that write the trace, and jumps.
//!
//! The moves change neither flags nor stack: they use the GS segment, which Linux programs on x86-64 leave alone.

use core::{mem::offset_of, ops::Range};
use unsnarl_insn::iced::{Encoder, Instruction, Register};
use unsnarl_wire::TracerWords;

const NEXT: u32 = offset_of!(TracerWords, next) as u32;
pub(super) const SAVED_RAX: u32 = offset_of!(TracerWords, saved) as u32;
pub(super) const SAVED_RCX: u32 = SAVED_RAX + 8;
pub(super) const TARGET: u32 = offset_of!(TracerWords, target) as u32;
pub(super) const INSIDE: u32 = offset_of!(TracerWords, inside) as u32;
pub(super) const SLOT: u32 = offset_of!(TracerWords, slot) as u32;
pub(super) const TAIL: u32 = offset_of!(TracerWords, tail) as u32;
const RUNNING: u32 = offset_of!(TracerWords, running) as u32;

/// A writer of machine code.
pub(super) struct Emitter {
    pub(super) at: u64,
}

impl Emitter {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        // SAFETY: callers ensure that there is room.
        unsafe { (self.at as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.at += bytes.len() as u64;
    }

    pub(super) fn immediate(&mut self, number: u32) {
        self.bytes(&number.to_le_bytes());
    }

    /// Emits an opcode followed by a displacement or an immediate.
    pub(super) fn opcode(&mut self, opcode: &[u8], number: u32) {
        self.bytes(opcode);
        self.immediate(number);
    }

    /// Emits a jump, conditional with another opcode; returns the address of its displacement.
    pub(super) fn jump(&mut self, opcode: &[u8], to: u64) -> u64 {
        self.bytes(opcode);
        let place = self.at;
        self.immediate(to.wrapping_sub(place + 4) as u32);
        place
    }

    /// Loads one of the tracer's words into rax.
    pub(super) fn load_rax(&mut self, word: u32) {
        self.opcode(&[0x65, 0x48, 0x8b, 0x04, 0x25], word);
    }

    pub(super) fn store_rax(&mut self, word: u32) {
        self.opcode(&[0x65, 0x48, 0x89, 0x04, 0x25], word);
    }

    pub(super) fn load_rcx(&mut self, word: u32) {
        self.opcode(&[0x65, 0x48, 0x8b, 0x0c, 0x25], word);
    }

    pub(super) fn store_rcx(&mut self, word: u32) {
        self.opcode(&[0x65, 0x48, 0x89, 0x0c, 0x25], word);
    }

    pub(super) fn store_rsp(&mut self, word: u32) {
        self.opcode(&[0x65, 0x48, 0x89, 0x24, 0x25], word);
    }

    pub(super) fn store_constant(&mut self, word: u32, value: u32) {
        self.opcode(&[0x65, 0x48, 0xc7, 0x04, 0x25], word);
        self.immediate(value);
    }

    /// Jumps to the address that one of the tracer's words holds.
    pub(super) fn jump_through(&mut self, word: u32) {
        self.opcode(&[0x65, 0xff, 0x24, 0x25], word);
    }

    pub(super) fn save_rax(&mut self) {
        self.store_rax(SAVED_RAX);
    }

    pub(super) fn save_rcx(&mut self) {
        self.store_rcx(SAVED_RCX);
    }

    pub(super) fn restore_rax(&mut self) {
        self.load_rax(SAVED_RAX);
    }

    pub(super) fn restore_rcx(&mut self) {
        self.load_rcx(SAVED_RCX);
    }

    /// Loads the address of the next trace word into rcx.
    pub(super) fn load_next(&mut self) {
        self.load_rcx(NEXT);
    }

    pub(super) fn store_next(&mut self) {
        self.store_rcx(NEXT);
    }

    /// `mov [rcx + offset], register`
    pub(super) fn store(&mut self, register: Register, offset: i32) {
        let number = register.number() as u8;
        let rex = 0x48 | (number >> 3) << 2;
        self.opcode(&[rex, 0x89, 0x81 | (number & 7) << 3], offset as u32);
    }

    /// `mov dword [rcx + offset], half`, twice.
    pub(super) fn store_word(&mut self, word: u64, offset: i32) {
        for half in [0, 4] {
            self.opcode(&[0xc7, 0x81], (offset + half) as u32);
            self.immediate((word >> (8 * half)) as u32);
        }
    }

    pub(super) fn advance(&mut self, bytes: i32) {
        self.opcode(&[0x48, 0x8d, 0x89], bytes as u32);
    }

    /// Pushes an address without using a register.
    pub(super) fn push(&mut self, address: u64) {
        self.bytes(&[0x48, 0x8d, 0x64, 0x24, 0xf8]);
        self.opcode(&[0xc7, 0x04, 0x24], address as u32);
        self.opcode(&[0xc7, 0x44, 0x24, 0x04], (address >> 32) as u32);
    }

    /// Emits the rest of an entry record at rcx; clobbers rax.
    pub(super) fn entry_record(&mut self) {
        self.store(Register::RSP, 8);
        self.store(Register::RAX, 16);
        self.store(Register::RDX, 24);
        for (word, at) in [(RUNNING, 32), (RUNNING + 8, 40)] {
            self.load_rax(word);
            self.store(Register::RAX, at);
        }
        self.advance(48);
        self.store_next();
        for (word, value) in [(INSIDE, 1), (SLOT, 0)] {
            self.store_constant(word, value);
        }
    }

    /// Compares rax's offset in a segment, which goes to rcx, with the segment's size.
    pub(super) fn compare_rax(&mut self, segment: &Range<u64>) {
        self.bytes(&[0x48, 0xb9]);
        self.bytes(&segment.start.wrapping_neg().to_le_bytes());
        self.bytes(&[0x48, 0x8d, 0x0c, 0x08]);
        self.opcode(&[0x48, 0x81, 0xf9], (segment.end - segment.start) as u32);
    }

    /// Encodes an instruction for its new address; returns false if it cannot be encoded there.
    pub(super) fn instruction(&mut self, instruction: &Instruction, encoder: &mut Encoder) -> bool {
        let encoded = encoder.encode(instruction, self.at).is_ok();
        let buffer = encoder.take_buffer();
        if encoded {
            self.bytes(&buffer);
        }
        let mut buffer = buffer;
        buffer.clear();
        encoder.set_buffer(buffer);
        encoded
    }
}

/// The address of an emitted push of a return address.
pub(super) struct ReturnAddressPush(pub(super) u64);

impl ReturnAddressPush {
    /// Fills in the address.
    pub(super) fn write(&self, address: u64) {
        let mut emitter = Emitter { at: self.0 };
        emitter.push(address);
    }
}

/// Redirects a jump.
pub(super) fn patch(place: u64, to: u64) {
    let relative = to.wrapping_sub(place + 4) as u32;
    // SAFETY: a displacement that this module wrote; only this processor executes it.
    unsafe { (place as *mut u32).write_unaligned(relative) };
}
