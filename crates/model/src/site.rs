//! Places in code.

/// A module of one trace: the program or one of its libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModuleIx(pub u16);

/// A place in code: module and offset, so that it outlives address randomisation.
///
/// For an operation the offset is inside the call instruction that asked for it, which is where
/// the debug information has the right line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Site {
    /// In which module.
    pub module: ModuleIx,
    /// How far from where the module is loaded.
    pub offset: u64,
}

/// A site of one trace; an index into its `sites`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SiteIx(pub u32);

impl SiteIx {
    /// The index into tables of sites.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
