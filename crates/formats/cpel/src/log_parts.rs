//! The parts of a log beside its events, of which a writer makes the log again.

use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::schema::TracePart;

use super::container::{Container, HEADER_BYTES, NAME_BYTES, RECORD_BYTES, RecordHeader, Section, SectionType};

/// Name of the part with the header of the file.
pub(super) const HEADER: &str = "header";
/// Parts with a section so begin, its number follows: the header of the section, then its data.
pub(super) const SECTION: &str = "section-";
/// Parts with a section of events so begin: all that stands before the events.
pub(super) const EVENTS: &str = "events-";
/// Parts with the octets of a section after its events so begin; without a number, those after all sections.
pub(super) const BEHIND: &str = "behind-";
/// Such a part where it is too much to be kept: empty.
pub(super) const FAR: &str = "not-kept-";
/// Octets before the first event of a section, with the header of the section.
pub(super) const EVENTS_HEAD: usize = HEADER_BYTES as usize + NAME_BYTES + 8;
/// Most octets after the events of a section that are kept.
const MAX_BEHIND: usize = 1 << 20;

/// Where the parts of a log are.
pub(super) enum LogParts {
    /// In the sections of a file, of which these have events.
    File { file: Arc<dyn Bytes>, sections: Vec<(Section, Option<RecordHeader>)>, is_cut: bool },
    /// Here.
    Made(Vec<TracePart>),
}

impl LogParts {
    /// The parts of a container; `records` of a section say how many records it has.
    pub(super) fn new(
        file: &Arc<dyn Bytes>,
        container: &Container,
        records: impl Iterator<Item = Option<RecordHeader>>,
    ) -> Self {
        let of_events = |(section, records): (&Section, Option<RecordHeader>)| {
            (*section, records.filter(|_| section.kind == SectionType::EVENTS))
        };
        let sections = container.sections.iter().zip(records).map(of_events).collect();
        LogParts::File { file: file.clone(), sections, is_cut: container.is_cut }
    }

    /// The parts.
    pub(super) fn parts(&self) -> Vec<TracePart> {
        let (file, sections, is_cut) = match self {
            LogParts::Made(parts) => return parts.clone(),
            LogParts::File { file, sections, is_cut } => (file.bytes(), sections, *is_cut),
        };
        let octets = |from: usize, to: usize| file.get(from..to).unwrap_or(&[]);
        let mut parts = vec![part(HEADER.to_string(), octets(0, HEADER_BYTES as usize))];
        let mut end = HEADER_BYTES as usize;
        for (section, records) in sections {
            let (at, number) = (section.offset() as usize, section.number);
            end = (section.data + section.len) as usize;
            let Some(records) = records else {
                parts.push(part(format!("{SECTION}{number}"), octets(at, end)));
                continue;
            };
            parts.push(part(format!("{EVENTS}{number}"), octets(at, at + EVENTS_HEAD)));
            let last = (records.first + records.count * RECORD_BYTES) as usize;
            // The rest of a section that the file cuts is part of an event.
            if section.len == section.declared {
                push_after(&mut parts, number.to_string(), octets(last, end));
            }
        }
        if !is_cut {
            push_after(&mut parts, String::new(), octets(end, file.len()));
        }
        parts
    }
}

fn push_after(parts: &mut Vec<TracePart>, number: String, octets: &[u8]) {
    match octets.len() {
        0 => {}
        len if len > MAX_BEHIND => parts.push(part(format!("{FAR}{number}"), &[])),
        _ => parts.push(part(format!("{BEHIND}{number}"), octets)),
    }
}

fn part(name: String, octets: &[u8]) -> TracePart {
    TracePart { name, bytes: octets.into() }
}

/// The parts of a log of which only the records are in a file: its definitions (code, name, format of data).
pub(super) fn definition_parts(definitions: &[(u32, Vec<u8>, Vec<u8>)]) -> Vec<TracePart> {
    let mut strings = b"strings\0".to_vec();
    let mut add = |text: &[u8]| {
        if text.is_empty() {
            // The default, as for the log that has no text.
            return 0;
        }
        let at = strings.len() as u32;
        strings.extend_from_slice(text.split(|&octet| octet == 0).next().unwrap_or(&[]));
        strings.push(0);
        at
    };
    let mut records = Vec::new();
    for (code, name, datum) in definitions {
        for word in [*code, add(name), add(datum)] {
            records.extend_from_slice(&word.to_be_bytes());
        }
    }
    strings.resize(strings.len().next_multiple_of(4), 0);
    let mut name = b"strings".to_vec();
    name.resize(NAME_BYTES, 0);
    let section = |kind: SectionType, octets: &[&[u8]]| {
        let len: usize = octets.iter().map(|octets| octets.len()).sum();
        [&kind.0.to_be_bytes()[..], &(len as u32).to_be_bytes(), &octets.concat()].concat()
    };
    let count = (definitions.len() as u32).to_be_bytes();
    vec![
        part(HEADER.to_string(), &[1, 0, 0, 0, 0, 0, 0, 0]),
        part(format!("{SECTION}1"), &section(SectionType::STRINGS, &[&strings])),
        part(format!("{SECTION}2"), &section(SectionType::EVENT_DEFINITIONS, &[&name, &count, &records])),
        part(format!("{EVENTS}3"), &section(SectionType::EVENTS, &[&name, &[0; 8]])),
    ]
}
