//! Lists and files with symbols, as samples have them looked up.

use std::path::PathBuf;

use tracemill_debug_info::{SymbolFiles, SymbolSearch};
use tracemill_engine::samples::Symbolizer;
use tracemill_format::Demangle;
use tracemill_format::code::{CodeKind, CodeModule, CodePlace};

/// The process whose list is read.
const PROCESS: i64 = 7;

/// A folder with files, removed when dropped.
struct Files(PathBuf);

impl Files {
    fn new(files: [(&str, &[u8]); 3]) -> Files {
        let path = std::env::temp_dir().join(format!("tracemill-fuzz-symbols-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        let folder = Files(path);
        for (name, bytes) in files {
            std::fs::write(folder.0.join(name), bytes).expect("a temporary file can be written");
        }
        folder
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads the bytes as an ELF file, as the kernel's list and as a program's list, and looks for the function at each place.
pub(crate) fn read(places: [u64; 2], bytes: &[u8]) {
    let map = format!("perf-{PROCESS}.map");
    let folder = Files::new([("app", bytes), ("kallsyms", bytes), (&map, bytes)]);
    let files = SymbolFiles::new(SymbolSearch {
        target_prefix: Some(folder.0.clone()),
        dir: Some(folder.0.clone()),
        kallsyms: Some(folder.0.join("kallsyms")),
        beside: vec![folder.0.clone()],
        demangle: Demangle::Full,
        ..SymbolSearch::default()
    });
    let module = |path: &str, kind| CodeModule { path: path.into(), build_id: None, kind };
    let modules = [
        module("/app", CodeKind::File),
        module("//anon", CodeKind::Memory),
        module("[kernel.kallsyms]", CodeKind::Kernel { symbol: "_text".into(), address: places[1] }),
        module("[driver]", CodeKind::KernelModule),
    ];
    for module in &modules {
        for place in [places[0], places[1], places[0].wrapping_add(places[1]), 0, u64::MAX] {
            let at = CodePlace { module: 0, offset: place, address: place };
            let found = files.functions(module, PROCESS, at);
            assert_eq!(found, files.functions(module, PROCESS, at), "the same place has another name");
            assert!(found.len() <= 1, "a place in one function has {} names", found.len());
        }
    }
    assert!(files.missing().len() <= modules.len(), "a reason is given more than once");
}
