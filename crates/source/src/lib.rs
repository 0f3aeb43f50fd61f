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
//! Several accesses can have the same column, as the load of a pointer and the load through it:
//! [`SourceFile::accesses_at`] returns all places that code with a column may access, in the order of their
//! evaluation, and [`matching`] finds which of them an instruction accesses. Nothing here reads files.

#![forbid(unsafe_code)]

mod c_family;
pub mod matching;
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

/// A place in memory that an expression accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The expression, in one line; `None` if it is too long to be a name.
    pub text: Option<String>,
    /// What debug information can tell of its size.
    pub part: Option<Part>,
    /// True for a plain name, which may be a variable that is accessed without being reported.
    pub is_name: bool,
}

/// The part of an expression that determines its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A member or variable of this name.
    Named(String),
    /// What a pointer or array of this name points to or consists of.
    Inside(String),
}

/// The places that code with one line and column accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// The places that may be read, in the order of evaluation.
    pub loads: Vec<Place>,
    /// True if the last of them is what the expression is for, so that it is the last to be read.
    pub ends_with_last: bool,
    /// The place that may be written.
    pub store: Option<Place>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The call in one line, without what surrounds it: `book.lock()`. `None` if it is too long.
    pub text: Option<String>,
    /// The name of the called function.
    pub function: Option<String>,
    /// The receiver of a method, or what the first argument points to.
    pub receiver: Option<String>,
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

    /// Returns the places that code with this line and column (both from 1) accesses.
    #[must_use]
    pub fn accesses_at(&self, line: u32, column: u32) -> Option<Accesses> {
        let node = self.node_at(line, column)?;
        let accessed = match self.language {
            Language::C | Language::Cpp => c_family::accesses_at(node),
            Language::Rust => rust::accesses_at(node),
        }?;
        Some(Accesses {
            loads: accessed.loads.into_iter().map(|node| self.place(node)).collect(),
            ends_with_last: accessed.ends_with_last,
            store: accessed.store.map(|node| self.place(node)),
        })
    }

    /// Returns the call that code with this line and column makes.
    #[must_use]
    pub fn call_at(&self, line: u32, column: u32) -> Option<Call> {
        let node = self.node_at(line, column)?;
        let called = match self.language {
            Language::C | Language::Cpp => c_family::call_at(node),
            Language::Rust => rust::call_at(node),
        }?;
        Some(Call {
            text: self.text_of(called.call),
            function: called.function.and_then(|name| self.text_of(name)),
            receiver: called.receiver.and_then(|receiver| self.text_of(receiver)),
        })
    }

    /// Returns the innermost node that starts at a place.
    fn node_at(&self, line: u32, column: u32) -> Option<Node<'_>> {
        let point = Point { row: line.checked_sub(1)? as usize, column: column.checked_sub(1)? as usize };
        let node = self.tree.root_node().descendant_for_point_range(point, point)?;
        (!node.is_error() && node.start_position() == point).then_some(node)
    }

    fn place(&self, node: Node<'_>) -> Place {
        let part = match self.language {
            Language::C | Language::Cpp => c_family::part_of(node),
            Language::Rust => rust::part_of(node),
        };
        let part = part.and_then(|(name, is_inside)| {
            let name = name.utf8_text(self.text.as_bytes()).ok()?.to_owned();
            Some(if is_inside { Part::Inside(name) } else { Part::Named(name) })
        });
        Place {
            text: self.text_of(node),
            part,
            is_name: matches!(node.kind(), "identifier" | "self" | "this"),
        }
    }

    /// Returns a node's text in one line; `None` if it is too long to be a name.
    fn text_of(&self, node: Node<'_>) -> Option<String> {
        const LONGEST: usize = 60;
        let text = node.utf8_text(self.text.as_bytes()).ok()?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (text.len() <= LONGEST && !text.contains("//") && !text.contains("/*")).then_some(text)
    }
}

/// The nodes of [`Accesses`].
struct Accessed<'tree> {
    loads: Vec<Node<'tree>>,
    ends_with_last: bool,
    store: Option<Node<'tree>>,
}

impl<'tree> Accessed<'tree> {
    fn reading(loads: impl IntoIterator<Item = Node<'tree>>) -> Self {
        Self { loads: loads.into_iter().collect(), ends_with_last: false, store: None }
    }

    fn ending_with(loads: impl IntoIterator<Item = Node<'tree>>) -> Self {
        Self { ends_with_last: true, ..Self::reading(loads) }
    }
}

/// The nodes of a [`Call`].
struct Called<'tree> {
    call: Node<'tree>,
    receiver: Option<Node<'tree>>,
    function: Option<Node<'tree>>,
}
