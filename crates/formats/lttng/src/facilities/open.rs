//! From a folder to an opened trace.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{ByteOrder, ClockClass, ClockOrigin, Schema, StreamClass, StreamClassId};

use super::block::{self, Blocks, FileBlock, TraceHeader};
use super::classes::{self, Flavor, FlavorEvents};
use super::definitions::{DefinitionFile, FacilityType, TypeKind};
use super::directory::{self, Candidate};
use super::info;
use super::loads::{CoreEvent, Facility, LOADS, Library, Load, core_events};
use super::reader::{BlockSlice, FacilitiesReader, TraceFile, slices};
use super::scan::{ScanResult, Scanner};
use crate::files::{self, DEFINITIONS, MAX_DEFINITION_FILE};
use crate::messages::Messages;
use tracemill_format::{DataFile, EntryKind, FoundTrace, OpenContext, OpenTrace, Storage, Stream};

/// Option by which the scale of the clock's frequency divides it.
pub(super) const DIVIDE: &str = "freq-scale-divides";

/// Fields and labels that the facilities of a trace may have together, in all flavors.
const MAX_SIZE: u64 = 1 << 20;

/// Opens every folder on its own.
pub(super) fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    found.iter().map(|found| open_one(context, found)).collect()
}

/// A tracefile with its blocks.
pub(super) struct File {
    pub(super) candidate: Candidate,
    pub(super) bytes: Arc<dyn Bytes>,
    pub(super) header: TraceHeader,
    pub(super) blocks: Vec<FileBlock>,
}

impl File {
    fn flavor(&self) -> Flavor {
        let is_compact = self.header.minor == 8 && self.candidate.is_compact();
        Flavor::from_header(&self.header, is_compact)
    }
}

fn open_one(context: &OpenContext<'_>, found: &FoundTrace) -> Result<OpenTrace> {
    let storage = context.storage;
    let mut messages = Messages::default();
    let mut remarks = Vec::new();
    let files = read_files(storage, &found.path, &mut messages, &mut remarks)?;
    warn_of_differences(&files, &mut messages);
    let clock_file = clock_file(&files, &mut messages);
    let header = &files[clock_file].header;
    let mut library = read_definitions(storage, &found.path, &mut messages);
    let mut flavors = vec![files[clock_file].flavor()];
    for file in &files {
        if !flavors.contains(&file.flavor()) {
            flavors.push(file.flavor());
        }
    }
    let max_size = MAX_SIZE / flavors.len() as u64;
    let facilities = read_facilities(&files, &mut library, header.arch_name(), max_size, &mut messages);
    remarks.extend(library.unused_broken().cloned());
    warn_of_floats(&files, &facilities, &mut messages);

    let mut schema = Schema::new("lttng-legacy");
    schema.version = (0, u32::from(header.minor));
    schema.byte_order = header.order;
    schema.environment = info::environment(header);
    let clock = clock_class(&files[clock_file], context.settings.get(DIVIDE).is_some(), &mut messages);
    let clock_id = schema.add_clock(clock.clone());
    let class = StreamClass { has_cpu: true, default_clock: Some(clock_id), ..StreamClass::default() };
    let stream_class = schema.add_stream(class).unwrap_or(StreamClassId(0));
    let tables = classes::tables(&mut schema, stream_class, &facilities, &flavors);
    let mut sections = info::sections(header, &clock, &facilities);
    sections.extend(files::info_sections(storage, &found.path, &mut messages.warnings));

    let loads: String = facilities.iter().map(|facility| facility.load.line()).collect();
    let mut parts: Vec<files::KeptFile> = vec![(LOADS.to_string(), Arc::new(loads.into_bytes()))];
    parts.extend(files::other_files(storage, &found.path));
    let (mut streams, mut readers) = (Vec::new(), HashMap::new());
    for file in files {
        let Some(table) = tables.get(&file.flavor()) else { continue };
        if let Some(error) = compact_error(&file, table) {
            messages.errors.push(error.in_file(&file.candidate.path).at_offset(0));
            continue;
        }
        let stream = stream_of(file, table.clone(), stream_class, streams.len(), &mut readers);
        streams.extend(stream);
    }
    let mut trace = OpenTrace::from_folder(found, schema, Arc::new(FacilitiesReader::new(readers, parts)));
    (trace.streams, trace.sections, trace.remarks) = (streams, sections, remarks);
    (trace.faults, trace.warnings) = (messages.errors, messages.warnings);
    Ok(trace)
}

/// Reads the headers of all files, and where their blocks are.
fn read_files(
    storage: &dyn Storage,
    root: &Path,
    messages: &mut Messages,
    remarks: &mut Vec<Error>,
) -> Result<Vec<File>> {
    let (candidates, errors) = directory::candidates(storage, root);
    messages.errors.extend(errors);
    let mut files = Vec::new();
    let mut refused = None;
    for candidate in candidates {
        let path = candidate.path.clone();
        let bytes = match storage.open(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                messages.errors.push(error.in_file(&path));
                continue;
            }
        };
        if bytes.bytes().is_empty() {
            remarks.push(Error::truncated("the file is empty").in_file(&path).at_offset(0));
            continue;
        }
        if let Some((minor, at)) = block::older_version(bytes.bytes()) {
            let error = block::refuse_version(minor).in_file(&path).at_offset(at);
            if candidate.has_facilities() {
                return Err(error);
            }
            refused.get_or_insert(error.clone());
            messages.errors.push(error);
            continue;
        }
        match block::read(bytes.bytes(), &path) {
            Err(error) => {
                let error = error.in_file(&path);
                refused.get_or_insert(error.clone());
                messages.errors.push(error);
            }
            Ok(Blocks { header, blocks, errors, warning }) => {
                messages.errors.extend(errors);
                messages.warnings.extend(warning);
                files.push(File { candidate, bytes, header, blocks });
            }
        }
    }
    if files.is_empty() {
        let none = || Error::new(ErrorKind::NotThisFormat, "no tracefile in the folder").in_file(root);
        return Err(refused.unwrap_or_else(none));
    }
    Ok(files)
}

/// Files of one trace agree on what is the same for a machine (`SPEC.md`, D5).
fn warn_of_differences(files: &[File], messages: &mut Messages) {
    let Some((first, rest)) = files.split_first() else { return };
    let of = |file: &File| (file.header.minor, file.header.order, file.header.arch_size);
    for file in rest.iter().filter(|file| of(file) != of(first)) {
        let text = |file: &File| {
            let order = if file.header.order == ByteOrder::Big { "big-endian" } else { "little-endian" };
            format!("version 0.{}, {order}, pointers of {} bytes", file.header.minor, file.header.arch_size)
        };
        let message = format!("{}; `{}` has {}", text(file), first.candidate.relative, text(first));
        let warning = Error::inconsistent(message).in_file(&file.candidate.path).at_offset(40);
        messages.warnings.push(warning.with_help("each file is read by its own header"));
    }
}

/// The file whose first block says what the clock is (`SPEC.md`, D33).
fn clock_file(files: &[File], messages: &mut Messages) -> usize {
    let is_good = |file: &File| file.blocks.first().is_some_and(|block| block.offset == 0);
    let controls = files.iter().enumerate().filter(|(_, file)| file.candidate.has_facilities());
    let mut good = controls.filter(|(_, file)| is_good(file)).map(|(at, file)| (file.candidate.cpu(), at));
    let mut best = good.next();
    for one in good {
        best = best.min(Some(one));
    }
    let at = match best {
        Some((_, at)) => at,
        None => {
            let at = files.iter().position(is_good).or(files.iter().position(|file| !file.blocks.is_empty()));
            let at = at.unwrap_or(0);
            let message = "no good `control/facilities_N`: the clock is that of this file";
            messages.warnings.push(Error::inconsistent(message).in_file(&files[at].candidate.path).at_offset(0));
            at
        }
    };
    let of = |header: &TraceHeader| {
        (header.start_freq, header.freq_scale, header.start_tsc, header.start_sec, header.start_usec)
    };
    let other = files.iter().find(|file| of(&file.header) != of(&files[at].header));
    if let Some(other) = other {
        let message =
            format!("the clock starts otherwise than in `{}`, whose values are used", files[at].candidate.relative);
        let warning = Error::inconsistent(message).in_file(&other.candidate.path);
        messages.warnings.push(warning.at_offset(62).with_help("reported once for the trace"));
    }
    at
}

/// The clock (`SPEC.md`, section 7).
fn clock_class(file: &File, divides: bool, messages: &mut Messages) -> ClockClass {
    let header = &file.header;
    let mut freq = header.start_freq;
    if freq == 0 {
        freq = file.blocks.first().map_or(0, |block| block.header.begin_freq);
    }
    let scale = u128::from(header.freq_scale.max(1));
    let frequency = if divides { u128::from(freq) / scale } else { u128::from(freq) * scale };
    let place = |error: Error| error.in_file(&file.candidate.path).at_offset(62);
    if freq == 0 {
        let message = "the frequency of the clock is 0: events have cycles and no time";
        messages.warnings.push(place(Error::inconsistent(message)));
    } else if !(1..=100_000_000_000).contains(&frequency) {
        let by = if divides { "divided by" } else { "times" };
        let message = format!("a clock of {frequency} Hz ({freq} {by} {scale}), expected 1 Hz to 100 GHz");
        let help = if divides { "without" } else { "with" };
        messages.warnings.push(place(Error::inconsistent(message).with_help(format!("try it {help} `--{DIVIDE}`"))));
    }
    let mut clock = ClockClass {
        frequency: u64::try_from(frequency).unwrap_or(u64::MAX),
        name: Some("tsc".into()),
        ..ClockClass::nanoseconds("tsc")
    };
    if divides && !freq.is_multiple_of(scale as u64) {
        (clock.frequency, clock.seconds) = (freq, scale as u32);
    }
    if (header.start_sec, header.start_usec) != (0, 0) {
        let seconds = u128::from(header.start_sec) + u128::from(header.start_usec / 1_000_000);
        clock.offset_seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        if seconds > i64::MAX as u128 {
            let message = format!("a start {seconds} s after 1970, which is held at {} s", i64::MAX);
            let error = Error::inconsistent(message).in_file(&file.candidate.path);
            messages.warnings.push(error.at_offset(header.start_sec_at()));
        }
        clock.offset_ns = (header.start_usec % 1_000_000 * 1000) as i64;
        clock.offset_cycles = -i128::from(header.start_tsc);
        clock.origin = ClockOrigin::Unix;
    }
    clock
}

/// Reads every file of `eventdefs/`.
fn read_definitions(storage: &dyn Storage, root: &Path, messages: &mut Messages) -> Library {
    let folder = root.join(DEFINITIONS);
    let mut library = Library::default();
    if storage.kind(&folder) != Some(EntryKind::Directory) {
        let message = "no folder `eventdefs` with definitions of events; our own are used where their checksum fits";
        messages.warnings.push(Error::inconsistent(message).in_file(root));
        return library;
    }
    let entries = match storage.list(&folder) {
        Ok(entries) => entries,
        Err(error) => {
            messages.errors.push(error);
            return library;
        }
    };
    for entry in entries {
        let EntryKind::File(len) = entry.kind else { continue };
        let Some(name) = entry.name.strip_suffix(".xml").filter(|name| !name.starts_with('.')) else { continue };
        if len > MAX_DEFINITION_FILE {
            let message = format!("a definition file of {len} bytes is not read");
            messages.errors.push(Error::unsupported(message).in_file(&entry.path).at_offset(0));
            continue;
        }
        match storage.open(&entry.path) {
            Ok(bytes) => {
                let content = DefinitionFile::parse(bytes.bytes(), &entry.path);
                library.files.push((name.to_string(), entry.path, content));
            }
            Err(error) => messages.errors.push(error.in_file(&entry.path)),
        }
    }
    library
}

/// The first pass (`SPEC.md`, D15): all facility loads of all CPUs.
fn read_facilities(
    files: &[File],
    library: &mut Library,
    arch: Option<&str>,
    max_size: u64,
    messages: &mut Messages,
) -> Vec<Facility> {
    let mut controls: Vec<&File> = files.iter().filter(|file| file.candidate.has_facilities()).collect();
    controls.sort_by_key(|file| file.candidate.cpu());
    if controls.is_empty() {
        let message = "no `control/facilities_N` that can be read: nothing says what the facility ids mean";
        let error = Error::malformed(message).in_file(&files[0].candidate.path).at_offset(0);
        messages.errors.push(error.with_help("events are shown as `facility_N.event_M` without fields"));
    }
    let mut facilities: Vec<Facility> = Vec::new();
    let mut size = 0u64;
    for file in controls {
        for (at, load, was_loaded) in loads(file) {
            let place = |error: Error| error.in_file(&file.candidate.path).at_offset(at);
            if !(1..=255).contains(&load.id) {
                let message =
                    format!("the facility `{}` is loaded with the id {}, expected 1 to 255", load.name, load.id);
                messages.errors.push(place(Error::malformed(message)));
                continue;
            }
            if let Some(known) = facilities.iter().find(|known| known.load.id == load.id) {
                if known.load != load {
                    let message = format!(
                        "the facility `{}` is loaded with the id {}, which `{}` has; the first one is kept",
                        load.name, load.id, known.load.name
                    );
                    messages.warnings.push(place(Error::inconsistent(message)));
                }
                continue;
            }
            let mut facility = library.resolve(load, was_loaded, arch, messages);
            let own = facility.definition.as_ref().map_or(0, |definition| definition.size());
            size = size.saturating_add(own);
            if size > max_size {
                size -= own;
                facility.definition = None;
                let message = format!(
                    "with the facility `{}` the trace has more than {max_size} fields and labels when every type is \
                     written out; it is not decoded",
                    facility.load.name
                );
                messages.errors.push(place(Error::unsupported(message)));
            }
            facilities.push(facility);
        }
    }
    facilities
}

/// The facility loads of a file, each with its offset and whether the facility was loaded before tracing began.
fn loads(file: &File) -> Vec<(u64, Load, bool)> {
    let flavor = Flavor { is_compact: false, ..file.flavor() };
    let table = FlavorEvents::core_only(flavor);
    let mut loads = Vec::new();
    for block in &file.blocks {
        let bytes = files::slice(file.bytes.bytes(), block.offset, block.limit);
        let scanner = Scanner {
            header: &file.header,
            table: &table,
            block,
            bytes,
            is_control: false,
            base: 0,
            stop: block.limit,
        };
        let mut place = Scanner::start(&file.header, block);
        let mut is_more = true;
        while is_more && loads.len() < 1 << 16 {
            let mut found = ScanResult::default();
            is_more = scanner.run(&mut place, 1 << 12, &mut found);
            for (at, class) in found.spine.classes.iter().enumerate() {
                let core = core_events(flavor.minor).get(*class as usize);
                let Some(CoreEvent::Load(was_loaded)) = core else { continue };
                let body = found.spine.bodies[at] / 8;
                let start = block.offset + u64::from(found.spine.starts[at] / 8);
                let is_whole = !found.spine.cuts.contains_key(&found.spine.bodies[at]);
                let data = bytes.get(body as usize..).filter(|_| is_whole);
                let load = data.and_then(|data| Load::read(data, &flavor.core_sizes(), flavor.order));
                loads.extend(load.map(|load| (start, load, *was_loaded)));
            }
        }
    }
    loads
}

/// Floats in a trace that says it has none (`SPEC.md`, D3).
fn warn_of_floats(files: &[File], facilities: &[Facility], messages: &mut Messages) {
    let Some(file) = files.iter().find(|file| !matches!(file.header.float_word_order, 1234 | 4321)) else { return };
    fn has_float(class: &FacilityType) -> bool {
        match &class.kind {
            TypeKind::Float(_) => true,
            TypeKind::Array(_, element) | TypeKind::Sequence(_, element) => has_float(element),
            TypeKind::Struct(fields) | TypeKind::Union(fields) => fields.iter().any(|field| has_float(&field.class)),
            TypeKind::Integer(_) | TypeKind::Enumeration(_) | TypeKind::String => false,
        }
    }
    let definitions = facilities.iter().filter_map(|facility| facility.definition.as_ref());
    let mut fields = definitions.flat_map(|definition| &definition.events).flat_map(|event| &event.fields);
    if fields.any(|field| has_float(&field.class)) {
        let message = format!(
            "the order of bytes of floats is said to be {}, expected 1234 or 4321; that of integers is taken",
            file.header.float_word_order
        );
        messages.warnings.push(Error::inconsistent(message).in_file(&file.candidate.path).at_offset(52));
    }
}

/// Why a compact tracefile cannot be read.
fn compact_error(file: &File, table: &FlavorEvents) -> Option<Error> {
    if !file.flavor().is_compact {
        return None;
    }
    let Some((_, id_bits)) = table.compact else {
        let message = "no definition of the facility `compact`: the layout of compact event headers is not known";
        return Some(Error::malformed(message).with_help("the file is skipped"));
    };
    let (bits, shift) = (u32::from(file.header.tsc_bits), u32::from(file.header.tsc_lsb_truncate));
    if bits + id_bits > 32 || bits + shift > 63 {
        let message = format!("{bits} bits of time, shifted by {shift}, and {id_bits} bits of ids do not fit a header");
        return Some(Error::malformed(message).with_help("the file is skipped"));
    }
    None
}

/// The stream of a file.
fn stream_of(
    file: File,
    table: Arc<FlavorEvents>,
    class: StreamClassId,
    number: usize,
    readers: &mut HashMap<String, TraceFile>,
) -> Option<Stream> {
    let File { candidate, bytes, header, blocks } = file;
    let all: Vec<BlockSlice> = blocks.iter().flat_map(|block| slices(&header, &table, block, bytes.bytes())).collect();
    if all.is_empty() {
        return None;
    }
    let mut packets: Vec<Packet> = Vec::with_capacity(all.len());
    for (at, slice) in all.iter().enumerate() {
        let block = &slice.block;
        let next = all.get(at + 1);
        let same = next.filter(|next| next.block.offset == block.offset);
        // Slices lie one after the other; the last one has the padding of the block.
        let end = same.map_or(block.len, BlockSlice::base);
        let limit = same.map_or(block.limit.max(slice.base()), BlockSlice::base);
        // An end that contradicts what comes next is not to be trusted.
        let next_begin = next.map_or(u64::MAX, |next| next.place.tsc);
        let own_end = same.map_or(block.header.end_tsc, |same| same.place.tsc);
        packets.push(Packet {
            index: block.index,
            content_bits: limit.saturating_sub(slice.base()) * 8,
            begin_cycles: Some(slice.place.tsc),
            end_cycles: (slice.place.tsc <= own_end && own_end <= next_begin).then_some(own_end),
            ..Packet::new(class, block.offset + slice.base(), end.saturating_sub(slice.base()) * 8)
        });
    }
    let name = candidate.relative.clone();
    let reader = TraceFile {
        cpu: candidate.cpu(),
        is_control: candidate.has_facilities(),
        header,
        table,
        slices: all,
        number,
        bytes: bytes.clone(),
    };
    readers.insert(name.clone(), reader);
    let data = DataFile { path: candidate.path, relative: name.clone(), bytes, is_indexed: false };
    Some(Stream { name, class, id: None, files: vec![data], packets: packets.into() })
}
