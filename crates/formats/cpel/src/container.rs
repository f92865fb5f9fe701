//! The container: a header of 8 octets, then sections of a type and a length (`SPEC.md`, section 1, D1 to D9, D37).

use tracemill_codec::bits::{read_uint, u32_at};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::diagnostics::Diagnostics;

/// Octets of the file header, and of a section's.
pub(super) const HEADER_BYTES: u64 = 8;
/// Octets of the name of a table in the header of a section.
pub(super) const NAME_BYTES: usize = 64;
/// Octets of an event's record.
pub(super) const RECORD_BYTES: u64 = 20;

/// The type of a section.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct SectionType(pub(super) u32);

impl SectionType {
    pub(super) const STRINGS: SectionType = SectionType(1);
    pub(super) const SYMBOLS: SectionType = SectionType(2);
    pub(super) const EVENT_DEFINITIONS: SectionType = SectionType(3);
    pub(super) const TRACK_DEFINITIONS: SectionType = SectionType(4);
    pub(super) const EVENTS: SectionType = SectionType(5);

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            SectionType::STRINGS => "string table",
            SectionType::SYMBOLS => "symbols",
            SectionType::EVENT_DEFINITIONS => "event definitions",
            SectionType::TRACK_DEFINITIONS => "track definitions",
            SectionType::EVENTS => "events",
            _ => "unknown type",
        }
    }

    /// Octets of its fixed header and of each record; `None` for string tables and unknown types.
    pub(super) fn record(self) -> Option<(u64, u64)> {
        match self {
            SectionType::SYMBOLS | SectionType::TRACK_DEFINITIONS => Some((68, 8)),
            SectionType::EVENT_DEFINITIONS => Some((68, 12)),
            SectionType::EVENTS => Some((72, RECORD_BYTES)),
            _ => None,
        }
    }
}

/// A section: where it is, and how much of it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Section {
    /// Its number in the file, from 1.
    pub(super) number: u32,
    /// Its type.
    pub(super) kind: SectionType,
    /// Offset of its data; its header stands in the 8 octets before.
    pub(super) data: u64,
    /// Octets of data as its header says.
    pub(super) declared: u64,
    /// Octets of data that are there.
    pub(super) len: u64,
}

impl Section {
    /// Offset of its header.
    pub(super) fn offset(&self) -> u64 {
        self.data - HEADER_BYTES
    }

    /// `section 3 (events)`.
    pub(super) fn title(&self) -> String {
        match self.kind.name() {
            "unknown type" => format!("section {} (of the unknown type {:#x})", self.number, self.kind.0),
            name => format!("section {} ({name})", self.number),
        }
    }

    /// Its data.
    pub(super) fn octets<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        file.get(self.data as usize..(self.data + self.len) as usize).unwrap_or(&[])
    }
}

/// The header of a section with records, and how many of them are whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordHeader {
    /// Name of its table: the octets before the first NUL, or all 64 (`SPEC.md`, D13).
    pub(super) name: [u8; NAME_BYTES],
    /// Octets of the name.
    pub(super) name_len: usize,
    /// For event sections the clock rate as it stands, else 0.
    pub(super) rate: u32,
    /// Offset of the first record in the file.
    pub(super) first: u64,
    /// Whole records that the section says it has.
    pub(super) count: u64,
}

impl RecordHeader {
    /// The name of the table.
    pub(super) fn table(&self) -> &[u8] {
        &self.name[..self.name_len]
    }
}

/// A file, cut into its sections.
#[derive(Debug)]
pub(super) struct Container {
    /// The byte order of its integers.
    pub(super) order: ByteOrder,
    /// Its version.
    pub(super) version: u8,
    /// Seconds since 1970 when it was written.
    pub(super) date: u32,
    /// Its sections, in the order of the file.
    pub(super) sections: Vec<Section>,
    /// Does the file end before its last section does?
    pub(super) is_cut: bool,
}

/// Where a walk over the sections ended.
struct WalkEnd {
    sections: Vec<Section>,
    end: u64,
    fault: Option<Error>,
}

impl Container {
    /// Walks over all sections. What cannot be read goes to `diagnostics`.
    ///
    /// # Errors
    /// When the header is cut or says another version; `any_version` reads that as version 1 with a warning (`SPEC.md`,
    /// D40).
    pub(super) fn read(file: &[u8], any_version: bool, diagnostics: &mut Diagnostics) -> Result<Self> {
        let Some(header) = file.first_chunk::<8>() else {
            let message = format!("the header of a CPEL file has 8 octets, here are {}", file.len());
            return Err(Error::truncated(message).at_offset(0));
        };
        let order = order_of(header);
        let version = header[0] & 0x7f;
        if version != 1 {
            let message = format!("version {version} of CPEL: only version 1 is known");
            if !any_version || version == 0 {
                let help = match version {
                    0 => "a Gist log begins so: `--input-format gist` reads it as one",
                    _ => "`--input-format cpel` reads it as version 1",
                };
                return Err(Error::unsupported(message).at_offset(0).with_help(help));
            }
            diagnostics.warn("versions", 0, format!("{message}; it is read as version 1"));
        }
        let declared = read_uint(&header[2..4], order) as u32;
        let exact = walk(file, order, declared, false);
        let walk = match &exact.fault {
            None => exact,
            Some(_) => {
                let padded = walk(file, order, declared, true);
                if padded.fault.is_none() && padded.end == file.len() as u64 {
                    let message = "the lengths of string tables leave their padding out; sections are found with it";
                    diagnostics.warn("lengths without padding", 0, message);
                    padded
                } else {
                    exact
                }
            }
        };
        let is_cut = walk.fault.is_some();
        if let Some(fault) = walk.fault {
            diagnostics.error("sections are cut", fault);
        } else if walk.end < file.len() as u64 {
            let message = format!("{} octets after the last section are ignored", file.len() as u64 - walk.end);
            diagnostics.warn("trailing octets", walk.end, message);
        }
        let date = read_uint(&header[4..8], order) as u32;
        Ok(Container { order, version, date, sections: walk.sections, is_cut })
    }

    /// The fixed header of a section with records; `None`, and a fault, when it is cut.
    pub(super) fn records(
        &self,
        file: &[u8],
        section: &Section,
        diagnostics: &mut Diagnostics,
    ) -> Option<RecordHeader> {
        let (header, record) = section.kind.record()?;
        let octets = section.octets(file);
        if section.len < header {
            // A section that the file cuts was reported when it was found.
            if section.len == section.declared {
                let message =
                    format!("{} has {} octets, its fixed header alone {header}", section.title(), section.len);
                diagnostics.error("sections are too short", Error::malformed(message).at_offset(section.offset()));
            }
            return None;
        }
        let name = *octets.first_chunk::<NAME_BYTES>()?;
        let word = |at: usize| u32_at(octets, at, self.order);
        let declared = u64::from(word(NAME_BYTES)?);
        let rate = if section.kind == SectionType::EVENTS { word(NAME_BYTES + 4)? } else { 0 };
        let room = (section.len - header) / record;
        let count = declared.min(room);
        // Room in the section as it was declared: what a cut file lacks is no second fault.
        if declared > (section.declared - header) / record {
            let message = format!(
                "{} says that it has {declared} records, its {} octets have room for {}",
                section.title(),
                section.declared,
                (section.declared - header) / record
            );
            let error = Error::malformed(message).at_offset(section.data + NAME_BYTES as u64);
            diagnostics.error("counts are too large", error.with_help(format!("{count} whole records are used")));
        } else {
            let left = section.declared - header - declared * record;
            // In a section that the file cuts there is nothing after the records.
            if left > 0 && section.len == section.declared {
                let message = format!("{}: {left} octets after its last record are ignored", section.title());
                diagnostics.warn("octets after the last record", section.data + header + declared * record, message);
            }
        }
        let name_len = name.iter().position(|&octet| octet == 0).unwrap_or(NAME_BYTES);
        Some(RecordHeader { name, name_len, rate, first: section.data + header, count })
    }
}

fn walk(file: &[u8], order: ByteOrder, declared: u32, round: bool) -> WalkEnd {
    let len = file.len() as u64;
    let mut walk = WalkEnd { sections: Vec::new(), end: HEADER_BYTES, fault: None };
    for number in 1..=declared {
        let at = walk.end;
        let word = |behind: usize| u32_at(file, at as usize + behind, order);
        let (Some(kind), Some(declared_len)) = (word(0), word(4)) else {
            let message = format!("the file ends in the header of section {number} of {declared}");
            walk.fault = Some(Error::truncated(message).at_offset(at).with_help("the sections before it are used"));
            walk.end = len;
            return walk;
        };
        let (kind, mut declared_len) = (SectionType(kind), u64::from(declared_len));
        if round && kind == SectionType::STRINGS {
            declared_len = declared_len.next_multiple_of(4);
        }
        let data = at + HEADER_BYTES;
        let section = Section { number, kind, data, declared: declared_len, len: declared_len.min(len - data) };
        walk.sections.push(section);
        if section.len < declared_len {
            let message = format!(
                "{} of {declared} declares {declared_len} octets of data, only {} are left in the file",
                section.title(),
                section.len
            );
            let error = Error::truncated(message).at_offset(at);
            walk.fault = Some(error.with_help("its whole records are used; sections after it cannot be found"));
            walk.end = len;
            return walk;
        }
        walk.end = data + declared_len;
    }
    walk
}

/// The byte order that the header of a file has.
pub(super) fn order_of(header: &[u8]) -> ByteOrder {
    ByteOrder::big_if(header.first().is_none_or(|first| first & 0x80 == 0))
}

/// Does a file of `len` octets that begins with `start` begin with a section of a known type that it can hold?
pub(super) fn is_first(start: &[u8], len: u64) -> bool {
    let order = order_of(start);
    let (Some(kind), Some(section)) = (u32_at(start, 8, order), u32_at(start, 12, order)) else { return false };
    let kind = SectionType(kind);
    (kind == SectionType::STRINGS || kind.record().is_some()) && u64::from(section) <= len - 16
}

/// Is this the beginning of a CPEL file? `file` is all of it.
///
/// The first octet alone says little, so the sections must make sense: one of a known type with a believable header,
/// or a walk that ends exactly at the end of the file.
pub(super) fn probe(file: &[u8]) -> bool {
    let Some(header) = file.first_chunk::<8>() else { return false };
    let (version, order) = (header[0] & 0x7f, order_of(header));
    let declared = read_uint(&header[2..4], order) as u32;
    if version == 0 || declared == 0 {
        return version == 1 && file.len() == 8;
    }
    let WalkEnd { sections, end, fault } = walk(file, order, declared, false);
    let is_any = || sections.iter().any(|section| is_believable(section, file));
    match fault {
        None if end == file.len() as u64 => version == 1 || is_any(),
        None if version == 1 => is_any(),
        _ => sections.first().is_some_and(|first| is_believable(first, file)),
    }
}

/// Does a section of a known type begin with what such a section begins with: a name?
fn is_believable(section: &Section, file: &[u8]) -> bool {
    let octets = section.octets(file);
    let text = |octets: &[u8]| octets.iter().all(|&octet| octet >= 0x20 && octet != 0x7f);
    if section.kind == SectionType::STRINGS {
        let name = octets.split(|&octet| octet == 0).next().unwrap_or(&[]);
        return !octets.is_empty() && text(&name[..name.len().min(NAME_BYTES)]);
    }
    if section.kind.record().is_none() {
        return false;
    }
    let Some(name) = octets.first_chunk::<NAME_BYTES>() else { return false };
    let len = name.iter().position(|&octet| octet == 0).unwrap_or(NAME_BYTES);
    text(&name[..len]) && name[len..].iter().all(|&octet| octet == 0)
}
