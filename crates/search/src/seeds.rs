//! The seeds of a search's runs.

/// A sequence of seeds, one for each run. The sequences of different searches have nothing in common, however
/// close their own seeds are.
#[derive(Clone, Debug)]
pub(crate) struct RunSeeds {
    search: u64,
    run: u64,
}

impl RunSeeds {
    /// Returns the seeds of the search with this seed.
    pub(crate) const fn new(search: u64) -> Self {
        Self { search, run: 0 }
    }

    /// Returns the seed of the next run. It has 32 bits, so that it can be typed.
    pub(crate) const fn next(&mut self) -> u64 {
        self.run += 1;
        mix_seeds(self.search, self.run) >> 32
    }
}

/// Returns the seed of the program's random numbers that belongs to the seed of a run or of a search.
#[must_use]
pub const fn entropy_of(seed: u64) -> u64 {
    /// Distinguishes these seeds from those of schedules.
    const STREAM: u64 = 0x5eed;
    mix_seeds(seed, STREAM)
}

/// Mixes two numbers into one that looks unrelated to both.
pub(crate) const fn mix_seeds(a: u64, b: u64) -> u64 {
    splitmix64(splitmix64(a) ^ b)
}

/// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
const fn splitmix64(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn searches_with_neighbouring_seeds_share_no_run() {
        let mut all = HashSet::new();
        for search in 0..10 {
            let mut seeds = RunSeeds::new(search);
            for _ in 0..1000 {
                assert!(all.insert(seeds.next()), "search {search}");
            }
        }
    }

    #[test]
    fn random_numbers_and_schedules_have_different_seeds() {
        assert_ne!(entropy_of(7), 7);
        assert_ne!(entropy_of(7), RunSeeds::new(7).next());
    }
}
