//! From the fields that a plan shows to columns.

use tracemill_codec::bits::Wide;
use tracemill_codec::plan::{NodeId, Visitor};
use tracemill_model::schema::Encoding;

use crate::{ColumnNode, Columns};

/// Appends the fields that it is shown: the visitor of [`Columns::push`].
pub struct Filler<'a> {
    pub(crate) columns: &'a mut Columns,
}

impl Filler<'_> {
    #[inline(always)]
    fn begin(&mut self, node: NodeId) -> &mut ColumnNode {
        let cell = &mut self.columns.cells[node as usize];
        if !matches!(cell.kind, ColumnNode::Passed) {
            cell.nulls.append_non_null();
            self.columns.bytes += 8;
        }
        &mut cell.kind
    }

    #[inline]
    fn integer(&mut self, node: NodeId, value: u64) {
        if let ColumnNode::Numbers(numbers) | ColumnNode::Labelled(numbers, _) = self.begin(node) {
            numbers.push(value);
        }
    }

    fn push_bytes(&mut self, node: NodeId, bytes: &[u8]) {
        self.columns.bytes += bytes.len();
        let is_kept = match self.begin(node) {
            ColumnNode::Text(_, texts) | ColumnNode::Blob(texts, _) => texts.push(bytes),
            _ => true,
        };
        self.columns.dropped.huge += u64::from(!is_kept);
    }
}

impl Visitor for Filler<'_> {
    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.integer(node, value);
    }

    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        self.integer(node, value as u64);
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        match self.columns.cells[node as usize].kind {
            ColumnNode::Text(..) => return self.push_bytes(node, value.to_decimal().as_bytes()),
            ColumnNode::Passed => return,
            ColumnNode::Decimal(_) => {
                if let (Some(value), ColumnNode::Decimal(values)) = (value.to_i128(), self.begin(node)) {
                    values.push(value);
                }
                return;
            }
            _ => {}
        }
        self.columns.dropped.wide += 1;
        self.columns.push_null(node as usize);
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        if let ColumnNode::Boolean(bits) = self.begin(node) {
            bits.append(value);
        }
    }

    fn real(&mut self, node: NodeId, value: f64) {
        if let ColumnNode::Numbers(numbers) = self.begin(node) {
            numbers.push_real(value);
        }
    }

    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        let encoding = match self.columns.cells[node as usize].kind {
            ColumnNode::Text(encoding, _) => encoding,
            ColumnNode::Passed => return,
            _ => Encoding::Utf8,
        };
        if encoding.is_utf8(bytes) {
            return self.push_bytes(node, bytes);
        }
        let text = encoding.to_utf8(bytes);
        self.columns.dropped.bad_texts += u64::from(text.contains(char::REPLACEMENT_CHARACTER));
        self.push_bytes(node, text.as_bytes());
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        if !matches!(self.columns.cells[node as usize].kind, ColumnNode::Passed) {
            self.push_bytes(node, bytes);
        }
    }

    #[inline]
    fn begin_struct(&mut self, node: NodeId) {
        let cell = &mut self.columns.cells[node as usize];
        if cell.is_outer || matches!(cell.kind, ColumnNode::Passed) {
            return;
        }
        cell.nulls.append_non_null();
        if let ColumnNode::Unit(len) = &mut cell.kind {
            *len += 1;
        }
    }

    fn begin_array(&mut self, node: NodeId, _len: u64) {
        self.begin(node);
    }

    fn end_array(&mut self, node: NodeId) {
        self.columns.end_list(node as usize);
    }

    fn begin_variant(&mut self, node: NodeId, option: usize) {
        self.begin(node);
        for (at, own) in self.columns.parts_of(node as usize).into_iter().enumerate() {
            if at != option {
                self.columns.push_null(own);
            }
        }
    }

    fn begin_optional(&mut self, node: NodeId) {
        self.begin(node);
    }

    fn absent(&mut self, node: NodeId) {
        self.columns.push_null(node as usize);
    }
}
