//! Paired measurements on a machine with other load.

use anyhow::Result;

/// Values measured one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the quartiles, between which half of the values lie.
    pub(crate) fn spread(&self) -> (f64, f64) {
        (self.quantile(0.25), self.quantile(0.75))
    }

    fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
        let position = part * last as f64;
        let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
        below + (above - below) * position.fract()
    }
}

/// Two things measured alternately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measurement {
    pub(crate) ours: Samples,
    pub(crate) theirs: Samples,
    /// The ratio of each turn; a disturbance of one turn does not affect the others.
    pub(crate) ratios: Samples,
}

impl Measurement {
    /// Measures both alternately. The side that goes first alternates, and a first turn only warms up.
    pub(crate) fn measure(
        repetitions: usize,
        mut ours: impl FnMut() -> Result<f64>,
        mut theirs: impl FnMut() -> Result<f64>,
        ratio: impl Fn(f64, f64) -> f64,
    ) -> Result<Self> {
        let [pair] = Self::measure_each(repetitions, || Ok([ours()?]), || Ok([theirs()?]), ratio)?;
        Ok(pair)
    }

    /// Measures several values at once in the same way.
    pub(crate) fn measure_each<const N: usize>(
        repetitions: usize,
        mut ours: impl FnMut() -> Result<[f64; N]>,
        mut theirs: impl FnMut() -> Result<[f64; N]>,
        ratio: impl Fn(f64, f64) -> f64,
    ) -> Result<[Self; N]> {
        let mut pairs = std::array::from_fn(|_| Self::default());
        for turn in 0..=repetitions {
            let (our, their) = if turn % 2 == 0 {
                let our = ours()?;
                (our, theirs()?)
            } else {
                let their = theirs()?;
                (ours()?, their)
            };
            if turn == 0 {
                continue;
            }
            for ((pair, our), their) in pairs.iter_mut().zip(our).zip(their) {
                pair.ours.0.push(our);
                pair.theirs.0.push(their);
                pair.ratios.0.push(ratio(our, their));
            }
        }
        Ok(pairs)
    }
}

impl Measurement {
    /// Converts to another unit, of which each of our values and each of theirs has this many.
    pub(crate) fn times(&self, ours: f64, theirs: f64) -> Self {
        let scaled = |samples: &Samples, by: f64| Samples(samples.0.iter().map(|value| value * by).collect());
        Self {
            ours: scaled(&self.ours, ours),
            theirs: scaled(&self.theirs, theirs),
            ratios: scaled(&self.ratios, ours / theirs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_quartiles_lie_between_neighbours() {
        let samples = Samples(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(samples.median(), 2.5);
        assert_eq!(samples.spread(), (1.75, 3.25));
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn ratios_are_taken_turn_by_turn() {
        let mut load = 0.0;
        let mut loaded = |base: f64| {
            load += 1.0;
            Ok(base * f64::floor((load + 1.0) / 2.0))
        };
        let loaded = std::cell::RefCell::new(&mut loaded);
        let pair =
            Measurement::measure(5, || loaded.borrow_mut()(2.0), || loaded.borrow_mut()(1.0), |o, t| o / t)
                .unwrap();
        assert_eq!(pair.ratios.spread(), (2.0, 2.0));
        assert_eq!(pair.ours.median(), 8.0);
    }
}
