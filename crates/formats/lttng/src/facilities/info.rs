//! What a trace holds beside events, for `info`.

use std::path::Path;
use std::sync::Arc;

use tracemill_model::error::{Error, ErrorKind};
use tracemill_model::schema::{ClockClass, EnvValue};

use super::block::TraceHeader;
use super::definitions::read_attributes;
use super::loads::{Facility, Source};
use tracemill_format::{EntryKind, Section, Storage};

/// Bytes of a file in `info/` that are read.
const MAX_FILE: usize = 1 << 20;

fn text(text: &str) -> Option<EnvValue> {
    Some(EnvValue::String(text.into()))
}

fn number(value: impl Into<i128>) -> Option<EnvValue> {
    Some(EnvValue::Integer(value.into()))
}

/// What the headers say of the machine.
pub(super) fn environment(header: &TraceHeader) -> Vec<(Arc<str>, EnvValue)> {
    let mut values: Vec<(Arc<str>, EnvValue)> = Vec::new();
    let mut add = |name: &str, value: i128| values.push((name.into(), EnvValue::Integer(value)));
    add("arch_type", header.arch.into());
    add("arch_variant", header.arch_variant.into());
    add("arch_size", header.arch_size.into());
    add("flight_recorder", header.flight_recorder.into());
    add("has_heartbeat", header.has_heartbeat.into());
    add("alignment", header.alignment.into());
    if let Some(name) = header.arch_name() {
        values.push(("architecture".into(), EnvValue::String(name.into())));
    }
    values
}

/// The clock and the facilities.
pub(super) fn sections(header: &TraceHeader, clock: &ClockClass, facilities: &[Facility]) -> Vec<Section> {
    let mut rows = vec![
        ("frequency_hz", header_number(clock.frequency)),
        ("start_freq", header_number(header.start_freq)),
        ("freq_scale", header_number(header.freq_scale.into())),
        ("start_tsc", header_number(header.start_tsc)),
        ("start_time_sec", header_number(header.start_sec)),
        ("start_time_usec", header_number(header.start_usec)),
    ];
    if header.minor == 8 {
        rows.push(("tsc_lsb_truncate", header_number(header.tsc_lsb_truncate.into())));
        rows.push(("tscbits", header_number(header.tsc_bits.into())));
    }
    let clock = Section {
        title: "clock".into(),
        columns: vec!["name", "value"],
        rows: rows.into_iter().map(|(name, value)| vec![text(name), value]).collect(),
    };
    let facility = |facility: &Facility| {
        let load = &facility.load;
        let definition = facility.definition.as_ref();
        let source = match &facility.source {
            Source::File(name) => text(&format!("eventdefs/{name}.xml")),
            Source::BuiltIn => text("built in"),
            Source::Nowhere => None,
        };
        let [int, long, pointer, size] = load.sizes;
        vec![
            number(load.id),
            text(&load.name),
            number(load.checksum),
            definition.and_then(|definition| number(definition.checksum)),
            source,
            definition.and_then(|definition| number(definition.events.len() as u64)),
            number(int),
            number(long),
            number(pointer),
            number(size),
            number(load.alignment),
            text(if facility.was_loaded { "state dump" } else { "load" }),
        ]
    };
    let mut rows: Vec<&Facility> = facilities.iter().collect();
    rows.sort_by_key(|facility| facility.id);
    let columns = vec![
        "id",
        "name",
        "checksum",
        "definition_checksum",
        "definition",
        "events",
        "int_size",
        "long_size",
        "pointer_size",
        "size_t_size",
        "alignment",
        "loaded_by",
    ];
    let facilities = Section { title: "facilities".into(), columns, rows: rows.into_iter().map(facility).collect() };
    vec![clock, facilities]
}

fn header_number(value: u64) -> Option<EnvValue> {
    number(value)
}

/// `info/system.xml` and `info/bookmarks.xml`, when there are some (`SPEC.md`, D34), and what is to be told of them.
pub(crate) fn read_files(storage: &dyn Storage, root: &Path) -> (Vec<Section>, Vec<Error>) {
    let (mut sections, mut warnings) = (Vec::new(), Vec::new());
    let mut read = |name: &str, elements: &[&str]| {
        let path = root.join("info").join(name);
        let Some(EntryKind::File(len)) = storage.kind(&path) else { return Vec::new() };
        let bytes = match storage.read_start(&path, MAX_FILE) {
            Ok(bytes) => bytes,
            Err(error) => {
                warnings.push(error.in_file(&path));
                return Vec::new();
            }
        };
        let (found, is_whole) = read_attributes(&bytes, elements);
        if !is_whole || len > MAX_FILE as u64 {
            let message = "the file cannot be read to its end; what stands before is shown";
            warnings.push(Error::new(ErrorKind::Malformed, message).in_file(&path).at_offset(0));
        }
        found
    };
    let system = read("system.xml", &["system"]);
    if !system.is_empty() {
        let rows = system.iter().flat_map(|(_, attributes, description)| {
            let description = (!description.is_empty()).then(|| ("description".to_string(), description.clone()));
            attributes.iter().cloned().chain(description)
        });
        sections.push(Section {
            title: "system".into(),
            columns: vec!["name", "value"],
            rows: rows.map(|(name, value)| vec![text(&name), text(&value)]).collect(),
        });
    }
    let bookmarks = read("bookmarks.xml", &["location"]);
    if !bookmarks.is_empty() {
        let columns =
            vec!["name", "cpu", "time", "start_time", "end_time", "cycle", "start_cycle", "end_cycle", "text"];
        let row = |(_, attributes, description): &(String, Vec<(String, String)>, String)| {
            let value = |name: &str| {
                let found = attributes.iter().find(|(of, _)| of == name);
                found.and_then(|(_, value)| text(value))
            };
            let mut row: Vec<Option<EnvValue>> = columns[..8].iter().map(|name| value(name)).collect();
            row.push(text(description).filter(|_| !description.is_empty()));
            row
        };
        let rows = bookmarks.iter().map(row).collect();
        sections.push(Section { title: "bookmarks".into(), columns, rows });
    }
    (sections, warnings)
}
