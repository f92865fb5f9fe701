//! A folder of uftrace made of the events of another format.
//!
//! Calls become calls: events that say that a function was entered or left ([`Semantics::call`]). Names of functions that
//! events bring along become symbols of one module. Every other event becomes a user event of its thread
//! ([`Semantics::who`]), with its name and time and without its fields.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::clock::ClockMap;
use tracemill_model::error::Result;
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{ByteOrder, EventClassId, FieldPath, Schema, Scope};
use tracemill_semantics::{Call, CpuOf, EventPlace, Running, Semantics, StatedPlace, Who, member, value_of};

use super::BUFFER;
use super::WRITING;
use super::record::{ADDRESS_BITS, NumberWriter, seconds_of};
use crate::records::RecordKind;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::{OutFile, OutPath};

/// The first id of user events.
const FIRST_USER: u64 = 1_000_000;
/// The deepest call that a record can say.
const MAX_DEPTH: u16 = 1023;
/// Threads whose numbers are no ids of tasks get ids from here on: no system gives them to threads.
const FIRST_ID: i64 = 1 << 30;
/// Where the stack of every process is said to be. With it the kernel begins above all addresses that records hold.
const STACK: u64 = 0x7fff_fffd_e000;
/// The name of the only session.
const SESSION: &str = "7472616365000001";

/// Writes a folder.
pub(super) struct FolderConverter {
    folder: OutPath,
    name: String,
    numbers: NumberWriter,
    schema: Arc<Schema>,
    /// By stream: its clock.
    clocks: Vec<Option<ClockMap>>,
    semantics: Semantics,
    /// The form that each class gets.
    classes: HashMap<EventClassId, Arc<ConvertedClass>>,
    /// Ids of tasks of threads whose numbers are none.
    ids: HashMap<i64, i64>,
    cpus: CpuOf,
    running: Running,
    /// Names of user events, from the first id on.
    names: Vec<String>,
    tasks: BTreeMap<i64, TaskFile>,
    /// Names of functions by their addresses.
    symbols: BTreeMap<u64, String>,
    /// The task of the last event of each stream.
    last_task: Vec<Option<i64>>,
    losses: Losses,
    scratch: Vec<u8>,
}

struct ConvertedClass {
    who: Who,
    /// The field with the thread that a CPU turns to.
    next: Option<FieldPath>,
    meaning: RecordMeaning,
}

enum RecordMeaning {
    Call(Call),
    User(u64),
}

struct TaskFile {
    file: OutFile,
    first: u64,
    depth: u16,
    last: u64,
}

impl FolderConverter {
    pub(super) fn new(folder: OutPath, source: &Source, options: &WriteOptions) -> FolderConverter {
        let schema = source.schema.clone();
        let clocks: Vec<_> = source.streams.iter().map(|stream| source.stream_clock(stream.class)).collect();
        let semantics = Semantics::new(&schema);
        let mut losses = lost_fields(&schema, &semantics);
        losses.add(Lost::ClocklessStreams, clocks.iter().filter(|clock| clock.is_none()).count() as u64);
        FolderConverter {
            name: source.name.clone(),
            numbers: NumberWriter(options.byte_order.unwrap_or(ByteOrder::Little)),
            clocks,
            semantics,
            classes: HashMap::new(),
            ids: HashMap::new(),
            cpus: CpuOf::default(),
            running: Running::default(),
            names: Vec::new(),
            tasks: BTreeMap::new(),
            symbols: BTreeMap::new(),
            last_task: vec![None; source.streams.len()],
            losses,
            scratch: Vec::new(),
            folder,
            schema,
        }
    }

    /// The form that the class of an event gets; one that stands for many names is looked at for each event.
    fn class(&mut self, event: EventRef<'_>) -> Arc<ConvertedClass> {
        let id = event.class();
        if let Some(class) = self.classes.get(&id) {
            return class.clone();
        }
        let (mut own, has_own) = (Vec::new(), self.schema.event(id).open_ids.is_some());
        let name = event.name(&mut own).unwrap_or(b"(no name)");
        let name = String::from_utf8_lossy(name).into_owned();
        let call = self.semantics.call_named(id, &name).map(RecordMeaning::Call);
        let meaning = call.unwrap_or_else(|| RecordMeaning::User(self.user_id(&name)));
        let next = self.semantics.switch(id).map(|switch| switch.next);
        let class = Arc::new(ConvertedClass { who: self.semantics.who(id), next, meaning });
        if !has_own {
            self.classes.insert(id, class.clone());
        }
        class
    }

    /// The id of the task of the thread or track that an event is on; of its stream when it is on none.
    fn task(&mut self, class: &ConvertedClass, stream: usize, event: EventRef<'_>) -> i64 {
        let number = |path: &Option<FieldPath>| {
            let path = path.as_ref()?;
            let values = event.values(path.scope).ok()??;
            value_of(&values, path).and_then(Value::integer).and_then(|number| i64::try_from(number).ok())
        };
        let cpu = self.cpus.cpu(stream, &event.chunk.packet);
        let said = StatedPlace { id: number(&class.who.id), next: number(&class.next), cpu };
        let (EventPlace::Thread(number) | EventPlace::Track(number)) = self.running.place(0, &class.who, said) else {
            return stream as i64 + 1;
        };
        if (0..FIRST_ID).contains(&number) {
            return number;
        }
        let next = FIRST_ID + self.ids.len() as i64;
        *self.ids.entry(number).or_insert(next)
    }

    /// The id of user events of a name. Another character than uftrace can read in one becomes `_xHEX_`.
    fn user_id(&mut self, name: &str) -> u64 {
        let mut mapped = String::new();
        for letter in name.chars() {
            if letter.is_whitespace() || letter.is_control() {
                // Writing to a string does not fail.
                let _ = write!(mapped, "_x{:X}_", letter as u32);
            } else {
                mapped.push(letter);
            }
        }
        let mapped = if mapped.contains(':') { mapped } else { format!("{}:{mapped}", self.schema.format) };
        let at = self.names.iter().position(|known| *known == mapped).unwrap_or_else(|| {
            self.names.push(mapped);
            self.names.len() - 1
        });
        FIRST_USER + at as u64
    }

    /// Writes the symbols of the only module. Gives its line of the map.
    fn module(&self, name: &str) -> Result<String> {
        let (Some((first, _)), Some((last, _))) = (self.symbols.first_key_value(), self.symbols.last_key_value())
        else {
            return Ok(String::new());
        };
        let (from, to) = (first & !0xfff, (last | 0xfff) + 1);
        let path = format!("/{}", name.replace([' ', '\t'], "_").trim_start_matches('/'));
        let mut lines = format!("# symbols: {}\n# path name: {path}\n", self.symbols.len());
        for (address, symbol) in &self.symbols {
            let _ = writeln!(lines, "{:016x} T {symbol}", address - from);
        }
        let _ = writeln!(lines, "{:016x} ? __sym_end", last - from + 1);
        let base = path.rsplit('/').next().unwrap_or("module");
        self.folder.join(format!("{base}.sym")).write(WRITING, lines.as_bytes())?;
        Ok(format!("{from:x}-{to:x} r-xp 00000000 00:00 0 {path}\n"))
    }

    fn info(&self, name: &str) -> Vec<u8> {
        // Sessions, addresses relative to modules, a largest depth, user events.
        let features = 1 << 1 | 1 << 5 | 1 << 6 | u64::from(!self.names.is_empty()) << 7;
        // Program, command line, tasks, kind of patterns, version.
        let groups = 1 | 1 << 3 | 1 << 7 | 1 << 12 | 1 << 13;
        let mut info = b"Ftrace!\0".to_vec();
        let numbers = self.numbers;
        numbers.write(&mut info, 4, 4);
        numbers.write(&mut info, 40, 2);
        info.extend_from_slice(&[if numbers.0 == ByteOrder::Big { 2 } else { 1 }, 2]);
        numbers.write(&mut info, features, 8);
        numbers.write(&mut info, groups, 8);
        numbers.write(&mut info, u64::from(MAX_DEPTH) + 1, 2);
        info.extend_from_slice(&[0; 6]);
        let tids: Vec<String> = self.tasks.keys().map(i64::to_string).collect();
        let text = format!(
            "exename:{name}\ncmdline:tracemill convert {name}\ntaskinfo:lines=2\ntaskinfo:nr_tid={}\ntaskinfo:tids={}\n\
             pattern_type:regex\nuftrace_version:v0.13 (tracemill)\n",
            tids.len(),
            tids.join(",")
        );
        info.extend_from_slice(text.as_bytes());
        info
    }
}

impl TraceWriter for FolderConverter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let is_untimed = self.schema.event(event.class()).is_untimed;
        let Some(clock) = self.clocks[stream].filter(|_| !is_untimed) else {
            self.losses.add(Lost::UntimedLeftOut, 1);
            return Ok(());
        };
        let Ok(time) = u64::try_from(clock.ns(event.cycles())) else {
            self.losses.add(Lost::EarlyEvents, 1);
            return Ok(());
        };
        let class = self.class(event);
        let tid = self.task(&class, stream, event);
        self.last_task[stream] = Some(tid);
        let folder = &self.folder;
        let task = self.tasks.entry(tid).or_insert_with(|| TaskFile {
            file: OutFile::with_buffer(folder.join(format!("{tid}.dat")), BUFFER),
            first: time,
            depth: 0,
            last: 0,
        });
        task.last = time;
        self.scratch.clear();
        let out = &mut self.scratch;
        let call = match &class.meaning {
            RecordMeaning::User(id) => {
                self.numbers.record(out, RecordKind::Event, time, 0, *id, None);
                return task.file.write(out);
            }
            RecordMeaning::Call(call) => call,
        };
        let address = address_of(event, call, &mut self.symbols, &mut self.losses);
        if call.is_exit && task.depth == 0 {
            self.losses.add(Lost::LoneEnds, 1);
            return Ok(());
        }
        let before = task.depth;
        let (kind, depth) = match call.is_exit {
            false => (RecordKind::Entry, before),
            true => (RecordKind::Exit, before - 1),
        };
        task.depth = if call.is_exit { depth } else { before.saturating_add(1) };
        self.numbers.record(out, kind, time, depth.min(MAX_DEPTH), address, None);
        task.file.write(out)
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        let task = self.last_task[stream].and_then(|tid| self.tasks.get_mut(&tid));
        let (Some(count), Some(task)) = (gap.count, task) else {
            self.losses.add(Lost::TasklessGaps, 1);
            return Ok(());
        };
        if gap.kind == GapKind::LostPackets {
            self.losses.add(Lost::LostPacketEvents, count);
        }
        self.scratch.clear();
        self.numbers.record(&mut self.scratch, RecordKind::Lost, 0, 0, count, None);
        task.depth = 0;
        task.file.write(&self.scratch)
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.folder.make_folder()?;
        for task in self.tasks.values_mut() {
            task.file.end()?;
        }
        let pid = self.tasks.keys().next().copied().unwrap_or(1);
        let start = self.tasks.values().map(|task| task.first).min().unwrap_or(0);
        let name = self.name.replace(['"', '\n'], "_");
        let mut text = format!("SESS timestamp={} pid={pid} sid={SESSION} exename=\"{name}\"\n", seconds_of(start));
        for (tid, task) in &self.tasks {
            let _ = writeln!(text, "TASK timestamp={} tid={tid} pid={pid}", seconds_of(task.first));
        }
        self.folder.join("task.txt").write(WRITING, text.as_bytes())?;
        let map = format!("{}{STACK:x}-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n", self.module(&name)?);
        self.folder.join(format!("sid-{SESSION}.map")).write(WRITING, map.as_bytes())?;
        if !self.names.is_empty() {
            let line = |(at, name): (usize, &String)| format!("EVENT: {} {name}\n", FIRST_USER + at as u64);
            let lines: String = self.names.iter().enumerate().map(line).collect();
            self.folder.join("events.txt").write(WRITING, lines.as_bytes())?;
        }
        let info = self.info(&name);
        self.folder.join("info").write(WRITING, &info)?;
        self.tasks.values().try_for_each(|task| task.file.check())?;
        Ok(self.losses)
    }
}

/// Fields that the records have no place for.
fn lost_fields(schema: &Schema, semantics: &Semantics) -> Losses {
    let mut losses = Losses::default();
    for (at, class) in schema.events().iter().enumerate() {
        let id = EventClassId(at as u32);
        let Some(call) = semantics.call(id) else {
            losses.add(Lost::FieldsOfNoCalls, class.payload.or(class.specific_context).is_some().into());
            continue;
        };
        let depth = member(schema, Scope::Payload, class.payload, "depth");
        let thread = semantics.who(id).id.filter(|path| path.scope == Scope::Payload);
        let held = [call.address, call.symbol, depth, thread].into_iter().flatten().count();
        losses.add(Lost::FieldsOfCalls, schema.members(class.payload).len().saturating_sub(held) as u64);
    }
    losses
}

/// The address of the function that a call is of, as far as a record holds it; its name, when the event has it, is kept.
fn address_of(event: EventRef<'_>, call: &Call, symbols: &mut BTreeMap<u64, String>, losses: &mut Losses) -> u64 {
    let payload = event.values(Scope::Payload).ok().flatten().unwrap_or(Value::Null);
    let whole = call.address.as_ref().and_then(|path| value_of(&payload, path)).and_then(Value::integer);
    let whole = whole.unwrap_or(0) as u64;
    let address = whole & ADDRESS_BITS;
    losses.add(Lost::WideAddresses, u64::from(address != whole));
    if let Some(name) = call.symbol.as_ref().and_then(|path| value_of(&payload, path)).and_then(Value::bytes) {
        symbols.entry(address).or_insert_with(|| {
            String::from_utf8_lossy(name).chars().map(|c| if c.is_control() || c == ' ' { '_' } else { c }).collect()
        });
    }
    address
}
