//! How the program with SQL is linked, and whether it can record.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let has_feature = |name: &str| std::env::var_os(format!("CARGO_FEATURE_{name}")).is_some();
    let (system, processor) = (variable("CARGO_CFG_TARGET_OS"), variable("CARGO_CFG_TARGET_ARCH"));
    if system == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu" && has_feature("SQL") {
        // At any address, 211,288 pointers would have to be set at each start, of whatever command: 3 ms
        // (docs/decisions/0015).
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    println!("cargo::rustc-check-cfg=cfg(has_recorder)");
    // `Cargo.toml` has the same list.
    if system == "linux" && ["aarch64", "x86_64"].contains(&&*processor) && has_feature("RECORD") {
        println!("cargo::rustc-cfg=has_recorder");
    }
}
