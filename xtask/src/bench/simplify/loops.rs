//! `cargo xtask bench simplify loops`: the simplification of programs with loops that wait ends by itself.

use super::{Bench, FailingProgram};
use crate::{bench::BenchEffort, workspace::output};
use anyhow::Result;
use serde_json::Value;
use std::process::Command;

/// The styles of the loop in figure 1 of the Tinertia paper, which `figure_1.c` selects by a macro.
const STYLES: [&str; 5] = ["SPIN", "YIELD", "SLEEP", "TRY_WAIT", "TIMED_WAIT"];

/// Other programs with such loops, in `xtask/bench/long`, and their arguments.
const OTHERS: [(&str, &str); 3] = [("polling", "8"), ("retry", "3"), ("livelock", "8")];

impl Bench {
    /// Simplifies random failing traces of these programs without a limit of time.
    pub(super) fn loops(&self, effort: BenchEffort) -> Result<()> {
        let traces = match effort {
            BenchEffort::Quick => 10,
            BenchEffort::Full => 100,
        };
        println!("\n## Loops that wait\n");
        println!(
            "Random failing traces. Every simplification ended by itself. Means, and the maximum of the runs and of the events \
             left.\n"
        );
        println!(
            "| program | traces | events | left | most | switches / preemptions | left | runs | most | Tinertia leaves | runs |"
        );
        println!("|---|{}", "--:|".repeat(10));
        for style in STYLES {
            let name = format!("figure 1, {}", style.to_lowercase().replace('_', " "));
            let define = format!("-D{style}");
            let program = self.loop_program(&name, "loops/figure_1.c", &[&define], &[])?;
            self.loop_row(&program, traces)?;
        }
        for (other, argument) in OTHERS {
            let program =
                self.loop_program(other, &format!("long/{other}.c"), &[], &[argument.to_owned()])?;
            // It takes 65,536 events to recognise a livelock.
            self.loop_row(&program, if other == "livelock" { traces / 5 } else { traces })?;
        }
        Ok(())
    }

    fn loop_program(
        &self,
        name: &str,
        source: &str,
        flags: &[&str],
        args: &[String],
    ) -> Result<FailingProgram> {
        let path = self.directory.join(name.replace([' ', ','], "_"));
        let mut command = Command::new(&self.unsnarl);
        command.args(["cc", "-O1", "-g", "-pthread"]).args(flags).arg("-o").arg(&path);
        output(command.arg(self.root.join("xtask/bench").join(source)), &format!("compiling {source}"))?;
        Ok(FailingProgram { name: name.to_owned(), path, args: args.to_vec(), timeouts: "fair".into() })
    }

    fn loop_row(&self, program: &FailingProgram, traces: u64) -> Result<()> {
        let options = ["--replays", "0", "--prove", "0", "--longest", "1000000"].map(str::to_owned);
        let simplified = self.simplified(program, traces, &options)?;
        let values = |of: &dyn Fn(&Value) -> &Value| -> Vec<f64> {
            simplified.iter().map(|trace| of(trace).as_f64().unwrap_or(f64::NAN)).collect()
        };
        let mean = |of: &dyn Fn(&Value) -> &Value| {
            let values = values(of);
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        let most = |of: &dyn Fn(&Value) -> &Value| values(of).into_iter().fold(0.0, f64::max);
        println!(
            "| {} | {} | {:.1} | {:.1} | {:.0} | {:.1} / {:.1} | {:.1} / {:.1} | {:.1} | {:.0} | {:.1} / {:.1} | {:.1} |",
            program.name,
            simplified.len(),
            mean(&|trace| &trace["before"]["events"]),
            mean(&|trace| &trace["after"]["events"]),
            most(&|trace| &trace["after"]["events"]),
            mean(&|trace| &trace["before"]["context_switches"]),
            mean(&|trace| &trace["before"]["preemptive"]),
            mean(&|trace| &trace["after"]["context_switches"]),
            mean(&|trace| &trace["after"]["preemptive"]),
            mean(&|trace| &trace["executions"]),
            most(&|trace| &trace["executions"]),
            mean(&|trace| &trace["tinertia"]["after"]["context_switches"]),
            mean(&|trace| &trace["tinertia"]["after"]["preemptive"]),
            mean(&|trace| &trace["tinertia"]["executions"]),
        );
        Ok(())
    }
}
