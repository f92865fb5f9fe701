//! Files of a recording that is not finished, in a hidden folder beside the output ([`tracemill_ftrace::parts`]), and the
//! `trace.dat` that they become.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use tracemill_ftrace::write;

use crate::recording::Recorded;

pub(crate) use tracemill_ftrace::parts::{COMMS, DEPTH, HEAD, INSTANCE, OPTIONS, PAGE_BYTES, folder};

/// Are there parts of this output, which a killed recorder left?
pub fn has_parts(output: &Path) -> bool {
    folder(output).join(HEAD).is_file()
}

/// The size of a page.
pub(crate) fn page_bytes(parts: &Path) -> io::Result<u32> {
    let bytes = tracemill_ftrace::parts::page_bytes(&fs::read_to_string(parts.join(PAGE_BYTES))?);
    bytes.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the size of pages is damaged"))
}

/// Rewrites a file, in its place: what is no longer than before has room there, also on a full disk.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().create(true).truncate(false).write(true).open(path)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

/// Makes the output of its parts, and removes them.
pub(crate) fn finish(output: &Path) -> io::Result<Recorded> {
    let parts = folder(output);
    join(output, &parts).inspect_err(|_| {
        // An incomplete output only takes up room.
        let _ = fs::remove_file(parts.join("output"));
    })
}

fn join(output: &Path, parts: &Path) -> io::Result<Recorded> {
    let page_bytes = page_bytes(parts)?;
    let (comms, options) = (fs::read(parts.join(COMMS))?, fs::read(parts.join(OPTIONS))?);
    let mut cpus = Vec::new();
    // CPUs that never had a buffer have no pages.
    let numbers =
        fs::read_dir(parts)?.flatten().filter_map(|entry| tracemill_ftrace::parts::cpu(entry.file_name().to_str()?));
    for cpu in 0..numbers.max().map_or(0, |last| last + 1) {
        let file = File::open(parts.join(format!("cpu{cpu}")));
        let bytes = file.as_ref().map_or(Ok(0), |file| file.metadata().map(|of| of.len()))?;
        // A recorder that was killed may have left a part of a page.
        cpus.push((file.ok(), bytes - bytes % u64::from(page_bytes)));
    }
    let sizes: Vec<u64> = cpus.iter().map(|(_, size)| *size).collect();
    let unnamed = parts.join("output");
    let mut out = File::create(&unnamed)?;
    let head_bytes = io::copy(&mut File::open(parts.join(HEAD))?, &mut out)?;
    let (tail, places) = write::tail(head_bytes, &comms, &options, &sizes, page_bytes);
    out.write_all(&tail)?;
    for ((file, size), place) in cpus.into_iter().zip(places) {
        let Some(mut file) = file else { continue };
        out.seek(SeekFrom::Start(place))?;
        io::copy(&mut io::Read::take(&mut file, size), &mut out)?;
    }
    out.sync_data()?;
    fs::rename(&unnamed, output)?;
    fs::remove_dir_all(parts)?;
    let pages = sizes.iter().sum::<u64>() / u64::from(page_bytes);
    Ok(Recorded { pages, cpus: sizes.len() as u32, ..Recorded::default() })
}
