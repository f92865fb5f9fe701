//! Inlined functions of a program that gcc optimised, compared with those that `addr2line` of the binutils finds.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use object::read::{Object, ObjectSection};
use tracemill_debug_info::{SymbolFiles, SymbolSearch};
use tracemill_engine::samples::Symbolizer;
use tracemill_format::code::{CodeKind, CodeModule, CodePlace};

const PROGRAM: &str = "
#include <stdio.h>
#include <stdlib.h>
static inline int mix(int a, int b) { return (a * 31 + b) ^ (a >> 3); }
static inline int round_of(int *state, int n) {
    for (int at = 0; at < n; at++) state[at & 7] = mix(state[at & 7], at) + mix(at, n);
    return state[n & 7];
}
static int sorted(const void *a, const void *b) { return mix(*(const int *)a, 1) - mix(*(const int *)b, 1); }
__attribute__((noinline)) int work(int n) {
    int state[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int sum = round_of(state, n);
    if (n % 3 == 0) { int inner = round_of(state, n / 2); sum += mix(inner, sum); }
    qsort(state, 8, sizeof *state, sorted);
    return sum + state[0];
}
int main(int count, char **words) {
    int sum = 0;
    for (int at = 0; at < count * 1000; at++) sum = mix(sum, work(at));
    printf(\"%d\\n\", sum);
    return 0;
}
";

/// A folder that goes away with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The functions of addresses as `addr2line` shows them, innermost first.
fn functions_of_addr2line(program: &Path, addresses: &[u64]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("addr2line");
    command.args(["-i", "-f", "-a", "-e"]).arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().ok()?;
    let mut stdin = process.stdin.take()?;
    let text: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = process.wait_with_output().ok()?;
    writer.join().ok()?.ok()?;
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut is_name = false;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match found.last_mut().filter(|_| !line.starts_with("0x")) {
            None => {
                found.push(Vec::new());
                is_name = true;
            }
            Some(names) => {
                if is_name {
                    names.push(line.to_string());
                }
                is_name = !is_name;
            }
        }
    }
    Some(found)
}

/// A name without the marks of copies and parts of a function.
fn plain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[test]
fn gcc_and_addr2line_agree() {
    let folder = Folder(std::env::temp_dir().join(format!("tracemill-inlined-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let (source, program) = (folder.0.join("work.c"), folder.0.join("work"));
    std::fs::write(&source, PROGRAM).expect("a source");
    for flags in [&["-O2", "-g"][..], &["-O3", "-gdwarf-4"], &["-O2", "-g", "-gz"]] {
        let mut compile = Command::new("gcc");
        compile.args(flags).arg("-o").arg(&program).arg(&source);
        if !compile.status().is_ok_and(|status| status.success()) {
            return eprintln!("left out: there is no gcc");
        }
        let bytes = std::fs::read(&program).expect("a program");
        let elf = object::read::File::parse(&*bytes).expect("an ELF file");
        let code = elf.section_by_name(".text").expect("code");
        let (offset, size) = code.file_range().expect("bytes");
        let addresses: Vec<u64> = (0..size).map(|at| code.address() + at).collect();
        let Some(theirs) = functions_of_addr2line(&program, &addresses) else {
            return eprintln!("left out: there is no addr2line");
        };
        assert_eq!(theirs.len(), addresses.len());
        let functions = |skips_inlined: bool| -> Vec<Vec<String>> {
            let files = SymbolFiles::new(SymbolSearch { skips_inlined, ..SymbolSearch::default() });
            let path = program.display().to_string();
            let module = CodeModule { path, build_id: None, kind: CodeKind::File };
            let place = |at: u64| CodePlace { module: 0, offset: offset + at, address: 0 };
            (0..size).map(|at| files.functions(&module, 1, place(at))).collect()
        };
        let ours = functions(false);
        let mut deepest = 0;
        for ((theirs, ours), address) in theirs.iter().zip(&ours).zip(&addresses) {
            // Code of the C library's start has no debugging information.
            if theirs[0] != "??" && theirs.len() + ours.len() > 2 || theirs[0] == "work" {
                let ours: Vec<&str> = ours.iter().map(|name| plain(name)).collect();
                let theirs: Vec<&str> = theirs.iter().map(|name| plain(name)).collect();
                assert_eq!(ours, theirs, "{address:#x}, {flags:?}");
                deepest = deepest.max(ours.len());
            }
        }
        assert!(deepest >= 3, "{flags:?}");
        assert!(functions(true).iter().all(|names| names.len() < 2));
    }
}
