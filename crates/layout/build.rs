//! Makes the loader call this library's constructor before all others: they run again after the program was
//! reloaded.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libunsnarl_layout.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
    println!("cargo:rerun-if-changed=build.rs");
}
