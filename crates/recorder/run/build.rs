//! Compiles the library that is loaded into programs, from its sources alone, so that the program holds it.

use std::path::{Path, PathBuf};
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
    rustc.args(["-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols"]);
    // Paths of the toolchain would make the library differ from one machine to the next.
    rustc.arg(format!("--remap-path-prefix={}=tracemill-run", variable("CARGO_MANIFEST_DIR")));
    let asked = Command::new(variable("RUSTC")).args(["--print", "sysroot"]).output();
    if let Some(folder) = asked.ok().and_then(|output| String::from_utf8(output.stdout).ok()) {
        rustc.arg(format!("--remap-path-prefix={}=rust", folder.trim()));
    }
    let is_glibc = variable("CARGO_CFG_TARGET_ENV") == "gnu";
    // A static program runs programs that are linked with glibc, as nearly all are that can be recorded.
    let target = if is_glibc { variable("TARGET") } else { "x86_64-unknown-linux-gnu".to_string() };
    rustc.args(["--target", &target]);
    // One that links for an older glibc, for instance, so that programs of older systems can load the library.
    println!("cargo::rerun-if-env-changed=TRACEMILL_CALLS_LINKER");
    let own = if is_glibc { std::env::var("RUSTC_LINKER").ok() } else { None };
    if let Some(linker) = std::env::var("TRACEMILL_CALLS_LINKER").ok().or(own) {
        if Path::new(&linker).is_absolute() {
            println!("cargo::rerun-if-changed={linker}");
        }
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    let status = rustc.arg("-o").arg(out).arg(sources.join("lib.rs")).status();
    assert!(status.is_ok_and(|status| status.success()), "the library that is preloaded compiles");
}
