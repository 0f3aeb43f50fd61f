//! The slicing criterion: by default the failure that ended the run.

use super::Recording;
use crate::{Criterion, History, InstructionIx};
use unsnarl_model::{Op, OutcomeKind, ThreadIx, Trace};

impl Recording<'_> {
    /// Returns the failure that ended the trace, with the threads involved: the crash, the call that gave up,
    /// the operations that block each other, the exit status. Empty if the threads involved executed nothing.
    #[must_use]
    pub fn failure(&self, trace: &Trace) -> Criterion {
        let outcome = &trace.outcome;
        let mut criterion = Criterion::default();
        match outcome.kind {
            OutcomeKind::Deadlock => {
                let waiting = outcome.waits.iter().map(|wait| wait.thread);
                criterion.steps = waiting.filter_map(|thread| self.last_step(thread)).collect();
                for wait in &outcome.waits {
                    criterion.steps.extend(
                        wait.holders
                            .iter()
                            .filter_map(|&thread_ix| self.acquiring_call(thread_ix, wait.addr)),
                    );
                }
                criterion.steps.sort_unstable();
                criterion.steps.dedup();
            }
            OutcomeKind::Exit(_) => {
                let exit = trace.events.iter().rfind(|event| event.op == Op::Exit);
                let thread = exit.map_or(ThreadIx::MAIN, |event| event.thread);
                let main = trace.threads.first().map(|main| main.start).unwrap_or_default();
                let base = trace.modules.get(usize::from(main.module.0)).map_or(0, |module| module.base);
                self.exit(thread, base + main.offset, &mut criterion);
            }
            _ => {
                let thread = outcome.thread.unwrap_or(ThreadIx::MAIN);
                let pc = outcome.site.and_then(|site| {
                    let module = trace.modules.get(usize::from(site.module.0))?;
                    Some(module.base + site.offset)
                });
                let step = pc.and_then(|pc| self.latest_at(thread, pc)).or_else(|| self.last_step(thread));
                criterion.steps.extend(step);
            }
        }
        criterion
    }

    /// Returns the call by which a thread acquired the lock at this address.
    fn acquiring_call(&self, thread: ThreadIx, lock: u64) -> Option<u64> {
        let takes = |call: &&super::Call| {
            let name = self.callee(call);
            (call.thread, call.arguments[0]) == (thread, lock)
                && name.contains("lock")
                && !name.contains("unlock")
        };
        self.calls().iter().rev().filter(|call| call.result.is_some()).find(takes).map(|call| call.step)
    }

    /// Adds the status with which a thread ended the program: the argument of `exit`, or the result of main.
    fn exit(&self, thread: ThreadIx, main: u64, criterion: &mut Criterion) {
        let exits = |name: &str| matches!(name, "exit" | "_exit" | "_Exit" | "quick_exit");
        let call = self.calls().iter().rev().find(|call| call.thread == thread && exits(self.callee(call)));
        if let Some(call) = call {
            criterion.steps.push(call.step);
        } else if let Some(step) = self.returned(thread, main) {
            criterion.registers.push((step, unsnarl_insn::gpr(0)));
        }
    }

    /// Returns the latest step of a thread at the instruction that contains this address.
    #[must_use]
    pub fn latest_at(&self, thread: ThreadIx, pc: u64) -> Option<u64> {
        let is_there = |instruction: InstructionIx| {
            let insn = self.insn(instruction);
            (insn.pc..insn.pc + u64::from(insn.len)).contains(&pc)
        };
        let mut found = None;
        self.backwards(self.last_step(thread)?, &mut |step| {
            if step.thread == thread && is_there(step.instruction) {
                found = Some(step.number);
            }
            found.is_none()
        });
        found
    }

    /// Returns the steps of one execution of a line, given by its instructions: the one with this number,
    /// from 1, or the latest. Also returns the number of executions.
    #[must_use]
    pub fn line_execution(
        &self,
        line: &dyn Fn(InstructionIx) -> bool,
        instance: Option<u64>,
    ) -> (Vec<u64>, u64) {
        // A new execution begins with the instruction that began the first one.
        let mut anchor = None;
        let mut executions: Vec<(ThreadIx, Vec<u64>)> = Vec::new();
        let mut count = 0;
        self.forwards(&mut |step| {
            if step.copy || !line(step.instruction) {
                return;
            }
            if *anchor.get_or_insert(step.instruction) == step.instruction {
                count += 1;
                let selected = instance.is_none_or(|selected| selected == count);
                executions.retain(|(thread, _)| *thread != step.thread || instance.is_some());
                if selected {
                    executions.push((step.thread, Vec::new()));
                }
            }
            if let Some((_, steps)) = executions.iter_mut().rfind(|(thread, _)| *thread == step.thread)
                && (instance.is_none() || count <= instance.unwrap_or(0))
            {
                steps.push(step.number);
            }
        });
        let latest = executions.into_iter().max_by_key(|(_, steps)| steps.last().copied());
        (latest.map(|(_, steps)| steps).unwrap_or_default(), count)
    }
}
