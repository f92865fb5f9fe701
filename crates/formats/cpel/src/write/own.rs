//! A CPEL log as itself: its sections as they were, its records made of its events. A Gist log becomes one so, too.

use std::sync::Arc;

use tracemill_codec::bits::{put_uint, read_uint, u32_at};
use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::{ClockMap, NS_PER_SECOND};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, ClockClass, Scope};

use super::spool::{Output, Spool, WRITING};
use crate::container::{HEADER_BYTES, Kind, NAME_BYTES};
use crate::definitions::EVENT_BYTES;
use crate::events::RECORD_BYTES;
use crate::settings::Wishes;
use crate::skeleton::{self, BEHIND, EVENTS, EVENTS_HEAD, FAR, HEADER, SECTION};
use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};

/// Writes a log.
pub(super) struct Own {
    output: Output,
    header: [u8; HEADER_BYTES as usize],
    order: ByteOrder,
    sections: Vec<Section>,
    /// For each stream the section of its events.
    streams: Vec<Option<usize>>,
    behind: Vec<u8>,
    /// Do events come as the log's reader decodes them?
    is_direct: bool,
    losses: Losses,
    scratch: Vec<u8>,
}

enum Section {
    /// As it is written, header included.
    Octets(Vec<u8>),
    /// As it was: its header, and all of a part behind that.
    Same([u8; HEADER_BYTES as usize], Arc<[u8]>),
    Events(Box<Events>),
}

struct Events {
    number: String,
    name: Vec<u8>,
    rate: u32,
    times: Times,
    count: u64,
    spool: Spool,
    behind: Vec<u8>,
}

/// How the times of a source become those of a section.
pub(super) enum Times {
    /// So many ticks are added.
    Ticks(i128),
    /// They are ns.
    Ns(ClockMap),
}

impl Own {
    /// `None` when the parts do not make a log.
    pub(super) fn new(path: &OutPath, source: &Source, options: &WriteOptions) -> Option<Own> {
        let origin = &source.origin;
        let mut header = *origin.part(HEADER)?.first_chunk()?;
        let stored = skeleton::order_of(&header);
        let order = options.byte_order.unwrap_or(stored);
        let date = read_uint(&header[4..8], stored) as u32;
        // What was read, it was as version 1.
        header[0] = 1 | if order == ByteOrder::Little { 0x80 } else { 0 };
        let mut octets = Vec::new();
        put_uint(&mut octets, date.into(), 4, order);
        header[4..].copy_from_slice(&octets);
        let mut losses = Losses::default();
        let mut sections = Vec::new();
        for part in &origin.parts {
            if part.name.starts_with(SECTION) {
                if let Some(head) = same_head(&part.bytes, stored, order) {
                    sections.push(Section::Same(head, part.bytes.clone()));
                    continue;
                }
                let (octets, is_known) = section(&part.bytes, stored, order)?;
                let is_lost = !is_known && stored != order;
                losses.add(Lost::OtherSections, is_lost.into());
                sections.push(Section::Octets(octets));
            } else if let Some(number) = part.name.strip_prefix(EVENTS) {
                let head = part.bytes.get(..EVENTS_HEAD)?;
                let rate = u32_at(head, EVENTS_HEAD - 4, stored)?;
                let behind = origin.part(&format!("{BEHIND}{number}")).unwrap_or(&[]).to_vec();
                sections.push(Section::Events(Box::new(Events {
                    number: number.to_string(),
                    name: head[HEADER_BYTES as usize..HEADER_BYTES as usize + NAME_BYTES].to_vec(),
                    rate,
                    times: Times::Ticks(0),
                    count: 0,
                    spool: Spool::new(path, &part.name),
                    behind,
                })));
            } else if part.name.starts_with(FAR) {
                losses.add(Lost::TrailingOctets, 1);
            }
        }
        let of_events = |(at, section): (usize, &Section)| match section {
            Section::Events(events) => Some((at, events.number.clone())),
            Section::Octets(_) | Section::Same(..) => None,
        };
        let of_events: Vec<(usize, String)> = sections.iter().enumerate().filter_map(of_events).collect();
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
            if let Some(Section::Events(events)) = at.and_then(|at| sections.get_mut(at)) {
                let clock = source.schema.stream(stream.class).default_clock;
                let clock = clock.map(|clock| source.schema.clock(clock)).filter(|clock| clock.frequency > 0);
                if let Some(clock) = clock {
                    (events.rate, events.times) = times(clock, source, events.rate);
                }
            }
            streams.push(at);
        }
        Some(Own {
            output: Output::new(path),
            header,
            order,
            sections,
            streams,
            behind: origin.part(BEHIND).unwrap_or(&[]).to_vec(),
            is_direct: source.schema.format == origin.format,
            losses,
            scratch: Vec::new(),
        })
    }
}

/// The header of a section of which everything else stays: a string table, or one of an unknown type.
fn same_head(octets: &[u8], from: ByteOrder, to: ByteOrder) -> Option<[u8; HEADER_BYTES as usize]> {
    let (head, data) = octets.split_first_chunk::<{ HEADER_BYTES as usize }>()?;
    let kind = Kind(read_uint(&head[..4], from) as u32);
    if kind.record().is_some() || kind != Kind::STRINGS && from != to {
        return None;
    }
    let mut out = Vec::with_capacity(head.len());
    put_uint(&mut out, kind.0.into(), 4, to);
    put_uint(&mut out, u32::try_from(data.len()).ok()?.into(), 4, to);
    out.first_chunk().copied()
}

/// A section as it is written, and whether its type is known.
fn section(octets: &[u8], from: ByteOrder, to: ByteOrder) -> Option<(Vec<u8>, bool)> {
    let (head, data) = octets.split_first_chunk::<{ HEADER_BYTES as usize }>()?;
    let kind = Kind(read_uint(&head[..4], from) as u32);
    let mut out = Vec::with_capacity(octets.len());
    put_uint(&mut out, kind.0.into(), 4, to);
    // What is there of a section that was cut is all of it now.
    put_uint(&mut out, u32::try_from(data.len()).ok()?.into(), 4, to);
    let is_known = kind == Kind::STRINGS || kind.record().is_some();
    let Some((fixed, size)) = kind.record().map(|(fixed, size)| (fixed as usize, size as usize)) else {
        out.extend_from_slice(data);
        return Some((out, is_known));
    };
    let Some((name, records)) = data.split_at_checked(fixed) else {
        out.extend_from_slice(data);
        return Some((out, is_known));
    };
    let declared = u32_at(name, NAME_BYTES, from)? as usize;
    let count = declared.min(records.len() / size);
    out.extend_from_slice(&name[..NAME_BYTES]);
    put_uint(&mut out, count as u64, 4, to);
    if fixed > NAME_BYTES + 4 {
        put_uint(&mut out, u32_at(name, NAME_BYTES + 4, from)?.into(), 4, to);
    }
    let (records, behind) = records.split_at(count * size);
    let mut records: Vec<&[u8]> = records.chunks_exact(size).collect();
    if kind == Kind::SYMBOLS {
        // Readers search in them.
        records.sort_by_key(|record| u32_at(record, 0, from));
    }
    for value in records.iter().flat_map(|record| record.as_chunks::<4>().0) {
        put_uint(&mut out, read_uint(value, from), 4, to);
    }
    out.extend_from_slice(behind);
    Some((out, is_known))
}

/// The rate of a section whose events have the times of a clock, and how they get them: the ticks of the clock where a
/// section can say them, else ns. `stored` is the rate that the section had.
fn times(clock: &ClockClass, source: &Source, stored: u32) -> (u32, Times) {
    let known = Wishes::default();
    let rate = if known.frequency_of(stored) == clock.frequency { Some(stored) } else { rate_of(clock.frequency) };
    let ticks = added_ticks(clock, source.correction_ns).filter(|_| source.drift.is_none());
    match (rate, ticks) {
        (Some(rate), Some(ticks)) => (rate, Times::Ticks(ticks)),
        _ => (NS_PER_SECOND as u32, Times::Ns(source.clock_map(clock))),
    }
}

/// How a section says a frequency, when it can.
pub(super) fn rate_of(frequency: u64) -> Option<u32> {
    let rate = match u32::try_from(frequency) {
        Ok(rate) if rate >= 100_000 => rate,
        _ if frequency.is_multiple_of(1_000_000) => u32::try_from(frequency / 1_000_000).ok()?,
        _ => return None,
    };
    (frequency > 0 && Wishes::default().frequency_of(rate) == frequency).then_some(rate)
}

/// What must be added to the ticks of a clock so that they count from its origin, when that is a whole number.
pub(super) fn added_ticks(clock: &ClockClass, correction_ns: i64) -> Option<i128> {
    let ns = i128::from(clock.offset_seconds) * NS_PER_SECOND + i128::from(clock.offset_ns) + i128::from(correction_ns);
    let ticks = ns.checked_mul(clock.frequency.into())?;
    (clock.seconds <= 1 && ticks % NS_PER_SECOND == 0).then_some(())?;
    (ticks / NS_PER_SECOND).checked_add(clock.offset_cycles)
}

impl Times {
    /// The time of an event; counts those that cannot be.
    pub(super) fn of(&self, cycles: u64, losses: &mut Losses) -> u64 {
        let time = match self {
            Times::Ticks(0) => return cycles,
            Times::Ticks(added) => added.saturating_add(cycles.into()),
            Times::Ns(clock) => clock.ns(cycles),
        };
        u64::try_from(time).unwrap_or_else(|_| {
            let kind = if time < 0 { Lost::ZeroTimes } else { Lost::LateTimes };
            losses.add(kind, 1);
            if time < 0 { 0 } else { u64::MAX }
        })
    }
}

/// Appends an event.
pub(super) fn put_record(out: &mut Vec<u8>, time: u64, [code, track, datum]: [u32; 3], order: ByteOrder) {
    // The high word of the time comes first whatever the byte order (`SPEC.md`, D17).
    for value in [(time >> 32) as u32, time as u32, track, code, datum] {
        put_uint(out, value.into(), 4, order);
    }
}

impl TraceWriter for Own {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let section = self.streams.get(stream).copied().flatten().and_then(|at| self.sections.get_mut(at));
        let Some(Section::Events(events)) = section else {
            self.losses.add(Lost::OtherEvents, 1);
            return Ok(());
        };
        let words = if self.is_direct {
            event.body().first_chunk::<EVENT_BYTES>().map(|octets| {
                let at = |at: usize| u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
                [at(0), at(4), at(8)]
            })
        } else {
            let payload = event.values(Scope::Payload)?;
            let number = |name| payload.as_ref()?.member(name).and_then(Value::integer);
            match (number("code"), number("track"), number("datum")) {
                (Some(code), Some(track), Some(datum)) => Some([code as u32, track as u32, datum as u32]),
                _ => None,
            }
        };
        let Some(words) = words else {
            self.losses.add(Lost::OtherEvents, 1);
            return Ok(());
        };
        let time = events.times.of(event.cycles(), &mut self.losses);
        self.scratch.clear();
        put_record(&mut self.scratch, time, words, self.order);
        events.count += 1;
        events.spool.write(&self.scratch)?;
        self.output.grow(self.scratch.len())
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.losses.add_gap(gap);
        Ok(())
    }

    fn end_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Losses> {
        let Own { output, mut header, order, mut sections, behind, losses, .. } = *self;
        let mut count = (sections.len().min(usize::from(u16::MAX)) as u16).to_be_bytes();
        if order == ByteOrder::Little {
            count.reverse();
        }
        header[2..4].copy_from_slice(&count);
        let path = output.path().clone();
        let failed = path.failed(WRITING);
        output.write(|out| {
            out.write_all(&header).map_err(&failed)?;
            for section in &mut sections {
                match section {
                    Section::Octets(octets) => out.write_all(octets).map_err(&failed)?,
                    Section::Same(head, part) => {
                        out.write_all(head).map_err(&failed)?;
                        out.write_all(part.get(head.len()..).unwrap_or(&[])).map_err(&failed)?;
                    }
                    Section::Events(events) => {
                        let Events { name, rate, count, behind, .. } = &**events;
                        out.write_all(&events_head(name, *count, *rate, behind.len(), order)?).map_err(&failed)?;
                        let behind = behind.clone();
                        events.spool.copy_to(out)?;
                        out.write_all(&behind).map_err(&failed)?;
                    }
                }
            }
            out.write_all(&behind).map_err(&failed)
        })?;
        Ok(losses)
    }
}

/// What stands before the events of a section, its header included.
pub(super) fn events_head(name: &[u8], count: u64, rate: u32, behind: usize, order: ByteOrder) -> Result<Vec<u8>> {
    let len = 72 + count * RECORD_BYTES + behind as u64;
    let len = u32::try_from(len)
        .map_err(|_| Error::unsupported(format!("a section of {count} events is longer than CPEL can say")))?;
    let mut out = Vec::with_capacity(EVENTS_HEAD);
    put_uint(&mut out, Kind::EVENTS.0.into(), 4, order);
    put_uint(&mut out, len.into(), 4, order);
    out.extend_from_slice(name);
    out.resize(HEADER_BYTES as usize + NAME_BYTES, 0);
    put_uint(&mut out, count, 4, order);
    put_uint(&mut out, rate.into(), 4, order);
    Ok(out)
}
