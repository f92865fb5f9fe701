//! The schema: streams of tasks, processors and messages; what the events of each look like.
//!
//! Events are rewritten when a slice is read, and this is their layout. Arguments have the types of their function's
//! list, so each list has a class; all are named `entry` or `exit`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tracemill_codec::bits::u32_at;
use tracemill_model::schema::{
    ArrayClass, BitsClass, BlobClass, ByteOrder, ClockClass, DisplayBase, EventClass, EventClassId, FieldClass,
    FieldClassId, FieldKind, FieldOffset, FloatClass, IntegerClass, Length, Member, Render, RenderedClass, Schema,
    StreamClass, StreamClassId, StructClass,
};

use super::arguments::{ArgumentForm, ArgumentSpec, Signatures};
use super::kernel::Kernel;
use super::layout::{KERNEL_CALL, KERNEL_EVENT, NO_TEXT, SYMBOL_AT};
use super::names::{ModuleText, SymbolNames, SymbolText};
use tracemill_ftrace::classes::{RecordLayout, SharedFields};

/// Classes of events by what they hold.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    pub entry: EventClassId,
    pub exit: EventClassId,
    pub lost: EventClassId,
    /// Calls whose values cannot be read.
    pub entry_unread: EventClassId,
    pub exit_unread: EventClassId,
    /// By number of the list of specifications.
    pub entries: Vec<EventClassId>,
    pub exits: Vec<EventClassId>,
    /// Events of tasks: without data, with unknown data, and those of [`USER_DATA`].
    pub event: EventClassId,
    pub event_unknown: EventClassId,
    pub events: Vec<EventClassId>,
    pub event_cpu: EventClassId,
    pub event_variable: EventClassId,
    pub event_call_site: EventClassId,
    /// Events of processors.
    pub perf: EventClassId,
    pub perf_task: EventClassId,
    pub perf_name: EventClassId,
    /// Messages.
    pub message: EventClassId,
    /// Events of the kernel, where there is kernel data.
    pub kernel: Option<KernelClasses>,
}

/// Classes of the events of a kernel.
#[derive(Clone, Debug)]
pub(super) struct KernelClasses {
    /// By id.
    pub events: BTreeMap<u16, RecordLayout>,
    pub entry: EventClassId,
    pub entry_with_values: EventClassId,
    pub exit: EventClassId,
    pub exit_with_value: EventClassId,
    pub unknown: EventClassId,
}

/// Classes of streams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    pub tasks: StreamClassId,
    pub kernel: Option<StreamClassId>,
    pub perf: StreamClassId,
    pub messages: StreamClassId,
}

/// Data of events that are numbers of 64 bits: ids, and the names of the numbers.
pub(super) const USER_DATA: [(&[u32], &[&str]); 5] = [
    (&[100_001, 100_003], &["vmsize", "vmrss", "shared"]),
    (&[100_002, 100_004], &["major", "minor"]),
    (&[100_005, 100_006], &["cycles", "instructions"]),
    (&[100_007, 100_008], &["references", "misses"]),
    (&[100_009, 100_010], &["branches", "misses"]),
];

/// Names of events that have a fixed id.
const EVENT_NAMES: [(u32, &str); 22] = [
    (100_001, "read:proc/statm"),
    (100_002, "read:page-fault"),
    (100_003, "diff:proc/statm"),
    (100_004, "diff:page-fault"),
    (100_005, "read:pmu-cycle"),
    (100_006, "diff:pmu-cycle"),
    (100_007, "read:pmu-cache"),
    (100_008, "diff:pmu-cache"),
    (100_009, "read:pmu-branch"),
    (100_010, "diff:pmu-branch"),
    (100_011, "watch:cpu"),
    (100_012, "watch:var"),
    (100_013, "callsite"),
    (200_001, "linux:sched-in"),
    (200_002, "linux:sched-out"),
    (200_003, "linux:schedule"),
    (200_004, "linux:task-new"),
    (200_005, "linux:task-exit"),
    (200_006, "linux:task-name"),
    (200_007, "linux:sched-out (pre-empted)"),
    (200_008, "linux:schedule (pre-empted)"),
    (EXTERNAL, "external-data"),
];

/// Id of messages.
pub(super) const EXTERNAL: u32 = 2_000_000;
/// Ids from here on are user events, named in `events.txt`.
const FIRST_USER: u32 = 1_000_000;

/// Names of events by their id.
#[derive(Debug)]
pub(super) struct EventNames(HashMap<u32, String>);

/// Ids from here on are none of the kernel's.
const FIRST_OWN: u32 = 100_000;

impl EventNames {
    /// The fixed names, those of the kernel's events, and those of `events.txt`: lines `EVENT: ID provider:name`.
    pub(super) fn new(text: &[u8], kernel: Option<&Kernel>) -> EventNames {
        let mut names: HashMap<u32, String> = EVENT_NAMES.iter().map(|&(id, name)| (id, name.to_string())).collect();
        let of_kernel = kernel.into_iter().flat_map(Kernel::formats);
        names.extend(of_kernel.map(|format| (u32::from(format.format.id), format.name.clone())));
        for line in String::from_utf8_lossy(text).lines() {
            let Some(rest) = line.strip_prefix("EVENT:") else { continue };
            let mut words = rest.split_ascii_whitespace();
            if let (Some(Ok(id)), Some(name)) = (words.next().map(str::parse), words.next())
                && id >= FIRST_OWN
            {
                names.insert(id, name.to_string());
            }
        }
        EventNames(names)
    }

    /// The name of an event.
    pub(super) fn name(&self, id: u32) -> String {
        match self.0.get(&id) {
            Some(name) => name.clone(),
            None if id >= FIRST_USER => format!("user_event:{id}"),
            None => format!("event:{id}"),
        }
    }
}

/// Shows the name of the event whose id stands at a place.
#[derive(Debug)]
struct EventText(Arc<EventNames>, usize);

impl Render for EventText {
    fn render(&self, event: &[u8], _own: &[u8], out: &mut Vec<u8>) -> bool {
        let id = u32_at(event, self.1, ByteOrder::Little);
        id.inspect(|&id| out.extend_from_slice(self.0.name(id).as_bytes())).is_some()
    }
}

/// Shows a text that stands elsewhere in the event: its offset and length, 32 bits each.
#[derive(Debug)]
struct StoredText;

impl Render for StoredText {
    fn render(&self, event: &[u8], own: &[u8], out: &mut Vec<u8>) -> bool {
        let number = |at: usize| u32_at(own, at, ByteOrder::Little);
        let Some((offset, len)) = number(0).zip(number(4).filter(|&len| len != NO_TEXT)) else { return false };
        let Some(text) = event.get(offset as usize..).and_then(|rest| rest.get(..len as usize)) else { return false };
        out.extend_from_slice(String::from_utf8_lossy(text).as_bytes());
        true
    }
}

/// Makes the schema.
pub(super) fn build(
    schema: &mut Schema,
    names: &Arc<SymbolNames>,
    event_names: &Arc<EventNames>,
    signatures: &Signatures,
    kernel: Option<&Kernel>,
) -> (Streams, Classes) {
    let clock = schema.add_clock(ClockClass::nanoseconds("monotonic"));
    let mut stream = |id: u64, name: &str, has_cpu: bool| {
        let class =
            StreamClass { id, name: Some(name.into()), default_clock: Some(clock), has_cpu, ..StreamClass::default() };
        schema.add_stream(class).unwrap_or(StreamClassId(0))
    };
    // In the order in which events of one time are merged.
    let streams = Streams {
        tasks: stream(0, "task", false),
        kernel: kernel.map(|_| stream(1, "kernel", true)),
        perf: stream(2, "perf", true),
        messages: stream(3, "external", false),
    };
    let mut builder = EventClassBuilder { schema, next: HashMap::new() };
    let fields = ClassFields::new(&mut builder, names, event_names);
    let mut classes = builder.classes(&fields, streams, signatures);
    if let (Some(kernel), Some(stream)) = (kernel, streams.kernel) {
        classes.kernel = Some(builder.kernel(&fields, stream, kernel));
    }
    (streams, classes)
}

/// Field classes that many events share.
struct ClassFields {
    i32: FieldClassId,
    u16: FieldClassId,
    u32: FieldClassId,
    u64: FieldClassId,
    address: FieldClassId,
    bool: FieldClassId,
    symbol: FieldClassId,
    module: FieldClassId,
    text: FieldClassId,
    nothing: FieldClassId,
    event_of_task: FieldClassId,
    event_of_cpu: FieldClassId,
    event_of_message: FieldClassId,
}

impl ClassFields {
    fn new(
        builder: &mut EventClassBuilder<'_>,
        names: &Arc<SymbolNames>,
        event_names: &Arc<EventNames>,
    ) -> ClassFields {
        let event_text = |at: usize| EventText(event_names.clone(), at);
        ClassFields {
            i32: builder.integer(32, true, DisplayBase::Decimal),
            u16: builder.integer(16, false, DisplayBase::Decimal),
            u32: builder.integer(32, false, DisplayBase::Decimal),
            u64: builder.integer(64, false, DisplayBase::Decimal),
            address: builder.integer(64, false, DisplayBase::Hexadecimal),
            bool: builder.leaf(FieldKind::Boolean(BitsClass::new(8, ByteOrder::Little))),
            symbol: builder.rendered(4, SymbolText(names.clone())),
            module: builder.rendered(0, ModuleText(names.clone(), SYMBOL_AT)),
            text: builder.rendered(8, StoredText),
            nothing: builder.rendered(0, None::<Arc<str>>),
            event_of_task: builder.rendered(0, event_text(4)),
            event_of_cpu: builder.rendered(0, event_text(8)),
            event_of_message: builder.rendered(0, event_text(0)),
        }
    }

    /// Members of every entry and exit.
    fn call(&self) -> [(&'static str, FieldClassId); 5] {
        [("tid", self.i32), ("depth", self.u16), ("addr", self.address), ("symbol", self.symbol), ("lib", self.module)]
    }
}

/// Members, and one more after them.
fn with<'a>(members: &[(&'a str, FieldClassId)], name: &'a str, class: FieldClassId) -> Vec<(&'a str, FieldClassId)> {
    [members, &[(name, class)]].concat()
}

struct EventClassBuilder<'a> {
    schema: &'a mut Schema,
    /// The next id in each stream class.
    next: HashMap<StreamClassId, u64>,
}

impl EventClassBuilder<'_> {
    fn leaf(&mut self, kind: FieldKind) -> FieldClassId {
        self.schema.add_field_class(FieldClass::new(kind, 8))
    }

    fn integer(&mut self, len_bits: u32, signed: bool, base: DisplayBase) -> FieldClassId {
        self.leaf(FieldKind::Integer(IntegerClass { signed, base, ..IntegerClass::unsigned(len_bits) }))
    }

    fn rendered(&mut self, len_bytes: u32, render: impl Render + 'static) -> FieldClassId {
        self.leaf(FieldKind::Rendered(RenderedClass { len_bytes, render: Arc::new(render) }))
    }

    fn constant(&mut self, text: &str) -> FieldClassId {
        self.rendered(0, Some(Arc::<str>::from(text)))
    }

    fn structure(&mut self, members: &[(&str, FieldClassId)]) -> FieldClassId {
        let member = |&(name, class): &(&str, FieldClassId)| Member::new(name, class);
        self.leaf(FieldKind::Struct(StructClass { members: members.iter().map(member).collect() }))
    }

    fn event(&mut self, stream: StreamClassId, name: &'static str, members: &[(&str, FieldClassId)]) -> EventClassId {
        let id = self.next.entry(stream).or_default();
        let mut class = EventClass::new(*id, stream);
        *id += 1;
        class.name = Some(name.into());
        class.is_untimed = name == "lost";
        class.payload = Some(self.structure(members));
        // Ids are counted, so none is taken.
        self.schema.add_event(class).unwrap_or(EventClassId(0))
    }

    fn classes(&mut self, fields: &ClassFields, streams: Streams, signatures: &Signatures) -> Classes {
        let call = fields.call();
        let tasks = streams.tasks;
        let entry = self.event(tasks, "entry", &call);
        let exit = self.event(tasks, "exit", &call);
        let lost = self.event(tasks, "lost", &[("tid", fields.i32), ("lost", fields.u64)]);
        let user = self.constant("user");
        let of_task = [("tid", fields.i32), ("source", user), ("id", fields.u32), ("event", fields.event_of_task)];
        let event = self.event(tasks, "event", &of_task);
        let entry_unread = self.event(tasks, "entry", &with(&call, "args", fields.nothing));
        let exit_unread = self.event(tasks, "exit", &with(&call, "retval", fields.nothing));
        let data: Vec<FieldClassId> = USER_DATA
            .iter()
            .map(|(_, names)| {
                let members: Vec<_> = names.iter().map(|&name| (name, fields.u64)).collect();
                self.structure(&members)
            })
            .collect();
        let events = data.into_iter().map(|data| self.event(tasks, "event", &with(&of_task, "data", data))).collect();
        let cpu = self.structure(&[("cpu", fields.i32)]);
        let variable = self.structure(&[("addr", fields.address), ("symbol", fields.symbol), ("value", fields.u64)]);
        let call_site = self.structure(&[("callsite", fields.address)]);
        let unknown = self.structure(&[("text", fields.text)]);
        let (mut entries, mut exits) = (vec![entry_unread], vec![exit_unread]);
        for list in &signatures.lists[1..] {
            let values: Vec<FieldClassId> = list.iter().map(|spec| self.value(fields, spec)).collect();
            let tuple = values.iter().enumerate().map(|(at, &class)| Member::for_tuple(at, class)).collect();
            let tuple = self.leaf(FieldKind::Struct(StructClass { members: tuple }));
            let (mut of_entry, mut of_exit) = (entry_unread, exit_unread);
            match (list.first().is_some_and(ArgumentSpec::is_return_value), values.first()) {
                (true, Some(&value)) => of_exit = self.event(tasks, "exit", &with(&call, "retval", value)),
                _ => of_entry = self.event(tasks, "entry", &with(&call, "args", tuple)),
            }
            entries.push(of_entry);
            exits.push(of_exit);
        }
        let perf_source = self.constant("perf");
        let of_perf = [
            ("tid", fields.i32),
            ("source", perf_source),
            ("cpu", fields.u32),
            ("id", fields.u32),
            ("event", fields.event_of_cpu),
        ];
        let task = self.structure(&[("pid", fields.i32), ("ppid", fields.i32)]);
        let name = self.structure(&[("comm", fields.text), ("exec", fields.bool)]);
        let extern_source = self.constant("extern");
        let message = self.structure(&[("msg", fields.text)]);
        let message = [
            // The id stands first in the bytes; the source takes none.
            ("source", extern_source),
            ("id", fields.u32),
            ("event", fields.event_of_message),
            ("data", message),
        ];
        Classes {
            entry,
            exit,
            lost,
            entry_unread,
            exit_unread,
            entries,
            exits,
            event,
            event_unknown: self.event(tasks, "event", &with(&of_task, "data", unknown)),
            events,
            event_cpu: self.event(tasks, "event", &with(&of_task, "data", cpu)),
            event_variable: self.event(tasks, "event", &with(&of_task, "data", variable)),
            event_call_site: self.event(tasks, "event", &with(&of_task, "data", call_site)),
            perf: self.event(streams.perf, "event", &of_perf),
            perf_task: self.event(streams.perf, "event", &with(&of_perf, "data", task)),
            perf_name: self.event(streams.perf, "event", &with(&of_perf, "data", name)),
            message: self.event(streams.messages, "event", &message),
            kernel: None,
        }
    }

    /// The classes of the kernel's events: calls, and one for each format.
    fn kernel(&mut self, fields: &ClassFields, stream: StreamClassId, kernel: &Kernel) -> KernelClasses {
        let machine = kernel.layout.machine;
        let word = IntegerClass {
            byte_order: machine.byte_order,
            base: DisplayBase::Hexadecimal,
            ..IntegerClass::unsigned(u32::from(machine.long_bytes) * 8)
        };
        let word = self.leaf(FieldKind::Integer(word));
        let values = FieldKind::Array(ArrayClass { element: word, length: Length::Located });
        let values = FieldClass::new(values, 8).with_offset(FieldOffset::Located { offset_bytes: KERNEL_CALL as u32 });
        let values = self.schema.add_field_class(values);
        let source = self.constant("kernel");
        // They are of no module, and say what else they are instead.
        let [tid, depth, address, symbol, _] = fields.call();
        let call = [tid, depth, address, symbol, ("source", source), ("cpu", fields.u32)];
        let of_event = |name: FieldClassId, data: FieldClassId| {
            [
                ("tid", fields.i32),
                ("source", source),
                ("cpu", fields.u32),
                ("id", fields.u32),
                ("event", name),
                ("data", data),
            ]
        };
        let mut shared = SharedFields::new(machine.byte_order);
        let mut events = BTreeMap::new();
        for format in kernel.formats().filter(|format| format.call.is_none()) {
            let name = self.constant(&format.name);
            let data = shared.payload(self.schema, &format.format, KERNEL_EVENT as u32);
            let class = self.event(stream, "event", &of_event(name, data));
            let name = format.name.as_str().into();
            events.insert(format.format.id, RecordLayout::new(class, name, &format.format));
        }
        let text = self.structure(&[("text", fields.text)]);
        KernelClasses {
            events,
            entry: self.event(stream, "entry", &call),
            entry_with_values: self.event(stream, "entry", &with(&call, "args", values)),
            exit: self.event(stream, "exit", &call),
            exit_with_value: self.event(stream, "exit", &with(&call, "retval", fields.u64)),
            unknown: self.event(stream, "event", &of_event(fields.event_of_cpu, text)),
        }
    }

    /// The class of an argument as readers of slices write it.
    fn value(&mut self, fields: &ClassFields, spec: &ArgumentSpec) -> FieldClassId {
        let bits = spec.size as u32 * 8;
        match &spec.form {
            // Automatic specifications do not say a sign; most integers have one.
            ArgumentForm::Auto | ArgumentForm::Signed => self.integer(bits, true, DisplayBase::Decimal),
            ArgumentForm::Unsigned | ArgumentForm::Character => self.integer(bits, false, DisplayBase::Decimal),
            ArgumentForm::Hexadecimal | ArgumentForm::Pointer => self.integer(bits, false, DisplayBase::Hexadecimal),
            ArgumentForm::Octal => self.integer(bits, false, DisplayBase::Octal),
            ArgumentForm::Float if spec.size < 4 => self.integer(bits, false, DisplayBase::Hexadecimal),
            ArgumentForm::Float => {
                self.leaf(FieldKind::Float(FloatClass::new(if spec.size == 4 { 32 } else { 64 }, ByteOrder::Little)))
            }
            ArgumentForm::Text | ArgumentForm::StdString => fields.text,
            ArgumentForm::Enumeration(_, values) => {
                let mappings = Some(values.clone().unwrap_or_default());
                let class = IntegerClass { signed: true, mappings, ..IntegerClass::unsigned(32) };
                self.leaf(FieldKind::Integer(class))
            }
            ArgumentForm::Structure(_) if spec.size == 0 => fields.nothing,
            ArgumentForm::Structure(_) => self.leaf(FieldKind::Blob(BlobClass::new(Length::Static(spec.size as u64)))),
        }
    }
}
