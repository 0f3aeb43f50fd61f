//! The calls by which instrumented code reports its memory accesses, found in the machine code.

use crate::ModuleCode;
use std::{collections::HashMap, ops::Range};

/// The accesses that a call reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportedAccess {
    /// A read of this many bytes; 0 if the call says how many.
    Read(u64),
    /// A write of this many bytes; 0 if the call says how many.
    Write(u64),
    /// A read of this many bytes that is followed by a write to the same place.
    Update(u64),
    /// An atomic operation on this many bytes.
    Atomic(u64),
}

/// A call that reports an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessCall {
    /// The offset of the last byte of the call instruction: the site of its event.
    pub site: u64,
    /// The accesses that it reports.
    pub access: ReportedAccess,
}

/// Finds such calls in a module's code.
#[derive(Debug)]
pub(crate) struct AccessCallFinder {
    code: ModuleCode,
    /// By the address of a stub, or of the word that holds a function's address.
    stubs: HashMap<u64, ReportedAccess>,
    slots: HashMap<u64, ReportedAccess>,
}

impl AccessCallFinder {
    pub(crate) fn new(code: ModuleCode) -> Self {
        let reported = |(slot, name): &(u64, String)| Some((*slot, reported(name)?));
        let slots: HashMap<u64, ReportedAccess> = code.slots.iter().filter_map(reported).collect();
        let mut finder = Self { code, stubs: HashMap::new(), slots };
        let stubs: Vec<(u64, ReportedAccess)> =
            finder.code.stubs.iter().flat_map(|section| finder.stubs_in(section.clone())).collect();
        finder.stubs = stubs.into_iter().collect();
        finder
    }

    /// Returns the stubs in a section, which consist of a jump and perhaps a landing mark before it.
    fn stubs_in(&self, section: Range<u64>) -> impl Iterator<Item = (u64, ReportedAccess)> {
        const LANDING_MARK: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        const JUMP: [u8; 2] = [0xff, 0x25];
        let mut found = Vec::new();
        let bytes = self.bytes(section.clone());
        for at in (0..bytes.len()).step_by(8) {
            let mut code = &bytes[at..];
            let start = section.start + at as u64;
            code = code.strip_prefix(&LANDING_MARK).unwrap_or(code);
            code = code.strip_prefix(&[0xf2]).unwrap_or(code);
            let Some(target) = code.strip_prefix(&JUMP).and_then(|rest| rest.first_chunk()) else { continue };
            let end = section.start + (bytes.len() - code.len()) as u64 + 6;
            let slot = end.wrapping_add_signed(i64::from(i32::from_le_bytes(*target)));
            found.extend(self.slots.get(&slot).map(|&access| (start, access)));
        }
        found.into_iter()
    }

    /// Returns the calls in this range of addresses, in their order.
    pub(crate) fn calls(&self, range: Range<u64>) -> Vec<AccessCall> {
        let bytes = self.bytes(range.clone());
        let mut calls = Vec::new();
        for at in 0..bytes.len() {
            let target = |rest: &[u8], length: u64| {
                let distance = i32::from_le_bytes(*rest.first_chunk()?);
                let end = range.start + at as u64 + length;
                Some((end, end.wrapping_add_signed(i64::from(distance))))
            };
            // A direct call of a stub, or a call through the word itself.
            let found = match &bytes[at..] {
                [0xe8, rest @ ..] => target(rest, 5).map(|(end, stub)| (end, self.stubs.get(&stub))),
                [0xff, 0x15, rest @ ..] => target(rest, 6).map(|(end, slot)| (end, self.slots.get(&slot))),
                _ => None,
            };
            if let Some((end, Some(&access))) = found {
                calls.push(AccessCall { site: end - 1, access });
            }
        }
        calls
    }

    /// Returns the functions of the module.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.code.functions.iter().map(|(range, _)| range.clone())
    }

    fn bytes(&self, range: Range<u64>) -> &[u8] {
        let segment = self.code.segments.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(range.start.checked_sub(*start)?).ok()?;
            let to = usize::try_from(range.end.checked_sub(*start)?).ok()?;
            bytes.get(from..to)
        });
        segment.unwrap_or_default()
    }
}

/// Returns the accesses that a function of the instrumentation reports.
fn reported(name: &str) -> Option<ReportedAccess> {
    let name = name.strip_prefix("__tsan_")?;
    if let Some(atomic) = name.strip_prefix("atomic") {
        let (bits, _) = atomic.split_once('_')?;
        return Some(ReportedAccess::Atomic(bits.parse::<u64>().ok()? / 8));
    }
    match name {
        "vptr_read" => return Some(ReportedAccess::Read(8)),
        "vptr_update" => return Some(ReportedAccess::Write(8)),
        "read_range" => return Some(ReportedAccess::Read(0)),
        "write_range" => return Some(ReportedAccess::Write(0)),
        _ => {}
    }
    let name = name.strip_prefix("unaligned_").unwrap_or(name);
    let name = name.strip_prefix("volatile_").unwrap_or(name);
    let size = |text: &str| text.parse::<u64>().ok();
    if let Some(update) = name.strip_prefix("read_write") {
        size(update).map(ReportedAccess::Update)
    } else if let Some(read) = name.strip_prefix("read") {
        size(read).map(ReportedAccess::Read)
    } else {
        name.strip_prefix("write").and_then(size).map(ReportedAccess::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instrumentation_functions_are_recognised_by_name() {
        use ReportedAccess::{Atomic, Read, Update, Write};
        for (name, access) in [
            ("__tsan_read4", Some(Read(4))),
            ("__tsan_unaligned_volatile_write8", Some(Write(8))),
            ("__tsan_read_write2", Some(Update(2))),
            ("__tsan_read_range", Some(Read(0))),
            ("__tsan_vptr_update", Some(Write(8))),
            ("__tsan_atomic32_fetch_add", Some(Atomic(4))),
            ("__tsan_atomic_thread_fence", None),
            ("__tsan_init", None),
            ("read4", None),
        ] {
            assert_eq!(reported(name), access, "{name}");
        }
    }

    #[test]
    fn calls_of_stubs_and_through_slots_are_found() {
        let mut bytes = vec![0x90; 0x60];
        let mut put = |at: usize, code: &[u8], distance: i32| {
            bytes[at..at + code.len()].copy_from_slice(code);
            bytes[at + code.len()..at + code.len() + 4].copy_from_slice(&distance.to_le_bytes());
        };
        // The stub at 0x1000 jumps to the address in the word at 0x3000.
        put(0, &[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25], 0x3000 - 0x100a);
        put(0x20, &[0xe8], 0x1000 - 0x1025);
        put(0x30, &[0xff, 0x15], 0x3008 - 0x1036);
        put(0x40, &[0xe8], 0x2000 - 0x1045);
        let slot = |at, name: &str| (at, name.to_owned());
        let code = ModuleCode {
            segments: vec![(0x1000, bytes)],
            stubs: std::iter::once(0x1000..0x1010).collect(),
            slots: vec![slot(0x3000, "__tsan_read4"), slot(0x3008, "__tsan_write8")],
            ..ModuleCode::default()
        };
        let calls = AccessCallFinder::new(code).calls(0x1020..0x1060);
        let expected = [(0x1024, ReportedAccess::Read(4)), (0x1035, ReportedAccess::Write(8))];
        assert_eq!(calls.iter().map(|call| (call.site, call.access)).collect::<Vec<_>>(), expected);
    }
}
