//! Redaction in place: where nothing changes or goes but integers at fixed places and texts that end with a null, all other
//! bits stay as they were recorded.

use std::ops::Range;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::{DecoderState, Fault, FaultKind, FixedInteger, NodeId, PlanInput, Visitor};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::schema::{
    Encoding, EventClassId, FieldClass, FieldClassId, FieldKind, Length, Placement, Scope, StreamClassId, StringLength,
};

use super::encode::{pseudonym, put_text_pseudonym};
use super::fields::{Dropped, FieldPlace, child_of};
use crate::remap::{owner_of, places};

/// Events move by multiples of this, which keeps the alignment of their fields.
pub(super) const ALIGN_BYTES: usize = 64;

/// Replacement of a text.
#[derive(Clone, Copy)]
enum TextPatch {
    Hidden(Encoding),
    /// It is left out, with the code unit of so many bytes that ends it.
    Dropped(usize),
}

/// Changes in the events of a class.
#[derive(Default)]
struct Patch {
    /// Integers that are hidden: where they stand, and where what stands for them does.
    hidden: Vec<(FixedInteger, FixedInteger)>,
    /// The bytes after the header, up to the last integer that changes, that are not left out.
    kept: Vec<Range<usize>>,
    /// The first byte after the last integer that changes, counted like those.
    rest: usize,
    /// Texts that are hidden or left out, by node of the plan; empty when there are none.
    texts: Box<[Option<TextPatch>]>,
}

/// Changes in each event class.
pub(super) struct Patches {
    classes: Vec<Patch>,
    /// Do fields get longer or shorter, or go? Then all that follows moves.
    pub(super) moves: bool,
}

impl Patches {
    /// `None` when more changes than integers at fixed places and texts that end with a null, or when a field stays what it
    /// is only where it was.
    pub(super) fn new(from: &TracePlans, hidden: &[FieldPlace], dropped: &Dropped) -> Option<Patches> {
        let schema = from.schema();
        let changes = (hidden, dropped);
        let classes = (0..schema.events().len()).map(|at| Patches::for_class(from, changes, EventClassId(at as u32)));
        let classes: Vec<Patch> = classes.collect::<Option<_>>()?;
        let moves = !dropped.is_empty() || classes.iter().any(|class| !class.texts.is_empty());
        let mut fields = (0..schema.field_class_count()).map(|at| schema.field_class(FieldClassId(at as u32)));
        if moves {
            let begins_at_byte = |stream: usize| from.event_align_bits(StreamClassId(stream as u32)) == 8;
            let all_begin = (0..schema.streams().len()).all(begins_at_byte);
            return (all_begin && fields.all(moves_by_bytes)).then_some(Patches { classes, moves });
        }
        let stays = |class: &FieldClass| {
            let align_bits = class.align_bits.max(class.placement.end_align_bits);
            // A synthesized text may show what is hidden.
            !matches!(class.kind, FieldKind::Rendered(_)) && align_bits as usize <= ALIGN_BYTES * 8
        };
        fields.all(stays).then_some(Patches { classes, moves })
    }

    fn for_class(
        from: &TracePlans,
        (hidden, dropped): (&[FieldPlace], &Dropped),
        class: EventClassId,
    ) -> Option<Patch> {
        let schema = from.schema();
        let stream = schema.event(class).stream;
        let is_changed = !dropped.is_empty() || hidden.iter().any(|field| field.class == class);
        if !is_changed {
            return Some(Patch::default());
        }
        if !from.header_rows(stream).known.is_byte() {
            return None;
        }
        let plan = from.event_rows(class);
        let (mut patch, mut texts) = (Patch::default(), vec![None; plan.nodes.len()]);
        let (mut dropped_bytes, mut drops) = (0, false);
        let scopes = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
        for (node, (scope, steps)) in (0..).zip(places(schema, plan, &scopes)) {
            let way: Vec<u32> = steps.iter().map(child_of).collect();
            let owner = owner_of(scope, (stream.0, class.0));
            let is_dropped = (1..=way.len()).any(|len| dropped.contains(&(owner, scope, way[..len].to_vec())));
            if !is_dropped && !hidden.iter().any(|field| field.holds(class.0, scope, &way)) {
                continue;
            }
            drops |= is_dropped;
            match &schema.field_class(plan.nodes[node as usize].class).kind {
                FieldKind::Struct(_) => {}
                FieldKind::String(text) if text.length == StringLength::NullTerminated => {
                    let unit_bytes = text.encoding.unit_bytes();
                    let change =
                        if is_dropped { TextPatch::Dropped(unit_bytes) } else { TextPatch::Hidden(text.encoding) };
                    texts[node as usize] = Some(change);
                }
                _ => {
                    let integer = plan.fixed_integer(node)?;
                    if is_dropped {
                        patch.kept.push(patch.rest..integer.bytes().start);
                        dropped_bytes += integer.bytes().len();
                    } else {
                        patch.hidden.push((integer, integer.moved_back(dropped_bytes)));
                        patch.kept.push(patch.rest..integer.bytes().end);
                    }
                    patch.rest = integer.bytes().end;
                }
            }
        }
        // Padding before a field that is left out would go with it, or stay.
        let mut fields = plan.nodes.iter().map(|node| schema.field_class(node.class));
        if drops && !fields.all(is_of_whole_bytes) {
            return None;
        }
        if texts.iter().any(Option::is_some) {
            patch.texts = texts.into();
        }
        Some(patch)
    }

    /// Hides the integers of an event in its copy, which begins with `body` after the header.
    #[inline]
    pub(super) fn apply(&self, event: EventRef<'_>, input: PlanInput<'_>, body_bits: u64, body: &mut [u8]) {
        for (integer, _) in &self.classes[event.class().0 as usize].hidden {
            if let Some(value) = integer.read(input, body_bits) {
                integer.write(body, pseudonym(value));
            }
        }
    }

    /// Copies the bytes of an event from `header` on up to `end`: with other values in the place of those that are hidden,
    /// and without those that are left out.
    ///
    /// # Errors
    /// When the bytes are no longer those in which it was found.
    #[inline]
    pub(super) fn splice(
        &self,
        event: EventRef<'_>,
        (header, end): (usize, usize),
        state: &mut DecoderState,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let content = event.chunk.packet.input().bytes;
        let patch = &self.classes[event.class().0 as usize];
        let mut rest = header;
        if !patch.kept.is_empty() || !patch.texts.is_empty() {
            rest = patch.splice(event, (header, end), state, out)?;
        }
        out.extend_from_slice(content.get(rest..end).unwrap_or(&[]));
        Ok(())
    }
}

impl Patch {
    /// Copies an event up to the last byte that changes, or further; where the rest of it begins.
    fn splice(
        &self,
        event: EventRef<'_>,
        (header, end): (usize, usize),
        state: &mut DecoderState,
        out: &mut Vec<u8>,
    ) -> Result<usize, Fault> {
        let content = event.chunk.packet.input().bytes;
        let body_bits = event.chunk.body_bits(event.at);
        let body = (body_bits / 8) as usize;
        let mut rest = header;
        // Integers at fixed places stand before all texts.
        if !self.kept.is_empty() {
            out.extend_from_slice(content.get(header..body).unwrap_or(&[]));
            let place = out.len();
            for kept in &self.kept {
                let (start, end) = (body + kept.start, (body + kept.end).min(end));
                out.extend_from_slice(content.get(start..end).unwrap_or(&[]));
            }
            let input = PlanInput::new(content, end as u64 * 8);
            for (integer, moved) in &self.hidden {
                if let Some(value) = integer.read(input, body_bits) {
                    moved.write(out.get_mut(place..).unwrap_or(&mut []), pseudonym(value));
                }
            }
            rest = (body + self.rest).min(end);
        }
        if self.texts.is_empty() {
            return Ok(rest);
        }
        let mut splicer = Splicer { texts: &self.texts, content, rest, end, out, lost: None };
        event.visit_flat(state, &mut splicer)?;
        match splicer.lost {
            Some(node) => Err(Fault { kind: FaultKind::Unterminated, at_bits: body_bits, node }),
            None => Ok(splicer.rest),
        }
    }
}

/// Does a field stay what it is when it moves by bytes?
fn moves_by_bytes(class: &FieldClass) -> bool {
    let is_located = match &class.kind {
        // A synthesized text may show what is hidden.
        FieldKind::Rendered(_) => return false,
        FieldKind::Array(array) => matches!(array.length, Length::Located),
        FieldKind::Blob(blob) => matches!(blob.length, Length::Located),
        FieldKind::String(text) => matches!(text.length, StringLength::Bytes(Length::Located)),
        _ => false,
    };
    let Placement { unit_bits, end_align_bits } = class.placement;
    !is_located && class.place.is_none() && unit_bits == 0 && class.align_bits.max(end_align_bits) <= 8
}

/// Is a field, but for what it holds, a number of whole bytes?
fn is_of_whole_bytes(class: &FieldClass) -> bool {
    let len_bits = match &class.kind {
        FieldKind::Integer(integer) => integer.len_bits,
        FieldKind::BitArray(bits) | FieldKind::BitMap(bits) | FieldKind::Boolean(bits) => bits.len_bits,
        FieldKind::Float(float) => float.len_bits,
        _ => 0,
    };
    len_bits.is_multiple_of(8)
}

/// Copies an event up to its last text that changes.
struct Splicer<'a> {
    texts: &'a [Option<TextPatch>],
    content: &'a [u8],
    /// The first byte that is not copied yet.
    rest: usize,
    /// The end of the event.
    end: usize,
    out: &'a mut Vec<u8>,
    /// A text that does not stand where the event is.
    lost: Option<NodeId>,
}

impl Visitor for Splicer<'_> {
    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        let Some(Some(text)) = self.texts.get(node as usize) else { return };
        // The visitor is lent the text where it stands.
        let at = (bytes.as_ptr() as usize).wrapping_sub(self.content.as_ptr() as usize);
        let between = self.content.get(self.rest..at).filter(|_| at + bytes.len() <= self.end);
        let Some(between) = between else {
            self.lost = Some(node);
            return;
        };
        self.out.extend_from_slice(between);
        self.rest = at + bytes.len();
        match *text {
            TextPatch::Hidden(encoding) => put_text_pseudonym(self.out, bytes, encoding),
            TextPatch::Dropped(unit_bytes) => self.rest = (self.rest + unit_bytes).min(self.end),
        }
    }
}
