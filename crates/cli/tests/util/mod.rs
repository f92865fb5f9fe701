//! Runs the real program, on the demo traces and on small traces made in temporary folders.
#![allow(dead_code, reason = "every test file compiles this module and uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// Result of a run of the program.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program, in the folder of the demo traces, with an environment that does not depend on the machine.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracemill"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces"));
    command.env("TZ", "UTC").env_remove("NO_COLOR").env("TERM", "xterm").stdin(Stdio::null());
    command
}

pub(crate) fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace).display().to_string()
}

/// Runs the program with arguments that are separated by blanks.
pub(crate) fn run(arguments: &str) -> Run {
    run_with(arguments, &[])
}

/// The same with more arguments, which may hold blanks.
pub(crate) fn run_with(arguments: &str, more: &[&str]) -> Run {
    Run::from_output(command().args(arguments.split_whitespace()).args(more).output().expect("the program starts"))
}

/// Output of a successful run on stdout; stderr must be empty.
pub(crate) fn stdout(arguments: &str, more: &[&str]) -> String {
    let run = run_with(arguments, more);
    assert_eq!((run.code, &*run.stderr), (Some(0), ""), "tracemill {arguments} {more:?}");
    run.stdout
}

impl Run {
    pub(crate) fn from_output(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Asserts the exit status, and that stderr holds these texts.
    #[track_caller]
    pub(crate) fn ends(self, code: i32, texts: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "stderr: {}", self.stderr);
        for text in texts {
            assert!(self.stderr.contains(text), "`{text}` is not in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }
}

/// Messages of `print --follow`, without the note that it waits: a busy machine may let it begin before there is a trace.
pub(crate) fn messages_of_follower(stderr: &[u8]) -> String {
    let messages = String::from_utf8_lossy(stderr);
    messages.split_inclusive('\n').filter(|line| !line.starts_with("note: waiting")).collect()
}

/// The JSON values of lines.
pub(crate) fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// The rows of a CSV, the header first.
pub(crate) fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    assert!(row.is_empty() && cell.is_empty(), "the last line has an end");
    rows
}

/// A folder that is removed at the end of a test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tracemill-cli-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder can be made");
        Folder(path)
    }

    /// Writes a file below the folder, with the folders on the way.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("it is below the folder")).expect("a folder can be made");
        fs::write(path, bytes).expect("a file can be written");
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A copy of a demo trace, without its index: what its packets say counts.
    pub(crate) fn copy_of(&self, trace: &str, name: &str) -> &Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace);
        for entry in fs::read_dir(from).expect("the demo is there").flatten() {
            if entry.path().is_file() {
                let bytes = fs::read(entry.path()).expect("it can be read");
                self.file(&format!("{name}/{}", entry.file_name().to_string_lossy()), bytes);
            }
        }
        self
    }

    /// Runs the program in the folder.
    pub(crate) fn run(&self, arguments: &str) -> Run {
        self.run_with(arguments, &[])
    }

    /// The same with more arguments, which may hold blanks.
    pub(crate) fn run_with(&self, arguments: &str, more: &[&str]) -> Run {
        let mut command = command();
        command.current_dir(&self.0).args(arguments.split_whitespace()).args(more);
        Run::from_output(command.output().expect("the program starts"))
    }
}

/// A program whose only function has others inlined into it, of the name and the build id of the demo's recording of samples. The
/// addresses of that recording are in its functions.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const WITH_INLINED: &str = "
volatile unsigned sink;
static inline __attribute__((always_inline)) unsigned stir(unsigned n) { return n * 31 ^ n >> 3; }
static inline __attribute__((always_inline)) void mix(void) { sink = stir(sink) + stir(sink + 1); }
static inline __attribute__((always_inline)) void often(void) { mix(); mix(); mix(); mix(); mix(); mix(); mix(); mix(); }
void _start(void) { often(); often(); often(); often(); often(); often(); often(); often(); for (;;) mix(); }
";

/// Puts a program with inlined functions below `root` in a folder, where `--symfs root` finds it for the demo's samples; `false`
/// where there is no compiler for it.
pub(crate) fn put_program_with_inlined(folder: &Folder) -> bool {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        let demo = fs::read(demo("../samples/bakery")).expect("the program");
        let at = demo.windows(4).position(|bytes| bytes == b"GNU\0").expect("a note") + 4;
        let id: String = demo[at..at + 20].iter().map(|byte| format!("{byte:02x}")).collect();
        let program = "root/usr/local/bin/bakery";
        folder.file("inlined.c", WITH_INLINED).file(program, b"");
        let mut compile = Command::new("gcc");
        compile.args(["-O2", "-g", "-fcf-protection=none", "-static", "-nostdlib", "-Wl,-z,noseparate-code"]);
        compile.arg(format!("-Wl,--build-id=0x{id}")).arg("-o").arg(folder.path(program)).arg(folder.path("inlined.c"));
        match compile.output() {
            Ok(output) => {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                return true;
            }
            Err(_) => eprintln!("left out: there is no gcc"),
        }
    }
    false
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Metadata of a trace whose events `tick` hold a 32-bit `n`, with a clock of 1 GHz.
pub(crate) fn ticks_metadata(clock: &str) -> String {
    format!(
        "/* CTF 1.8 */
typealias integer {{ size = 64; }} := u64;
trace {{ major = 1; minor = 8; byte_order = le; }};
clock {{ name = c; {clock} }};
stream {{
    packet.context := struct {{
        u64 content_size; u64 packet_size;
        integer {{ size = 64; map = clock.c.value; }} timestamp_begin;
        integer {{ size = 64; map = clock.c.value; }} timestamp_end;
        u64 events_discarded;
    }};
    event.header := struct {{ integer {{ size = 64; map = clock.c.value; }} timestamp; }};
}};
event {{ name = \"tick\"; fields := struct {{ integer {{ size = 32; }} n; }}; }};
"
    )
}

/// A packet of such a stream: the events' times and numbers, and the discarded events so far.
pub(crate) fn ticks_packet(events: &[(u64, u32)], discarded: u64) -> Vec<u8> {
    let bits = (40 + 12 * events.len() as u64) * 8;
    let time = |event: Option<&(u64, u32)>| event.map_or(0, |event| event.0);
    let words = [bits, bits, time(events.first()), time(events.last()), discarded];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    for (time, n) in events {
        bytes.extend(time.to_le_bytes());
        bytes.extend(n.to_le_bytes());
    }
    bytes
}

/// A CTF 1.8 trace of one stream with these event classes and bytes of packets without header.
pub(crate) fn plain_trace(folder: &Folder, name: &str, classes: &str, bytes: &[u8]) {
    let metadata = format!(
        "/* CTF 1.8 */
        typealias integer {{ size = 8; align = 8; signed = false; }} := u8;
        typealias integer {{ size = 8; align = 8; signed = false; map = clock.c.value; }} := t8;
        trace {{ major = 1; minor = 8; byte_order = le; }};
        clock {{ name = c; freq = 1000000000; }};
        stream {{
            event.header := struct {{ u8 id; t8 t; }};
            event.context := struct {{ u8 _tid; u8 _pid; }};
        }};
        {classes}"
    );
    fs::create_dir(folder.path(name)).expect("a new folder");
    fs::write(folder.path(name).join("metadata"), metadata).expect("the folder is there");
    fs::write(folder.path(name).join("s"), bytes).expect("the folder is there");
}

/// Everything in a file, or in the files of a folder.
pub(crate) fn content(path: &Path) -> Vec<(String, Vec<u8>)> {
    if path.is_file() {
        return vec![(String::new(), fs::read(path).expect("it can be read"))];
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(path).expect("it is a folder").flatten() {
        for (name, bytes) in content(&entry.path()) {
            all.push((format!("{}/{name}", entry.file_name().to_string_lossy()), bytes));
        }
    }
    all.sort();
    all
}
