//! The fields that say where an event stands and what it does, seen while other visitors see all fields.

use tracemill_codec::plan::{NodeId, Visitor, VisitorCall};
use tracemill_semantics::Field;

/// The meaning of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Take {
    Nothing,
    Thread,
    Process,
    /// The name of the thread or track.
    Name,
    Title,
    Address,
    Depth,
    NextThread,
    NextName,
    Cpu,
    Track,
    /// A text that may be a mark.
    Mark,
    Flow(u64),
    /// The number of a span, which is that of a flow, too.
    Span(u64),
    ParentSpan,
    Counter(u16),
}

/// The uses of the field of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WantedField {
    /// Its meaning for the event's place and shape.
    pub(super) take: Take,
    /// The fields of the event's concept that it is.
    pub(super) fields: Vec<Field>,
}

impl WantedField {
    pub(super) const NOTHING: WantedField = WantedField { take: Take::Nothing, fields: Vec::new() };

    #[inline]
    fn is_nothing(&self) -> bool {
        self.take == Take::Nothing && self.fields.is_empty()
    }
}

/// A value of a field of a concept.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum FieldValue {
    Integer(i128),
    Text(Vec<u8>),
}

/// A number of an event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum WatchedNumber {
    Whole(i64),
    Real(f64),
}

/// Fields of an event that place it and name it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedFields {
    pub(super) thread: Option<i64>,
    /// Process.
    pub(crate) process: Option<i64>,
    pub(super) track: Option<i64>,
    /// Name of the thread or track; empty when it says none.
    pub(crate) name: Vec<u8>,
    /// Its own title; empty when it says none.
    pub(crate) title: Vec<u8>,
    pub(super) address: Option<u64>,
    pub(super) depth: Option<u64>,
    pub(super) next_thread: Option<i64>,
    pub(super) next_name: Vec<u8>,
    pub(super) cpu: Option<u32>,
    /// Id of the flow that links it with others.
    pub(crate) flow: Option<u64>,
    /// Number of the span.
    pub(super) span: Option<u64>,
    /// Number of the span that it is in.
    pub(super) parent_span: Option<u64>,
    /// Counters and their values.
    pub(crate) counters: Vec<(u16, WatchedNumber)>,
    /// Fields of its concept.
    pub(super) fields: Vec<(Field, FieldValue)>,
    /// A text that may be a mark.
    pub(super) mark: Vec<u8>,
}

impl WatchedFields {
    pub(super) fn clear(&mut self) {
        (self.thread, self.process, self.address, self.next_thread) = (None, None, None, None);
        (self.cpu, self.flow, self.track, self.depth) = (None, None, None, None);
        (self.span, self.parent_span) = (None, None);
        self.name.clear();
        self.title.clear();
        self.next_name.clear();
        self.counters.clear();
        self.fields.clear();
        self.mark.clear();
    }

    fn keep(&mut self, fields: &[Field], value: impl Fn() -> FieldValue) {
        self.fields.extend(fields.iter().map(|field| (*field, value())));
    }

    fn number(&mut self, take: Take, value: i128, bits: u64) {
        let small = i64::try_from(value).ok();
        match take {
            Take::Thread => self.thread = small,
            Take::Process => self.process = small,
            Take::Track => self.track = small,
            Take::NextThread => self.next_thread = small,
            Take::Cpu => self.cpu = u32::try_from(value).ok(),
            Take::Address => self.address = Some(bits),
            Take::Depth => self.depth = u64::try_from(value).ok(),
            Take::Flow(seed) => self.flow = Some(hash(seed, &bits.to_le_bytes())),
            Take::Span(seed) => {
                self.span = Some(bits);
                self.flow = Some(hash(seed, &bits.to_le_bytes()));
            }
            Take::ParentSpan => self.parent_span = Some(bits),
            Take::Counter(at) => {
                let number = small.map_or(WatchedNumber::Real(value as f64), WatchedNumber::Whole);
                self.counters.push((at, number));
            }
            Take::Nothing | Take::Name | Take::NextName | Take::Title | Take::Mark => {}
        }
    }

    fn text(&mut self, take: Take, text: &[u8]) {
        match take {
            Take::Name => self.name.extend_from_slice(text),
            Take::NextName => self.next_name.extend_from_slice(text),
            Take::Title => self.title.extend_from_slice(text),
            Take::Mark => self.mark.extend_from_slice(text),
            Take::Flow(seed) => self.flow = Some(hash(seed, text)),
            _ => {}
        }
    }
}

/// FNV-1a: ids of flows are the same in each run.
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Shows fields to another visitor, and keeps what rules want of them.
pub(crate) struct FieldWatch<'a, V> {
    pub(crate) inner: V,
    pub(crate) takes: &'a [WantedField],
    pub(crate) seen: &'a mut WatchedFields,
}

impl<V: Visitor> Visitor for FieldWatch<'_, V> {
    const FOR_PEOPLE: bool = true;

    #[inline]
    fn any_call(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        shown.dispatch(&mut self.inner, node);
    }

    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        if let Some(wanted) = self.takes.get(node as usize).filter(|wanted| !wanted.is_nothing()) {
            self.seen.number(wanted.take, value.into(), value);
            self.seen.keep(&wanted.fields, || FieldValue::Integer(value.into()));
        }
        self.inner.unsigned(node, value);
    }

    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        if let Some(wanted) = self.takes.get(node as usize).filter(|wanted| !wanted.is_nothing()) {
            self.seen.number(wanted.take, value.into(), value as u64);
            self.seen.keep(&wanted.fields, || FieldValue::Integer(value.into()));
        }
        self.inner.signed(node, value);
    }

    fn real(&mut self, node: NodeId, value: f64) {
        if let Some(Take::Counter(at)) = self.takes.get(node as usize).map(|wanted| wanted.take) {
            self.seen.counters.push((at, WatchedNumber::Real(value)));
        }
        self.inner.real(node, value);
    }

    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        if let Some(wanted) = self.takes.get(node as usize).filter(|wanted| !wanted.is_nothing()) {
            self.seen.text(wanted.take, bytes);
            self.seen.keep(&wanted.fields, || FieldValue::Text(bytes.to_vec()));
        }
        self.inner.string(node, bytes);
    }
}
