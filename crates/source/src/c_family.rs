//! C and C++: gcc and clang.

use crate::{Found, POINTER, Subject};
use tree_sitter::Node;

pub(crate) fn subject_at(node: Node<'_>, subject: Subject) -> Option<Found<'_>> {
    match subject {
        Subject::Read(size) => accessed(node, Some(size)),
        Subject::Write => accessed(node, None),
        Subject::Call => receiver(node),
    }
}

/// Returns the expression that is read, if a size is given, or written.
fn accessed(node: Node<'_>, read_size: Option<u64>) -> Option<Found<'_>> {
    let parent = node.parent()?;
    match (node.kind(), parent.kind()) {
        // gcc points at the operator of the expression that it reads.
        ("->" | ".", "field_expression") => Some(Found::certain(parent)),
        ("[", "subscript_expression") => Some(Found::certain(parent)),
        ("[", "subscript_argument_list") => parent.parent().map(Found::certain),
        ("*", "pointer_expression") => Some(Found::certain(parent)),
        // Both point at the operator that changes the memory.
        (_, "assignment_expression") if !node.is_named() => {
            parent.child_by_field_name("left").map(unwrapped).map(Found::certain)
        }
        ("++" | "--", "update_expression") => {
            parent.child_by_field_name("argument").map(unwrapped).map(Found::certain)
        }
        // clang points at the name.
        ("field_identifier", "field_expression") => Some(element_or_base(parent, read_size)),
        ("identifier", "call_expression") if is_field(node, "function") => None,
        ("identifier" | "this", _) => Some(element_or_base(node, read_size)),
        _ => None,
    }
}

/// Returns the element if the expression is the base of a subscript, which has the same column in clang's line tables.
/// Only a read of a pointer may also have been that of the base.
fn element_or_base(base: Node<'_>, read_size: Option<u64>) -> Found<'_> {
    let element =
        base.parent().filter(|parent| parent.kind() == "subscript_expression" && is_field(base, "argument"));
    match element {
        None => Found::certain(base),
        Some(element) => Found { is_certain: read_size != Some(POINTER), ..Found::certain(element) },
    }
}

/// Returns the object on which the call at this place acts: the receiver of a method, or what the first argument points
/// to.
fn receiver(node: Node<'_>) -> Option<Found<'_>> {
    let mut at = node;
    loop {
        let parent = at.parent()?;
        match parent.kind() {
            "call_expression" if is_field(at, "function") => return receiver_of_call(parent),
            // gcc points at the parenthesis of a method call, and at the end of a constructor's arguments.
            "argument_list" | "initializer_list" | "parameter_list" if at == node && !node.is_named() => {
                let call = parent.parent()?;
                return match (call.kind(), node.kind()) {
                    ("call_expression", "(") => receiver_of_call(call),
                    ("init_declarator", ")" | "}") => guarded(parent, call.parent()?),
                    ("function_declarator", ")") if is_local(call) => guarded(parent, call.parent()?),
                    _ => None,
                };
            }
            // The lock of a guard: `std::lock_guard<std::mutex> guard(mutex)`.
            "init_declarator" if is_field(at, "declarator") => {
                return guarded(parent.child_by_field_name("value")?, parent.parent()?);
            }
            "function_declarator" if is_field(at, "declarator") && is_local(parent) => {
                return guarded(parent.child_by_field_name("parameters")?, parent.parent()?);
            }
            "field_expression"
            | "qualified_identifier"
            | "template_function"
            | "pointer_expression"
            | "subscript_expression"
            | "parenthesized_expression" => at = parent,
            _ => return None,
        }
    }
}

fn receiver_of_call(call: Node<'_>) -> Option<Found<'_>> {
    let function = call.child_by_field_name("function")?;
    if function.kind() == "field_expression" {
        let receiver = function.child_by_field_name("argument").map(unwrapped)?;
        return Some(Found::of_call(receiver, function.child_by_field_name("field")));
    }
    let arguments = call.child_by_field_name("arguments")?;
    let name = function.child_by_field_name("name").unwrap_or(function);
    Some(Found::of_call(pointee(arguments.named_child(0)?)?, Some(name)))
}

/// Returns the only argument of a declaration; the called function is the constructor of its type.
fn guarded<'tree>(arguments: Node<'tree>, declaration: Node<'tree>) -> Option<Found<'tree>> {
    let kind = declaration.child_by_field_name("type")?;
    let name = std::iter::successors(Some(kind), |node| node.child_by_field_name("name")).last();
    only_argument(arguments).map(|argument| Found::of_call(argument, name))
}

/// Returns the only argument of a declaration, which the grammar may take for a parameter.
fn only_argument(arguments: Node<'_>) -> Option<Node<'_>> {
    let is_list = matches!(arguments.kind(), "argument_list" | "initializer_list" | "parameter_list");
    if !is_list || arguments.named_child_count() != 1 {
        return None;
    }
    let only = arguments.named_child(0)?;
    match only.kind() {
        "parameter_declaration" => only.child_by_field_name("type"),
        _ => pointee(only),
    }
}

/// Returns what a pointer argument points to: `pool->lock` for `&pool->lock`.
fn pointee(argument: Node<'_>) -> Option<Node<'_>> {
    let argument = unwrapped(argument);
    match argument.kind() {
        "pointer_expression" => argument.child_by_field_name("argument").map(unwrapped),
        "cast_expression" => argument.child_by_field_name("value").and_then(pointee),
        "identifier" | "field_expression" | "subscript_expression" => Some(argument),
        _ => None,
    }
}

/// Returns the expression in parentheses.
fn unwrapped(node: Node<'_>) -> Node<'_> {
    match node.kind() {
        "parenthesized_expression" => node.named_child(0).map_or(node, unwrapped),
        _ => node,
    }
}

/// Returns whether a node is this field of its parent.
fn is_field(node: Node<'_>, field: &str) -> bool {
    node.parent().and_then(|parent| parent.child_by_field_name(field)) == Some(node)
}

/// Returns whether a declaration is inside a function's body.
fn is_local(node: Node<'_>) -> bool {
    let mut ancestors = std::iter::successors(node.parent(), |node| node.parent());
    ancestors.any(|ancestor| ancestor.kind() == "compound_statement")
}
