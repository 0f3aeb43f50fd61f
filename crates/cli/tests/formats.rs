//! `unsnarl report` for other tools: the output conforms to their formats, whatever programs are called and print.

mod common;

use common::Place;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

/// A race, a lock, and names that need escaping in every format.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int hits;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *visit(void *a) {
  pthread_setname_np(pthread_self(), "<\"&'>\\ ]]>");
  int seen = hits;
  pthread_mutex_lock(&m);
  hits = seen + 1;
  pthread_mutex_unlock(&m);
  return a;
}
int main(void) {
  pthread_t t[2];
  for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, visit, 0);
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  if (hits != 2) { fprintf(stderr, "<lost> \"&\" \x01\x1b[31m ]]>\n"); abort(); }
}
"#;

/// Returns the properties that a SARIF object may have, among those used, and whether each is required.
fn allowed(object: &str) -> &'static [(&'static str, bool)] {
    match object {
        "log" => &[("$schema", false), ("version", true), ("runs", true)],
        "run" => &[
            ("tool", true),
            ("invocations", false),
            ("originalUriBaseIds", false),
            ("columnKind", false),
            ("results", false),
        ],
        "driver" => &[("name", true), ("version", false), ("informationUri", false), ("rules", false)],
        "rule" => &[
            ("id", true),
            ("shortDescription", false),
            ("fullDescription", false),
            ("defaultConfiguration", false),
            ("properties", false),
        ],
        "result" => &[
            ("ruleId", false),
            ("ruleIndex", false),
            ("level", false),
            ("message", true),
            ("locations", false),
            ("relatedLocations", false),
            ("codeFlows", false),
            ("partialFingerprints", false),
        ],
        "location" => &[("physicalLocation", false), ("logicalLocations", false), ("message", false)],
        "artifactLocation" => &[("uri", false), ("uriBaseId", false)],
        "codeFlow" => &[("message", false), ("threadFlows", true)],
        "threadFlow" => &[("id", false), ("locations", true)],
        "threadFlowLocation" => &[("location", false), ("executionOrder", false), ("importance", false)],
        other => panic!("{other}?"),
    }
}

#[track_caller]
fn is(object: &str, value: &Value) {
    let properties = value.as_object().unwrap_or_else(|| panic!("{object} is no object: {value}"));
    for name in properties.keys() {
        assert!(allowed(object).iter().any(|(known, _)| known == name), "{object} has {name}");
    }
    for (name, must) in allowed(object) {
        assert!(!must || properties.contains_key(*name), "{object} lacks {name}");
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(message: &Value) -> &str {
    message["text"].as_str().filter(|text| !text.is_empty()).expect("a message has a text")
}

fn location(value: &Value) {
    is("location", value);
    let physical = &value["physicalLocation"];
    is("artifactLocation", &physical["artifactLocation"]);
    let uri = physical["artifactLocation"]["uri"].as_str().expect("a URI");
    assert!(uri.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%:".contains(&b)), "{uri}");
    assert!(uri.starts_with("file:///") || physical["artifactLocation"]["uriBaseId"] == "CWD", "{uri}");
    assert!(physical["region"]["startLine"].as_u64() > Some(0));
}

/// Checks the parts of SARIF 2.1.0 that are used, by the text of the standard.
fn check_sarif(log: &Value) {
    is("log", log);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    is("run", run);
    let driver = &run["tool"]["driver"];
    is("driver", driver);
    list(&driver["rules"]).iter().for_each(|rule| is("rule", rule));
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    for result in list(&run["results"]) {
        is("result", result);
        text(&result["message"]);
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(driver["rules"][index]["id"], result["ruleId"]);
        assert!(["error", "warning", "note", "none"].contains(&result["level"].as_str().expect("a level")));
        list(&result["locations"]).iter().chain(list(&result["relatedLocations"])).for_each(location);
        for flow in list(&result["codeFlows"]) {
            is("codeFlow", flow);
            assert!(!list(&flow["threadFlows"]).is_empty());
            let mut order = BTreeSet::new();
            for thread in list(&flow["threadFlows"]) {
                is("threadFlow", thread);
                assert!(!list(&thread["locations"]).is_empty());
                for step in list(&thread["locations"]) {
                    is("threadFlowLocation", step);
                    location(&step["location"]);
                    assert!(order.insert(step["executionOrder"].as_u64().expect("a number")), "twice");
                }
            }
        }
    }
}

/// Checks JUnit XML by the Ant task's schema and Jenkins's; returns the name and result of each
/// test case.
fn check_junit(xml: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(xml).unwrap_or_else(|error| panic!("{error}:\n{xml}"));
    let allowed: BTreeMap<&str, (&[&str], &[&str])> = [
        ("testsuites", (&["name", "tests", "failures", "errors", "time"][..], &["testsuite"][..])),
        ("testsuite", (&["name", "tests", "failures", "errors", "skipped", "time"], &["testcase"])),
        ("testcase", (&["classname", "name", "time"], &["failure", "error", "skipped", "system-out"])),
        ("failure", (&["type", "message"], &[])),
        ("error", (&["type", "message"], &[])),
        ("skipped", (&["message"], &[])),
        ("system-out", (&[], &[])),
    ]
    .into();
    let mut results = Vec::new();
    for element in document.descendants().filter(roxmltree::Node::is_element) {
        let name = element.tag_name().name();
        let (attributes, children) = allowed[name];
        for attribute in element.attributes() {
            assert!(attributes.contains(&attribute.name()), "{name} has {}", attribute.name());
        }
        for child in element.children().filter(roxmltree::Node::is_element) {
            assert!(children.contains(&child.tag_name().name()), "{name} has {}", child.tag_name().name());
        }
        if name == "testcase" {
            assert!(element.attribute("time").is_some_and(|time| time.parse::<f64>().is_ok()));
            let child = element.children().find(roxmltree::Node::is_element);
            let result = child.map_or("passed", |child| child.tag_name().name());
            results.push(format!("{} {result}", element.attribute("name").expect("a name")));
        }
    }
    let suite = document.root_element().first_element_child().expect("a suite");
    let failures = results.iter().filter(|result| result.ends_with(" failure")).count();
    assert_eq!(suite.attribute("failures"), Some(failures.to_string().as_str()));
    assert_eq!(suite.attribute("tests"), Some(results.len().to_string().as_str()));
    results
}

/// Checks the trace viewer's JSON by its description: phases, required fields, pairs.
fn check_perfetto(trace: &Value) {
    let mut slices: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut open: BTreeMap<(String, u64), i64> = BTreeMap::new();
    let mut arrows: BTreeMap<u64, Vec<(String, u64, u64)>> = BTreeMap::new();
    for event in list(&trace["traceEvents"]) {
        let number = |name: &str| event[name].as_u64().unwrap_or_else(|| panic!("no {name} in {event}"));
        assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        match event["ph"].as_str().expect("a phase") {
            "M" => assert!(event["args"].is_object()),
            "X" => {
                assert!(number("dur") > 0);
                slices.entry(number("tid")).or_default().push((number("ts"), number("ts") + number("dur")));
            }
            phase @ ("b" | "e") => {
                let key = (event["cat"].as_str().expect("a category").to_owned(), number("id"));
                *open.entry(key).or_default() += if phase == "b" { 1 } else { -1 };
                number("ts");
            }
            phase @ ("s" | "f") => {
                assert!(phase == "s" || event["bp"] == "e");
                arrows.entry(number("id")).or_default().push((phase.into(), number("tid"), number("ts")));
            }
            "i" => assert_eq!(event["s"], "t"),
            other => panic!("{other}?"),
        }
    }
    assert!(open.values().all(|&left| left == 0), "locks that are never given back");
    for all in slices.values() {
        // On one track, slices are disjoint or nested.
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            assert!(a.1 <= b.0 || b.1 <= a.0 || (a.0 <= b.0 && b.1 <= a.1) || (b.0 <= a.0 && a.1 <= b.1));
        }
    }
    for ends in arrows.values() {
        let [(s, from, start), (f, to, end)] = ends.as_slice() else {
            panic!("an arrow has two ends: {ends:?}")
        };
        assert!((s.as_str(), f.as_str()) == ("s", "f") && start <= end);
        for (track, at) in [(from, start), (to, end)] {
            assert!(
                slices[track].iter().any(|slice| slice.0 <= *at && *at < slice.1),
                "an end outside of a slice"
            );
        }
    }
    assert!(!arrows.is_empty() && slices.len() == 3);
}

/// Checks the parts of the `dot` language that are used: statements of words, quoted strings, brackets and arrows.
fn check_dot(dot: &str) {
    let mut outside = String::new();
    let mut rest = dot;
    while let Some(at) = rest.find('"') {
        outside += &rest[..at];
        let mut end = at + 1;
        while !rest[end..].starts_with('"') {
            end += if rest[end..].starts_with('\\') {
                2
            } else {
                rest[end..].chars().next().map_or(1, char::len_utf8)
            };
        }
        outside += "STRING";
        rest = &rest[end + 1..];
    }
    outside += rest;
    let plain = |c: char| c.is_ascii_alphanumeric() || " \n_{}[]=,;->".contains(c);
    assert!(outside.chars().all(plain), "{outside}");
    for (open, close) in [('{', '}'), ('[', ']')] {
        assert_eq!(outside.matches(open).count(), outside.matches(close).count());
    }
    assert!(outside.starts_with("digraph schedule {") && outside.contains(" -> "));
}

#[test]
fn report_formats_satisfy_their_consumers() {
    let place = Place::new("all");
    let name = "<&\"'> visit.c";
    place.write(name, SOURCE);
    place.unsnarl(0, &["cc", "-O1", "-g", "-pthread", "-o", "visit", name]);
    place.unsnarl(100, &["hunt", "-o", "bug.snarl", "--junit", "hunt.xml", "--", "./visit", "<&\"]]>"]);
    let all = ["--sarif", "bug.sarif", "--junit", "bug.xml", "--perfetto", "bug.json", "--dot", "bug.dot"];
    let findings = place.unsnarl(0, &[&["report", "bug.snarl"], &all[..]].concat());
    assert_eq!(findings.lines().count(), 4, "{findings}");

    let log: Value = serde_json::from_str(&place.read("bug.sarif")).expect("JSON");
    check_sarif(&log);
    let results = list(&log["runs"][0]["results"]);
    assert_eq!(results[0]["ruleId"], "abort");
    assert!(text(&results[0]["message"]).starts_with("abort in thread 0 at"), "{}", results[0]);
    assert_eq!(list(&results[0]["codeFlows"][0]["threadFlows"]).len(), 3);
    let stop = &results[0]["relatedLocations"][0];
    assert!(text(&stop["message"]).contains("is preempted before `lock m`"), "{stop}");
    assert!(
        results[1..].iter().any(|result| text(&result["message"]).starts_with("data race of `hits`")),
        "{log}"
    );
    assert_eq!(stop["physicalLocation"]["artifactLocation"]["uri"], "%3C%26%22%27%3E%20visit.c");

    for xml in ["hunt.xml", "bug.xml"] {
        assert_eq!(check_junit(&place.read(xml)), ["./visit <&\"]]> failure"]);
    }
    check_perfetto(&serde_json::from_str(&place.read("bug.json")).expect("JSON"));
    check_dot(&place.read("bug.dot"));
    let findings =
        place.unsnarl(100, &["explore", "--keep-going", "--runs", "20", "--junit", "x.xml", "--", "./visit"]);
    assert!(findings.contains("found"), "{findings}");
    assert_eq!(check_junit(&place.read("x.xml")), ["./visit failure"]);
    place.unsnarl(2, &["report", "bug.snarl"]);
}

#[test]
fn manual_and_completions_name_all_commands() {
    let place = Place::new("manual");
    place.unsnarl(0, &["man", "man1"]);
    let help = place.unsnarl(0, &["--help"]);
    let commands = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let commands = commands.take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 15, "{commands:?}");
    let scripts = ["bash", "zsh", "fish"].map(|shell| place.unsnarl(0, &["completions", shell]));
    for command in commands.iter().filter(|command| **command != "help") {
        assert!(place.path(&format!("man1/unsnarl-{command}.1")).exists(), "no page of {command}");
        for script in &scripts {
            assert!(script.contains(command), "{command} is not completed");
        }
    }
    assert!(place.read("man1/unsnarl.1").contains(".TH unsnarl 1"));
    let bash = Command::new("bash").args(["-n", "-c", &scripts[0]]).status();
    assert!(bash.is_ok_and(|status| status.success()));
}
