//! Appearance of a report.

/// Appearance of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// Maximum number of characters per line.
    pub width: usize,
    /// Use colours; only for a terminal.
    pub colour: bool,
    /// Show every event; otherwise long stretches of one thread are abridged.
    pub full: bool,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self { width: 100, colour: false, full: false }
    }
}
