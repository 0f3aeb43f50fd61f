//! `cargo xtask bench simplify long`: what is left of long traces, against time.

use super::{BenchEffort, simplify::Bench};
use crate::workspace::output;
use anyhow::Result;
use std::process::Command;

/// The programs in `xtask/bench/long`, and their arguments for traces of about 1,000, 10,000 and 100,000 events.
const PROGRAMS: [(&str, [u32; 3]); 5] = [
    ("pipeline", [25, 250, 2_500]),
    ("server", [40, 300, 2_500]),
    ("pool", [30, 300, 3_000]),
    ("polling", [120, 1_200, 12_000]),
    ("retry", [40, 400, 4_000]),
];

/// The ways to simplify, and their names in the table.
const WAYS: [(&str, &str); 4] =
    [("default", "default"), ("quick", "`--effort 0`"), ("dynamic", "`--dynamic`"), ("hunt", "hunt")];

impl Bench {
    /// Measures switches and preemptions left of long random failing traces, against time. The points of the curves are
    /// written to a CSV file, for `docs/results/data/long.csv`.
    pub(super) fn long(&self, effort: BenchEffort) -> Result<()> {
        let (sizes, time) = match effort {
            BenchEffort::Quick => (2, "20s"),
            BenchEffort::Full => (3, "120s"),
        };
        println!("\n## Long traces\n");
        println!(
            "One random failing trace each, {time} for each way. Context switches / preemptions left, runs, and time; `+` if the \
             time was used up.\n"
        );
        let names: Vec<String> = WAYS.iter().map(|(_, name)| format!(" {name} |")).collect();
        println!("| trace | events | before |{}", names.concat());
        println!("|---|--:|--:|{}", "--:|".repeat(WAYS.len()));
        let mut points = "trace,way,seconds,switches,preemptions\n".to_owned();
        for (name, arguments) in PROGRAMS {
            let program = self.directory.join(name);
            let mut command = Command::new(&self.unsnarl);
            command.args(["cc", "-O1", "-g", "-pthread", "-o"]).arg(&program);
            let source = self.root.join("xtask/bench/long").join(name).with_extension("c");
            output(command.arg(&source), &format!("compiling {name}.c"))?;
            for argument in &arguments[..sizes] {
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
                    let mut line = |seconds: f64,
                                    switches: &serde_json::Value,
                                    preemptions: &serde_json::Value| {
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
            }
        }
        let path = self.directory.join("long.csv");
        std::fs::write(&path, points)?;
        println!("\nThe points of the curves: {}", path.display());
        Ok(())
    }
}

/// Returns the points at which the switches are at least 3 % fewer than at the point before, and the last one.
fn thinned(points: &[serde_json::Value]) -> Vec<&serde_json::Value> {
    let mut kept: Vec<&serde_json::Value> = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let switches = |point: &serde_json::Value| point[1].as_f64().unwrap_or(0.0);
        let fewer = kept.last().is_none_or(|last| switches(point) <= 0.97 * switches(last));
        if fewer || at + 1 == points.len() {
            kept.push(point);
        }
    }
    kept
}
