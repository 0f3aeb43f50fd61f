//! Names from real files.

use unsnarl_model::{Module, ModuleIx, Site};
use unsnarl_report::{Names, ProgramNames};
use unsnarl_symbols::Symbols;

#[test]
fn missing_source_lines_are_none() {
    let modules = [Module { path: "/nowhere/program".to_owned(), ..Module::default() }];
    let mut symbols = Symbols::new();
    let mut names = ProgramNames::new(&modules, &mut symbols);
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program_names.rs");
    assert_eq!(names.source_line(here, 1).as_deref(), Some("//! Names from real files."));
    assert_eq!(names.source_line(here, 0), None);
    assert_eq!(names.source_line(here, 99_999), None);
    assert_eq!(names.source_line("/nowhere/main.c", 1), None);
    assert_eq!(names.variable(0x4000), None);
    let place = names.place(Site { module: ModuleIx(0), offset: 0x1234 });
    assert_eq!(place.function.as_deref(), Some("program+0x1234"));
}
