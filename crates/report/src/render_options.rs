//! How a report shall look.

/// How a report shall look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// How many characters a line may have.
    pub width: usize,
    /// Whether to use colours: only on a terminal.
    pub colour: bool,
    /// Whether to show every event; otherwise long stretches of one thread are abridged.
    pub full: bool,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { width: 100, colour: false, full: false }
    }
}
