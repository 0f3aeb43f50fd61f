//! Registers as bytes: all of a thread's registers form one small memory, so that one mechanism finds the
//! writer of a byte, whether of `al`, of an `xmm` or of the heap. Each flag is one byte.

use iced_x86::Register;

/// Some of eight bytes of a thread's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegisterPart {
    /// The group of eight bytes.
    pub granule: u16,
    /// The bytes of the group, as bits.
    pub mask: u8,
}

/// General registers come first, in the order of their numbers in machine code.
const VECTORS: u16 = 16;
/// Thirty-two vector registers of 64 bytes.
const X87: u16 = VECTORS + 32 * 8;
/// A bit for each flag, as iced numbers them: overflow, sign, zero, auxiliary, carry, parity, direction.
pub const FLAGS: u16 = X87 + 1;
const MASKS: u16 = FLAGS + 1;
/// The number of granules of a thread's registers.
pub const REGISTERS: u16 = MASKS + 8;

/// Returns all bytes of the general register with this number (`rax` is 0, `rdi` is 7).
#[must_use]
pub const fn gpr(number: u16) -> RegisterPart {
    RegisterPart { granule: number, mask: 0xff }
}

/// Returns the bytes of a register, by granule. Empty for registers that a slice does not follow: the stack
/// pointer, segments, the instruction pointer.
pub fn part(register: Register, written: bool) -> impl Iterator<Item = RegisterPart> {
    let (first, bytes, mask) = place(register, written);
    let granules = bytes.div_ceil(8);
    (0..granules)
        .map(move |n| RegisterPart { granule: first + n, mask: if granules == 1 { mask } else { 0xff } })
}

fn place(register: Register, written: bool) -> (u16, u16, u8) {
    if register.full_register() == Register::RSP {
        return (0, 0, 0);
    }
    let number = register.number() as u16;
    if register.is_gpr() {
        let mask = match register.size() {
            1 if matches!(register, Register::AH | Register::BH | Register::CH | Register::DH) => 2,
            1 => 1,
            2 => 3,
            // A write of the low half clears the upper half.
            4 if !written => 15,
            _ => 0xff,
        };
        return (register.full_register().number() as u16, 8, mask);
    }
    if register.is_vector_register() {
        return (VECTORS + number * 8, register.size() as u16, 0xff);
    }
    if register.is_st() || register.is_mm() {
        return (X87, 8, 0xff);
    }
    if register.is_k() {
        return (MASKS + number, 8, 0xff);
    }
    (0, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn parts(register: Register, written: bool) -> Vec<(u16, u8)> {
        part(register, written).map(|p| (p.granule, p.mask)).collect()
    }

    #[test]
    fn partial_registers_share_a_granule() {
        assert_eq!(parts(Register::AL, true), [(0, 1)]);
        assert_eq!(parts(Register::AH, true), [(0, 2)]);
        assert_eq!(parts(Register::EDI, false), [(7, 15)]);
        assert_eq!(parts(Register::EDI, true), [(7, 0xff)]);
        assert_eq!(parts(Register::R9W, false), [(9, 3)]);
        assert_eq!(parts(Register::RSP, true), []);
        assert_eq!(parts(Register::XMM1, true), [(24, 0xff), (25, 0xff)]);
    }
}
