//! A fast hash for numbers that are not chosen to collide.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

/// A map from numbers.
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A set of numbers.
pub(crate) type Set<K> = HashSet<K, BuildHasherDefault<NumberHasher>>;

/// Multiplies and folds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// Returns a 128-bit hash of two smaller numbers; the parts of a state are combined by exclusive or.
pub(crate) const fn spread(a: u64, b: u64) -> u128 {
    const fn mix(mut x: u64) -> u64 {
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }
    let low = mix(mix(a.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_add(b));
    let high = mix(mix(a ^ 0x6a09_e667_f3bc_c909).wrapping_add(b.rotate_left(32)));
    (high as u128) << 64 | low as u128
}
