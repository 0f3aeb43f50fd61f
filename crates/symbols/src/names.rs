//! The symbol table: finds the function or variable at an address.

use crate::demangle::stable_name;
use object::{Object, ObjectSymbol, SymbolKind};

/// A named range of a module.
#[derive(Clone, Debug)]
struct NamedRange {
    address: u64,
    size: u64,
    name: String,
}

/// The functions, or the variables, of one module, by address.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable(Vec<NamedRange>);

impl SymbolTable {
    /// Reads all symbols of this kind in these files: a stripped program and its separate debug file, for
    /// example.
    pub(crate) fn read<'data>(files: &[object::File<'data>], kind: SymbolKind) -> Self {
        let mut names: Vec<NamedRange> = files
            .iter()
            .flat_map(|file| file.symbols().chain(file.dynamic_symbols()))
            .filter(|symbol| symbol.is_definition() && symbol.kind() == kind)
            .filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| !name.is_empty())?;
                // The version of a library's symbol is irrelevant.
                let name = name.split('@').next().unwrap_or(name).to_owned();
                Some(NamedRange { address: symbol.address(), size: symbol.size(), name })
            })
            .collect();
        // Of several names for one address, the public one (fewest underscores) is the name that users know.
        let underscores = |name: &NamedRange| name.name.bytes().take_while(|&b| b == b'_').count();
        names.sort_by_cached_key(|n| (n.address, n.size == 0, underscores(n), n.name.clone()));
        names.dedup_by_key(|n| n.address);
        Self(names)
    }

    /// Returns the symbol that covers this address, and the offset into it.
    pub(crate) fn at(&self, address: u64) -> Option<(&str, u64)> {
        let name = self.covering(address)?;
        Some((name.name.as_str(), address - name.address))
    }

    /// Returns name, first address and size of the symbol that covers this address.
    pub(crate) fn range_at(&self, address: u64) -> Option<(&str, u64, u64)> {
        self.covering(address).map(|name| (name.name.as_str(), name.address, name.size))
    }

    /// Returns first address and size of the only symbol with this stable name.
    pub(crate) fn range_of(&self, name: &str) -> Option<(u64, u64)> {
        let mut found = self.0.iter().filter(|named| stable_name(&named.name) == name);
        let only = found.next().filter(|_| found.next().is_none())?;
        Some((only.address, only.size))
    }

    fn covering(&self, address: u64) -> Option<&NamedRange> {
        let next = self.0.partition_point(|n| n.address <= address);
        let name = &self.0[next.checked_sub(1)?];
        // Hand-written assembly has no sizes: a symbol extends to the next one.
        (name.size == 0 || address - name.address < name.size).then_some(name)
    }
}
