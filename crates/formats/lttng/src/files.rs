//! Files of a trace beside those with events, alike for facilities and markers: definitions and `info/`.

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{EnvValue, TracePart};

use crate::tags::{TagElement, read_elements};
use tracemill_format::{EntryKind, OpenTrace, Section, SectionColumn, Storage, TraceFiles};

/// Folder of the definition files.
pub(crate) const DEFINITIONS: &str = "eventdefs";
/// Folder of the tracefiles that must not be overwritten.
pub(crate) const CONTROL: &str = "control";
/// Folder of descriptions of the machine and of bookmarks.
const INFO: &str = "info";

/// The largest definition file that is read, in bytes.
pub(crate) const MAX_DEFINITION_FILE: u64 = 64 << 20;
/// Bytes of a file in `info/` that are read.
const MAX_INFO_FILE: usize = 1 << 20;

/// A file that is kept for writing the trace again: its path below the folder of the trace, and its content.
pub(crate) type KeptFile = (String, Arc<dyn Bytes>);

/// The kept files as parts of the trace.
pub(crate) fn parts_of(files: &[KeptFile]) -> Vec<TracePart> {
    files.iter().map(|(name, bytes)| TracePart { name: name.clone(), bytes: bytes.bytes().into() }).collect()
}

/// Tracefiles, definitions and `info/`.
pub(crate) fn all_files(trace: &OpenTrace, storage: &dyn Storage) -> TraceFiles {
    let mut all = TraceFiles::default();
    for file in trace.data_files() {
        all.add(file.path.clone(), &file.relative);
    }
    for folder in [DEFINITIONS, INFO] {
        all.add_folder(storage, trace, folder);
    }
    if trace.schema.version.0 == 0 {
        all.folders = vec![DEFINITIONS, CONTROL];
    }
    all
}

/// The files of the trace that hold no events.
pub(crate) fn other_files(storage: &dyn Storage, root: &Path) -> Vec<KeptFile> {
    let mut files = Vec::new();
    for folder in [DEFINITIONS, INFO] {
        for entry in storage.list(&root.join(folder)).unwrap_or_default() {
            let is_small = matches!(entry.kind, EntryKind::File(len) if len <= MAX_DEFINITION_FILE);
            if let (true, Ok(bytes)) = (is_small, storage.open(&entry.path)) {
                files.push((format!("{folder}/{}", entry.name), bytes));
            }
        }
    }
    files
}

/// A piece of a file, shorter where the file ends.
pub(crate) fn slice(file: &[u8], offset: u64, len: u64) -> &[u8] {
    let rest = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)).unwrap_or_default();
    rest.get(..usize::try_from(len).unwrap_or(usize::MAX)).unwrap_or(rest)
}

/// The name of a channel and the number of a CPU: the digits after the last `_`.
pub(crate) fn channel_and_cpu(name: &str) -> Option<(&str, u32)> {
    let (channel, digits) = name.rsplit_once('_')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((channel, digits.parse().ok().filter(|_| is_number)?))
}

/// Sections of `info/system.xml` and `info/bookmarks.xml`, when there are some (`SPEC.md` of the facilities, D34).
pub(crate) fn info_sections(storage: &dyn Storage, root: &Path, warnings: &mut Vec<Error>) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut read = |name: &str, element: &str| {
        let path = root.join(INFO).join(name);
        read_info(storage, &path, element, warnings).unwrap_or_else(|error| {
            warnings.push(error.in_file(&path));
            Vec::new()
        })
    };
    let system = read("system.xml", "system");
    if !system.is_empty() {
        let rows = system.iter().flat_map(|(attributes, description)| {
            let description = (!description.is_empty()).then(|| ("description".to_string(), description.clone()));
            attributes.iter().cloned().chain(description)
        });
        let columns: [SectionColumn<'_, (String, String)>; 2] =
            [("name", &|(name, _)| Section::text(name)), ("value", &|(_, value)| Section::text(value))];
        sections.push(Section::from_items("system", rows, &columns));
    }
    let bookmarks = read("bookmarks.xml", "location");
    if !bookmarks.is_empty() {
        let columns =
            vec!["name", "cpu", "time", "start_time", "end_time", "cycle", "start_cycle", "end_cycle", "text"];
        let row = |(attributes, description): &TagElement| {
            let value = |name: &str| {
                let found = attributes.iter().find(|(of, _)| of == name);
                found.and_then(|(_, value)| Section::text(value))
            };
            let mut row: Vec<Option<EnvValue>> = columns[..8].iter().map(|name| value(name)).collect();
            row.push(Section::text(description).filter(|_| !description.is_empty()));
            row
        };
        let rows = bookmarks.iter().map(row).collect();
        sections.push(Section { title: "bookmarks".into(), columns, rows });
    }
    sections
}

/// The elements of a name in a file of `info/`; none when there is no such file.
fn read_info(storage: &dyn Storage, path: &Path, element: &str, warnings: &mut Vec<Error>) -> Result<Vec<TagElement>> {
    let Some(EntryKind::File(len)) = storage.kind(path) else { return Ok(Vec::new()) };
    let (found, is_whole) = read_elements(&storage.read_start(path, MAX_INFO_FILE)?, element);
    if !is_whole || len > MAX_INFO_FILE as u64 {
        let message = "the file cannot be read to its end; what stands before is shown";
        warnings.push(Error::malformed(message).in_file(path).at_offset(0));
    }
    Ok(found)
}
