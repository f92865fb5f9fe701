//! Files of other tools, which no format reads: what they are, and the way from them to a trace that can be read.

/// A kind of file that cannot be read as a trace.
#[derive(Debug)]
pub struct ForeignFormat {
    /// Its description, with an article: `a recording of perf`.
    pub description: &'static str,
    /// A way for its owner to make it readable.
    pub way_in: &'static str,
    /// Do these first bytes belong to such a file?
    is_it: fn(&[u8]) -> bool,
}

/// Bytes of a file by which it can be recognized.
pub const HEAD_BYTES: usize = 4096;

/// The kind of a file, by its first bytes ([`HEAD_BYTES`], or all of them).
pub fn recognize(head: &[u8]) -> Option<&'static ForeignFormat> {
    KINDS.iter().find(|kind| (kind.is_it)(head))
}

const PERF_WAY_IN: &str =
    "lines need a thread, a time and an event: print them by `perf script` without -F, or name the perf.data";
const PERF_DATA_WAY_IN: &str = "it is cut, or of a perf before Linux 2.6.35: a newer perf writes what can be read";
const RAW_PROFILE_WAY_IN: &str = "open it in profiler.firefox.com and save it from there: that form can be read";

const KINDS: [ForeignFormat; 17] = [
    kind("a recording of perf (perf.data)", PERF_DATA_WAY_IN, |head| {
        head.starts_with(b"PERFILE2") || head.starts_with(b"PERFFILE") || head.starts_with(b"2ELIFREP")
    }),
    kind(
        "a page of systrace without text of ftrace",
        "tracemill reads pages that hold the text, in an element `trace-data`",
        |head| is_html(head) && (contains(head, b"systrace") || contains(head, b"trace-viewer")),
    ),
    kind("text of `perf script`", PERF_WAY_IN, is_perf_text),
    kind(
        "text that `babeltrace2` or `tracemill print` printed",
        "text is not read back; `--format jsonl` prints lines that \
           can be read",
        is_printed_text,
    ),
    kind(
        "a page that tracemill wrote",
        "open it in a browser; name the trace that it was made from to read the events",
        |head| is_html(head) && contains(head, b"tracemill"),
    ),
    kind("a raw profile of Firefox", RAW_PROFILE_WAY_IN, |head| {
        is_json(head)
            && contains(head, b"\"meta\"")
            && contains(head, b"\"interval\"")
            && contains(head, b"\"processType\"")
    }),
    kind(
        "a Parquet file",
        "`tracemill convert --to parquet` writes such files; DuckDB, pandas and polars read them",
        |head| head.starts_with(b"PAR1"),
    ),
    kind(
        "an Arrow file",
        "`tracemill convert --to arrow` writes such files; pyarrow, pandas and polars read them",
        |head| head.starts_with(b"ARROW1"),
    ),
    kind("a core dump", "tracemill reads traces; a debugger reads this", |head| elf_type(head) == Some(4)),
    kind("a program", "`tracemill record FILE` runs it and records its calls", |head| {
        matches!(elf_type(head), Some(2 | 3))
    }),
    kind("an object file", "tracemill reads traces, not programs", |head| elf_type(head).is_some()),
    kind("captured network packets (pcap)", "Wireshark and tshark read it", |head| {
        [[0xD4, 0xC3, 0xB2, 0xA1], [0xA1, 0xB2, 0xC3, 0xD4], [0x4D, 0x3C, 0xB2, 0xA1], [0xA1, 0xB2, 0x3C, 0x4D]]
            .iter()
            .any(|magic| head.starts_with(magic))
            || (head.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]) && head.len() >= 12)
    }),
    kind("a trace of Fuchsia or magic-trace", "ui.perfetto.dev shows it", |head| {
        head.starts_with(&[0x10, 0x00, 0x04, 0x46, 0x78, 0x54, 0x16, 0x00])
    }),
    kind(
        "a profile of gprof (gmon.out)",
        "`tracemill record` records the calls of the same program, built with -pg",
        |head| head.starts_with(b"gmon"),
    ),
    kind("a profile of callgrind", "callgrind_annotate and KCachegrind read it", |head| {
        head.starts_with(b"# callgrind format")
            || (head.starts_with(b"version:") && contains(head, b"creator: callgrind"))
    }),
    kind("a database of SQLite", "tracemill reads traces; `sqlite3` reads this", |head| {
        head.starts_with(b"SQLite format 3\0")
    }),
    kind("a journal of systemd", "`journalctl --file` reads it", |head| head.starts_with(b"LPKSHHRH")),
];

const fn kind(description: &'static str, way_in: &'static str, is_it: fn(&[u8]) -> bool) -> ForeignFormat {
    ForeignFormat { description, way_in, is_it }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// The bytes after a byte order mark and blanks.
fn content(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start()
}

fn is_json(head: &[u8]) -> bool {
    content(head).starts_with(b"{")
}

fn is_html(head: &[u8]) -> bool {
    let begin: Vec<u8> = content(head).iter().take(15).map(u8::to_ascii_lowercase).collect();
    begin.starts_with(b"<!doctype html") || begin.starts_with(b"<html")
}

/// The type of an ELF file: 1 an object, 2 and 3 programs and libraries, 4 a core dump.
fn elf_type(head: &[u8]) -> Option<u16> {
    let bytes = head.strip_prefix(b"\x7FELF").and_then(|_| head.get(16..18))?;
    let bytes = [bytes[0], bytes[1]];
    Some(if head[5] == 2 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
}

/// The lines of a text that are there whole, as text; none of a file that is not text.
fn text_lines(head: &[u8]) -> impl Iterator<Item = &str> {
    let end =
        if head.len() < HEAD_BYTES { head.len() } else { head.iter().rposition(|byte| *byte == b'\n').unwrap_or(0) };
    let text = if head.contains(&0) { &[] } else { &head[..end] };
    text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

/// Seconds with a fraction before a colon: `4716.524031:`.
fn is_time(word: &str) -> bool {
    let Some((seconds, fraction)) = word.strip_suffix(':').and_then(|time| time.split_once('.')) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number(seconds) && is_number(fraction) && fraction.len() >= 6
}

fn is_cpu(word: &str) -> bool {
    let number = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Command, pid, perhaps a CPU, a time, and an event with a colon.
fn is_perf_text(head: &[u8]) -> bool {
    let Some(first) = text_lines(head).find(|line| !line.trim().is_empty() && !line.starts_with('#')) else {
        return false;
    };
    let words: Vec<&str> = first.split_whitespace().collect();
    let Some(time) = words.iter().position(|word| is_time(word)) else { return false };
    let before = if time > 0 && is_cpu(words[time - 1]) { time - 1 } else { time };
    let is_pid = |word: &&str| word.split('/').all(|id| id.parse::<u32>().is_ok());
    before > 1 && words.get(before - 1).is_some_and(is_pid) && words[time + 1..].iter().any(|word| word.ends_with(':'))
}

/// `[hh:mm:ss.nnnnnnnnn] (+s.nnnnnnnnn) ..`.
fn is_printed_text(head: &[u8]) -> bool {
    let Some(first) = text_lines(head).next() else { return false };
    let Some((time, rest)) = first.strip_prefix('[').and_then(|line| line.split_once("] ")) else { return false };
    let is_time =
        time.rsplit_once('.').is_some_and(|(_, fraction)| fraction.len() == 9 && fraction.parse::<u32>().is_ok());
    is_time && rest.starts_with("(+")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(head: &[u8]) -> Option<&'static str> {
        recognize(head).map(|kind| kind.description)
    }

    #[test]
    fn files_of_other_tools_are_named() {
        let cases: [(&[u8], &str); 12] = [
            (b"PERFILE2\x68\0\0\0", "a recording of perf (perf.data)"),
            (b"swapper     0 [000]  4716.524031: cycles:\n\tffff start_kernel\n", "text of `perf script`"),
            (b"# ===\nthe task 7/9 4716.524031:    250000 cpu-clock:u: \n", "text of `perf script`"),
            (
                b"[08:31:10.189606977] (+?.?????????) forklift 2: a\n",
                "text that `babeltrace2` or `tracemill print` printed",
            ),
            (b"<!DOCTYPE html>\n<title>tracemill</title>", "a page that tracemill wrote"),
            (b"{\"meta\":{\"interval\":1,\"processType\":0", "a raw profile of Firefox"),
            (b"PAR1\x15\x04", "a Parquet file"),
            (b"ARROW1\0\0", "an Arrow file"),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0", "a program"),
            (b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x04", "a core dump"),
            (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", "captured network packets (pcap)"),
            (b"gmon\x01\0\0\0", "a profile of gprof (gmon.out)"),
        ];
        for (head, description) in cases {
            assert_eq!(name(head), Some(description), "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn other_files_are_not_named() {
        let cases: [&[u8]; 8] =
            [b"", b"\n", b"\nhello 1\n", b"{\"ns\":1}", b"[1, 2]", b"a b 1\n", b"\x7fELF", b"\x0a\xff\xff\xff"];
        for head in cases {
            assert_eq!(name(head), None, "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn any_bytes_are_looked_at_without_a_panic() {
        let mut state = 7u32;
        for len in 0..3000 {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            };
            let mut bytes: Vec<u8> = (0..len % 70).map(|_| next()).collect();
            if len % 3 == 0 {
                bytes.insert(0, 0x0A);
            }
            recognize(&bytes);
        }
    }
}
