//! The expression that a source file has at a line and column.
//!
//! Compilers record for each instruction of a memory access, and for each call, the line and the column of the
//! expression that it was made of. [`SourceFile::expression_at`] parses the file and returns the text of that
//! expression: `pool->active`, `self.table[3].next`. It follows the conventions of gcc, clang and rustc, which
//! point at different parts of an expression:
//!
//! | compiler | read of `a->b` | write in `a->b = 1`, `a->b++` | call |
//! | --- | --- | --- | --- |
//! | gcc | the last `->` or `.` | the operator | the function's name, or a parenthesis |
//! | clang | the member's name | the operator | the expression's start |
//! | rustc | the expression's start | the expression's start | the expression's start, or the method's name |
//!
//! Where several accesses have the same column, as the load of a pointer and the load through it, the answer is
//! marked as not certain. Where the column is that of something else, such as a macro, there is no answer. Nothing
//! here reads files.

#![forbid(unsafe_code)]

mod c_family;
mod rust;

use tree_sitter::{Node, Parser, Point, Tree};

/// The language of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cpp,
    Rust,
}

impl Language {
    /// Returns the language of a file by its name. A header counts as C++, which reads C as well.
    #[must_use]
    pub fn of_file(path: &str) -> Option<Self> {
        let (_, extension) = path.rsplit_once('.')?;
        match extension {
            "c" => Some(Self::C),
            "rs" => Some(Self::Rust),
            "cc" | "cpp" | "cxx" | "c++" | "C" | "h" | "hh" | "hpp" | "hxx" | "ipp" | "tcc" | "inl" => {
                Some(Self::Cpp)
            }
            _ => None,
        }
    }
}

/// The action of the instruction at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A plain read of this many bytes.
    Read(u64),
    /// A plain write.
    Write,
    /// A call of a function that acts on its receiver or first argument.
    Call,
}

/// An expression of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// The text, in one line.
    pub text: String,
    /// False if the place may also be that of a part of the expression.
    pub is_certain: bool,
    /// The name of the called function, if the expression is the receiver or argument of a call.
    pub function: Option<String>,
}

/// A parsed source file.
pub struct SourceFile {
    text: String,
    tree: Tree,
    language: Language,
}

impl std::fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceFile").field("language", &self.language).finish_non_exhaustive()
    }
}

impl SourceFile {
    /// Parses a file. Code that does not parse is skipped, as far as possible.
    #[must_use]
    pub fn parse(language: Language, text: String) -> Option<Self> {
        let grammar = match language {
            Language::C => tree_sitter_c::LANGUAGE,
            Language::Cpp => tree_sitter_cpp::LANGUAGE,
            Language::Rust => tree_sitter_rust::LANGUAGE,
        };
        let mut parser = Parser::new();
        parser.set_language(&grammar.into()).ok()?;
        let tree = parser.parse(&text, None)?;
        Some(Self { text, tree, language })
    }

    /// Returns the expression that an instruction with this line and column (both from 1) acts on.
    #[must_use]
    pub fn expression_at(&self, line: u32, column: u32, subject: Subject) -> Option<Expression> {
        let point = Point { row: line.checked_sub(1)? as usize, column: column.checked_sub(1)? as usize };
        let node = self.tree.root_node().descendant_for_point_range(point, point)?;
        if node.is_error() || node.start_position() != point {
            return None;
        }
        let found = match self.language {
            Language::C | Language::Cpp => c_family::subject_at(node, subject),
            Language::Rust => rust::subject_at(node, subject),
        }?;
        let function = found.function.and_then(|name| self.text_of(name));
        Some(Expression { text: self.text_of(found.node)?, is_certain: found.is_certain, function })
    }

    /// Returns a node's text in one line; `None` if it is too long to be a name, or contains a call, whose result may
    /// be another object each time.
    fn text_of(&self, node: Node<'_>) -> Option<String> {
        const LONGEST: usize = 60;
        let text = node.utf8_text(self.text.as_bytes()).ok()?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (text.len() <= LONGEST && !text.contains("//") && !text.contains("/*")).then_some(text)
    }
}

/// The expression that was found.
struct Found<'tree> {
    node: Node<'tree>,
    is_certain: bool,
    /// The name of the called function.
    function: Option<Node<'tree>>,
}

impl<'tree> Found<'tree> {
    const fn certain(node: Node<'tree>) -> Self {
        Self { node, is_certain: true, function: None }
    }

    const fn of_call(node: Node<'tree>, function: Option<Node<'tree>>) -> Self {
        Self { node, is_certain: true, function }
    }
}

/// The size of a pointer: a read of this size may have loaded the pointer through which the next one goes.
const POINTER: u64 = 8;
