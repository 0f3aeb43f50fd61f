//! The data races found during a search.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use unsnarl_model::{Conflict, ConflictKind, Module, Op, Site};
use unsnarl_report::{Names, ProgramNames};
use unsnarl_symbols::Symbols;

/// The races found so far, certain and possible ones, one for each pair of sites.
#[derive(Default)]
pub(super) struct Races {
    found: BTreeMap<[Site; 2], Conflict>,
    modules: Vec<Module>,
}

impl Races {
    pub(super) fn add(&mut self, conflicts: &[Conflict], modules: &[Module]) {
        for conflict in conflicts {
            let certain = conflict.kind == ConflictKind::Race;
            if !certain && conflict.kind != ConflictKind::Possible {
                continue;
            }
            let mut places = conflict.sides.map(|side| side.site);
            places.sort();
            let known = self.found.entry(places).or_insert(*conflict);
            if certain && known.kind != ConflictKind::Race {
                *known = *conflict;
            }
            if modules.len() > self.modules.len() {
                self.modules = modules.to_vec();
            }
        }
    }

    /// Returns the number of those that are certain.
    pub(super) fn count(&self) -> usize {
        self.of_kind(ConflictKind::Race).count()
    }

    fn of_kind(&self, kind: ConflictKind) -> impl Iterator<Item = &Conflict> {
        self.found.values().filter(move |race| race.kind == kind)
    }

    /// Describes the races of this kind (certain or possible) with the program's names, and files relative to `cwd`; one
    /// for each pair of lines.
    pub(super) fn describe(&self, kind: ConflictKind, cwd: &str) -> Vec<RaceDescription> {
        let mut symbols = Symbols::new();
        let mut names = ProgramNames::new(&self.modules, &mut symbols);
        let here = format!("{cwd}/");
        let mut descriptions: Vec<RaceDescription> = Vec::new();
        for race in self.of_kind(kind) {
            let mut sides = race.sides.map(|side| {
                let frame = names.place(side.site);
                let place = frame.place().unwrap_or_else(|| frame.to_string());
                (side.op, place.strip_prefix(&here).unwrap_or(&place).to_owned())
            });
            sides.sort_by_key(|(_, place)| in_order(place));
            let race = RaceDescription { variable: names.variable(race.addr), sides };
            if !descriptions.contains(&race) {
                descriptions.push(race);
            }
        }
        descriptions.sort_by_key(|race| race.sides.each_ref().map(|(_, place)| in_order(place)));
        descriptions
    }
}

/// Sort key: file, then line.
fn in_order(place: &str) -> (String, u32) {
    match place.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
        Some((file, Ok(line))) => (file.to_owned(), line),
        _ => (place.to_owned(), 0),
    }
}

/// A race as text.
#[derive(PartialEq, Eq)]
pub(super) struct RaceDescription {
    variable: Option<String>,
    sides: [(Op, String); 2],
}

pub(super) fn line(race: &RaceDescription) -> String {
    let [(a, at), (b, and)] = &race.sides;
    let variable = race.variable.as_deref().map_or_else(String::new, |name| format!("   ({name})"));
    format!("         {} at {at}, {} at {and}{variable}\n", a.name(), b.name())
}

pub(super) fn json(race: &RaceDescription) -> Value {
    let side = |(op, place): &(Op, String)| json!({ "op": op.name(), "site": place });
    json!({ "object": race.variable, "a": side(&race.sides[0]), "b": side(&race.sides[1]) })
}
