//! The columns that the user chose: values of paths, scalars bare and the rest as JSON (`docs/cli.md`, "CSV"), or all of them as
//! members of one flat JSON object (`docs/cli.md`, "JSON lines").
//!
//! A scope is visited once for all columns in it. Fields that they want are printed as JSON into one buffer, and a cell
//! is a range of it: columns inside each other (`payload`, `payload.x`) share their text. Only strings that are a
//! column themselves stand in a second buffer, because JSON quotes them.

use std::ops::Range;
use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::plan::{DecoderState, Fault, NodeId, Plan, Visitor, VisitorCall};
use tracemill_model::schema::{EventClassId, Schema, Scope, StreamClassId};

use super::csv::put_cell;
use super::time::put_seconds;
use tracemill_codec::text::fields_json::{JsonPrinter, JsonTable, put_names};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings::put_json;
use tracemill_engine::filter::{CapturedFields, ColumnPart, Detail, PathColumns, PathHead, PathPlace};

/// Prints the events of one trace as rows of chosen columns.
pub struct CellTrace {
    schema: Arc<Schema>,
    trace: String,
    columns: PathColumns,
    /// The keys of the columns, as JSON, where events are objects and not rows.
    keys: Option<Vec<Vec<u8>>>,
    /// Do objects name the trace?
    names_trace: bool,
    /// By event class.
    programs: Vec<Option<Box<Program>>>,
    /// By stream class: wanted fields of its packet contexts.
    contexts: Vec<Option<Box<Picks>>>,
    /// By stream: its last packet with the cells of its context. It is held so that its address stays its own.
    packets: Vec<Option<(Arc<PacketData>, Cells)>>,
    cells: Cells,
    state: DecoderState,
    indices: Vec<u64>,
}

const NS_KEY: &[u8] = b"\"ns\":";

/// The columns, prepared for one event class.
struct Program {
    /// For each column.
    places: Vec<PathPlace>,
    header: Option<Picks>,
    body: Picks,
    /// Whether common context, specific context and payload are wanted.
    sections: [bool; 3],
    wants_packet: bool,
}

/// Fields of a plan that are wanted.
struct Picks {
    wanted: CapturedFields,
    table: JsonTable,
}

/// The scopes whose fields come one after the other in a plan.
const BODY: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// The texts of an event's cells.
#[derive(Default)]
struct Cells {
    json: Out,
    bare: Vec<u8>,
    /// For each column.
    places: Vec<Cell>,
}

#[derive(Clone, Default)]
enum Cell {
    #[default]
    Empty,
    Json(Range<usize>),
    /// Numbers, or JSON text.
    Bare(Range<usize>),
    /// Text that JSON quotes.
    Text(Range<usize>),
}

impl Cells {
    fn clear(&mut self, columns: usize) {
        self.json.clear();
        self.bare.clear();
        self.places.clear();
        self.places.resize(columns, Cell::Empty);
    }

    fn text(&self, column: usize) -> &[u8] {
        match &self.places[column] {
            Cell::Empty => b"",
            Cell::Json(range) => &self.json.written()[range.clone()],
            Cell::Bare(range) | Cell::Text(range) => &self.bare[range.clone()],
        }
    }

    /// Adds a cell to a JSON object; an empty one has no member.
    fn put_member(&self, out: &mut Out, key: &[u8], column: usize) {
        match &self.places[column] {
            Cell::Empty => {}
            Cell::Text(_) => {
                out.put(key);
                put_json(out, self.text(column));
            }
            Cell::Json(_) | Cell::Bare(_) => {
                out.put(key);
                out.put(self.text(column));
            }
        }
    }
}

impl CellTrace {
    /// A printer of rows for the events of a trace.
    pub fn new(schema: Arc<Schema>, trace: &str, columns: &PathColumns) -> Self {
        CellTrace {
            trace: trace.to_string(),
            columns: columns.clone(),
            keys: None,
            names_trace: false,
            programs: schema.events().iter().map(|_| None).collect(),
            contexts: schema.streams().iter().map(|_| None).collect(),
            packets: Vec::new(),
            cells: Cells::default(),
            state: DecoderState::default(),
            indices: Vec::new(),
            schema,
        }
    }

    /// Prints events as objects: a member for each column that has a value, and one for the trace if `names_trace`.
    #[must_use]
    pub fn as_objects(mut self, names_trace: bool) -> Self {
        let key = |name: &str| {
            let mut key = Out::default();
            put_json(&mut key, name.as_bytes());
            key.put_byte(b':');
            key.written().to_vec()
        };
        self.keys = Some(self.columns.names().map(key).collect());
        self.names_trace = names_trace;
        self
    }

    pub(crate) fn line(
        &mut self,
        out: &mut Out,
        stream: usize,
        event: EventRef<'_>,
        ns: Option<i128>,
    ) -> Result<(), Fault> {
        let CellTrace { schema, columns, programs, cells, state, indices, .. } = self;
        let class = event.class();
        let program = programs[class.0 as usize].get_or_insert_with(|| Box::new(Program::new(schema, columns, event)));
        cells.clear(program.places.len());
        program.read(event, columns, cells, state, indices)?;
        if program.wants_packet {
            self.read_packet(stream, &event.chunk.packet)?;
        }
        let packet = self.packets.get(stream).and_then(Option::as_ref);
        let Some(Some(program)) = self.programs.get(class.0 as usize) else { return Ok(()) };
        if let Some(keys) = &self.keys {
            out.put_byte(b'{');
            let begin = out.len();
            for (column, (place, key)) in program.places.iter().zip(keys).enumerate() {
                let before = out.len();
                if before > begin {
                    out.put_byte(b',');
                }
                let start = out.len();
                match place {
                    // As in canonical lines, of an event without a time too.
                    PathPlace::Absent if *key == NS_KEY => {
                        out.put(key);
                        out.put(b"null");
                    }
                    PathPlace::Absent => {}
                    PathPlace::Spine(head) => self.put_spine_member(out, key, *head, event, ns),
                    PathPlace::Field(place) if place.scope == Scope::PacketContext => {
                        packet.iter().for_each(|(_, cells)| cells.put_member(out, key, column));
                    }
                    PathPlace::Field(_) => self.cells.put_member(out, key, column),
                }
                if out.len() == start {
                    out.truncate(before);
                }
            }
            out.put(b"}\n");
            return Ok(());
        }
        for (column, place) in program.places.iter().enumerate() {
            if column > 0 {
                out.put_byte(b',');
            }
            match place {
                PathPlace::Absent => {}
                PathPlace::Spine(head) => self.put_spine(out, *head, event, ns),
                PathPlace::Field(place) if place.scope == Scope::PacketContext => {
                    put_cell(out, packet.map_or(b"", |(_, cells)| cells.text(column)));
                }
                PathPlace::Field(_) => put_cell(out, self.cells.text(column)),
            }
        }
        out.put_byte(b'\n');
        Ok(())
    }

    /// Adds what an event is to a JSON object, as canonical lines have it.
    fn put_spine_member(&self, out: &mut Out, key: &[u8], head: PathHead, event: EventRef<'_>, ns: Option<i128>) {
        let is_there = match head {
            PathHead::Trace => self.names_trace,
            PathHead::Cpu => event.chunk.packet.cpu.is_some(),
            PathHead::Cycles => self.schema.has_cycles(event.class()),
            _ => true,
        };
        if !is_there {
            return;
        }
        out.put(key);
        match head {
            PathHead::Trace => put_json(out, self.trace.as_bytes()),
            PathHead::Name => put_json(out, event.name(&mut Vec::new()).unwrap_or_default()),
            PathHead::Ns if ns.is_none() => out.put(b"null"),
            _ => self.put_spine(out, head, event, ns),
        }
    }

    fn put_spine(&self, out: &mut Out, head: PathHead, event: EventRef<'_>, ns: Option<i128>) {
        let class = self.schema.event(event.class());
        match (head, ns) {
            (PathHead::Cpu, _) => {
                if let Some(cpu) = event.chunk.packet.cpu {
                    out.put_u64(cpu.into());
                }
            }
            (PathHead::Name, _) => put_cell(out, event.name(&mut Vec::new()).unwrap_or_default()),
            (PathHead::Id, _) => out.put_u64(event.id()),
            (PathHead::Stream, _) => out.put_u64(self.schema.stream(class.stream).id),
            (PathHead::Trace, _) => put_cell(out, self.trace.as_bytes()),
            (PathHead::Ns, Some(ns)) => out.put_ns(ns),
            (PathHead::Time, Some(ns)) => put_seconds(out, ns),
            (PathHead::Cycles, _) => out.put_u64(event.cycles()),
            _ => {}
        }
    }

    fn read_packet(&mut self, stream: usize, packet: &Arc<PacketData>) -> Result<(), Fault> {
        if let Some(Some((known, _))) = self.packets.get(stream)
            && PacketData::is_same(known, packet)
        {
            return Ok(());
        }
        let (schema, columns, class) = (&self.schema, &self.columns, packet.packet.class);
        let picks =
            self.contexts[class.0 as usize].get_or_insert_with(|| Box::new(context_picks(schema, columns, packet)));
        let mut cells = Cells::default();
        cells.clear(columns.names().count());
        packet.visit_context(&mut Picker::new(picks, columns, &mut cells, &mut self.indices))?;
        let len = self.packets.len().max(stream + 1);
        self.packets.resize_with(len, || None);
        self.packets[stream] = Some((packet.clone(), cells));
        Ok(())
    }
}

/// Fields of the packet context that any event class of a stream class wants: they have one place for all of them.
fn context_picks(schema: &Schema, columns: &PathColumns, packet: &PacketData) -> Picks {
    let class: StreamClassId = packet.packet.class;
    let mut picks = Picks::new(schema, packet.plans.packet_context_rows(class));
    let mut is_known = vec![false; columns.names().count()];
    for at in (0..schema.events().len()).filter(|&at| schema.events()[at].stream == class) {
        for (column, place) in columns.places_in_packet(schema, EventClassId(at as u32)) {
            if !std::mem::replace(&mut is_known[column], true) {
                picks.wanted.add(packet.plans.packet_context_rows(class), 0, column, &place, Detail::Plain);
            }
        }
    }
    picks
}

impl Picks {
    fn new(schema: &Schema, plan: &Plan) -> Self {
        Picks { wanted: CapturedFields::default(), table: JsonTable::new(schema, plan) }
    }
}

impl Program {
    fn new(schema: &Schema, columns: &PathColumns, event: EventRef<'_>) -> Self {
        let packet = &event.chunk.packet;
        let places = columns.places(schema, event.class());
        let body_plan = packet.plans.event_rows(event.class());
        let header_plan = packet.plans.header_rows(packet.packet.class);
        let mut program = Program {
            header: None,
            body: Picks::new(schema, body_plan),
            sections: [false; 3],
            wants_packet: false,
            places: Vec::new(),
        };
        for (column, place) in places.iter().enumerate() {
            let PathPlace::Field(place) = place else { continue };
            match place.scope {
                Scope::PacketHeader => {}
                Scope::PacketContext => program.wants_packet = true,
                Scope::EventHeader => {
                    let picks = program.header.get_or_insert_with(|| Picks::new(schema, header_plan));
                    picks.wanted.add(header_plan, 0, column, place, Detail::Plain);
                }
                scope => {
                    let section = scope as usize - Scope::CommonContext as usize;
                    program.body.wanted.add(body_plan, section, column, place, Detail::Plain);
                    program.sections[section] = true;
                }
            }
        }
        program.places = places;
        program
    }

    /// Decodes the scopes that are wanted.
    fn read(
        &mut self,
        event: EventRef<'_>,
        columns: &PathColumns,
        cells: &mut Cells,
        state: &mut DecoderState,
        indices: &mut Vec<u64>,
    ) -> Result<(), Fault> {
        if let Some(picks) = &mut self.header {
            event.visit_header(state, &mut Picker::new(picks, columns, cells, indices))?;
        }
        if self.sections == [false; 3] {
            return Ok(());
        }
        let mut fields = event.fields(state);
        for (scope, _) in BODY.into_iter().zip(self.sections).filter(|(_, is_wanted)| *is_wanted) {
            fields.visit(scope, state, &mut Picker::new(&mut self.body, columns, cells, indices))?;
        }
        Ok(())
    }
}

/// A printer of the wanted fields.
struct Picker<'a> {
    wanted: &'a CapturedFields,
    columns: &'a PathColumns,
    printer: JsonPrinter<'a>,
    bare: &'a mut Vec<u8>,
    places: &'a mut [Cell],
    indices: &'a mut Vec<u64>,
    /// Structures, arrays and variants around this place that are printed.
    open: usize,
}

impl<'a> Picker<'a> {
    /// `indices` is storage that is used again and again.
    fn new(picks: &'a mut Picks, columns: &'a PathColumns, cells: &'a mut Cells, indices: &'a mut Vec<u64>) -> Self {
        let Picks { wanted, table } = picks;
        let Cells { json, bare, places } = cells;
        Picker { wanted, columns, printer: JsonPrinter::new(json, table), bare, places, indices, open: 0 }
    }

    fn is_chosen(&self, node: NodeId) -> bool {
        self.wanted.chosen(node, self.indices).next().is_some()
    }

    // One for each kind of value: that is known where it is called.
    #[inline(always)]
    fn scalar(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        let is_chosen = self.is_chosen(node);
        if !is_chosen && self.open == 0 {
            return;
        }
        let start = self.printer.start_of(node);
        shown.dispatch(&mut self.printer, node);
        if is_chosen {
            let end = self.printer.printed_bytes();
            for column in self.wanted.chosen(node, self.indices) {
                self.places[column] = match self.columns.part(column) {
                    ColumnPart::Whole => Cell::Json(start..end),
                    part => part_of(&self.printer, node, shown, part, self.bare).unwrap_or(Cell::Json(start..end)),
                };
            }
        }
    }

    fn begin(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        let start = self.printer.start_of(node);
        let mut is_chosen = false;
        for column in self.wanted.chosen(node, self.indices) {
            self.places[column] = Cell::Json(start..start);
            is_chosen = true;
        }
        if is_chosen || self.open > 0 {
            self.open += 1;
            shown.dispatch(&mut self.printer, node);
        }
    }

    fn end(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        if self.open == 0 {
            return;
        }
        self.open -= 1;
        shown.dispatch(&mut self.printer, node);
        let end = self.printer.printed_bytes();
        // The elements around the node are still those at which it began.
        for column in self.wanted.chosen(node, self.indices) {
            if let Cell::Json(range) = &mut self.places[column] {
                range.end = end;
            }
        }
    }
}

/// A part of an integer with labels or flags, in the buffer of bare texts; `None` for other values, which are shown whole.
/// One label is bare; several, and flags, are an array.
fn part_of(
    printer: &JsonPrinter<'_>,
    node: NodeId,
    shown: VisitorCall<'_>,
    part: ColumnPart,
    bare: &mut Vec<u8>,
) -> Option<Cell> {
    let names = printer.names_of(node, shown)?;
    let start = bare.len();
    match (part, names.as_slice()) {
        (ColumnPart::Labels, []) => return Some(Cell::Empty),
        (ColumnPart::Labels, [label]) => {
            bare.extend_from_slice(label.as_bytes());
            return Some(Cell::Text(start..bare.len()));
        }
        (ColumnPart::Labels | ColumnPart::Flags, names) => {
            let mut list = Out::default();
            put_names(&mut list, names);
            bare.extend_from_slice(list.written());
        }
        _ => match shown {
            VisitorCall::Unsigned(value) => bare.extend_from_slice(value.to_string().as_bytes()),
            VisitorCall::Signed(value) => bare.extend_from_slice(value.to_string().as_bytes()),
            VisitorCall::Wide(value) => bare.extend_from_slice(value.to_decimal().as_bytes()),
            _ => return None,
        },
    }
    Some(Cell::Bare(start..bare.len()))
}

impl Visitor for Picker<'_> {
    #[inline(always)]
    fn any_call(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        match shown {
            VisitorCall::BeginStruct | VisitorCall::BeginArray(_) | VisitorCall::BeginVariant(_) => {
                self.begin(node, shown)
            }
            VisitorCall::EndStruct | VisitorCall::EndArray | VisitorCall::EndVariant => self.end(node, shown),
            VisitorCall::BeginOptional | VisitorCall::EndOptional | VisitorCall::Element(_) | VisitorCall::Absent => {
                if self.open > 0 {
                    shown.dispatch(&mut self.printer, node);
                }
            }
            _ => self.scalar(node, shown),
        }
    }

    fn real(&mut self, node: NodeId, value: f64) {
        // The strings that stand for what is no number in JSON are bare too.
        let word = match value {
            f64::INFINITY => "Infinity",
            f64::NEG_INFINITY => "-Infinity",
            value if value.is_nan() => "NaN",
            value => return self.scalar(node, VisitorCall::Real(value)),
        };
        self.string(node, word.as_bytes());
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        if self.open > 0 {
            self.printer.string(node, bytes);
        }
        if self.is_chosen(node) {
            let start = self.bare.len();
            self.bare.extend_from_slice(self.printer.text_of(node, bytes).as_bytes());
            for column in self.wanted.chosen(node, self.indices) {
                self.places[column] = Cell::Text(start..self.bare.len());
            }
        }
    }

    #[inline]
    fn element(&mut self, node: NodeId, index: u64) {
        self.wanted.count(node, index, self.indices);
        self.any_call(node, VisitorCall::Element(index));
    }
}
