//! Names of accesses, compared with clang's own syntax tree: the expression that an access is named by must be one that
//! clang reads or writes at that line and column.

#[path = "common/accesses.rs"]
mod accesses;

use accesses::{NamedAccess, named_accesses};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

/// Line, column, and whether it is written.
type Place = (u32, u32, bool);

/// The expressions that clang accesses at each place of one file.
#[derive(Default)]
struct Oracle {
    file: String,
    text: Vec<u8>,
    /// The file of the last location: the tree repeats it only if it changes.
    current: String,
    expressions: BTreeMap<Place, BTreeSet<String>>,
    /// Places where a macro is used, whose expressions are elsewhere.
    macros: BTreeSet<(u32, u32)>,
}

/// A token: its offset, its length, and whether it comes from a macro.
#[derive(Clone, Copy)]
struct Token {
    offset: usize,
    len: usize,
    from_macro: bool,
}

/// A node with the first and last token of its text.
struct Node<'a> {
    json: &'a Value,
    begin: Option<Token>,
    end: Option<Token>,
    inner: Vec<Node<'a>>,
}

impl Node<'_> {
    fn is(&self, kind: &str) -> bool {
        self.json["kind"] == kind
    }

    fn without_parentheses(&self) -> &Self {
        if self.is("ParenExpr") { self.inner.first().map_or(self, Self::without_parentheses) } else { self }
    }

    /// Returns the token that clang's line tables name for a read of this expression.
    fn location(&self) -> Option<Token> {
        if self.is("MemberExpr") {
            return self.end;
        }
        let has_location_of_inner = ["ArraySubscriptExpr", "ImplicitCastExpr", "ParenExpr"];
        match self.inner.first().filter(|_| has_location_of_inner.iter().any(|kind| self.is(kind))) {
            Some(inner) => inner.location(),
            None => self.begin,
        }
    }
}

impl Oracle {
    fn of(source: &Path) -> Self {
        let dump = Command::new("clang")
            .args(["-fsyntax-only", "-pthread", "-Xclang", "-ast-dump=json", "-I"])
            .arg(programs())
            .arg(source)
            .output()
            .expect("clang runs");
        assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
        let tree: Value = serde_json::from_slice(&dump.stdout).expect("clang writes JSON");
        let file = source.display().to_string();
        let mut oracle = Self { file, text: std::fs::read(source).expect("a source"), ..Self::default() };
        let root = oracle.prepare(&tree);
        oracle.visit(&root);
        oracle
    }

    /// Reads the locations of a node, in the order in which the tree has them.
    fn prepare<'a>(&mut self, json: &'a Value) -> Node<'a> {
        self.token(&json["loc"]);
        let (begin, end) = (self.token(&json["range"]["begin"]), self.token(&json["range"]["end"]));
        let inner = json["inner"].as_array().into_iter().flatten();
        let inner = inner.filter(|node| node.is_object()).map(|node| self.prepare(node)).collect();
        Node { json, begin, end, inner }
    }

    /// Returns a token of the file.
    fn token(&mut self, location: &Value) -> Option<Token> {
        if location.get("spellingLoc").is_some() || location.get("expansionLoc").is_some() {
            self.token(&location["spellingLoc"]);
            let expanded = self.token(&location["expansionLoc"])?;
            self.macros.insert(self.line_and_column(expanded.offset));
            return Some(Token { from_macro: true, ..expanded });
        }
        if let Some(file) = location["file"].as_str() {
            self.current = file.to_owned();
        }
        let offset = location["offset"].as_u64().filter(|_| self.current == self.file)? as usize;
        Some(Token { offset, len: location["tokLen"].as_u64()? as usize, from_macro: false })
    }

    fn visit(&mut self, node: &Node<'_>) {
        let operand = node.inner.first().map(Node::without_parentheses);
        let opcode = node.json["opcode"].as_str().unwrap_or_default();
        if let Some(operand) = operand {
            if node.json["castKind"] == "LValueToRValue" {
                self.add(operand.location(), operand, false);
            } else if node.is("BinaryOperator") && opcode == "=" || node.is("CompoundAssignOperator") {
                let operator = self.token_after(operand);
                self.add(operator, operand, true);
                self.add(operator, operand, false);
            } else if node.is("UnaryOperator") && matches!(opcode, "++" | "--") {
                let operator = if node.json["isPostfix"] == true { node.end } else { node.begin };
                self.add(operator, operand, true);
                self.add(operator, operand, false);
            }
        }
        node.inner.iter().for_each(|inner| self.visit(inner));
    }

    fn add(&mut self, at: Option<Token>, expression: &Node<'_>, writes: bool) {
        let (Some(at), Some(begin), Some(end)) = (at, expression.begin, expression.end) else { return };
        if at.from_macro || begin.from_macro || end.from_macro {
            return;
        }
        let text = String::from_utf8_lossy(&self.text[begin.offset..end.offset + end.len]);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (line, column) = self.line_and_column(at.offset);
        self.expressions.entry((line, column, writes)).or_default().insert(text);
    }

    /// Returns the operator after an expression, which the tree does not have.
    fn token_after(&self, expression: &Node<'_>) -> Option<Token> {
        let end = expression.end?;
        let after = end.offset + end.len;
        let blanks = self.text[after..].iter().take_while(|byte| b" \t\n)".contains(byte)).count();
        Some(Token { offset: after + blanks, len: 1, from_macro: end.from_macro })
    }

    fn line_and_column(&self, offset: usize) -> (u32, u32) {
        let before = &self.text[..offset];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() as u32 + 1;
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        (line, (offset - start) as u32 + 1)
    }
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs").canonicalize().expect("programs are there")
}

/// Compiles a program with the instrumentation of the thread sanitizer, and without its runtime.
fn compile(source: &Path, level: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("naming");
    std::fs::create_dir_all(&directory).expect("a directory");
    let stem = source.file_stem().expect("a name").to_string_lossy();
    let program = directory.join(format!("{stem}{level}.so"));
    let done = Command::new("clang")
        .args([level, "-g", "-pthread", "-shared", "-fPIC", "-fsanitize=thread"])
        .args(["-fno-sanitize-link-runtime", "-mllvm", "-tsan-instrument-func-entry-exit=0", "-I"])
        .arg(programs())
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status()
        .expect("clang runs");
    assert!(done.success(), "{}", source.display());
    program
}

#[test]
fn accesses_have_the_names_of_clangs_own_tree() {
    let (mut all, mut named, mut compared) = (0, 0, 0);
    let programs = programs().join("c");
    for name in [
        "qsort_mt",
        "stringbuffer",
        "compressor_pipeline",
        "workstealing_queue",
        "safestack",
        "circular_buffer",
    ] {
        let source = programs.join(name).with_extension("c");
        let oracle = Oracle::of(&source);
        for access in named_accesses(&compile(&source, "-O0")) {
            let NamedAccess { file, line, column, writes, size, name } = access;
            if file != oracle.file || oracle.macros.contains(&(line, column)) {
                continue;
            }
            all += 1;
            let Some(name) = name else { continue };
            named += 1;
            if let Some(expected) = oracle.expressions.get(&(line, column, writes)) {
                compared += 1;
                assert!(
                    expected.contains(&name),
                    "{file}:{line}:{column}: {size} bytes are named {name}, not one of {expected:?}"
                );
            }
        }
    }
    assert!(all > 100 && named * 100 >= all * 99, "{named} of {all} accesses have a name");
    assert!(compared * 100 >= named * 90, "{compared} of {named} names could be compared");
}
