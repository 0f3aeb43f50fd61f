//! The programs: how they are prepared, and their arguments.

use crate::tools::{self, Tool};

/// A program that is known to be correct.
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) tools: &'static [Tool],
    /// A shell script, in the program's own directory. `SOURCES` is the directory of our small programs, `UNSNARL` the
    /// command.
    pub(super) prepare: &'static str,
    pub(super) command: &'static [&'static str],
    pub(super) environment: &'static [(&'static str, &'static str)],
    pub(super) compare: Compare,
    pub(super) expected: Expected,
    /// Its accesses are instrumented, so data races can be searched for.
    pub(super) instrumented: bool,
}

/// Which output is right.
#[derive(Clone, Copy, Debug)]
pub(super) enum Compare {
    Exactly,
    /// That of a test harness, regardless of order and times.
    TestHarness,
}

pub(super) enum Expected {
    Result,
    /// Unsnarl refuses the program with this reason.
    Refused(&'static str),
}

const PLAIN: Subject = Subject {
    name: "",
    tools: &[],
    prepare: "",
    command: &[],
    environment: &[],
    compare: Compare::Exactly,
    expected: Expected::Result,
    instrumented: false,
};

/// Makes a file of 200 KiB that can be compressed.
const INPUT: &str = "seq 1 36000 | awk '{ print $1 * 7919 % 65537 }' > input";

/// Fetches a crate and builds one of its test programs, as `./suite`.
macro_rules! suite {
    ($crate_name:literal, $version:literal, $build:literal) => {
        concat!(
            "test -x suite && exit 0; curl -fsSL https://static.crates.io/crates/",
            $crate_name,
            "/",
            $crate_name,
            "-",
            $version,
            ".crate | tar xz; cd ",
            $crate_name,
            "-",
            $version,
            "; printf '\\n[workspace]\\n' >> Cargo.toml; cargo test --quiet --no-run ",
            $build,
            " --message-format=json | grep -o '\"executable\":\"[^\"]*\"' | tail -1 | cut -d'\"' -f4 > ../path; ",
            "cp \"$(cat ../path)\" ../suite"
        )
    };
}

const fn compressor(name: &'static str, command: &'static [&'static str]) -> Subject {
    Subject { name, tools: tools::REAL, prepare: INPUT, command, ..PLAIN }
}

const fn compiled(
    name: &'static str,
    tools: &'static [Tool],
    prepare: &'static str,
    command: &'static [&'static str],
) -> Subject {
    Subject { name, tools, prepare, command, ..PLAIN }
}

const fn test_suite(name: &'static str, prepare: &'static str, command: &'static [&'static str]) -> Subject {
    Subject { name, prepare, command, compare: Compare::TestHarness, ..PLAIN }
}

pub(super) const SUBJECTS: &[Subject] = &[
    compressor("xz", &["xz", "-T4", "-1", "--block-size=64KiB", "-c", "input"]),
    compressor("zstd", &["zstd", "-q", "-T4", "-B64KB", "--stdout", "input"]),
    compressor("pigz", &["pigz", "-p", "4", "-b", "32", "-c", "input"]),
    compressor("pbzip2", &["pbzip2", "-p4", "-b1", "-c", "input"]),
    compressor("lbzip2", &["lbzip2", "-n", "4", "-1", "-c", "input"]),
    compressor("plzip", &["plzip", "-n", "4", "-1", "-c", "input"]),
    compressor("7z", &["/usr/lib/p7zip/7z", "a", "-mmt4", "-txz", "-so", "unused", "input"]),
    Subject {
        name: "sort",
        prepare: "seq 1 140000 | awk '{ print $1 * 7919 % 65537 }' > lines",
        command: &["sort", "--parallel=4", "-S", "20M", "lines"],
        ..PLAIN
    },
    compiled(
        "Python: queue, futures",
        tools::PYTHON_NUMPY,
        "cp $SOURCES/queue_and_futures.py .",
        &[tools::PYTHON, "queue_and_futures.py"],
    ),
    compiled(
        "Python: NumPy",
        tools::PYTHON_NUMPY,
        "cp $SOURCES/numpy_threads.py .",
        &[tools::PYTHON, "numpy_threads.py"],
    ),
    compiled(
        "ffmpeg",
        tools::MEDIA,
        "",
        &[
            "ffmpeg",
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "testsrc=size=160x120:rate=10:duration=1",
            "-threads",
            "3",
            "-c:v",
            "mpeg4",
            "-bitexact",
            "-f",
            "avi",
            "-",
        ],
    ),
    compiled(
        "x264",
        tools::MEDIA,
        "ffmpeg -v error -y -f lavfi -i testsrc=size=96x64:rate=10:duration=1 -pix_fmt yuv420p v.y4m",
        &["x264", "--quiet", "--threads", "3", "--preset", "veryfast", "--muxer", "raw", "-o", "-", "v.y4m"],
    ),
    compiled(
        "ImageMagick",
        tools::MEDIA,
        "",
        &["/usr/bin/convert-im6.q16", "-size", "200x200", "gradient:red-blue", "-blur", "0x3", "PPM:-"],
    ),
    compiled(
        "GStreamer",
        tools::MEDIA,
        // The first start writes a list of plug-ins.
        "gst-launch-1.0 -q fakesrc num-buffers=1 ! fakesink",
        &[
            "gst-launch-1.0",
            "-q",
            "fakesrc",
            "num-buffers=20",
            "!",
            "tee",
            "name=t",
            "!",
            "queue",
            "!",
            "fakesink",
            "t.",
            "!",
            "queue",
            "!",
            "fakesink",
        ],
    ),
    compiled(
        "GLib",
        tools::LIBRARIES,
        "gcc -O1 -g $SOURCES/glib.c -o program $(pkg-config --cflags --libs gio-2.0)",
        &["./program"],
    ),
    compiled(
        "git grep",
        tools::GIT,
        "test -d .git || { git init -q; seq 1 9000 | split -l 300; git add x*; }",
        &["git", "grep", "--threads=4", "-c", "77"],
    ),
    compiled(
        "git pack-objects",
        tools::GIT,
        "test -d .git && exit 0; git init -q; seq 1 9000 | split -l 300; git add x*; \
         git -c user.name=a -c user.email=b commit -qm one; seq 2 9001 | split -l 300; git add x*; \
         git -c user.name=a -c user.email=b commit -qm two",
        &["git", "-c", "pack.threads=4", "pack-objects", "--all", "--stdout", "--delta-base-offset", "-q"],
    ),
    compiled(
        "SQLite, on disk",
        tools::LIBRARIES,
        "gcc -O1 -g $SOURCES/sqlite.c -o program -lsqlite3 -pthread",
        &["./program"],
    ),
    compiled(
        "LevelDB, on disk",
        tools::LIBRARIES,
        "g++ -O1 -g $SOURCES/leveldb.cpp -o program -lleveldb -pthread",
        &["./program"],
    ),
    compiled(
        "libzmq, tcp",
        tools::LIBRARIES,
        "gcc -O1 -g $SOURCES/zmq.c -o program -lzmq -pthread",
        &["./program"],
    ),
    compiled(
        "libzmq, inproc",
        tools::LIBRARIES,
        "gcc -O1 -g $SOURCES/zmq.c -o program -lzmq -pthread",
        &["./program", "inproc://here"],
    ),
    compiled("TBB", tools::LIBRARIES, "g++ -O1 -g $SOURCES/tbb.cpp -o program -ltbb", &["./program"]),
    compiled(
        "Boost.Asio",
        tools::LIBRARIES,
        "test -x program || g++ -O1 -g $SOURCES/asio.cpp -o program -pthread",
        &["./program"],
    ),
    Subject {
        instrumented: true,
        ..compiled(
            "Boost.Asio, c++",
            tools::LIBRARIES,
            "test -x program || $UNSNARL c++ -O1 -g $SOURCES/asio.cpp -o program -pthread",
            &["./program"],
        )
    },
    Subject {
        environment: &[("OMP_NUM_THREADS", "4")],
        ..compiled("OpenMP", &[], "gcc -O2 -g -fopenmp $SOURCES/../openmp.c -o program", &["./program"])
    },
    compiled("Node.js", &[], "cp $SOURCES/workers.js .", &["node", "workers.js"]),
    Subject {
        expected: Expected::Refused("a Java virtual machine"),
        ..compiled("Java", tools::JAVA, "", &["java", "-version"])
    },
    compiled(
        "ripgrep",
        &[],
        "test -x rg || { CARGO_TARGET_DIR=target cargo install --quiet --debug --root . ripgrep@14.1.1; cp bin/rg .; }; \
         test -f xaa || seq 1 9000 | split -l 300",
        &["./rg", "--threads", "3", "--sort", "path", "-c", "77"],
    ),
    compiled(
        "ripgrep, unsorted",
        &[],
        "test -x rg || { CARGO_TARGET_DIR=target cargo install --quiet --debug --root . ripgrep@14.1.1; cp bin/rg .; }; \
         test -f xaa || seq 1 9000 | split -l 300",
        &["./rg", "--threads", "3", "-c", "--no-messages", "-q", "77"],
    ),
    test_suite(
        "crossbeam-channel's tests",
        suite!("crossbeam-channel", "0.5.15", "--test zero"),
        &["./suite", "--test-threads=2", "--skip", "stress", "--skip", "fairness", "--skip", "timeout"],
    ),
    test_suite(
        "parking_lot's tests",
        suite!("parking_lot", "0.12.3", "--lib"),
        &["./suite", "--test-threads=2", "mutex::"],
    ),
    test_suite(
        "flume's tests",
        suite!("flume", "0.11.1", "--test basic"),
        &["./suite", "--test-threads=2", "--skip", "timeout", "--skip", "mpmc", "--skip", "hundreds"],
    ),
    test_suite("dashmap's tests", suite!("dashmap", "6.1.0", "--lib"), &["./suite", "--test-threads=2"]),
    test_suite(
        "rayon-core's tests",
        suite!("rayon-core", "1.12.1", "--lib"),
        &["./suite", "--test-threads=1", "join::"],
    ),
];
