//! Names the shared library as programs load it, where it is built to be installed.

fn main() {
    println!("cargo::rerun-if-env-changed=TRACEMILL_SONAME");
    if std::env::var_os("TRACEMILL_SONAME").is_none_or(|wanted| wanted.is_empty()) {
        // Programs that are linked with what cargo built find it by its plain name.
        return;
    }
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    // With 0.x, each minor version may change the interface.
    let number = if major == "0" { format!("{major}.{minor}") } else { major.to_string() };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtracemill_record.so.{number}");
}
