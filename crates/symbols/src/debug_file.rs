//! Finds separate debug files where distributions install them.

use object::Object;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Reads the separate debug file of a module, if one is installed and belongs to it.
pub(crate) fn read(path: &Path, file: &object::File<'_>) -> Option<Vec<u8>> {
    let build_id = file.build_id().ok().flatten().unwrap_or_default();
    by_build_id(build_id).or_else(|| by_link(path, file, build_id))
}

fn by_build_id(build_id: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let bytes = fs::read(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug")).ok()?;
    belongs(&bytes, build_id).then_some(bytes)
}

fn by_link(path: &Path, file: &object::File<'_>, build_id: &[u8]) -> Option<Vec<u8>> {
    let (name, checksum) = file.gnu_debuglink().ok()??;
    let name = Path::new(std::str::from_utf8(name).ok()?).file_name()?;
    let path = fs::canonicalize(path).ok()?;
    let folder = path.parent()?;
    let installed: PathBuf = Path::new("/usr/lib/debug").join(folder.strip_prefix("/").ok()?);
    [folder.to_path_buf(), folder.join(".debug"), installed]
        .into_iter()
        .map(|folder| folder.join(name))
        // A module may link to its own name; it is skipped.
        .filter(|candidate| *candidate != path)
        .filter_map(|candidate| fs::read(candidate).ok())
        .find(|bytes| if build_id.is_empty() { crc32(bytes) == checksum } else { belongs(bytes, build_id) })
}

fn belongs(bytes: &[u8], build_id: &[u8]) -> bool {
    object::File::parse(bytes).is_ok_and(|file| file.build_id().ok().flatten() == Some(build_id))
}

/// Computes the checksum of a `.gnu_debuglink` section.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut crc = at as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 0 { crc >> 1 } else { (crc >> 1) ^ 0xedb8_8320 };
                bit += 1;
            }
            table[at] = crc;
            at += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, &byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(byte)) & 0xff) as usize])
}

#[cfg(test)]
mod tests {
    #[test]
    fn debug_link_checksum_is_crc32() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
