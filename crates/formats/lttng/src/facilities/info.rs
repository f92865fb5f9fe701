//! Environment and sections of a trace.

use std::sync::Arc;

use tracemill_model::schema::{ClockClass, EnvValue};

use super::block::TraceHeader;
use super::loads::{Facility, Source};
use crate::files::{number, text};
use tracemill_format::Section;

/// The machine, as the headers describe it.
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
        ("frequency_hz", number(clock.frequency)),
        ("start_freq", number(header.start_freq)),
        ("freq_scale", number(header.freq_scale)),
        ("start_tsc", number(header.start_tsc)),
        ("start_time_sec", number(header.start_sec)),
        ("start_time_usec", number(header.start_usec)),
    ];
    if header.minor == 8 {
        rows.push(("tsc_lsb_truncate", number(header.tsc_lsb_truncate)));
        rows.push(("tscbits", number(header.tsc_bits)));
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
