//! Environment and sections of a trace.

use std::sync::Arc;

use tracemill_model::schema::{ClockClass, EnvValue};

use super::block::TraceHeader;
use super::loads::{DefinitionSource, Facility};
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
        ("frequency_hz", Section::number(clock.frequency)),
        ("start_freq", Section::number(header.start_freq)),
        ("freq_scale", Section::number(header.freq_scale)),
        ("start_tsc", Section::number(header.start_tsc)),
        ("start_time_sec", Section::number(header.start_sec)),
        ("start_time_usec", Section::number(header.start_usec)),
    ];
    if header.minor == 8 {
        rows.push(("tsc_lsb_truncate", Section::number(header.tsc_lsb_truncate)));
        rows.push(("tscbits", Section::number(header.tsc_bits)));
    }
    let clock = Section::from_items(
        "clock",
        rows,
        &[("name", &|(name, _)| Section::text(name)), ("value", &|(_, value)| value.clone())],
    );
    let mut facilities: Vec<&Facility> = facilities.iter().collect();
    facilities.sort_by_key(|facility| facility.id);
    let source = |facility: &Facility| match &facility.source {
        DefinitionSource::File(name) => Section::text(&format!("eventdefs/{name}.xml")),
        DefinitionSource::BuiltIn => Section::text("built in"),
        DefinitionSource::Nowhere => None,
    };
    let facilities = Section::from_items(
        "facilities",
        facilities,
        &[
            ("id", &|of| Section::number(of.load.id)),
            ("name", &|of| Section::text(&of.load.name)),
            ("checksum", &|of| Section::number(of.load.checksum)),
            ("definition_checksum", &|of| Section::number(of.definition.as_ref()?.checksum)),
            ("definition", &|of| source(of)),
            ("events", &|of| Section::number(of.definition.as_ref()?.events.len() as u64)),
            ("int_size", &|of| Section::number(of.load.sizes[0])),
            ("long_size", &|of| Section::number(of.load.sizes[1])),
            ("pointer_size", &|of| Section::number(of.load.sizes[2])),
            ("size_t_size", &|of| Section::number(of.load.sizes[3])),
            ("alignment", &|of| Section::number(of.load.alignment)),
            ("loaded_by", &|of| Section::text(if of.was_loaded { "state dump" } else { "load" })),
        ],
    );
    vec![clock, facilities]
}
