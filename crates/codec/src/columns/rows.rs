//! Columns filled event by event with the row plan of their class.

use super::{Column, Gatherer, Values, with_numbers};
use crate::bits::Wide;
use crate::plan::{NodeId, Visitor};

impl Column {
    /// Brings a level to a number of entries: lists that are not there are empty, values that are not there are null.
    pub(super) fn pad(&mut self, level: usize, expected: usize) {
        if let Some(list) = self.lists.get_mut(level) {
            let last = list.last().copied().unwrap_or(0);
            list.resize(list.len().max(expected + 1), last);
            return;
        }
        while self.values.len() < expected {
            self.push_null();
        }
    }

    fn push_null(&mut self) {
        macro_rules! push {
            ($values:expr, $type:ty) => {
                $values.push(Default::default())
            };
        }
        match &mut self.values {
            Values::Boolean(values) => values.push(false),
            Values::Bytes { .. } => self.values.push_bytes(&[]),
            values => with_numbers!(values, push),
        }
        self.mark(false);
    }

    fn mark(&mut self, is_there: bool) {
        let len = self.values.len();
        if let Some(validity) = &mut self.validity {
            validity.resize(len - 1, true);
            validity.push(is_there);
        }
    }
}

/// Fills columns from a visit.
pub(super) struct Filler<'a> {
    pub(super) gatherer: &'a Gatherer,
    pub(super) columns: &'a mut [Column],
    /// Lengths of the arrays that are open.
    pub(super) lens: Vec<u64>,
}

impl Filler<'_> {
    fn push(&mut self, node: NodeId, push: impl FnOnce(&mut Values)) {
        if let Some(at) = self.gatherer.of_node[node as usize] {
            let column = &mut self.columns[at];
            push(&mut column.values);
            column.mark(true);
        }
    }

    /// The first `finished` elements of the list that is open in an array are complete.
    fn finish_elements(&mut self, array: NodeId, finished: u64) {
        for &(column, place) in &self.gatherer.inside[array as usize] {
            let column = &mut self.columns[column];
            let begin = column.lists[place].last().copied().unwrap_or(0) as usize;
            column.pad(place + 1, begin + finished as usize);
        }
    }
}

impl Visitor for Filler<'_> {
    fn unsigned(&mut self, node: NodeId, value: u64) {
        macro_rules! push {
            ($values:expr, $type:ty) => {
                $values.push(value as $type)
            };
        }
        self.push(node, |values| with_numbers!(values, push));
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        macro_rules! push {
            ($values:expr, $type:ty) => {
                $values.push(value as $type)
            };
        }
        self.push(node, |values| with_numbers!(values, push));
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        let Some(at) = self.gatherer.of_node[node as usize] else { return };
        match self.columns[at].values {
            Values::Bytes { .. } => self.push(node, |values| values.push_bytes(value.to_decimal().as_bytes())),
            // A LEB128 integer beyond 64 bits has no place among those of 64.
            _ => self.columns[at].push_null(),
        }
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        self.push(node, |values| {
            if let Values::Boolean(values) = values {
                values.push(value);
            }
        });
    }

    fn real(&mut self, node: NodeId, value: f64) {
        macro_rules! push {
            ($values:expr, $type:ty) => {
                $values.push(value as $type)
            };
        }
        self.push(node, |values| with_numbers!(values, push));
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        self.push(node, |values| values.push_bytes(bytes));
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        self.push(node, |values| values.push_bytes(bytes));
    }

    fn begin_array(&mut self, _node: NodeId, len: u64) {
        self.lens.push(len);
    }

    fn element(&mut self, node: NodeId, index: u64) {
        if index > 0 {
            self.finish_elements(node, index);
        }
    }

    fn end_array(&mut self, node: NodeId) {
        let len = self.lens.pop().unwrap_or(0);
        self.finish_elements(node, len);
        for &(column, place) in &self.gatherer.inside[node as usize] {
            let list = &mut self.columns[column].lists[place];
            let begin = list.last().copied().unwrap_or(0);
            list.push(begin + len as u32);
        }
    }
}
