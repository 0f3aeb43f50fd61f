//! Synthetic traces and names.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::HashMap;
use unsnarl_model::{
    Event, Flags, Module, ModuleIx, Op, Order, Program, Site, SiteIx, Thread, ThreadId, ThreadIx, Trace,
};
use unsnarl_report::Names;
use unsnarl_symbols::Frame;

/// A source file whose line n is site n.
pub(crate) struct Source {
    lines: Vec<String>,
    variables: HashMap<u64, String>,
    /// The file can be read.
    pub(crate) readable: bool,
}

/// The offset from which sites belong to libc.
pub(crate) const LIBC: u64 = 1000;

impl Source {
    pub(crate) fn new(text: &str, variables: &[(u64, &str)]) -> Self {
        let variables = variables.iter().map(|&(addr, name)| (addr, name.to_owned())).collect();
        Self { lines: text.lines().map(str::to_owned).collect(), variables, readable: true }
    }

    /// Returns the function of a line: the last line before it that does not begin with a blank.
    fn function(&self, line: u64) -> String {
        let heads = self.lines.iter().take(line as usize).rev();
        let head = heads.map(String::as_str).find(|l| l.contains('(') && !l.starts_with([' ', '}']));
        let head = head.unwrap_or("?").split('(').next().unwrap_or_default();
        head.rsplit([' ', '*']).next().unwrap_or_default().to_owned()
    }
}

impl Names for Source {
    fn frames(&mut self, site: Site) -> Vec<Frame> {
        if site.offset >= LIBC {
            let function = Some(format!("libc_{}", site.offset));
            return vec![Frame { function, system: true, ..Frame::default() }];
        }
        let line = site.offset as u32;
        vec![Frame {
            function: Some(self.function(site.offset)),
            file: Some("/home/me/work/main.c".to_owned()),
            line: Some(line),
            column: None,
            system: false,
        }]
    }

    fn variable(&mut self, addr: u64) -> Option<String> {
        self.variables.get(&addr).cloned()
    }

    fn text(&mut self, addr: u64) -> Option<String> {
        self.variables.get(&addr).cloned()
    }

    fn source_line(&mut self, _: &str, line: u32) -> Option<String> {
        self.lines.get(line as usize - 1).filter(|_| self.readable).cloned()
    }
}

pub(crate) fn site(line: u64) -> Site {
    Site { module: ModuleIx(0), offset: line }
}

/// Returns a trace without events of this many threads: main and its children, which start at `start`.
pub(crate) fn trace(threads: u16, start: u64) -> Trace {
    let thread = |ix: u16| match ix {
        0 => Thread { id: ThreadId::main(), name: String::new(), start: site(LIBC) },
        n => Thread { id: ThreadId::main().child(n.into()), name: String::new(), start: site(start) },
    };
    Trace {
        program: Program { cwd: "/home/me/work".to_owned(), ..Program::default() },
        modules: vec![Module { path: "/home/me/work/program".to_owned(), ..Module::default() }],
        threads: (0..threads).map(thread).collect(),
        ..Trace::default()
    }
}

/// Appends events to a trace.
pub(crate) trait TraceBuilderExt {
    /// Appends the operation `op` of `thread` at `line` on `addr`.
    fn play(&mut self, thread: u16, line: u64, op: Op, addr: u64, value: u64) -> &mut Self;
    /// Sets flags of the last event.
    fn flag(&mut self, flags: Flags) -> &mut Self;
    /// Sets the event that caused the last one.
    fn woken_by(&mut self, number: u64) -> &mut Self;
}

impl TraceBuilderExt for Trace {
    fn play(&mut self, thread: u16, line: u64, op: Op, addr: u64, value: u64) -> &mut Self {
        let known = self.sites.iter().position(|s| *s == site(line));
        let ix = known.unwrap_or(self.sites.len());
        if known.is_none() {
            self.sites.push(site(line));
        }
        let access = op.is_plain_access() || op.is_atomic();
        self.events.push(Event {
            thread: ThreadIx(thread),
            op,
            flags: Flags::NONE,
            order: if op.is_atomic() { Order::SeqCst } else { Order::Relaxed },
            site: SiteIx(ix as u32),
            context: 0,
            size: if access { 4 } else { 0 },
            addr,
            value,
        });
        self
    }

    fn flag(&mut self, flags: Flags) -> &mut Self {
        let last = self.events.last_mut().expect("an event");
        last.flags = last.flags | flags;
        self
    }

    fn woken_by(&mut self, number: u64) -> &mut Self {
        let last = self.events.last_mut().expect("an event");
        *last = last.with_waker(Some(number));
        self
    }
}
