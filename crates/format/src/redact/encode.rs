//! The fields of redacted events as bytes.

use tracemill_codec::bits::Wide;
use tracemill_codec::chunk::EventRef;
use tracemill_codec::encode::{Encode, Encoder};
use tracemill_codec::plan::{FixedInteger, NodeId, Plan, PlanInput, Visitor};
use tracemill_model::schema::{ByteOrder, Encoding, EventClassId, FieldKind, Length, Scope};

use super::fields::child_of;
use super::schema::bit_of;
use super::texts::{KeptText, NO_TEXT};
use super::{ORDER, Redaction};
use crate::remap::{encode_of, owner_of, places};

/// The form in which a node of a plan is written.
#[derive(Clone, Copy, Debug)]
enum Written {
    /// It is left out.
    Nothing,
    /// As the encoder does it.
    Field { is_hidden: bool },
    /// A bit of an array of single bits.
    Bit { order: ByteOrder, is_hidden: bool },
    /// A text that a format synthesizes.
    Text { is_hidden: bool },
    /// Only its content.
    Optional,
}

/// The forms in which the nodes of a plan are written.
pub(super) struct FieldForms {
    written: Box<[Written]>,
    pub(super) encodes: Box<[Encode]>,
    pub(super) has_texts: bool,
    /// The hidden integers of events whose other bytes stay as they are; `None` where all fields are written one by one.
    copied: Option<Vec<FixedInteger>>,
}

impl FieldForms {
    pub(super) fn new(redaction: &Redaction, plan: &Plan, owner: (u32, u32), scopes: &[Scope]) -> FieldForms {
        let schema = redaction.from.schema();
        let kind = |at: usize| &schema.field_class(plan.nodes[at].class).kind;
        let form = |(at, (scope, steps)): (usize, &(Scope, Vec<_>))| {
            let way: Vec<u32> = steps.iter().map(child_of).collect();
            let is_gone =
                |len: usize| redaction.dropped.contains(&(owner_of(*scope, owner), *scope, way[..len].to_vec()));
            if !redaction.dropped.is_empty() && (1..=way.len()).any(is_gone) {
                return Written::Nothing;
            }
            let is_hidden = redaction.hidden.iter().any(|field| field.holds(owner.1, *scope, &way));
            let parent = plan.nodes[at].parent as usize;
            let bit = match kind(parent) {
                FieldKind::Array(array) if parent != at => bit_of(schema, array),
                _ => None,
            };
            match (kind(at), bit) {
                (_, Some(bit)) => Written::Bit { order: bit.byte_order, is_hidden },
                (FieldKind::Rendered(_), _) => Written::Text { is_hidden },
                (FieldKind::Optional(_), _) => Written::Optional,
                _ => Written::Field { is_hidden },
            }
        };
        let written: Box<[Written]> = places(schema, plan, scopes).iter().enumerate().map(form).collect();
        let encodes = written.iter().enumerate().map(|(at, written)| match (written, kind(at)) {
            // A length that no field says stands before what has it.
            (Written::Field { .. }, FieldKind::Array(class)) if is_counted(&class.length) => Encode::Counted(ORDER),
            (Written::Field { .. }, FieldKind::Blob(class)) if is_counted(&class.length) => Encode::Counted(ORDER),
            (Written::Field { .. }, kind) => encode_of(kind, ORDER),
            _ => Encode::Parts,
        });
        let has_texts = written.iter().any(|written| matches!(written, Written::Text { .. }));
        FieldForms { encodes: encodes.collect(), written, has_texts, copied: None }
    }

    /// The table of the fields after the header of events of a class.
    pub(super) fn for_event(redaction: &Redaction, class: EventClassId, owner: (u32, u32)) -> FieldForms {
        let scopes = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
        let table = FieldForms::new(redaction, redaction.from.event_rows(class), owner, &scopes);
        let is_hidden = |node| matches!(table.written(node), Written::Field { is_hidden: true });
        // An id and a name that the output has before the fields have no counterpart in the input to be copied from.
        let has_lead = redaction.leads.get(owner.0 as usize) == Some(&true);
        let plan = (!has_lead).then(|| redaction.from.event_flat_rows(class));
        let copied = plan.and_then(|plan| plan.copied(&table.encodes, is_hidden));
        FieldForms { copied, ..table }
    }

    /// Copies an event of which nothing changes but integers at fixed places; false for others.
    #[inline]
    pub(super) fn copy(&self, event: EventRef<'_>, out: &mut Vec<u8>) -> bool {
        let Some(hidden) = &self.copied else { return false };
        let Some(bytes) = event.whole_bytes() else { return false };
        let body = out.len();
        out.extend_from_slice(bytes);
        for integer in hidden {
            let value = integer.read(PlanInput::new(bytes, bytes.len() as u64 * 8), 0).unwrap_or_default();
            integer.write(&mut out[body..], pseudonym(value));
        }
        true
    }

    fn written(&self, node: NodeId) -> Written {
        self.written.get(node as usize).copied().unwrap_or(Written::Nothing)
    }
}

fn is_counted(length: &Length) -> bool {
    matches!(length, Length::Inline(_) | Length::Located)
}

/// The value that stands for a hidden one: the same for equal ones while the program runs, and nothing that leads back.
pub(super) fn pseudonym(value: impl std::hash::Hash) -> u64 {
    use std::hash::BuildHasher;
    static KEY: std::sync::OnceLock<std::hash::RandomState> = std::sync::OnceLock::new();
    KEY.get_or_init(std::hash::RandomState::new).hash_one(value)
}

/// The text that stands for a hidden one, in ASCII.
fn text_pseudonym(bytes: &[u8]) -> [u8; 16] {
    let value = pseudonym(bytes);
    std::array::from_fn(|at| b"0123456789abcdef"[(value >> (60 - 4 * at)) as usize & 15])
}

/// Appends the text that stands for a hidden one, in the code units of an encoding.
pub(super) fn put_text_pseudonym(out: &mut Vec<u8>, bytes: &[u8], encoding: Encoding) {
    let ascii = text_pseudonym(bytes);
    let padding = encoding.unit_bytes() - 1;
    if padding == 0 {
        out.extend_from_slice(&ascii);
        return;
    }
    let is_big = matches!(encoding, Encoding::Utf16Be | Encoding::Utf32Be);
    for byte in ascii {
        let mut unit = [0; 4];
        unit[if is_big { padding } else { 0 }] = byte;
        out.extend_from_slice(&unit[..=padding]);
    }
}

/// Writes fields.
pub(super) struct FieldEncoder<'a> {
    pub(super) encoder: Encoder<'a>,
    pub(super) table: &'a FieldForms,
    pub(super) texts: &'a mut Vec<KeptText>,
    /// Bits of the array so far.
    pub(super) bits: u64,
    /// Does the event end before its last field?
    pub(super) is_cut: bool,
    /// It does here.
    pub(super) is_over: bool,
}

impl FieldEncoder<'_> {
    fn written(&self, node: NodeId) -> Written {
        if self.is_over { Written::Nothing } else { self.table.written(node) }
    }

    fn text(&mut self, text: Option<Vec<u8>>) {
        let place = self.encoder.out.len();
        self.encoder.out.extend_from_slice(&NO_TEXT.to_le_bytes());
        self.texts.push(KeptText { place, text, for_people: None });
    }

    #[cold]
    fn hidden_integer(&mut self, node: NodeId, value: u64) {
        let value = match self.encoder.nodes.get(node as usize) {
            Some(Encode::Fixed { .. }) => pseudonym(value),
            Some(Encode::Leb) => pseudonym(value) >> 1,
            _ => 0,
        };
        self.encoder.unsigned(node, value);
    }

    #[cold]
    fn hidden_text(&mut self, node: NodeId, bytes: &[u8]) {
        if let Some(Encode::Text(encoding)) = self.encoder.nodes.get(node as usize) {
            let mut pseudonym = Vec::new();
            put_text_pseudonym(&mut pseudonym, bytes, *encoding);
            self.encoder.string(node, &pseudonym);
        }
    }

    fn integer(&mut self, node: NodeId, value: u64, signed: bool) {
        match self.written(node) {
            Written::Field { is_hidden: true } => self.hidden_integer(node, value),
            Written::Field { .. } if signed => self.encoder.signed(node, value as i64),
            Written::Field { .. } => self.encoder.unsigned(node, value),
            Written::Bit { order, is_hidden } => {
                let bit = if is_hidden { 0 } else { (value & 1) as u8 };
                let shift = if order == ByteOrder::Little { self.bits % 8 } else { 7 - self.bits % 8 };
                if self.bits.is_multiple_of(8) {
                    self.encoder.out.push(0);
                }
                if let Some(last) = self.encoder.out.last_mut() {
                    *last |= bit << shift;
                }
                self.bits += 1;
            }
            _ => {}
        }
    }
}

impl Visitor for FieldEncoder<'_> {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.integer(node, value, false);
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        self.integer(node, value as u64, true);
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        match self.written(node) {
            Written::Field { is_hidden: true } => {
                self.hidden_integer(node, value.limbs.first().copied().unwrap_or(0));
            }
            Written::Field { .. } => self.encoder.wide(node, value),
            _ => {}
        }
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        if let Written::Field { is_hidden } = self.written(node) {
            self.encoder.boolean(node, value && !is_hidden);
        }
    }

    fn real(&mut self, node: NodeId, value: f64) {
        if let Written::Field { is_hidden } = self.written(node) {
            self.encoder.real(node, if is_hidden { 0.0 } else { value });
        }
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        match self.written(node) {
            Written::Field { is_hidden: true } => self.hidden_text(node, bytes),
            Written::Field { .. } => self.encoder.string(node, bytes),
            Written::Text { is_hidden: true } => self.text(Some(text_pseudonym(bytes).to_vec())),
            Written::Text { is_hidden: false } => self.text(Some(bytes.to_vec())),
            _ => {}
        }
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        match self.written(node) {
            Written::Field { is_hidden: true } => self.encoder.blob(node, &vec![0; bytes.len()]),
            Written::Field { .. } => self.encoder.blob(node, bytes),
            _ => {}
        }
    }

    fn begin_array(&mut self, node: NodeId, len: u64) {
        if let Written::Field { .. } = self.written(node) {
            self.encoder.begin_array(node, len);
            self.bits = 0;
        }
    }

    fn absent(&mut self, node: NodeId) {
        match self.written(node) {
            Written::Text { .. } => self.text(None),
            Written::Optional | Written::Nothing => {}
            // It is after the end, and so is all that follows.
            Written::Field { .. } | Written::Bit { .. } => self.is_over = self.is_cut,
        }
    }
}

/// Collects the texts that a format synthesizes, as people get them.
pub(super) struct ForPeople<'a> {
    pub(super) table: &'a FieldForms,
    pub(super) texts: Vec<Option<Vec<u8>>>,
}

impl Visitor for ForPeople<'_> {
    const FOR_PEOPLE: bool = true;

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        match self.table.written(node) {
            // There is only one form of what stands for it.
            Written::Text { is_hidden: true } => self.texts.push(None),
            Written::Text { is_hidden: false } => self.texts.push(Some(bytes.to_vec())),
            _ => {}
        }
    }

    fn absent(&mut self, node: NodeId) {
        if let Written::Text { .. } = self.table.written(node) {
            self.texts.push(None);
        }
    }
}
