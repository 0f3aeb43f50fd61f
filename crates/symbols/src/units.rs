//! Which translation units of a program are instrumented. The symbol table lists the local symbols of each unit behind the
//! name of its source file, and each instrumented unit has a constructor of its own.

/// The units seen so far that are not instrumented.
#[derive(Debug, Default)]
pub(crate) struct UnitScan {
    current: Option<Vec<u8>>,
    uninstrumented: Vec<String>,
}

impl UnitScan {
    /// Begins the unit with this file name.
    pub(crate) fn begin(&mut self, name: &[u8]) {
        self.end();
        self.current = (!is_start_up(name)).then(|| name.to_vec());
    }

    /// Processes a local symbol of the current unit.
    pub(crate) fn local(&mut self, name: &[u8]) {
        // The names that gcc and LLVM give to the constructor.
        if name.starts_with(b"_sub_I_00099") || name.starts_with(b"tsan.module_ctor") {
            self.current = None;
        }
    }

    fn end(&mut self) {
        if let Some(name) = self.current.take() {
            let name = String::from_utf8_lossy(&name).into_owned();
            if !self.uninstrumented.contains(&name) {
                self.uninstrumented.push(name);
            }
        }
    }

    /// Returns the file names of all units that are not instrumented.
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.end();
        self.uninstrumented
    }
}

/// Returns whether a unit is one that every program has: the code before main, or helpers of the compiler. The linker's own
/// symbols have no name.
fn is_start_up(name: &[u8]) -> bool {
    let helpers: [&[u8]; 3] = [b"crtstuff.c", b"libgcc2.c", b"cpuinfo.c"];
    name.is_empty() || name.ends_with(b".o") || name.ends_with(b".oS") || helpers.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_without_constructor_is_not_instrumented() {
        let mut scan = UnitScan::default();
        for (unit, locals) in [
            ("Scrt1.o", &[][..]),
            ("crtstuff.c", &["frame_dummy"]),
            ("main.c", &["helper", "_sub_I_00099_0"]),
            ("old.c", &["helper"]),
            ("prog.1234-cgu.0", &["tsan.module_ctor"]),
            ("old.c", &[]),
            ("crtstuff.c", &[]),
            ("", &["_DYNAMIC"]),
        ] {
            scan.begin(unit.as_bytes());
            locals.iter().for_each(|local| scan.local(local.as_bytes()));
        }
        assert_eq!(scan.finish(), ["old.c"]);
    }
}
