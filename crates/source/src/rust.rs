//! Rust: rustc points at the start of an expression.

use crate::{Found, POINTER, Subject};
use tree_sitter::Node;

pub(crate) fn subject_at(node: Node<'_>, subject: Subject) -> Option<Found<'_>> {
    match subject {
        Subject::Read(size) => {
            let node = place(node)?;
            Some(Found { is_certain: size != POINTER || hops(node) < 2, ..Found::certain(node) })
        }
        Subject::Write => place(node).map(Found::certain),
        Subject::Call => receiver(node),
    }
}

/// Returns the longest place expression that starts with this node. A method call acts on its receiver, which may be
/// reached in several steps, so it is none.
fn place(node: Node<'_>) -> Option<Node<'_>> {
    let start = node.start_byte();
    // The operator of `*guard` starts the expression but is no expression.
    let mut found = if is_place(node) { Some(node) } else { None };
    let mut at = node;
    while let Some(parent) = at.parent().filter(|parent| parent.start_byte() == start) {
        if parent.kind() == "call_expression" {
            return None;
        }
        if is_place(parent) {
            found = Some(parent);
        } else if found.is_some() {
            break;
        }
        at = parent;
    }
    found
}

fn is_place(node: Node<'_>) -> bool {
    match node.kind() {
        "identifier" | "self" | "field_expression" | "index_expression" => true,
        "unary_expression" => node.child(0).is_some_and(|operator| operator.kind() == "*"),
        _ => false,
    }
}

/// Returns the number of steps at which a pointer may be followed.
fn hops(node: Node<'_>) -> usize {
    match node.kind() {
        "field_expression" => 1 + node.child_by_field_name("value").map_or(0, hops),
        "index_expression" | "unary_expression" => 1 + node.named_child(0).map_or(0, hops),
        _ => 0,
    }
}

/// Returns the receiver, or what the first argument refers to, of the first call that starts here: `book` in
/// `book.lock().unwrap()`.
fn receiver(node: Node<'_>) -> Option<Found<'_>> {
    // rustc points at the name of an inlined method.
    if node.kind() == "field_identifier" {
        let function = node.parent().filter(|parent| parent.kind() == "field_expression")?;
        function.parent().filter(|call| call.child_by_field_name("function") == Some(function))?;
        let receiver = function.child_by_field_name("value").filter(|value| is_place(*value))?;
        return Some(Found::of_call(receiver, Some(node)));
    }
    let start = node.start_byte();
    let from_here = |node: &Node<'_>| node.start_byte() == start;
    let call = std::iter::successors(Some(node), |node| node.parent())
        .take_while(from_here)
        .find(|node| node.kind() == "call_expression")?;
    let function = call.child_by_field_name("function")?;
    if function.kind() == "field_expression" {
        let receiver = function.child_by_field_name("value").filter(|value| is_place(*value))?;
        return Some(Found::of_call(receiver, function.child_by_field_name("field")));
    }
    let argument = call.child_by_field_name("arguments")?.named_child(0)?;
    let referent = match argument.kind() {
        "reference_expression" => argument.child_by_field_name("value")?,
        _ => argument,
    };
    let name = function.child_by_field_name("name").unwrap_or(function);
    is_place(referent).then_some(Found::of_call(referent, Some(name)))
}
