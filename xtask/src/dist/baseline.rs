//! The oldest glibc that the binaries run with, read from the versions of the symbols that they import.

use crate::workspace::output;
use anyhow::{Context, Result, ensure};
use object::{Endianness, read::elf::ElfFile64};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The glibc that the README requires.
const BASELINE: (u32, u32) = (2, 34);

/// Checks the binary, and the libraries that it loads into programs: they are embedded in it, and appear in the cache
/// when it runs.
pub(super) fn check(binary: &Path, cache: &Path) -> Result<()> {
    for layout in ["kernel", "own"] {
        output(
            Command::new(binary).arg("self-check").env("XDG_CACHE_HOME", cache).env("UNSNARL_LAYOUT", layout),
            "unsnarl self-check",
        )?;
    }
    let mut libraries = Vec::new();
    collect_libraries(cache, &mut libraries)?;
    ensure!(libraries.len() == 2, "expected the runtime and the layout library in {}", cache.display());
    for file in [binary.to_owned()].iter().chain(&libraries) {
        let data = std::fs::read(file)?;
        let newest = newest_glibc(&data).with_context(|| format!("cannot read {}", file.display()))?;
        let (major, minor) = newest;
        ensure!(
            newest <= BASELINE,
            "{} needs glibc {major}.{minor}; build the release on a system with glibc {}.{}",
            file.display(),
            BASELINE.0,
            BASELINE.1
        );
        let name = file.file_name().unwrap_or_default();
        println!("{}: needs glibc {major}.{minor}", name.display());
    }
    std::fs::remove_dir_all(cache)?;
    Ok(())
}

fn collect_libraries(directory: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect_libraries(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "so") {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns the newest version of glibc that the file imports a symbol of.
fn newest_glibc(data: &[u8]) -> Result<(u32, u32)> {
    let file = ElfFile64::<Endianness>::parse(data)?;
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let mut newest = (0, 0);
    let Some((mut needed, strings)) = sections.gnu_verneed(endian, data)? else { return Ok(newest) };
    let strings = sections.strings(endian, data, strings)?;
    while let Some((_, mut versions)) = needed.next()? {
        while let Some(version) = versions.next()? {
            let name = str::from_utf8(version.name(endian, strings)?)?;
            newest = newest.max(parse(name).unwrap_or_default());
        }
    }
    Ok(newest)
}

/// Parses a version of glibc's symbols, such as `GLIBC_2.34` or `GLIBC_2.2.5`.
fn parse(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::{newest_glibc, parse};

    #[test]
    fn versions_are_ordered_by_number() {
        assert_eq!(parse("GLIBC_2.34"), Some((2, 34)));
        assert_eq!(parse("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(parse("GLIBC_PRIVATE"), None);
        assert_eq!(parse("GCC_3.0"), None);
        assert!(parse("GLIBC_2.9") < parse("GLIBC_2.34"));
    }

    #[test]
    fn test_binary_needs_a_glibc() {
        let own = std::fs::read("/proc/self/exe").expect("the test's own binary");
        let newest = newest_glibc(&own).expect("an ELF file");
        assert!(newest >= (2, 2) && newest < (3, 0), "{newest:?}");
    }
}
