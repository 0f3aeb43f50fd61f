//! Immediate post-dominators and control dependence of a small graph.
//!
//! Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm", on the reversed graph; control dependence
//! as Ferrante, Ottenstein and Warren define it.

/// An edge from a node with several successors, and the nodes that are executed because the edge is taken.
pub(super) struct BranchRegion {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) nodes: Vec<usize>,
}

/// Returns the edges of all nodes with several successors. `exit` is a node without successors; it must be
/// reachable from every node.
pub(super) fn branch_regions(successors: &[Vec<usize>], exit: usize) -> Vec<BranchRegion> {
    let nearest = immediate(successors, exit);
    let mut branch_regions = Vec::new();
    for (from, targets) in successors.iter().enumerate().filter(|(_, targets)| targets.len() > 1) {
        let stop = nearest[from];
        for &to in targets {
            let (mut nodes, mut at) = (Vec::new(), to);
            while Some(at) != stop && at != exit {
                nodes.push(at);
                match nearest[at] {
                    Some(next) => at = next,
                    None => break,
                }
            }
            branch_regions.push(BranchRegion { from, to, nodes });
        }
    }
    branch_regions
}

/// Returns, for each of `nodes` nodes, the nodes that control it.
pub(super) fn controlling_branches(branch_regions: &[BranchRegion], nodes: usize) -> Vec<Vec<usize>> {
    let mut controlling_branches = vec![Vec::new(); nodes];
    for branch_region in branch_regions {
        for &node in &branch_region.nodes {
            if !controlling_branches[node].contains(&branch_region.from) {
                controlling_branches[node].push(branch_region.from);
            }
        }
    }
    controlling_branches
}

/// Returns the immediate post-dominator of each node.
fn immediate(successors: &[Vec<usize>], exit: usize) -> Vec<Option<usize>> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (from, targets) in successors.iter().enumerate() {
        targets.iter().for_each(|&to| predecessors[to].push(from));
    }
    // Reverse post-order of the reversed graph.
    let mut number = vec![usize::MAX; successors.len()];
    let mut order = Vec::new();
    let mut seen = vec![false; successors.len()];
    let mut stack = vec![(exit, 0)];
    seen[exit] = true;
    while let Some((node, next)) = stack.last_mut() {
        if let Some(&from) = predecessors[*node].get(*next) {
            *next += 1;
            if !std::mem::replace(&mut seen[from], true) {
                stack.push((from, 0));
            }
        } else {
            number[*node] = order.len();
            order.push(*node);
            stack.pop();
        }
    }
    let mut nearest: Vec<Option<usize>> = vec![None; successors.len()];
    nearest[exit] = Some(exit);
    let mut changed = true;
    while changed {
        changed = false;
        for &node in order.iter().rev().filter(|&&node| node != exit) {
            let mut found = None;
            for &to in successors[node].iter().filter(|&&to| nearest[to].is_some()) {
                found = Some(found.map_or(to, |other| common_post_dominator(&nearest, &number, other, to)));
            }
            if found.is_some() && nearest[node] != found {
                nearest[node] = found;
                changed = true;
            }
        }
    }
    nearest[exit] = None;
    nearest
}

fn common_post_dominator(nearest: &[Option<usize>], number: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while number[a] < number[b] {
            a = nearest[a].unwrap_or(b);
        }
        while number[b] < number[a] {
            b = nearest[b].unwrap_or(a);
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controlling_branches(successors: &[Vec<usize>], exit: usize) -> Vec<Vec<usize>> {
        super::controlling_branches(&branch_regions(successors, exit), successors.len())
    }

    #[test]
    fn diamond_branches_depend_on_top_and_join_does_not() {
        // 0 -> 1, 2; 1 -> 3; 2 -> 3; 3 is the exit.
        let decided = controlling_branches(&[vec![1, 2], vec![3], vec![3], vec![]], 3);
        assert_eq!(decided, [vec![], vec![0], vec![0], vec![]]);
    }

    #[test]
    fn loop_header_controls_itself() {
        // 0 -> 1; 1 -> 2, 3; 2 -> 1; 3 is the exit.
        let decided = controlling_branches(&[vec![1], vec![2, 3], vec![1], vec![]], 3);
        assert_eq!(decided, [vec![], vec![1], vec![1], vec![]]);
    }

    #[test]
    fn code_after_early_return_depends_on_it() {
        // 0 -> 1 (return), 2; 2 -> 3; 1 -> 4; 3 -> 4; 4 is the exit.
        let decided = controlling_branches(&[vec![1, 2], vec![4], vec![3], vec![4], vec![]], 4);
        assert_eq!(decided, [vec![], vec![0], vec![0], vec![0], vec![]]);
    }
}
