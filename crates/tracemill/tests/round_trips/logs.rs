//! Random CPEL logs and event logs of VPP.

use std::path::Path;

use crate::nasty;
use crate::schemas::Rng;

/// Formats of printf, also those without a meaning.
const FORMATS: &[&str] = &[
    "",
    "%d",
    "%u",
    "%x",
    "%#x",
    "%08x",
    "%-5d|",
    "%s",
    "%k",
    "%c",
    "%%",
    "%p",
    "event %d of %d",
    "%f",
    "%*d",
    "%2$d",
    "%",
    "%hhd",
    "%lld",
    "plain",
    "\u{e4} %d",
    "%.3s",
    "a(b) %d",
];

/// A table of texts that end with zeros.
struct Table {
    bytes: Vec<u8>,
}

impl Table {
    fn add(&mut self, text: &[u8]) -> u32 {
        let at = self.bytes.len();
        self.bytes.extend(text);
        self.bytes.push(0);
        at as u32
    }
}

fn texts(rng: &mut Rng) -> Vec<u8> {
    match rng.below(6) {
        0 => vec![b'a', 0xff, 0xc3, b'z'],
        1 => nasty::text(rng).into_bytes(),
        _ => rng.pick(FORMATS).as_bytes().to_vec(),
    }
}

/// Makes a log; gives the number of its events.
type WriteLog = fn(&mut Rng, &Path) -> usize;

/// The kinds of logs, by their formats.
pub(crate) const ALL: [(&str, WriteLog); 3] = [("cpel", write_cpel), ("gist", write_gist), ("elog", write_elog)];

/// Writes a Gist log; gives the number of its events.
fn write_gist(rng: &mut Rng, path: &Path) -> usize {
    let count = rng.below(20) as usize;
    let mut out = (count as u32).to_be_bytes().to_vec();
    let mut time = rng.pick(&[0, 1 << 40, u64::MAX - (1 << 40)]);
    for _ in 0..count {
        time += rng.below(1 << 30);
        let shown = if rng.chance(10) { time.saturating_sub(rng.below(1 << 30)) } else { time };
        out.extend(shown.to_be_bytes());
        for word in [rng.pick(&[0, 1, u32::MAX, 77]), rng.pick(&[0, 1, 3, u32::MAX]), rng.next() as u32] {
            out.extend(word.to_be_bytes());
        }
    }
    std::fs::write(path, out).expect("a file can be written");
    count
}

/// Writes a CPEL log; gives the number of its events.
fn write_cpel(rng: &mut Rng, path: &Path) -> usize {
    let is_big = rng.chance(60);
    let word = |out: &mut Vec<u8>, value: u32| {
        out.extend(if is_big { value.to_be_bytes() } else { value.to_le_bytes() });
    };
    let mut sections: Vec<(u32, Vec<u8>)> = Vec::new();
    let tables: Vec<String> = (0..1 + rng.below(2)).map(|at| format!("table{at}")).collect();
    let mut all = Vec::new();
    for name in &tables {
        let mut table = Table { bytes: Vec::new() };
        table.add(name.as_bytes());
        let places: Vec<u32> = (0..1 + rng.below(8)).map(|_| texts(rng)).map(|text| table.add(&text)).collect();
        table.bytes.resize(table.bytes.len().next_multiple_of(4), 0);
        let most = table.bytes.len() as u32;
        all.push((places, most));
        sections.push((1, table.bytes));
    }
    let place = |rng: &mut Rng, table: usize| -> u32 {
        let (places, most) = &all[table];
        match rng.below(8) {
            0 => 0,
            // Inside a text.
            1 => rng.below(u64::from(*most)) as u32,
            _ => rng.pick(places),
        }
    };
    let mut events = 0;
    let mut codes: Vec<u32> =
        (0..rng.below(6)).map(|at| rng.pick(&[at as u32, at as u32, 0x1_0000 + at as u32])).collect();
    let mut tracks: Vec<u32> = (0..rng.below(4)).map(|at| rng.pick(&[at as u32, u32::MAX - at as u32])).collect();
    codes.sort_unstable();
    codes.dedup();
    tracks.sort_unstable();
    tracks.dedup();
    let head = |name: &str, count: usize| {
        let mut body = name.as_bytes().to_vec();
        body.resize(64, 0);
        word(&mut body, count as u32);
        body
    };
    for _ in 0..rng.below(5) {
        let table = rng.below(tables.len() as u64) as usize;
        let name = &tables[table];
        match rng.below(6) {
            0 => {
                let mut values: Vec<u32> = (0..rng.below(4)).map(|_| rng.next() as u32).collect();
                values.sort_unstable();
                let mut body = head(name, values.len());
                for value in values {
                    word(&mut body, value);
                    word(&mut body, place(rng, table));
                }
                sections.push((2, body));
            }
            1 | 2 => {
                // Each code has one definition.
                let own: Vec<u32> = codes.drain(..rng.below(codes.len() as u64 + 1) as usize).collect();
                let mut body = head(name, own.len());
                for code in own {
                    word(&mut body, code);
                    word(&mut body, place(rng, table));
                    word(&mut body, place(rng, table));
                }
                sections.push((3, body));
            }
            3 => {
                let own: Vec<u32> = tracks.drain(..rng.below(tracks.len() as u64 + 1) as usize).collect();
                let mut body = head(name, own.len());
                for track in own {
                    word(&mut body, track);
                    word(&mut body, place(rng, table));
                }
                sections.push((4, body));
            }
            4 => sections.push((rng.pick(&[0, 6, 99]), (0..rng.below(30)).map(|_| rng.next() as u8).collect())),
            _ => {}
        }
    }
    for _ in 0..1 + rng.below(3) {
        let table = rng.below(tables.len() as u64) as usize;
        let count = rng.below(20) as usize;
        let mut body = head(&tables[table], count);
        word(&mut body, rng.pick(&[1_000_000_000, 1_000_000_000, 1000, 99_999, 100_000, 3_000_000_000, 1, 0]));
        let mut time = rng.pick(&[0, 1 << 40, u64::MAX - (1 << 40)]);
        for _ in 0..count {
            time += rng.below(1 << 30);
            // Several processors write into one log.
            let shown = if rng.chance(10) { time.saturating_sub(rng.below(1 << 30)) } else { time };
            word(&mut body, (shown >> 32) as u32);
            word(&mut body, shown as u32);
            word(&mut body, rng.pick(&[0, 1, 2, u32::MAX, 77]));
            word(&mut body, rng.pick(&[0, 1, 2, 3, 0x1_0001, u32::MAX]));
            let datum = nasty::number(rng, 32, false) as u32;
            word(&mut body, if rng.chance(40) { place(rng, table) } else { datum });
        }
        events += count;
        sections.push((5, body));
    }
    let mut out = vec![if is_big { 1 } else { 0x81 }, rng.pick(&[0, 7])];
    let count = sections.len() as u16;
    out.extend(if is_big { count.to_be_bytes() } else { count.to_le_bytes() });
    word(&mut out, 1_400_000_000);
    for (kind, body) in sections {
        word(&mut out, kind);
        word(&mut out, body.len() as u32);
        out.extend(body);
    }
    std::fs::write(path, out).expect("a file can be written");
    events
}

fn cstring(out: &mut Vec<u8>, text: &[u8]) {
    let len = text.len();
    match len {
        0..128 => out.push((len << 1 | 1) as u8),
        _ => {
            let rest = len - 128;
            out.push((rest << 2 | 2) as u8);
            out.push((rest >> 6) as u8);
        }
    }
    out.extend(text);
}

/// The low word first.
fn double(out: &mut Vec<u8>, value: u64) {
    out.extend((value as u32).to_be_bytes());
    out.extend(((value >> 32) as u32).to_be_bytes());
}

/// Writes an event log of VPP; gives the number of its events.
fn write_elog(rng: &mut Rng, path: &Path) -> usize {
    const KINDS: &[&str] = &["i1", "i2", "i4", "i8", "t1", "t2", "t4", "T4", "f4", "f8", "s0"];
    let mut out = 7u32.to_be_bytes().to_vec();
    out.extend(b"elog v0");
    out.extend(131_072u32.to_be_bytes());
    let start = rng.pick(&[1_454_621_020_000_000_000, 270_000_000_000_000_000, 0]);
    for value in [start + 10_000_000_000, 5_000_000_000, start, 1_000_000_000] {
        double(&mut out, value);
    }
    let mut types: Vec<(Vec<&str>, u64)> = Vec::new();
    let count = 1 + rng.below(5);
    out.extend((count as u32).to_be_bytes());
    for at in 0..count {
        let mut arguments: Vec<&str> = Vec::new();
        let mut size = 0;
        for _ in 0..rng.below(5) {
            let kind = rng.pick(KINDS);
            let bytes = kind[1..].parse::<u32>().unwrap_or(0);
            if size + bytes <= 20 {
                size += bytes;
                arguments.push(kind);
            }
        }
        // In the order of the arguments; a text takes what is left of the twenty bytes.
        let labels = rng.below(4);
        let arguments: Vec<&str> =
            if labels == 0 { arguments.into_iter().filter(|kind| !kind.starts_with('t')).collect() } else { arguments };
        let mut format = rng.pick(&["event", "a b", "(x", "\u{e4}", "100%%"]).to_string();
        for kind in &arguments {
            format += match &kind[..1] {
                "f" => " %.3f",
                "s" | "T" | "t" => " %s",
                _ => rng.pick(&[" %d", " %u", " %x", " %Ld", " %8d"]),
            };
        }
        cstring(&mut out, format.as_bytes());
        cstring(&mut out, arguments.concat().as_bytes());
        out.extend((at as u32 + 1).to_be_bytes());
        out.extend((labels as u32).to_be_bytes());
        for label in 0..labels {
            let text = if rng.chance(50) { format!("label{label}") } else { nasty::text(rng) };
            cstring(&mut out, text.as_bytes());
        }
        types.push((arguments, labels));
    }
    let tracks = 1 + rng.below(3);
    out.extend((tracks as u32).to_be_bytes());
    for at in 0..tracks {
        let name = if rng.chance(60) { format!("thread {at}") } else { nasty::text(rng) };
        cstring(&mut out, name.as_bytes());
    }
    let mut table = Table { bytes: Vec::new() };
    let places: Vec<u32> =
        (0..1 + rng.below(4)).map(|_| nasty::text(rng)).map(|text| table.add(text.as_bytes())).collect();
    out.extend((table.bytes.len() as u32).to_be_bytes());
    out.extend(&table.bytes);
    let events = rng.below(20);
    out.extend((events as u32).to_be_bytes());
    let mut time = 0.0f64;
    for _ in 0..events {
        time += rng.below(1_000_000) as f64 / 1e9;
        let at = rng.below(count);
        let (arguments, labels) = &types[at as usize];
        out.extend((at as u16).to_be_bytes());
        out.extend((rng.below(tracks) as u16).to_be_bytes());
        double(&mut out, time.to_bits());
        for kind in arguments {
            let bits = kind[1..].parse::<u32>().unwrap_or(0) * 8;
            let value = match &kind[..1] {
                "t" => rng.below(*labels),
                "T" => u64::from(rng.pick(&places)),
                "f" => nasty::real_bits(rng, bits),
                "s" => {
                    cstring(&mut out, nasty::text(rng).as_bytes());
                    continue;
                }
                _ => nasty::number(rng, bits, false) as u64,
            };
            match bits {
                64 => double(&mut out, value),
                _ => out.extend(&value.to_be_bytes()[8 - bits as usize / 8..]),
            }
        }
    }
    std::fs::write(path, out).expect("a file can be written");
    events as usize
}
