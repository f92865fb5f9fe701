//! Notes of a schema that is written about what its dialect lacks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracemill_model::schema::{FieldClassId, FieldPath, Mapping, PathStep, Scope};

/// A meaning of a class of CTF 2 that CTF 2 has no word for.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    /// A structure of a length and what has it: the length is no field.
    WithLength,
    /// A bit array: a bit map without flags.
    BitMap,
    /// An enumeration: its labels with the values of each, some of them several times.
    Mappings(Arc<[Mapping]>),
}

/// Marks of classes of the output.
pub(super) type Marks = HashMap<FieldClassId, Mark>;

/// The step of a path that means the first member of the structure around the field itself.
pub(super) const BEFORE: u32 = u32::MAX;

/// The path of the member before a field, in a structure of the two.
pub(super) fn before() -> FieldPath {
    FieldPath { scope: Scope::Payload, steps: vec![PathStep::Member(BEFORE)] }
}

/// Stands each label once, and with values?
pub(super) fn is_one_each(mappings: &Arc<[Mapping]>) -> bool {
    let mut known = HashSet::new();
    mappings.iter().all(|mapping| !mapping.ranges.is_empty() && known.insert(&mapping.label))
}

/// The labels that have values, each once with all of them: an object of JSON has each key once.
pub(super) fn joined(mappings: &Arc<[Mapping]>) -> Arc<[Mapping]> {
    if is_one_each(mappings) {
        return mappings.clone();
    }
    let mut joined: Vec<Mapping> = Vec::new();
    for mapping in mappings.iter().filter(|mapping| !mapping.ranges.is_empty()) {
        match joined.iter_mut().find(|other| other.label == mapping.label) {
            Some(other) => other.ranges.extend_from_slice(&mapping.ranges),
            None => joined.push(mapping.clone()),
        }
    }
    joined.into()
}
