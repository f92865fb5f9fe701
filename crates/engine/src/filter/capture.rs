//! Keeps the wanted values while the fields of an event pass by.

use tracemill_codec::plan::{NodeId, Plan, Visitor, VisitorCall};
use tracemill_model::schema::Encoding;

use super::number::{EventNumber, from_wide};
use super::resolve::{Detail, FieldPlace};

/// Values by the index of their path.
#[derive(Default)]
pub(super) struct CapturedValues {
    stored: Vec<Option<StoredValue>>,
    /// The bytes of all strings.
    text: Vec<u8>,
}

/// A value as it was read.
pub(super) enum StoredValue {
    Number(EventNumber<'static>),
    Bool(bool),
    /// First and last byte in the text.
    Text(usize, usize),
    /// Something that is compared with nothing: is it more than empty?
    Other(bool),
}

impl CapturedValues {
    /// Forgets all values; makes room for those of `paths`.
    pub(super) fn clear(&mut self, paths: usize) {
        self.stored.clear();
        self.stored.resize_with(paths, || None);
        self.text.clear();
    }

    pub(super) fn get(&self, path: usize) -> Option<&StoredValue> {
        self.stored.get(path)?.as_ref()
    }

    /// For how many paths there is room.
    pub(super) fn len(&self) -> usize {
        self.stored.len()
    }

    pub(super) fn text(&self, begin: usize, end: usize) -> &[u8] {
        &self.text[begin..end]
    }
}

/// Fields of a plan that are wanted.
#[derive(Debug, Default)]
pub struct CapturedFields {
    /// For each node: its first entry in `wants`, from 1; 0 when it is not wanted.
    first: Vec<u32>,
    wants: Vec<Want>,
    /// For each node: is it an array whose index matters?
    is_counted: Vec<bool>,
}

#[derive(Debug)]
struct Want {
    path: usize,
    detail: Detail,
    /// Elements on the way to it.
    elements: Vec<(NodeId, u64)>,
    /// The next entry of the same node, from 1.
    next: u32,
}

impl CapturedFields {
    pub(crate) fn is_empty(&self) -> bool {
        self.wants.is_empty()
    }

    /// Wants a field, which is in a section of the plan.
    pub fn add(&mut self, plan: &Plan, section: usize, path: usize, place: &FieldPlace, detail: Detail) {
        let Some((node, elements)) = place.locate(plan, section) else { return };
        self.first.resize(plan.nodes.len(), 0);
        self.is_counted.resize(plan.nodes.len(), false);
        for &(array, _) in &elements {
            self.is_counted[array as usize] = true;
        }
        let next = std::mem::replace(&mut self.first[node as usize], self.wants.len() as u32 + 1);
        self.wants.push(Want { path, detail, elements, next });
    }

    /// The node that a path wants, when no element of an array is chosen on the way to it.
    pub(super) fn node_of(&self, path: usize) -> Option<NodeId> {
        let wants = |first: &u32| {
            let want = self.wants.get((*first as usize).checked_sub(1)?)?;
            (want.path == path && want.next == 0 && want.elements.is_empty()).then_some(())
        };
        self.first.iter().position(|first| wants(first).is_some()).map(|node| node as NodeId)
    }

    /// The paths that want the node, of those whose elements are the current ones of their arrays.
    #[inline]
    pub fn chosen(&self, node: NodeId, indices: &[u64]) -> impl Iterator<Item = usize> {
        self.wanted_at(node, indices).map(|want| want.path)
    }

    #[inline]
    fn wanted_at(&self, node: NodeId, indices: &[u64]) -> impl Iterator<Item = &Want> {
        let mut next = self.first.get(node as usize).copied().unwrap_or(0);
        let wants = std::iter::from_fn(move || {
            let want = self.wants.get((next as usize).checked_sub(1)?)?;
            next = want.next;
            Some(want)
        });
        wants.filter(|want| want.is_at(indices))
    }

    /// Notes the current element of an array, when a path asks for one of its elements.
    #[inline]
    pub fn count(&self, node: NodeId, index: u64, indices: &mut Vec<u64>) {
        if self.is_counted.get(node as usize).is_some_and(|&is_counted| is_counted) {
            if indices.len() < self.is_counted.len() {
                indices.resize(self.is_counted.len(), 0);
            }
            indices[node as usize] = index;
        }
    }
}

impl Want {
    #[inline]
    fn is_at(&self, indices: &[u64]) -> bool {
        self.elements.iter().all(|&(array, index)| indices.get(array as usize) == Some(&index))
    }
}

/// Puts wanted fields into [`CapturedValues`].
pub(super) struct Capture<'a> {
    wanted: &'a CapturedFields,
    values: &'a mut CapturedValues,
    /// Current index of each counted array.
    indices: &'a mut Vec<u64>,
}

impl<'a> Capture<'a> {
    /// `indices` is storage that is used again and again.
    pub(super) fn new(wanted: &'a CapturedFields, values: &'a mut CapturedValues, indices: &'a mut Vec<u64>) -> Self {
        if indices.len() < wanted.first.len() {
            indices.resize(wanted.first.len(), 0);
        }
        Capture { wanted, values, indices }
    }

    /// Calls `store` for each want of the node that the indices choose.
    #[inline]
    fn each(&mut self, node: NodeId, store: impl Fn(&Want, &mut Vec<u8>) -> Option<StoredValue>) {
        for want in self.wanted.wanted_at(node, self.indices) {
            if let Some(stored) = store(want, &mut self.values.text) {
                self.values.stored[want.path] = Some(stored);
            }
        }
    }
}

impl Visitor for Capture<'_> {
    #[inline(always)]
    fn any_call(&mut self, node: NodeId, shown: VisitorCall<'_>) {
        self.each(node, |want, _| match shown {
            VisitorCall::Unsigned(value) => Some(StoredValue::Number(EventNumber::Int(value.into()))),
            VisitorCall::Signed(value) => Some(StoredValue::Number(EventNumber::Int(value.into()))),
            VisitorCall::Wide(value) => Some(StoredValue::Number(from_wide(value.clone()))),
            VisitorCall::Boolean(value) => Some(StoredValue::Bool(value)),
            VisitorCall::Real(value) => Some(StoredValue::Number(EventNumber::Real(value))),
            VisitorCall::Blob(bytes) => Some(StoredValue::Other(!bytes.is_empty())),
            VisitorCall::BeginStruct => {
                Some(StoredValue::Other(!matches!(want.detail, Detail::Struct { is_empty: true })))
            }
            VisitorCall::BeginArray(len) => Some(StoredValue::Other(len > 0)),
            VisitorCall::BeginVariant(_) => Some(StoredValue::Other(true)),
            _ => None,
        });
    }

    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        self.each(node, |want, text| {
            let begin = text.len();
            match want.detail {
                Detail::Text(encoding) if encoding != Encoding::Utf8 => {
                    text.extend_from_slice(encoding.to_utf8(bytes).as_bytes());
                }
                _ => text.extend_from_slice(bytes),
            }
            Some(StoredValue::Text(begin, text.len()))
        });
    }

    #[inline]
    fn element(&mut self, node: NodeId, index: u64) {
        self.wanted.count(node, index, self.indices);
    }
}
