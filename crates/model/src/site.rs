//! Sites: places in code.

/// A module of one trace: the program or one of its libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModuleIx(pub u16);

/// A place in code as module and offset, so that it is independent of address randomisation.
///
/// For an operation the offset is inside the call instruction that requested it, because the debug
/// information has the right line there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Site {
    /// The module.
    pub module: ModuleIx,
    /// The offset from the module's load address.
    pub offset: u64,
}

/// A site of one trace; an index into its `sites`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SiteIx(pub u32);

impl SiteIx {
    /// Returns the index into tables of sites.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
