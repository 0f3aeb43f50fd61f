//! The lines where functions are declared.

use crate::image::Reader;
use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_decl_line, DW_AT_specification, UnitRef, constants as dw,
};

type Entry = gimli::DebuggingInformationEntry<Reader>;

/// References that are followed from an entry to the one with the line.
const MAX_REFERENCES: u32 = 4;

/// Returns the line where each function at an address is declared, innermost first: several if calls were inlined.
pub(crate) fn declaration_lines(unit: UnitRef<'_, Reader>, address: u64) -> Vec<Option<u32>> {
    let mut lines = Vec::new();
    let mut entries = unit.entries();
    // The depth of an entry whose descendants are skipped.
    let mut outside: Option<isize> = None;
    while let Ok(Some(entry)) = entries.next_dfs() {
        if outside.is_some_and(|depth| entry.depth() > depth) {
            continue;
        }
        outside = None;
        let tag = entry.tag();
        let is_function = matches!(tag, dw::DW_TAG_subprogram | dw::DW_TAG_inlined_subroutine);
        if !is_function && tag != dw::DW_TAG_lexical_block {
            continue;
        }
        if !contains(unit, entry, address) {
            outside = Some(entry.depth());
        } else if is_function {
            lines.push(line_of(unit, entry, 0));
        }
    }
    lines.reverse();
    lines
}

fn contains(unit: UnitRef<'_, Reader>, entry: &Entry, address: u64) -> bool {
    let Ok(mut ranges) = unit.die_ranges(entry) else { return false };
    while let Ok(Some(range)) = ranges.next() {
        if (range.begin..range.end).contains(&address) {
            return true;
        }
    }
    false
}

fn line_of(unit: UnitRef<'_, Reader>, entry: &Entry, references: u32) -> Option<u32> {
    let line = entry.attr_value(DW_AT_decl_line).and_then(|line| line.udata_value());
    if let Some(line) = line {
        return u32::try_from(line).ok();
    }
    let reference = entry.attr_value(DW_AT_abstract_origin).or_else(|| entry.attr_value(DW_AT_specification));
    match reference? {
        AttributeValue::UnitRef(origin) if references < MAX_REFERENCES => {
            line_of(unit, &unit.entry(origin).ok()?, references + 1)
        }
        _ => None,
    }
}
