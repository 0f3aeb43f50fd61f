//! The analysis, window by window: model, filter, witnesses.

use crate::{
    check::{CheckedState, Checker, WitnessError},
    critical_sections::CriticalSections,
    deadlocks::{self, PredictedDeadlock},
    findings::{ErrorSites, Findings, Statistics, WindowProgress},
    lost_wake_ups,
    model::{Model, ReadRule, SyncState},
    order::MustHappenBefore,
    races::{self, PredictedRace},
    search::{Classes, Searcher},
    trace_inconsistency::TraceInconsistency,
    witness::Window,
};
use unsnarl_model::{Event, Trace};

/// Options of the prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredictOptions {
    /// The number of events analysed together; `None` for all of them.
    pub window: Option<usize>,
    /// The maximum number of search steps for one pair of sites.
    pub budget: u64,
    /// Whether to search also for errors that only a run can confirm: reorderings in which reads see other
    /// writes, and deadlocks in which a thread waits for a signal or similar.
    pub free_reads: bool,
    /// Accesses below this address are ignored: they fault.
    pub lowest: u64,
}

impl Default for PredictOptions {
    fn default() -> Self {
        Self { window: Some(10_000), budget: 2_000_000, free_reads: false, lowest: 0 }
    }
}

/// The errors predicted for other orders.
#[derive(Debug)]
pub struct Prediction {
    /// Races, one for each pair of sites.
    pub races: Vec<PredictedRace>,
    /// Deadlocks, one for each set of sites.
    pub deadlocks: Vec<PredictedDeadlock>,
    /// Sites for which the budget did not suffice.
    pub undecided: Vec<ErrorSites>,
    /// Statistics of the analysis.
    pub figures: Statistics,
}

/// Takes events as they come and analyses them window by window.
#[derive(Debug)]
pub struct Predictor {
    options: PredictOptions,
    state: SyncState,
    /// The same, by the checker's own rules.
    checked: CheckedState,
    pending: Vec<Event>,
    findings: Findings,
}

impl Predictor {
    /// Creates a predictor before the first event.
    #[must_use]
    pub fn new(options: PredictOptions) -> Self {
        Self {
            options,
            state: SyncState::default(),
            checked: CheckedState::default(),
            pending: Vec::new(),
            findings: Findings::default(),
        }
    }

    /// Adds events. `watch` is called for each object analysed.
    ///
    /// # Errors
    /// Returns an error if an event contradicts an earlier one.
    pub fn push(
        &mut self,
        mut events: &[Event],
        watch: &mut dyn FnMut(WindowProgress),
    ) -> Result<(), TraceInconsistency> {
        let Some(size) = self.options.window.map(|size| size.max(2)) else {
            self.pending.extend_from_slice(events);
            return Ok(());
        };
        while self.pending.len() + events.len() >= size {
            let (now, later) = events.split_at(size - self.pending.len());
            events = later;
            if self.pending.is_empty() {
                self.window(now, watch)?;
            } else {
                let mut window = std::mem::take(&mut self.pending);
                window.extend_from_slice(now);
                self.window(&window, watch)?;
            }
        }
        self.pending.extend_from_slice(events);
        Ok(())
    }

    /// Ends the events and returns the findings.
    ///
    /// # Errors
    /// Returns an error if one of the last events contradicts an earlier one.
    pub fn finish(mut self, watch: &mut dyn FnMut(WindowProgress)) -> Result<Prediction, TraceInconsistency> {
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() {
            self.window(&rest, watch)?;
        }
        let Findings { races, deadlocks, figures, .. } = &self.findings;
        let (races, deadlocks, figures) = (races.clone(), deadlocks.clone(), *figures);
        let reads = if self.options.free_reads { ReadRule::Free } else { ReadRule::Same };
        Ok(Prediction { races, deadlocks, undecided: self.findings.undecided_sites(reads), figures })
    }

    fn window(
        &mut self,
        events: &[Event],
        watch: &mut dyn FnMut(WindowProgress),
    ) -> Result<(), TraceInconsistency> {
        let window = Window::of(self.state.events(), events);
        self.look(&window, ReadRule::Same, watch)?;
        if self.options.free_reads {
            self.look(&window, ReadRule::Free, watch)?;
        }
        for event in events {
            self.state.step(event)?;
            // The model has refused everything that the checker cannot follow.
            let followed = self.checked.step(event);
            debug_assert!(followed.is_ok(), "{followed:?}");
        }
        Ok(())
    }

    fn look(
        &mut self,
        window: &Window<'_>,
        reads: ReadRule,
        watch: &mut dyn FnMut(WindowProgress),
    ) -> Result<(), TraceInconsistency> {
        let model = Model::of(window.events, &self.state, reads)?;
        let figures = &mut self.findings.figures;
        if reads == ReadRule::Same {
            figures.events += window.events.len() as u64;
            figures.reduced += model.steps.len() as u64;
            figures.synchronising += model.synchronising;
            figures.windows += 1;
            figures.objects += u64::from(model.cells.object_count);
        }
        let order = MustHappenBefore::of(&model);
        let critical_sections = CriticalSections::of(&model);
        let classes = Classes::of(&model);
        let search = Searcher {
            model: &model,
            order: &order,
            critical_sections: &critical_sections,
            classes: &classes,
        };
        let (old_races, old_deadlocks) = (self.findings.races.len(), self.findings.deadlocks.len());
        races::races(&search, window, &self.options, &mut self.findings, watch);
        deadlocks::deadlocks(&search, window, &self.options, &mut self.findings);
        if self.options.free_reads {
            lost_wake_ups::signals(&search, window, &self.options, &mut self.findings);
        }
        // Nothing is reported that the independent checker has not approved.
        let Findings { races, deadlocks, .. } = &mut self.findings;
        if races.len() > old_races || deadlocks.len() > old_deadlocks {
            let checker = Checker::new(window.events, &self.checked, reads);
            keep_approved(races, old_races, |race| checker.race(race));
            for race in &mut races[old_races..] {
                let mut others = std::mem::take(&mut race.others);
                others.retain(|witness| checker.leads_to(witness).is_ok());
                race.others = others;
            }
            keep_approved(deadlocks, old_deadlocks, |deadlock| checker.deadlock(deadlock));
        }
        Ok(())
    }
}

fn keep_approved<T>(all: &mut Vec<T>, old: usize, check: impl Fn(&T) -> Result<(), WitnessError>) {
    for finding in all.split_off(old) {
        let checked = check(&finding);
        debug_assert!(checked.is_ok(), "{checked:?}");
        if checked.is_ok() {
            all.push(finding);
        }
    }
}

/// Analyses a whole trace in memory.
///
/// # Errors
/// Returns an error if the trace contradicts itself.
pub fn predict(
    trace: &Trace,
    options: &PredictOptions,
    watch: &mut dyn FnMut(WindowProgress),
) -> Result<Prediction, TraceInconsistency> {
    let mut predictor = Predictor::new(*options);
    predictor.push(&trace.events, watch)?;
    predictor.finish(watch)
}
