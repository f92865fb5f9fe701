//! Columns of events made of whole bytes, filled one after the other over all events.

use tracemill_model::schema::{FieldKind, Schema};

use super::{Column, Values, with_numbers};
use crate::plan::{NodeId, Op, Plan};
use crate::quick::zero_at;

/// Fills a column, or moves the place of each event on. Small, as that of thousands of classes are used in turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Step {
    column: u32,
    /// In bytes from the place of the event.
    offset: u32,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum What {
    Number {
        big: bool,
    },
    /// Keeps a number for the steps that follow; fills no column.
    Save {
        bytes: u8,
        big: bool,
        slot: u32,
    },
    /// A null-terminated string; the place moves behind it.
    Str,
    /// Text of a fixed number of bytes.
    Text {
        len: u32,
    },
    /// Text or a blob of a number of bytes that was saved; the place moves behind it.
    SavedBytes {
        slot: u32,
        is_text: bool,
    },
    /// An array; the place moves behind it when the length was saved.
    Array {
        len: Len,
        bytes: u8,
        big: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Len {
    Fixed(u32),
    Saved(u32),
}

impl Step {
    /// Does it move the place of the event?
    fn moves(&self) -> bool {
        matches!(self.what, What::Str | What::SavedBytes { .. } | What::Array { len: Len::Saved(_), .. })
    }
}

/// The column that an instruction of a row plan fills.
pub(super) fn column_of(op: &Op) -> Option<(NodeId, Values)> {
    Some(match *op {
        Op::U8 { node } => (node, Values::U8(Vec::new())),
        Op::S8 { node } => (node, Values::I8(Vec::new())),
        Op::U16 { node, .. } => (node, Values::U16(Vec::new())),
        Op::S16 { node, .. } => (node, Values::I16(Vec::new())),
        Op::U32 { node, .. } => (node, Values::U32(Vec::new())),
        Op::S32 { node, .. } => (node, Values::I32(Vec::new())),
        Op::U64 { node, .. } => (node, Values::U64(Vec::new())),
        Op::S64 { node, .. } => (node, Values::I64(Vec::new())),
        Op::F32 { node, .. } => (node, Values::F32(Vec::new())),
        Op::F64 { node, .. } | Op::Float { node, .. } => (node, Values::F64(Vec::new())),
        Op::Bits { node, signed: true, .. } | Op::Leb { node, signed: true } => (node, Values::I64(Vec::new())),
        Op::Bits { node, .. } | Op::Leb { node, .. } => (node, Values::U64(Vec::new())),
        Op::Boolean { node, .. } => (node, Values::Boolean(Vec::new())),
        Op::Wide { node, .. }
        | Op::Str { node, .. }
        | Op::StrBytes { node, .. }
        | Op::Blob { node, .. }
        | Op::Rendered { node, .. } => (node, Values::bytes()),
        Op::Integers { node, bytes, signed, .. } => {
            let values = match (bytes, signed) {
                (1, false) => Values::U8(Vec::new()),
                (1, true) => Values::I8(Vec::new()),
                (2, false) => Values::U16(Vec::new()),
                (2, true) => Values::I16(Vec::new()),
                (4, false) => Values::U32(Vec::new()),
                (4, true) => Values::I32(Vec::new()),
                (_, false) => Values::U64(Vec::new()),
                (_, true) => Values::I64(Vec::new()),
            };
            (node + 1, values)
        }
        _ => return None,
    })
}

/// The arrays around a node, outermost first, and whether an optional or a variant is around it.
pub(super) fn surroundings(schema: &Schema, plan: &Plan, node: NodeId) -> (Vec<NodeId>, bool) {
    let (mut arrays, mut may_be_absent, mut at) = (Vec::new(), false, node);
    loop {
        let parent = plan.nodes[at as usize].parent;
        if parent == at {
            break;
        }
        at = parent;
        match schema.field_class(plan.nodes[at as usize].class).kind {
            FieldKind::Array(_) => arrays.push(at),
            FieldKind::Optional(_) | FieldKind::Variant(_) => may_be_absent = true,
            _ => {}
        }
    }
    arrays.reverse();
    (arrays, may_be_absent)
}

/// The steps of a row plan of whole bytes without choices, `None` for any other.
pub(super) fn steps_of(plan: &Plan, of_node: &[Option<usize>], slots: &mut usize) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut offset = 0u32;
    // What the plan's slots hold here: a number of the metadata, or a column of saved lengths.
    let mut known: Vec<(u16, Len)> = Vec::new();
    let mut last: Option<(u32, u8, bool)> = None;
    let column = |node: NodeId| of_node[node as usize].map(|column| column as u32);
    for op in plan.ops.iter() {
        let (bytes, big) = match *op {
            // Places are on byte boundaries and every step takes whole bytes.
            Op::Align { mask: 0..=7 } => continue,
            Op::BeginStruct { .. } | Op::EndStruct { .. } | Op::Fit { .. } => continue,
            // Counted from where the event stands, which steps of variable size have left.
            Op::Seek { bytes } if !steps.iter().any(Step::moves) => {
                offset = bytes;
                continue;
            }
            Op::Advance { bits } if bits % 8 == 0 => {
                offset = offset.checked_add(u32::try_from(bits / 8).ok()?)?;
                continue;
            }
            Op::Set { slot, value } => {
                known.push((slot, Len::Fixed(u32::try_from(value).ok()?)));
                continue;
            }
            Op::Save { slot } => {
                let (offset, bytes, big) = last?;
                steps.push(Step { column: 0, offset, what: What::Save { bytes, big, slot: *slots as u32 } });
                known.push((slot, Len::Saved(*slots as u32)));
                *slots += 1;
                continue;
            }
            Op::Str { node, unit: 1 } => {
                steps.push(Step { column: column(node)?, offset, what: What::Str });
                offset = 0;
                continue;
            }
            Op::StrBytes { node, unit: 1, len } | Op::Blob { node, len } => {
                let is_text = matches!(op, Op::StrBytes { .. });
                let column = column(node)?;
                match known.iter().rev().find(|(slot, _)| *slot == len)?.1 {
                    Len::Fixed(len) if is_text => {
                        steps.push(Step { column, offset, what: What::Text { len } });
                        offset = offset.checked_add(len)?;
                    }
                    Len::Fixed(_) => return None,
                    Len::Saved(slot) => {
                        steps.push(Step { column, offset, what: What::SavedBytes { slot, is_text } });
                        offset = 0;
                    }
                }
                continue;
            }
            Op::Integers { node, len, bytes, big, .. } => {
                let len = known.iter().rev().find(|(slot, _)| *slot == len)?.1;
                steps.push(Step { column: column(node + 1)?, offset, what: What::Array { len, bytes, big } });
                offset = match len {
                    Len::Fixed(len) => offset.checked_add(len.checked_mul(bytes.into())?)?,
                    Len::Saved(_) => 0,
                };
                continue;
            }
            Op::U8 { .. } | Op::S8 { .. } => (1, false),
            Op::U16 { big, .. } | Op::S16 { big, .. } => (2, big),
            Op::U32 { big, .. } | Op::S32 { big, .. } | Op::F32 { big, .. } => (4, big),
            Op::U64 { big, .. } | Op::S64 { big, .. } | Op::F64 { big, .. } => (8, big),
            _ => return None,
        };
        let node = op.node()?;
        steps.push(Step { column: column(node)?, offset, what: What::Number { big } });
        last = Some((offset, bytes, big));
        offset = offset.checked_add(bytes.into())?;
    }
    Some(steps)
}

/// Runs a step over all events. Bytes that are not there read as zeros: the boundary pass has seen them all, so they
/// are missing only when the file was cut under us, which the reader of chunks tells.
pub(super) fn fill(step: Step, content: &[u8], places: &mut [usize], slots: &mut [Vec<u64>], columns: &mut [Column]) {
    let (column, offset) = (step.column as usize, step.offset as usize);
    match step.what {
        What::Number { big } => number(&mut columns[column].values, content, places, offset, big),
        What::Save { bytes, big, slot } => {
            let slot = slot as usize;
            let read = |place: &usize| match bytes {
                1 => u64::from(load::<1>(content, place + offset)[0]),
                2 => order(big, load(content, place + offset), u16::from_le_bytes, u16::from_be_bytes).into(),
                4 => order(big, load(content, place + offset), u32::from_le_bytes, u32::from_be_bytes).into(),
                _ => order(big, load(content, place + offset), u64::from_le_bytes, u64::from_be_bytes),
            };
            slots[slot].clear();
            slots[slot].extend(places.iter().map(read));
        }
        What::Str => {
            for place in places {
                let rest = content.get(*place + offset..).unwrap_or(&[]);
                let len = zero_at(rest).unwrap_or(rest.len());
                columns[column].values.push_bytes(&rest[..len]);
                *place += offset + len + 1;
            }
        }
        What::Text { len } => {
            let len = len as usize;
            for place in places {
                let bytes = slice(content, *place + offset, len);
                let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
                columns[column].values.push_bytes(&bytes[..end]);
            }
        }
        What::SavedBytes { slot, is_text } => {
            for (place, &len) in places.iter_mut().zip(&slots[slot as usize]) {
                let bytes = slice(content, *place + offset, len as usize);
                let end = if is_text { memchr::memchr(0, bytes) } else { None };
                columns[column].values.push_bytes(&bytes[..end.unwrap_or(bytes.len())]);
                *place += offset + len as usize;
            }
        }
        What::Array { len, bytes, big } => {
            let bytes = usize::from(bytes);
            let column = &mut columns[column];
            for (at, place) in places.iter_mut().enumerate() {
                let len = match len {
                    Len::Fixed(len) => len as usize,
                    Len::Saved(slot) => slots[slot as usize][at] as usize,
                };
                let elements = slice(content, *place + offset, len.saturating_mul(bytes));
                extend(&mut column.values, elements, big);
                if let Some(list) = column.lists.first_mut() {
                    list.push(column.values.len() as u32);
                }
            }
            if let Len::Saved(slot) = len {
                for (place, &len) in places.iter_mut().zip(&slots[slot as usize]) {
                    *place += offset + len as usize * bytes;
                }
            }
        }
    }
}

fn slice(content: &[u8], from: usize, len: usize) -> &[u8] {
    content.get(from..).map_or(&[], |rest| &rest[..len.min(rest.len())])
}

#[inline]
pub(super) fn load<const N: usize>(content: &[u8], at: usize) -> [u8; N] {
    content.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

#[inline]
fn order<const N: usize, T>(big: bool, bytes: [u8; N], little: fn([u8; N]) -> T, other: fn([u8; N]) -> T) -> T {
    if big { other(bytes) } else { little(bytes) }
}

fn number(values: &mut Values, content: &[u8], places: &[usize], offset: usize, big: bool) {
    macro_rules! read {
        ($values:expr, $type:ty) => {
            if big {
                $values.extend(places.iter().map(|place| <$type>::from_be_bytes(load(content, place + offset))))
            } else {
                $values.extend(places.iter().map(|place| <$type>::from_le_bytes(load(content, place + offset))))
            }
        };
    }
    with_numbers!(values, read);
}

fn extend(values: &mut Values, elements: &[u8], big: bool) {
    macro_rules! read {
        ($values:expr, $type:ty) => {{
            let chunks = elements.chunks_exact(size_of::<$type>()).filter_map(|chunk| chunk.first_chunk());
            if big {
                $values.extend(chunks.map(|chunk| <$type>::from_be_bytes(*chunk)))
            } else {
                $values.extend(chunks.map(|chunk| <$type>::from_le_bytes(*chunk)))
            }
        }};
    }
    with_numbers!(values, read);
}
