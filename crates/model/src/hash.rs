//! A hash for names that outlive a process.

/// Returns the FNV-1a hash of these bytes, which is the same on all machines and in all versions. It names things and
/// is no security measure.
#[must_use]
pub fn stable_hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let add = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_fnv_1a() {
        assert_eq!(stable_hash(*b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable_hash(*b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
