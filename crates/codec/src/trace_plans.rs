//! All plans of a trace, compiled on first use, and the pass that finds where its events are.

use std::sync::{Arc, OnceLock};

use tracemill_model::schema::{EventClassId, FieldClassId, Schema, Scope, StreamClassId};

use crate::event_header::{FastHeader, OneWord, ReadHeader};
use crate::layout;
use crate::plan::{
    Compiler, DecoderState, Fault, FaultKind, KnownAlignment, NoVisitor, Plan, PlanInput, ScopeRoots, SharedSlots,
    ShortPlan,
};
use crate::quick::Quick;
use crate::spine::{EventFault, ScanEnd, SpineSink};

/// The scopes of an event's plan, in the order of its sections.
const EVENT_SCOPES: [Scope; 3] = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// The plans of one trace. Shared by all threads.
pub struct TracePlans {
    schema: Arc<Schema>,
    shared: SharedSlots,
    packet_header: Plan,
    row_packet_header: OnceLock<Plan>,
    streams: Vec<OnceLock<Box<StreamPlans>>>,
    events: Vec<OnceLock<Box<EventPlans>>>,
    /// The quick form of each event's skip plan: small and close together, for traces of thousands of classes.
    quick: Vec<HalfLine<Quick>>,
    /// The short form of each event's flat row plan, for the same reason.
    short: Vec<LazyLine<ShortPlan>>,
    step_bytes: usize,
}

/// Something that is made on first use, on cache lines of its own.
#[repr(align(64))]
struct LazyLine<T>(OnceLock<T>);

/// Something that is made on first use, in one cache line with another.
#[repr(align(32))]
struct HalfLine<T>(OnceLock<T>);

struct StreamPlans {
    packet_context: Plan,
    header: HeaderPlan,
    header_align_bits: u64,
    ids: IdTable,
    row_header: OnceLock<Plan>,
    row_packet_context: OnceLock<Plan>,
}

enum HeaderPlan {
    Fast(FastHeader),
    General(Plan),
}

/// From the numeric id of an event to its class.
struct IdTable {
    /// Class of each id below the length, `u32::MAX` for none.
    dense: Vec<u32>,
    /// The class of events whose header holds no id.
    without_id: Option<u32>,
    stream: StreamClassId,
}

struct EventPlans {
    /// Common context, specific context and payload in one.
    skip: Plan,
    row: OnceLock<Plan>,
    /// The row plan without the marks of structures that are always there.
    flat: OnceLock<Plan>,
    /// Does a field refer to the event header?
    needs_header: bool,
}

/// A form of the plan of an event.
#[derive(Clone, Copy)]
enum EventPlanForm {
    Skip,
    Row,
    /// A row form that refuses two byte orders in a byte, as the skip form does.
    Checked,
    Flat,
}

/// The largest alignment of a field in bytes; cache lines otherwise.
fn step_bytes(schema: &Schema) -> usize {
    let classes = (0..schema.field_class_count()).map(|at| schema.field_class(FieldClassId(at as u32)));
    let aligns = classes.map(|class| class.align_bits.max(class.placement.end_align_bits).div_ceil(8) as usize);
    aligns.fold(64, |step, align| step.max(align.next_power_of_two()))
}

/// A `Copy` of the plans that a scan of one stream class needs.
#[derive(Clone, Copy)]
pub struct Scanner<'a> {
    plans: &'a TracePlans,
    stream: &'a StreamPlans,
}

impl TracePlans {
    /// Plans of a schema; compiles nothing but the packet header.
    pub fn new(schema: Arc<Schema>) -> Self {
        let shared = SharedSlots::from_schema(&schema);
        let compiler = Compiler::skip(&schema, &shared, packet_roots(&schema), KnownAlignment::START);
        let packet_header = compiler.plan(&[Scope::PacketHeader]);
        let count = schema.events().len();
        TracePlans {
            shared,
            packet_header,
            row_packet_header: OnceLock::new(),
            streams: (0..schema.streams().len()).map(|_| OnceLock::new()).collect(),
            events: (0..count).map(|_| OnceLock::new()).collect(),
            quick: (0..count).map(|_| HalfLine(OnceLock::new())).collect(),
            short: (0..count).map(|_| LazyLine(OnceLock::new())).collect(),
            step_bytes: step_bytes(&schema),
            schema,
        }
    }

    /// Bytes by multiples of which an event can move and its fields stay aligned.
    pub fn step_bytes(&self) -> usize {
        self.step_bytes
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Decodes a packet header from `*pos_bits`; values with a role go to `state.roles`.
    pub fn read_packet_header(
        &self,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
    ) -> Result<(), EventFault> {
        let start = *pos_bits;
        self.packet_header.skip(input, pos_bits, state).map_err(|fault| {
            let compiler = self.rows(packet_roots(&self.schema), KnownAlignment::NOTHING).with_order_checks();
            let plan = compiler.plan(&[Scope::PacketHeader]);
            explain_scope(&plan, Scope::PacketHeader, input, start, pos_bits, state, fault)
        })
    }

    /// Decodes the packet context that follows the header.
    pub fn read_packet_context(
        &self,
        stream: StreamClassId,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
    ) -> Result<(), EventFault> {
        let (start, order) = (*pos_bits, state.order);
        self.stream(stream).packet_context.skip(input, pos_bits, state).map_err(|fault| {
            state.order = order;
            let plan = self.packet_context_rows(stream);
            explain_scope(plan, Scope::PacketContext, input, start, pos_bits, state, fault)
        })
    }

    /// The plan of a packet header for visitors; begins at the start of the packet.
    pub fn packet_header_rows(&self) -> &Plan {
        self.row_packet_header
            .get_or_init(|| self.rows(packet_roots(&self.schema), KnownAlignment::START).plan(&[Scope::PacketHeader]))
    }

    /// The plan of a packet context for visitors; begins after the packet header.
    pub fn packet_context_rows(&self, stream: StreamClassId) -> &Plan {
        self.stream(stream).row_packet_context.get_or_init(|| {
            // Contexts are few: each is checked whenever it is shown.
            let compiler = self.rows(self.stream_roots(stream), self.packet_header.known).with_order_checks();
            compiler.plan(&[Scope::PacketContext])
        })
    }

    /// The plan of an event header for visitors.
    pub fn header_rows(&self, stream: StreamClassId) -> &Plan {
        self.stream(stream)
            .row_header
            .get_or_init(|| self.rows(self.stream_roots(stream), KnownAlignment::NOTHING).plan(&[Scope::EventHeader]))
    }

    /// The plan of an event for visitors: its sections are common context, specific context and payload.
    pub fn event_rows(&self, class: EventClassId) -> &Plan {
        let plans = self.event(class);
        plans.row.get_or_init(|| self.compile_event(class, EventPlanForm::Row))
    }

    /// The plan of [`TracePlans::event_rows`], with the same nodes, without the marks of structures that are always there.
    #[inline]
    pub fn event_flat_rows(&self, class: EventClassId) -> &Plan {
        let plans = self.event(class);
        plans.flat.get_or_init(|| self.compile_event(class, EventPlanForm::Flat))
    }

    /// The scanner of a stream class.
    pub fn scanner(&self, stream: StreamClassId) -> Scanner<'_> {
        Scanner { plans: self, stream: self.stream(stream) }
    }

    fn stream(&self, id: StreamClassId) -> &StreamPlans {
        self.streams[id.0 as usize].get_or_init(|| Box::new(self.compile_stream(id)))
    }

    fn event(&self, id: EventClassId) -> &EventPlans {
        self.events[id.0 as usize].get_or_init(|| {
            let skip = self.compile_event(id, EventPlanForm::Skip);
            let needs_header = self.refers_to_header(id);
            Box::new(EventPlans { skip, row: OnceLock::new(), flat: OnceLock::new(), needs_header })
        })
    }

    /// Do fields of the event refer to its header, so that the header must be read before them?
    #[inline]
    pub fn needs_header(&self, class: EventClassId) -> bool {
        self.event(class).needs_header
    }

    fn refers_to_header(&self, id: EventClassId) -> bool {
        let roots = EVENT_SCOPES.iter().filter_map(|&scope| self.schema.scope_root(scope, id));
        let mut paths = roots.flat_map(|root| layout::descendants(&self.schema, root)).filter_map(layout::reference);
        paths.any(|path| path.scope == Scope::EventHeader)
    }

    #[inline]
    fn quick(&self, id: EventClassId) -> &Quick {
        self.quick[id.0 as usize].0.get_or_init(|| Quick::from_plan(&self.event(id).skip, self.shared.len()))
    }

    /// First bit after the fields of an event whose header ends at `body_bits`, for classes of whole bytes.
    #[inline]
    pub(crate) fn quick_end(&self, class: EventClassId, input: PlanInput<'_>, body_bits: u64) -> Option<u64> {
        let content = input.bytes.get(..(input.end_bits >> 3) as usize)?;
        let is_whole = body_bits & 7 == 0;
        let end = if is_whole { self.quick(class).end(content, (body_bits >> 3) as usize) } else { None };
        end.map(|end| end as u64 * 8)
    }

    #[inline]
    pub(crate) fn short(&self, id: EventClassId) -> &ShortPlan {
        self.short[id.0 as usize]
            .0
            .get_or_init(|| ShortPlan::from_plan(self.event_flat_rows(id), self.needs_header(id), self.shared.len()))
    }

    /// A compiler for visitors that know roles already.
    fn rows(&self, roots: ScopeRoots, known: KnownAlignment) -> Compiler<'_> {
        Compiler::row(&self.schema, &self.shared, roots, known).without_roles()
    }

    /// Alignment of the events of a stream class, in bits.
    pub fn event_align_bits(&self, id: StreamClassId) -> u64 {
        self.stream(id).header_align_bits
    }

    fn stream_roots(&self, id: StreamClassId) -> ScopeRoots {
        self.schema.stream_roots(self.schema.stream(id))
    }

    fn compile_stream(&self, id: StreamClassId) -> StreamPlans {
        let class = self.schema.stream(id);
        let roots = self.stream_roots(id);
        let skip = |known| Compiler::skip(&self.schema, &self.shared, roots, known);
        let packet_context = skip(self.packet_header.known).plan(&[Scope::PacketContext]);
        let align_bits = class.event_header.map_or(1, |root| self.schema.field_class(root).align_bits);
        let header = match FastHeader::from_schema(&self.schema, &self.shared, class.event_header) {
            Some(fast) => HeaderPlan::Fast(fast),
            None => HeaderPlan::General(skip(KnownAlignment::aligned(align_bits)).plan(&[Scope::EventHeader])),
        };
        StreamPlans {
            packet_context,
            header,
            header_align_bits: u64::from(align_bits),
            ids: IdTable::new(&self.schema, id),
            row_header: OnceLock::new(),
            row_packet_context: OnceLock::new(),
        }
    }

    fn compile_event(&self, id: EventClassId, form: EventPlanForm) -> Plan {
        let stream = self.schema.event(id).stream;
        let roots = self.schema.event_roots(self.schema.event(id));
        let known = match &self.stream(stream).header {
            HeaderPlan::Fast(fast) => fast.known,
            HeaderPlan::General(plan) => plan.known,
        };
        let compiler = match form {
            EventPlanForm::Skip => Compiler::skip(&self.schema, &self.shared, roots, known),
            EventPlanForm::Row => self.rows(roots, known),
            EventPlanForm::Checked => self.rows(roots, known).with_order_checks(),
            EventPlanForm::Flat => self.rows(roots, known).flat(),
        };
        compiler.plan(&EVENT_SCOPES)
    }

    /// Decodes a faulty event again with the plan that knows names.
    #[cold]
    fn explain(
        &self,
        class: EventClassId,
        input: PlanInput<'_>,
        body_bits: u64,
        state: &mut DecoderState,
    ) -> EventFault {
        let checked = self.shared.mixes_orders.then(|| self.compile_event(class, EventPlanForm::Checked));
        let plan = checked.as_ref().unwrap_or_else(|| self.event_rows(class));
        let mut pos = body_bits;
        for (section, scope) in EVENT_SCOPES.into_iter().enumerate() {
            if let Err(fault) = plan.run_section(section, input, &mut pos, state, &mut NoVisitor) {
                let path = format!("{}{}", scope.key(), plan.path(fault.node));
                return EventFault::Field { fault, class: Some(class), path };
            }
        }
        // The same bytes have just given a fault, so this is not reached.
        let fault = Fault { kind: FaultKind::PastEnd { need_bits: 0 }, at_bits: body_bits, node: 0 };
        EventFault::Field { fault, class: Some(class), path: Scope::Payload.key().to_string() }
    }
}

impl<'a> Scanner<'a> {
    /// Finds the events from `*pos_bits` on, until the content ends, the sink is full, or a fault.
    ///
    /// `state` carries the clock; `*pos_bits` ends after the last event that the sink took.
    #[inline]
    pub fn scan<S: SpineSink>(
        self,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
        sink: &mut S,
    ) -> ScanEnd {
        match &self.stream.header {
            HeaderPlan::Fast(fast) => {
                let form = fast.one_word.as_ref().filter(|form| form.whole_bytes().is_some());
                loop {
                    if form.is_some_and(|form| self.scan_words(form, input, pos_bits, state, sink)) {
                        return ScanEnd::Full;
                    }
                    // An event of another form, the last ones, or the end.
                    if let Some(end) = self.scan_one(fast, input, pos_bits, state, sink) {
                        return end;
                    }
                }
            }
            HeaderPlan::General(plan) => loop {
                if let Some(end) = self.scan_one(plan, input, pos_bits, state, sink) {
                    return end;
                }
            },
        }
    }

    /// Finds the next event; how the pass ends, when it does.
    #[inline(always)]
    fn scan_one<H: ReadHeader, S: SpineSink>(
        self,
        header: &H,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
        sink: &mut S,
    ) -> Option<ScanEnd> {
        let content = input.bytes.get(..(input.end_bits >> 3) as usize).unwrap_or(&[]);
        let clock_before = state.clock;
        let (start, mut pos, class) = match self.begin_event(header, input, *pos_bits, state) {
            Ok(begun) => begun,
            Err(end) => return Some(end),
        };
        let (body, cycles) = (pos, state.clock);
        let quick = if pos & 7 == 0 { self.plans.quick(class).end(content, (pos >> 3) as usize) } else { None };
        if let Some(end) = quick {
            pos = end as u64 * 8;
        } else if self.skip_slowly(header, class, input, start, &mut pos, state).is_err() {
            state.clock = clock_before;
            return Some(ScanEnd::Fault(self.plans.explain(class, input, body, state)));
        }
        if pos == *pos_bits {
            return Some(ScanEnd::Fault(EventFault::Empty { at_bits: start }));
        }
        *pos_bits = pos;
        (!sink.event(class, cycles, start, body)).then_some(ScanEnd::Full)
    }

    /// Finds events as long as their headers have this form, which ends with a byte, and their classes are of whole bytes;
    /// the others are left to [`Self::scan_one`]. Is the sink full?
    ///
    /// The event of nearly all traces: nothing here is looked up twice, or kept in memory.
    #[inline(always)]
    fn scan_words<S: SpineSink>(
        self,
        form: &OneWord,
        input: PlanInput<'_>,
        pos_bits: &mut u64,
        state: &mut DecoderState,
        sink: &mut S,
    ) -> bool {
        let content = input.bytes.get(..(input.end_bits >> 3) as usize).unwrap_or(&[]);
        let (align, header_bytes) = (self.stream.header_align_bits - 1, form.whole_bytes().unwrap_or(0));
        let (mut pos, mut clock, mut is_full) = (*pos_bits, state.clock, false);
        // The bytes after which others are fetched before they are read.
        let mut near: &[u8] = &[];
        while !is_full {
            let start = (pos + align) & !align;
            let at = (start >> 3) as usize;
            let Some(bytes) = near.get(at..).and_then(|rest| rest.first_chunk()) else {
                if near.len() == content.len() {
                    break;
                }
                near = content.get(..at + FETCHED).unwrap_or(content);
                fetch(content.get(near.len()..).unwrap_or(&[]));
                continue;
            };
            let Some((id, cycles)) = form.id_and_clock(bytes, clock) else { break };
            let Some(&class) = self
                .stream
                .ids
                .dense
                .get(usize::try_from(id).unwrap_or(usize::MAX))
                .filter(|&&class| class != u32::MAX)
            else {
                break;
            };
            let class = EventClassId(class);
            let body = at + header_bytes;
            let Some(end) = self.plans.quick(class).end(content, body) else { break };
            if end as u64 * 8 == pos {
                break;
            }
            (pos, clock) = (end as u64 * 8, cycles);
            is_full = !sink.event(class, cycles, start, body as u64 * 8);
        }
        state.clock_is_set |= form.has_time() && pos != *pos_bits;
        (*pos_bits, state.clock) = (pos, clock);
        is_full
    }

    /// Reads the header of the event at `pos_bits`, which may stand before its padding: where it begins, the first bit
    /// after the header, and the class. The error is how the pass ends here; the clock is then as it was.
    #[inline(always)]
    fn begin_event<H: ReadHeader>(
        self,
        header: &H,
        input: PlanInput<'_>,
        pos_bits: u64,
        state: &mut DecoderState,
    ) -> Result<(u64, u64, EventClassId), ScanEnd> {
        let align = self.stream.header_align_bits - 1;
        let start = (pos_bits + align) & !align;
        if start >= input.end_bits {
            return Err(ScanEnd::Complete);
        }
        let clock_before = state.clock;
        let mut pos = start;
        let id = match header.read(input, &mut pos, state) {
            Ok(id) => id,
            Err(fault) => {
                state.clock = clock_before;
                return Err(ScanEnd::Fault(self.header_fault(input, start, state, fault)));
            }
        };
        let Some(class) = self.class_of(id) else {
            state.clock = clock_before;
            return Err(ScanEnd::Fault(EventFault::UnknownId { id: id.unwrap_or(0), at_bits: start }));
        };
        Ok((start, pos, class))
    }

    /// The general plan, for classes that are not of whole bytes, and for faults.
    fn skip_slowly<H: ReadHeader>(
        self,
        header: &H,
        class: EventClassId,
        input: PlanInput<'_>,
        start_bits: u64,
        pos: &mut u64,
        state: &mut DecoderState,
    ) -> Result<(), Fault> {
        let plans = self.plans.event(class);
        if plans.needs_header {
            header.save(input, start_bits, state);
        }
        let order = state.order;
        plans.skip.skip(input, pos, state).inspect_err(|_| state.order = order)
    }

    #[inline(always)]
    fn class_of(self, id: Option<u64>) -> Option<EventClassId> {
        match id.and_then(|id| self.stream.ids.dense.get(usize::try_from(id).ok()?)) {
            Some(&class) if class != u32::MAX => Some(EventClassId(class)),
            Some(_) => None,
            None => self.rare_class_of(id),
        }
    }

    #[cold]
    fn rare_class_of(self, id: Option<u64>) -> Option<EventClassId> {
        let ids = &self.stream.ids;
        match id {
            Some(id) => self.plans.schema.stream(ids.stream).events.get(&id).copied(),
            None => ids.without_id.map(EventClassId),
        }
    }

    #[cold]
    fn header_fault(self, input: PlanInput<'_>, start_bits: u64, state: &mut DecoderState, fault: Fault) -> EventFault {
        let stream = self.stream.ids.stream;
        let checked = self.plans.shared.mixes_orders.then(|| {
            let compiler = self.plans.rows(self.plans.stream_roots(stream), KnownAlignment::NOTHING);
            compiler.with_order_checks().plan(&[Scope::EventHeader])
        });
        let plan = checked.as_ref().unwrap_or_else(|| self.plans.header_rows(stream));
        explain_scope(plan, Scope::EventHeader, input, start_bits, &mut { start_bits }, state, fault)
    }
}

/// Bytes that are fetched at a time.
const FETCHED: usize = 4096;

/// Brings the first bytes to the caches of the processor. Where an event begins is known only when the one before it was
/// read, so the processor would wait for one line of memory after the other, the longer the more cores read.
#[cold]
fn fetch(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk::<FETCHED>() else { return };
    let mut sum = 0;
    for line in 0..FETCHED / 64 {
        sum ^= bytes[line * 64];
    }
    std::hint::black_box(sum);
}

/// The roots of a plan of packet headers.
fn packet_roots(schema: &Schema) -> ScopeRoots {
    [schema.packet_header, None, None, None, None, None]
}

/// Decodes a scope that has a fault again with a plan for visitors, which knows names and exact places.
#[cold]
fn explain_scope(
    rows: &Plan,
    scope: Scope,
    input: PlanInput<'_>,
    start_bits: u64,
    pos_bits: &mut u64,
    state: &mut DecoderState,
    fault: Fault,
) -> EventFault {
    *pos_bits = start_bits;
    let fault = rows.run(input, pos_bits, state, &mut NoVisitor).err().unwrap_or(fault);
    EventFault::Field { fault, class: None, path: format!("{}{}", scope.key(), rows.path(fault.node)) }
}

impl IdTable {
    /// Ids above this are looked up by hash.
    const DENSE: u64 = 1 << 16;

    fn new(schema: &Schema, stream: StreamClassId) -> Self {
        let events = &schema.stream(stream).events;
        let highest = events.keys().filter(|&&id| id < Self::DENSE).max();
        let mut dense = vec![u32::MAX; highest.map_or(0, |&id| id as usize + 1)];
        for (&id, class) in events {
            if let Some(entry) = dense.get_mut(id as usize) {
                *entry = class.0;
            }
        }
        let only = if events.len() == 1 { events.values().next() } else { events.get(&0) };
        IdTable { dense, without_id: only.map(|class| class.0), stream }
    }
}
