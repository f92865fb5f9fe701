//! How the program with SQL is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_known = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is_known && std::env::var_os("CARGO_FEATURE_SQL").is_some() {
        // At any address, 211,288 pointers would have to be set at each start, of whatever command: 3 ms
        // (docs/decisions/0015).
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
