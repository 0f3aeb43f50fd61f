//! Replaces the loader that a program requests from the kernel.
//!
//! A C library works only with the loader of its own build. A program whose libraries come from a pack must
//! therefore be loaded by the pack's loader, whose path is written into a copy of the program: at its end,
//! because there is no room for a longer path at the old place. The kernel reads it there; offsets, addresses
//! and the build id do not change.

const PT_INTERP: u32 = 3;

/// Returns the program with another loader; `None` if it is not a 64-bit ELF file with a loader.
pub(crate) fn with_loader(program: &[u8], loader: &str) -> Option<Vec<u8>> {
    let header = interpreter(program)?;
    let mut out = program.to_vec();
    let (offset, size) = (out.len() as u64, loader.len() as u64 + 1);
    out[header + 8..header + 16].copy_from_slice(&offset.to_le_bytes());
    out[header + 32..header + 40].copy_from_slice(&size.to_le_bytes());
    out[header + 40..header + 48].copy_from_slice(&size.to_le_bytes());
    out.extend_from_slice(loader.as_bytes());
    out.push(0);
    Some(out)
}

/// Returns the offset of the program header that names the loader.
fn interpreter(file: &[u8]) -> Option<usize> {
    let number = |at: usize, bytes: usize| {
        let bytes = file.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0_u64, |number, &byte| (number << 8) | u64::from(byte)))
    };
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (first, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let headers = (0..count).map_while(|nth| usize::try_from(first.checked_add(nth * size)?).ok());
    headers.into_iter().find(|&at| number(at, 4) == Some(u64::from(PT_INTERP)) && file.len() - at >= 56)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

    #[test]
    fn program_runs_with_its_patched_loader() {
        let program = fs::read("/bin/true").expect("a program");
        let directory = std::env::temp_dir().join(format!("unsnarl-loader-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let run = |loader: &Path| {
            let path = directory.join("true");
            let bytes = with_loader(&program, loader.to_str().expect("UTF-8")).expect("an ELF file");
            fs::write(&path, bytes).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
            Command::new(&path).status().map(|status| status.success())
        };
        let copy = directory.join("a-loader-with-a-name-that-is-longer-than-the-one-before.so");
        fs::copy("/lib64/ld-linux-x86-64.so.2", &copy).expect("the loader");
        assert!(run(&copy).is_ok_and(|well| well));
        assert!(run(&directory.join("there-is-none")).is_err());
        fs::remove_dir_all(&directory).expect("gone");
    }

    #[test]
    fn non_elf_files_are_not_patched() {
        for bytes in [&b""[..], b"\x7fELF\x02", b"#!/bin/sh\n", &[0x7f; 100]] {
            assert_eq!(with_loader(bytes, "/ld.so"), None);
        }
    }
}
