//! Control dependence from control-flow graphs recovered from the code, one for each function that a slice
//! reaches.
//!
//! A graph contains the instructions reachable from the function's beginning without calls: the cold part
//! that a compiler split off is reached by a jump like any other, and so is included. The targets of indirect
//! jumps (switches) are those of this run.
//!
//! A branch to code that never returns (a failed check that aborts or panics) and that was not taken controls
//! nothing of interest: otherwise everything after a check would depend on it. The paper does not address
//! this. Such branches are ignored unless they were taken.

use super::{Code, Recording, postdominators};
use crate::{Control, InstructionIx, hash::Hashed};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use unsnarl_insn::{
    CopyKind, Effects, FLAGS, RegisterPart, gpr,
    iced::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic},
};

/// Library functions that do not return.
const NO_RETURN: &str = "abort exit _exit _Exit quick_exit __assert_fail __assert_perror_fail __assert \
    __stack_chk_fail __fortify_fail __chk_fail pthread_exit thrd_exit longjmp _longjmp siglongjmp __longjmp_chk \
    _Unwind_Resume __cxa_throw __cxa_rethrow __cxa_bad_cast __cxa_throw_bad_array_new_length \
    __cxa_call_unexpected __cxa_call_terminate _ZSt9terminatev err errx verr verrx";

/// Control dependence within the functions of a trace.
pub struct Cfg<'a> {
    code: &'a Code,
    recording: &'a Recording<'a>,
    /// Beginnings of functions without a symbol.
    beginnings: BTreeSet<u64>,
    /// By the beginning of the function: its number.
    functions: HashMap<u64, u32>,
    block_and_function: Hashed<u32, (u32, u32)>,
    controlling_branches: Vec<Vec<InstructionIx>>,
    /// By branch and untaken target: the registers that would have been written there.
    skipped: HashMap<(InstructionIx, u64), Vec<RegisterPart>>,
    /// By branch: its possible targets.
    branch_regions: HashMap<InstructionIx, Vec<u64>>,
    factory: InstructionInfoFactory,
    returns: HashMap<u64, bool>,
}

impl std::fmt::Debug for Cfg<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cfg").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

/// The successors of an instruction.
struct CfgNode {
    next: Vec<u64>,
    /// True if control can leave the function here.
    leaves: bool,
}

impl<'a> Cfg<'a> {
    /// Creates the analysis for this trace of this code.
    #[must_use]
    pub fn new(code: &'a Code, recording: &'a Recording<'a>) -> Self {
        let mut beginnings = BTreeSet::new();
        for ix in recording.all_instructions() {
            let target = code.decode(recording.insn(ix).pc).filter(|i| i.mnemonic() == Mnemonic::Call);
            beginnings.extend(target.and_then(|i| code.known_target(&i)));
        }
        Self {
            code,
            recording,
            beginnings,
            functions: HashMap::new(),
            block_and_function: Hashed::default(),
            controlling_branches: vec![Vec::new()],
            skipped: HashMap::new(),
            branch_regions: HashMap::new(),
            factory: InstructionInfoFactory::new(),
            returns: HashMap::new(),
        }
    }

    /// Returns the beginning of the function at an address.
    fn beginning(&self, pc: u64) -> u64 {
        let known = self.code.function(pc).map(|function| function.start);
        known.or_else(|| self.beginnings.range(..=pc).next_back().copied()).unwrap_or(pc)
    }

    fn is_beginning(&self, pc: u64) -> bool {
        if self.code.function(pc).is_some() {
            self.code.begins_function(pc)
        } else {
            self.beginnings.contains(&pc)
        }
    }

    /// Returns whether a function can return.
    fn returns(&mut self, beginning: u64) -> bool {
        if let Some(&known) = self.returns.get(&beginning) {
            return known;
        }
        // Assumed until disproved, and for recursive functions.
        self.returns.insert(beginning, true);
        let nodes = self.nodes(beginning, &[]);
        let never_returning = never_returning(&nodes);
        let returns = !never_returning.contains(&beginning);
        self.returns.insert(beginning, returns);
        returns
    }

    fn call_returns(&mut self, call: &Instruction) -> bool {
        if let Some(name) = self.code.imported(call) {
            let name = name.split('@').next().unwrap_or(name);
            let throws = name.starts_with("_ZSt") && name.contains("__throw_");
            return !throws && !NO_RETURN.split_whitespace().any(|known| known == name);
        }
        let Some(target) = self.code.known_target(call) else { return true };
        self.code.is_stub(target) || self.code.decode(target).is_none() || self.returns(target)
    }

    /// Returns the instructions that are reachable from a function's beginning and from `more`.
    fn nodes(&mut self, beginning: u64, more: &[u64]) -> BTreeMap<u64, CfgNode> {
        let mut nodes = BTreeMap::new();
        let mut todo: Vec<u64> = more.iter().copied().chain([beginning]).collect();
        while let Some(pc) = todo.pop() {
            if nodes.contains_key(&pc) {
                continue;
            }
            let Some(instruction) = self.code.decode(pc) else { continue };
            let mut node = self.node(&instruction, beginning);
            node.next.retain(|&to| self.code.decode(to).is_some());
            todo.extend(&node.next);
            nodes.insert(pc, node);
        }
        nodes
    }

    fn node(&mut self, instruction: &Instruction, beginning: u64) -> CfgNode {
        let (mut next, mut leaves) = (Vec::new(), false);
        let mut jump = |cfg: &Self, to: u64| {
            if to != beginning && cfg.is_beginning(to) || cfg.code.is_stub(to) {
                leaves = true;
            } else {
                next.push(to);
            }
        };
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::XbeginXabortXend => next.push(instruction.next_ip()),
            FlowControl::ConditionalBranch => {
                jump(self, instruction.near_branch_target());
                next.push(instruction.next_ip());
            }
            FlowControl::UnconditionalBranch => {
                let to = instruction.near_branch_target();
                let tail_call = to != beginning && self.is_beginning(to) || self.code.is_stub(to);
                if !tail_call || self.call_returns(instruction) {
                    jump(self, to);
                }
            }
            FlowControl::IndirectBranch => {
                let observed: Vec<u64> =
                    self.recording.jumps().get(&instruction.ip()).into_iter().flatten().copied().collect();
                if observed.is_empty() {
                    leaves = true;
                }
                for to in observed {
                    let leaves_by_it = to != beginning && self.is_beginning(to);
                    leaves |= leaves_by_it;
                    if !leaves_by_it {
                        next.push(to);
                    }
                }
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                if instruction.mnemonic() != Mnemonic::Call || self.call_returns(instruction) {
                    next.push(instruction.next_ip());
                }
            }
            FlowControl::Return => leaves = true,
            FlowControl::Interrupt | FlowControl::Exception => {}
        }
        CfgNode { next, leaves }
    }

    /// Analyses the function that contains an instruction.
    fn analyse(&mut self, ix: InstructionIx) {
        let pc = self.recording.insn(ix).pc;
        let beginning = self.beginning(pc);
        let mut nodes = self.nodes(beginning, &[]);
        if !nodes.contains_key(&pc) {
            // No jump leads to a landing pad, so it counts as another entry of the function.
            let strays: Vec<u64> = self
                .recording
                .all_instructions()
                .map(|ix| self.recording.insn(ix).pc)
                .filter(|&other| !nodes.contains_key(&other) && self.beginning(other) == beginning)
                .chain([pc])
                .collect();
            nodes = self.nodes(beginning, &strays);
        }
        self.remove_untaken_checks(&mut nodes);
        self.divide_into_blocks(&nodes, beginning);
    }

    /// Removes branches to code that never returns, if they were not taken.
    fn remove_untaken_checks(&self, nodes: &mut BTreeMap<u64, CfgNode>) {
        let never_returning = never_returning(nodes);
        for node in nodes.values_mut().filter(|node| node.next.len() > 1) {
            if node.next.iter().all(|to| never_returning.contains(to)) {
                continue;
            }
            node.next
                .retain(|to| !never_returning.contains(to) || self.recording.instruction_at(*to).is_some());
        }
    }

    /// Divides the instructions into blocks and determines the branches that control each.
    fn divide_into_blocks(&mut self, nodes: &BTreeMap<u64, CfgNode>, beginning: u64) {
        let mut incoming: HashMap<u64, u32> = HashMap::new();
        for node in nodes.values() {
            node.next.iter().for_each(|&to| *incoming.entry(to).or_default() += 1);
        }
        let mut leaders = BTreeSet::from([beginning]);
        leaders.extend(nodes.keys().filter(|pc| incoming.get(pc).is_none_or(|&count| count != 1)));
        for node in nodes.values().filter(|node| node.next.len() + usize::from(node.leaves) > 1) {
            leaders.extend(&node.next);
        }
        let numbers: BTreeMap<u64, usize> = leaders.iter().copied().zip(0..).collect();
        let exit = numbers.len();
        let mut block_of: HashMap<u64, usize> = HashMap::new();
        let mut last_of = vec![0; exit];
        let mut successors = vec![Vec::new(); exit + 1];
        for (&leader, &number) in &numbers {
            let mut pc = leader;
            while let Some(node) = nodes.get(&pc) {
                block_of.insert(pc, number);
                last_of[number] = pc;
                match node.next[..] {
                    [only] if !node.leaves && !leaders.contains(&only) => pc = only,
                    _ => {
                        successors[number] =
                            node.next.iter().filter_map(|to| numbers.get(to).copied()).collect();
                        if node.leaves || successors[number].is_empty() {
                            successors[number].push(exit);
                        }
                        break;
                    }
                }
            }
        }
        connect_to_exit(&mut successors, exit);
        let branch_regions = postdominators::branch_regions(&successors, exit);
        let controlling_branches = postdominators::controlling_branches(&branch_regions, exit + 1);
        let leader_of: Vec<u64> = leaders.iter().copied().collect();
        let mut instructions: Vec<Vec<u64>> = vec![Vec::new(); exit];
        block_of.iter().for_each(|(&pc, &block)| instructions[block].push(pc));
        for branch_region in branch_regions.iter().filter(|branch_region| branch_region.to != exit) {
            let Some(branch) = self.recording.instruction_at(last_of[branch_region.from]) else { continue };
            let mut written = BTreeSet::new();
            for &pc in branch_region.nodes.iter().flat_map(|&block| &instructions[block]) {
                self.collect_writes(pc, &mut written);
            }
            self.branch_regions.entry(branch).or_default().push(leader_of[branch_region.to]);
            self.skipped.insert((branch, leader_of[branch_region.to]), written.into_iter().collect());
        }
        let function = self.functions.len() as u32;
        let function = *self.functions.entry(beginning).or_insert(function);
        let first = self.controlling_branches.len() as u32;
        for deciders in &controlling_branches[..exit] {
            let branches = deciders.iter().filter_map(|&block| self.recording.instruction_at(last_of[block]));
            self.controlling_branches.push(branches.collect());
        }
        for (&pc, &block) in &block_of {
            if let Some(ix) = self.recording.instruction_at(pc) {
                self.block_and_function.insert(ix.0, (first + block as u32, function));
            }
        }
    }

    /// Collects the registers that an instruction writes, except for the flags.
    fn collect_writes(&mut self, pc: u64, written: &mut BTreeSet<RegisterPart>) {
        let Some(instruction) = self.code.decode(pc) else { return };
        if instruction.mnemonic() == Mnemonic::Call {
            written.insert(gpr(0));
        }
        let effects = Effects::of(&instruction, &mut self.factory);
        if effects.copy == CopyKind::No {
            written.extend(effects.defs.into_iter().filter(|part| part.granule != FLAGS));
        }
    }

    fn analysed(&mut self, ix: InstructionIx) -> (u32, u32) {
        if let Some(&known) = self.block_and_function.get(&ix.0) {
            return known;
        }
        self.analyse(ix);
        *self.block_and_function.entry(ix.0).or_insert((0, u32::MAX))
    }
}

/// Gives every node a path to the exit, because infinite loops have none.
fn connect_to_exit(successors: &mut [Vec<usize>], exit: usize) {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (from, targets) in successors.iter().enumerate() {
        targets.iter().for_each(|&to| predecessors[to].push(from));
    }
    let mut reached = vec![false; successors.len()];
    let mut todo = vec![exit];
    while let Some(node) = todo.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            todo.extend(&predecessors[node]);
        }
    }
    for node in (0..successors.len()).filter(|&node| !reached[node]) {
        successors[node].push(exit);
    }
}

/// Returns the instructions after which the function certainly does not return.
fn never_returning(nodes: &BTreeMap<u64, CfgNode>) -> BTreeSet<u64> {
    let mut predecessors: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut alive: HashMap<u64, usize> = HashMap::new();
    let mut todo = Vec::new();
    for (&pc, node) in nodes {
        node.next.iter().for_each(|&to| predecessors.entry(to).or_default().push(pc));
        alive.insert(pc, node.next.len() + usize::from(node.leaves));
        if node.next.is_empty() && !node.leaves {
            todo.push(pc);
        }
    }
    let mut never_returning = BTreeSet::new();
    while let Some(pc) = todo.pop() {
        if !never_returning.insert(pc) {
            continue;
        }
        for from in predecessors.get(&pc).into_iter().flatten() {
            if let Some(count) = alive.get_mut(from) {
                *count -= 1;
                if *count == 0 {
                    todo.push(*from);
                }
            }
        }
    }
    never_returning
}

impl Control for Cfg<'_> {
    fn block(&mut self, ix: InstructionIx) -> u32 {
        self.analysed(ix).0
    }

    fn function(&mut self, ix: InstructionIx) -> u32 {
        self.analysed(ix).1
    }

    fn controlling_branches(&mut self, block: u32) -> &[InstructionIx] {
        &self.controlling_branches[block as usize]
    }

    fn skipped(&mut self, branch: InstructionIx, next: InstructionIx) -> Vec<RegisterPart> {
        self.analysed(branch);
        let taken = self.recording.insn(next).pc;
        let others = self.branch_regions.get(&branch).into_iter().flatten().filter(|&&to| to != taken);
        others.filter_map(|&to| self.skipped.get(&(branch, to))).flatten().copied().collect()
    }
}
