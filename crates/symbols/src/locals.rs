//! Finds the location of a local variable at a code address.

use crate::{
    image::{Image, Reader},
    unwind::Cfi,
};
use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_byte_size, DW_AT_const_value, DW_AT_count, DW_AT_frame_base,
    DW_AT_location, DW_AT_name, DW_AT_type, DW_AT_upper_bound, Expression, Operation, Register, UnitOffset,
    UnitRef, constants as dw,
};
use std::path::Path;

/// The location of a variable and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalVariable {
    pub location: VariableLocation,
    /// The number of bytes.
    pub size: u64,
}

/// The location of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableLocation {
    /// On the stack: the offset from the frame address, which is the stack pointer before the call.
    Frame(i64),
    /// In the register with this DWARF number.
    Register(u16),
    /// At an address of the file.
    Static(u64),
}

/// The reason why a variable has no known location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLocation {
    /// No variable of this name is visible from there.
    Unknown,
    /// The compiler does not keep it anywhere at this place.
    Nowhere,
    /// It is a constant.
    Constant,
    /// Its location must be computed.
    Computed,
}

/// Returns the variable of this name that is visible at an address of the file, innermost first.
///
/// # Errors If there is none, or it has no location.
pub fn local(path: &Path, address: u64, name: &str) -> Result<LocalVariable, NoLocation> {
    let image = Image::open(path).ok_or(NoLocation::Unknown)?;
    let dwarf = image.dwarf().ok_or(NoLocation::Unknown)?;
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        let unit = unit.unit_ref(&dwarf);
        if !contains(unit.unit_ranges(), address) {
            continue;
        }
        let scope = Scope { unit, address, name, path };
        if let Some(found) = scope.find() {
            return found;
        }
    }
    Err(NoLocation::Unknown)
}

fn contains(ranges: gimli::Result<gimli::RangeIter<Reader>>, address: u64) -> bool {
    let Ok(mut ranges) = ranges else { return false };
    while let Ok(Some(range)) = ranges.next() {
        if (range.begin..range.end).contains(&address) {
            return true;
        }
    }
    false
}

type Entry = gimli::DebuggingInformationEntry<Reader>;

/// The names visible from an address.
struct Scope<'a> {
    unit: UnitRef<'a, Reader>,
    address: u64,
    name: &'a str,
    path: &'a Path,
}

impl Scope<'_> {
    fn find(&self) -> Option<Result<LocalVariable, NoLocation>> {
        let mut entries = self.unit.entries();
        let mut found = None;
        let mut base = None;
        // The depth of an entry whose descendants are skipped.
        let mut outside: Option<isize> = None;
        while let Ok(Some(entry)) = entries.next_dfs() {
            if outside.is_some_and(|depth| entry.depth() > depth) {
                continue;
            }
            outside = None;
            match entry.tag() {
                tag @ (dw::DW_TAG_subprogram | dw::DW_TAG_inlined_subroutine | dw::DW_TAG_lexical_block) => {
                    if !contains(self.unit.die_ranges(entry), self.address) {
                        outside = Some(entry.depth());
                    } else if tag == dw::DW_TAG_subprogram {
                        base = entry.attr_value(DW_AT_frame_base);
                    }
                }
                // Inner scopes come later.
                dw::DW_TAG_variable | dw::DW_TAG_formal_parameter
                    if entry.depth() > 1 && self.has_name(entry) =>
                {
                    let size = self.inherited(entry, DW_AT_type).and_then(|kind| self.size(&kind, 0));
                    let location = self.location(entry, base.as_ref());
                    found =
                        Some(location.map(|location| LocalVariable { location, size: size.unwrap_or(8) }));
                }
                _ => {}
            }
        }
        found
    }

    /// Returns an attribute of an entry or of its abstract origin.
    fn inherited(&self, entry: &Entry, attribute: gimli::DwAt) -> Option<AttributeValue<Reader>> {
        entry.attr_value(attribute).or_else(|| {
            let AttributeValue::UnitRef(origin) = entry.attr_value(DW_AT_abstract_origin)? else {
                return None;
            };
            self.unit.entry(origin).ok()?.attr_value(attribute)
        })
    }

    fn has_name(&self, entry: &Entry) -> bool {
        let name = self.inherited(entry, DW_AT_name).and_then(|name| self.unit.attr_string(name).ok());
        name.is_some_and(|name| name.bytes() == self.name.as_bytes())
    }

    fn location(
        &self,
        entry: &Entry,
        base: Option<&AttributeValue<Reader>>,
    ) -> Result<VariableLocation, NoLocation> {
        let Some(location) = entry.attr_value(DW_AT_location) else {
            let constant = self.inherited(entry, DW_AT_const_value).is_some();
            return Err(if constant { NoLocation::Constant } else { NoLocation::Nowhere });
        };
        let expression = self.expression(location).ok_or(NoLocation::Nowhere)?;
        match self.only_operation(expression).ok_or(NoLocation::Computed)? {
            Operation::Register { register } => Ok(VariableLocation::Register(register.0)),
            Operation::RegisterOffset { register, offset, .. } => self.by_register(register, offset),
            Operation::Address { address } => Ok(VariableLocation::Static(address)),
            Operation::FrameOffset { offset } => {
                let base = base.and_then(|base| self.expression(base.clone())).ok_or(NoLocation::Computed)?;
                match self.only_operation(base).ok_or(NoLocation::Computed)? {
                    Operation::CallFrameCFA => Ok(VariableLocation::Frame(offset)),
                    Operation::Register { register } => self.by_register(register, offset),
                    Operation::RegisterOffset { register, offset: more, .. } => {
                        self.by_register(register, offset + more)
                    }
                    _ => Err(NoLocation::Computed),
                }
            }
            _ => Err(NoLocation::Computed),
        }
    }

    /// Returns the expression that is valid at the address.
    fn expression(&self, value: AttributeValue<Reader>) -> Option<Expression<Reader>> {
        if let AttributeValue::Exprloc(expression) = value {
            return Some(expression);
        }
        let mut list = self.unit.attr_locations(value).ok()??;
        while let Ok(Some(entry)) = list.next() {
            if (entry.range.begin..entry.range.end).contains(&self.address) {
                return Some(entry.data);
            }
        }
        None
    }

    fn only_operation(&self, expression: Expression<Reader>) -> Option<Operation<Reader>> {
        let mut operations = expression.operations(self.unit.encoding());
        let first = operations.next().ok()??;
        operations.next().ok()?.is_none().then_some(first)
    }

    /// Converts an offset from a register to an offset from the frame address.
    fn by_register(&self, register: Register, offset: i64) -> Result<VariableLocation, NoLocation> {
        let cfi = Cfi::open(self.path).ok_or(NoLocation::Computed)?;
        match cfi.frame_address(self.address) {
            Some((known, distance)) if known == register => Ok(VariableLocation::Frame(offset - distance)),
            _ => Err(NoLocation::Computed),
        }
    }

    /// Returns the size of a type in bytes.
    fn size(&self, kind: &AttributeValue<Reader>, depth: u32) -> Option<u64> {
        const MAX_DEPTH: u32 = 16;
        let AttributeValue::UnitRef(offset) = *kind else { return None };
        let entry = self.unit.entry(offset).ok().filter(|_| depth < MAX_DEPTH)?;
        if let Some(size) = entry.attr_value(DW_AT_byte_size).and_then(|size| size.udata_value()) {
            return Some(size);
        }
        if entry.tag() == dw::DW_TAG_pointer_type {
            return Some(8);
        }
        let inner = self.size(&entry.attr_value(DW_AT_type)?, depth + 1)?;
        if entry.tag() == dw::DW_TAG_array_type {
            inner.checked_mul(self.count(offset)?)
        } else {
            Some(inner)
        }
    }

    /// Returns the number of elements of an array.
    fn count(&self, array: UnitOffset) -> Option<u64> {
        let mut tree = self.unit.entries_tree(Some(array)).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut count = 1_u64;
        while let Ok(Some(child)) = children.next() {
            let number = |name| child.entry().attr_value(name).and_then(|value| value.udata_value());
            let of_this = number(DW_AT_count).or_else(|| number(DW_AT_upper_bound).map(|last| last + 1))?;
            count = count.checked_mul(of_this)?;
        }
        Some(count)
    }
}
