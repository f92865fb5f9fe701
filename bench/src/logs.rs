//! Writes large CPEL, Gist and VPP event logs. The same arguments give the same file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a log of a kind: `cpel`, `cpel-unsorted` (out of order as several processors leave them), `gist`, `elog`.
pub(crate) fn write(kind: &str, events: u32, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    match kind {
        "cpel" => cpel(&mut out, events, false)?,
        "cpel-unsorted" => cpel(&mut out, events, true)?,
        "gist" => {
            word(&mut out, events)?;
            records(&mut out, events, false)?;
        }
        "elog" => elog(&mut out, events)?,
        other => return Err(io::Error::other(format!("unknown kind `{other}`"))),
    }
    out.flush()
}

/// Numbers that look random and are always the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }
}

fn word(out: &mut impl Write, value: u32) -> io::Result<()> {
    out.write_all(&value.to_be_bytes())
}

/// Event codes, as the logs below have them.
const CODES: u32 = 32;
/// Tracks.
const TRACKS: u32 = 8;
/// Node names that data are offsets of.
const NODES: [&str; 4] = ["ethernet-input", "ip4-lookup", "ip4-rewrite", "interface-output"];

fn cpel(out: &mut impl Write, events: u32, is_unsorted: bool) -> io::Result<()> {
    let mut table = b"FileStrtab\0".to_vec();
    let mut add = |text: &str| {
        let at = table.len() as u32;
        table.extend_from_slice(text.as_bytes());
        table.push(0);
        at
    };
    for node in NODES {
        add(node);
    }
    let names: Vec<u32> = (0..CODES).map(|code| add(&format!("event-{code}"))).collect();
    let tracks: Vec<u32> = (0..TRACKS).map(|track| add(&format!("worker {track}"))).collect();
    let formats = [add("%s"), add("%d"), add("0x%08x"), add("vectors %d")];
    table.resize(table.len().next_multiple_of(8), 0);
    out.write_all(&[1, 0, 0, 4])?;
    word(out, 1_700_000_000)?;
    word(out, 1)?;
    word(out, table.len() as u32)?;
    out.write_all(&table)?;
    let mut name = [0u8; 64];
    name[..10].copy_from_slice(b"FileStrtab");
    for (kind, count, record) in [(3, CODES, 12), (4, TRACKS, 8)] {
        word(out, kind)?;
        word(out, 68 + count * record)?;
        out.write_all(&name)?;
        word(out, count)?;
        for at in 0..count as usize {
            word(out, at as u32)?;
            if kind == 3 {
                word(out, names[at])?;
                word(out, formats[at % formats.len()])?;
            } else {
                word(out, tracks[at])?;
            }
        }
    }
    word(out, 5)?;
    word(out, 72 + events * 20)?;
    out.write_all(&name)?;
    word(out, events)?;
    word(out, 1_000_000_000)?;
    records(out, events, is_unsorted)
}

fn records(out: &mut impl Write, events: u32, is_unsorted: bool) -> io::Result<()> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut time = 0u64;
    for _ in 0..events {
        time += u64::from(random.next() % 100_000);
        let late = if is_unsorted { u64::from(random.next() % 300_000) } else { 0 };
        let at = time.saturating_sub(late);
        let code = random.next() % CODES;
        let datum = match code % 4 {
            0 => NODES[..(random.next() % 4) as usize].iter().fold(11, |at, node| at + node.len() as u32 + 1),
            _ => random.next() % 300,
        };
        word(out, (at >> 32) as u32)?;
        word(out, at as u32)?;
        word(out, random.next() % TRACKS)?;
        word(out, code)?;
        word(out, datum)?;
    }
    Ok(())
}

fn elog(out: &mut impl Write, events: u32) -> io::Result<()> {
    let text = |out: &mut dyn Write, text: &str| -> io::Result<()> {
        out.write_all(&[(text.len() as u8) << 1 | 1])?;
        out.write_all(text.as_bytes())
    };
    // The low word first.
    let long = |out: &mut dyn Write, value: u64| -> io::Result<()> {
        out.write_all(&(value as u32).to_be_bytes())?;
        out.write_all(&((value >> 32) as u32).to_be_bytes())
    };
    word(out, 7)?;
    out.write_all(b"elog v0")?;
    word(out, events.next_power_of_two())?;
    for time in [280_000_060_000_000_000, 200_000_000_000, 280_000_000_000_000_000, 50_000_000_000] {
        long(out, time)?;
    }
    let types: [(&str, &str, &[&str]); 4] = [
        ("%s-call: %d", "T4i4", &[]),
        ("rx(%d): %d", "i4i4", &[]),
        ("barrier %s", "t4", &["open", "closed"]),
        ("drop %u of %u", "i4i4", &[]),
    ];
    word(out, types.len() as u32)?;
    for (at, (format, args, labels)) in types.iter().enumerate() {
        text(out, format)?;
        text(out, args)?;
        word(out, at as u32 + 1)?;
        word(out, labels.len() as u32)?;
        for label in *labels {
            text(out, label)?;
        }
    }
    word(out, TRACKS)?;
    for track in 0..TRACKS {
        text(out, &format!("worker {track}"))?;
    }
    let strings: String = NODES.iter().map(|node| format!("{node}\0")).collect();
    word(out, strings.len() as u32)?;
    out.write_all(strings.as_bytes())?;
    word(out, events)?;
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut time = 0u64;
    for _ in 0..events {
        time += u64::from(random.next() % 100_000);
        let kind = random.next() % 4;
        out.write_all(&(kind as u16).to_be_bytes())?;
        out.write_all(&((random.next() % TRACKS) as u16).to_be_bytes())?;
        long(out, (time as f64 * 1e-9).to_bits())?;
        let first = match kind {
            0 => NODES[..(random.next() % 4) as usize].iter().fold(0, |at, node| at + node.len() as u32 + 1),
            2 => random.next() % 2,
            _ => random.next() % 64,
        };
        word(out, first)?;
        if kind != 2 {
            word(out, random.next() % 256)?;
        }
    }
    Ok(())
}
