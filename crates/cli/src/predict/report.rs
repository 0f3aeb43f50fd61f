//! The predictions as text and as JSON.

use super::{confirm::CheckedPrediction, source::Source};
use crate::{examined::Examined, output};
use serde_json::{Map, Value, json};
use std::{
    borrow::Cow,
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};
use unsnarl_model::{Conflict, Event, Op, Side, Site, SiteIx, ThreadIx};
use unsnarl_predict::{
    ConfirmationVerdict, ErrorSites, PredictedDeadlock, PredictedRace, Prediction, ReadRule, Statistics,
    WaitTarget, Witness,
};
use unsnarl_report::{Names, ObjectNames, ProgramNames};
use unsnarl_semantics::Operation;
use unsnarl_symbols::Symbols;

/// The data of a report.
pub(super) struct PredictionReport<'a> {
    /// The trace as the user named it.
    pub(super) path: &'a Path,
    pub(super) source: &'a Source,
    pub(super) prediction: &'a Prediction,
    /// Races that occur without any reordering and that no prediction covers.
    pub(super) observed: Vec<Conflict>,
    /// The trace that shows them.
    pub(super) observed_in: Option<PathBuf>,
    /// Result of each race; empty if none was tried.
    pub(super) races: Vec<CheckedPrediction>,
    pub(super) deadlocks: Vec<CheckedPrediction>,
    /// Witnesses were tried.
    pub(super) tried: bool,
    pub(super) executions: u64,
    /// The number of these runs that were stopped by a limit.
    pub(super) undecided: u64,
    /// The time was used up before all witnesses were tried.
    pub(super) time_is_up: bool,
    pub(super) elapsed: Duration,
}

/// Maximum number of findings of each kind that are printed.
const MAX: usize = 40;

impl PredictionReport<'_> {
    pub(super) fn print(&self, json: bool) {
        let mut symbols = Symbols::new();
        let names = ProgramNames::new(&self.source.header().modules, &mut symbols);
        let mut describer = Describer { source: self.source, names, objects: None };
        if json {
            output::json(&self.json(&mut describer));
        } else {
            output::print(&self.text(&mut describer));
        }
    }

    /// Returns whether a prediction counts as found. If witnesses were tried, only a confirmed one does; the others are
    /// listed separately.
    fn is_found(&self, checked: Option<&CheckedPrediction>) -> bool {
        !self.tried || checked.is_some_and(CheckedPrediction::is_confirmed)
    }

    fn json(&self, describer: &mut Describer<'_>) -> Value {
        let mut unconfirmed: (Vec<Value>, Vec<Value>) = Default::default();
        let mut found: (Vec<Value>, Vec<Value>) = Default::default();
        for (at, race) in self.prediction.races.iter().enumerate() {
            let checked = self.races.get(at);
            let list = if self.is_found(checked) { &mut found.0 } else { &mut unconfirmed.0 };
            list.push(describer.race_json(race, checked));
        }
        for (at, deadlock) in self.prediction.deadlocks.iter().enumerate() {
            let checked = self.deadlocks.get(at);
            let list = if self.is_found(checked) { &mut found.1 } else { &mut unconfirmed.1 };
            list.push(describer.deadlock_json(deadlock, checked));
        }
        for race in &self.observed {
            found.0.push(describer.observed_json(race, self.observed_in.as_deref()));
        }
        let undecided = self.prediction.undecided.iter();
        let undecided: Vec<Value> = undecided.map(|places| describer.places(places).into()).collect();
        json!({
            "races": found.0, "deadlocks": found.1,
            "examined": Examined::of_trace(self.source.header()).map(|examined| examined.json()),
            "unconfirmed": { "races": unconfirmed.0, "deadlocks": unconfirmed.1 },
            "undecided": undecided, "undecided_runs": self.undecided, "time_is_up": self.time_is_up,
            "events": self.source.count(), "figures": figures_json(&self.prediction.figures),
            "executions": self.executions, "elapsed_s": self.elapsed.as_secs_f64(),
        })
    }

    fn text(&self, describer: &mut Describer<'_>) -> String {
        let Prediction { races, deadlocks, undecided, figures } = self.prediction;
        let mut found = Paragraphs::default();
        let mut unconfirmed = Paragraphs::default();
        for (at, race) in races.iter().enumerate() {
            let checked = self.races.get(at);
            let report = describer.race_text(race, checked);
            if self.is_found(checked) { found.add(report) } else { unconfirmed.add(report) }
        }
        for (at, deadlock) in deadlocks.iter().enumerate() {
            let checked = self.deadlocks.get(at);
            let report = describer.deadlock_text(deadlock, checked);
            if self.is_found(checked) { found.add(report) } else { unconfirmed.add(report) }
        }
        for race in &self.observed {
            found.add(describer.observed_text(race, self.observed_in.as_deref()));
        }
        let mut text = found.text();
        if unconfirmed.count > 0 {
            text += &format!("\nnot confirmed by the program, possibly false:\n{}", unconfirmed.text());
        }
        let mut open = Paragraphs::default();
        for places in undecided {
            open.add(format!("undecided {}\n", describer.places(places)));
        }
        if open.count > 0 {
            text += &format!("\n{}          (a larger --budget may decide it)\n", open.text());
        }
        let word = if self.tried { "confirmed" } else { "predicted" };
        let is_confirmed = |checked: &&CheckedPrediction| checked.is_confirmed();
        let (races, deadlocks) = if self.tried {
            let races = self.races.iter().filter(is_confirmed).count() + self.observed.len();
            (races, self.deadlocks.iter().filter(is_confirmed).count())
        } else {
            (races.len(), deadlocks.len())
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text += &format!("{word} {}, {}\n", counted(races, "race"), counted(deadlocks, "deadlock"));
        let outcome = &self.source.header().outcome;
        if outcome.is_failure() {
            text += "          the recorded run failed: a run that ends normally shows more\n";
        }
        text += &format!(
            "examined  {} ({} relevant, {} of synchronisation), {} ({} suspect), {}\n",
            counted(figures.events as usize, "event"),
            figures.reduced,
            figures.synchronising,
            counted(figures.objects as usize, "shared object"),
            figures.suspect_objects,
            counted(figures.candidates as usize, "candidate"),
        );
        if let Some(examined) = Examined::of_trace(self.source.header()) {
            text += &examined.unseen_text(&self.source.header().program.cwd);
        }
        let runs = if self.tried {
            format!("{}, ", counted(self.executions as usize, "run"))
        } else {
            String::new()
        };
        if self.undecided > 0 {
            text += &format!(
                "undecided {} stopped by a limit; it decides nothing\n",
                if self.undecided == 1 {
                    "1 run was".to_owned()
                } else {
                    format!("{} runs were", self.undecided)
                }
            );
        }
        if self.time_is_up {
            text += "incomplete: the time is used up (--time raises it), not all witnesses were tried\n";
        }
        let windows = counted(figures.windows as usize, "window");
        text += &format!("took      {windows}, {runs}{:.2} s\n", self.elapsed.as_secs_f64());
        let program = !self.source.header().program.path.is_empty();
        if program && !self.tried && races + deadlocks > 0 {
            text += &format!("confirm   unsnarl predict {} --confirm\n", output::quoted(self.path));
        }
        text
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Paragraphs without duplicates.
#[derive(Default)]
struct Paragraphs {
    seen: BTreeSet<String>,
    all: String,
    count: usize,
}

impl Paragraphs {
    fn add(&mut self, text: String) {
        if self.seen.insert(text.clone()) {
            self.count += 1;
            if self.count <= MAX {
                self.all += &text;
            }
        }
    }

    fn text(&self) -> String {
        let more = self.count.saturating_sub(MAX);
        let more = if more > 0 { format!("… and {more} more, which --json has\n") } else { String::new() };
        format!("{}{more}", self.all)
    }
}

/// Names of sites, variables and threads.
struct Describer<'a> {
    source: &'a Source,
    names: ProgramNames<'a>,
    /// The names that `show` gives to objects that are not global variables; made when the first one is needed.
    objects: Option<ObjectNames>,
}

impl Describer<'_> {
    /// Returns the name of the object at an address when this event happened.
    fn object(&mut self, addr: u64, event: Option<u64>) -> String {
        let Self { source, names, objects } = self;
        let known = source.name(addr).map(Cow::into_owned).or_else(|| names.variable(addr));
        known.unwrap_or_else(|| {
            // A trace that is read window by window has no events here, and so no names.
            let objects = objects.get_or_insert_with(|| ObjectNames::of(source.header(), names));
            let name = event.map_or_else(|| objects.at_end(addr), |event| objects.at_event(addr, event));
            name.unwrap_or_else(|| format!("{addr:#x}"))
        })
    }

    fn thread(&self, thread: ThreadIx) -> String {
        self.source.header().thread_id(thread).to_string()
    }

    fn site(&self, site: SiteIx) -> Site {
        self.source.header().sites[site.index()]
    }

    /// Returns the file and the line.
    fn file_line(&mut self, site: Site) -> (String, i64) {
        let header = self.source.header();
        if header.program.path.is_empty() {
            let module = header.modules.get(usize::from(site.module.0));
            return (
                module.map_or_else(String::new, |module| module.path.clone()),
                site.offset.cast_signed(),
            );
        }
        let frame = self.names.place(site);
        (frame.file.unwrap_or_default(), frame.line.unwrap_or(0).into())
    }

    fn place(&mut self, site: SiteIx) -> String {
        self.place_of(self.site(site))
    }

    fn place_of(&mut self, site: Site) -> String {
        let header = self.source.header();
        if header.program.path.is_empty() {
            return format!("location {}", site.offset.cast_signed());
        }
        let here = format!("{}/", header.program.cwd);
        let frame = self.names.place(site);
        let place = frame.place().unwrap_or_else(|| frame.to_string());
        place.strip_prefix(&here).map_or(place.clone(), str::to_owned)
    }

    fn places(&mut self, places: &ErrorSites) -> String {
        let all: Vec<String> = places.sites().iter().map(|&site| self.place(site)).collect();
        all.join(" and ")
    }

    /// Returns the sides of a race.
    fn sides(&self, events: &[Event; 2]) -> [Side; 2] {
        events.map(|event| Side { thread: event.thread, op: event.op, site: self.site(event.site) })
    }

    fn race_text(&mut self, race: &PredictedRace, checked: Option<&CheckedPrediction>) -> String {
        let sides = self.sides(&race.sides);
        self.sides_text(race.addr, Some(race.accesses[1]), &sides) + &verdict_text(checked)
    }

    fn observed_text(&mut self, race: &Conflict, trace: Option<&Path>) -> String {
        let trace = trace.map_or_else(String::new, |path| format!("   {}", output::quoted(path)));
        self.sides_text(race.addr, None, &race.sides)
            + &format!("          confirmed, in the recorded order{trace}\n")
    }

    fn sides_text(&mut self, addr: u64, event: Option<u64>, sides: &[Side; 2]) -> String {
        let object = self.object(addr, event);
        let [a, b] = sides.each_ref().map(|side| {
            let thread = self.source.thread(side.thread);
            format!("{} at {} by {thread}", side.op.name(), self.place_of(side.site))
        });
        format!("race      {object}: {a}\n          and {b}\n")
    }

    fn deadlock_text(&mut self, deadlock: &PredictedDeadlock, checked: Option<&CheckedPrediction>) -> String {
        let mut text = String::from("deadlock  ");
        for (at, waits) in deadlock.cycle.iter().enumerate() {
            let next = &deadlock.cycle[(at + 1) % deadlock.cycle.len()];
            let (awaited, until) = match waits.target {
                WaitTarget::Lock(lock) => (self.object(lock, Some(waits.event)), String::new()),
                WaitTarget::End => (format!("the end of {}", self.source.thread(next.thread)), String::new()),
                WaitTarget::Done(event) => self.awaited_operation(event, false),
                WaitTarget::Lost(event) => self.awaited_operation(event, true),
            };
            let holds: Vec<String> =
                waits.holds.iter().map(|&lock| self.object(lock, Some(waits.event))).collect();
            let holding =
                if holds.is_empty() { String::new() } else { format!(", holding {}", holds.join(", ")) };
            if at > 0 {
                text += "          ";
            }
            let (thread, place) = (self.source.thread(waits.thread), self.place(waits.site));
            text += &format!("{thread} waits for {awaited} at {place}{holding}{until}\n");
        }
        text + &verdict_text(checked)
    }

    fn event(&self, number: u64) -> Option<Event> {
        self.source.events_from(number).and_then(|events| events.first().copied())
    }

    /// Returns the object that a thread waits for, and the operation of the other thread that is still to come or came
    /// too early.
    fn awaited_operation(&mut self, number: u64, too_early: bool) -> (String, String) {
        let Some(event) = self.event(number) else { return ("another thread".into(), String::new()) };
        let (thread, place) = (self.source.thread(event.thread), self.place(event.site));
        let awaited_operation = match event.op {
            Op::Signal | Op::Broadcast if too_early => "has signalled before that,",
            Op::Signal | Op::Broadcast => "signals",
            Op::SemPost => "posts",
            Op::BarrierArrive => "arrives",
            _ => "finishes the routine that it calls",
        };
        let until = if too_early { "; " } else { ", until " };
        (
            self.object(object_of(&event), Some(number)),
            format!("{until}{thread} {awaited_operation} at {place}"),
        )
    }

    fn race_json(&mut self, race: &PredictedRace, checked: Option<&CheckedPrediction>) -> Value {
        let sides = self.sides(&race.sides);
        let mut object = self.sides_json(race.addr, Some(race.accesses[1]), &sides);
        object.insert("events".into(), json!(race.accesses));
        self.common(&mut object, &race.witness, checked);
        object.into()
    }

    fn observed_json(&mut self, race: &Conflict, trace: Option<&Path>) -> Value {
        let mut object = self.sides_json(race.addr, None, &race.sides);
        object.insert("confirmed".into(), true.into());
        object.insert("verdict".into(), "confirmed".into());
        object.insert("reads".into(), "same".into());
        object.insert("trace".into(), trace.map(Path::to_string_lossy).into());
        // The recorded order itself shows the race.
        object.insert("witness".into(), json!({ "before": self.source.count(), "segments": [] }));
        object.into()
    }

    fn sides_json(&mut self, addr: u64, event: Option<u64>, sides: &[Side; 2]) -> Map<String, Value> {
        let [a, b] = sides.each_ref().map(|side| {
            let (file, line) = self.file_line(side.site);
            json!({ "file": file, "line": line, "thread": self.thread(side.thread), "op": side.op.name() })
        });
        let mut object = Map::new();
        object.insert("object".into(), self.object(addr, event).into());
        let block = self.objects.as_ref().zip(event).and_then(|(names, event)| names.block_json(addr, event));
        object.extend(block.map(|block| ("block".to_owned(), block)));
        object.insert("a".into(), a);
        object.insert("b".into(), b);
        object
    }

    fn deadlock_json(&mut self, deadlock: &PredictedDeadlock, checked: Option<&CheckedPrediction>) -> Value {
        let cycle = deadlock.cycle.iter().enumerate().map(|(at, waits)| {
            let next = &deadlock.cycle[(at + 1) % deadlock.cycle.len()];
            let (file, line) = self.file_line(self.site(waits.site));
            let holds: Vec<String> =
                waits.holds.iter().map(|&lock| self.object(lock, Some(waits.event))).collect();
            let awaited = match waits.target {
                WaitTarget::Lock(lock) => self.object(lock, Some(waits.event)),
                WaitTarget::End => self.thread(next.thread),
                WaitTarget::Done(event) | WaitTarget::Lost(event) => match self.event(event) {
                    Some(operation) => self.object(object_of(&operation), Some(event)),
                    None => self.thread(next.thread),
                },
            };
            json!({
                "thread": self.thread(waits.thread), "holds": holds, "waits_for": awaited,
                "file": file, "line": line, "event": waits.event,
            })
        });
        let cycle: Vec<Value> = cycle.collect();
        let mut object = Map::new();
        object.insert("cycle".into(), cycle.into());
        self.common(&mut object, &deadlock.witness, checked);
        object.into()
    }

    fn common(
        &self,
        object: &mut Map<String, Value>,
        witness: &Witness,
        checked: Option<&CheckedPrediction>,
    ) {
        let verdict = checked.and_then(|checked| checked.verdict.as_ref());
        object.insert("confirmed".into(), checked.is_some_and(CheckedPrediction::is_confirmed).into());
        object.insert("verdict".into(), verdict.map_or("predicted", ConfirmationVerdict::name).into());
        object.insert("reads".into(), if witness.reads == ReadRule::Same { "same" } else { "free" }.into());
        let trace = checked.and_then(|checked| checked.trace.as_deref());
        object.insert("trace".into(), trace.map(Path::to_string_lossy).into());
        let window = self.source.events_from(witness.before);
        let segments = window.map(|window| {
            let segments = witness.schedule(window).segments;
            segments.iter().map(|s| json!([self.thread(s.thread), s.points])).collect::<Vec<Value>>()
        });
        object.insert("witness".into(), json!({ "before": witness.before, "segments": segments }));
    }
}

fn verdict_text(checked: Option<&CheckedPrediction>) -> String {
    let Some(CheckedPrediction { verdict: Some(verdict), trace }) = checked else { return String::new() };
    let reason = match verdict {
        ConfirmationVerdict::Confirmed => String::new(),
        ConfirmationVerdict::Infeasible(at) => {
            format!(": thread {} cannot run at event {} of the witness", at.thread, at.point + 1)
        }
        ConfirmationVerdict::Diverged(at) => {
            format!(": thread {} diverges at event {} of the witness", at.thread, at.point + 1)
        }
        ConfirmationVerdict::NotReproduced => {
            ": the witness was followed, and there was no such error".into()
        }
    };
    let trace = trace.as_deref().map_or_else(String::new, |path| format!("   {}", output::quoted(path)));
    format!("          {}{reason}{trace}\n", verdict.name())
}

fn figures_json(figures: &Statistics) -> Value {
    json!({
        "events": figures.events, "reduced": figures.reduced, "synchronising": figures.synchronising,
        "windows": figures.windows, "objects": figures.objects, "suspect_objects": figures.suspect_objects,
        "candidates": figures.candidates, "circles": figures.cycles,
        "sync_preserving": figures.sync_preserving, "searched": figures.searched,
    })
}

/// Returns the address of the object or memory that an event acts on; 0 if there is none.
fn object_of(event: &Event) -> u64 {
    let operation = Operation::decode(event);
    operation.object().or_else(|| operation.bytes().map(|bytes| bytes.first)).unwrap_or(0)
}
