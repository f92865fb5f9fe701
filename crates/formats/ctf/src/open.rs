//! From folders to opened traces: metadata, data stream files, their packets, and what belongs together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_codec::chunk::Bytes;
use tracemill_codec::layout;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::packet_list::PacketList;
use tracemill_model::schema::{EnvValue, Role, Schema, StreamClassId};

use super::{ctf2, gaps, lttng_index, names, packet_order, packets, quirks, resync, rings::Rings, tsdl};
use tracemill_format::{DataFile, EntryKind, FoundTrace, OpenContext, OpenTrace, Storage, Stream};

/// Name of the metadata stream.
const METADATA: &str = "metadata";

/// Fields that the tree of one class may have, besides one for each byte of the metadata.
///
/// Classes are shared: 64 short lines can describe a tree of 2^64 fields, and a plan is as large as its tree.
const MAX_FIELDS: u64 = 1_000_000;
/// How many times as many all scopes of all classes may have together.
const MAX_LARGE_SCOPES: u64 = 8;

/// Does the folder hold CTF metadata?
pub(crate) fn probe(storage: &dyn Storage, path: &std::path::Path) -> bool {
    let metadata = path.join(METADATA);
    if !matches!(storage.kind(&metadata), Some(EntryKind::File(_))) {
        return false;
    }
    let start = storage.read_start(&metadata, 4096).unwrap_or_default();
    tsdl::probe(&start).is_some() || ctf2::probe(&start)
}

/// Opens all folders, and joins those that are parts of one trace.
pub(crate) fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    let folders: Vec<Result<TraceFolder>> = found.iter().map(|found| TraceFolder::open(context, found)).collect();
    let mut groups: Vec<Result<Vec<TraceFolder>>> = Vec::new();
    let mut by_uuid: HashMap<[u8; 16], usize> = HashMap::new();
    for folder in folders {
        let folder = match folder {
            Ok(folder) => folder,
            Err(error) => {
                groups.push(Err(error));
                continue;
            }
        };
        let known = folder.schema.uuid.and_then(|uuid| by_uuid.get(&uuid).copied());
        match known.and_then(|at| groups[at].as_mut().ok()) {
            Some(group) => group.push(folder),
            None => {
                if let Some(uuid) = folder.schema.uuid {
                    by_uuid.insert(uuid, groups.len());
                }
                groups.push(Ok(vec![folder]));
            }
        }
    }
    groups.into_iter().map(|group| group.map(join)).collect()
}

/// One folder: a whole trace, or a part of one (a rotation chunk, a snapshot).
struct TraceFolder {
    found: FoundTrace,
    metadata: Arc<dyn Bytes>,
    schema: Arc<Schema>,
    plans: Arc<TracePlans>,
    files: Vec<File>,
    faults: Vec<Error>,
    warnings: Vec<Error>,
    remarks: Vec<Error>,
    /// Files that are no streams: their faults, and the warning that is enough where there are streams beside them.
    foreign: Vec<(Vec<Error>, Error)>,
    /// Is damage in streams without packets passed over?
    resyncs: bool,
}

/// One data stream file.
struct File {
    data: DataFile,
    class: StreamClassId,
    id: Option<u64>,
    packets: PacketList,
    widths: gaps::Widths,
}

/// A data stream file whose packets are known when it has an index, and are looked for otherwise.
struct BegunFile {
    data: DataFile,
    widths: gaps::Widths,
    indexed: Option<PacketList>,
    scanned: Option<packets::Scanned>,
    /// Oddities of its index and its packets.
    warnings: Vec<Error>,
}

/// Bytes of files without an index from which on threads are worth their start.
const LARGE: usize = 16 << 20;

/// Looks for the packets of files that have no index, several files at a time: each header is in memory that was not
/// touched before, which takes longer than reading it. One file, or small ones, are left for later.
fn scan_all(plans: &TracePlans, files: &mut [Result<BegunFile>], jobs: usize) {
    let mut unknown: Vec<&mut BegunFile> = files.iter_mut().flatten().filter(|file| file.indexed.is_none()).collect();
    let bytes: usize = unknown.iter().map(|file| file.data.bytes.bytes().len()).sum();
    if jobs < 2 || unknown.len() < 2 || bytes < LARGE {
        return;
    }
    let threads = jobs.min(unknown.len());
    let left = Mutex::new(unknown.drain(..));
    let work = || {
        loop {
            // The lock is given back before the file is read.
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(file) = next else { return };
            file.scanned = Some(packets::scan_file(plans, &file.data.path, file.data.bytes.bytes()));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
}

impl TraceFolder {
    fn open(context: &OpenContext<'_>, found: &FoundTrace) -> Result<Self> {
        let storage = context.storage;
        let path = found.path.join(METADATA);
        let bytes = storage.open(&path)?;
        let read = read_metadata(bytes.bytes(), context.strict).map_err(|error| error.in_file(&path))?;
        check_size(&read.schema, bytes.bytes().len() as u64).map_err(|error| error.in_file(&path))?;
        let schema = Arc::new(read.schema);
        let plans = Arc::new(TracePlans::new(schema.clone()));
        let in_metadata = |errors: Vec<Error>| errors.into_iter().map(|error| error.in_file(&path)).collect();
        let mut folder = TraceFolder {
            found: found.clone(),
            metadata: bytes,
            schema,
            plans,
            files: Vec::new(),
            faults: in_metadata(read.faults),
            warnings: in_metadata(read.warnings),
            remarks: Vec::new(),
            foreign: Vec::new(),
            resyncs: context.settings.get(resync::RESYNC).is_some(),
        };
        let mut rings = Rings::open(storage, &found.path);
        let mut begun = Vec::new();
        for entry in storage.list(&found.path)? {
            let EntryKind::File(len) = entry.kind else { continue };
            if entry.name == METADATA || entry.name.starts_with('.') || len == 0 {
                continue;
            }
            let file = storage.open(&entry.path).map(|bytes| {
                let bytes = rings.whole_packets(&entry.name, bytes);
                folder.begin_file(storage, (&entry.name, &entry.path), bytes)
            });
            begun.push(file.map_err(|error| error.in_file(&entry.path)));
        }
        scan_all(&folder.plans, &mut begun, context.jobs);
        for file in begun {
            match file {
                Ok(file) => folder.add_file(file),
                Err(error) => folder.faults.push(error),
            }
        }
        folder.read_rings(storage, rings);
        for (faults, warning) in std::mem::take(&mut folder.foreign) {
            match folder.files.is_empty() {
                true => folder.faults.extend(faults),
                false => folder.warnings.push(warning),
            }
        }
        Ok(folder)
    }

    /// Adds the packets that are in rings only, each after those of its stream file.
    fn read_rings(&mut self, storage: &dyn Storage, mut rings: Rings) {
        self.warnings.extend(rings.warning(&self.found.path));
        self.faults.append(&mut rings.faults);
        for mut ring in rings.into_files() {
            self.faults.append(&mut ring.faults);
            let file = self.begin_file(storage, (&ring.name, &ring.path), Arc::new(ring.bytes));
            self.add_file(file);
        }
    }

    /// A file with the packets that its index lists, when there is one. The name is text, which not every path is.
    fn begin_file(
        &self,
        storage: &dyn Storage,
        (name, path): (&str, &std::path::PathBuf),
        bytes: Arc<dyn Bytes>,
    ) -> BegunFile {
        let mut data = DataFile { path: path.clone(), relative: name.to_string(), bytes, is_indexed: false };
        let first = packets::read_header(&self.plans, data.bytes.bytes(), 0, 0, u64::MAX);
        let (indexed, warning) = match self.read_index(storage, name, &data, first.as_ref().ok()) {
            Ok(list) => (list, None),
            Err(warning) => (None, Some(warning)),
        };
        let of_uuid = first.as_ref().ok().and_then(|first| packets::uuid_warning(&self.schema, path, first));
        let widths = first.map(|header| gaps::Widths::from_roles(&header.state.roles)).unwrap_or_default();
        data.is_indexed = indexed.is_some();
        let warnings = warning.into_iter().chain(of_uuid).collect();
        BegunFile { data, widths, indexed, scanned: None, warnings }
    }

    /// Adds a file whose packets are known, or are found now.
    fn add_file(&mut self, file: BegunFile) {
        let BegunFile { data, mut widths, indexed, scanned, warnings } = file;
        self.warnings.extend(warnings);
        let mut scanned = match &indexed {
            Some(_) => packets::Scanned::default(),
            None => {
                let scan = || packets::scan_file(&self.plans, &data.path, data.bytes.bytes());
                let scanned = scanned.unwrap_or_else(scan);
                widths = gaps::Widths { discarded: scanned.discarded_len_bits, sequence: scanned.sequence_len_bits };
                scanned
            }
        };
        if self.resyncs && self.has_no_packets() {
            let found = resync::stretches(&self.plans, StreamClassId(0), &data.path, data.bytes.bytes());
            scanned = packets::Scanned { packets: found.packets, faults: found.faults, ..scanned };
        }
        if let Some(warning) = scanned.foreign {
            return self.foreign.push((scanned.faults, warning));
        }
        let list = indexed.unwrap_or_else(|| std::mem::take(&mut scanned.packets));
        let list = self.in_order(&data, list, &widths, &mut scanned);
        self.faults.extend(scanned.faults);
        let Some(packet) = list.first() else { return };
        let id = packet.stream_id.filter(|_| packet.begin_cycles.is_some());
        let class = packet.class;
        if !list.is_all_of(class) {
            let message = "its packets belong to several stream classes; each is read by its own";
            self.warnings.push(Error::inconsistent(message).in_file(&data.path));
        }
        self.files.push(File { data, class, id, packets: list, widths });
    }

    /// Are streams nothing but events?
    fn has_no_packets(&self) -> bool {
        let is_empty = |root| layout::children(self.schema.field_class(root)).is_empty();
        let [stream] = self.schema.streams() else { return false };
        [self.schema.packet_header, stream.packet_context].into_iter().flatten().all(is_empty)
    }

    /// The packets of a file in the order in which they were written. A ring that was dumped as it lay has overwritten those
    /// before its oldest one: they are lost.
    fn in_order(
        &mut self,
        data: &DataFile,
        list: PacketList,
        widths: &gaps::Widths,
        scanned: &mut packets::Scanned,
    ) -> PacketList {
        let bytes = data.bytes.bytes();
        let read_again = |list: &PacketList| match data.is_indexed {
            true => list.clone(),
            false => packets::with_times_read(&self.plans, bytes, list),
        };
        let Some(ordered) = packet_order::in_order(&list, widths, read_again) else { return list };
        let mut list = ordered.packets;
        let (Some(oldest), Some(newest)) = (list.first(), list.last()) else { return list };
        let is_torn = scanned.forget_overwritten(&newest, &oldest, bytes.len() as u64);
        let lost = oldest.sequence.filter(|_| ordered.by == packet_order::BY_SEQUENCE).unwrap_or(0);
        list.update(0, |packet| packet.lost_packets_before = lost.max(is_torn.into()));
        let message = format!("the packets are not in order; their {} say which one it is", ordered.by);
        self.remarks.push(Error::inconsistent(message).in_file(&data.path));
        list
    }

    /// The packets as the index file lists them, when there is one; a warning when it does not fit.
    fn read_index(
        &self,
        storage: &dyn Storage,
        name: &str,
        data: &DataFile,
        first: Option<&packets::PacketHeader>,
    ) -> Result<Option<PacketList>> {
        let path = self.found.path.join("index").join(format!("{name}.idx"));
        if !matches!(storage.kind(&path), Some(EntryKind::File(_))) {
            return Ok(None);
        }
        let read = storage.open(&path).map_err(|error| error.to_string()).and_then(|index| {
            let list = lttng_index::read(index.bytes(), data.bytes.bytes(), &self.schema)?;
            fits_first(&list, first)?;
            self.fits(&list, data.bytes.bytes())?;
            Ok(list)
        });
        match read {
            Ok(list) => Ok(Some(self.without_absent_roles(list))),
            Err(why) => {
                let warning = Error::inconsistent(format!("the index is ignored: {why}")).in_file(&path);
                Err(warning.with_help("the packets are found by their headers instead"))
            }
        }
    }

    /// Do entries of an index describe their packets? Those are looked at whose times contradict the entries beside them,
    /// and some everywhere: to look at all would be to read the file without an index. A packet that differs otherwise is
    /// reported when it is opened.
    fn fits(&self, list: &PacketList, bytes: &[u8]) -> std::result::Result<(), String> {
        let stride = list.len().div_ceil(SPREAD).max(1);
        let contradicts = |at: usize| {
            let pair = list.get(at).zip(list.get(at + 1));
            pair.is_some_and(|(one, next)| next.begin_cycles < one.end_cycles)
        };
        let odd = (0..list.len()).filter(|&at| contradicts(at)).flat_map(|at| [at, at + 1]).take(MOST_ODD);
        for at in (0..list.len()).step_by(stride).chain(odd).chain(list.len().checked_sub(1)) {
            let entry = list.at(at);
            // A packet whose header is damaged is found by its entry, and reported when it is read.
            let header = packets::read_header(&self.plans, bytes, entry.offset_bytes, 0, u64::MAX);
            let Ok(header) = header else { continue };
            if header.total_bits != entry.total_bits || header.class != entry.class {
                return Err(format!("its entry {at} does not describe the packet at byte {}", entry.offset_bytes));
            }
            if let Some((what, says, is)) = packets::other_times(&entry, &header) {
                return Err(format!(
                    "its entry {at} says that the packet {what} at {says} cycles, the packet says {is}"
                ));
            }
        }
        Ok(())
    }

    /// An index has every number; those whose field the packets lack mean nothing.
    fn without_absent_roles(&self, mut list: PacketList) -> PacketList {
        let has = |root: Option<_>, role: Role| root.is_some_and(|root| has_role(&self.schema, root, role));
        let has_stream_id = has(self.schema.packet_header, Role::StreamId);
        let of_context = [Role::PacketBegin, Role::PacketEnd, Role::DiscardedEvents, Role::PacketSequence];
        let roles_of = |class| of_context.map(|role| has(self.schema.stream(class).packet_context, role));
        let Some(first) = list.first() else { return list };
        // Nearly all files have packets of one class.
        let (mut class, mut roles) = (first.class, roles_of(first.class));
        for at in 0..list.len() {
            list.update(at, |packet| {
                if packet.class != class {
                    (class, roles) = (packet.class, roles_of(packet.class));
                }
                let [has_begin, has_end, has_discarded, has_sequence] = roles;
                packet.begin_cycles = packet.begin_cycles.filter(|_| has_begin);
                packet.end_cycles = packet.end_cycles.filter(|_| has_end);
                packet.discarded_snapshot = packet.discarded_snapshot.filter(|_| has_discarded);
                packet.sequence = packet.sequence.filter(|_| has_sequence);
                packet.stream_id = packet.stream_id.filter(|_| has_stream_id);
            });
        }
        list
    }
}

pub(super) fn has_role(schema: &Schema, root: tracemill_model::schema::FieldClassId, role: Role) -> bool {
    layout::descendants(schema, root).any(|class| class.roles.has(role))
}

/// Entries of an index that are compared with their packets wherever they are. Each look maps pages of the file, which is much
/// of what opening a trace takes.
const SPREAD: usize = 16;
/// Entries with contradictory times that are compared with their packets.
const MOST_ODD: usize = 64;

/// Does the first entry of an index describe the first packet of the file?
fn fits_first(list: &PacketList, first: Option<&packets::PacketHeader>) -> std::result::Result<(), String> {
    let (Some(entry), Some(header)) = (list.first(), first) else {
        return Err("the data file does not begin with a packet".into());
    };
    let roles = &header.state.roles;
    let same = entry.total_bits == header.total_bits
        && entry.content_bits == header.content_bits
        && entry.class == header.class
        && roles.begin_cycles.is_none_or(|begin| entry.begin_cycles == Some(begin));
    if same { Ok(()) } else { Err("its first entry does not describe the first packet of the data file".into()) }
}

/// The metadata of a folder, with what is wrong with them.
struct Metadata {
    schema: Schema,
    faults: Vec<Error>,
    warnings: Vec<Error>,
}

fn read_metadata(bytes: &[u8], is_strict: bool) -> Result<Metadata> {
    if bytes.is_empty() {
        return Err(Error::malformed("the metadata is empty"));
    }
    if ctf2::probe(bytes) {
        let (schema, warnings) = ctf2::parse(bytes, is_strict)?;
        return Ok(Metadata { schema, faults: Vec::new(), warnings });
    }
    let metadata = tsdl::read_text(bytes)?;
    if ctf2::probe(metadata.text.as_bytes()) {
        let (schema, warnings) = ctf2::parse(metadata.text.as_bytes(), is_strict)?;
        return Ok(Metadata { schema, faults: metadata.faults, warnings });
    }
    let (mut schema, warnings) = tsdl::parse(&metadata.text, is_strict)?;
    if names::has_mark(&metadata.text) {
        schema = names::with_plain_names(&schema);
    }
    if schema.uuid.is_none() {
        schema.uuid = metadata.uuid.filter(|uuid| uuid.iter().any(|&byte| byte != 0));
    }
    Ok(Metadata { schema, faults: metadata.faults, warnings })
}

/// Refuses a schema whose plans would be out of proportion to its metadata. Linear in the schema.
pub(super) fn check_size(schema: &Schema, metadata_bytes: u64) -> Result<()> {
    let limit = MAX_FIELDS.saturating_add(metadata_bytes);
    let refuse = |what: &str, size: u64, limit: u64| {
        let message = format!("{what} {size} fields when every type is written out, more than the limit of {limit}");
        let help = "types that contain one another several times grow by multiplication";
        Err(Error::unsupported(message).with_help(help))
    };
    let sizes = layout::tree_sizes(schema);
    let largest = sizes.iter().copied().max().unwrap_or(0);
    if largest > limit {
        return refuse("a type has", largest, limit);
    }
    let streams =
        schema.streams().iter().flat_map(|class| [class.packet_context, class.event_header, class.common_context]);
    let events = schema.events().iter().flat_map(|class| [class.specific_context, class.payload]);
    let roots = streams.chain(events).chain([schema.packet_header]).flatten();
    let all = roots.map(|root| sizes[root.0 as usize]).fold(0, u64::saturating_add);
    if all > limit.saturating_mul(MAX_LARGE_SCOPES) {
        return refuse("all event and stream classes have", all, limit.saturating_mul(MAX_LARGE_SCOPES));
    }
    Ok(())
}

/// Makes one trace of the parts of one.
fn join(mut folders: Vec<TraceFolder>) -> OpenTrace {
    // The part with the most classes describes all of them: metadata only grows while a session lives.
    let size = |folder: &TraceFolder| folder.schema.streams().len() + folder.schema.events().len();
    let largest = (0..folders.len()).rev().max_by_key(|&at| size(&folders[at])).unwrap_or(0);
    let (schema, plans) = (folders[largest].schema.clone(), folders[largest].plans.clone());
    let several = folders.len() > 1;
    let base = common_folder(&folders);
    let (mut faults, mut warnings, mut files) = (Vec::new(), Vec::new(), Vec::new());
    let mut remarks = Vec::new();
    for folder in &mut folders {
        remarks.append(&mut folder.remarks);
        faults.append(&mut folder.faults);
        warnings.append(&mut folder.warnings);
        for mut file in folder.files.drain(..) {
            if several {
                let below = file.data.path.strip_prefix(&base).unwrap_or(&file.data.path);
                file.data.relative = below.to_string_lossy().replace('\\', "/");
            }
            // Ids of classes are places in a schema: find those of the common one.
            let remap = |class: StreamClassId| schema.stream_by_id(folder.schema.stream(class).id);
            let Some(class) = remap(file.class) else { continue };
            file.class = class;
            if several {
                let of_common = |packet: Packet| Packet { class: remap(packet.class).unwrap_or(class), ..packet };
                file.packets = file.packets.iter().map(of_common).collect();
            }
            files.push(file);
        }
    }
    let mut streams = group(files);
    for stream in &mut streams {
        warnings.extend(packets_that_go_back(&stream.0));
        quirks::repair(&schema, &plans, &mut stream.0, &mut warnings);
        gaps::count(&mut stream.0.packets, &stream.1);
    }
    let first = &folders[0].found;
    OpenTrace {
        name: if several { name_of(&folders, &base) } else { first.name.clone() },
        path: if several { base } else { first.path.clone() },
        own_name: own_name(&schema, if several { "" } else { &folders[largest].found.below }),
        schema,
        plans,
        has_other_bytes: false,
        reader: Arc::new(packets::CtfReader { metadata: Some(folders[largest].metadata.clone()) }),
        streams: streams.into_iter().map(|(stream, _)| stream).collect(),
        sections: Vec::new(),
        remarks,
        faults,
        warnings,
    }
}

/// A packet that begins before the one before it ends: reported once for the stream.
fn packets_that_go_back(stream: &Stream) -> Option<Error> {
    let packets = &stream.packets;
    let ends = (1..packets.len()).filter_map(|at| Some((packets.end_cycles(at - 1)?, at)));
    let (end, at) = { ends }.find(|&(end, at)| packets.begin_cycles(at).is_some_and(|begin| begin < end))?;
    let packet = packets.at(at);
    let message = format!(
        "time goes back in stream `{}`: a packet begins at {} cycles, the one before it ends at {end}; reported once for the \
         stream",
        stream.name,
        packet.begin_cycles.unwrap_or(0)
    );
    let warning = Error::inconsistent(message)
        .in_file(&stream.files[packet.file as usize].path)
        .at_offset(packet.offset_bytes)
        .in_packet(packet.index);
    Some(warning.with_help("the stream keeps its order, and each event its own time"))
}

/// The deepest folder that holds all parts.
fn common_folder(folders: &[TraceFolder]) -> std::path::PathBuf {
    let mut base = folders[0].found.path.clone();
    while !folders.iter().all(|folder| folder.found.path.starts_with(&base)) {
        if !base.pop() {
            break;
        }
    }
    base
}

/// The part of the names that all folders share, up to a `/`; the first name when they share none.
fn name_of(folders: &[TraceFolder], base: &std::path::Path) -> String {
    let first = &folders[0].found;
    let below = first.path.strip_prefix(base).map(|rest| rest.to_string_lossy().into_owned()).unwrap_or_default();
    let name = first.name.strip_suffix(&below).unwrap_or(&first.name).trim_end_matches('/');
    if name.is_empty() { first.name.clone() } else { name.to_string() }
}

/// The trace's own name, or host name and path below the argument as `babeltrace2` puts them together (it leaves the
/// path of a trace of several folders out).
fn own_name(schema: &Schema, below: &str) -> String {
    if let Some(name) = &schema.name {
        return name.to_string();
    }
    match schema.env("hostname") {
        Some(EnvValue::String(name)) if schema.format == "ctf1.8" && below.is_empty() => name.to_string(),
        Some(EnvValue::String(name)) if schema.format == "ctf1.8" => format!("{name}/{below}"),
        _ => below.to_string(),
    }
}

/// Joins files of one stream (same class and same id) and puts their packets in the order of time.
fn group(files: Vec<File>) -> Vec<(Stream, gaps::Widths)> {
    let mut streams: Vec<(Stream, gaps::Widths)> = Vec::new();
    let mut by_id: HashMap<(StreamClassId, u64), usize> = HashMap::new();
    for file in files {
        let key = file.id.map(|id| (file.class, id));
        let at = *key.and_then(|key| by_id.get(&key)).unwrap_or(&streams.len());
        if at == streams.len() {
            by_id.extend(key.map(|key| (key, at)));
            let stream = Stream {
                name: file.data.relative.clone(),
                class: file.class,
                id: file.id,
                files: Vec::new(),
                packets: PacketList::default(),
            };
            streams.push((stream, file.widths));
        }
        let stream = &mut streams[at].0;
        let number = stream.files.len() as u32;
        if number == 0 {
            stream.packets = file.packets;
        } else {
            stream.packets.extend(file.packets.iter().map(|packet| Packet { file: number, ..packet }));
        }
        stream.files.push(file.data);
    }
    for (stream, _) in &mut streams {
        stream.name = stream.files.iter().map(|file| &file.relative).min().cloned().unwrap_or_default();
        if stream.files.len() > 1 {
            stream.packets = in_order_of_time(&stream.packets);
        }
    }
    streams.sort_by(|(a, _), (b, _)| a.name.as_bytes().cmp(b.name.as_bytes()));
    streams
}

/// Packets by their beginnings, each once: overlapping snapshots hold the same packets twice.
fn in_order_of_time(packets: &PacketList) -> PacketList {
    let mut order: Vec<(Option<u64>, usize)> =
        packets.iter().zip(0..).map(|(packet, at)| (packet.begin_cycles, at)).collect();
    order.sort_unstable();
    let mut ordered = PacketList::default();
    let mut last: Option<Packet> = None;
    for (_, at) in order {
        let packet = packets.at(at);
        if !last.as_ref().is_some_and(|last| is_same_packet(last, &packet)) {
            ordered.push(&packet);
            last = Some(packet);
        }
    }
    ordered
}

fn is_same_packet(a: &Packet, b: &Packet) -> bool {
    a.file != b.file
        && a.begin_cycles.is_some()
        && (a.begin_cycles, a.end_cycles, a.sequence, a.content_bits)
            == (b.begin_cycles, b.end_cycles, b.sequence, b.content_bits)
}
