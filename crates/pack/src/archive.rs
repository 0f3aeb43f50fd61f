//! The encoding of a pack.

use crate::{Error, PackEntry, Role, manifest};
use std::{
    collections::HashMap,
    fs,
    io::{Read, Write},
    path::{Component, Path},
};
use unsnarl_model::Trace;

/// The first bytes of all zstd data.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A level at which libraries compress well enough, and fast.
const LEVEL: i32 = 9;

/// A trace with everything that its replay needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// The files; one of them is the trace.
    pub entries: Vec<PackEntry>,
}

/// Returns whether a file is a pack rather than a trace, by its first bytes.
#[must_use]
pub fn is_pack(path: &Path) -> bool {
    let mut start = [0; 4];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == ZSTD
}

impl Pack {
    /// Returns the trace.
    ///
    /// # Errors If it is missing or cannot be read.
    pub fn trace(&self) -> Result<Trace, Error> {
        let entry = self.entries.iter().find(|entry| entry.role == Role::Trace);
        let entry = entry.ok_or_else(|| Error::Damaged("the pack has no trace".into()))?;
        unsnarl_trace::decode(&entry.bytes).map_err(Error::Trace)
    }

    /// Encodes the pack as the bytes of a file; the same pack yields the same bytes.
    ///
    /// # Errors
    /// Returns an error if there is no memory for the archive.
    pub fn encode(&self) -> std::io::Result<Vec<u8>> {
        let mut out = zstd::Encoder::new(Vec::new(), LEVEL)?;
        out.include_checksum(true)?;
        let mut tar = tar::Builder::new(out);
        let manifest = manifest::write(&self.entries);
        let mut add = |name: &str, bytes: &[u8], executable: bool| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(if executable { 0o755 } else { 0o644 });
            tar.append_data(&mut header, name, bytes)
        };
        add(manifest::NAME, manifest.as_bytes(), false)?;
        for entry in &self.entries {
            add(&entry.name, &entry.bytes, entry.executable)?;
        }
        let mut out = tar.into_inner()?.finish()?;
        out.flush()?;
        Ok(out)
    }

    /// Decodes the bytes of a file and checks every file in the manifest.
    ///
    /// # Errors
    /// Returns an error if anything is missing or changed.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = |_| Error::Damaged("this is not a pack, or a part of one".into());
        let mut tar = tar::Archive::new(zstd::Decoder::new(bytes).map_err(damaged)?);
        let mut contents: HashMap<String, Vec<u8>> = HashMap::new();
        for file in tar.entries().map_err(damaged)? {
            let mut file = file.map_err(damaged)?;
            let name = file.path().map_err(damaged)?.to_string_lossy().into_owned();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(damaged)?;
            contents.insert(name, bytes);
        }
        // The checksum comes last.
        std::io::copy(&mut tar.into_inner(), &mut std::io::sink()).map_err(damaged)?;
        let manifest = contents.remove(manifest::NAME);
        let manifest = manifest.ok_or_else(|| Error::Damaged("this is not a pack of unsnarl's".into()))?;
        let mut entries = Vec::new();
        for (mut entry, crc) in manifest::read(&manifest)? {
            let name = &entry.name;
            // A pack may come from anywhere, so it may write only inside its own directory.
            let normal = |part| matches!(part, Component::Normal(_));
            if name.is_empty() || !Path::new(name).components().all(normal) {
                return Err(Error::Damaged(format!(
                    "the pack has a file `{name}`, which is no name inside of it"
                )));
            }
            entry.bytes =
                contents.remove(name).ok_or_else(|| Error::Damaged(format!("the pack lacks `{name}`")))?;
            if crc32fast::hash(&entry.bytes) != crc {
                return Err(Error::Damaged(format!("`{name}` in the pack is not what was packed")));
            }
            entries.push(entry);
        }
        Ok(Self { entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(name: &str) -> Pack {
        let entry = |role, name: &str, bytes: &[u8]| PackEntry {
            role,
            name: name.into(),
            origin: "/somewhere".into(),
            executable: role == Role::Program,
            bytes: bytes.to_vec(),
        };
        Pack {
            entries: vec![entry(Role::Program, "program/p", b"\x7fELF"), entry(Role::Input, name, b"words")],
        }
    }

    #[test]
    fn pack_round_trips_and_is_deterministic() {
        let long = format!("cwd/{}/input", "directory/".repeat(30));
        let bytes = pack(&long).encode().expect("bytes");
        assert_eq!(Pack::decode(&bytes).expect("a pack"), pack(&long));
        assert_eq!(pack(&long).encode().expect("bytes"), bytes);
    }

    #[test]
    fn damaged_pack_is_rejected() {
        let bytes = pack("cwd/input").encode().expect("bytes");
        for length in 0..bytes.len() {
            assert!(Pack::decode(&bytes[..length]).is_err(), "cut at {length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            // Some bits are ignored by the decompressor; then nothing has changed.
            assert!(Pack::decode(&changed).map_or(true, |read| read == pack("cwd/input")), "byte {at}");
        }
    }

    #[test]
    fn file_outside_directory_is_rejected() {
        // The archive library rejects such a name; a manifest may contain it.
        for name in ["../outside", "/etc/passwd", "cwd/../../outside", ""] {
            let manifest = manifest::write(&pack(name).entries);
            let mut out = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).expect("an encoder"));
            for (name, bytes) in [(manifest::NAME, manifest.as_bytes()), ("program/p", b"\x7fELF")] {
                let mut header = tar::Header::new_gnu();
                header.set_size(bytes.len() as u64);
                out.append_data(&mut header, name, bytes).expect("memory");
            }
            let bytes = out.into_inner().and_then(zstd::Encoder::finish).expect("bytes");
            let error = Pack::decode(&bytes).expect_err(name);
            assert!(error.to_string().contains("no name inside"), "{name}: {error}");
        }
    }
}
