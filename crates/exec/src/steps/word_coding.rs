//! Words of an instruction trace as what they differ by from what could be foretold.
//!
//! Programs do the same again and again: after a block comes the block that came after it the last time, or the time
//! before; an address is what it was there the last time, or as far from it as that was from the one before. Where
//! that holds, half a byte is left of a word, and the compression that follows has a tenth to do. It is the idea of
//! trace compression by value predictors. A word's place is told by the head of its record and how far it is behind
//! it; nothing else of the records is known here, and no word is lost whatever it is.

/// Places that are told apart: a power of two. Those that meet are foretold worse.
const PLACES_LOG2: u32 = 12;

/// What was seen at a place: the latest two that differ.
#[derive(Clone, Copy, Default)]
struct PlaceHistory {
    last: u64,
    before: u64,
}

/// How a word is told, in half a byte. From [`LITERAL`] on: by so many bytes of difference, and one.
const SAME: u8 = 0;
const SAME_AS_BEFORE: u8 = 1;
const SAME_STRIDE: u8 = 2;
const SAME_AS_LITERAL: u8 = 3;
const LITERAL: u8 = 4;

/// Foretells one word after the other, when told what they were.
struct WordPredictor {
    history: Box<[PlaceHistory]>,
    /// The latest head, and how many words there were since.
    head: u64,
    since: u64,
    /// The latest word that nothing foretold.
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

    /// Heads have something in the bits that addresses do not use. If an address has too, the worse for the foretelling.
    #[inline]
    fn advance(&mut self, word: u64) {
        if word >> 48 == 0 {
            self.since += 1;
        } else {
            (self.head, self.since) = (word, 0);
        }
    }

    /// How the word is to be told; the bytes of its difference go to the end of `literals`.
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

    /// The word that was told so; none if it makes no sense.
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

/// As far from the last as that was from the one before.
#[inline]
fn extrapolate(last: u64, before: u64) -> u64 {
    last.wrapping_add(last.wrapping_sub(before))
}

/// Small numbers of either sign as small numbers.
#[inline]
fn zigzag(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

#[inline]
fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Bytes of differences; there is room for whole words all the time.
struct Literals {
    bytes: Vec<u8>,
    used: usize,
}

impl Literals {
    /// How many bytes it was.
    #[inline]
    fn push(&mut self, difference: u64) -> u8 {
        let number = zigzag(difference);
        self.bytes[self.used..self.used + 8].copy_from_slice(&number.to_le_bytes());
        let bytes = (8 - number.leading_zeros() / 8).max(1) as u8;
        self.used += usize::from(bytes);
        bytes
    }
}

/// Puts there what is left of the words: how many they are, how they are told, and by how far they are off.
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

/// Puts the words there; none if the bytes make no sense.
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

    /// Words that look like those of a program, and words that do not.
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
