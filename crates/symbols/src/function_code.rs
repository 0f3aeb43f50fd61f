//! The code of one function, as far as it can be compared between builds.

/// The extent of a function and the source columns of its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCode {
    /// The linkage name, without the hash that rustc appends.
    pub name: String,
    /// The first offset.
    pub start: u64,
    pub(crate) shape: Shape,
}

/// The properties that an unchanged function keeps, wherever its code and its lines were moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The number of bytes of code.
    pub(crate) size: u64,
    /// The rows of the line table: the offset in the function, and the column.
    pub(crate) rows: Vec<(u64, u32)>,
}

impl FunctionCode {
    /// Returns whether both are the code of the same, unchanged function, so that the same offset in it means
    /// the same instruction. False without line information, because nothing shows it then.
    #[must_use]
    pub fn is_unchanged(&self, other: &Self) -> bool {
        self.name == other.name && self.shape == other.shape && !self.shape.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(start: u64, size: u64, rows: &[(u64, u32)]) -> FunctionCode {
        FunctionCode { name: "f".into(), start, shape: Shape { size, rows: rows.to_vec() } }
    }

    #[test]
    fn moved_function_is_unchanged_and_others_are_not() {
        let function = code(0, 40, &[(0, 1), (8, 5)]);
        assert!(function.is_unchanged(&code(400, 40, &[(0, 1), (8, 5)])));
        assert!(!function.is_unchanged(&code(0, 44, &[(0, 1), (8, 5)])), "another size");
        assert!(!function.is_unchanged(&code(0, 40, &[(0, 1), (12, 5)])), "another place");
        assert!(!code(0, 40, &[]).is_unchanged(&code(0, 40, &[])), "nothing is known");
    }
}
