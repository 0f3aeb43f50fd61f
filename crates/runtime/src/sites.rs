//! The code sites that the plan names: which accesses are schedule points, and which sites the policy
//! watches.

use crate::{log::Log, modules::Modules};
use alloc::vec::Vec;

/// The plan's sites as addresses of this run.
#[derive(Debug, Default)]
pub(crate) struct PlanSites {
    /// The sites by their numbers in the plan: from, to. Empty while the module is not loaded.
    spans: Vec<(u64, u64)>,
    /// A bit for each code address in an image that has sites; the program's image first.
    images: Vec<SiteImage>,
}

#[derive(Debug)]
struct SiteImage {
    start: u64,
    size: u64,
    bits: Vec<u64>,
}

impl PlanSites {
    /// Resolves the sites in the modules that are loaded now.
    pub(crate) fn of(log: &Log, modules: &Modules) -> Self {
        let mut places = Self::default();
        for span in log.spans() {
            let found = modules.of_plan(span.module as usize);
            places.spans.push(found.map_or((0, 0), |base| (base + span.start, base + span.end)));
        }
        for at in 0..places.spans.len() {
            let (from, to) = places.spans[at];
            if let Some((start, end)) = modules.image(from) {
                places.image(start, end - start).set(from, to.min(end));
            }
        }
        places
    }

    fn image(&mut self, start: u64, size: u64) -> &mut SiteImage {
        let known = self.images.iter().position(|image| image.start == start);
        let at = known.unwrap_or_else(|| {
            self.images.push(SiteImage { start, size, bits: alloc::vec![0; size as usize / 64 + 1] });
            self.images.len() - 1
        });
        &mut self.images[at]
    }

    /// Returns whether the call with this return address is at one of the sites.
    #[inline]
    pub(crate) fn contain(&self, pc: u64) -> bool {
        let site = pc.wrapping_sub(1);
        self.images.iter().any(|image| {
            let at = site.wrapping_sub(image.start);
            at < image.size && image.bits[at as usize / 64] >> (at % 64) & 1 == 1
        })
    }

    /// Returns whether the call with this return address is at this site.
    pub(crate) fn is_at(&self, place: u16, pc: u64) -> bool {
        self.spans.get(place as usize).is_some_and(|&(from, to)| (from..to).contains(&pc.wrapping_sub(1)))
    }
}

impl SiteImage {
    fn set(&mut self, from: u64, to: u64) {
        for at in from - self.start..to - self.start {
            self.bits[at as usize / 64] |= 1 << (at % 64);
        }
    }
}
