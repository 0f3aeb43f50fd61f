//! The program's random numbers, drawn from the plan.

use unsnarl_sched::Rng;

#[derive(Debug)]
pub(crate) struct Entropy {
    numbers: Rng,
    /// The number of draws.
    drawn: u64,
}

impl Entropy {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { numbers: Rng::new(seed), drawn: 0 }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.drawn += 1;
        self.numbers.next_u64()
    }

    /// Returns how many numbers were drawn.
    pub(crate) const fn drawn(&self) -> u64 {
        self.drawn
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}
