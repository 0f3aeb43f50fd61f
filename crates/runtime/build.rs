//! Gives the library its name, so that a preloaded copy replaces the one a program was linked with.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libunsnarl_rt.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rerun-if-changed=build.rs");
}
