//! Compiles the library that is loaded into programs, from its sources alone, so that the program holds it.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let out = PathBuf::from(variable("OUT_DIR")).join("libtracemill_calls.so");
    // Links to the crates `preload`, `ring` and `record`, whose files a package has as its own.
    let sources = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("preload");
    for sources in [sources.clone(), sources.join("layout.rs"), sources.join("replace.rs")] {
        println!("cargo::rerun-if-changed={}", sources.display());
    }
    let (system, processor) = (variable("CARGO_CFG_TARGET_OS"), variable("CARGO_CFG_TARGET_ARCH"));
    if system != "linux" || processor != "x86_64" {
        // The command says then that calls cannot be recorded here.
        std::fs::write(out, "").expect("the folder of the build can be written");
        return;
    }
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args([
        "--edition",
        "2024",
        "--crate-name",
        "tracemill_calls",
        "--crate-type",
        "cdylib",
        "--cap-lints",
        "allow",
    ]);
    rustc.args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols", "--target", &variable("TARGET")]);
    let status = rustc.arg("-o").arg(out).arg(sources.join("lib.rs")).status();
    assert!(status.is_ok_and(|status| status.success()), "the library that is preloaded compiles");
}
