//! Events as lines of text, byte for byte as `babeltrace2` 2.0.4 prints them (its `sink.text.pretty`).
//!
//! What is the same for every event of a class is prepared once: the names of the fields with what stands before them,
//! the words between time and contexts. The packet context is rendered once for each packet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracemill_codec::bits::Wide;
use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::layout;
use tracemill_codec::plan::{Fault, NodeId, Plan, State, Visitor};
use tracemill_model::schema::{
    DisplayBase, Encoding, EnvValue, EventClassId, FieldClassId, FieldKind, FieldPath, IntegerClass, OptionalClass,
    PathStep, Presence, Render, Schema, Scope, Summary,
};

use super::out::{Out, Piece, put_g};
use super::strings;
use super::time::{TimeStyle, WallClock};

/// Which names stand in a line (`--names`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Names {
    /// Of payload fields.
    pub payload: bool,
    /// Of context fields.
    pub context: bool,
    /// Of scopes.
    pub scope: bool,
    /// Of the words at the beginning of the line.
    pub header: bool,
}

impl Default for Names {
    fn default() -> Self {
        Names { payload: true, context: true, scope: false, header: false }
    }
}

/// Which words about the trace and the event class stand in a line (`--fields`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderFields {
    /// Name of the trace.
    pub trace: bool,
    /// `hostname` of the environment.
    pub hostname: bool,
    /// `domain` of the environment.
    pub domain: bool,
    /// `procname` of the environment.
    pub procname: bool,
    /// `vpid` of the environment.
    pub vpid: bool,
    /// Log level of the event class.
    pub log_level: bool,
    /// EMF URI of the event class.
    pub emf: bool,
}

impl Default for HeaderFields {
    fn default() -> Self {
        HeaderFields {
            trace: false,
            hostname: true,
            domain: false,
            procname: true,
            vpid: true,
            log_level: false,
            emf: false,
        }
    }
}

/// How lines look.
#[derive(Clone, Debug, Default)]
pub struct TextOptions {
    /// Names.
    pub names: Names,
    /// Words about trace and class.
    pub fields: HeaderFields,
    /// Time.
    pub time: TimeStyle,
    /// Leave out the time since the line before.
    pub no_delta: bool,
    /// Terminal colours.
    pub color: bool,
}

/// The escape sequences of a coloured line; all empty without colour.
#[derive(Clone, Copy)]
struct Palette {
    reset: &'static str,
    name: &'static str,
    field_name: &'static str,
    value: &'static str,
    event: &'static str,
    time: &'static str,
    unknown: &'static str,
}

impl Palette {
    const NONE: Palette = Palette { reset: "", name: "", field_name: "", value: "", event: "", time: "", unknown: "" };
    const COLOR: Palette = Palette {
        reset: "\x1b[0m",
        name: "\x1b[1m",
        field_name: "\x1b[36m",
        value: "\x1b[1m",
        event: "\x1b[1m\x1b[1m\x1b[35m",
        time: "\x1b[1m\x1b[1m\x1b[33m",
        unknown: "\x1b[1m\x1b[1m\x1b[31m",
    };
}

/// Time of an event that was printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineTime {
    /// Ns.
    pub ns: i64,
    /// Cycles.
    pub cycles: u64,
}

/// What is known of the line before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// Nothing: it is printed by another thread. The time since it is left open.
    Elsewhere,
    /// There is none.
    Nothing,
    /// Its time.
    At(LineTime),
}

/// Prints the events of one trace.
pub struct TextTrace {
    options: Arc<TextOptions>,
    palette: Palette,
    schema: Arc<Schema>,
    /// `vm:prog:(12)` without what an event class adds.
    trace_words: Words,
    /// By class; made when the first event of a class is printed.
    classes: Vec<Option<Box<ClassTable>>>,
    packet_tables: HashMap<u32, Table>,
    referenced: HashSet<FieldPath>,
    /// For each stream the rendered context of the packet that was printed last.
    packets: Vec<Option<Context>>,
    wall: WallClock,
    /// Are times shown as `[hh:mm:ss.nnnnnnnnn] (+s.nnnnnnnnn) `, without colour?
    has_plain_times: bool,
    state: State,
    name: Vec<u8>,
    /// By class, when the trace's lines sum events up.
    summaries: Vec<Option<SummaryTable>>,
}

/// What a line that sums an event up shows of a class.
struct SummaryTable {
    before: Option<NodeId>,
    after: Option<NodeId>,
    /// The name; `None` when it is not shown.
    name: Option<Vec<u8>>,
    is_open: bool,
    /// What needs no plan, and no name from the event.
    made: Option<MadeSummary>,
}

/// A rendered packet context; `None` when there is nothing to print.
struct Context {
    packet: Arc<PacketData>,
    text: Option<Piece>,
}

/// The words about trace and class, as they are put together.
#[derive(Clone, Default)]
struct Words {
    text: Vec<u8>,
    dom: bool,
    /// `start_line` of the peer: nothing printed yet that needs a comma.
    start: bool,
}

struct ClassTable {
    /// From behind the time to the first context.
    head: Piece,
    /// What stands behind the event's own name, when its class stands for many: the head then ends before it.
    own_name: Option<Piece>,
    table: Table,
    /// What is left to print behind the last field, with the end of the line.
    tail: Piece,
}

/// What to print for each node of a plan.
///
/// Text that is known beforehand is gathered into what stands before the next value: the ends of structures, the
/// beginnings of scopes, commas and names. Inside arrays, variants and optional fields each mark is printed on its own.
struct Table {
    nodes: Vec<NodeText>,
    palette: Palette,
    /// ` [0] = `, `, [1] = `: what stands before the first elements of arrays.
    indexes: Vec<Piece>,
    /// Is any scope printed?
    is_shown: bool,
    /// The array of characters that is open: where it begins in the line, and its bytes.
    text_start: usize,
    characters: Vec<u8>,
    /// What is left to print behind the last value.
    tail_text: Vec<u8>,
    tail: Piece,
}

/// Which names are printed: of scopes, and of the fields of each scope.
struct SectionNames<'a> {
    scope: bool,
    fields: &'a [bool],
}

/// Elements whose index is prepared.
const INDEXES: usize = 32;

struct NodeText {
    /// What stands before the value: comma, name.
    before: Piece,
    kind: Kind,
    visible: bool,
    /// A structure whose marks are printed with its neighbours.
    is_folded: bool,
    /// Elements of this array show their index.
    indexed: bool,
    /// What an integer needs.
    short: Short,
}

/// The integers that most fields are, without colour.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Short {
    /// Base 10.
    Decimal,
    /// Base 16, of values without a sign.
    Hexadecimal,
    /// All others.
    No,
}

enum Kind {
    Decimal,
    Hexadecimal {
        mask: u64,
    },
    Octal {
        mask: u64,
    },
    Binary {
        len_bits: u32,
    },
    Enum(Box<EnumText>),
    Text(Encoding),
    Blob(Arc<str>),
    /// An 8-bit integer that is a character, in an array.
    Character,
    /// An array of those: its text is shown too when it can be.
    Characters,
    /// An optional field without marks of its own: most often it is there.
    Bare,
    /// A structure that is a list.
    Tuple,
    Other,
}

struct EnumText {
    class: IntegerClass,
    base: Kind,
    /// Text up to the number for values that were seen: from `( ` to ` : container = `.
    dense: Vec<Option<Piece>>,
    palette: Palette,
}

impl TextTrace {
    /// A printer of events of `schema`; `name` is the trace's own name.
    pub fn new(options: Arc<TextOptions>, schema: Arc<Schema>, name: &str) -> Self {
        let palette = if options.color { Palette::COLOR } else { Palette::NONE };
        let trace_words = trace_words(&options, palette, &schema, name);
        let wall = WallClock::new(options.time);
        let has_plain_times = !options.color && !options.names.header && !options.time.cycles && !options.no_delta;
        TextTrace {
            options,
            palette,
            referenced: referenced(&schema),
            schema,
            trace_words,
            classes: Vec::new(),
            packet_tables: HashMap::new(),
            packets: Vec::new(),
            wall,
            has_plain_times,
            state: State::default(),
            name: Vec::new(),
            summaries: Vec::new(),
        }
    }

    /// Appends the line of an event whose time is `ns`. Where the time since the line before belongs is returned when
    /// that line is printed elsewhere.
    ///
    /// `stream` is any number that tells the streams of the trace apart.
    pub fn line(
        &mut self,
        out: &mut Out,
        stream: usize,
        event: EventRef<'_>,
        ns: Option<i64>,
        before: &mut Before,
    ) -> Result<Option<usize>, Fault> {
        let hole = ns.and_then(|ns| {
            let now = LineTime { ns, cycles: event.cycles() };
            let hole = self.time(out, now, *before);
            *before = Before::At(now);
            hole
        });
        if self.schema.summary.is_some() {
            self.summary(out, event)?;
            return Ok(hole);
        }
        let class = event.class();
        let packet = &event.chunk.packet;
        match self.packets.get(stream) {
            Some(Some(known)) if Arc::ptr_eq(&known.packet, packet) => {}
            _ => self.begin_packet(stream, packet)?,
        }
        let at = class.0 as usize;
        if self.classes.get(at).is_none_or(Option::is_none) {
            let table = self.class_table(class, packet.plans.event_rows(class));
            let len = self.classes.len().max(at + 1);
            self.classes.resize_with(len, || None);
            self.classes[at] = Some(Box::new(table));
        }
        let Some(Some(table)) = self.classes.get_mut(at) else { return Ok(hole) };
        out.put_piece(&table.head);
        if let Some(behind) = &table.own_name {
            self.name.clear();
            event.own_id(&mut self.name);
            strings::put_plain(out, &self.name);
            out.put_piece(behind);
        }
        if let Some(Some(Context { text: Some(text), .. })) = self.packets.get(stream) {
            out.put_piece(text);
        }
        event.visit_flat(&mut self.state, &mut Printer { out, table: &mut table.table })?;
        out.put_piece(&table.tail);
        Ok(hole)
    }

    #[inline]
    fn time(&mut self, out: &mut Out, now: LineTime, before: Before) -> Option<usize> {
        if let Before::At(before) = before
            && self.has_plain_times
            && let delta = now.ns.wrapping_sub(before.ns) as u64
            && delta < 10_000_000_000
            && let Some((start, fraction)) = self.wall.bracketed(now.ns)
        {
            let (second, delta) = ((delta / 1_000_000_000) as u8, (delta % 1_000_000_000) as u32);
            out.put_times(start, fraction, *b"] (+", second, delta, *b") ");
            return None;
        }
        self.any_time(out, now, before)
    }

    /// A time in any form.
    #[inline(never)]
    fn any_time(&mut self, out: &mut Out, now: LineTime, before: Before) -> Option<usize> {
        let names = self.options.names.header;
        if names {
            put_name(out, self.palette, "timestamp");
        } else {
            out.put_byte(b'[');
        }
        out.put(self.palette.time.as_bytes());
        if self.options.time.cycles {
            out.put_fmt(format_args!("{:020}", now.cycles));
        } else {
            self.wall.put(out, now.ns);
        }
        out.put(self.palette.reset.as_bytes());
        if !names {
            out.put(b"] ");
        }
        if self.options.no_delta {
            return None;
        }
        if names {
            out.put(b", ");
            put_name(out, self.palette, "delta");
        } else {
            out.put_byte(b'(');
        }
        let hole = (before == Before::Elsewhere).then_some(out.len());
        if hole.is_none() {
            put_delta(out, &self.options, now, before);
        }
        if !names {
            out.put(b") ");
        }
        hole
    }

    /// The rest of a line that sums an event up: what stands before its name, the name, what stands behind it.
    fn summary(&mut self, out: &mut Out, event: EventRef<'_>) -> Result<(), Fault> {
        let at = event.class().0 as usize;
        if self.summaries.get(at).is_none_or(Option::is_none) {
            let table = self.summary_table(event.class(), event.chunk.packet.plans.event_flat_rows(event.class()));
            let len = self.summaries.len().max(at + 1);
            self.summaries.resize_with(len, || None);
            self.summaries[at] = Some(table);
        }
        let Some(Some(table)) = self.summaries.get(at) else { return Ok(()) };
        if let Some(made) = &table.made {
            made.put(out, event.body(), &mut self.name);
            return Ok(());
        }
        self.name.clear();
        if table.is_open {
            event.own_id(&mut self.name);
        }
        let name = table.name.as_ref().map(|name| if table.is_open { &self.name } else { name });
        let palette = self.palette;
        let mut printer = SummaryPrinter { out, table, name: name.map(Vec::as_slice), palette, has_name: false };
        event.visit_flat(&mut self.state, &mut printer)?;
        printer.name();
        out.put_byte(b'\n');
        Ok(())
    }

    #[cold]
    fn summary_table(&self, class: EventClassId, plan: &Plan) -> SummaryTable {
        let (event, summary) = (self.schema.event(class), self.schema.summary.as_ref());
        let root = plan.roots.get(2).copied().flatten();
        let node_of = |name: &str| {
            let is_it = |node: &tracemill_codec::plan::Node| Some(node.parent) == root && &*node.name == name;
            plan.nodes.iter().position(is_it).map(|at| at as NodeId)
        };
        let name = summary.filter(|summary| summary.has_name).map(|_| {
            let mut out = Out::default();
            strings::put_plain(&mut out, event.name.as_deref().unwrap_or_default().as_bytes());
            out.written().to_vec()
        });
        let made = summary.filter(|_| event.open_ids.is_none()).and_then(|summary| self.made(event.payload?, summary));
        SummaryTable {
            made: made.map(|made| MadeSummary::new(made, name.as_deref(), self.palette)),
            before: summary.and_then(|summary| node_of(&summary.before)),
            after: summary.and_then(|summary| node_of(&summary.after)),
            name,
            is_open: event.open_ids.is_some(),
        }
    }

    /// What makes the members of a summary, when they take no bytes of their own.
    fn made(&self, payload: FieldClassId, summary: &Summary) -> Option<[Arc<dyn Render>; 2]> {
        let FieldKind::Struct(payload) = &self.schema.field_class(payload).kind else { return None };
        let made = |name: &str| {
            let member = payload.members.iter().find(|member| &*member.name == name)?;
            match &self.schema.field_class(member.class).kind {
                FieldKind::Rendered(rendered) if rendered.len_bytes == 0 => Some(rendered.render.clone()),
                _ => None,
            }
        };
        Some([made(&summary.before)?, made(&summary.after)?])
    }

    /// Renders the context of the packet that a stream has come to.
    #[cold]
    fn begin_packet(&mut self, stream: usize, packet: &Arc<PacketData>) -> Result<(), Fault> {
        let class = packet.packet.class;
        let (schema, palette, options, referenced) = (&self.schema, self.palette, &self.options, &self.referenced);
        let table = self.packet_tables.entry(class.0).or_insert_with(|| {
            let plan = packet.plans.packet_context_rows(class);
            let names = SectionNames { scope: options.names.scope, fields: &[options.names.context] };
            Table::new(
                schema,
                plan,
                palette,
                referenced,
                &[(Scope::PacketContext, "stream.packet.context")],
                &names,
                Vec::new(),
            )
        });
        let mut text = None;
        if table.is_shown {
            let mut out = Out::default();
            packet.visit_context(&mut Printer { out: &mut out, table })?;
            out.put_piece(&table.tail);
            text = Some(Piece::new(out.written()));
        }
        let len = self.packets.len().max(stream + 1);
        self.packets.resize_with(len, || None);
        self.packets[stream] = Some(Context { packet: packet.clone(), text });
        Ok(())
    }

    fn class_table(&self, class: EventClassId, plan: &Plan) -> ClassTable {
        let event = self.schema.event(class);
        let names = self.options.names;
        let mut referenced = self.referenced.clone();
        for root in [event.specific_context, event.payload].into_iter().flatten() {
            add_references(&self.schema, root, &mut referenced);
        }
        let scopes = [
            (Scope::CommonContext, "stream.event.context"),
            (Scope::SpecificContext, "event.context"),
            (Scope::Payload, "event.fields"),
        ];
        let show_names = SectionNames { scope: names.scope, fields: &[names.context, names.context, names.payload] };
        let comma = if self.shows_packet_context(event.stream) { ", " } else { "" };
        let mut table = Table::new(&self.schema, plan, self.palette, &referenced, &scopes, &show_names, comma.into());
        let mut tail = std::mem::take(&mut table.tail_text);
        // The comma behind a packet context is for a scope; without one there is none.
        if !table.is_shown {
            tail.clear();
        }
        tail.push(b'\n');
        let mut head = self.class_words(class);
        let own_name = event.open_ids.as_ref().map(|_| {
            let behind = if names.header { ", " } else { ": " };
            head.truncate(head.len() - behind.len());
            Piece::new(behind)
        });
        ClassTable { head: Piece::new(head), own_name, table, tail: Piece::new(tail) }
    }

    fn shows_packet_context(&self, stream: tracemill_model::schema::StreamClassId) -> bool {
        self.packet_tables.get(&stream.0).is_some_and(|table| table.is_shown)
    }

    /// The words from behind the time to the first context.
    fn class_words(&self, class: EventClassId) -> Vec<u8> {
        let event = self.schema.event(class);
        let (names, palette) = (self.options.names.header, self.palette);
        let mut words = self.trace_words.clone();
        let level =
            event.log_level.and_then(|level| LOG_LEVELS.get(usize::try_from(level).ok()?).map(|name| (level, name)));
        if let Some((level, name)) = level.filter(|_| self.options.fields.log_level) {
            words.add("loglevel", &format!("{name} ({level})"), names, palette);
        }
        if let Some(uri) = event.emf_uri.as_deref().filter(|_| self.options.fields.emf) {
            words.add("model.emf.uri", uri, names, palette);
        }
        if words.dom && !names {
            words.text.push(b' ');
        }
        if !words.start {
            words.text.extend_from_slice(b", ");
        }
        if names {
            push_name(&mut words.text, palette, "name");
        }
        let (color, name) = match event.name.as_deref() {
            Some(name) => (palette.event, name),
            None if event.open_ids.is_some() => (palette.event, ""),
            None => (palette.unknown, "<unknown>"),
        };
        words.text.extend_from_slice(color.as_bytes());
        words.text.extend_from_slice(name.as_bytes());
        words.text.extend_from_slice(palette.reset.as_bytes());
        words.text.extend_from_slice(if names { b", " } else { b": " });
        words.text
    }
}

/// Appends the time since the line before.
#[inline]
pub fn put_delta(out: &mut Out, options: &TextOptions, now: LineTime, before: Before) {
    let before = if let Before::At(before) = before { Some(before) } else { None };
    if options.time.cycles {
        let delta = before.map(|before| now.cycles.wrapping_sub(before.cycles));
        // The peer takes a difference of -1 for none.
        return match delta.filter(|&delta| delta != u64::MAX) {
            Some(delta) => out.put_fmt(format_args!("+{delta:012}")),
            None => out.put(b"+????????????"),
        };
    }
    let delta = before.map(|before| now.ns.wrapping_sub(before.ns) as u64);
    match delta.filter(|&delta| delta != u64::MAX) {
        Some(delta) => {
            out.put_byte(b'+');
            out.put_u64(delta / 1_000_000_000);
            out.put_byte(b'.');
            out.put_nine((delta % 1_000_000_000) as u32);
        }
        None => out.put(b"+?.?????????"),
    }
}

/// Names of log levels 0 to 14 (LTTng).
const LOG_LEVELS: [&str; 15] = [
    "TRACE_EMERG",
    "TRACE_ALERT",
    "TRACE_CRIT",
    "TRACE_ERR",
    "TRACE_WARNING",
    "TRACE_NOTICE",
    "TRACE_INFO",
    "TRACE_DEBUG_SYSTEM",
    "TRACE_DEBUG_PROGRAM",
    "TRACE_DEBUG_PROCESS",
    "TRACE_DEBUG_MODULE",
    "TRACE_DEBUG_UNIT",
    "TRACE_DEBUG_FUNCTION",
    "TRACE_DEBUG_LINE",
    "TRACE_DEBUG",
];

fn trace_words(options: &TextOptions, palette: Palette, schema: &Schema, name: &str) -> Words {
    let names = options.names.header;
    let has_clock = schema.streams().iter().any(|stream| stream.default_clock.is_some());
    // Behind a time the line needs a comma when names are shown, and never otherwise.
    let mut words = Words { text: Vec::new(), dom: false, start: !(names && has_clock) };
    if options.fields.trace && !name.is_empty() {
        words.comma();
        if names {
            push_name(&mut words.text, palette, "trace");
        }
        words.text.extend_from_slice(name.as_bytes());
        if names {
            words.text.extend_from_slice(b", ");
        }
    }
    let text = |key: &str| match schema.env(key) {
        Some(EnvValue::String(text)) => Some(text.to_string()),
        _ => None,
    };
    let entries = [
        (options.fields.hostname, "trace:hostname", text("hostname")),
        (options.fields.domain, "trace:domain", text("domain")),
        (options.fields.procname, "trace:procname", text("procname")),
    ];
    for (wanted, name, value) in entries {
        if let (true, Some(value)) = (wanted, value) {
            words.add(name, &value, names, palette);
        }
    }
    if let (true, Some(EnvValue::Integer(vpid))) = (options.fields.vpid, schema.env("vpid")) {
        words.add("trace:vpid", &format!("({vpid})"), names, palette);
    }
    words
}

impl Words {
    fn comma(&mut self) {
        if !self.start {
            self.text.extend_from_slice(b", ");
        }
    }

    fn add(&mut self, name: &str, value: &str, names: bool, palette: Palette) {
        self.comma();
        if names {
            push_name(&mut self.text, palette, name);
        } else if self.dom {
            self.text.push(b':');
        }
        self.text.extend_from_slice(value.as_bytes());
        self.dom = true;
    }
}

fn push_name(text: &mut Vec<u8>, palette: Palette, name: &str) {
    text.extend_from_slice(format!("{}{name}{} = ", palette.name, palette.reset).as_bytes());
}

fn put_name(out: &mut Out, palette: Palette, name: &str) {
    out.put_fmt(format_args!("{}{name}{} = ", palette.name, palette.reset));
}

/// Every field of a shared scope that some class refers to.
fn referenced(schema: &Schema) -> HashSet<FieldPath> {
    (0..schema.field_class_count())
        .filter_map(|at| layout::reference(schema.field_class(FieldClassId(at as u32))))
        .filter(|path| path.scope <= Scope::CommonContext)
        .cloned()
        .collect()
}

fn add_references(schema: &Schema, root: FieldClassId, paths: &mut HashSet<FieldPath>) {
    let mut stack = vec![root];
    while let Some(id) = stack.pop() {
        let class = schema.field_class(id);
        paths.extend(layout::reference(class).cloned());
        stack.extend(layout::children(class));
    }
}

impl Table {
    /// Prepares the nodes of a plan whose roots are `scopes`, those that are declared; `text` stands before them.
    fn new(
        schema: &Schema,
        plan: &Plan,
        palette: Palette,
        referenced: &HashSet<FieldPath>,
        scopes: &[(Scope, &str)],
        names: &SectionNames<'_>,
        text: Vec<u8>,
    ) -> Self {
        let has_array =
            plan.nodes.iter().any(|node| matches!(schema.field_class(node.class).kind, FieldKind::Array(_)));
        let index = |at: usize| Piece::new(format!("{} [{at}] = ", if at == 0 { "" } else { "," }));
        let indexes = if has_array { (0..INDEXES).map(index).collect() } else { Vec::new() };
        let mut builder =
            Builder { schema, palette, referenced, names: false, nodes: Vec::with_capacity(plan.nodes.len()), text };
        let mut is_shown = false;
        for (section, root) in plan.roots.iter().enumerate() {
            let Some(root) = root else { continue };
            let (scope, scope_name) = scopes[section];
            let mut path = FieldPath { scope, steps: Vec::new() };
            builder.names = names.fields[section];
            let class = plan.nodes[*root as usize].class;
            let before = builder.text.len();
            let mut start = Vec::from(if is_shown { ", " } else { "" });
            if names.scope {
                push_name(&mut start, palette, scope_name);
            }
            let shown = builder.field(class, &mut path, &start, true);
            if !shown {
                builder.text.truncate(before);
            }
            is_shown |= shown;
        }
        let Builder { nodes, text, .. } = builder;
        let tail = Piece::new(&text);
        Table { nodes, palette, indexes, is_shown, text_start: 0, characters: Vec::new(), tail_text: text, tail }
    }
}

/// Walks a tree in the order in which the plan numbered its nodes.
struct Builder<'a> {
    schema: &'a Schema,
    palette: Palette,
    referenced: &'a HashSet<FieldPath>,
    names: bool,
    nodes: Vec<NodeText>,
    /// Text that waits for the next value.
    text: Vec<u8>,
}

impl Builder<'_> {
    /// Adds the nodes of a field; says whether it is visible. `folds` is false inside arrays, variants and optionals.
    fn field(&mut self, id: FieldClassId, path: &mut FieldPath, before: &[u8], folds: bool) -> bool {
        if !self.is_visible(id, path) {
            self.add_hidden(id);
            return false;
        }
        let class = self.schema.field_class(id);
        self.text.extend_from_slice(before);
        let is_folded = folds && matches!(class.kind, FieldKind::Struct(_));
        let before = if is_folded { Piece::new("") } else { Piece::new(std::mem::take(&mut self.text)) };
        let kind = self.kind(id);
        let short = match kind {
            Kind::Decimal if self.palette.value.is_empty() => Short::Decimal,
            Kind::Hexadecimal { .. } if self.palette.value.is_empty() => Short::Hexadecimal,
            _ => Short::No,
        };
        self.nodes.push(NodeText { before, kind, visible: true, is_folded, indexed: self.names, short });
        match &class.kind {
            FieldKind::Struct(structure) => {
                let (begin, end) = if structure.is_tuple() { (b'[', b" ]") } else { (b'{', b" }") };
                if is_folded {
                    self.text.push(begin);
                }
                let mut shown = 0;
                for (member_at, member) in structure.members.iter().enumerate() {
                    path.steps.push(PathStep::Member(member_at as u32));
                    let mut before = Vec::from(if shown > 0 { ", " } else { " " });
                    if self.names {
                        let Palette { field_name, reset, .. } = self.palette;
                        before.extend_from_slice(format!("{field_name}{}{reset} = ", member.name).as_bytes());
                    }
                    shown += usize::from(self.field(member.class, path, &before, folds));
                    path.steps.pop();
                }
                if is_folded {
                    self.text.extend_from_slice(end);
                }
            }
            FieldKind::Array(array) => {
                path.steps.push(PathStep::Element);
                let element = self.nodes.len();
                self.field(array.element, path, b"", false);
                if is_character(self.schema, array.element) {
                    self.nodes[element].kind = Kind::Character;
                    self.nodes[element].short = Short::No;
                    self.nodes[element - 1].kind = Kind::Characters;
                }
                path.steps.pop();
            }
            FieldKind::Optional(optional) => {
                path.steps.push(PathStep::Content);
                self.field(optional.content, path, b"", false);
                path.steps.pop();
            }
            FieldKind::Variant(variant) => {
                for (option_at, option) in variant.options.iter().enumerate() {
                    path.steps.push(PathStep::Option(option_at as u32));
                    self.field(option.class, path, b"", false);
                    path.steps.pop();
                }
            }
            _ => {}
        }
        true
    }

    /// What only says where packets and events are is no data; it is shown when data depend on it.
    fn is_visible(&self, id: FieldClassId, path: &mut FieldPath) -> bool {
        let class = self.schema.field_class(id);
        let mut below = |step: PathStep, id: FieldClassId| {
            path.steps.push(step);
            let visible = self.is_visible(id, path);
            path.steps.pop();
            visible
        };
        match &class.kind {
            FieldKind::Integer(_) => class.roles.is_empty() || self.referenced.contains(path),
            FieldKind::Blob(_) => class.roles.is_empty(),
            FieldKind::Struct(structure) => {
                let mut members = structure.members.iter().enumerate();
                structure.members.is_empty()
                    || members.any(|(at, member)| below(PathStep::Member(at as u32), member.class))
            }
            FieldKind::Array(array) => class.roles.is_empty() && below(PathStep::Element, array.element),
            FieldKind::Optional(optional) => below(PathStep::Content, optional.content),
            FieldKind::Variant(variant) => {
                let mut options = variant.options.iter().enumerate();
                options.any(|(at, option)| below(PathStep::Option(at as u32), option.class))
            }
            _ => true,
        }
    }

    fn add_hidden(&mut self, id: FieldClassId) {
        self.nodes.push(NodeText {
            before: Piece::new(""),
            kind: Kind::Other,
            visible: false,
            is_folded: false,
            indexed: false,
            short: Short::No,
        });
        for child in layout::children(self.schema.field_class(id)) {
            self.add_hidden(child);
        }
    }

    fn kind(&self, id: FieldClassId) -> Kind {
        match &self.schema.field_class(id).kind {
            FieldKind::Integer(class) if class.mappings.is_some() => Kind::Enum(Box::new(EnumText {
                class: class.clone(),
                base: integer_kind(class),
                dense: Vec::new(),
                palette: self.palette,
            })),
            FieldKind::Integer(class) => integer_kind(class),
            FieldKind::BitArray(_) | FieldKind::BitMap(_) => Kind::Hexadecimal { mask: u64::MAX },
            FieldKind::String(class) => Kind::Text(class.encoding),
            FieldKind::Rendered(_) => Kind::Text(Encoding::Utf8),
            FieldKind::Blob(class) => Kind::Blob(class.media_type.clone()),
            FieldKind::Optional(OptionalClass { presence: Presence::Unmarked(_), .. }) => Kind::Bare,
            FieldKind::Struct(class) if class.is_tuple() => Kind::Tuple,
            _ => Kind::Other,
        }
    }
}

/// Is it an 8-bit integer that is a character, and aligned to bytes?
fn is_character(schema: &Schema, id: FieldClassId) -> bool {
    let class = schema.field_class(id);
    let is_one = |integer: &IntegerClass| integer.is_character && integer.len_bits == 8 && integer.mappings.is_none();
    class.align_bits == 8 && matches!(&class.kind, FieldKind::Integer(integer) if is_one(integer))
}

fn integer_kind(class: &IntegerClass) -> Kind {
    let len_bits = if class.is_variable_length() { 64 } else { class.len_bits };
    // Octal and hexadecimal show a negative number as its bits, rounded up to whole digits.
    let mask = |digit_bits: u32| match len_bits.next_multiple_of(digit_bits) {
        _ if len_bits >= 64 => u64::MAX,
        64.. => u64::MAX,
        bits => (1 << bits) - 1,
    };
    match class.base {
        DisplayBase::Decimal => Kind::Decimal,
        DisplayBase::Hexadecimal => Kind::Hexadecimal { mask: mask(4) },
        DisplayBase::Octal => Kind::Octal { mask: if class.signed { mask(3) } else { u64::MAX } },
        DisplayBase::Binary => Kind::Binary { len_bits },
    }
}

/// A line that sums up events of a class by two texts that are made from the event alone.
struct MadeSummary {
    before: Arc<dyn Render>,
    after: Arc<dyn Render>,
    /// The name with a blank before it when there is one; behind an event without the text before, without the blank.
    name: [Piece; 2],
    /// The same with `: ` behind it.
    name_and_more: [Piece; 2],
}

impl MadeSummary {
    fn new([before, after]: [Arc<dyn Render>; 2], name: Option<&[u8]>, palette: Palette) -> Self {
        let name = name.map(|name| [palette.event.as_bytes(), name, palette.reset.as_bytes()].concat());
        let with_blank = name.as_ref().map_or(Vec::new(), |name| [b" ", &name[..]].concat());
        let alone = name.unwrap_or_default();
        let more = |name: &[u8]| Piece::new([name, b": "].concat());
        let name_and_more = [more(&alone), more(&with_blank)];
        MadeSummary { before, after, name: [Piece::new(alone), Piece::new(with_blank)], name_and_more }
    }

    #[inline]
    fn put(&self, out: &mut Out, body: &[u8], scratch: &mut Vec<u8>) {
        let before = self.before.text(body, &[], scratch);
        let with_blank = usize::from(before.is_some());
        if let Some(before) = before {
            strings::put_plain(out, before);
        }
        match self.after.text(body, &[], scratch) {
            Some(after) if !after.is_empty() => {
                out.put_piece(&self.name_and_more[with_blank]);
                strings::put_plain(out, after);
            }
            _ => out.put_piece(&self.name[with_blank]),
        }
        out.put_byte(b'\n');
    }
}

/// Prints the rest of a line that sums an event up.
struct SummaryPrinter<'a> {
    out: &'a mut Out,
    table: &'a SummaryTable,
    /// Printed once, behind the first part.
    name: Option<&'a [u8]>,
    palette: Palette,
    has_name: bool,
}

impl SummaryPrinter<'_> {
    fn name(&mut self) {
        if std::mem::replace(&mut self.has_name, true) {
            return;
        }
        if let Some(name) = self.name {
            self.out.put(self.palette.event.as_bytes());
            self.out.put(name);
            self.out.put(self.palette.reset.as_bytes());
        }
    }

    #[inline]
    fn part(&mut self, node: NodeId, is_empty: bool, put: impl FnOnce(&mut Out)) {
        if self.table.before == Some(node) {
            put(self.out);
            if self.name.is_some() {
                self.out.put_byte(b' ');
            }
            self.name();
        } else if self.table.after == Some(node) {
            self.name();
            if !is_empty {
                self.out.put(b": ");
                put(self.out);
            }
        }
    }
}

impl Visitor for SummaryPrinter<'_> {
    const FOR_PEOPLE: bool = true;

    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.part(node, false, |out| out.put_u64(value));
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        self.part(node, false, |out| out.put_i64(value));
    }

    fn real(&mut self, node: NodeId, value: f64) {
        self.part(node, false, |out| put_g(out, value));
    }

    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        self.part(node, bytes.is_empty(), |out| strings::put_plain(out, bytes));
    }
}

/// Prints the fields of one scope.
struct Printer<'a> {
    out: &'a mut Out,
    table: &'a mut Table,
}

impl Printer<'_> {
    /// The node, when it is shown, after what stands before its value.
    #[inline]
    fn begin(&mut self, node: NodeId) -> Option<&mut NodeText> {
        let text = &mut self.table.nodes[node as usize];
        if !text.visible {
            return None;
        }
        self.out.put_piece(&text.before);
        Some(text)
    }

    #[inline(never)]
    fn integer(&mut self, node: NodeId, value: u64, signed: bool) {
        let (color, reset) = (self.table.palette.value, self.table.palette.reset);
        let text = &mut self.table.nodes[node as usize];
        if text.visible {
            if let Kind::Character = text.kind {
                self.table.characters.push(value as u8);
            }
            self.out.put_piece(&text.before);
            put_integer(self.out, &mut text.kind, value, signed, color, reset);
        }
    }

    /// Puts the text of the array of characters that ends here before it, when it is one that people can read: as the
    /// labels of an enumeration stand before its number.
    #[inline(never)]
    fn characters(&mut self) {
        let bytes = &self.table.characters;
        let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let is_plain = |character: char| !character.is_control() || matches!(character, '\n' | '\t' | '\r');
        let Ok(text) = std::str::from_utf8(&bytes[..len]) else { return };
        if text.is_empty() || !text.chars().all(is_plain) {
            return;
        }
        let array = self.out.written()[self.table.text_start..].to_vec();
        self.out.truncate(self.table.text_start);
        self.out.put(b"( ");
        self.out.put(self.table.palette.value.as_bytes());
        strings::put_escaped(self.out, text.as_bytes());
        self.out.put(self.table.palette.reset.as_bytes());
        self.out.put(b" : container = ");
        self.out.put(&array);
        self.out.put(b" )");
    }

    fn mark(&mut self, node: NodeId, text: &[u8]) {
        if self.table.nodes[node as usize].visible {
            self.out.put(text);
        }
    }
}

impl Visitor for Printer<'_> {
    const FOR_PEOPLE: bool = true;

    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        let text = &self.table.nodes[node as usize];
        match text.short {
            Short::Decimal => self.out.put_piece_u64(&text.before, value),
            Short::Hexadecimal => {
                self.out.put_piece(&text.before);
                self.out.put(b"0x");
                self.out.put_hex(value);
            }
            Short::No => self.integer(node, value, false),
        }
    }

    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        let text = &self.table.nodes[node as usize];
        match text.short {
            Short::Decimal if value >= 0 => self.out.put_piece_u64(&text.before, value as u64),
            Short::Decimal => {
                self.out.put_piece(&text.before);
                self.out.put_i64(value);
            }
            _ => self.integer(node, value as u64, true),
        }
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        let Palette { value: color, reset, .. } = self.table.palette;
        if self.begin(node).is_some() {
            self.out.put_fmt(format_args!("{color}{}{reset}", value.to_decimal()));
        }
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        let Palette { value: color, reset, .. } = self.table.palette;
        if self.begin(node).is_some() {
            self.out.put_fmt(format_args!("{color}{value}{reset}"));
        }
    }

    fn real(&mut self, node: NodeId, value: f64) {
        let Palette { value: color, reset, .. } = self.table.palette;
        if self.begin(node).is_some() {
            self.out.put(color.as_bytes());
            put_g(self.out, value);
            self.out.put(reset.as_bytes());
        }
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        let Palette { value: color, reset, .. } = self.table.palette;
        let Some(text) = self.begin(node) else { return };
        let encoding = if let Kind::Text(encoding) = text.kind { encoding } else { Encoding::Utf8 };
        self.out.put(color.as_bytes());
        match encoding {
            Encoding::Utf8 => strings::put_escaped(self.out, bytes),
            encoding => strings::put_escaped(self.out, strings::to_utf8(bytes, encoding).as_bytes()),
        }
        self.out.put(reset.as_bytes());
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        let Some(text) = self.begin(node) else { return };
        let media_type = if let Kind::Blob(media_type) = &text.kind { media_type.clone() } else { "".into() };
        self.out.put(b"( ");
        strings::put_escaped(self.out, media_type.as_bytes());
        self.out.put(b" : base64 = \"");
        strings::put_base64(self.out, bytes);
        self.out.put(b"\" )");
    }

    #[inline]
    fn begin_struct(&mut self, node: NodeId) {
        if !self.table.nodes[node as usize].is_folded
            && let Some(text) = self.begin(node)
        {
            let begin = if matches!(text.kind, Kind::Tuple) { b'[' } else { b'{' };
            self.out.put_byte(begin);
        }
    }

    #[inline]
    fn end_struct(&mut self, node: NodeId) {
        let text = &self.table.nodes[node as usize];
        if !text.is_folded {
            let end: &[u8] = if matches!(text.kind, Kind::Tuple) { b" ]" } else { b" }" };
            self.mark(node, end);
        }
    }

    fn begin_array(&mut self, node: NodeId, _len: u64) {
        if self.begin(node).is_some() {
            self.table.text_start = self.out.len();
            self.table.characters.clear();
            self.out.put_byte(b'[');
        }
    }

    #[inline]
    fn element(&mut self, node: NodeId, index: u64) {
        let text = &self.table.nodes[node as usize];
        if !text.visible {
            return;
        }
        if text.indexed
            && let Some(piece) = self.table.indexes.get(index as usize)
        {
            return self.out.put_piece(piece);
        }
        self.out.put(if index == 0 { b" " } else { b", " });
        if text.indexed {
            self.out.put_byte(b'[');
            self.out.put_u64(index);
            self.out.put(b"] = ");
        }
    }

    fn end_array(&mut self, node: NodeId) {
        self.mark(node, b" ]");
        if let NodeText { kind: Kind::Characters, visible: true, .. } = self.table.nodes[node as usize] {
            self.characters();
        }
    }

    fn begin_variant(&mut self, node: NodeId, _option: usize) {
        if self.begin(node).is_some() {
            self.out.put(b"{ ");
        }
    }

    fn end_variant(&mut self, node: NodeId) {
        self.mark(node, b" }");
    }

    fn begin_optional(&mut self, node: NodeId) {
        if self.begin(node).is_some_and(|text| !matches!(text.kind, Kind::Bare)) {
            self.out.put(b"{ ");
        }
    }

    fn end_optional(&mut self, node: NodeId) {
        if !matches!(self.table.nodes[node as usize].kind, Kind::Bare) {
            self.mark(node, b" }");
        }
    }

    fn absent(&mut self, node: NodeId) {
        if self.begin(node).is_some() {
            self.out.put(b"<none>");
        }
    }
}

/// Prints an integer that is not plain decimal, or is coloured.
fn put_integer(out: &mut Out, kind: &mut Kind, value: u64, signed: bool, color: &str, reset: &str) {
    if let Kind::Enum(text) = kind {
        text.put_labels(out, value, signed);
        out.put(color.as_bytes());
        put_number(out, &text.base, value, signed);
        out.put(reset.as_bytes());
        return out.put(b" )");
    }
    out.put(color.as_bytes());
    put_number(out, kind, value, signed);
    out.put(reset.as_bytes());
}

fn put_number(out: &mut Out, kind: &Kind, value: u64, signed: bool) {
    match kind {
        Kind::Hexadecimal { mask } => {
            out.put(b"0x");
            out.put_hex(value & mask);
        }
        Kind::Octal { mask } => out.put_fmt(format_args!("0{:o}", value & mask)),
        Kind::Binary { len_bits } => {
            out.put(b"0b");
            for bit in (0..*len_bits).rev() {
                out.put_byte(b'0' + (value >> bit & 1) as u8);
            }
        }
        _ if signed => out.put_i64(value as i64),
        _ => out.put_u64(value),
    }
}

/// Values from 0 up to this have their labels prepared.
const DENSE_LABELS: usize = 256;

impl EnumText {
    fn put_labels(&mut self, out: &mut Out, value: u64, signed: bool) {
        let wide = if signed { i128::from(value as i64) } else { i128::from(value) };
        let Some(at) = usize::try_from(wide).ok().filter(|&at| at < DENSE_LABELS) else {
            return self.labels(out, wide);
        };
        if self.dense.len() <= at {
            self.dense.resize(at + 1, None);
        }
        if self.dense[at].is_none() {
            let mut text = Out::default();
            self.labels(&mut text, wide);
            self.dense[at] = Some(Piece::new(text.written()));
        }
        if let Some(piece) = &self.dense[at] {
            out.put_piece(piece);
        }
    }

    fn labels(&self, out: &mut Out, value: i128) {
        let Palette { value: color, reset, unknown, .. } = self.palette;
        out.put(b"( ");
        let mut seen: Vec<&str> = Vec::new();
        for label in self.class.labels(value) {
            if seen.contains(&&**label) {
                continue;
            }
            if !seen.is_empty() {
                out.put(b", ");
            }
            seen.push(label);
            out.put(color.as_bytes());
            strings::put_escaped(out, label.as_bytes());
            out.put(reset.as_bytes());
        }
        if seen.is_empty() {
            out.put_fmt(format_args!("{unknown}<unknown>{reset}"));
        }
        out.put(b" : container = ");
    }
}
