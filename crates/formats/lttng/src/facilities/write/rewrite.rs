//! A trace of 0.7 or 0.8 as itself: its definitions, its blocks, and events from their values.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::bits::{read_uint, uint_bytes};
use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;

use super::super::block::TraceHeader;
use super::super::classes::{COMPACT, Flavor, id_bits};
use super::super::definitions::{DefinitionFile, EventDefinition};
use super::super::directory::Candidate;
use super::super::layout::Sizes;
use super::super::loads::{CORE, CoreEvent, LOADS, Library, Load, core_definition, core_events};
use super::super::reader::BLOCKS;
use super::blocks::{EventOut, TraceFile};
use super::encode::NumberForm;
use crate::messages::Messages;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter};
use tracemill_format::writer::{enters, payload_members};
use tracemill_format::{OutPath, is_below};

/// A trace that is written as it was.
pub(crate) struct FacilitiesRewriter {
    folder: OutPath,
    facilities: HashMap<u8, Facility>,
    core: HashMap<u8, Vec<EventDefinition>>,
    /// Bits of the ids of events in compact headers.
    compact_bits: Option<u32>,
    files: Vec<(OutPath, Vec<u8>)>,
    streams: Vec<RewrittenStream>,
    /// Loads that no event has had yet.
    missing: Vec<Load>,
    /// The tracefile for the missing ones, when it is not among the streams.
    control: Option<(OutPath, TraceHeader, Vec<u8>)>,
    losses: Losses,
}

struct Facility {
    events: Vec<EventDefinition>,
    sizes: Option<Sizes>,
}

struct RewrittenStream {
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

impl FacilitiesRewriter {
    /// `None` when the parts do not make a trace.
    pub(crate) fn new(folder: &OutPath, source: &Source) -> Result<Option<FacilitiesRewriter>> {
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
        let mut own = FacilitiesRewriter {
            folder: folder.clone(),
            facilities: HashMap::new(),
            core: HashMap::new(),
            compact_bits: None,
            files,
            streams: Vec::new(),
            missing: String::from_utf8_lossy(text).lines().filter_map(Load::from_line).collect(),
            control: None,
            losses: Losses::default(),
        };
        let headers: Vec<_> = source.streams.iter().map(|stream| header_of(source, &stream.origin_name)).collect();
        let arch = headers.iter().flatten().next().and_then(|(header, _)| header.arch_name());
        for load in own.missing.clone() {
            let Ok(id) = u8::try_from(load.id) else { continue };
            let found = library.resolve(load, false, arch, &mut Messages::default());
            let events = found.definition.map(|definition| definition.events.clone()).unwrap_or_default();
            if COMPACT.contains(&found.load.name.as_str()) {
                own.compact_bits.get_or_insert(id_bits(events.len()));
            }
            own.facilities.insert(id, Facility { events, sizes: found.sizes });
        }
        for (stream, header) in source.streams.iter().zip(headers) {
            let name = &stream.origin_name;
            let (Some((mut header, mut heads)), true) = (header, is_below(name)) else { return Ok(None) };
            own.correct(&mut header, &mut heads, source.moved_ns());
            own.losses.add(Lost::ClockDrifts, source.drift.is_some().into());
            let candidate = Candidate { path: PathBuf::new(), relative: name.clone() };
            let is_compact = header.minor == 8 && candidate.is_compact();
            let compact = own.compact_bits.filter(|_| is_compact);
            let flavor = Flavor::from_header(&header, is_compact);
            let has_facilities = candidate.has_facilities();
            own.core.entry(header.minor).or_insert_with(|| core_definition(header.minor).events);
            let file = TraceFile::new(own.folder.join(name), header, compact);
            own.streams.push(RewrittenStream { file, heads, next: 0, packet: None, flavor, has_facilities, last: 0 });
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
        let start = [header.start_sec, header.start_usec].map(|word| uint_bytes(word, header.order));
        for head in heads.chunks_exact_mut(header.len) {
            head[header.len - 16..].copy_from_slice(start.as_flattened());
        }
    }

    /// Writes the loads whose events were left out: without them no other event means anything.
    fn write_missing(&mut self) -> Result<()> {
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
        let tsc = last.max(read_uint(&head[..8], header.order));
        let mut head = head.to_vec();
        head[..8].copy_from_slice(&uint_bytes(tsc, header.order));
        file.begin(&head, None, 0)?;
        let dumped = |event: &CoreEvent| *event == CoreEvent::Load(true);
        let number = core_events(header.minor).iter().position(dumped).unwrap_or(0) as u8;
        for load in &missing {
            let data = load.data(&header);
            file.event(&EventOut { tsc, facility: CORE, event: number, data: &data, ..EventOut::default() })?;
        }
        file.finish()
    }
}

impl TraceWriter for FacilitiesRewriter {
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
        let (events, sizes) = match facility {
            CORE => (self.core.get(&flavor.minor), Some(flavor.core_sizes())),
            _ => {
                let known = self.facilities.get(&facility);
                (known.map(|known| &known.events), known.and_then(|known| known.sizes))
            }
        };
        let definition = events.and_then(|events| events.get(usize::from(number)));
        let (mut data, mut packed) = (Vec::new(), 0);
        match (definition, sizes, payload_members(event)?) {
            (Some(definition), Some(sizes), Some(mut values)) => {
                let form = NumberForm { sizes, order: flavor.order, float_order: flavor.float_order };
                let mut fields = &definition.fields[..];
                if let (true, true, Some((first, rest))) =
                    (flavor.is_compact, definition.has_compact_data, definition.fields.split_first())
                {
                    let value = if values.is_empty() { Value::Null } else { values.remove(0) };
                    let mut image = Vec::new();
                    form.integer(&first.class, value.integer().unwrap_or(0), &mut image);
                    packed = read_uint(&image, first.class.order(flavor.order));
                    fields = rest;
                }
                // Fields after one that is absent are so too.
                let _ = form.fields(fields, &values, &mut data);
            }
            (Some(definition), ..) if definition.fields.is_empty() => {}
            _ => self.losses.add(Lost::UndescribedData, 1),
        }
        let core = core_events(flavor.minor).get(usize::from(number)).filter(|_| facility == CORE);
        if matches!(core, Some(CoreEvent::Load(_))) {
            let id = Load::read(&data, &flavor.core_sizes(), flavor.order).map(|load| load.id);
            self.missing.retain(|load| Some(load.id) != id);
        }
        of.last = event.cycles();
        of.file.event(&EventOut {
            tsc: event.cycles(),
            facility,
            event: number,
            data: &data,
            packed,
            sets_clock: core == Some(&CoreEvent::FullHeartbeat),
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
        self.write_missing()?;
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

impl RewrittenStream {
    fn head(&self, at: usize) -> Option<&[u8]> {
        let len = self.file.header.len;
        self.heads.get(at * len..(at + 1) * len)
    }

    /// Begins the block that begins at this time; where none does, the one that is open goes on.
    fn seek(&mut self, begin: Option<u64>) -> Result<()> {
        let count = self.heads.len() / self.file.header.len;
        let order = self.file.header.order;
        let begins = |head: &[u8]| begin == Some(read_uint(&head[..8], order));
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
        let (len, order) = (self.file.header.len, self.file.header.order);
        let Some(head) = self.heads.get(at * len..(at + 1) * len) else { return Ok(()) };
        let (end, size) = (read_uint(&head[16..24], order), read_uint(&head[36..40], order));
        self.file.begin(head, Some(end), size as usize)
    }

    /// Writes the blocks up to one that never had events. Those that had some and have none now are left out.
    fn empty_blocks(&mut self, to: usize) -> Result<()> {
        let order = self.file.header.order;
        while self.next < to {
            let Some(head) = self.head(self.next) else { return Ok(()) };
            let (lost, size) = (read_uint(&head[32..36], order), read_uint(&head[36..40], order));
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
