//! The files of a recording that is not finished, from which a recorder makes a `trace.dat` at the end: in a hidden folder next to
//! the output.
//!
//! | file | |
//! |---|---|
//! | `head` | the output up to the names of tasks |
//! | `comms` | names of tasks |
//! | `options` | options, as the output holds them |
//! | `page_bytes` | the size of a page, as a decimal number |
//! | `instance` | name of the instance of the tracer: `tracemill-` and the process that records |
//! | `depth` | the greatest depth of functions before this recording, and that of it, when it has changed that |
//! | `cpuN` | pages of CPU N; the last one may be there in part |

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tracemill_format::Storage;
use tracemill_model::error::{Error, Result};

use crate::write;

/// Name of the file with what stands before the names of tasks.
pub const HEAD: &str = "head";
/// Name of the file with the names of tasks.
pub const COMMS: &str = "comms";
/// Name of the file with options.
pub const OPTIONS: &str = "options";
/// Name of the file with the size of a page.
pub const PAGE_BYTES: &str = "page_bytes";
/// Name of the file with the name of the tracer's instance.
pub const INSTANCE: &str = "instance";
/// Name of the file with depths of functions.
pub const DEPTH: &str = "depth";

/// The beginning of the names of our instances of the tracer; the process that records follows.
pub const INSTANCE_PREFIX: &str = "tracemill-";

/// The folder of the parts of an output.
pub fn folder(output: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(output.file_name().unwrap_or_default());
    name.push(".parts");
    output.with_file_name(name)
}

/// The process that records into an instance of the tracer.
pub fn recorder(instance: &str) -> Option<u32> {
    instance.trim().strip_prefix(INSTANCE_PREFIX)?.parse().ok()
}

/// The size of a page, as the file [`PAGE_BYTES`] has it.
pub fn page_bytes(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|bytes| *bytes > 0)
}

/// The CPU whose pages a file has, by its name.
pub fn cpu(name: &str) -> Option<u32> {
    // The kernel numbers at most some thousand.
    name.strip_prefix("cpu")?.parse().ok().filter(|cpu| *cpu < 1 << 16)
}

/// All of the output but pages, and where these are.
pub(crate) struct PartsOf {
    /// The output, as it would be without any page.
    pub(crate) file: Vec<u8>,
    /// The CPUs, with the files of their pages, and the size of a page.
    pub(crate) cpus: Vec<(u32, String)>,
    pub(crate) page_bytes: u64,
}

impl PartsOf {
    pub(crate) fn read(storage: &dyn Storage, folder: &Path) -> Result<PartsOf> {
        let read = |name: &str| storage.open(&folder.join(name));
        let (head, comms, options) = (read(HEAD)?, read(COMMS)?, read(OPTIONS)?);
        let text = String::from_utf8_lossy(read(PAGE_BYTES)?.bytes()).into_owned();
        let page_bytes = page_bytes(&text).ok_or_else(|| {
            Error::malformed("the size of pages is damaged").in_file(&folder.join(PAGE_BYTES)).at_offset(0)
        })?;
        let names = storage.list(folder)?.into_iter();
        let mut cpus: Vec<(u32, String)> = names.filter_map(|entry| Some((cpu(&entry.name)?, entry.name))).collect();
        cpus.sort_unstable();
        let count = cpus.last().map_or(0, |(last, _)| *last as usize + 1);
        let mut file = head.bytes().to_vec();
        file.extend(write::tail(file.len() as u64, comms.bytes(), options.bytes(), &vec![0; count], page_bytes).0);
        Ok(PartsOf { file, cpus, page_bytes: page_bytes.into() })
    }
}
