//! Finds the recorded code in another build.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};
use unsnarl_model::{
    Action, Event, Fidelity, ModuleIx, Op, Places, Plan, Points, Prefix, Schedule, Site, Span, Trace,
};
use unsnarl_report::{Names, ProgramNames};
use unsnarl_symbols::{FunctionCode, Symbols, build_id};

/// The recorded code in another build of the program, as far as it was not changed.
pub(super) struct Counterparts<'a> {
    recorded: &'a Trace,
    new_path: &'a str,
    /// The function of each recorded site that is in the program's own file.
    recorded_code: HashMap<Site, FunctionCode>,
    /// The first offsets of functions that were not changed, in the new build, by name.
    unchanged: HashMap<String, u64>,
    /// The libraries that are still the recorded files.
    same_libraries: Vec<ModuleIx>,
}

impl<'a> Counterparts<'a> {
    /// Compares the functions of all recorded sites.
    pub(super) fn new(recorded: &'a Trace, old: &mut Symbols, new_path: &'a str, new: &mut Symbols) -> Self {
        let mut recorded_code = HashMap::new();
        let mut unchanged = HashMap::new();
        let sites = recorded.sites.iter().copied().chain(planned_places(recorded).map(|(site, _)| site));
        for site in sites.filter(|site| site.module == ModuleIx(0)) {
            let Some(code) = old.function_code(&recorded.modules, site) else { continue };
            let same = new.function_code_of(new_path, &code.name).filter(|new| new.is_unchanged(&code));
            if let Some(same) = same {
                unchanged.insert(same.name, same.start);
            }
            recorded_code.insert(site, code);
        }
        let libraries = recorded.modules.iter().enumerate().skip(1);
        let same_libraries = libraries
            .filter(|(_, module)| build_id(Path::new(&module.path)) == module.build_id)
            .map(|(number, _)| ModuleIx(number as u16))
            .collect();
        Self { recorded, new_path, recorded_code, unchanged, same_libraries }
    }

    /// Returns the same instruction in the new build: the module's path and the offset.
    fn counterpart(&self, site: Site) -> Option<(&str, u64)> {
        if site.module == ModuleIx(0) {
            let code = self.recorded_code.get(&site)?;
            Some((self.new_path, self.unchanged.get(&code.name)? + (site.offset - code.start)))
        } else if self.same_libraries.contains(&site.module) {
            Some((&self.recorded.modules.get(usize::from(site.module.0))?.path, site.offset))
        } else {
            None
        }
    }

    /// Returns the name of the unchanged function that contains a recorded site, and the offset in it.
    pub(super) fn place_in_recording(&self, site: Site) -> Option<(&str, u64)> {
        let code = self.recorded_code.get(&site).filter(|code| self.unchanged.contains_key(&code.name))?;
        Some((&code.name, site.offset - code.start))
    }

    /// Returns the name of the unchanged function that has this code in the new build, and the offset in it.
    pub(super) fn place_in_new_build(&self, code: &FunctionCode, site: Site) -> Option<(&str, u64)> {
        let (name, _) = self.unchanged.get_key_value(&code.name)?;
        Some((name, site.offset - code.start))
    }

    /// Returns the recorded schedule at the new build's sites, without the events whose code was changed.
    pub(super) fn prefix(&self) -> Prefix {
        let mut schedule = Schedule::default();
        let mut modules: Vec<String> = Vec::new();
        let mut actions = Vec::new();
        for event in &self.recorded.events {
            let Some((path, offset)) = self.counterpart(self.recorded.site(event)) else { continue };
            let module = modules.iter().position(|known| known == path).unwrap_or_else(|| {
                modules.push(path.to_owned());
                modules.len() - 1
            });
            schedule.push(event.thread);
            actions
                .push(Action { op: event.op, site: Site { module: ModuleIx(module as u16), offset } }.into());
        }
        Prefix {
            threads: self.recorded.threads.iter().map(|thread| thread.id.clone()).collect(),
            modules,
            segments: schedule.segments,
            actions,
            fidelity: Fidelity::Relaxed,
        }
    }

    /// Returns the plan for the new build: it has the same schedule points, and in functions that were changed all
    /// accesses. A thread may have been stopped at a point that it never passed, so points are not only the executed
    /// accesses.
    pub(super) fn plan(&self, names: &mut ProgramNames<'_>, new: &mut Symbols) -> Plan {
        let plan = self.recorded.plan.clone();
        if plan.points != Points::Places {
            return plan;
        }
        let is_access = |event: &&Event| matches!(event.op, Op::Read | Op::Write);
        let executed =
            self.recorded.events.iter().filter(is_access).map(|event| (self.recorded.site(event), 1));
        let points: BTreeSet<(Site, u64)> = executed.chain(planned_places(self.recorded)).collect();
        let mut places = Places::default();
        for (site, length) in points {
            if let Some((path, offset)) = self.counterpart(site) {
                let module = places.module(path);
                places.add(Span { module, start: offset, end: offset + length });
            } else if let Some(function) = names.place(site).function {
                let path = self.path_of(site);
                let module = places.module(path);
                for (start, end) in new.ranges(path, &function) {
                    places.add(Span { module, start, end });
                }
            }
        }
        Plan { places, ..plan }
    }

    /// Returns whether the new build has the function of a recorded site.
    pub(super) fn has_function_of(
        &self,
        site: Site,
        names: &mut ProgramNames<'_>,
        new: &mut Symbols,
    ) -> bool {
        self.counterpart(site).is_some()
            || names
                .place(site)
                .function
                .is_some_and(|function| !new.ranges(self.path_of(site), &function).is_empty())
    }

    /// Returns the file in which the new build has the code of this site's module.
    fn path_of(&self, site: Site) -> &str {
        match self.recorded.modules.get(usize::from(site.module.0)) {
            Some(module) if site.module != ModuleIx(0) => &module.path,
            _ => self.new_path,
        }
    }
}

/// Returns the places that were schedule points of the recorded run: the first site, and the number of bytes.
fn planned_places(recorded: &Trace) -> impl Iterator<Item = (Site, u64)> {
    let places = &recorded.plan.places;
    places.spans.iter().filter_map(|span| {
        let path = places.modules.get(usize::from(span.module.0))?;
        let module = recorded.modules.iter().position(|module| module.path == *path)?;
        let site = Site { module: ModuleIx(module as u16), offset: span.start };
        Some((site, span.end.saturating_sub(span.start)))
    })
}
