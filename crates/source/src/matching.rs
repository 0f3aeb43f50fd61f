//! Which of the places of an expression an instruction accesses.
//!
//! The instructions with one line and column, in their order, access some of the expression's places, in the order of
//! evaluation. An assignment of places to instructions is possible if it keeps both orders and the sizes agree. A place
//! is named only if all possible assignments agree on it.

use crate::{Accesses, Part, Place};

/// An access that instrumented code reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// True for a write.
    pub writes: bool,
    /// The number of bytes; 0 if that is not known.
    pub size: u64,
}

/// Returns the name of the place that the instruction at `index` of a group with the same line and column accesses.
/// `sizes`: the sizes that a part of an expression can have, if something is known of it.
pub fn place_of(
    accesses: &Accesses,
    group: &[Instruction],
    index: usize,
    sizes: &mut dyn FnMut(&Part) -> Option<Vec<u64>>,
) -> Option<String> {
    let this = group.get(index)?;
    if this.writes {
        let store = accesses.store.as_ref()?;
        let fits = fit(store, this.size, sizes);
        return (fits != Fit::No).then(|| store.text.clone()).flatten();
    }
    let reads: Vec<u64> = group.iter().filter(|one| !one.writes).map(|one| one.size).collect();
    let index = group[..index].iter().filter(|one| !one.writes).count();
    let fits: Vec<Vec<Fit>> = (accesses.loads.iter())
        .map(|place| reads.iter().map(|&size| fit(place, size, sizes)).collect())
        .collect();
    let search = |names: bool, worst: Fit| {
        let last = accesses.loads.len().checked_sub(1)?;
        let is_candidate = |place: usize| {
            names || !accesses.loads[place].is_name || accesses.ends_with_last && place == last
        };
        Some(Search {
            fits: &fits,
            places: (0..=last).filter(|&place| is_candidate(place)).collect(),
            reads: reads.len(),
            ends_with: accesses.ends_with_last.then_some(last),
            worst,
        })
    };
    // Large objects are accessed in parts.
    for worst in [Fit::Whole, Fit::Part] {
        // A name is often that of a local variable, whose accesses are not reported.
        let (without_names, all) = (search(false, worst)?, search(true, worst)?);
        let mut places = without_names.places_at(index);
        if places.is_empty() || !without_names.has_room() {
            places.extend(all.places_at(index));
        }
        let mut texts: Vec<&Option<String>> =
            places.iter().map(|&place| &accesses.loads[place].text).collect();
        texts.sort_unstable();
        texts.dedup();
        match texts.as_slice() {
            [] => {}
            [only] => return (*only).clone(),
            _ => return None,
        }
    }
    None
}

/// How an access agrees with the size of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The whole place, or nothing is known of its size.
    Whole,
    /// A part of it: of a bit-field, or of a structure that is copied.
    Part,
    No,
}

fn fit(place: &Place, size: u64, sizes: &mut dyn FnMut(&Part) -> Option<Vec<u64>>) -> Fit {
    let known = place.part.as_ref().and_then(sizes).filter(|_| size > 0);
    match known {
        None => Fit::Whole,
        Some(known) if known.contains(&size) => Fit::Whole,
        Some(known) if known.iter().any(|&whole| whole > size) => Fit::Part,
        Some(_) => Fit::No,
    }
}

/// A search for all possible assignments of places to reads.
struct Search<'a> {
    /// For each place, how each read agrees with it.
    fits: &'a [Vec<Fit>],
    /// The places to choose from, in the order of evaluation.
    places: Vec<usize>,
    reads: usize,
    /// The place that the last read must be of.
    ends_with: Option<usize>,
    worst: Fit,
}

impl Search<'_> {
    /// Returns whether each read can be of another place.
    fn has_room(&self) -> bool {
        self.reads <= self.places.len()
    }

    /// Returns the places that a read can be of.
    fn places_at(&self, read: usize) -> Vec<usize> {
        if !self.has_room() {
            // The code was duplicated, or a place is read several times: only the sizes are left.
            return self.places.iter().copied().filter(|&place| self.agrees(place, read)).collect();
        }
        let possible = |&at: &usize| {
            self.agrees(self.places[at], read)
                && self.is_possible(0..at, 0..read)
                && self.is_possible_to_end(at, read)
        };
        (0..self.places.len()).filter(possible).map(|at| self.places[at]).collect()
    }

    fn agrees(&self, place: usize, read: usize) -> bool {
        self.fits[place][read] <= self.worst
    }

    /// Returns whether these reads can be of some of these places. The first fit for each is the best, because it leaves
    /// most places for the others.
    fn is_possible(&self, places: std::ops::Range<usize>, reads: std::ops::Range<usize>) -> bool {
        let mut left = self.places[places].iter();
        reads.into_iter().all(|read| left.any(|&place| self.agrees(place, read)))
    }

    /// Returns whether the reads after this one can be of places after this one, and the last is of the last.
    fn is_possible_to_end(&self, at: usize, read: usize) -> bool {
        let last = self.reads - 1;
        match self.ends_with {
            Some(end) if read == last => self.places[at] == end,
            Some(end) => {
                let end_at = self.places.len() - 1;
                at < end_at
                    && self.places[end_at] == end
                    && self.agrees(end, last)
                    && self.is_possible(at + 1..end_at, read + 1..last)
            }
            None => self.is_possible(at + 1..self.places.len(), read + 1..self.reads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        let name = text.rsplit(['.', '>']).next().unwrap_or(text);
        Place { text: Some(text.to_owned()), part: Some(Part::Named(name.to_owned())), is_name: name == text }
    }

    fn accesses(loads: &[&str], ends_with_last: bool) -> Accesses {
        Accesses { loads: loads.iter().map(|text| place(text)).collect(), ends_with_last, store: None }
    }

    /// Sizes by name: `p`, `q` are pointers, `n`, `m` are numbers, anything else is unknown.
    fn sizes(part: &Part) -> Option<Vec<u64>> {
        let (Part::Named(name) | Part::Inside(name)) = part;
        match name.as_str() {
            "p" | "q" => Some(vec![8]),
            "n" | "m" => Some(vec![4]),
            "large" => Some(vec![24]),
            _ => None,
        }
    }

    fn names(accesses: &Accesses, reads: &[u64]) -> Vec<Option<String>> {
        let group: Vec<Instruction> = reads.iter().map(|&size| Instruction { writes: false, size }).collect();
        (0..group.len()).map(|index| place_of(accesses, &group, index, &mut sizes)).collect()
    }

    fn all(names: &[&str]) -> Vec<Option<String>> {
        names.iter().map(|name| Some((*name).to_owned())).collect()
    }

    #[test]
    fn sizes_and_order_identify_the_place() {
        let chain = accesses(&["a->p", "a->p->n"], false);
        assert_eq!(names(&chain, &[8]), all(&["a->p"]));
        assert_eq!(names(&chain, &[4]), all(&["a->p->n"]));
        assert_eq!(names(&chain, &[8, 4]), all(&["a->p", "a->p->n"]));
        let twice = accesses(&["a->p", "a->q"], false);
        assert_eq!(names(&twice, &[8, 8]), all(&["a->p", "a->q"]));
        assert_eq!(names(&twice, &[8]), [None], "either is possible");
        assert_eq!(names(&twice, &[4]), [None], "neither is possible");
    }

    #[test]
    fn last_read_is_of_the_expression_itself() {
        let chain = accesses(&["a->p", "a->p->q"], true);
        assert_eq!(names(&chain, &[8]), all(&["a->p->q"]));
        assert_eq!(names(&chain, &[8, 8]), all(&["a->p", "a->p->q"]));
        assert_eq!(names(&chain, &[4]), [None]);
    }

    #[test]
    fn names_count_only_if_nothing_else_fits() {
        let element = accesses(&["n", "b.m"], true);
        assert_eq!(names(&element, &[4]), all(&["b.m"]));
        assert_eq!(names(&element, &[4, 4]), [None, Some("b.m".to_owned())], "`b.m` may be read twice");
        assert_eq!(names(&accesses(&["n"], false), &[4]), all(&["n"]));
    }

    #[test]
    fn large_objects_are_read_in_parts_and_duplicated_code_repeats_them() {
        assert_eq!(names(&accesses(&["a.large"], true), &[16, 8]), all(&["a.large", "a.large"]));
        assert_eq!(names(&accesses(&["a->n"], true), &[8]), [None], "two merged reads");
        assert_eq!(names(&accesses(&["a->n", "b->x"], true), &[4, 4, 4]), [None, None, None]);
    }

    #[test]
    fn writes_are_of_the_target() {
        let mut assigned = accesses(&[], false);
        assigned.store = Some(place("a->n"));
        let write = |size| [Instruction { writes: true, size }];
        assert_eq!(place_of(&assigned, &write(4), 0, &mut sizes).as_deref(), Some("a->n"));
        assert_eq!(place_of(&assigned, &write(8), 0, &mut sizes), None, "two merged writes");
        assert_eq!(place_of(&assigned, &write(0), 0, &mut sizes).as_deref(), Some("a->n"));
    }
}
