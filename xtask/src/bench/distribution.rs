//! Programs of the distribution: their sources are fetched, compiled and run here; none of them is part of this
//! repository.

use crate::workspace::output;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A multi-threaded program that converts one file into another.
pub(super) struct Package {
    /// The name of its source package.
    pub(super) name: &'static str,
    /// A shell script in the source directory, with `CC` and `CXX` set, and `SAN` to the linker's flags. It leaves its
    /// result at `program`.
    build: &'static str,
    program: &'static str,
    /// The arguments, with a file named `input`.
    args: &'static [&'static str],
    /// Number of lines of the input.
    lines: usize,
    /// Files with these extensions in these directories are counted.
    sources: &'static str,
}

pub(super) const PACKAGES: &[Package] = &[
    Package {
        name: "pbzip2",
        build: "$CXX -O1 -g -w -pthread -D_POSIX_PTHREAD_SEMANTICS -D_FILE_OFFSET_BITS=64 \
                -DUSE_STACKSIZE_CUSTOMIZATION *.cpp -lbz2 -o built",
        program: "built",
        args: &["-p3", "-b1", "-1", "-k", "-f", "input"],
        // One block, as for the figures in docs/results.md.
        lines: 1_500,
        sources: ".",
    },
    Package {
        name: "libzstd",
        build: "make -s -C programs zstd HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 ZSTD_LEGACY_SUPPORT=0 \
                CFLAGS='-O1 -g -w -pthread' LDFLAGS=\"$SAN\"",
        program: "programs/zstd",
        args: &["-q", "-f", "-T2", "-1", "-B524288", "input", "-o", "output"],
        lines: 24_000,
        sources: "lib/common lib/compress lib/decompress programs",
    },
    Package {
        name: "xz-utils",
        build: "./configure -q --disable-shared --disable-nls --disable-doc --disable-scripts --disable-lzmadec \
                --disable-lzmainfo --disable-xzdec --disable-lzma-links --disable-assembler CFLAGS='-O1 -g -w' \
                LDFLAGS=\"$SAN\" && make -s",
        program: "src/xz/xz",
        args: &["-k", "-f", "-T2", "-0", "--block-size=16KiB", "input"],
        lines: 1_000,
        sources: "src/liblzma src/xz src/common",
    },
];

/// The source of packages: the machine's own package list, extended by sources.
pub(super) struct Archive {
    directory: PathBuf,
    options: Vec<OsString>,
}

/// A package that was unpacked.
pub(super) struct UnpackedSource {
    source: PathBuf,
    pub(super) lines: usize,
}

impl Archive {
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let list = directory.join("sources");
        std::fs::create_dir_all(&list)?;
        std::fs::create_dir_all(directory.join("lists/partial"))?;
        for entry in std::fs::read_dir("/etc/apt/sources.list.d")?.filter_map(Result::ok) {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "sources") {
                let text = std::fs::read_to_string(&path)?;
                let sources: String = text
                    .lines()
                    .map(|line| {
                        if line.starts_with("Types:") {
                            "Types: deb-src\n".into()
                        } else {
                            format!("{line}\n")
                        }
                    })
                    .collect();
                std::fs::write(list.join(entry.file_name()), sources)?;
            }
        }
        let one_line = std::fs::read_to_string("/etc/apt/sources.list").unwrap_or_default();
        let one_line: String = one_line
            .lines()
            .filter_map(|line| Some(format!("deb-src {}\n", line.strip_prefix("deb ")?)))
            .collect();
        std::fs::write(list.join("more.list"), one_line)?;
        let option = |name: &str, path: &Path| {
            let mut option = OsString::from(format!("{name}="));
            option.push(path);
            ["-o".into(), option]
        };
        let options = [
            option("Dir::Etc::SourceList", Path::new("/dev/null")),
            option("Dir::Etc::SourceParts", &list),
            option("Dir::State::Lists", &directory.join("lists")),
            // Downloads go to a directory of ours, so apt must not switch users.
            option("APT::Sandbox::User", Path::new("root")),
        ];
        let archive =
            Self { directory: directory.to_owned(), options: options.into_iter().flatten().collect() };
        output(archive.apt_get().arg("update"), "apt-get update")?;
        Ok(archive)
    }

    fn apt_get(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.arg("-qq").args(&self.options).current_dir(&self.directory).stdin(Stdio::null());
        command
    }

    /// Fetches a package's source and unpacks it, once per compiler.
    pub(super) fn unpack(&self, package: &Package, by: &str) -> Result<UnpackedSource> {
        let place = self.directory.join(package.name);
        std::fs::create_dir_all(&place)?;
        let descriptions = |place: &Path| -> Result<Vec<PathBuf>> {
            let files = std::fs::read_dir(place)?.filter_map(|entry| Some(entry.ok()?.path()));
            Ok(files.filter(|path| path.extension().is_some_and(|e| e == "dsc")).collect())
        };
        if descriptions(&place)?.is_empty() {
            let mut fetch = self.apt_get();
            fetch.current_dir(&place).args(["source", "--download-only", package.name]);
            output(&mut fetch, "apt-get source")?;
        }
        let description = descriptions(&place)?.pop().context("apt-get source brought nothing")?;
        let source = place.join(by);
        let mut unpack = Command::new("dpkg-source");
        unpack.args(["--no-check", "--no-copy", "-x"]).arg(description).arg(&source);
        output(&mut unpack, "dpkg-source")?;
        let lines = format!(
            "cd \"$0\" && find {} -name '*.[ch]' -o -name '*.cpp' | xargs cat | wc -l",
            package.sources
        );
        let counted = output(Command::new("sh").arg("-c").arg(lines).arg(&source), "wc")?;
        let lines = String::from_utf8_lossy(&counted.stdout).trim().parse().unwrap_or(0);
        Ok(UnpackedSource { source, lines })
    }
}

impl UnpackedSource {
    /// Compiles it and returns the program.
    pub(super) fn build(&self, package: &Package, cc: &str, cxx: &str, linker: &str) -> Result<PathBuf> {
        let mut build = Command::new("sh");
        build.args(["-c", package.build]).current_dir(&self.source);
        build.env("CC", cc).env("CXX", cxx).env("SAN", linker);
        output(&mut build, package.name)?;
        let program = self.source.join(package.program);
        ensure!(program.is_file(), "{} was compiled, but there is no {}", package.name, package.program);
        Ok(program)
    }
}

impl Package {
    /// Returns its arguments.
    pub(super) fn args(&self) -> Vec<String> {
        self.args.iter().map(|&arg| arg.to_owned()).collect()
    }

    /// Writes its input.
    pub(super) fn write_input(&self, directory: &Path) -> Result<()> {
        let line = |n: usize| format!("line {n} of some text that can be made shorter, {}\n", n * n % 977);
        std::fs::write(directory.join("input"), (0..self.lines).map(line).collect::<String>())?;
        Ok(())
    }
}
