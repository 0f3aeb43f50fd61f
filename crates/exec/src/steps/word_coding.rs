//! Encodes the words of an instruction trace by value prediction.
//!
//! Programs repeat themselves. A block is followed by the same block as the last time, or the time before. An address
//! is the same as the last time at this place, or has the same stride. A predicted word takes half a byte, which leaves
//! a tenth of the work to the compression that follows. This is the known technique of trace compression by value
//! predictors. The place of a word is the head of its record and its distance from it. The coder knows nothing else
//! about the records and is lossless for any words.

/// Number of places that are distinguished, as a power of two. Places that collide are predicted less well.
const PLACES_LOG2: u32 = 12;

/// The latest two different words at a place.
#[derive(Clone, Copy, Default)]
struct PlaceHistory {
    last: u64,
    before: u64,
}

/// Codes of half a byte each. Codes from [`LITERAL`] on: a difference of `code - LITERAL + 1` bytes follows.
const SAME: u8 = 0;
const SAME_AS_BEFORE: u8 = 1;
const SAME_STRIDE: u8 = 2;
const SAME_AS_LITERAL: u8 = 3;
const LITERAL: u8 = 4;

/// Predicts each word from the words before it.
struct WordPredictor {
    history: Box<[PlaceHistory]>,
    /// The latest head, and the number of words since.
    head: u64,
    since: u64,
    /// The latest word that was not predicted.
    last_literal: u64,
}

impl WordPredictor {
    fn new() -> Self {
        Self {
            history: vec![PlaceHistory::default(); 1 << PLACES_LOG2].into(),
            head: 0,
            since: 0,
            last_literal: 0,
        }
    }

    #[inline]
    fn place(&self) -> usize {
        let key = self.head ^ self.since << 40;
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES_LOG2)) as usize
    }

    /// Heads have bits set that addresses do not use. An address with such bits only makes the prediction worse.
    #[inline]
    fn advance(&mut self, word: u64) {
        if word >> 48 == 0 {
            self.since += 1;
        } else {
            (self.head, self.since) = (word, 0);
        }
    }

    /// Returns the code of a word; the bytes of a difference are appended to `literals`.
    #[inline]
    fn encode(&mut self, word: u64, literals: &mut Literals) -> u8 {
        let history = &mut self.history[self.place()];
        let PlaceHistory { last, before } = *history;
        let code = if word == last {
            SAME
        } else {
            *history = PlaceHistory { last: word, before: last };
            if word == before {
                SAME_AS_BEFORE
            } else if word == extrapolate(last, before) {
                SAME_STRIDE
            } else if word == self.last_literal {
                SAME_AS_LITERAL
            } else {
                self.last_literal = word;
                LITERAL - 1 + literals.push(word.wrapping_sub(last))
            }
        };
        self.advance(word);
        code
    }

    /// Returns the decoded word; `None` if the input is corrupt.
    #[inline]
    fn decode(&mut self, code: u8, literals: &mut &[u8]) -> Option<u64> {
        let history = &mut self.history[self.place()];
        let PlaceHistory { last, before } = *history;
        let word = match code {
            SAME => last,
            SAME_AS_BEFORE => before,
            SAME_STRIDE => extrapolate(last, before),
            SAME_AS_LITERAL => self.last_literal,
            _ => {
                let (bytes, rest) = literals.split_at_checked(usize::from(code - LITERAL) + 1)?;
                *literals = rest;
                let mut difference = [0; 8];
                difference.get_mut(..bytes.len())?.copy_from_slice(bytes);
                self.last_literal = last.wrapping_add(unzigzag(u64::from_le_bytes(difference)));
                self.last_literal
            }
        };
        if code != SAME {
            *history = PlaceHistory { last: word, before: last };
        }
        self.advance(word);
        Some(word)
    }
}

/// Returns the next word of the same stride.
#[inline]
fn extrapolate(last: u64, before: u64) -> u64 {
    last.wrapping_add(last.wrapping_sub(before))
}

/// Maps small numbers of either sign to small unsigned numbers.
#[inline]
fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

#[inline]
fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Bytes of differences; there is always room for a whole word.
struct Literals {
    bytes: Vec<u8>,
    used: usize,
}

impl Literals {
    /// Appends a difference and returns its number of bytes.
    #[inline]
    fn push(&mut self, difference: u64) -> u8 {
        let number = zigzag(difference);
        self.bytes[self.used..self.used + 8].copy_from_slice(&number.to_le_bytes());
        let bytes = (8 - number.leading_zeros() / 8).max(1) as u8;
        self.used += usize::from(bytes);
        bytes
    }
}

/// Encodes words as their count, their codes, and the bytes of the differences.
pub(super) fn encode(words: &[u64], into: &mut Vec<u8>) {
    let mut predictor = WordPredictor::new();
    let mut literals = Literals { bytes: vec![0; 8 * words.len() + 8], used: 0 };
    into.clear();
    into.extend((words.len() as u64).to_le_bytes());
    into.extend(words.chunks(2).map(|pair| {
        let first = predictor.encode(pair[0], &mut literals);
        pair.get(1).map_or(0, |&word| predictor.encode(word, &mut literals)) << 4 | first
    }));
    into.extend_from_slice(&literals.bytes[..literals.used]);
}

/// Decodes words; `None` if the bytes are corrupt.
pub(super) fn decode(bytes: &[u8], into: &mut Vec<u64>) -> Option<()> {
    into.clear();
    let (count, rest) = bytes.split_first_chunk()?;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
    let (code, mut literals) = rest.split_at_checked(count.div_ceil(2))?;
    let mut predictor = WordPredictor::new();
    into.reserve(count);
    for (number, pair) in (0..count).step_by(2).zip(code) {
        into.push(predictor.decode(pair & 15, &mut literals)?);
        if number + 1 < count {
            into.push(predictor.decode(pair >> 4, &mut literals)?);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(words: &[u64]) -> Vec<u64> {
        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        encode(words, &mut bytes);
        decode(&bytes, &mut again).expect("it makes sense");
        again
    }

    /// Returns a mix of words that resemble a program's and words that do not.
    fn words(seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed | 1;
        let mut draw = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        (0..count as u64)
            .map(|n| match draw(8) {
                0 | 1 => 7 << 48 | (0x5555_0000 + draw(5)),
                2 => 0x7fff_0000 + 8 * n,
                3 => u64::MAX - draw(3),
                4 => {
                    let bits = draw(63);
                    draw(1 << bits)
                }
                5 => 0,
                _ => 0x7fff_0000,
            })
            .collect()
    }

    #[test]
    fn decoded_words_equal_encoded_words() {
        for seed in 0..200 {
            let words = words(seed, (seed as usize * 37) % 1000);
            assert_eq!(round_trip(&words), words, "seed {seed}");
        }
    }

    #[test]
    fn repeated_words_take_half_a_byte() {
        let words: Vec<u64> = (0..1000).flat_map(|n| [3 << 48 | 0x1000, 0x8000 + 16 * n]).collect();
        let mut bytes = Vec::new();
        encode(&words, &mut bytes);
        assert!(bytes.len() < 8 + 1000 + 40, "{}", bytes.len());
    }

    #[test]
    fn truncated_bytes_are_rejected() {
        let mut bytes = Vec::new();
        encode(&words(5, 300), &mut bytes);
        assert_eq!(decode(&bytes[..bytes.len() - 1], &mut Vec::new()), None);
        assert_eq!(decode(&bytes[..100], &mut Vec::new()), None);
        assert_eq!(decode(&[], &mut Vec::new()), None);
    }
}
