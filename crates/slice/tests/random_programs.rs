//! Random programs with branches, loops, calls and threads: the backward walk finds the same slice as
//! propagating the whole past of each value forwards.

mod toy;

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use toy::{Table, Toy, ToyStep};
use unsnarl_model::ThreadIx;
use unsnarl_slice::{
    Criterion, Flow, InstructionIx, OrderingInput, Slice, closure, races, ranks, reduce, resolve_ranks,
};

#[derive(Clone, Debug)]
enum Statement {
    Assign { reads: Vec<u64>, write: u64 },
    If { reads: Vec<u64>, then: Vec<Statement>, otherwise: Vec<Statement> },
    While { reads: Vec<u64>, times: u8, body: Vec<Statement> },
    Call { function: u8 },
}

fn block(depth: u32) -> BoxedStrategy<Vec<Statement>> {
    let reads = || prop::collection::vec(0..8u64, 0..3);
    let assign = (reads(), 0..8u64).prop_map(|(reads, write)| Statement::Assign { reads, write });
    let call = (0..2u8).prop_map(|function| Statement::Call { function });
    if depth == 0 {
        return prop::collection::vec(prop_oneof![4 => assign, 1 => call], 0..4).boxed();
    }
    let nested = (reads(), block(depth - 1), block(depth - 1))
        .prop_map(|(reads, then, otherwise)| Statement::If { reads, then, otherwise });
    let looping = (reads(), 0..3u8, block(depth - 1)).prop_map(|(reads, times, body)| Statement::While {
        reads,
        times,
        body,
    });
    prop::collection::vec(prop_oneof![4 => assign, 1 => call, 2 => nested, 1 => looping], 0..4).boxed()
}

/// A statement with its number, as the interpreter needs it.
struct Compiled {
    instruction: u32,
    statement: Kind,
}

enum Kind {
    Assign(Vec<u64>, u64),
    If(Vec<u64>, Vec<Compiled>, Vec<Compiled>),
    While(Vec<u64>, u8, Vec<Compiled>),
    Call(u8),
}

fn compile(block: &[Statement], function: u32, enclosing: Option<u32>, table: &mut Table) -> Vec<Compiled> {
    let mut compiled = Vec::new();
    for statement in block {
        let instruction = table.functions.len() as u32;
        table.functions.push(function);
        table.controlling_branches.push(enclosing.map(InstructionIx).into_iter().collect());
        let statement = match statement {
            Statement::Assign { reads, write } => Kind::Assign(reads.clone(), *write),
            Statement::Call { function } => Kind::Call(*function),
            Statement::If { reads, then, otherwise } => Kind::If(
                reads.clone(),
                compile(then, function, Some(instruction), table),
                compile(otherwise, function, Some(instruction), table),
            ),
            Statement::While { reads, times, body } => {
                table.controlling_branches[instruction as usize].push(InstructionIx(instruction));
                Kind::While(reads.clone(), *times, compile(body, function, Some(instruction), table))
            }
        };
        compiled.push(Compiled { instruction, statement });
    }
    compiled
}

/// Runs a thread by itself; its steps are interleaved afterwards.
struct Interpreter<'a> {
    functions: &'a [(Vec<Compiled>, u32)],
    thread: u16,
    /// Parents are step numbers within the thread.
    steps: Vec<ToyStep>,
    coins: u32,
}

impl Interpreter<'_> {
    fn emit(
        &mut self,
        instruction: u32,
        reads: &[u64],
        writes: &[u64],
        parent: Option<u64>,
        flow: Flow,
    ) -> u64 {
        let mut step = ToyStep::new(self.thread, instruction, reads, writes);
        (step.parent, step.flow) = (parent, flow);
        self.steps.push(step);
        self.steps.len() as u64 - 1
    }

    fn coin(&mut self) -> bool {
        self.coins = self.coins.rotate_left(1).wrapping_mul(0x9e37_79b1);
        self.coins & 8 == 0
    }

    fn run(&mut self, block: &[Compiled], parent: Option<u64>, depth: u32) {
        for Compiled { instruction, statement } in block {
            if self.steps.len() > 300 {
                return;
            }
            match statement {
                Kind::Assign(reads, write) => {
                    self.emit(*instruction, reads, &[*write], parent, Flow::Next);
                }
                Kind::If(reads, then, otherwise) => {
                    let branch = self.emit(*instruction, reads, &[], parent, Flow::Branch);
                    let taken = if self.coin() { then } else { otherwise };
                    self.run(taken, Some(branch), depth);
                }
                Kind::While(reads, times, body) => {
                    let mut branch = self.emit(*instruction, reads, &[], parent, Flow::Branch);
                    for _ in 0..*times {
                        self.run(body, Some(branch), depth);
                        branch = self.emit(*instruction, reads, &[], Some(branch), Flow::Branch);
                    }
                }
                Kind::Call(function) if depth < 3 => {
                    let (body, end) = &self.functions[usize::from(*function) % self.functions.len()];
                    let call = self.emit(*instruction, &[], &[], parent, Flow::Call(0));
                    self.run(body, Some(call), depth + 1);
                    self.emit(*end, &[], &[], Some(call), Flow::Return);
                }
                Kind::Call(_) => {
                    self.emit(*instruction, &[], &[], parent, Flow::Next);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn backward_slice_equals_forward_dependence(
        functions in prop::collection::vec(block(1), 2),
        mains in prop::collection::vec(block(2), 1..4),
        coins in any::<u32>(),
        turns in prop::collection::vec(0..4usize, 0..400),
        which in any::<prop::sample::Index>(),
    ) {
        let mut table = Table::default();
        let mut compiled = Vec::new();
        for (number, body) in functions.iter().enumerate() {
            let body = compile(body, number as u32, None, &mut table);
            let end = table.functions.len() as u32;
            table.functions.push(number as u32);
            table.controlling_branches.push(Vec::new());
            compiled.push((body, end));
        }
        let mut threads: Vec<std::collections::VecDeque<(u64, ToyStep)>> = Vec::new();
        for (number, main) in mains.iter().enumerate() {
            let main = compile(main, 2 + number as u32, None, &mut table);
            let mut run = Interpreter {
                functions: &compiled,
                thread: number as u16,
                steps: Vec::new(),
                coins: coins ^ number as u32,
            };
            run.run(&main, None, 0);
            threads.push((0..).zip(run.steps).collect());
        }
        // Interleaved at random; parents become step numbers of the whole run.
        let mut toy = Toy::default();
        let mut numbers = vec![Vec::new(); threads.len()];
        let mut turns = turns.into_iter();
        while threads.iter().any(|steps| !steps.is_empty()) {
            let chosen = turns.next().unwrap_or(0) % threads.len();
            let turn = (chosen..threads.len()).chain(0..chosen).find(|&t| !threads[t].is_empty());
            let turn = turn.expect("a thread has steps left");
            let Some((_, mut step)) = threads[turn].pop_front() else { continue };
            step.parent = step.parent.map(|parent| numbers[turn][parent as usize]);
            numbers[turn].push(toy.steps.len() as u64);
            toy.steps.push(step);
        }
        prop_assume!(!toy.steps.is_empty());
        let criterion = which.index(toy.steps.len()) as u64;
        let slice = closure(&toy, &mut table, &Criterion { steps: vec![criterion], ..Criterion::default() });
        let found: BTreeSet<u64> = slice.steps.iter().collect();
        prop_assert_eq!(found, toy.brute(criterion));

        // The reduced run has the same slice, including races.
        let ordering = OrderingInput { events: &[], own_stack: &|_, _| false, lock_order: false };
        let reduced = reduce(&toy, ordering, &[criterion]);
        let rank = ranks(&toy, &[criterion]);
        let mut left = Toy::default();
        let mut so_far: BTreeMap<_, u64> = BTreeMap::new();
        for step in &toy.steps {
            let rank = so_far.entry(step.thread).or_default();
            if reduced.until.get(&ThreadIx(step.thread)).is_some_and(|until| *rank < until.steps) {
                left.steps.push(step.clone());
            }
            *rank += 1;
        }
        prop_assert_eq!(left.steps.len() as u64, reduced.after.steps);
        let moved = resolve_ranks(&left, &rank).expect("the criterion is left");
        let mut whole = slice;
        races(&toy, ordering, &mut whole);
        let mut part = closure(&left, &mut table, &Criterion { steps: moved, ..Criterion::default() });
        races(&left, ordering, &mut part);
        let instructions = |slice: &Slice| -> Vec<_> {
            slice.nodes.iter().map(|(instruction, node)| (*instruction, node.threads.clone(), node.instances)).collect()
        };
        prop_assert_eq!(instructions(&whole), instructions(&part));
        prop_assert_eq!(whole.races, part.races);
    }
}
