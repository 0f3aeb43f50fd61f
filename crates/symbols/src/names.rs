//! The symbol table: which function or variable lies at an address.

use object::{Object, ObjectSymbol, SymbolKind};

/// A named stretch of a module.
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
    /// All names of this kind in these files: a stripped program and its separate debug file, say.
    pub(crate) fn read<'data>(files: &[object::File<'data>], kind: SymbolKind) -> Self {
        let mut names: Vec<NamedRange> = files
            .iter()
            .flat_map(|file| file.symbols().chain(file.dynamic_symbols()))
            .filter(|symbol| symbol.is_definition() && symbol.kind() == kind)
            .filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| !name.is_empty())?;
                // The version of a library's symbol says nothing about the code.
                let name = name.split('@').next().unwrap_or(name).to_owned();
                Some(NamedRange { address: symbol.address(), size: symbol.size(), name })
            })
            .collect();
        // Of several names for one thing, the public one (fewest underscores) is the user's word.
        let underscores = |name: &NamedRange| name.name.bytes().take_while(|&b| b == b'_').count();
        names.sort_by_cached_key(|n| (n.address, n.size == 0, underscores(n), n.name.clone()));
        names.dedup_by_key(|n| n.address);
        Self(names)
    }

    /// The name that covers this address, and how far into it the address is.
    pub(crate) fn at(&self, address: u64) -> Option<(&str, u64)> {
        let next = self.0.partition_point(|n| n.address <= address);
        let name = &self.0[next.checked_sub(1)?];
        let offset = address - name.address;
        // Hand-written assembly has no sizes: it reaches up to whatever follows.
        (name.size == 0 || offset < name.size).then_some((name.name.as_str(), offset))
    }
}
