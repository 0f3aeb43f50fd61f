//! Builds the libraries that are preloaded into programs, so that they can be embedded in the `unsnarl` binary: `cargo
//! install` alone is enough.

use std::{env, path::PathBuf, process::Command};

fn main() {
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for part in ["runtime", "layout", "sched", "race", "insn", "wire", "model"] {
        println!("cargo:rerun-if-changed={}", crates.join(part).display());
    }
    println!("cargo:rerun-if-changed=build.rs");

    // A separate build in its own directory: it has other settings, another panic strategy and no std.
    let target = out.join("runtime");
    let status = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .args(["build", "--package", "unsnarl-runtime", "--package", "unsnarl-layout"])
        .args(["--profile", "runtime", "--target-dir"])
        .arg(&target)
        .arg("--manifest-path")
        .arg(crates.join("runtime/Cargo.toml"))
        // Settings of the outer build (coverage, sanitizers, a wrapper) must not apply to this one.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the runtime did not build");
    for (variable, library) in
        [("UNSNARL_RUNTIME", "libunsnarl_rt.so"), ("UNSNARL_LAYOUT", "libunsnarl_layout.so")]
    {
        println!("cargo:rustc-env={variable}={}", target.join("runtime").join(library).display());
    }
}
