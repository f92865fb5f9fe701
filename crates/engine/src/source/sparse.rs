//! Files that claim to be much larger than what was written to them.
//!
//! A file of 1 TiB takes no space on a disk when nothing was written to it, and hours to read. No tracer leaves such holes;
//! a file that was made larger carelessly has them. They are refused before anything is read.

use std::fs::{File, Metadata};
use std::path::Path;

use tracemill_model::error::{Error, ErrorKind};

/// Most bytes of a file that nothing was written to: they read as zeros, which take a second or so.
const MAX_HOLES_BYTES: u64 = 1 << 30;

/// Most pieces of data that are looked for; a file of more is not what this is about.
#[cfg(target_os = "linux")]
const MAX_PIECES: usize = 4096;

/// The data and the holes of a file.
#[derive(Default)]
struct Holes {
    total_bytes: u64,
    /// Where data ends.
    data_end: u64,
}

/// Refuses a file with large holes; it says where its data ends.
pub(super) fn refuse_holes(file: &File, path: &Path, meta: &Metadata) -> Result<(), Error> {
    let Some(holes) = holes_of(file, meta).filter(|holes| holes.total_bytes > MAX_HOLES_BYTES) else { return Ok(()) };
    let (len, data) = (meta.len(), meta.len() - holes.total_bytes);
    let message = format!(
        "cannot read the file: it claims {len} bytes, but only {data} of them were ever written (a sparse file); the rest is \
         zeros that take too long to read"
    );
    let end = holes.data_end;
    let after_data = len - end;
    let help = match end {
        0 => "nothing was written to the file; leave it out".to_string(),
        _ if holes.total_bytes - after_data > MAX_HOLES_BYTES => {
            format!(
                "its data lies in several pieces, the last of which ends at byte {end}; write it again without the gaps"
            )
        }
        _ => format!("its data ends at byte {end}; `truncate -s {end} FILE`, on a copy, removes the zeros after it"),
    };
    Err(Error::new(ErrorKind::Io, message).in_file(path).with_help(help))
}

/// The holes of a file; none where the system cannot show them or they cannot matter.
#[cfg(target_os = "linux")]
fn holes_of(file: &File, meta: &Metadata) -> Option<Holes> {
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;

    let len = meta.len();
    // Allocated blocks are data, or reserved for it. Most files are done here.
    if len.saturating_sub(meta.blocks().saturating_mul(512)) <= MAX_HOLES_BYTES {
        return None;
    }
    let mut holes = Holes::default();
    for _ in 0..MAX_PIECES {
        let data = match seek(file, SeekFrom::Data(holes.data_end)) {
            Ok(data) => data.min(len),
            // There is no data after that place.
            Err(Errno::NXIO) => len,
            Err(_) => return None,
        };
        holes.total_bytes += data.saturating_sub(holes.data_end);
        if data >= len {
            rustix::fs::seek(file, SeekFrom::Start(0)).ok()?;
            return Some(holes);
        }
        holes.data_end = seek(file, SeekFrom::Hole(data)).ok()?.min(len);
        if holes.data_end <= data {
            break;
        }
    }
    rustix::fs::seek(file, SeekFrom::Start(0)).ok()?;
    None
}

#[cfg(not(target_os = "linux"))]
fn holes_of(_file: &File, _meta: &Metadata) -> Option<Holes> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::FileSystem;
    use tracemill_format::Storage;

    #[test]
    fn a_file_of_one_tebibyte_that_nobody_wrote_is_refused_and_a_small_hole_is_read() {
        let path = std::env::temp_dir().join(format!("tracemill-sparse-{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 1 << 20]).expect("the temporary folder can be written");
        let resize = |len: u64| std::fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(len));
        // A file system that holds no file of that size has nothing to show here.
        if resize(1 << 40).is_ok() {
            let error = FileSystem.open(&path).err().expect("it is refused");
            let message = error.to_string();
            assert!(message.contains("claims 1099511627776 bytes, but only 1048576 of them"), "{message}");
            assert!(error.help().is_some_and(|help| help.contains("truncate -s 1048576")), "{:?}", error.help());
        }
        resize(2 << 20).expect("can be cut");
        assert_eq!(FileSystem.open(&path).expect("a small hole is read").bytes().len(), 2 << 20);
        std::fs::remove_file(&path).expect("can be removed");
    }
}
