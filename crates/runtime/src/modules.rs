//! The program's modules: where they are loaded, and which of them are system internals.

use crate::{
    heap,
    loaded::{self, Loaded},
    log::{Log, c_bytes},
};
use alloc::vec::Vec;
use core::ffi::c_char;
use unsnarl_model::Site;
use unsnarl_wire::RUNTIME_LIBRARY;

#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: Vec<LoadedModule>,
    /// The program's image, which most queries are about.
    program: (u64, u64),
    /// The parts of it that cannot be written: starts and sizes.
    constants: [(u64, u64); 4],
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
    /// True if it was compiled with instrumentation: it needs this library.
    instrumented: bool,
    /// Its code, if that may order threads by operations that are not seen.
    ordering_code: Option<(u64, u64)>,
}

/// The beginnings of the names of libraries that are not instrumented and whose ordering is modelled.
const MODELLED: [&[u8]; 13] = [
    b"ld-linux",
    b"libc.so",
    b"libm.so",
    b"libpthread.so",
    b"libdl.so",
    b"librt.so",
    b"libatomic.so",
    b"libgcc_s.so",
    b"libstdc++.so",
    b"libc++",
    b"libgomp.so",
    b"linux-vdso",
    b"libunsnarl_",
];

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

    /// Returns whether this address is in a part of the program's image that is never written.
    #[inline]
    pub(crate) fn is_constant(&self, addr: u64) -> bool {
        self.constants.iter().any(|&(start, size)| addr.wrapping_sub(start) < size)
    }

    /// Returns whether the program itself was compiled with instrumentation.
    pub(crate) fn is_program_instrumented(&self) -> bool {
        self.is_instrumented(self.program.0)
    }

    /// Returns whether the code at this address was compiled with instrumentation.
    pub(crate) fn is_instrumented(&self, pc: u64) -> bool {
        self.known.iter().any(|k| k.instrumented && (k.start..k.end).contains(&pc))
    }

    /// Returns whether a library has code that may order threads by operations that are not seen.
    pub(crate) fn has_ordering_code(&self) -> bool {
        self.known.iter().any(|k| k.ordering_code.is_some())
    }

    /// Returns whether the code at this address may order threads by operations that are not seen.
    pub(crate) fn is_ordering_code(&self, pc: u64) -> bool {
        self.known.iter().filter_map(|k| k.ordering_code).any(|(start, end)| (start..end).contains(&pc))
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
                self.add(log, module, (start, end));
            }
        });
    }

    fn add(&mut self, log: &Log, module: &Loaded<'_>, (start, end): (u64, u64)) {
        let (base, path) = (module.base(), module.path());
        if self.known.iter().any(|k| k.base == base && k.start == start)
            || !log.module(base, start, end, path)
        {
            return;
        }
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        let (is_unwinder, openmp) = (name.starts_with(b"libgcc_s.so"), name.starts_with(b"libgomp.so"));
        let instrumented = needs_this_library(module);
        let is_modelled = path.is_empty() || MODELLED.iter().any(|known| name.starts_with(known));
        let code = || module.segments(libc::PT_LOAD).find(|(_, header)| header.p_flags & libc::PF_X != 0);
        let ordering_code = if instrumented || is_modelled { None } else { code() };
        let ordering_code = ordering_code.map(|(range, _)| (range.start, range.end));
        self.known.push(LoadedModule { base, start, end, is_unwinder, openmp, instrumented, ordering_code });
        if path.is_empty() && self.program.1 == 0 {
            self.program = (start, end - start);
            let constant =
                module.segments(libc::PT_LOAD).filter(|(_, header)| header.p_flags & libc::PF_W == 0);
            for (room, (range, _)) in self.constants.iter_mut().zip(constant) {
                *room = (range.start, range.end - range.start);
            }
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

/// Returns whether a module was linked with this library, which only `unsnarl cc` and `unsnarl cargo` do.
fn needs_this_library(module: &Loaded<'_>) -> bool {
    const NEEDED: u64 = 1;
    const STRINGS: u64 = 5;
    let Some((range, _)) = module.segments(libc::PT_DYNAMIC).next() else { return false };
    let (base, table) = (module.base(), range.start as *const [u64; 2]);
    // SAFETY: the module's dynamic section, which ends with an entry of zeros.
    let entries = || (0..).map(|at| unsafe { *table.add(at) }).take_while(|&[tag, _]| tag != 0);
    let Some([_, strings]) = entries().find(|&[tag, _]| tag == STRINGS) else { return false };
    // The loader replaces the offset by the address, except in read-only sections.
    let strings = if strings < base { base + strings } else { strings };
    entries().any(|[tag, name]| {
        tag == NEEDED && c_bytes((strings + name) as *const c_char) == RUNTIME_LIBRARY.as_bytes()
    })
}
