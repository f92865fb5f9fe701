//! Writing a `trace.dat`: one as it was, with its own formats, and kernel events of other formats with formats made for them.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use tracemill_codec::bits::put_uint;
use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{ByteOrder, ClockOrigin, FieldPath, Scope};
use tracemill_semantics::{CpuOf, Running, Semantics, StatedPlace, Who, value_of};

use super::classes::{self, MadeClass};
use super::sections::{CpuPages, DatSections, Instance};
use crate::container::Container;
use crate::event_format::{EventFormat, Machine};
use crate::options::id;
use crate::page_writer::PageWriter;
use crate::record_writer::{begin, write_field};
use crate::ring_buffer::PageLayout;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};
use tracemill_format::writer::{ClassKey, count_headers};
use tracemill_format::{OutPath, Setting, Spill};

/// Name of the option with the form.
const FORM: &str = "trace-dat";

/// `trace.dat`.
pub static TARGET: Target = Target::file(&["ftrace"], "trace.dat of trace-cmd, versions 6 and 7", create)
    .with_endings(&["dat"])
    .with_settings(&[Setting::with_value(
        FORM,
        "6|7|zstd",
        "Version of a trace.dat, or 7 packed with zstd: as the input, or 6",
    )])
    .cannot_hold(&[
        Lost::LostPacketCounts,
        Lost::LastGaps,
        Lost::PacketContexts,
        Lost::EventHeaders,
        Lost::FieldsAsText,
        Lost::Booleans,
        Lost::BitArrays,
        Lost::Blobs,
        Lost::RangeLabels,
        Lost::OtherNames,
        Lost::EventContexts,
        Lost::UndefinedFields,
        Lost::UntimedEvents,
        Lost::ZeroTimes,
        Lost::LargeKernelEvents,
    ]);

/// Bytes of a page of a trace of another format.
const PAGE_BYTES: u32 = 4096;
/// The number of the first format that is made: smaller ones are the tracer's own.
const FIRST_ID: u16 = 100;

fn create(path: &OutPath, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    let own = match sources {
        [source] if source.origin.format == TARGET.names[0] => DatSections::from_parts(&source.origin.parts),
        _ => None,
    };
    let is_own = own.is_some();
    // Readers turn the counts of records into ns by this option, and records are written in ns.
    let own = own.map(|mut sections: DatSections| {
        for (_, content) in sections.options.iter_mut().filter(|(option, _)| *option == id::TSC2NSEC) {
            let offset = content.get(8..16).unwrap_or_default().to_vec();
            content.clear();
            put_uint(content, 1, 4, sections.order);
            put_uint(content, 0, 4, sections.order);
            content.extend(offset);
        }
        sections
    });
    let mut sections = own.unwrap_or_else(|| empty(options.byte_order.unwrap_or(ByteOrder::Little)));
    (sections.version, sections.is_packed) = match options.settings.get(FORM) {
        None => (sections.version, sections.is_packed),
        Some("6") => (6, false),
        Some("7") => (7, false),
        Some("zstd") => (7, true),
        Some(other) => return Err(Error::misuse(format!("`{other}` is not one of 6, 7 and zstd for --{FORM}"))),
    };
    Ok(Box::new(DatWriter::new(path, sources, sections, is_own)))
}

/// The sections of a file without formats.
fn empty(order: ByteOrder) -> DatSections {
    let mut sections =
        DatSections { order, long_bytes: 8, page_bytes: PAGE_BYTES, version: 6, ..DatSections::default() };
    let page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:16;\tsize:{};\tsigned:1;\n",
        PAGE_BYTES - 16
    );
    let event = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
        \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
        \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
    for (name, text) in [("header_page", page.as_str()), ("header_event", event)] {
        sections.sections[0].extend(name.bytes().chain([0]));
        put_uint(&mut sections.sections[0], text.len() as u64, 8, order);
        sections.sections[0].extend(text.bytes());
    }
    // No formats of the tracer itself, no symbols, no format strings.
    for at in [1, 3, 4] {
        put_uint(&mut sections.sections[at], 0, 4, order);
    }
    sections
}

/// Writes a file.
struct DatWriter {
    path: OutPath,
    sections: DatSections,
    layout: PageLayout,
    /// The formats of a file that is written as it was, by number; `None` for traces of other formats.
    own: Option<HashMap<u64, Rc<EventFormat>>>,
    sources: Vec<WrittenSource>,
    /// The source of each stream, and its place there.
    streams: Vec<WrittenStream>,
    /// By instance and CPU.
    cpus: BTreeMap<(String, u32), usize>,
    pages: Vec<CpuOut>,
    spill: Spill,
    classes: HashMap<ClassKey, Option<Rc<KernelClass>>>,
    made: Vec<Rc<KernelClass>>,
    comms: BTreeMap<i64, String>,
    cpu_of: CpuOf,
    running: Running,
    is_unix: bool,
    last: u64,
    losses: Losses,
    scratch: Vec<u8>,
}

struct WrittenSource {
    schema: std::sync::Arc<tracemill_model::schema::Schema>,
    semantics: Option<Semantics>,
    moved_ns: i64,
}

struct WrittenStream {
    source: usize,
    /// The instance and CPU that its name says, in a file that is written as it was.
    place: Option<(String, u32)>,
    clock: Option<ClockMap>,
    name_of_clock: String,
}

#[derive(Default)]
struct CpuOut {
    pages: PageWriter,
    len: u64,
    clock: String,
}

/// A class of another format, and who its events are of.
struct KernelClass {
    made: MadeClass,
    who: Who,
    next: Option<FieldPath>,
    next_name: Option<FieldPath>,
}

impl DatWriter {
    fn new(path: &OutPath, sources: &[Source], sections: DatSections, is_own: bool) -> DatWriter {
        let mut losses = Losses::default();
        let machine = Machine { byte_order: sections.order, long_bytes: sections.long_bytes };
        let (mut layout, mut own) = (PageLayout::new(machine, sections.page_bytes as usize), None);
        if is_own {
            let read = Container::from_sections(&sections);
            layout = read.layout;
            own = Some(read.formats.into_iter().map(|(_, format)| (u64::from(format.id), Rc::new(format))).collect());
        }
        let mut streams = Vec::new();
        for (at, source) in sources.iter().enumerate() {
            if !is_own {
                count_headers(&mut losses, source, &["cpu_id"], &["cpu_id"]);
            }
            losses.add(Lost::ClockDrifts, (is_own && source.drift.is_some()).into());
            for stream in &source.streams {
                let clock = source.schema.stream(stream.class).default_clock.map(|clock| source.schema.clock(clock));
                streams.push(WrittenStream {
                    source: at,
                    place: is_own.then(|| place_of(&stream.origin_name)).flatten(),
                    clock: source.stream_clock(stream.class),
                    name_of_clock: clock.map_or_else(String::new, |clock| clock.id.to_string()),
                });
            }
        }
        if !is_own {
            losses.add(Lost::ClocklessStreams, streams.iter().filter(|stream| stream.clock.is_none()).count() as u64);
        }
        let is_unix = sources.iter().all(|source| {
            source.schema.clocks().iter().all(|clock| clock.origin == ClockOrigin::Unix)
                && !source.schema.clocks().is_empty()
        });
        let of = |source: &Source| WrittenSource {
            schema: source.schema.clone(),
            semantics: (!is_own).then(|| Semantics::new(&source.schema)),
            moved_ns: source.moved_ns(),
        };
        DatWriter {
            path: path.clone(),
            sections,
            layout,
            own,
            sources: sources.iter().map(of).collect(),
            streams,
            cpus: BTreeMap::new(),
            pages: Vec::new(),
            spill: Spill::new(path, "pages"),
            classes: HashMap::new(),
            made: Vec::new(),
            comms: BTreeMap::new(),
            cpu_of: CpuOf::default(),
            running: Running::default(),
            is_unix,
            last: 0,
            losses,
            scratch: Vec::new(),
        }
    }

    /// The CPU that an event of a stream is on.
    fn place(&mut self, stream: usize, event: Option<EventRef<'_>>) -> usize {
        let of = &self.streams[stream];
        let place = of.place.clone().unwrap_or_else(|| {
            let cpu = event.and_then(|event| self.cpu_of.cpu(stream, &event.chunk.packet));
            (String::new(), cpu.and_then(|cpu| u32::try_from(cpu).ok()).unwrap_or(stream as u32))
        });
        let next = self.pages.len();
        let at = *self.cpus.entry(place).or_insert(next);
        if at == next {
            self.pages.push(CpuOut { clock: self.streams[stream].name_of_clock.clone(), ..CpuOut::default() });
        }
        at
    }

    /// The time that a record gets.
    fn time(&mut self, stream: usize, event: EventRef<'_>) -> u64 {
        let of = &self.streams[stream];
        let source = &self.sources[of.source];
        let time = match (&self.own, &of.clock) {
            // Offsets of the file are among its options.
            (Some(_), clock) => {
                let moved = if clock.is_some() { source.moved_ns } else { 0 };
                Some(i128::from(event.cycles()) + i128::from(moved))
            }
            (None, clock) => event.ns(clock.as_ref()),
        };
        match time.map(|time| (u64::try_from(time), time)) {
            Some((Ok(time), _)) => self.last = time,
            Some((Err(_), time)) => {
                self.losses.add(if time < 0 { Lost::ZeroTimes } else { Lost::LateTimes }, 1);
                self.last = if time < 0 { 0 } else { u64::MAX };
            }
            None => self.losses.add(Lost::UntimedEvents, 1),
        }
        self.last
    }

    /// The record of an event of a file that is written as it was.
    fn own_record(&mut self, event: EventRef<'_>) -> Option<Vec<u8>> {
        let order = self.sections.order;
        let payload = event.values(Scope::Payload).ok().flatten();
        let format = self.own.as_ref()?.get(&event.id()).filter(|_| event.own_id(&mut Vec::new()).is_none());
        let Some(format) = format else {
            let record = payload.as_ref().and_then(|payload| payload.member("record"))?;
            return Some(record.elements()?.iter().map(|byte| byte.integer().unwrap_or(0) as u8).collect());
        };
        let mut out = begin(order, format);
        let header = event.values(Scope::EventHeader).ok().flatten();
        // CTF keeps the header as a member of its own.
        let header = header.as_ref().map(|header| header.member(tracemill_format::writer::STORED).unwrap_or(header));
        let common = format.common.iter().filter_map(|field| Some((field, header?.member(&field.name)?)));
        let fields = format.fields.iter().filter_map(|field| Some((field, payload.as_ref()?.member(&field.name)?)));
        common.chain(fields).for_each(|(field, value)| write_field(order, &mut out, field, value));
        Some(out)
    }

    fn class(&mut self, source: usize, event: EventRef<'_>) -> Result<Option<Rc<KernelClass>>> {
        let key = ClassKey::from_event(source, event);
        if let Some(class) = self.classes.get(&key) {
            return Ok(class.clone());
        }
        let of = &self.sources[source];
        let class = match u16::try_from(self.made.len() + usize::from(FIRST_ID)) {
            Err(_) => None,
            Ok(id) => {
                let who = of.semantics.as_ref().map(|semantics| semantics.who(event.class())).unwrap_or_default();
                let switch = of.semantics.as_ref().and_then(|semantics| semantics.switch(event.class()));
                let hidden: Vec<FieldPath> = [&who.id, &who.process, &who.name]
                    .into_iter()
                    .flatten()
                    .filter(|path| path.scope != Scope::Payload)
                    .cloned()
                    .collect();
                let name = key.name(&of.schema).into_owned();
                let machine = self.layout.machine;
                let made = classes::made(&of.schema, event.class(), &name, id, machine, &hidden)?;
                self.losses.extend(&made.losses);
                let (next, next_name) = match switch {
                    Some(switch) => (Some(switch.next), switch.next_name),
                    None => (None, None),
                };
                let class = Rc::new(KernelClass { made, who, next, next_name });
                self.made.push(class.clone());
                Some(class)
            }
        };
        self.classes.insert(key, class.clone());
        Ok(class)
    }

    /// The record of an event of another format.
    fn foreign_record(&mut self, stream: usize, event: EventRef<'_>) -> Result<Option<Vec<u8>>> {
        let Some(class) = self.class(self.streams[stream].source, event)? else {
            self.losses.add(Lost::MoreEventClasses, 1);
            return Ok(None);
        };
        let value = |path: &Option<FieldPath>| {
            let path = path.as_ref()?;
            let values = event.values(path.scope).ok()??;
            value_of(&values, path).cloned()
        };
        let number = |path: &Option<FieldPath>| {
            value(path).as_ref().and_then(Value::integer).and_then(|number| i64::try_from(number).ok())
        };
        let name = |path: &Option<FieldPath>| {
            let text = value(path)?.bytes()?.to_vec();
            Some(String::from_utf8_lossy(text.split(|byte| *byte == 0).next()?).into_owned())
        };
        let (machine, cpu) = (self.streams[stream].source as u32, self.cpu_of.cpu(stream, &event.chunk.packet));
        let (own, next) = (number(&class.who.id), number(&class.next));
        // A switch belongs to the thread that is left.
        let before = cpu.and_then(|cpu| self.running.thread(machine, cpu));
        self.running.place(machine, &class.who, StatedPlace { id: own, next, cpu });
        let pid = own.or(before).unwrap_or(0);
        for (pid, name) in [(own, name(&class.who.name)), (next, name(&class.next_name))] {
            if let (Some(pid), Some(name)) = (pid, name) {
                self.comms.insert(pid, name);
            }
        }
        Ok(Some(class.made.record(event, pid, self.layout.machine, &mut self.losses)))
    }

    fn write_pages(&mut self, at: usize) -> Result<()> {
        if self.scratch.is_empty() {
            return Ok(());
        }
        self.pages[at].len += self.scratch.len() as u64;
        self.spill.append(at, &self.scratch)?;
        self.scratch.clear();
        Ok(())
    }

    /// The sections that say what the records of other formats are.
    fn complete(&mut self) {
        let order = self.sections.order;
        let mut systems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for class in &self.made {
            systems.entry(&class.made.system).or_default().push(&class.made.text);
        }
        let mut formats = Vec::new();
        put_uint(&mut formats, systems.len() as u64, 4, order);
        for (system, texts) in systems {
            formats.extend(system.bytes().chain([0]));
            put_uint(&mut formats, texts.len() as u64, 4, order);
            for text in texts {
                put_uint(&mut formats, text.len() as u64, 8, order);
                formats.extend(text.bytes());
            }
        }
        self.sections.sections[2] = formats;
        let comms = self.comms.iter().filter(|(_, name)| !name.contains('\n') && !name.is_empty());
        let comms: String = comms.map(|(pid, name)| format!("{pid} {name}\n")).collect();
        let mut list = Vec::new();
        put_uint(&mut list, comms.len() as u64, 8, order);
        list.extend(comms.bytes());
        self.sections.sections[5] = list;
        let mut count = Vec::new();
        let cpus = self.cpus.keys().map(|(_, cpu)| u64::from(*cpu) + 1).max().unwrap_or(0);
        put_uint(&mut count, cpus, 4, order);
        self.sections.options = vec![(id::TRACECLOCK, b"[mono]\0".to_vec()), (id::CPUCOUNT, count)];
        if self.is_unix {
            // Times since the Unix epoch need no offset; the option says that they are such.
            self.sections.options.push((id::DATE, b"0x0\0".to_vec()));
        }
    }

    /// The instances with their CPUs, in the order of the file: version 6 knows CPUs by their place.
    fn instances(&self) -> Vec<Instance> {
        let mut instances = vec![Instance { name: String::new(), clock: String::new(), cpus: Vec::new() }];
        for ((name, cpu), &text) in &self.cpus {
            if instances.last().is_some_and(|last| last.name != *name) {
                instances.push(Instance { name: name.clone(), clock: String::new(), cpus: Vec::new() });
            }
            let Some(last) = instances.last_mut() else { continue };
            let out = &self.pages[text];
            last.clock = if self.own.is_some() { out.clock.clone() } else { "mono".into() };
            if self.sections.version == 6 {
                for cpu in last.cpus.len() as u32..(*cpu).min(MAX_EMPTY) {
                    last.cpus.push(CpuPages { cpu, text: usize::MAX, len: 0 });
                }
            }
            last.cpus.push(CpuPages { cpu: *cpu, text, len: out.len });
        }
        instances
    }
}

/// CPUs without events that a file of version 6 may have before one with events.
const MAX_EMPTY: u32 = 1 << 12;

/// The instance and CPU of a stream: `cpu0`, `NAME/cpu0`.
fn place_of(name: &str) -> Option<(String, u32)> {
    let (instance, cpu) = name.rsplit_once('/').unwrap_or(("", name));
    Some((instance.to_string(), cpu.strip_prefix("cpu")?.parse().ok()?))
}

impl TraceWriter for DatWriter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let record = match self.own {
            Some(_) => self.own_record(event),
            None => self.foreign_record(stream, event)?,
        };
        let time = self.time(stream, event);
        let at = self.place(stream, Some(event));
        match record {
            Some(record) if self.pages[at].pages.push(&self.layout, time, &record, &mut self.scratch) => {}
            Some(_) => self.losses.add(Lost::LargeKernelEvents, 1),
            None => self.losses.add(Lost::KernelEvents, 1),
        }
        self.write_pages(at)
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        let at = self.place(stream, None);
        let count = match gap.kind {
            GapKind::DiscardedEvents => gap.count,
            _ => {
                // The number of events in lost packets is not known.
                self.losses.add(Lost::LostPacketCounts, gap.count.unwrap_or(0));
                None
            }
        };
        self.pages[at].pages.gap(&self.layout, count, &mut self.scratch);
        self.write_pages(at)
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for at in 0..self.pages.len() {
            self.pages[at].pages.end_page(&self.layout, &mut self.scratch);
            self.write_pages(at)?;
            self.losses.add(Lost::LastGaps, self.pages[at].pages.has_open_gap().into());
        }
        if self.own.is_none() {
            self.complete();
        }
        let instances = self.instances();
        if self.sections.version == 6 {
            self.sections.write_v6(&self.path, &instances, &mut self.spill)?;
        } else {
            let mut packed = self.sections.is_packed.then(|| Spill::new(&self.path, "packed"));
            self.sections.write_v7(&self.path, &instances, &mut self.spill, packed.as_mut())?;
        }
        Ok(self.losses)
    }
}
