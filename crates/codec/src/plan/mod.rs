//! Compiled decode plans: flat lists of small instructions made from trees of field classes.
//!
//! A plan is compiled once for each event class (and for headers and contexts) and then run over many events. There
//! are two forms of the same list: the *row* form calls a [`Visitor`] for every field, the *skip* form only finds
//! where the fields end: neighbouring fields of fixed size become one addition. Alignment is folded in wherever the
//! position is known modulo a power of two. Values that later fields depend on go to numbered slots.
//!
//! Beside the list there are shorter forms for what most traces hold. Each falls back to the list, which alone knows
//! names and damage; a row of the benchmark (`docs/benchmarks.md`) shows what each gains.
//!
//! | form | made for | run by | gain | shown by |
//! |---|---|---|---|---|
//! | skip list | every class | the scan that finds events | no call per field; fixed fields are one addition | 4a |
//! | `quick::Quick` | classes of whole bytes: fixed parts, strings, arrays of fixed elements | the scan, instead of the skip list | byte offsets only; half a cache line, so thousands of classes stay near | 4a, 8d |
//! | row list | every class | JSON, filters on fields, conversions, packet contexts | every mark of the tree | 1 |
//! | flat row list | every class | text, CSV, tracks, columns | no marks of structures that are always there | 1 |
//! | `short::Short` | flat row lists of at most 7 instructions without tables | the same, instead of the flat row list | two cache lines for a class instead of six: 2,000 classes cost 1.2 times 40 instead of 1.6 | 8b |
//! | `event_header::FastHeader` | headers of an id and a time, and both of LTTng's | the scan | no list for the header | 4a |
//! | `event_header::OneWord` | those whose first form fits 8 bytes | the scan, before the rest of `FastHeader` | one load for id and time | 4a |
//!
//! The crate `referee` decodes the same classes by walking the tree; tests hold the two equal.

mod compile;
mod copied;
mod cut;
mod fault;
mod fixed;
mod op;
mod run;
mod short;
mod visitor;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tracemill_model::schema::{ByteOrder, FieldClassId, Range, RenderedClass};

pub use compile::{Compiler, KnownAlignment, ScopeRoots, SharedSlots};
pub use fault::{Fault, FaultKind};
pub use fixed::{FixedInteger, FixedText};
pub(crate) use op::Op;
pub(crate) use short::{FlatSections, ShortPlan};
pub use visitor::{NoVisitor, Visitor, VisitorCall};

/// Names one [`PlanNode`] of a plan; visitors use it to find what they prepared for a field.
pub type NodeId = u32;

/// A field of a plan: a place in the tree of field classes.
#[derive(Clone, Debug)]
pub struct PlanNode {
    /// Its class.
    pub class: FieldClassId,
    /// Name of the member or option; empty for elements, contents of optionals and roots.
    pub name: Arc<str>,
    /// The node around it; a root is its own parent.
    pub parent: NodeId,
    /// Is it what an optional field holds? Its path is that of the field.
    pub is_content: bool,
}

/// Most elements without size that an array may have, those of all arrays inside it counted too.
const MAX_IDLE: u32 = 1 << 16;

/// The bytes of a packet, from its first one, and where its content ends.
#[derive(Clone, Copy)]
pub struct PlanInput<'a> {
    /// Bytes from the start of the packet; may go on after it, which makes reads faster.
    pub bytes: &'a [u8],
    /// End of the content in bits; at most `8 * bytes.len()`.
    pub end_bits: u64,
}

impl<'a> PlanInput<'a> {
    /// An input whose end is brought inside the bytes.
    pub fn new(bytes: &'a [u8], end_bits: u64) -> Self {
        PlanInput { bytes, end_bits: end_bits.min(bytes.len() as u64 * 8) }
    }

    /// The bytes from a bit on up to the end of the content. `None` when the bit does not begin a byte or is after the end.
    #[inline]
    pub fn from_byte(self, bit: u64) -> Option<&'a [u8]> {
        if !bit.is_multiple_of(8) {
            return None;
        }
        self.bytes.get((bit >> 3) as usize..(self.end_bits >> 3) as usize)
    }
}

/// Values of fields with a role, as last read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoleValues {
    /// Magic number.
    pub magic: Option<u64>,
    /// UUID.
    pub uuid: Option<[u8; 16]>,
    /// Stream class id.
    pub stream_class_id: Option<u64>,
    /// Stream instance id.
    pub stream_id: Option<u64>,
    /// Total size in bits.
    pub total_bits: Option<u64>,
    /// Content size in bits.
    pub content_bits: Option<u64>,
    /// Clock at the beginning of the packet, extended.
    pub begin_cycles: Option<u64>,
    /// Clock at the end of the packet, extended.
    pub end_cycles: Option<u64>,
    /// Discarded events counter.
    pub discarded: Option<u64>,
    /// Width of that counter in bits.
    pub discarded_len_bits: u32,
    /// Packet sequence number.
    pub sequence: Option<u64>,
    /// Width of that number in bits.
    pub sequence_len_bits: u32,
    /// Event class id.
    pub event_id: Option<u64>,
}

/// State of a decoder, carried from field to field and from event to event.
#[derive(Clone, Debug, Default)]
pub struct DecoderState {
    /// Saved lengths and selectors, and loop counters.
    pub(crate) slots: Vec<u64>,
    /// First bit after the header of the event that is being decoded: synthesized texts see it from there, and placed
    /// fields are counted from there. For the header itself, its own first bit.
    pub(crate) body_bits: u64,
    /// The text that was synthesized last.
    pub(crate) text: Vec<u8>,
    /// Byte order of the field before, when plans ask for it: see [`Op::Order`].
    pub(crate) order: Option<ByteOrder>,
    /// The full value of the stream's clock.
    pub clock: u64,
    /// Did a field set the clock since it was last cleared?
    pub clock_is_set: bool,
    /// Values of fields with a role.
    pub roles: RoleValues,
}

impl DecoderState {
    /// A state with a clock value.
    pub fn new(clock: u64) -> Self {
        DecoderState { clock, ..DecoderState::default() }
    }

    #[inline]
    pub(crate) fn save(&mut self, slot: u16, value: u64) {
        self.grow(usize::from(slot) + 1);
        self.slots[usize::from(slot)] = value;
    }

    /// Takes over the slots that a packet header and context have filled.
    #[inline]
    pub(crate) fn load(&mut self, slots: &[u64]) {
        self.grow(slots.len());
        for (to, from) in self.slots.iter_mut().zip(slots) {
            *to = *from;
        }
    }

    #[inline]
    pub(crate) fn grow(&mut self, slots: usize) {
        if self.slots.len() < slots {
            self.slots.resize(slots, 0);
        }
    }
}

/// How the value of a selector chooses an option.
#[derive(Clone, Debug)]
pub(crate) struct SelectTable {
    signed: bool,
    /// Option for each of the values from 0, when they are few; `u32::MAX` for none.
    dense: Box<[u32]>,
    ranges: Box<[(Range, u32)]>,
    /// First instruction of each option. An optional has two: absent, present.
    targets: Box<[u32]>,
}

impl SelectTable {
    fn new(signed: bool, ranges: Vec<(Range, u32)>) -> Self {
        let find = |value: i128| {
            ranges.iter().find(|((low, high), _)| (*low..=*high).contains(&value)).map(|&(_, option)| option)
        };
        let highest = ranges.iter().map(|&((_, high), _)| high.clamp(-1, 255)).max().unwrap_or(-1);
        let dense = (0..=highest).map(|value| find(value).unwrap_or(u32::MAX)).collect();
        SelectTable { signed, dense, ranges: ranges.into(), targets: Box::new([]) }
    }

    fn value(&self, raw: u64) -> i128 {
        if self.signed { i128::from(raw as i64) } else { i128::from(raw) }
    }

    #[inline]
    fn option(&self, raw: u64) -> Option<usize> {
        if raw < self.dense.len() as u64
            && let Some(&option) = self.dense.get(raw as usize)
            && option != u32::MAX
        {
            return Some(option as usize);
        }
        let value = self.value(raw);
        let found = self.ranges.iter().find(|((low, high), _)| *low <= value && value <= *high);
        found.map(|&(_, option)| option as usize)
    }
}

/// A compiled plan of one or more scopes.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(crate) ops: Box<[Op]>,
    pub(crate) tables: Box<[SelectTable]>,
    pub(crate) renders: Box<[RenderedClass]>,
    pub(crate) lengths: Box<[Arc<BTreeMap<u64, u64>>]>,
    pub(crate) slots: usize,
    /// The fields, for visitors and messages.
    pub nodes: Box<[PlanNode]>,
    /// End of the instructions of each root, in the order in which they were added.
    pub(crate) ends: Box<[u32]>,
    /// The root node of each section, `None` for a scope that is not declared.
    pub roots: Box<[Option<NodeId>]>,
    /// Alignment of the position after the last root, as far as it is known.
    pub known: KnownAlignment,
}

impl Plan {
    /// Path of a node below its scope: `.args[].name`, empty for the root.
    pub fn path(&self, node: NodeId) -> String {
        let mut parts = Vec::new();
        let mut at = node;
        while let Some(entry) = self.nodes.get(at as usize).filter(|entry| entry.parent != at) {
            parts.push(match (entry.is_content, entry.name.is_empty()) {
                (true, _) => String::new(),
                (_, true) => "[]".to_string(),
                _ => format!(".{}", entry.name),
            });
            at = entry.parent;
        }
        parts.reverse();
        parts.concat()
    }

    /// The number of instructions, a measure for tests.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Is there nothing to decode?
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

/// One instruction a line, for people.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, op) in self.ops.iter().enumerate() {
            writeln!(f, "{at:4} {op:?}")?;
        }
        Ok(())
    }
}
