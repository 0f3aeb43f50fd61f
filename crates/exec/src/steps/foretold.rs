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
struct Seen {
    last: u64,
    before: u64,
}

/// How a word is told, in half a byte. From [`FAR`] on: by so many bytes of difference, and one.
const SAME: u8 = 0;
const AS_BEFORE: u8 = 1;
const GOES_ON: u8 = 2;
const AS_ANOTHER: u8 = 3;
const FAR: u8 = 4;

/// Foretells one word after the other, when told what they were.
struct Oracle {
    seen: Box<[Seen]>,
    /// The latest head, and how many words there were since.
    head: u64,
    since: u64,
    /// The latest word that nothing foretold.
    another: u64,
}

impl Oracle {
    fn new() -> Self {
        Self { seen: vec![Seen::default(); 1 << PLACES_LOG2].into(), head: 0, since: 0, another: 0 }
    }

    #[inline]
    fn place(&self) -> usize {
        let key = self.head ^ self.since << 40;
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES_LOG2)) as usize
    }

    /// Heads have something in the bits that addresses do not use. If an address has too, the worse for the foretelling.
    #[inline]
    fn passed(&mut self, word: u64) {
        if word >> 48 == 0 {
            self.since += 1;
        } else {
            (self.head, self.since) = (word, 0);
        }
    }

    /// How the word is to be told; the bytes of its difference go to the end of `far`.
    #[inline]
    fn tell(&mut self, word: u64, far: &mut Far) -> u8 {
        let seen = &mut self.seen[self.place()];
        let Seen { last, before } = *seen;
        let told = if word == last {
            SAME
        } else {
            *seen = Seen { last: word, before: last };
            if word == before {
                AS_BEFORE
            } else if word == on(last, before) {
                GOES_ON
            } else if word == self.another {
                AS_ANOTHER
            } else {
                self.another = word;
                FAR - 1 + far.push(word.wrapping_sub(last))
            }
        };
        self.passed(word);
        told
    }

    /// The word that was told so; none if it makes no sense.
    #[inline]
    fn hear(&mut self, told: u8, far: &mut &[u8]) -> Option<u64> {
        let seen = &mut self.seen[self.place()];
        let Seen { last, before } = *seen;
        let word = match told {
            SAME => last,
            AS_BEFORE => before,
            GOES_ON => on(last, before),
            AS_ANOTHER => self.another,
            _ => {
                let (bytes, rest) = far.split_at_checked(usize::from(told - FAR) + 1)?;
                *far = rest;
                let mut difference = [0; 8];
                difference.get_mut(..bytes.len())?.copy_from_slice(bytes);
                self.another = last.wrapping_add(unfolded(u64::from_le_bytes(difference)));
                self.another
            }
        };
        if told != SAME {
            *seen = Seen { last: word, before: last };
        }
        self.passed(word);
        Some(word)
    }
}

/// As far from the last as that was from the one before.
#[inline]
fn on(last: u64, before: u64) -> u64 {
    last.wrapping_add(last.wrapping_sub(before))
}

/// Small numbers of either sign as small numbers.
#[inline]
fn folded(difference: u64) -> u64 {
    difference << 1 ^ ((difference as i64) >> 63) as u64
}

#[inline]
fn unfolded(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Bytes of differences; there is room for whole words all the time.
struct Far {
    bytes: Vec<u8>,
    used: usize,
}

impl Far {
    /// How many bytes it was.
    #[inline]
    fn push(&mut self, difference: u64) -> u8 {
        let number = folded(difference);
        self.bytes[self.used..self.used + 8].copy_from_slice(&number.to_le_bytes());
        let bytes = (8 - number.leading_zeros() / 8).max(1) as u8;
        self.used += usize::from(bytes);
        bytes
    }
}

/// Puts there what is left of the words: how many they are, how they are told, and by how far they are off.
pub(super) fn tell(words: &[u64], into: &mut Vec<u8>) {
    let mut oracle = Oracle::new();
    let mut far = Far { bytes: vec![0; 8 * words.len() + 8], used: 0 };
    into.clear();
    into.extend((words.len() as u64).to_le_bytes());
    into.extend(words.chunks(2).map(|pair| {
        let first = oracle.tell(pair[0], &mut far);
        pair.get(1).map_or(0, |&word| oracle.tell(word, &mut far)) << 4 | first
    }));
    into.extend_from_slice(&far.bytes[..far.used]);
}

/// Puts the words there; none if the bytes make no sense.
pub(super) fn hear(bytes: &[u8], into: &mut Vec<u64>) -> Option<()> {
    into.clear();
    let (count, rest) = bytes.split_first_chunk()?;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
    let (told, mut far) = rest.split_at_checked(count.div_ceil(2))?;
    let mut oracle = Oracle::new();
    into.reserve(count);
    for (number, pair) in (0..count).step_by(2).zip(told) {
        into.push(oracle.hear(pair & 15, &mut far)?);
        if number + 1 < count {
            into.push(oracle.hear(pair >> 4, &mut far)?);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(words: &[u64]) -> Vec<u64> {
        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        tell(words, &mut bytes);
        hear(&bytes, &mut again).expect("it makes sense");
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
    fn what_is_told_is_heard() {
        for seed in 0..200 {
            let words = words(seed, (seed as usize * 37) % 1000);
            assert_eq!(heard(&words), words, "seed {seed}");
        }
    }

    #[test]
    fn what_repeats_itself_takes_half_a_byte() {
        let words: Vec<u64> = (0..1000).flat_map(|n| [3 << 48 | 0x1000, 0x8000 + 16 * n]).collect();
        let mut bytes = Vec::new();
        tell(&words, &mut bytes);
        assert!(bytes.len() < 8 + 1000 + 40, "{}", bytes.len());
    }

    #[test]
    fn bytes_that_were_cut_make_no_sense() {
        let mut bytes = Vec::new();
        tell(&words(5, 300), &mut bytes);
        assert_eq!(hear(&bytes[..bytes.len() - 1], &mut Vec::new()), None);
        assert_eq!(hear(&bytes[..100], &mut Vec::new()), None);
        assert_eq!(hear(&[], &mut Vec::new()), None);
    }
}
