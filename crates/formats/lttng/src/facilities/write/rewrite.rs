//! A trace of 0.7 or 0.8 as itself: its definitions, its blocks, and events from their values.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;

use super::super::block::TraceHeader;
use super::super::classes::Flavor;
use super::super::definitions::{DefinitionFile, EventDefinition};
use super::super::directory::Candidate;
use super::super::layout::{Sizes, number};
use super::super::loads::{CORE, CoreEvent, Library, Load, Messages, core_definition, core_events};
use super::blocks::{EventOut, TraceFile};
use super::encode::{Form, put};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter};
use tracemill_format::writer::{enters, payload_members};
use tracemill_format::{OutPath, is_below};

/// Part that lists the facility loads.
pub(crate) const LOADS: &str = "facilities";
/// Parts with the headers of the blocks of a tracefile begin so.
pub(crate) const BLOCKS: &str = "blocks/";

/// A line for each facility load, for [`loads`].
pub(crate) fn loads_text<'a>(loads: impl Iterator<Item = &'a Load>) -> String {
    loads
        .map(|load| {
            let [int, long, pointer, size] = load.sizes;
            let Load { name, checksum, id, alignment, .. } = load;
            format!("{id} {checksum} {int} {long} {pointer} {size} {alignment} {name}\n")
        })
        .collect()
}

fn loads(text: &[u8]) -> Vec<Load> {
    let text = String::from_utf8_lossy(text);
    let load = |line: &str| {
        let mut words = line.splitn(8, ' ');
        let mut next = || words.next()?.parse::<u32>().ok();
        let (id, checksum) = (next()?, next()?);
        let sizes = [next()?, next()?, next()?, next()?];
        let alignment = next()?;
        Some(Load { name: words.next()?.to_string(), checksum, id, sizes, alignment })
    };
    text.lines().filter_map(load).collect()
}

/// A trace that is written as it was.
pub(super) struct Rewriter {
    folder: OutPath,
    facilities: HashMap<u8, Facility>,
    core: HashMap<u8, Vec<EventDefinition>>,
    compact: Option<(u8, u32)>,
    files: Vec<(OutPath, Vec<u8>)>,
    streams: Vec<Stream>,
    /// Loads that no event has said yet.
    missing: Vec<Load>,
    /// The tracefile that says the missing ones, when it is not among the streams.
    control: Option<(OutPath, TraceHeader, Vec<u8>)>,
    losses: Losses,
}

struct Facility {
    events: Vec<EventDefinition>,
    sizes: Option<Sizes>,
}

struct Stream {
    file: TraceFile,
    /// The headers of all its blocks.
    heads: Vec<u8>,
    next: usize,
    packet: Option<Arc<PacketData>>,
    flavor: Flavor,
    /// Does it say what facility ids mean?
    has_facilities: bool,
    /// Time of its last event.
    last: u64,
}

impl Rewriter {
    /// `None` when the parts do not make a trace.
    pub(super) fn new(folder: &OutPath, source: &Source) -> Result<Option<Rewriter>> {
        let origin = &source.origin;
        let Some(text) = origin.part(LOADS) else { return Ok(None) };
        let (mut library, mut files) = (Library::default(), Vec::new());
        for part in &origin.parts {
            let is_own = part.name == LOADS || part.name.starts_with(BLOCKS);
            if is_own || !is_below(&part.name) {
                continue;
            }
            let path = folder.join(&part.name);
            if let Some(name) = part.name.strip_prefix("eventdefs/").and_then(|name| name.strip_suffix(".xml")) {
                let content = DefinitionFile::parse(&part.bytes, path.path());
                library.files.push((name.to_string(), path.path().to_path_buf(), content));
            }
            files.push((path, part.bytes.to_vec()));
        }
        let mut own = Rewriter {
            folder: folder.clone(),
            facilities: HashMap::new(),
            core: HashMap::new(),
            compact: None,
            files,
            streams: Vec::new(),
            missing: loads(text),
            control: None,
            losses: Losses::default(),
        };
        let headers: Vec<_> = source.streams.iter().map(|stream| header_of(source, &stream.origin_name)).collect();
        let arch = headers.iter().flatten().next().and_then(|(header, _)| header.arch_name());
        for load in loads(text) {
            let (Ok(id), sizes) = (u8::try_from(load.id), load.usable_sizes().ok()) else { continue };
            let is_compact = ["compact", "flight-compact"].contains(&load.name.as_str());
            let found = library.resolve(load, false, arch, &mut Messages::default());
            let events = found.definition.map(|definition| definition.events.clone()).unwrap_or_default();
            if is_compact && own.compact.is_none() {
                own.compact = Some((id, usize::BITS - events.len().leading_zeros()));
            }
            own.facilities.insert(id, Facility { events, sizes });
        }
        for (stream, header) in source.streams.iter().zip(headers) {
            let name = &stream.origin_name;
            let (Some((mut header, mut heads)), true) = (header, is_below(name)) else { return Ok(None) };
            own.correct(&mut header, &mut heads, source.moved_ns());
            own.losses.add(Lost::ClockDrifts, source.drift.is_some().into());
            let candidate = Candidate { path: PathBuf::new(), relative: name.clone() };
            let is_compact = header.minor == 8 && candidate.is_compact();
            let compact = own.compact.filter(|_| is_compact).map(|(_, bits)| bits);
            let flavor = Flavor::of(&header, is_compact);
            let has_facilities = candidate.has_facilities();
            own.core.entry(header.minor).or_insert_with(|| core_definition(header.minor).events);
            let file = TraceFile::new(own.folder.join(name), header, compact);
            own.streams.push(Stream { file, heads, next: 0, packet: None, flavor, has_facilities, last: 0 });
        }
        if !own.streams.iter().any(|stream| stream.has_facilities) {
            let names = origin.parts.iter().filter_map(|part| part.name.strip_prefix(BLOCKS));
            let is_control = |name: &&str| {
                let candidate = Candidate { path: PathBuf::new(), relative: (*name).to_string() };
                candidate.has_facilities() && is_below(name)
            };
            own.control = names.into_iter().find(is_control).and_then(|name| {
                let (header, heads) = header_of(source, name)?;
                Some((folder.join(name), header, heads))
            });
        }
        Ok(Some(own))
    }

    /// Moves the start of the trace by what the user wants.
    fn correct(&mut self, header: &mut TraceHeader, heads: &mut [u8], correction_ns: i64) {
        if correction_ns == 0 {
            return;
        }
        let start = i128::from(header.start_sec) * 1_000_000 + i128::from(header.start_usec);
        let moved = start + i128::from(correction_ns) / 1000;
        if start == 0 || moved <= 0 || correction_ns % 1000 != 0 || moved / 1_000_000 > u64::MAX.into() {
            self.losses.add(Lost::StartCorrections, 1);
            return;
        }
        (header.start_sec, header.start_usec) = ((moved / 1_000_000) as u64, (moved % 1_000_000) as u64);
        let mut start = Vec::with_capacity(16);
        put(header.start_sec, 8, header.is_big, &mut start);
        put(header.start_usec, 8, header.is_big, &mut start);
        for head in heads.chunks_exact_mut(header.len) {
            head[header.len - 16..].copy_from_slice(&start);
        }
    }

    /// Says the loads whose events were left out: without them no other event means anything.
    fn say_missing(&mut self) -> Result<()> {
        let missing = std::mem::take(&mut self.missing);
        let mut made;
        let (file, heads, last) = match (self.streams.iter_mut().find(|of| of.has_facilities), &self.control) {
            (Some(of), _) => (&mut of.file, &of.heads, of.last),
            (None, Some((path, header, heads))) => {
                made = TraceFile::new(path.clone(), header.clone(), None);
                (&mut made, heads, 0)
            }
            (None, None) => return Ok(()),
        };
        let header = file.header.clone();
        let Some(head) = heads.get(..header.len).filter(|_| !missing.is_empty()) else { return Ok(()) };
        let tsc = last.max(number(&head[..8], header.is_big));
        let mut head = head.to_vec();
        let mut begin = Vec::with_capacity(8);
        put(tsc, 8, header.is_big, &mut begin);
        head[..8].copy_from_slice(&begin);
        file.begin(&head, None, 0)?;
        let dumped = |event: &CoreEvent| *event == CoreEvent::Load(true);
        let number = core_events(header.minor).iter().position(dumped).unwrap_or(0) as u8;
        for load in &missing {
            let mut data = load.name.clone().into_bytes();
            data.push(0);
            super::encode::pad(&mut data, header.header_align());
            for word in [load.checksum, load.id].into_iter().chain(load.sizes).chain([load.alignment]) {
                put(word.into(), 4, header.is_big, &mut data);
            }
            let event = EventOut { tsc, facility: CORE, event: number, data: &data, packed: 0, sets_clock: false };
            file.event(&event)?;
        }
        file.finish()
    }
}

impl TraceWriter for Rewriter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let Some(of) = self.streams.get_mut(stream) else { return Ok(()) };
        if enters(&mut of.packet, event) {
            of.seek(event.chunk.packet.packet.begin_cycles)?;
        }
        let id = event.id();
        let (facility, number) = if id == u64::from(u32::MAX) { (0, 0) } else { ((id >> 8) as u8, id as u8) };
        let flavor = of.flavor;
        let (definition, sizes) = match facility {
            CORE => {
                let sizes = Sizes { int: 4, long: 4, pointer: flavor.arch_size, size: 4, align: flavor.align };
                (self.core.get(&flavor.minor).and_then(|events| events.get(usize::from(number))), Some(sizes))
            }
            _ => {
                let known = self.facilities.get(&facility);
                (known.and_then(|known| known.events.get(usize::from(number))), known.and_then(|known| known.sizes))
            }
        };
        let (mut data, mut packed) = (Vec::new(), 0);
        match (definition, sizes, payload_members(event)?) {
            (Some(definition), Some(sizes), Some(mut values)) => {
                let form = Form { sizes, is_big: flavor.is_big, floats_are_big: flavor.floats_are_big };
                let mut fields = &definition.fields[..];
                if let (true, true, Some((first, rest))) =
                    (flavor.is_compact, definition.has_compact_data, definition.fields.split_first())
                {
                    let value = if values.is_empty() { Value::Null } else { values.remove(0) };
                    let mut image = Vec::new();
                    form.integer(&first.class, value.integer().unwrap_or(0), &mut image);
                    packed = number_of(&first.class, &image, flavor.is_big);
                    fields = rest;
                }
                // Fields behind one that is absent are so too.
                let _ = form.fields(fields, &values, &mut data);
            }
            (Some(definition), ..) if definition.fields.is_empty() => {}
            _ => self.losses.add(Lost::UndescribedData, 1),
        }
        if facility == CORE && matches!(core_events(flavor.minor).get(usize::from(number)), Some(CoreEvent::Load(_))) {
            let tail = flavor.arch_size.min(flavor.align);
            let id = Load::read(&data, tail, flavor.is_big).map(|load| load.id);
            self.missing.retain(|load| Some(load.id) != id);
        }
        of.last = event.cycles();
        let is_full_heartbeat = facility == CORE && flavor.minor == 8 && number == 3;
        of.file.event(&EventOut {
            tsc: event.cycles(),
            facility,
            event: number,
            data: &data,
            packed,
            sets_clock: is_full_heartbeat,
        })
    }

    // Packets say themselves what was lost before them.
    fn gap(&mut self, _stream: usize, _gap: &Gap) -> Result<()> {
        Ok(())
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        let Some(of) = self.streams.get_mut(stream) else { return Ok(()) };
        of.file.flush()?;
        of.empty_blocks(usize::MAX)?;
        // A file of facilities may have to say more at the end.
        if of.has_facilities { Ok(()) } else { of.file.finish() }
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for stream in 0..self.streams.len() {
            self.end_stream(stream)?;
        }
        self.say_missing()?;
        for of in &mut self.streams {
            of.file.finish()?;
        }
        for (path, bytes) in &self.files {
            path.make_folders_around()?;
            path.write("write the file", bytes)?;
        }
        for folder in ["eventdefs", "control"].map(|name| self.folder.join(name)) {
            folder.make_folder()?;
        }
        self.streams.iter().try_for_each(|of| of.file.check())?;
        Ok(self.losses)
    }
}

/// A number as the low bytes of a compact header, whatever its order in the payload.
fn number_of(class: &super::super::definitions::Type, image: &[u8], is_big: bool) -> u64 {
    number(image, is_big || class.is_network)
}

impl Stream {
    fn head(&self, at: usize) -> Option<&[u8]> {
        let len = self.file.header.len;
        self.heads.get(at * len..(at + 1) * len)
    }

    /// Begins the block that begins at this time; where none does, the one that is open goes on.
    fn seek(&mut self, begin: Option<u64>) -> Result<()> {
        let count = self.heads.len() / self.file.header.len;
        let is_big = self.file.header.is_big;
        let begins = |head: &[u8]| begin == Some(number(&head[..8], is_big));
        let found = (self.next..count).find(|&at| self.head(at).is_some_and(begins));
        let at = match found {
            Some(at) => at,
            None if self.file.has_block() => return Ok(()),
            None => self.next.min(count.saturating_sub(1)),
        };
        self.file.flush()?;
        self.empty_blocks(at)?;
        self.begin(at)?;
        self.next = at + 1;
        Ok(())
    }

    fn begin(&mut self, at: usize) -> Result<()> {
        let len = self.file.header.len;
        let Some(head) = self.heads.get(at * len..(at + 1) * len) else { return Ok(()) };
        let is_big = self.file.header.is_big;
        let (end, size) = (number(&head[16..24], is_big), number(&head[36..40], is_big));
        self.file.begin(head, Some(end), size as usize)
    }

    /// Writes the blocks up to one that never had events. Those that had some and have none now are left out.
    fn empty_blocks(&mut self, to: usize) -> Result<()> {
        let is_big = self.file.header.is_big;
        while self.next < to {
            let Some(head) = self.head(self.next) else { return Ok(()) };
            let (lost, size) = (number(&head[32..36], is_big), number(&head[36..40], is_big));
            if size.checked_sub(lost) == Some(self.file.header.len as u64) {
                self.begin(self.next)?;
                self.file.flush()?;
            }
            self.next += 1;
        }
        Ok(())
    }
}

/// The header of a tracefile and the headers of its blocks.
fn header_of(source: &Source, name: &str) -> Option<(TraceHeader, Vec<u8>)> {
    let heads = source.origin.part(&format!("{BLOCKS}{name}"))?;
    let header = TraceHeader::read(heads).ok()?;
    let whole = heads.len() / header.len * header.len;
    Some((header, heads[..whole].to_vec()))
}
