//! Lines that sum an event up: a text before its name, the name, a text after it.

use std::sync::Arc;

use tracemill_codec::plan::{NodeId, Plan, PlanNode, Visitor};
use tracemill_model::schema::{EventClassId, FieldClassId, FieldKind, Render, Schema, Summary};

use super::options::Palette;
use tracemill_codec::text::out::{Out, TextPiece, put_g};
use tracemill_codec::text::strings;

/// Fields of a class in a line that sums events up.
pub(super) struct SummaryTable {
    pub(super) before: Option<NodeId>,
    pub(super) after: Option<NodeId>,
    /// The name; `None` when it is not shown.
    pub(super) name: Option<Vec<u8>>,
    pub(super) is_open: bool,
    /// Texts that need no plan, and no name from the event.
    pub(super) made: Option<MadeSummary>,
}

/// Prepares the lines of a class.
#[cold]
pub(super) fn summary_table(schema: &Schema, class: EventClassId, plan: &Plan, palette: Palette) -> SummaryTable {
    let (event, summary) = (schema.event(class), schema.summary.as_ref());
    let root = plan.roots.get(2).copied().flatten();
    let node_of = |name: &str| {
        let is_it = |node: &PlanNode| Some(node.parent) == root && &*node.name == name;
        plan.nodes.iter().position(is_it).map(|at| at as NodeId)
    };
    let name = summary.filter(|summary| summary.has_name).map(|_| {
        let mut out = Out::default();
        strings::put_plain(&mut out, event.name.as_deref().unwrap_or_default().as_bytes());
        out.written().to_vec()
    });
    let made = summary
        .filter(|_| event.open_ids.is_none())
        .and_then(|summary| member_renderers(schema, event.payload?, summary));
    SummaryTable {
        made: made.map(|made| MadeSummary::new(made, name.as_deref(), palette)),
        before: summary.and_then(|summary| node_of(&summary.before)),
        after: summary.and_then(|summary| node_of(&summary.after)),
        name,
        is_open: event.open_ids.is_some(),
    }
}

/// Renderers of the members of a summary, when these take no bytes of their own.
fn member_renderers(schema: &Schema, payload: FieldClassId, summary: &Summary) -> Option<[Arc<dyn Render>; 2]> {
    let FieldKind::Struct(payload) = &schema.field_class(payload).kind else { return None };
    let made = |name: &str| {
        let member = payload.members.iter().find(|member| &*member.name == name)?;
        match &schema.field_class(member.class).kind {
            FieldKind::Rendered(rendered) if rendered.len_bytes == 0 => Some(rendered.render.clone()),
            _ => None,
        }
    };
    Some([made(&summary.before)?, made(&summary.after)?])
}

/// A line that sums up events of a class by two texts that are made from the event alone.
pub(super) struct MadeSummary {
    pub(super) before: Arc<dyn Render>,
    pub(super) after: Arc<dyn Render>,
    /// The name with a blank before it when there is one; after an event without the text before, without the blank.
    pub(super) name: [TextPiece; 2],
    /// The name, followed by `: `.
    pub(super) name_and_more: [TextPiece; 2],
}

impl MadeSummary {
    pub(super) fn new([before, after]: [Arc<dyn Render>; 2], name: Option<&[u8]>, palette: Palette) -> Self {
        let name = name.map(|name| [palette.event.as_bytes(), name, palette.reset.as_bytes()].concat());
        let with_blank = name.as_ref().map_or(Vec::new(), |name| [b" ", &name[..]].concat());
        let alone = name.unwrap_or_default();
        let more = |name: &[u8]| TextPiece::new([name, b": "].concat());
        let name_and_more = [more(&alone), more(&with_blank)];
        MadeSummary { before, after, name: [TextPiece::new(alone), TextPiece::new(with_blank)], name_and_more }
    }

    #[inline]
    pub(super) fn write(&self, out: &mut Out, body: &[u8], scratch: &mut Vec<u8>) {
        if out.put_two_texts(
            &self.name_and_more[1],
            |room| self.before.quick(body, &[], room),
            |room| self.after.quick(body, &[], room).filter(|&len| len > 0),
        ) {
            return;
        }
        self.put_slowly(out, body, scratch);
    }

    /// Slow path, where a text is missing, empty, long or no printable ASCII.
    #[inline(never)]
    fn put_slowly(&self, out: &mut Out, body: &[u8], scratch: &mut Vec<u8>) {
        let with_blank = match self.before.quick(body, &[], out.room()) {
            Some(len) => {
                out.advance(len);
                1
            }
            None => {
                let before = self.before.text(body, &[], scratch);
                before.into_iter().for_each(|before| strings::put_plain(out, before));
                usize::from(before.is_some())
            }
        };
        let line = out.len();
        out.put_piece(&self.name_and_more[with_blank]);
        match self.after.quick(body, &[], out.room()) {
            Some(len) if len > 0 => out.advance(len),
            quick => {
                let after = if quick.is_none() { self.after.text(body, &[], scratch) } else { None };
                match after {
                    Some(after) if !after.is_empty() => strings::put_plain(out, after),
                    _ => {
                        out.truncate(line);
                        out.put_piece(&self.name[with_blank]);
                    }
                }
            }
        }
        out.put_byte(b'\n');
    }
}

/// Prints the rest of a line that sums an event up.
pub(super) struct SummaryPrinter<'a> {
    pub(super) out: &'a mut Out,
    pub(super) table: &'a SummaryTable,
    /// Printed once, after the first part.
    pub(super) name: Option<&'a [u8]>,
    pub(super) palette: Palette,
    pub(super) has_name: bool,
}

impl SummaryPrinter<'_> {
    pub(super) fn name(&mut self) {
        if std::mem::replace(&mut self.has_name, true) {
            return;
        }
        if let Some(name) = self.name {
            self.out.put(self.palette.event.as_bytes());
            self.out.put(name);
            self.out.put(self.palette.reset.as_bytes());
        }
    }

    #[inline]
    fn part(&mut self, node: NodeId, is_empty: bool, put: impl FnOnce(&mut Out)) {
        if self.table.before == Some(node) {
            put(self.out);
            if self.name.is_some() {
                self.out.put_byte(b' ');
            }
            self.name();
        } else if self.table.after == Some(node) {
            self.name();
            if !is_empty {
                self.out.put(b": ");
                put(self.out);
            }
        }
    }
}

impl Visitor for SummaryPrinter<'_> {
    const FOR_PEOPLE: bool = true;

    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        self.part(node, false, |out| out.put_u64(value));
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        self.part(node, false, |out| out.put_i64(value));
    }

    fn real(&mut self, node: NodeId, value: f64) {
        self.part(node, false, |out| put_g(out, value));
    }

    #[inline]
    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        self.part(node, bytes.is_empty(), |out| strings::put_plain(out, bytes));
    }
}
