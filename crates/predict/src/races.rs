//! Races: the filter of section 3, then a witness for each remaining candidate.
//!
//! A pair of accesses is a candidate if neither must come before the other (happens-before without locks) and
//! no common lock protects them. Candidates are examined per object, and there per pair of sites: one witness
//! for a pair of sites is enough.

use crate::{
    findings::{ErrorSites, Findings, WindowProgress},
    model::{Model, ReadRule, StepAction},
    predict::PredictOptions,
    search::{SearchResult, Searcher},
    sync_preserving,
    witness::{Window, Witness},
};
use unsnarl_model::{Event, SiteIx, ThreadIx};

/// A race shown by a reordering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictedRace {
    /// The first byte that both accesses touch.
    pub addr: u64,
    /// The two accesses, by the numbers of their events; the earlier one first.
    pub accesses: [u64; 2],
    /// The events of the accesses.
    pub sides: [Event; 2],
    /// The reordering that leads there.
    pub witness: Witness,
    /// Other witnesses of a race at the same sites, in case the program does not follow the first: only with
    /// free reads.
    pub others: Vec<Witness>,
}

/// Accesses of a thread to a cell from one site, with the same locks held.
#[derive(Debug)]
struct AccessGroup {
    thread: ThreadIx,
    site: SiteIx,
    held: u32,
    writes: bool,
    atomic: bool,
    own_stack: bool,
    steps: Vec<u32>,
}

/// The minimum budget for each of many pairs.
const LEAST: u64 = 50;

/// Searches a window for races.
pub(crate) fn races(
    search: &Searcher<'_>,
    window: &Window<'_>,
    options: &PredictOptions,
    findings: &mut Findings,
    progress: &mut dyn FnMut(WindowProgress),
) {
    let model = search.model;
    let mut last_object = u32::MAX;
    let mut suspects = false;
    for (cell, steps) in by_cell(model) {
        if model.cells.address(cell) < options.lowest {
            continue;
        }
        let object = model.cells.object(cell);
        if object != last_object {
            last_object = object;
            suspects = false;
            progress(WindowProgress {
                object: object + 1,
                objects: model.cells.object_count,
                races: findings.races.len(),
            });
        }
        let groups = groups(model, &steps);
        for (at, a) in groups.iter().enumerate() {
            for b in &groups[at + 1..] {
                if !suspicious(model, a, b) {
                    continue;
                }
                let places = ErrorSites::new(vec![a.site, b.site]);
                if findings.is_settled(&places) {
                    continue;
                }
                if !meets(search, a, b) {
                    continue;
                }
                if !std::mem::replace(&mut suspects, true) {
                    findings.figures.suspect_objects += 1;
                }
                findings.suspect(&places, model.reads);
                let left = findings.budget(&places, model.reads, options.budget);
                let addr = model.cells.address(cell);
                witness_of(search, window, [a, b], addr, places, left, findings);
            }
        }
    }
}

/// Returns the steps that touch each shared cell, in order.
fn by_cell(model: &Model) -> Vec<(u32, Vec<u32>)> {
    let mut all: Vec<(u32, u32)> = Vec::new();
    for (step, number) in model.steps.iter().zip(0..) {
        all.extend(model.touches(step).iter().map(|touch| (touch.cell, number)));
    }
    all.sort_unstable();
    let cells = all.chunk_by(|a, b| a.0 == b.0);
    cells.map(|cell| (cell[0].0, cell.iter().map(|&(_, step)| step).collect())).collect()
}

fn groups(model: &Model, steps: &[u32]) -> Vec<AccessGroup> {
    let mut groups: Vec<AccessGroup> = Vec::new();
    let mut numbers: crate::hash::Map<(u64, u64), usize> = crate::hash::Map::default();
    for &number in steps {
        let step = model.step(number);
        let StepAction::Access { writes, atomic, own_stack } = step.action else { continue };
        let flags = u64::from(writes) | u64::from(atomic) << 1 | u64::from(own_stack) << 2;
        let key =
            (u64::from(step.thread.0) << 32 | u64::from(step.site.0), u64::from(step.held) << 8 | flags);
        let group = *numbers.entry(key).or_insert_with(|| {
            let (thread, site, held) = (step.thread, step.site, step.held);
            groups.push(AccessGroup { thread, site, held, writes, atomic, own_stack, steps: Vec::new() });
            groups.len() - 1
        });
        groups[group].steps.push(number);
    }
    groups
}

/// Returns whether two accesses of these groups would be a race that no lock prevents.
fn suspicious(model: &Model, a: &AccessGroup, b: &AccessGroup) -> bool {
    a.thread != b.thread
        && (a.writes || b.writes)
        && !(a.atomic && b.atomic)
        && !(a.own_stack && b.own_stack)
        && model.locksets.compatible(a.held, b.held)
}

/// Returns whether there are two unordered accesses.
fn meets(search: &Searcher<'_>, a: &AccessGroup, b: &AccessGroup) -> bool {
    let (mut i, mut j) = (0, 0);
    while let (Some(&x), Some(&y)) = (a.steps.get(i), b.steps.get(j)) {
        if search.order.behind(search.model, x, y) {
            i += 1;
        } else if search.order.behind(search.model, y, x) {
            j += 1;
        } else {
            return true;
        }
    }
    false
}

/// Returns witnesses for later accesses of the two groups: which of them the program follows depends on
/// earlier reads.
fn others(
    search: &Searcher<'_>,
    window: &Window<'_>,
    [a, b]: [&AccessGroup; 2],
    first: &Witness,
) -> Vec<Witness> {
    let Searcher { model, order, critical_sections, .. } = *search;
    let (m, n) = (a.steps.len(), b.steps.len());
    let mut all = vec![first.clone()];
    for (from, to) in [(m - 1, 0), (0, n - 1), (m / 2, n / 2), (m - 1, n - 1)] {
        let lists = [&a.steps[from..], &b.steps[to..]];
        if let Some((mut targets, frontier)) =
            sync_preserving::first_meeting(model, order, critical_sections, &lists)
        {
            targets.sort_unstable();
            let witness = Witness::in_trace_order(model, window, &frontier, &targets);
            if !all.contains(&witness) {
                all.push(witness);
            }
        }
    }
    all.split_off(1)
}

fn witness_of(
    search: &Searcher<'_>,
    window: &Window<'_>,
    [a, b]: [&AccessGroup; 2],
    addr: u64,
    places: ErrorSites,
    mut left: u64,
    findings: &mut Findings,
) {
    let Searcher { model, order, critical_sections, .. } = *search;
    let ordered_pair = |mut targets: Vec<u32>| {
        targets.sort_unstable();
        targets
    };
    let make_race = |witness: Witness| {
        let accesses = [witness.meet[0], witness.meet[1]];
        let sides = accesses.map(|number| window.events[(number - window.first) as usize]);
        PredictedRace { addr, accesses, sides, witness, others: Vec::new() }
    };
    if let Some((targets, frontier)) =
        sync_preserving::first_meeting(model, order, critical_sections, &[&a.steps, &b.steps])
    {
        findings.figures.sync_preserving += 1;
        let witness = Witness::in_trace_order(model, window, &frontier, &ordered_pair(targets));
        let mut race = make_race(witness);
        if model.reads == ReadRule::Free {
            race.others = others(search, window, [a, b], &race.witness);
        }
        return findings.race(places, race);
    }
    for &x in &a.steps {
        for &y in &b.steps {
            if order.ordered(model, x, y) {
                continue;
            }
            if left <= LEAST {
                return findings.undecided(places, model.reads);
            }
            left -= LEAST;
            match search.reach(&[x, y], &mut left) {
                SearchResult::Found(steps) => {
                    findings.figures.searched += 1;
                    let witness = Witness::thread_by_thread(model, window, &steps, &ordered_pair(vec![x, y]));
                    return findings.race(places, make_race(witness));
                }
                SearchResult::Impossible => {}
                SearchResult::Undecided => return findings.undecided(places, model.reads),
            }
        }
    }
    findings.spent(places, model.reads, left);
}
