//! The schema of a CTF trace in the words of CTF 2, with the same layout of every field.

use std::collections::HashSet;
use std::sync::Arc;

use tracemill_model::schema::{
    BlobClass, ClockId, FieldClass, FieldClassId, FieldKind, Length, Origin, Placement, Role, Schema,
};

use super::fields::{free_name, without};
use super::mapping::moved_clock;
use super::marks::{Mark, Marks, is_one_each, joined};
use super::metadata;
use crate::ctf2;
use crate::same_class::is_same_class;
use tracemill_format::target::Source;

/// The metadata of CTF 2 that describe the packets of a source as they are; `None` when CTF 2 has no words for them.
pub(super) fn metadata_of(source: &Source, origin: Option<Arc<Origin>>) -> Option<Vec<u8>> {
    let from = &source.schema;
    let mut to = Schema::clone(from);
    let mut marks = Marks::new();
    to.format = "ctf2";
    to.version = (2, 0);
    to.origin = origin;
    to.name = Some(Arc::from(source.own_name.as_str())).filter(|name: &Arc<str>| !name.is_empty());
    for at in 0..to.clocks().len() {
        let id = ClockId(at as u32);
        let clock = moved_clock(to.clock(id), source.correction_ns);
        *to.clock_mut(id) = clock;
    }
    for at in 0..to.field_class_count() {
        let id = FieldClassId(at as u32);
        let class = translated(from.field_class(id), id, &mut marks)?;
        to.set_field_class(id, class);
    }
    let comment = super::comment(from);
    let text = metadata::write(&to, &marks, &comment);
    // The translation counts only when a reader gets the same schema from it.
    let (back, _) = ctf2::parse(&text, true).ok()?;
    is_same(&to, &back).then_some(text)
}

fn translated(class: &FieldClass, id: FieldClassId, marks: &mut Marks) -> Option<FieldClass> {
    if class.placement != Placement::default() || class.place.is_some() {
        return None;
    }
    let mut class = class.clone();
    match &mut class.kind {
        FieldKind::Integer(integer) => {
            integer.is_character = false;
            integer.clock = None;
            if let Some(mappings) = integer.mappings.clone().filter(|mappings| !is_one_each(mappings)) {
                marks.insert(id, Mark::Mappings(mappings.clone()));
                integer.mappings = Some(joined(&mappings));
            }
        }
        FieldKind::String(_) => {
            if class.align_bits != 8 {
                return None;
            }
        }
        FieldKind::Array(array) if class.roles.has(Role::TraceUuid) => {
            if array.length != Length::Static(16) || class.align_bits > 8 {
                return None;
            }
            let blob = BlobClass::new(Length::Static(16));
            class.kind = FieldKind::Blob(blob);
            class.align_bits = 8;
        }
        FieldKind::Array(array) if matches!(array.length, Length::Inline(_)) => return None,
        FieldKind::BitMap(bits) => {
            if bits.flags.is_empty() || !is_one_each(&bits.flags) {
                return None;
            }
        }
        FieldKind::Array(_)
        | FieldKind::Blob(_)
        | FieldKind::BitArray(_)
        | FieldKind::Boolean(_)
        | FieldKind::Float(_)
        | FieldKind::Optional(_) => {}
        FieldKind::Struct(structure) => {
            let mut taken = HashSet::new();
            if structure.is_tuple() {
                return Some(class);
            }
            for member in &mut structure.members {
                member.raw_name = free_name(&member.name, &member.raw_name, &mut taken);
            }
        }
        FieldKind::Variant(variant) => {
            let (mut taken, mut names) = (Vec::new(), HashSet::new());
            for option in &mut variant.options {
                option.ranges = without(&option.ranges, &taken);
                taken.extend_from_slice(&option.ranges);
                option.raw_name = option.name.clone();
                let is_free = option.name.as_ref().is_none_or(|name| names.insert(name.clone()));
                if !is_free {
                    return None;
                }
            }
            // An option that no label names never occurs.
            variant.options.retain(|option| !option.ranges.is_empty());
            if variant.options.is_empty() {
                return None;
            }
        }
        FieldKind::Rendered(_) => return None,
    }
    Some(class)
}

/// Do both describe the same bytes?
fn is_same(a: &Schema, b: &Schema) -> bool {
    let is_same_root = |(of_a, of_b): (&Option<FieldClassId>, &Option<FieldClassId>)| match (of_a, of_b) {
        (Some(of_a), Some(of_b)) => is_same_class(a, *of_a, b, *of_b, false),
        _ => of_a.is_none() && of_b.is_none(),
    };
    let clock = |of: &Schema, clock: Option<ClockId>| clock.map(|clock| of.clock(clock).id.clone());
    let same_streams = a.streams().iter().zip(b.streams()).all(|(of_a, of_b)| {
        of_a.id == of_b.id
            && clock(a, of_a.default_clock) == clock(b, of_b.default_clock)
            && a.stream_roots(of_a).iter().zip(&b.stream_roots(of_b)).all(is_same_root)
    });
    let same_events = a.events().iter().zip(b.events()).all(|(of_a, of_b)| {
        (of_a.id, &of_a.name, of_a.stream) == (of_b.id, &of_b.name, of_b.stream)
            && a.event_roots(of_a)[4..].iter().zip(&b.event_roots(of_b)[4..]).all(is_same_root)
    });
    a.uuid == b.uuid
        && a.streams().len() == b.streams().len()
        && a.events().len() == b.events().len()
        && is_same_root((&a.packet_header, &b.packet_header))
        && same_streams
        && same_events
}
