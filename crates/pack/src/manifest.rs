//! The manifest: the files of a pack and their origin.

use crate::Error;
use serde_json::{Value, json};

/// The format of packs; newer ones are rejected.
pub(crate) const FORMAT: u64 = 1;

/// The manifest's name in the archive.
pub(crate) const NAME: &str = "MANIFEST.json";

/// The purpose of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The trace itself.
    Trace,
    /// The proof that the trace is minimal.
    Proof,
    /// The program.
    Program,
    /// A library, or the loader.
    Library,
    /// A file that the program reads.
    Input,
    /// Source code, for display.
    Source,
}

impl Role {
    const ALL: [Self; 6] =
        [Self::Trace, Self::Proof, Self::Program, Self::Library, Self::Input, Self::Source];

    /// Returns the name in the manifest.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Proof => "proof",
            Self::Program => "program",
            Self::Library => "library",
            Self::Input => "input",
            Self::Source => "source",
        }
    }
}

/// One file of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackEntry {
    pub role: Role,
    /// Its name in the archive: a relative path without `..`.
    pub name: String,
    /// The original path.
    pub origin: String,
    pub executable: bool,
    /// The contents.
    pub bytes: Vec<u8>,
}

/// Writes the manifest of these files.
pub(crate) fn write(entries: &[PackEntry]) -> String {
    let files: Vec<Value> = entries
        .iter()
        .map(|entry| {
            json!({
                "role": entry.role.name(), "name": entry.name, "origin": entry.origin,
                "executable": entry.executable, "bytes": entry.bytes.len(),
                "crc32": crc32fast::hash(&entry.bytes),
            })
        })
        .collect();
    format!("{:#}\n", json!({ "unsnarl_pack": FORMAT, "files": files }))
}

/// Reads the files listed in a manifest, without contents, each with its checksum.
pub(crate) fn read(text: &[u8]) -> Result<Vec<(PackEntry, u32)>, Error> {
    let wrong = |field: &str| Error::Damaged(format!("the pack's manifest has no {field}"));
    let value: Value = serde_json::from_slice(text).map_err(|_| wrong("meaning"))?;
    match value["unsnarl_pack"].as_u64().ok_or_else(|| wrong("version"))? {
        FORMAT => {}
        other => return Err(Error::Newer(other)),
    }
    let entry = |file: &Value| {
        let word = |name: &str| file[name].as_str().ok_or_else(|| wrong(name)).map(str::to_owned);
        let role = word("role")?;
        let role = Role::ALL.into_iter().find(|known| known.name() == role).ok_or_else(|| wrong("role"))?;
        let crc = file["crc32"].as_u64().and_then(|crc| u32::try_from(crc).ok());
        let entry = PackEntry {
            role,
            name: word("name")?,
            origin: word("origin")?,
            executable: file["executable"] == true,
            bytes: Vec::new(),
        };
        Ok((entry, crc.ok_or_else(|| wrong("checksum"))?))
    };
    value["files"].as_array().ok_or_else(|| wrong("files"))?.iter().map(entry).collect()
}
