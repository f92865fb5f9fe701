//! A CPEL log rewritten: its sections as they were, its records made of its events. A Gist log becomes one so, too.

use std::sync::Arc;

use tracemill_codec::bits::{put_uint, read_uint, u32_at};
use tracemill_codec::chunk::EventRef;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, Origin};

use super::convert_gist::words_of_members;
use super::known_clock;
use super::output::LogFile;
use super::sections::{TimeMapping, events_head, log_head, put_record, rate_of, section_head};
use crate::container::{HEADER_BYTES, NAME_BYTES, SectionType, order_of};
use crate::definitions::words;
use crate::log_parts::{BEHIND, EVENTS, EVENTS_HEAD, FAR, HEADER, SECTION};
use crate::settings::Wishes;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::{OutPath, Spill};

/// Writes a log.
pub(super) struct CpelRewriter {
    output: LogFile,
    header: [u8; HEADER_BYTES as usize],
    order: ByteOrder,
    sections: Vec<StoredSection>,
    /// For each stream the section of its events.
    streams: Vec<Option<usize>>,
    behind: Vec<u8>,
    /// Do events come as the log's reader decodes them?
    is_direct: bool,
    losses: Losses,
    record: Vec<u8>,
}

enum StoredSection {
    /// As it is written, header included.
    Octets(Vec<u8>),
    /// As it was: its header, and all of a part after that.
    Unchanged(Vec<u8>, Arc<[u8]>),
    Events(Box<EventRecords>),
}

struct EventRecords {
    number: String,
    table: Vec<u8>,
    rate: u32,
    times: TimeMapping,
    count: u64,
    spool: Spill,
    behind: Vec<u8>,
}

impl CpelRewriter {
    /// `None` when the parts do not make a log.
    pub(super) fn new(path: &OutPath, source: &Source, options: &WriteOptions) -> Option<CpelRewriter> {
        let origin = &source.origin;
        let header: [u8; HEADER_BYTES as usize] = *origin.part(HEADER)?.first_chunk()?;
        let stored = order_of(&header);
        let order = options.byte_order.unwrap_or(stored);
        let mut losses = Losses::default();
        let mut sections = sections(path, origin, (stored, order), &mut losses)?;
        let of_events = sections.iter().enumerate().filter_map(|(at, section)| match section {
            StoredSection::Events(events) => Some((at, events.number.clone())),
            StoredSection::Octets(_) | StoredSection::Unchanged(..) => None,
        });
        let of_events: Vec<(usize, String)> = of_events.collect();
        let mut streams = Vec::new();
        for stream in &source.streams {
            // Streams have the number of their section when there are several.
            let at = match of_events.as_slice() {
                [(at, _)] => Some(*at),
                several => {
                    let number = stream.origin_name.rsplit_once(':').map_or("", |(_, number)| number);
                    several.iter().find(|(_, of)| of == number).map(|(at, _)| *at)
                }
            };
            if let Some(StoredSection::Events(events)) = at.and_then(|at| sections.get_mut(at))
                && let Some(clock) = known_clock(source, stream.class)
            {
                // The ticks of the clock, at the rate that the section had where that means them.
                let is_kept = Wishes::default().frequency_of(events.rate) == clock.frequency;
                let rate = if is_kept { Some(events.rate) } else { rate_of(clock.frequency) };
                (events.rate, events.times) = TimeMapping::new(rate, clock, source);
            }
            streams.push(at);
        }
        Some(CpelRewriter {
            output: LogFile::new(path),
            header,
            order,
            sections,
            streams,
            behind: origin.part(BEHIND).unwrap_or(&[]).to_vec(),
            is_direct: source.schema.format == origin.format,
            losses,
            record: Vec::new(),
        })
    }
}

/// The sections of a log as its parts have them, from one byte order to another; `None` when a part makes no section.
fn sections(
    path: &OutPath,
    origin: &Origin,
    (from, to): (ByteOrder, ByteOrder),
    losses: &mut Losses,
) -> Option<Vec<StoredSection>> {
    let mut sections = Vec::new();
    for part in &origin.parts {
        if part.name.starts_with(SECTION) {
            sections.push(match unchanged_head(&part.bytes, from, to) {
                Some(head) => StoredSection::Unchanged(head, part.bytes.clone()),
                None => {
                    let (octets, is_known) = section(&part.bytes, from, to)?;
                    losses.add(Lost::OtherSections, (!is_known && from != to).into());
                    StoredSection::Octets(octets)
                }
            });
        } else if let Some(number) = part.name.strip_prefix(EVENTS) {
            let head = part.bytes.get(..EVENTS_HEAD)?;
            sections.push(StoredSection::Events(Box::new(EventRecords {
                number: number.to_string(),
                table: head[HEADER_BYTES as usize..][..NAME_BYTES].to_vec(),
                rate: u32_at(head, EVENTS_HEAD - 4, from)?,
                times: TimeMapping::Ticks(0),
                count: 0,
                spool: Spill::new(path, &part.name),
                behind: origin.part(&format!("{BEHIND}{number}")).unwrap_or(&[]).to_vec(),
            })));
        } else if part.name.starts_with(FAR) {
            losses.add(Lost::TrailingOctets, 1);
        }
    }
    Some(sections)
}

/// The header of a section of which everything else stays: a string table, or one of an unknown type.
fn unchanged_head(octets: &[u8], from: ByteOrder, to: ByteOrder) -> Option<Vec<u8>> {
    let (head, data) = octets.split_first_chunk::<{ HEADER_BYTES as usize }>()?;
    let kind = SectionType(read_uint(&head[..4], from) as u32);
    if kind.record().is_some() || kind != SectionType::STRINGS && from != to {
        return None;
    }
    // The declared length of a truncated section becomes that of the bytes that are there.
    Some(section_head(kind, u32::try_from(data.len()).ok()?.into(), to))
}

/// A section as it is written, and whether its type is known.
fn section(octets: &[u8], from: ByteOrder, to: ByteOrder) -> Option<(Vec<u8>, bool)> {
    let (head, data) = octets.split_first_chunk::<{ HEADER_BYTES as usize }>()?;
    let kind = SectionType(read_uint(&head[..4], from) as u32);
    let mut out = section_head(kind, u32::try_from(data.len()).ok()?.into(), to);
    let is_known = kind == SectionType::STRINGS || kind.record().is_some();
    let split = kind.record().and_then(|(fixed, size)| Some((data.split_at_checked(fixed as usize)?, size as usize)));
    let Some(((fixed, records), size)) = split else {
        out.extend_from_slice(data);
        return Some((out, is_known));
    };
    let count = (u32_at(fixed, NAME_BYTES, from)? as usize).min(records.len() / size);
    out.extend_from_slice(&fixed[..NAME_BYTES]);
    put_uint(&mut out, count as u64, 4, to);
    if fixed.len() > NAME_BYTES + 4 {
        put_uint(&mut out, u32_at(fixed, NAME_BYTES + 4, from)?.into(), 4, to);
    }
    let (records, behind) = records.split_at(count * size);
    let mut records: Vec<&[u8]> = records.chunks_exact(size).collect();
    if kind == SectionType::SYMBOLS {
        // Readers search in them.
        records.sort_by_key(|record| u32_at(record, 0, from));
    }
    for value in records.iter().flat_map(|record| record.as_chunks::<4>().0) {
        put_uint(&mut out, read_uint(value, from), 4, to);
    }
    out.extend_from_slice(behind);
    Some((out, is_known))
}

impl TraceWriter for CpelRewriter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let section = self.streams.get(stream).copied().flatten().and_then(|at| self.sections.get_mut(at));
        let words = if self.is_direct { words(event.body()) } else { words_of_members(event)? };
        let (Some(StoredSection::Events(events)), Some(words)) = (section, words) else {
            self.losses.add(Lost::OtherEvents, 1);
            return Ok(());
        };
        let time = events.times.time(event.cycles(), &mut self.losses);
        self.record.clear();
        put_record(&mut self.record, time, words, self.order);
        events.count += 1;
        events.spool.append(0, &self.record)?;
        self.output.grow(self.record.len())
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.losses.add_gap(gap);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Losses> {
        let CpelRewriter { output, header, order, mut sections, behind, losses, .. } = *self;
        let date = read_uint(&header[4..], order_of(&header)) as u32;
        let mut head = log_head(sections.len().min(usize::from(u16::MAX)), date, order);
        head[1] = header[1];
        output.write(|log| {
            log.write_all(&head)?;
            for section in &mut sections {
                match section {
                    StoredSection::Octets(octets) => log.write_all(octets)?,
                    StoredSection::Unchanged(head, part) => {
                        log.write_all(head)?;
                        log.write_all(part.get(head.len()..).unwrap_or(&[]))?;
                    }
                    StoredSection::Events(events) => {
                        let EventRecords { table, rate, count, behind, spool, .. } = &mut **events;
                        log.write_all(&events_head(table, *count, *rate, behind.len(), order)?)?;
                        log.put_waiting(spool)?;
                        log.write_all(behind)?;
                    }
                }
            }
            log.write_all(&behind)
        })?;
        Ok(losses)
    }
}
