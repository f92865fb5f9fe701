//! Events as lines of text, byte for byte as `babeltrace2` 2.0.4 prints them (its `sink.text.pretty`).
//!
//! Text that is equal for every event of a class is prepared once: the names of the fields with the text before them,
//! the words between time and contexts. The packet context is rendered once for each packet.

mod fields;
mod options;
mod origin;
mod summary;
mod table;
mod words;

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_codec::chunk::{Chunk, EventRef, PacketData};
use tracemill_codec::layout::DataFields;
use tracemill_codec::plan::{DecoderState, Fault, Plan};
use tracemill_model::clock::ClockMap;
use tracemill_model::schema::{ClockOrigin, EventClassId, Schema, Scope};

use super::time::{TimeStyle, WallClock, put_unsigned_seconds};
use fields::FieldPrinter;
use options::Palette;
pub use options::{HeaderFields, Origins, ShownNames, TextOptions};
use origin::OriginOf;
use summary::{SummaryPrinter, SummaryTable, summary_table};
use table::{SectionNames, TextTable};
use tracemill_codec::text::out::{Out, TextPiece};
use tracemill_codec::text::strings;
use words::{Words, class_words, name_text, summary_head, trace_words};

/// Time of an event that was printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineTime {
    /// Ns.
    pub ns: i128,
    /// Cycles.
    pub cycles: u64,
}

/// State of the line before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// Another thread prints it: the time since it is left open.
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
    packet_tables: HashMap<u32, TextTable>,
    data: DataFields,
    /// Index of the trace.
    trace: usize,
    /// For each stream the rendered context of the packet that was printed last.
    packets: Vec<Option<ContextTexts>>,
    wall: WallClock,
    /// Are times shown as `[hh:mm:ss.nnnnnnnnn] (+s.nnnnnnnnn) `, without colour?
    has_plain_times: bool,
    state: DecoderState,
    name: Vec<u8>,
    /// By class, when the trace's lines sum events up.
    summaries: Vec<Option<SummaryTable>>,
    /// Text before those: the name of the trace when there are several.
    summary_head: Vec<u8>,
}

/// The texts of contexts that many events of a stream share.
struct ContextTexts {
    packet: Arc<PacketData>,
    /// The packet context; `None` when there is nothing to print.
    text: Option<TextPiece>,
    kept: KeptContext,
}

/// The packet context and the common context of the event before: most often the next event has the same ones.
#[derive(Default)]
struct KeptContext {
    /// The encoded common context.
    bytes: Vec<u8>,
    text: Option<TextPiece<96>>,
    /// Events in a row that had another one.
    misses: u8,
}

/// After so many events in a row with another common context than the one before, those of a packet are not compared
/// any more.
const MAX_MISSES: u8 = 16;

impl KeptContext {
    /// Appends the texts of a packet context and of another common context, and keeps them.
    fn render_again(
        &mut self,
        bytes: &[u8],
        packet: Option<&TextPiece>,
        out: &mut Out,
        put: impl FnOnce(&mut Out) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let start = out.len();
        if let Some(packet) = packet {
            out.put_piece(packet);
        }
        put(out)?;
        self.misses += 1;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.text = Some(TextPiece::new(&out.written()[start..]));
        Ok(())
    }
}

struct ClassTable {
    /// From the end of the time to the first context.
    head: TextPiece,
    /// Text after the event's own name, when its class has many: the head then ends before it.
    own_name: Option<TextPiece>,
    table: TextTable,
    /// The bytes of the common context, when it may be kept; otherwise 0.
    context_bytes: usize,
    origin: Option<OriginOf>,
    /// Text after the last field, with the end of the line.
    tail: TextPiece,
}

impl TextTrace {
    /// A printer of events of `schema`, that of the trace with this index. `name` is the trace's own name, `found_as` the one that tells it from the others
    /// when several traces are printed.
    pub fn new(
        options: Arc<TextOptions>,
        (trace, schema): (usize, Arc<Schema>),
        name: &str,
        found_as: Option<&str>,
    ) -> Self {
        let palette = if options.color { Palette::COLOR } else { Palette::NONE };
        let found_as = found_as.filter(|_| !schema.has_peer_text);
        let trace_words = trace_words(&options, palette, &schema, name, found_as);
        let summary_head = summary_head(&options, palette, &schema, found_as);
        // The day and the hour of the zero of a clock without origin are unknown.
        let has_no_origin = schema.clocks().iter().all(|clock| clock.origin == ClockOrigin::Unknown);
        let seconds = options.time.seconds || has_no_origin && !schema.has_peer_text;
        let wall = WallClock::new(TimeStyle { seconds, ..options.time });
        let has_plain_times = !options.color && !options.names.header && !options.time.cycles && !options.no_delta;
        TextTrace {
            options,
            palette,
            data: DataFields::new(&schema),
            trace_words,
            trace,
            classes: schema.events().iter().map(|_| None).collect(),
            packet_tables: HashMap::new(),
            packets: Vec::new(),
            wall,
            has_plain_times,
            state: DecoderState::default(),
            name: Vec::new(),
            summaries: schema.events().iter().map(|_| None).collect(),
            summary_head,
            schema,
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
        ns: Option<i128>,
        before: &mut Before,
    ) -> Result<Option<usize>, Fault> {
        let hole = ns.and_then(|ns| {
            let now = LineTime { ns, cycles: event.cycles() };
            let hole = self.time(out, now, *before);
            *before = Before::At(now);
            hole
        });
        if self.schema.summary.is_some() {
            out.put(&self.summary_head);
            self.summary(out, event)?;
            return Ok(hole);
        }
        let class = event.class();
        let packet = &event.chunk.packet;
        match self.packets.get(stream) {
            Some(Some(known)) if PacketData::is_same(&known.packet, packet) => {}
            _ => self.begin_packet(stream, packet)?,
        }
        let at = class.0 as usize;
        if self.classes[at].is_none() {
            let plan = packet.plans.event_rows(class);
            let origin = OriginOf::new(&self.options, self.trace, class, plan);
            let context_bytes = packet.plans.event_flat_rows(class).first_section_bytes();
            // The names known for an address may change from event to event.
            let context_bytes = context_bytes.filter(|_| origin.is_none()).unwrap_or(0);
            let table = ClassTable { context_bytes, origin, ..self.class_table(class, plan) };
            self.classes[at] = Some(Box::new(table));
        }
        let Some(table) = &mut self.classes[at] else { return Ok(hole) };
        out.put_piece(&table.head);
        if let Some(behind) = &table.own_name {
            self.name.clear();
            event.own_id(&mut self.name);
            strings::put_plain(out, &self.name);
            out.put_piece(behind);
        }
        let Some(Some(ContextTexts { text, kept, .. })) = self.packets.get_mut(stream) else { return Ok(hole) };
        let (state, len) = (&mut self.state, table.context_bytes);
        let bytes = if len == 0 || kept.misses == MAX_MISSES { None } else { event.context_bytes(len) };
        if let Some(bytes) = bytes {
            if let Some(text) = kept.text.as_ref().filter(|_| kept.bytes == bytes) {
                kept.misses = 0;
                out.put_piece(text);
            } else {
                kept.render_again(bytes, text.as_ref(), out, |out| {
                    event.visit_flat_context(state, &mut FieldPrinter { out, table: &mut table.table }).map(|_| ())
                })?;
            }
            let behind = event.chunk.body_bits(event.at) + len as u64 * 8;
            event.visit_flat_after_context(behind, state, &mut FieldPrinter { out, table: &mut table.table })?;
        } else {
            if let Some(text) = text {
                out.put_piece(text);
            }
            match &table.origin {
                None => event.visit_flat(state, &mut FieldPrinter { out, table: &mut table.table })?,
                Some(origin) => {
                    let behind = event.visit_flat_context(state, &mut FieldPrinter { out, table: &mut table.table })?;
                    origin.write(out, event, ns.unwrap_or(0), state, (self.palette, self.options.names.context))?;
                    event.visit_flat_after_context(
                        behind,
                        state,
                        &mut FieldPrinter { out, table: &mut table.table },
                    )?;
                }
            }
        }
        out.put_piece(&table.tail);
        Ok(hole)
    }

    /// Appends the lines of the events from `from` on that need nothing but texts made from the event alone, up to `to`:
    /// how many. The next one needs [`TextTrace::line`]. All events have times when there is a clock.
    #[inline]
    pub(super) fn sum_up(
        &mut self,
        out: &mut Out,
        chunk: &Chunk,
        (from, to): (usize, usize),
        clock: Option<&ClockMap>,
        before: &mut Before,
    ) -> usize {
        if !self.summary_head.is_empty() || !(self.has_plain_times || clock.is_none()) {
            return 0;
        }
        let content = chunk.packet.content();
        let Some(clock) = clock else {
            for at in from..to {
                let Some(Some(SummaryTable { made: Some(made), .. })) = self.summaries.get(chunk.class(at).0 as usize)
                else {
                    return at - from;
                };
                let body = content.get((chunk.body_bits(at) >> 3) as usize..).unwrap_or(&[]);
                made.write(out, body, &mut self.name);
            }
            return to - from;
        };
        let Before::At(mut last) = *before else { return 0 };
        let mut done = from;
        while done < to {
            let Some(Some(SummaryTable { made: Some(made), .. })) = self.summaries.get(chunk.class(done).0 as usize)
            else {
                break;
            };
            let cycles = chunk.cycles[done];
            let now = LineTime { ns: clock.ns(cycles), cycles };
            if !put_plain_time(out, &mut self.wall, now, last) {
                break;
            }
            last = now;
            let body = content.get((chunk.body_bits(done) >> 3) as usize..).unwrap_or(&[]);
            made.write(out, body, &mut self.name);
            done += 1;
        }
        *before = Before::At(last);
        done - from
    }

    #[inline]
    fn time(&mut self, out: &mut Out, now: LineTime, before: Before) -> Option<usize> {
        if let Before::At(before) = before
            && self.has_plain_times
            && put_plain_time(out, &mut self.wall, now, before)
        {
            return None;
        }
        self.any_time(out, now, before)
    }

    /// A time in any form.
    #[inline(never)]
    fn any_time(&mut self, out: &mut Out, now: LineTime, before: Before) -> Option<usize> {
        let names = self.options.names.header;
        if names {
            out.put(name_text(self.palette, "timestamp").as_bytes());
        } else {
            out.put_byte(b'[');
        }
        out.put(self.palette.time.as_bytes());
        if self.options.time.cycles {
            out.put_fmt(format_args!("{:020}", now.cycles));
        } else {
            self.wall.write(out, now.ns);
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
            out.put(name_text(self.palette, "delta").as_bytes());
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

    /// The rest of a line that sums an event up: the text before its name, the name, the text after it.
    fn summary(&mut self, out: &mut Out, event: EventRef<'_>) -> Result<(), Fault> {
        let at = event.class().0 as usize;
        let table = self.summaries[at].get_or_insert_with(|| {
            let plan = event.chunk.packet.plans.event_flat_rows(event.class());
            summary_table(&self.schema, event.class(), plan, self.palette)
        });
        if let Some(made) = &table.made {
            made.write(out, event.body(), &mut self.name);
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

    /// Renders the context of the packet that a stream has come to.
    #[cold]
    fn begin_packet(&mut self, stream: usize, packet: &Arc<PacketData>) -> Result<(), Fault> {
        let class = packet.packet.class;
        let (schema, palette, options, data) = (&self.schema, self.palette, &self.options, &self.data);
        let table = self.packet_tables.entry(class.0).or_insert_with(|| {
            let plan = packet.plans.packet_context_rows(class);
            let names = SectionNames { scope: options.names.scope, fields: &[options.names.context] };
            let scopes = [(Scope::PacketContext, "stream.packet.context")];
            TextTable::new(schema, plan, palette, data, &scopes, &names, Vec::new())
        });
        let mut text = None;
        if table.is_shown {
            let mut out = Out::default();
            packet.visit_context(&mut FieldPrinter { out: &mut out, table })?;
            out.put(&table.tail);
            text = Some(TextPiece::new(out.written()));
        }
        let len = self.packets.len().max(stream + 1);
        self.packets.resize_with(len, || None);
        self.packets[stream] = Some(ContextTexts { packet: packet.clone(), text, kept: KeptContext::default() });
        Ok(())
    }

    fn class_table(&self, class: EventClassId, plan: &Plan) -> ClassTable {
        let event = self.schema.event(class);
        let names = self.options.names;
        let mut data = self.data.clone();
        for root in [event.specific_context, event.payload].into_iter().flatten() {
            data.add_references(&self.schema, root);
        }
        let scopes = [
            (Scope::CommonContext, "stream.event.context"),
            (Scope::SpecificContext, "event.context"),
            (Scope::Payload, "event.fields"),
        ];
        let show_names = SectionNames { scope: names.scope, fields: &[names.context, names.context, names.payload] };
        let comma = if self.shows_packet_context(event.stream) { ", " } else { "" };
        let mut table = TextTable::new(&self.schema, plan, self.palette, &data, &scopes, &show_names, comma.into());
        let mut tail = std::mem::take(&mut table.tail);
        // The comma after a packet context is for a scope; without one there is none.
        if !table.is_shown {
            tail.clear();
        }
        tail.push(b'\n');
        let mut head = class_words(&self.trace_words, event, &self.options);
        let own_name = event.open_ids.as_ref().map(|_| {
            let behind = if names.header { ", " } else { ": " };
            head.truncate(head.len() - behind.len());
            TextPiece::new(behind)
        });
        let (head, tail) = (TextPiece::new(head), TextPiece::new(tail));
        ClassTable { head, own_name, table, context_bytes: 0, origin: None, tail }
    }

    fn shows_packet_context(&self, stream: tracemill_model::schema::StreamClassId) -> bool {
        self.packet_tables.get(&stream.0).is_some_and(|table| table.is_shown)
    }
}

/// Appends `[hh:mm:ss.nnnnnnnnn] (+s.nnnnnnnnn) ` when the times have that form; false, and nothing appended, otherwise.
#[inline(always)]
fn put_plain_time(out: &mut Out, wall: &mut WallClock, now: LineTime, before: LineTime) -> bool {
    let delta = (now.ns - before.ns) as u128;
    if delta >= 10_000_000_000 {
        return false;
    }
    let Some((start, fraction)) = wall.bracketed(now.ns) else { return false };
    // Nearly always 0.
    let (mut second, mut delta) = (0, delta as u64);
    while delta >= 1_000_000_000 {
        (second, delta) = (second + 1, delta - 1_000_000_000);
    }
    out.put_times(start, fraction, *b"] (+", second, delta as u32, *b") ");
    true
}

/// Appends the time since the line before.
#[inline]
pub fn put_delta(out: &mut Out, options: &TextOptions, now: LineTime, before: Before) {
    let before = if let Before::At(before) = before { Some(before) } else { None };
    if options.time.cycles {
        let delta = before.map(|before| now.cycles.wrapping_sub(before.cycles));
        // `babeltrace2` takes a difference of -1 for none.
        return match delta.filter(|&delta| delta != u64::MAX) {
            Some(delta) => out.put_fmt(format_args!("+{delta:012}")),
            None => out.put(b"+????????????"),
        };
    }
    let delta = before.map(|before| {
        let delta = now.ns - before.ns;
        // `babeltrace2` shows a time that goes back as the number of 64 bits that it makes of it.
        if delta < 0 { u128::from(delta as u64) } else { delta as u128 }
    });
    match delta.filter(|&delta| delta != u128::from(u64::MAX)) {
        Some(delta) => {
            out.put_byte(b'+');
            put_unsigned_seconds(out, delta);
        }
        None => out.put(b"+?.?????????"),
    }
}
