//! Names of code and data, from the files of the program that ran.

use crate::{
    AccessCall, Frame, FunctionCode, SizedPart, image::Image, is_system, site_of, system::is_library_module,
};
use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
};
use unsnarl_model::{Module, Site};

/// Looks up names of code and data. Opens a module's file on first use, and keeps it open.
#[derive(Default)]
pub struct Symbols {
    /// By path; `None` if the file is missing or damaged.
    images: HashMap<String, Option<Image>>,
    stale: Vec<String>,
    /// A directory with the original versions of files that were rebuilt since, by build id.
    build_archive: Option<PathBuf>,
}

impl Symbols {
    /// Creates an empty lookup without open files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a lookup that takes files that were rebuilt since from this directory, where they are named by
    /// build id.
    #[must_use]
    pub fn with_builds(directory: PathBuf) -> Self {
        Self { build_archive: Some(directory), ..Self::default() }
    }

    /// Returns the functions at a site, innermost first; several if calls were inlined, but at least one.
    ///
    /// Without debug information it is the symbol and an offset (`visit+0x1c`), without symbols the module
    /// and an offset (`libz.so.1+0x1234`).
    pub fn lookup(&mut self, modules: &[Module], site: Site) -> Vec<Frame> {
        let Some(module) = modules.get(usize::from(site.module.0)) else {
            return vec![unknown("?", site.offset, false)];
        };
        let mut frames = self.image(module).map(|i| i.frames(site.offset)).unwrap_or_default();
        let system = is_library_module(&module.path);
        if frames.is_empty() {
            let name = module.path.rsplit('/').next().unwrap_or(&module.path);
            frames.push(unknown(name, site.offset, system));
        }
        frames.iter_mut().for_each(|frame| frame.system |= system);
        frames
    }

    /// Returns the name of the global variable at an address, like `lock`, `table[4].count`, or without type
    /// information `table+16`.
    pub fn data_symbol(&mut self, modules: &[Module], addr: u64) -> Option<String> {
        self.data_symbol_of(modules, addr, 0)
    }

    /// Like [`data_symbol`](Self::data_symbol), for an access to this many bytes.
    pub fn data_symbol_of(&mut self, modules: &[Module], addr: u64, len: u64) -> Option<String> {
        let site = site_of(modules, addr)?;
        self.image(modules.get(usize::from(site.module.0))?)?.variable(site.offset, len)
    }

    /// Returns the sizes that a part of an expression of this site's module can have; `None` if nothing is known of it.
    pub fn sizes(&mut self, modules: &[Module], site: Site, part: &SizedPart<'_>) -> Option<Vec<u64>> {
        self.image(modules.get(usize::from(site.module.0))?)?.sizes(part)
    }

    /// Returns whether all members and variables of a name in this site's module are arrays; `None` if only some are, or
    /// none is known.
    pub fn is_array(&mut self, modules: &[Module], site: Site, name: &str) -> Option<bool> {
        self.image(modules.get(usize::from(site.module.0))?)?.is_array(name)
    }

    /// Returns the calls that report accesses to the runtime, in the function that contains this site.
    pub fn access_calls_around(&mut self, modules: &[Module], site: Site) -> Vec<AccessCall> {
        let image = modules.get(usize::from(site.module.0)).and_then(|module| self.image(module));
        image.map(|image| image.access_calls_around(site.offset)).unwrap_or_default()
    }

    /// Returns all calls of a module that report accesses to the runtime.
    pub fn access_calls(&mut self, module: &Module) -> Vec<AccessCall> {
        self.image(module).map(Image::all_access_calls).unwrap_or_default()
    }

    /// Returns the code ranges of a function, a file or a line (`push`, `queue.c`, `queue.c:42`) of the
    /// module at this path, as offsets from the debug information. Empty if there is none of that name.
    pub fn ranges(&mut self, path: &str, name: &str) -> Vec<(u64, u64)> {
        let module = Module { path: path.to_owned(), ..Module::default() };
        self.image(&module).map(|image| image.ranges(name)).unwrap_or_default()
    }

    /// Returns the function that contains a site, which is not an inlined one.
    pub fn function_code(&mut self, modules: &[Module], site: Site) -> Option<FunctionCode> {
        self.image(modules.get(usize::from(site.module.0))?)?.function_code_at(site.offset)
    }

    /// Returns the only function with this name, as in [`FunctionCode`], of the module at this path.
    pub fn function_code_of(&mut self, path: &str, name: &str) -> Option<FunctionCode> {
        let module = Module { path: path.to_owned(), ..Module::default() };
        self.image(&module)?.function_code_of(name)
    }

    /// Returns the C string at an address of a module's constant data.
    pub fn text(&mut self, modules: &[Module], addr: u64) -> Option<String> {
        let site = site_of(modules, addr)?;
        self.image(modules.get(usize::from(site.module.0))?)?.text(site.offset)
    }

    /// Returns the innermost of these frames (innermost first) in user code: outside the system's libraries,
    /// and outside code that the language put into the user's module.
    ///
    /// If everything in the user's module came with the language, it is that module's innermost frame.
    pub fn user_frame(&mut self, modules: &[Module], frames: &[Site]) -> Option<Site> {
        let in_user_module = |site: &&Site| {
            modules.get(usize::from(site.module.0)).is_some_and(|module| !is_system(&module.path))
        };
        frames
            .iter()
            .filter(in_user_module)
            .find(|site| self.lookup(modules, **site).iter().any(|frame| !frame.system))
            .or_else(|| frames.iter().find(in_user_module))
            .copied()
    }

    /// Returns the files looked up so far that were rebuilt since the trace was recorded: they are treated as
    /// missing, because their lines would be wrong.
    #[must_use]
    pub fn stale(&self) -> &[String] {
        &self.stale
    }

    fn image(&mut self, module: &Module) -> Option<&Image> {
        if !self.images.contains_key(&module.path) {
            self.images.insert(module.path.clone(), Image::open(Path::new(&module.path)));
        }
        let fits = |image: &Image| {
            image.build_id().is_empty() || module.build_id.is_empty() || image.build_id() == module.build_id
        };
        if self.images[&module.path].as_ref().is_some_and(fits) {
            return self.images[&module.path].as_ref();
        }
        if let Some(build_archive) =
            self.build_archive.as_ref().map(|directory| directory.join(hex(&module.build_id)))
        {
            let path = build_archive.to_string_lossy().into_owned();
            let image = self.images.entry(path).or_insert_with_key(|path| Image::open(Path::new(path)));
            return image.as_ref().filter(|image| image.build_id() == module.build_id);
        }
        self.images[&module.path].as_ref()?;
        if !self.stale.contains(&module.path) {
            self.stale.push(module.path.clone());
        }
        None
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").field("opened", &self.images.keys()).field("stale", &self.stale).finish()
    }
}

/// Formats a build id.
#[must_use]
pub fn hex(build_id: &[u8]) -> String {
    build_id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unknown(module: &str, offset: u64, system: bool) -> Frame {
    Frame { function: Some(format!("{module}+{offset:#x}")), system, ..Frame::default() }
}
