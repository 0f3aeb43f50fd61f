//! The program's modules: where they are loaded, and which of them are system internals.

use crate::{heap, loaded, log::Log};
use alloc::vec::Vec;
use unsnarl_model::Site;

#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: Vec<LoadedModule>,
    /// The program's image, which most queries are about.
    program: (u64, u64),
    /// For each module of the plan its load address here; `u64::MAX` while it is not loaded.
    plan_bases: Vec<u64>,
}

#[derive(Debug)]
struct LoadedModule {
    base: u64,
    start: u64,
    end: u64,
    /// True for the unwinder: its locks while exceptions pass are not the program's.
    is_unwinder: bool,
    /// True for OpenMP's library: its threads wait for each other without calling hooks.
    openmp: bool,
}

/// The owner of the code at an address.
pub(crate) enum Owner {
    /// The program or one of its libraries.
    Program,
    /// The unwinder.
    Unwinder,
    /// No known module.
    Unknown,
}

impl Modules {
    /// Returns whether this address is in the program's image; this check is fast.
    #[inline]
    pub(crate) fn is_program(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.program.0) < self.program.1
    }

    /// Returns the difference between addresses here and in the program's file.
    pub(crate) fn program_base(&self) -> u64 {
        self.known.iter().find(|known| known.start == self.program.0).map_or(0, |known| known.base)
    }

    /// Returns the owner of the code at an address.
    pub(crate) fn owner(&self, pc: u64) -> Owner {
        match self.known.iter().find(|k| (k.start..k.end).contains(&pc)) {
            Some(LoadedModule { is_unwinder: true, .. }) => Owner::Unwinder,
            Some(_) => Owner::Program,
            None => Owner::Unknown,
        }
    }

    /// Returns whether a return address belongs to a site of the plan.
    #[inline]
    pub(crate) fn is_at(&self, pc: u64, site: Site) -> bool {
        self.plan_bases
            .get(site.module.0 as usize)
            .is_some_and(|&base| base != u64::MAX && base.wrapping_add(site.offset) == pc.wrapping_sub(1))
    }

    /// Returns whether threads may wait for each other inside OpenMP's library.
    pub(crate) fn has_openmp(&self) -> bool {
        self.known.iter().any(|k| k.openmp)
    }

    /// Returns whether this address is in OpenMP's library.
    pub(crate) fn is_openmp(&self, pc: u64) -> bool {
        self.known.iter().any(|k| k.openmp && (k.start..k.end).contains(&pc))
    }

    /// Returns the load address of a module of the plan.
    pub(crate) fn of_plan(&self, module: usize) -> Option<u64> {
        self.plan_bases.get(module).copied().filter(|&base| base != u64::MAX)
    }

    /// Returns the start and end of the image that contains this address.
    pub(crate) fn image(&self, addr: u64) -> Option<(u64, u64)> {
        let known = self.known.iter().find(|k| (k.start..k.end).contains(&addr))?;
        Some((known.start, known.end))
    }

    /// Finds new modules and reports them to the controller.
    pub(crate) fn refresh(&mut self, log: &Log) {
        loaded::for_each(|module| {
            let loads = || module.segments(libc::PT_LOAD).map(|(range, _)| range);
            let (start, end) = (loads().map(|range| range.start).min(), loads().map(|range| range.end).max());
            if let (Some(start), Some(end)) = (start, end) {
                self.add(log, module.base(), start, end, module.path());
            }
        });
    }

    fn add(&mut self, log: &Log, base: u64, start: u64, end: u64, path: &[u8]) {
        if self.known.iter().any(|k| k.base == base && k.start == start)
            || !log.module(base, start, end, path)
        {
            return;
        }
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        let (is_unwinder, openmp) = (name.starts_with(b"libgcc_s.so"), name.starts_with(b"libgomp.so"));
        self.known.push(LoadedModule { base, start, end, is_unwinder, openmp });
        if path.is_empty() && self.program.1 == 0 {
            self.program = (start, end - start);
        }
        for (at, planned) in log.plan_modules().enumerate() {
            if self.plan_bases.len() <= at {
                heap::with_plan_heap(|| self.plan_bases.push(u64::MAX));
            }
            if self.plan_bases[at] == u64::MAX && planned == path {
                self.plan_bases[at] = base;
            }
        }
    }
}
