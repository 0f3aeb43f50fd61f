//! A function at a code address.

use std::fmt;

/// A function and the place in it, as far as the program's files determine it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Hash)]
pub struct Frame {
    /// The function's demangled name. Without debug information it has an offset (`visit+0x1c`); without
    /// symbols it is the module's name and offset (`libz.so.1+0x1234`).
    pub function: Option<String>,
    /// The source file's path, as given to the compiler.
    pub file: Option<String>,
    /// The line in it, from 1.
    pub line: Option<u32>,
    /// The column in it, from 1.
    pub column: Option<u32>,
    /// True if it is the language's or the system's code rather than the user's.
    pub system: bool,
}

impl Frame {
    /// Returns `file:line` if both are known.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        Some(format!("{}:{}", self.file.as_deref()?, self.line?))
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.as_deref().unwrap_or("?"))?;
        self.place().map_or(Ok(()), |place| write!(f, " ({place})"))
    }
}
