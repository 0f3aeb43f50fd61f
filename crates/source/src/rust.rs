//! Rust: rustc points at the start of an expression.

use crate::{Accessed, Called};
use tree_sitter::Node;

/// Returns the places that instructions with this node's column access: all parts of the longest place expression that
/// starts here, whose references may be followed on the way.
pub(crate) fn accesses_at(node: Node<'_>) -> Option<Accessed<'_>> {
    // The arguments of a macro are no expressions yet.
    if node.parent().is_some_and(|parent| matches!(parent.kind(), "macro_invocation" | "token_tree")) {
        return None;
    }
    let start = node.start_byte();
    let mut parts = Vec::new();
    // The operator of `*guard` starts the expression but is no expression.
    let mut at = Some(node);
    let mut is_receiver = false;
    let mut store = None;
    while let Some(here) = at.filter(|here| here.start_byte() == start) {
        match here.kind() {
            "*" => {}
            _ if is_place(here) => {
                // What `*` is applied to starts after it.
                if here.kind() == "unary_expression" {
                    inner_parts(here, &mut parts);
                }
                parts.push(here);
            }
            "assignment_expression" | "compound_assignment_expr" => {
                store = here.child_by_field_name("left").filter(|left| is_place(*left));
                break;
            }
            // A method acts on its receiver, which may be reached in several steps.
            "call_expression" => {
                parts.pop();
                is_receiver = true;
                break;
            }
            _ if parts.is_empty() => return None,
            _ => break,
        }
        at = here.parent();
    }
    if parts.is_empty() {
        return None;
    }
    let accessed = if is_receiver { Accessed::reading(parts) } else { Accessed::ending_with(parts) };
    // The result of a larger expression is written with the column of its first operand.
    Some(Accessed { store, ..accessed })
}

/// Appends the places inside the operand of `*`, in the order of their evaluation.
fn inner_parts<'tree>(dereference: Node<'tree>, parts: &mut Vec<Node<'tree>>) {
    let Some(operand) = dereference.named_child(0) else { return };
    let mut chain = Vec::new();
    let mut at = Some(operand);
    while let Some(here) = at.filter(|here| is_place(*here)) {
        chain.push(here);
        at = match here.kind() {
            "field_expression" => here.child_by_field_name("value"),
            "index_expression" | "unary_expression" => here.named_child(0),
            _ => None,
        };
    }
    parts.extend(chain.into_iter().rev());
}

fn is_place(node: Node<'_>) -> bool {
    match node.kind() {
        "identifier" | "self" | "field_expression" | "index_expression" => true,
        "unary_expression" => node.child(0).is_some_and(|operator| operator.kind() == "*"),
        _ => false,
    }
}

/// Returns the part of a place whose size debug information can tell.
pub(crate) fn part_of(node: Node<'_>) -> Option<(Node<'_>, bool)> {
    match node.kind() {
        "identifier" => Some((node, false)),
        "field_expression" => node.child_by_field_name("field").map(|field| (field, false)),
        // A reference may be to another reference, or to a value behind a guard.
        _ => None,
    }
}

/// Returns the first call that starts here, or whose method has its name here, with its receiver, or with what its first
/// argument refers to: `book` in `book.lock().unwrap()`.
pub(crate) fn call_at(node: Node<'_>) -> Option<Called<'_>> {
    // rustc points at the name of an inlined method.
    if node.kind() == "field_identifier" {
        let function = node.parent().filter(|parent| parent.kind() == "field_expression")?;
        let call = function.parent().filter(|call| call.child_by_field_name("function") == Some(function))?;
        let receiver = function.child_by_field_name("value").filter(|value| is_place(*value));
        return Some(Called { call, receiver, function: Some(node) });
    }
    let start = node.start_byte();
    let from_here = |node: &Node<'_>| node.start_byte() == start;
    let call = std::iter::successors(Some(node), |node| node.parent())
        .take_while(from_here)
        .find(|node| node.kind() == "call_expression")?;
    let function = call.child_by_field_name("function")?;
    if function.kind() == "field_expression" {
        let receiver = function.child_by_field_name("value").filter(|value| is_place(*value));
        return Some(Called { call, receiver, function: function.child_by_field_name("field") });
    }
    let argument = call.child_by_field_name("arguments").and_then(|arguments| arguments.named_child(0));
    let referent = argument.and_then(|argument| match argument.kind() {
        "reference_expression" => argument.child_by_field_name("value"),
        _ => Some(argument),
    });
    let name = function.child_by_field_name("name").unwrap_or(function);
    Some(Called { call, receiver: referent.filter(|referent| is_place(*referent)), function: Some(name) })
}
