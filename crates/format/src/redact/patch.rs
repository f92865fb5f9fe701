//! Redaction in place: where nothing changes but integers at fixed places, all other bits stay as they were recorded.

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::{FixedInteger, Input};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::schema::{EventClassId, FieldClassId, FieldKind, Scope};

use super::encode::pseudonym;
use super::fields::{FieldPlace, child_of};
use crate::remap::places;

/// Events move by multiples of this, which keeps the alignment of their fields.
pub(super) const ALIGN_BYTES: usize = 64;

/// The hidden integers of each event class.
pub(super) struct Patches {
    classes: Vec<Vec<FixedInteger>>,
}

impl Patches {
    /// `None` when more changes than integers at fixed places.
    pub(super) fn new(from: &TracePlans, hidden: &[FieldPlace]) -> Option<Patches> {
        let schema = from.schema();
        let stays = |at: usize| {
            let class = schema.field_class(FieldClassId(at as u32));
            let align_bits = class.align_bits.max(class.placement.end_align_bits);
            // A synthesized text may show what is hidden.
            !matches!(class.kind, FieldKind::Rendered(_)) && align_bits as usize <= ALIGN_BYTES * 8
        };
        let classes = (0..schema.events().len()).map(|at| Patches::of_class(from, hidden, EventClassId(at as u32)));
        let classes = (0..schema.field_class_count()).all(stays).then(|| classes.collect::<Option<_>>())??;
        Some(Patches { classes })
    }

    fn of_class(from: &TracePlans, hidden: &[FieldPlace], class: EventClassId) -> Option<Vec<FixedInteger>> {
        let (schema, mut integers) = (from.schema(), Vec::new());
        if !hidden.iter().any(|field| field.class == class) {
            return Some(integers);
        }
        if !from.header_rows(schema.event(class).stream).known.is_byte() {
            return None;
        }
        let plan = from.event_rows(class);
        let scopes = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
        for (node, (scope, steps)) in (0..).zip(places(schema, plan, &scopes)) {
            let way: Vec<u32> = steps.iter().map(child_of).collect();
            let is_hidden = hidden.iter().any(|field| field.holds(class.0, scope, &way));
            if is_hidden && !matches!(schema.field_class(plan.nodes[node as usize].class).kind, FieldKind::Struct(_)) {
                integers.push(plan.fixed_integer(node)?);
            }
        }
        Some(integers)
    }

    /// Hides the integers of an event in its copy, which begins with `body` behind the header.
    #[inline]
    pub(super) fn apply(&self, event: EventRef<'_>, input: Input<'_>, body_bits: u64, body: &mut [u8]) {
        for integer in &self.classes[event.class().0 as usize] {
            if let Some(value) = integer.read(input, body_bits) {
                integer.write(body, pseudonym(value));
            }
        }
    }
}
