//! Events whose fields are written as they stand: their bytes are copied instead.

use super::{FixedInteger, NodeId, Op, Plan};
use crate::encode::Encode;
use tracemill_model::schema::{ByteOrder, Encoding};

impl Plan {
    /// Whether an [`Encoder`](crate::encode::Encoder) with these tables writes the very bytes that a flat row plan reads,
    /// but for the integers of the nodes that are replaced: those, to be written over the copy.
    ///
    /// `None` when it writes others, or when an integer to replace has no fixed place.
    pub fn copied(&self, nodes: &[Encode], is_replaced: impl Fn(NodeId) -> bool) -> Option<Vec<FixedInteger>> {
        let encode = |node: NodeId| nodes.get(node as usize).copied();
        let order_of = |big| if big { ByteOrder::Big } else { ByteOrder::Little };
        let is_fixed = |node, bytes: u8, big| match encode(node) {
            Some(Encode::Fixed { len_bits, order }) => len_bits == bytes * 8 && (bytes == 1 || order == order_of(big)),
            _ => false,
        };
        let mut replaced = Vec::new();
        for op in self.ops.iter() {
            let (node, bytes, big) = match *op {
                Op::Align { mask: 0..=7 } | Op::Save { .. } | Op::Set { .. } | Op::Fit { .. } => continue,
                Op::U8 { node } | Op::S8 { node } => (node, 1, false),
                Op::U16 { node, big } | Op::S16 { node, big } => (node, 2, big),
                Op::U32 { node, big } | Op::S32 { node, big } => (node, 4, big),
                Op::U64 { node, big } | Op::S64 { node, big } => (node, 8, big),
                // Numbers of 32 bits are widened in between, which changes some that are not a number.
                Op::F64 { node, big } if !is_replaced(node) && encode(node) == Some(Encode::Float64(order_of(big))) => {
                    continue;
                }
                Op::Str { node, unit: 1 }
                    if !is_replaced(node)
                        && matches!(encode(node), Some(Encode::Text(Encoding::Utf8 | Encoding::Ascii))) =>
                {
                    continue;
                }
                Op::Integers { node, bytes, big, .. }
                    if !is_replaced(node)
                        && !is_replaced(node + 1)
                        && encode(node) == Some(Encode::Parts)
                        && is_fixed(node + 1, bytes, big) =>
                {
                    continue;
                }
                _ => return None,
            };
            if !is_fixed(node, bytes, big) {
                return None;
            }
            if is_replaced(node) {
                replaced.push(self.fixed_integer(node)?);
            }
        }
        Some(replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanInput;

    const LITTLE: ByteOrder = ByteOrder::Little;

    fn fixed(len_bits: u8) -> Encode {
        Encode::Fixed { len_bits, order: LITTLE }
    }

    fn copied(ops: &[Op], nodes: &[Encode], replaced: Option<NodeId>) -> Option<Vec<FixedInteger>> {
        Plan { ops: ops.into(), ..Plan::default() }.copied(nodes, |node| Some(node) == replaced)
    }

    #[test]
    fn fields_that_are_written_as_they_stand_are_copied() {
        let ops = [
            Op::U8 { node: 0 },
            Op::S32 { node: 1, big: false },
            Op::Str { node: 2, unit: 1 },
            Op::U16 { node: 3, big: false },
            Op::Save { slot: 0 },
            Op::Integers { node: 4, len: 0, bytes: 8, signed: false, big: false },
        ];
        let nodes = [fixed(8), fixed(32), Encode::Text(Encoding::Utf8), fixed(16), Encode::Parts, fixed(64)];
        assert_eq!(copied(&ops, &nodes, None), Some(Vec::new()));
        let [replaced] = copied(&ops, &nodes, Some(1)).expect("the rest stays")[..] else { panic!("one integer") };
        let mut bytes = [1, 2, 3, 4, 5, 0];
        assert_eq!(replaced.read(PlanInput::new(&bytes, 48), 0), Some(0x0504_0302));
        replaced.write(&mut bytes, 0xffff_ffff_0a0b_0c0d);
        assert_eq!(bytes, [1, 0xd, 0xc, 0xb, 0xa, 0]);
        assert_eq!(copied(&ops, &nodes, Some(2)), None, "a text is replaced");
        assert_eq!(copied(&ops, &nodes, Some(3)), None, "no fixed place behind a string");
        assert_eq!(copied(&ops, &nodes, Some(5)), None, "elements are replaced");
    }

    #[test]
    fn fields_that_become_others_are_not_copied() {
        let order = ByteOrder::Big;
        assert_eq!(copied(&[Op::U16 { node: 0, big: false }], &[Encode::Fixed { len_bits: 16, order }], None), None);
        assert_eq!(copied(&[Op::U16 { node: 0, big: false }], &[fixed(12)], None), None);
        assert_eq!(copied(&[Op::U8 { node: 0 }], &[Encode::Parts], None), None);
        assert_eq!(copied(&[Op::Str { node: 0, unit: 1 }], &[Encode::Utf8(Encoding::Utf8)], None), None);
        assert_eq!(copied(&[Op::F32 { node: 0, big: false }], &[Encode::Float32(LITTLE)], None), None);
        assert_eq!(copied(&[Op::Advance { bits: 8 }], &[], None), None);
        let counted = [Encode::Counted(LITTLE), fixed(8)];
        let bytes = Op::Integers { node: 0, len: 0, bytes: 1, signed: false, big: false };
        assert_eq!(copied(&[bytes], &counted, None), None);
    }
}
