//! `cargo xtask bench simplify long`: what is left of long traces, against time.

use super::Bench;
use crate::bench::BenchEffort;
use crate::workspace::output;
use anyhow::Result;
use serde_json::Value;
use std::process::Command;

/// The programs in `xtask/bench/long`, and their arguments for traces of about 1,000, 10,000, 100,000 and 1,000,000
/// events.
const PROGRAMS: [(&str, &[u32]); 6] = [
    ("pipeline", &[25, 250, 2_500, 25_000]),
    ("server", &[40, 300, 2_500]),
    ("pool", &[30, 300, 3_000, 30_000]),
    ("polling", &[120, 1_200, 12_000]),
    ("retry", &[40, 400, 4_000]),
    // Its traces have 65,536 events and more, because it takes that long to recognise a livelock.
    ("livelock", &[30, 300, 3_000]),
];

/// The ways to simplify, and their names in the table.
const WAYS: [(&str, &str); 5] = [
    ("default", "default"),
    ("quick", "`--effort 0`"),
    ("static", "`--static`"),
    ("dynamic", "`--dynamic`"),
    ("hunt", "hunt"),
];

impl Bench {
    /// Measures switches and preemptions left of long random failing traces, against time. The points of the curves are
    /// written to a CSV file, for `docs/results/data/long.csv`.
    pub(super) fn long(&self, effort: BenchEffort) -> Result<()> {
        let (sizes, time) = match effort {
            BenchEffort::Quick => (3, "20s"),
            BenchEffort::Full => (4, "120s"),
        };
        println!("\n## Long traces\n");
        println!(
            "One random failing trace each, {time} for each way. Context switches / preemptions left, runs, and time; `+` if the \
             time was used up.\n"
        );
        let names: Vec<String> = WAYS.iter().map(|(_, name)| format!(" {name} |")).collect();
        println!("| trace | events | before |{}", names.concat());
        println!("|---|--:|--:|{}", "--:|".repeat(WAYS.len()));
        let mut compare = Comparison::default();
        let mut points = "trace,way,seconds,switches,preemptions\n".to_owned();
        for (name, arguments) in PROGRAMS {
            let program = self.directory.join(name);
            let mut command = Command::new(&self.unsnarl);
            command.args(["cc", "-O1", "-g", "-pthread", "-o"]).arg(&program);
            let source = self.root.join("xtask/bench/long").join(name).with_extension("c");
            output(command.arg(&source), &format!("compiling {name}.c"))?;
            for argument in arguments.iter().take(sizes) {
                let ways: Vec<&str> = WAYS.iter().map(|(way, _)| *way).collect();
                let more = ["--".to_owned(), program.display().to_string(), argument.to_string()];
                let args = ["bench-simplify-curve", "--time", time, "--ways", &ways.join(",")];
                let report = self.run(&args, &more)?;
                let before = &report["before"];
                let mut row = format!(
                    "| {name} {argument} | {} | {} / {} |",
                    before["events"], before["context_switches"], before["preemptive"]
                );
                for way in report["ways"].as_array().into_iter().flatten() {
                    let used_up = if way["stopped"].is_null() { "" } else { "+" };
                    row += &format!(
                        " {} / {}, {} runs, {:.1}{used_up} s |",
                        way["after"]["context_switches"],
                        way["after"]["preemptive"],
                        way["executions"],
                        way["elapsed_s"].as_f64().unwrap_or(f64::NAN)
                    );
                    let mut line = |seconds: f64, switches: &Value, preemptions: &Value| {
                        let way = way["way"].as_str().unwrap_or_default();
                        points += &format!("{name} {argument},{way},{seconds:.3},{switches},{preemptions}\n");
                    };
                    line(0.0, &before["context_switches"], &before["preemptive"]);
                    for point in thinned(way["points"].as_array().map_or(&[][..], Vec::as_slice)) {
                        line(point[0].as_f64().unwrap_or(f64::NAN), &point[1], &point[2]);
                    }
                    let (after, end) = (&way["after"], way["elapsed_s"].as_f64().unwrap_or(f64::NAN));
                    line(end, &after["context_switches"], &after["preemptive"]);
                }
                println!("{row}");
                compare.add(
                    &format!("{name} {argument}"),
                    report["ways"].as_array().map_or(&[][..], Vec::as_slice),
                );
            }
        }
        compare.print();
        let path = self.directory.join("long.csv");
        std::fs::write(&path, points)?;
        println!("\nThe points of the curves: {}", path.display());
        Ok(())
    }
}

/// Moments at which the default had more left than another way.
#[derive(Default)]
struct Comparison {
    moments: usize,
    worse: Vec<String>,
}

/// The default may take this much longer to be as good as another way.
const SLOWER: f64 = 1.1;

/// Shorter times are not compared.
const SHORTEST: f64 = 0.05;

impl Comparison {
    /// Compares the default with the other ways: at each point of their curves, the default must have as little left
    /// after a tenth more time.
    fn add(&mut self, trace: &str, ways: &[Value]) {
        let Some(default) = ways.iter().find(|way| way["way"] == "default") else { return };
        for way in ways.iter().filter(|way| way["way"] != "default") {
            let mut largest: Option<String> = None;
            for (seconds, left) in curve(way) {
                self.moments += 1;
                let until = (SLOWER * seconds).max(SHORTEST);
                let ours = curve(default).filter(|(at, _)| *at <= until).map(|(_, left)| left).min();
                let ours = ours.unwrap_or((u64::MAX, u64::MAX));
                if ours > left {
                    let name = way["way"].as_str().unwrap_or_default();
                    largest = Some(format!(
                        "{trace}: after {seconds:.2} s `{name}` has {} / {} left, the default {} / {}",
                        left.0, left.1, ours.0, ours.1
                    ));
                }
            }
            self.worse.extend(largest);
        }
    }

    fn print(&self) {
        println!(
            "\nCompared at {} moments after {SHORTEST} s; the default may take {SLOWER} times as long. The last moments \
             at which it had more left:",
            self.moments
        );
        self.worse.iter().for_each(|line| println!("- {line}"));
        if self.worse.is_empty() {
            println!("- none");
        }
    }
}

/// Returns the points of a curve and its end: seconds, and the context switches and preemptions left.
fn curve(way: &Value) -> impl Iterator<Item = (f64, (u64, u64))> + '_ {
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    let seconds = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let points = way["points"].as_array().into_iter().flatten();
    let points = points.map(move |point| (seconds(&point[0]), (number(&point[1]), number(&point[2]))));
    let after = &way["after"];
    let end =
        (seconds(&way["elapsed_s"]), (number(&after["context_switches"]), number(&after["preemptive"])));
    points.chain([end])
}

/// Returns the points at which the switches are at least 3 % fewer than at the point before, and the last one.
fn thinned(points: &[Value]) -> Vec<&Value> {
    let mut kept: Vec<&Value> = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let switches = |point: &Value| point[1].as_f64().unwrap_or(0.0);
        let fewer = kept.last().is_none_or(|last| switches(point) <= 0.97 * switches(last));
        if fewer || at + 1 == points.len() {
            kept.push(point);
        }
    }
    kept
}
