//! A uniform random walk: at each schedule point every thread that can go on has the same chance.

use crate::{RunView, rng::Rng};
use unsnarl_model::ThreadIx;

#[derive(Debug)]
pub(crate) struct RandomScheduler {
    rng: Rng,
}

impl RandomScheduler {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed) }
    }

    #[inline]
    pub(crate) fn pick(&mut self, world: &impl RunView) -> ThreadIx {
        let (ready, may_expire) = (world.ready(), world.may_expire());
        let choices = ready.len() + may_expire.len();
        if choices == 1 {
            // A single choice consumes no randomness: runs with equal seeds stay alike for longer.
            return ready.nth(0).or_else(|| may_expire.nth(0)).unwrap_or(ThreadIx::MAIN);
        }
        let n = self.rng.below(choices as u32) as usize;
        let chosen = if n < ready.len() { ready.nth(n) } else { may_expire.nth(n - ready.len()) };
        chosen.unwrap_or(ThreadIx::MAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Toy;

    #[test]
    fn threads_get_equal_shares() {
        let mut toy = Toy::new(4);
        toy.set_by_timeout(ThreadIx(3));
        let mut random = RandomScheduler::new(7);
        let mut counts = [0u32; 4];
        for _ in 0..4000 {
            counts[random.pick(&toy).index()] += 1;
        }
        assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
    }

    #[test]
    fn choices_follow_from_the_seed() {
        let toy = Toy::new(3);
        let walk = |seed| {
            let mut random = RandomScheduler::new(seed);
            core::array::from_fn::<_, 64, _>(|_| random.pick(&toy))
        };
        assert_eq!(walk(1), walk(1));
        assert_ne!(walk(1), walk(2));
    }
}
