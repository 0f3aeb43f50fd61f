//! Failures as SARIF 2.1.0, for code scanning: a result for the failure, whose code flow holds the interleaving as one
//! thread flow per thread, and a result for each race.

use crate::{
    Names, RenderOptions, describe,
    facts::{self, SourcePlace},
    objects::ObjectNames,
    outcome_text, paths, preemption_text,
};
use serde_json::{Value, json};
use unsnarl_model::{Flags, OutcomeKind, Trace, stable_hash};

/// Maximum number of steps of a code flow, because viewers show them all.
const MAX_STEPS: usize = 500;

/// Returns the findings of a run as one SARIF log.
#[must_use]
pub fn sarif(trace: &Trace, names: &mut dyn Names) -> Value {
    let builder = SarifBuilder { trace, objects: ObjectNames::of(trace, names) };
    let mut results = Vec::new();
    if trace.outcome.is_failure() {
        results.push(builder.failure(names));
    }
    if trace.outcome.kind != OutcomeKind::Race {
        results.extend(builder.races(names));
    }
    let mut rules: Vec<&str> = results.iter().filter_map(|result| result["ruleId"].as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let rules: Vec<Value> = rules.iter().map(|rule| rule_json(rule)).collect();
    let index = |id: &Value| rules.iter().position(|rule| rule["id"] == *id);
    for result in &mut results {
        result["ruleIndex"] = index(&result["ruleId"]).into();
    }
    let arguments: Vec<_> = trace.program.args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "unsnarl", "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"), "rules": rules,
            } },
            "invocations": [{ "executionSuccessful": true, "commandLine": arguments.join(" ") }],
            "originalUriBaseIds": { "CWD": { "uri": file_uri(&trace.program.cwd) + "/" } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

struct SarifBuilder<'a> {
    trace: &'a Trace,
    objects: ObjectNames,
}

impl SarifBuilder<'_> {
    fn failure(&self, names: &mut dyn Names) -> Value {
        let trace = self.trace;
        let plain = RenderOptions { width: 120, colour: false, full: false };
        let outcome = outcome_text(trace, names, &plain);
        let place = trace.outcome.site.and_then(|site| facts::place(site, names));
        // A failure in system code is reported at the last line of the user's code that led there.
        let place = place.or_else(|| {
            let frames = trace.outcome.backtraces.iter().flat_map(|backtrace| &backtrace.frames);
            frames.copied().find_map(|site| facts::place(site, names))
        });
        let preempting = (1..trace.events.len()).filter(|&at| trace.events[at].flags.has(Flags::PREEMPTS));
        let stops = preempting.filter_map(|event| {
            let text = preemption_text(trace, event, names)?;
            let stopped = trace.events[event - 1].thread;
            let next = (event..trace.events.len()).find(|&at| trace.events[at].thread == stopped)?;
            Some(self.location(
                facts::place(trace.user_site(&trace.events[next]), names)?,
                Some(&format!("thread {text}")),
            ))
        });
        let stops: Vec<Value> = stops.take(MAX_STEPS).collect();
        let message = outcome.trim_end();
        let mut result =
            self.result(trace.outcome.kind.name(), "error", message, place, &trace.outcome.message);
        if !stops.is_empty() {
            result["relatedLocations"] = stops.into();
        }
        let flows = self.thread_flows(names);
        if !flows.is_empty() {
            result["codeFlows"] = json!([{
                "message": { "text": "the interleaving: what each thread did, in the order of execution" },
                "threadFlows": flows,
            }]);
        }
        result
    }

    /// Returns the last steps of each thread.
    fn thread_flows(&self, names: &mut dyn Names) -> Vec<Value> {
        let trace = self.trace;
        let from = trace.events.len().saturating_sub(MAX_STEPS);
        let mut flows: Vec<(usize, Vec<Value>)> = Vec::new();
        for (number, event) in trace.events.iter().enumerate().skip(from) {
            let Some(place) = facts::place(trace.user_site(event), names) else { continue };
            let text = describe::event(trace, &self.objects, number);
            let step = json!({
                "location": self.location(place, Some(&text)), "executionOrder": number + 1,
                "importance": if event.flags.has(Flags::PREEMPTS) { "essential" } else { "important" },
            });
            let thread = event.thread.index();
            match flows.iter_mut().find(|(known, _)| *known == thread) {
                Some((_, steps)) => steps.push(step),
                None => flows.push((thread, vec![step])),
            }
        }
        let flow = |(thread, steps): (usize, Vec<Value>)| json!({ "id": trace.threads[thread].id.to_string(), "locations": steps });
        flows.into_iter().map(flow).collect()
    }

    fn races(&self, names: &mut dyn Names) -> Vec<Value> {
        let trace = self.trace;
        let mut results: Vec<Value> = Vec::new();
        for race in &trace.races {
            let [first, second] = race.sides;
            let side_text = |side: &unsnarl_model::Side, place: &SourcePlace| {
                let thread = describe::id(trace, side.thread);
                format!("{} in thread {thread} at {}:{}", side.op.name(), paths::base(&place.0), place.1)
            };
            let places = facts::place(first.site, names).zip(facts::place(second.site, names));
            let Some((one, other)) = places else { continue };
            let variable = names.variable(race.addr).or_else(|| self.objects.at_end(race.addr));
            let variable = variable.map(|name| format!(" of `{name}`")).unwrap_or_default();
            let text = format!(
                "data race{variable}: {} and {}: nothing orders them",
                side_text(&first, &one),
                side_text(&second, &other)
            );
            let mut result = self.result("race", "warning", &text, Some(other), "");
            result["relatedLocations"] = json!([self.location(one, Some("the other access"))]);
            if !results.contains(&result) {
                results.push(result);
            }
        }
        results
    }

    fn result(
        &self,
        rule: &str,
        level: &str,
        text: &str,
        place: Option<SourcePlace>,
        failure: &str,
    ) -> Value {
        let at = place.as_ref().map(|(file, line, _)| format!("{}:{line}", self.relative(file)));
        let fingerprint = stable_hash(format!("{rule}\n{}\n{failure}", at.unwrap_or_default()).bytes());
        let locations: Vec<Value> = place.map(|place| self.location(place, None)).into_iter().collect();
        json!({
            "ruleId": rule, "level": level, "message": { "text": text }, "locations": locations,
            "partialFingerprints": { "unsnarlFailure/v1": format!("{fingerprint:016x}") },
        })
    }

    fn location(&self, (file, line, function): SourcePlace, message: Option<&str>) -> Value {
        let relative = self.relative(&file);
        let artifact = if relative == file {
            json!({ "uri": file_uri(&file) })
        } else {
            json!({ "uri": encoded(&relative), "uriBaseId": "CWD" })
        };
        let mut location = json!({
            "physicalLocation": { "artifactLocation": artifact, "region": { "startLine": line.max(1) } },
        });
        if let Some(function) = function {
            location["logicalLocations"] = json!([{ "name": function, "kind": "function" }]);
        }
        if let Some(message) = message {
            location["message"] = json!({ "text": message });
        }
        location
    }

    fn relative(&self, file: &str) -> String {
        paths::relative(file, &self.trace.program.cwd)
    }
}

fn rule_json(id: &str) -> Value {
    let (short, full) = match id {
        "deadlock" => ("deadlock", "Threads wait for each other, or for an event that cannot happen."),
        "livelock" => ("livelock", "Threads run without making progress."),
        "race" => {
            ("data race", "Two threads access the same memory, one of them writes, and nothing orders them.")
        }
        "misuse" => {
            ("misuse of synchronisation", "A lock, condition or thread is used in a way that POSIX forbids.")
        }
        "signal" => ("crash", "The program is ended by a signal under some schedule."),
        "exit" => ("bad exit status", "The program ends with a status that is not 0 under some schedule."),
        other => (other, "The program fails under some schedule of its threads."),
    };
    json!({
        "id": id, "shortDescription": { "text": short }, "fullDescription": { "text": full },
        "defaultConfiguration": { "level": if id == "race" { "warning" } else { "error" } },
        "properties": { "tags": ["concurrency"] },
    })
}

/// Encodes a path for a URI.
fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn file_uri(path: &str) -> String {
    format!("file://{}", encoded(path))
}
