//! The types of a module's variables, from its debug information: which member or element is at an offset, and how
//! large members of a name are.

use crate::image::Reader;
use gimli::{
    AttributeValue, DW_AT_byte_size, DW_AT_count, DW_AT_data_member_location, DW_AT_declaration,
    DW_AT_location, DW_AT_name, DW_AT_specification, DW_AT_type, DW_AT_upper_bound, Operation, UnitRef,
    constants as dw,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The parts of types that library code hides from the user: namespaces of C++'s and crates of Rust's libraries.
const LIBRARIES: [&str; 17] = [
    "std",
    "core",
    "alloc",
    "__gnu_cxx",
    "__cxxabiv1",
    "hashbrown",
    "lock_api",
    "parking_lot",
    "parking_lot_core",
    "crossbeam_channel",
    "crossbeam_utils",
    "crossbeam_epoch",
    "crossbeam_deque",
    "crossbeam_queue",
    "once_cell",
    "tokio",
    "rayon_core",
];

/// Types of the C library that are one object to the user.
const OBJECTS: [&str; 12] = [
    "pthread_mutex_t",
    "pthread_cond_t",
    "pthread_rwlock_t",
    "pthread_barrier_t",
    "pthread_once_t",
    "pthread_spinlock_t",
    "sem_t",
    "mtx_t",
    "cnd_t",
    "once_flag",
    "FILE",
    "atomic_flag",
];

/// Nesting beyond which debug information is not followed.
const MAX_DEPTH: u32 = 32;

/// The offset of an entry in the debug information.
type TypeAt = usize;

/// The types of a module, and its global variables.
#[derive(Debug, Default)]
pub(crate) struct Types {
    types: HashMap<TypeAt, Type>,
    /// Global and static variables by address.
    variables: BTreeMap<u64, TypeAt>,
    /// The types of all members and variables of each name.
    named: HashMap<String, HashSet<TypeAt>>,
}

#[derive(Debug)]
struct Type {
    name: Option<String>,
    size: Option<u64>,
    /// True if it is defined by a library.
    of_library: bool,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Scalar,
    /// A structure. `overlaps`: members share bytes, as in unions and enums.
    Structure {
        members: Vec<Member>,
        overlaps: bool,
    },
    /// `counts`: the number of elements in each dimension.
    Array {
        element: TypeAt,
        counts: Vec<Option<u64>>,
    },
    Pointer(Option<TypeAt>),
    /// A typedef or a qualified type.
    Alias(TypeAt),
}

#[derive(Debug)]
struct Member {
    /// `None` for a base class or an anonymous structure.
    name: Option<String>,
    offset: u64,
    kind: TypeAt,
}

/// The part of an expression whose size can be compared with an access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizedPart<'a> {
    /// A member or variable of this name.
    Named(&'a str),
    /// What a pointer or array of this name points to or consists of.
    Inside(&'a str),
}

impl Types {
    /// Reads all types.
    pub(crate) fn read(dwarf: &gimli::Dwarf<Reader>) -> Self {
        let mut types = Self::default();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            types.read_unit(unit.unit_ref(dwarf));
        }
        types
    }

    fn read_unit(&mut self, unit: UnitRef<'_, Reader>) {
        let mut entries = unit.entries();
        // The namespaces, types and functions around an entry.
        let mut outer: Vec<Scope> = Vec::new();
        // Variables that are defined apart from their declaration.
        let mut declared: HashMap<TypeAt, (String, TypeAt)> = HashMap::new();
        while let Ok(Some(entry)) = entries.next_dfs() {
            let depth = entry.depth();
            while outer.last().is_some_and(|scope| scope.depth >= depth) {
                outer.pop();
            }
            let Some(at) = entry.offset().to_debug_info_offset(&unit.header) else { continue };
            let at = at.0;
            let name = entry
                .attr_value(DW_AT_name)
                .and_then(|name| unit.attr_string(name).ok())
                .map(|name| String::from_utf8_lossy(name.bytes()).into_owned());
            let kind = entry.attr_value(DW_AT_type).and_then(|kind| reference(&kind, unit));
            let number = |attribute| entry.attr_value(attribute).and_then(|value| value.udata_value());
            match entry.tag() {
                dw::DW_TAG_namespace => outer.push(Scope { depth, at, name }),
                dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                    let overlaps = entry.tag() == dw::DW_TAG_union_type;
                    let is_declaration = entry.attr_value(DW_AT_declaration).is_some();
                    if !is_declaration {
                        self.types.insert(
                            at,
                            Type {
                                name: name.clone(),
                                size: number(DW_AT_byte_size),
                                of_library: is_of_library(&outer),
                                shape: Shape::Structure { members: Vec::new(), overlaps },
                            },
                        );
                    }
                    outer.push(Scope { depth, at, name });
                }
                dw::DW_TAG_variant_part => {
                    if let Some(Type { shape: Shape::Structure { overlaps, .. }, .. }) =
                        outer.last().and_then(|scope| self.types.get_mut(&scope.at))
                    {
                        *overlaps = true;
                    }
                }
                dw::DW_TAG_member | dw::DW_TAG_inheritance => {
                    let Some(kind) = kind else { continue };
                    // A static member has no place in the structure.
                    let is_static = entry.attr_value(DW_AT_declaration).is_some();
                    if is_static {
                        declared.extend(name.map(|name| (at, (name, kind))));
                        continue;
                    }
                    if let Some(name) = &name {
                        self.named.entry(name.clone()).or_default().insert(kind);
                    }
                    let is_member = entry.tag() == dw::DW_TAG_member;
                    let name = name.filter(|_| is_member);
                    let offset = number(DW_AT_data_member_location).unwrap_or(0);
                    if let Some(Type { shape: Shape::Structure { members, .. }, .. }) =
                        outer.last().and_then(|scope| self.types.get_mut(&scope.at))
                    {
                        members.push(Member { name, offset, kind });
                    }
                }
                dw::DW_TAG_array_type => {
                    if let Some(element) = kind {
                        let shape = Shape::Array { element, counts: Vec::new() };
                        self.add(at, None, number(DW_AT_byte_size), shape);
                        outer.push(Scope { depth, at, name: None });
                    }
                }
                dw::DW_TAG_subrange_type => {
                    let elements = number(DW_AT_count).or_else(|| Some(number(DW_AT_upper_bound)? + 1));
                    if let Some(Type { shape: Shape::Array { counts, .. }, .. }) =
                        outer.last().and_then(|scope| self.types.get_mut(&scope.at))
                    {
                        counts.push(elements);
                    }
                }
                dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                    self.add(at, None, Some(8), Shape::Pointer(kind));
                }
                dw::DW_TAG_typedef
                | dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type => {
                    if let Some(kind) = kind {
                        self.add(at, name, None, Shape::Alias(kind));
                    }
                }
                dw::DW_TAG_base_type | dw::DW_TAG_enumeration_type | dw::DW_TAG_unspecified_type => {
                    self.add(at, name, number(DW_AT_byte_size), Shape::Scalar);
                }
                dw::DW_TAG_variable => {
                    let specified = entry.attr_value(DW_AT_specification).and_then(|of| reference(&of, unit));
                    let specified = specified.and_then(|of| declared.get(&of).cloned());
                    let (name, kind) = match specified {
                        Some((name, kind)) => (Some(name), Some(kind)),
                        None => (name, kind),
                    };
                    let (Some(name), Some(kind)) = (name, kind) else { continue };
                    if entry.attr_value(DW_AT_declaration).is_some() {
                        declared.insert(at, (name, kind));
                        continue;
                    }
                    let Some(address) = entry.attr_value(DW_AT_location).and_then(|l| address(l, unit))
                    else {
                        // A local variable: members of its name may be accessed where it is.
                        self.named.entry(name).or_default().insert(kind);
                        continue;
                    };
                    self.variables.insert(address, kind);
                    self.named.entry(name).or_default().insert(kind);
                }
                dw::DW_TAG_formal_parameter => {
                    if let (Some(name), Some(kind)) = (name, kind) {
                        self.named.entry(name).or_default().insert(kind);
                    }
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, at: TypeAt, name: Option<String>, size: Option<u64>, shape: Shape) {
        self.types.insert(at, Type { name, size, of_library: false, shape });
    }

    /// Returns the member or element at an offset of the global variable that begins at an address, like `.done` or
    /// `[3].lock`; empty for the variable itself. `None` if its type is unknown, or the place cannot be named. `len` is
    /// the number of bytes that are accessed; with 0 it is the innermost object there.
    pub(crate) fn path(&self, variable: u64, offset: u64, len: u64) -> Option<String> {
        let mut path = Path { text: String::new(), hidden: None, len };
        let leaf = self.descend(*self.variables.get(&variable)?, offset, &mut path, 0)?;
        if leaf != 0 {
            // In the middle of a value, such as the second half of a pair.
            return None;
        }
        match path.hidden {
            Some(hidden) if path.text.is_empty() && offset > 0 => Some(format!(".{hidden}")),
            _ => Some(path.text),
        }
    }

    /// Appends the path to the innermost object at an offset, and returns the offset in it.
    fn descend<'a>(&'a self, at: TypeAt, offset: u64, path: &mut Path<'a>, depth: u32) -> Option<u64> {
        let kind = self.types.get(&at).filter(|_| depth < MAX_DEPTH)?;
        match &kind.shape {
            Shape::Scalar | Shape::Pointer(_) => Some(offset),
            Shape::Alias(of) => {
                let is_object = kind.name.as_deref().is_some_and(|name| OBJECTS.contains(&name));
                if is_object { Some(0) } else { self.descend(*of, offset, path, depth + 1) }
            }
            Shape::Array { element, counts } => {
                let size = self.size(*element, 0).filter(|&size| size > 0)?;
                if path.len > size && offset == 0 {
                    return Some(0);
                }
                let mut rest = offset / size;
                let mut indices = Vec::new();
                for count in counts.iter().skip(1).rev() {
                    let count = count.filter(|&count| count > 0)?;
                    indices.push(rest % count);
                    rest /= count;
                }
                indices.push(rest);
                indices.iter().rev().for_each(|index| path.text.push_str(&format!("[{index}]")));
                self.descend(*element, offset % size, path, depth + 1)
            }
            Shape::Structure { overlaps: true, .. } => Some(offset),
            Shape::Structure { members, .. } => {
                let contains = |member: &&Member| {
                    let size = self.size(member.kind, 0).unwrap_or(0);
                    member.offset <= offset && offset - member.offset < size
                };
                // An empty base has the size of one byte and the offset of another member.
                let Some(member) = members
                    .iter()
                    .filter(contains)
                    .max_by_key(|member| (self.size(member.kind, 0) > Some(1), member.name.is_some()))
                else {
                    return Some(offset);
                };
                let size = self.size(member.kind, 0).unwrap_or(0);
                if offset == member.offset && path.len > size {
                    return self.several(kind, members, offset, path);
                }
                match &member.name {
                    Some(name) if !kind.of_library => {
                        path.text.push('.');
                        path.text.push_str(name);
                    }
                    Some(name) if path.hidden.is_none() => path.hidden = Some(name),
                    _ => {}
                }
                self.descend(member.kind, offset - member.offset, path, depth + 1)
            }
        }
    }

    /// Appends the members that an access to several of them covers; none if that is the whole structure.
    fn several(&self, kind: &Type, members: &[Member], offset: u64, path: &mut Path<'_>) -> Option<u64> {
        let end = offset.checked_add(path.len)?;
        let is_covered = |member: &&Member| {
            let size = self.size(member.kind, 0).unwrap_or(0);
            size > 0 && offset <= member.offset && member.offset + size <= end
        };
        let covered: Vec<&Member> = members.iter().filter(is_covered).collect();
        if offset == 0 && covered.len() == members.len() {
            return Some(0);
        }
        if !kind.of_library {
            let names: Option<Vec<&str>> = covered.iter().map(|member| member.name.as_deref()).collect();
            path.text.push_str(&format!(".{{{}}}", names?.join(", ")));
        }
        Some(0)
    }

    fn size(&self, at: TypeAt, depth: u32) -> Option<u64> {
        let kind = self.types.get(&at).filter(|_| depth < MAX_DEPTH)?;
        kind.size.or_else(|| match kind.shape {
            Shape::Alias(of) => self.size(of, depth + 1),
            Shape::Array { element, ref counts } => {
                let element = self.size(element, depth + 1)?;
                counts.iter().try_fold(element, |size, count| size.checked_mul((*count)?))
            }
            _ => None,
        })
    }

    /// Returns the sizes that this part of an expression can have; `None` if nothing is known of it.
    pub(crate) fn sizes(&self, part: &SizedPart<'_>) -> Option<Vec<u64>> {
        let (SizedPart::Named(name) | SizedPart::Inside(name)) = *part;
        let kinds = self.named.get(name)?;
        let mut sizes = Vec::new();
        for &kind in kinds {
            let sized = match part {
                SizedPart::Named(_) => Some(kind),
                SizedPart::Inside(_) => match self.inside(kind, 0) {
                    Inside::Of(inner) => Some(inner),
                    Inside::Nothing => continue,
                    Inside::Unknown => None,
                },
            };
            sizes.push(self.size(sized?, 0)?);
        }
        sizes.sort_unstable();
        sizes.dedup();
        Some(sizes)
    }

    /// Returns whether a name is only that of arrays, which are accessed without a load of their address.
    pub(crate) fn is_array(&self, name: &str) -> Option<bool> {
        let kinds = self.named.get(name)?;
        let is_array = |&at: &TypeAt| {
            let mut at = at;
            for _ in 0..MAX_DEPTH {
                match self.types.get(&at).map(|kind| &kind.shape) {
                    Some(Shape::Alias(of)) => at = *of,
                    Some(Shape::Array { .. }) => return true,
                    _ => return false,
                }
            }
            false
        };
        let arrays = kinds.iter().filter(|kind| is_array(kind)).count();
        match arrays {
            0 => Some(false),
            all if all == kinds.len() => Some(true),
            _ => None,
        }
    }

    fn inside(&self, at: TypeAt, depth: u32) -> Inside {
        match self.types.get(&at).map(|kind| &kind.shape) {
            Some(Shape::Alias(of)) if depth < MAX_DEPTH => self.inside(*of, depth + 1),
            Some(Shape::Array { element, .. } | Shape::Pointer(Some(element))) => Inside::Of(*element),
            Some(Shape::Scalar) => Inside::Nothing,
            _ => Inside::Unknown,
        }
    }
}

/// A path under construction.
struct Path<'a> {
    text: String,
    /// The name of the first member that belongs to a library.
    hidden: Option<&'a str>,
    /// The number of bytes that are accessed; 0 if that is unknown.
    len: u64,
}

/// What is behind a pointer or in an array.
enum Inside {
    Of(TypeAt),
    /// It is neither.
    Nothing,
    Unknown,
}

/// A namespace, type or array that contains entries.
struct Scope {
    depth: isize,
    at: TypeAt,
    name: Option<String>,
}

/// Returns whether entries in these scopes belong to a library.
fn is_of_library(outer: &[Scope]) -> bool {
    let first = outer.first().and_then(|scope| scope.name.as_deref());
    first.is_some_and(|name| LIBRARIES.contains(&name))
}

fn reference(value: &AttributeValue<Reader>, unit: UnitRef<'_, Reader>) -> Option<TypeAt> {
    match value {
        AttributeValue::UnitRef(offset) => Some(offset.to_debug_info_offset(&unit.header)?.0),
        AttributeValue::DebugInfoRef(offset) => Some(offset.0),
        _ => None,
    }
}

/// Returns the address of a variable that is always at the same one.
fn address(location: AttributeValue<Reader>, unit: UnitRef<'_, Reader>) -> Option<u64> {
    let AttributeValue::Exprloc(expression) = location else { return None };
    let mut operations = expression.operations(unit.encoding());
    let first = operations.next().ok()??;
    if operations.next().ok()?.is_some() {
        return None;
    }
    match first {
        Operation::Address { address } => Some(address),
        Operation::AddressIndex { index } => unit.address(index).ok(),
        _ => None,
    }
}
