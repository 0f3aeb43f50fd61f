//! C and C++: gcc and clang.

use crate::{Accessed, Called};
use tree_sitter::Node;

/// Returns the places that instructions with this node's column access.
pub(crate) fn accesses_at(node: Node<'_>) -> Option<Accessed<'_>> {
    let parent = node.parent()?;
    match (node.kind(), parent.kind()) {
        // gcc points at the operator of the expression that it reads. Names have no column of their own, so they are
        // read at the operator's.
        ("->" | ".", "field_expression") => {
            let base = parent.child_by_field_name("argument").filter(is_name);
            Some(evaluated(base.into_iter().chain([parent])))
        }
        ("[", "subscript_expression") => Some(element(parent)),
        ("[", "subscript_argument_list") => parent.parent().map(element),
        ("*", "pointer_expression") => {
            let pointer = parent.child_by_field_name("argument").map(unwrapped).filter(is_name);
            Some(evaluated(pointer.into_iter().chain([parent])))
        }
        // Both point at the operator that changes the memory.
        ("=", "assignment_expression") => {
            let source = parent.child_by_field_name("right").map(unwrapped).filter(is_place);
            let target = parent.child_by_field_name("left").map(unwrapped)?;
            Some(Accessed { store: Some(target), ..Accessed::reading(source) })
        }
        (_, "assignment_expression") if !node.is_named() => {
            let source = parent.child_by_field_name("right").map(unwrapped).filter(is_name);
            let target = parent.child_by_field_name("left").map(unwrapped)?;
            let mut accessed = Accessed::reading(source.into_iter().chain([target]));
            accessed.store = Some(target);
            Some(accessed)
        }
        ("++" | "--", "update_expression") => {
            let target = parent.child_by_field_name("argument").map(unwrapped)?;
            Some(Accessed { store: Some(target), ..Accessed::reading([target]) })
        }
        (_, "binary_expression") if !node.is_named() => {
            let side = |name| parent.child_by_field_name(name).map(unwrapped).filter(is_name);
            Some(Accessed::reading(side("left").into_iter().chain(side("right"))))
        }
        ("return", "return_statement") => {
            let value = parent.named_child(0).map(unwrapped).filter(is_name);
            Some(Accessed::reading(value))
        }
        // clang points at the name.
        ("field_identifier", "field_expression") => Some(base_and_elements(parent)),
        // A macro is parsed as a call; all of its accesses have the column of its name.
        ("identifier", "call_expression") if is_field(node, "function") => {
            let mut loads = Vec::new();
            loads_of(parent.child_by_field_name("arguments")?, &mut loads);
            Some(Accessed::reading(loads))
        }
        // A declaration with a value, and the initialisers of a constructor.
        ("identifier", "init_declarator") if is_field(node, "declarator") => {
            let source = parent.child_by_field_name("value").map(unwrapped).filter(is_place);
            Some(Accessed { store: Some(node), ..Accessed::reading(source) })
        }
        ("field_identifier", "field_initializer" | "field_declaration") => {
            Some(Accessed { store: Some(node), ..Accessed::reading([]) })
        }
        ("identifier" | "this", _) => Some(base_and_elements(node)),
        _ => None,
    }
}

/// Returns the accesses of a subscript expression, whose operands may be names.
fn element(subscript: Node<'_>) -> Accessed<'_> {
    let base = subscript.child_by_field_name("argument").map(unwrapped).filter(is_name);
    let indices = subscript.child_by_field_name("indices").or_else(|| subscript.child_by_field_name("index"));
    let index =
        indices.and_then(|indices| if is_name(&indices) { Some(indices) } else { indices.named_child(0) });
    let index = index.map(unwrapped).filter(is_name);
    evaluated(base.into_iter().chain(index).chain([subscript]))
}

/// Returns places of which the last is what an expression is for. It is read last, unless only its address is used.
fn evaluated<'tree>(places: impl IntoIterator<Item = Node<'tree>>) -> Accessed<'tree> {
    let mut accessed = Accessed::ending_with(places);
    if accessed.loads.last().is_some_and(|last| !is_read(*last)) {
        accessed.loads.pop();
        accessed.ends_with_last = accessed.loads.last().is_some_and(|last| !is_name(last));
    }
    accessed
}

/// Returns whether the value of a place is read where the place has its column: not only its address is used, and it is
/// not changed, which has the column of an operator.
fn is_read(place: Node<'_>) -> bool {
    let Some(parent) = place.parent() else { return true };
    match parent.kind() {
        "parenthesized_expression" => is_read(parent),
        "pointer_expression" => parent.child(0).is_none_or(|operator| operator.kind() != "&"),
        "field_expression" => parent.child_by_field_name("operator").is_none_or(|op| op.kind() != "."),
        "assignment_expression" => !is_field(place, "left"),
        "update_expression" | "sizeof_expression" => false,
        _ => true,
    }
}

/// Returns an expression and the elements of which it is the base: they have the same column in clang's line tables.
fn base_and_elements(base: Node<'_>) -> Accessed<'_> {
    let store = base.parent().filter(|parent| parent.kind() == "init_declarator").map(|_| base);
    Accessed { store, ..evaluated(std::iter::successors(Some(base), |node| element_of(*node))) }
}

/// Returns the subscript expression of which a node is the base.
fn element_of(base: Node<'_>) -> Option<Node<'_>> {
    base.parent().filter(|parent| parent.kind() == "subscript_expression" && is_field(base, "argument"))
}

/// Appends the places that the evaluation of an expression reads, in their order.
fn loads_of<'tree>(node: Node<'tree>, loads: &mut Vec<Node<'tree>>) {
    let child = |name| node.child_by_field_name(name);
    match node.kind() {
        "identifier" | "this" => loads.push(node),
        "field_expression" => {
            let is_pointer = child("operator").is_some_and(|operator| operator.kind() == "->");
            if let Some(base) = child("argument").map(unwrapped) {
                loads_of(base, loads);
                // The address of a structure's member is computed without a read of the structure.
                if !is_pointer && loads.last() == Some(&base) {
                    loads.pop();
                }
            }
            loads.push(node);
        }
        "pointer_expression" => {
            let operand = child("argument").map(unwrapped);
            let is_address = child("operator").is_some_and(|operator| operator.kind() == "&");
            operand.into_iter().for_each(|operand| loads_of(operand, loads));
            if is_address {
                loads.pop();
            } else {
                loads.push(node);
            }
        }
        // The operands of sizeof are not evaluated.
        "sizeof_expression" | "alignof_expression" | "lambda_expression" => {}
        "call_expression" => child("arguments").into_iter().for_each(|arguments| loads_of(arguments, loads)),
        kind => {
            let mut cursor = node.walk();
            for operand in node.named_children(&mut cursor) {
                loads_of(operand, loads);
            }
            if kind == "subscript_expression" {
                loads.push(node);
            }
        }
    }
}

fn is_name(node: &Node<'_>) -> bool {
    matches!(node.kind(), "identifier" | "this")
}

fn is_place(node: &Node<'_>) -> bool {
    is_name(node) || matches!(node.kind(), "field_expression" | "subscript_expression" | "pointer_expression")
}

/// Returns the part of a place whose size debug information can tell.
pub(crate) fn part_of(node: Node<'_>) -> Option<(Node<'_>, bool)> {
    match node.kind() {
        "identifier" | "field_identifier" => Some((node, false)),
        "field_expression" => node.child_by_field_name("field").map(|field| (field, false)),
        "subscript_expression" | "pointer_expression" => {
            let (base, inside) = part_of(unwrapped(node.child_by_field_name("argument")?))?;
            (!inside).then_some((base, true))
        }
        _ => None,
    }
}

/// Returns the call at this place, with the object on which it acts: the receiver of a method, or what the first argument
/// points to.
pub(crate) fn call_at(node: Node<'_>) -> Option<Called<'_>> {
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
                    ("init_declarator", ")" | "}") => guarded(call, parent, call.parent()?),
                    ("function_declarator", ")") if is_local(call) => guarded(call, parent, call.parent()?),
                    _ => None,
                };
            }
            // The lock of a guard: `std::lock_guard<std::mutex> guard(mutex)`.
            "init_declarator" if is_field(at, "declarator") => {
                return guarded(parent, parent.child_by_field_name("value")?, parent.parent()?);
            }
            "function_declarator" if is_field(at, "declarator") && is_local(parent) => {
                return guarded(parent, parent.child_by_field_name("parameters")?, parent.parent()?);
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

fn receiver_of_call(call: Node<'_>) -> Option<Called<'_>> {
    let function = call.child_by_field_name("function")?;
    if function.kind() == "field_expression" {
        let receiver = function.child_by_field_name("argument").map(unwrapped);
        return Some(Called { call, receiver, function: function.child_by_field_name("field") });
    }
    let receiver = call.child_by_field_name("arguments").and_then(|all| all.named_child(0)).and_then(pointee);
    let name = function.child_by_field_name("name").unwrap_or(function);
    Some(Called { call, receiver, function: Some(name) })
}

/// Returns the constructor that a declaration calls, and its only argument.
fn guarded<'tree>(
    call: Node<'tree>,
    arguments: Node<'tree>,
    declaration: Node<'tree>,
) -> Option<Called<'tree>> {
    let kind = declaration.child_by_field_name("type")?;
    let function = std::iter::successors(Some(kind), |node| node.child_by_field_name("name")).last();
    Some(Called { call, receiver: only_argument(arguments), function })
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
        "pointer_expression" if argument.child(0).is_some_and(|operator| operator.kind() == "&") => {
            argument.child_by_field_name("argument").map(unwrapped)
        }
        "cast_expression" => argument.child_by_field_name("value").and_then(pointee),
        "identifier" | "field_expression" | "subscript_expression" | "pointer_expression" => Some(argument),
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
