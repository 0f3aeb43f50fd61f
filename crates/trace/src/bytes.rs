//! Values as bytes and back.
//!
//! Reading trusts nothing: every length is compared with the remaining bytes, using the minimum size of an
//! element, before anything is allocated.

/// Why bytes are malformed.
pub(crate) type Malformed = &'static str;

const ENDS_EARLY: Malformed = "it ends too early";

/// A type that is written to a trace file.
pub(crate) trait Codec: Sized {
    /// The minimum number of bytes of a value. It bounds what a length can make a reader allocate.
    const LEAST: usize;

    fn put(&self, out: &mut Vec<u8>);
    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed>;

    /// Writes many values; a type whose values are their own bytes can do better than one by one.
    fn put_all(all: &[Self], out: &mut Vec<u8>) {
        all.iter().for_each(|one| one.put(out));
    }

    /// Reads `count` values; `count` has been compared with the remaining bytes.
    fn take_all(count: usize, from: &mut ByteCursor<'_>) -> Result<Vec<Self>, Malformed> {
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(Self::take(from)?);
        }
        Ok(all)
    }
}

/// Bytes yet to be read.
#[derive(Debug)]
pub(crate) struct ByteCursor<'a> {
    left: &'a [u8],
}

impl<'a> ByteCursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(ENDS_EARLY)?;
        self.left = left;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (&taken, left) = self.left.split_first_chunk().ok_or(ENDS_EARLY)?;
        self.left = left;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    /// Reads seven bits per byte, the lowest first; the eighth bit says that more follow.
    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too large")
    }

    pub(crate) fn zigzag(&mut self) -> Result<i64, Malformed> {
        self.varint().map(|code| (code >> 1).cast_signed() ^ -(code & 1).cast_signed())
    }

    /// Reads the number of elements that follow, each of at least `least` bytes.
    pub(crate) fn length(&mut self, least: usize) -> Result<usize, Malformed> {
        let length = u64::from_le_bytes(self.array()?);
        usize::try_from(length)
            .ok()
            .filter(|&length| length <= self.left.len() / least)
            .ok_or("a length goes beyond its end")
    }

    /// Checks that nothing is left over.
    pub(crate) fn finish(self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err("it goes on after its end") }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.left.is_empty()
    }
}

pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    put_varint((value << 1 ^ value >> 63).cast_unsigned(), out);
}

/// Has a fixed size, so that a list of empty lists still takes a third of its size in memory.
pub(crate) fn put_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u64).to_le_bytes());
}

impl Codec for u8 {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed> {
        from.byte()
    }

    fn put_all(all: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(all);
    }

    fn take_all(count: usize, from: &mut ByteCursor<'_>) -> Result<Vec<Self>, Malformed> {
        from.bytes(count).map(<[u8]>::to_vec)
    }
}

impl Codec for u16 {
    const LEAST: usize = 2;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed> {
        from.array().map(Self::from_le_bytes)
    }
}

impl Codec for u32 {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(u64::from(*self), out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed> {
        from.varint()?.try_into().map_err(|_| "a number is too large")
    }
}

impl Codec for u64 {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(*self, out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed> {
        from.varint()
    }
}

impl Codec for i32 {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        put_zigzag(i64::from(*self), out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed> {
        from.zigzag()?.try_into().map_err(|_| "a number is too large")
    }
}

impl Codec for bool {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a yes or no is neither"),
        }
    }
}

impl<T: Codec> Codec for Option<T> {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|some| some.put(out));
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Codec> Codec for Vec<T> {
    const LEAST: usize = size_of::<u64>();

    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.len(), out);
        T::put_all(self, out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed> {
        let count = from.length(T::LEAST)?;
        T::take_all(count, from)
    }
}

impl Codec for String {
    const LEAST: usize = Vec::<u8>::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.len(), out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, Malformed> {
        Self::from_utf8(Vec::take(from)?).map_err(|_| "a text is not UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Codec + PartialEq + std::fmt::Debug>(value: T) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        assert!(bytes.len() >= T::LEAST, "{value:?} takes fewer bytes than the least");
        let mut cursor = ByteCursor::new(&bytes);
        assert_eq!(T::take(&mut cursor), Ok(value));
        cursor.finish().unwrap();
        for cut in 0..bytes.len() {
            assert!(T::take(&mut ByteCursor::new(&bytes[..cut])).is_err());
        }
    }

    #[test]
    fn values_round_trip_and_reject_truncation() {
        [0, 1, 0x7f, 0x80, u64::MAX >> 1, u64::MAX].into_iter().for_each(there_and_back);
        [i32::MIN, -1, 0, 1, i32::MAX].into_iter().for_each(there_and_back);
        [Some(300_u32), None].into_iter().for_each(there_and_back);
        there_and_back(vec![String::from("Knäuel"), String::new()]);
        there_and_back(vec![b"\0\xff".to_vec(), Vec::new()]);
    }

    #[test]
    fn excessive_length_is_rejected_before_allocation() {
        let mut bytes = Vec::new();
        put_length(usize::MAX, &mut bytes);
        assert_eq!(Vec::<u8>::take(&mut ByteCursor::new(&bytes)), Err("a length goes beyond its end"));
    }

    #[test]
    fn number_beyond_64_bits_is_rejected() {
        let bytes = [0xff; 9].into_iter().chain([2]).collect::<Vec<_>>();
        assert_eq!(u64::take(&mut ByteCursor::new(&bytes)), Err("a number is too large"));
        assert_eq!(u64::take(&mut ByteCursor::new(&[0x80; 11])), Err("a number is too large"));
    }
}
