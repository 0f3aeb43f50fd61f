//! A set of steps as a bit set, because a slice may have most of a hundred million steps.

/// Some steps of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepSet {
    bits: Vec<u64>,
}

impl StepSet {
    /// Adds a step.
    pub fn insert(&mut self, step: u64) {
        let at = (step / 64) as usize;
        if self.bits.len() <= at {
            self.bits.resize(at + 1, 0);
        }
        self.bits[at] |= 1 << (step % 64);
    }

    /// Returns whether the step is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, step: u64) -> bool {
        self.bits.get((step / 64) as usize).is_some_and(|bits| bits >> (step % 64) & 1 == 1)
    }

    /// Iterates over the steps, earliest first.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..).step_by(64).zip(&self.bits).flat_map(|(first, &bits)| {
            let some = |bits: u64| (bits != 0).then_some(bits);
            std::iter::successors(some(bits), move |bits| some(bits & (bits - 1)))
                .map(move |bits| first + u64::from(bits.trailing_zeros()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_steps_iterate_in_order() {
        let mut steps = StepSet::default();
        for step in [700, 63, 64, 0, 5] {
            steps.insert(step);
        }
        assert_eq!(steps.iter().collect::<Vec<_>>(), [0, 5, 63, 64, 700]);
        assert!(steps.contains(64) && !steps.contains(65) && !steps.contains(100_000));
    }
}
