//! Conditions as bytes, for the way into another process: a number for each kind, then its parts; lengths are `u32`. What is
//! read comes from somebody else, and is checked.

use super::{Comparison, FieldCondition, Literal, MAX_DEPTH, MAX_PARTS, Number, Operand, OperandPart};
use crate::bytes::{ByteReader, put_bytes};

/// The bytes are no condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadCondition;

impl FieldCondition {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.put(&mut bytes);
        bytes
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        let put_all = |kind: u8, all: &[FieldCondition], bytes: &mut Vec<u8>| {
            bytes.push(kind);
            bytes.extend((all.len() as u32).to_le_bytes());
            all.iter().for_each(|one| one.put(bytes));
        };
        match self {
            FieldCondition::Const(value) => bytes.push(u8::from(*value)),
            FieldCondition::Not(inner) => {
                bytes.push(2);
                inner.put(bytes);
            }
            FieldCondition::All(all) => put_all(3, all, bytes),
            FieldCondition::Any(all) => put_all(4, all, bytes),
            FieldCondition::Truth(operand) => {
                bytes.push(5);
                operand.put(bytes);
            }
            FieldCondition::Compare(left, comparison, right) => {
                bytes.extend([6, *comparison as u8]);
                left.put(bytes);
                right.put(bytes);
            }
        }
    }

    /// The condition of these bytes, all of them.
    ///
    /// # Errors
    /// When the bytes are none, or it is nested deeper than [`MAX_DEPTH`] or has more than [`MAX_PARTS`] parts.
    pub fn decode(bytes: &[u8]) -> Result<FieldCondition, BadCondition> {
        let mut reader = ConditionReader { bytes: ByteReader(bytes), parts: MAX_PARTS };
        let condition = reader.condition(MAX_DEPTH).ok_or(BadCondition)?;
        if reader.bytes.0.is_empty() { Ok(condition) } else { Err(BadCondition) }
    }
}

impl Operand {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend((self.parts.len() as u32).to_le_bytes());
        for part in &self.parts {
            match part {
                OperandPart::Name => bytes.push(0),
                OperandPart::Field(name) => {
                    bytes.push(1);
                    put_bytes(bytes, name.as_bytes());
                }
                OperandPart::Number(number) => {
                    bytes.push(2);
                    bytes.extend(number.to_le_bytes());
                }
            }
        }
    }
}

impl Literal {
    fn put(&self, bytes: &mut Vec<u8>) {
        match self {
            Literal::Operand(operand) => {
                bytes.push(0);
                operand.put(bytes);
            }
            Literal::Number(Number { floor, has_fraction, real }) => {
                bytes.extend([1, u8::from(*has_fraction), u8::from(real.is_some())]);
                bytes.extend(floor.to_le_bytes());
                bytes.extend(real.unwrap_or(0.0).to_le_bytes());
            }
            Literal::Bool(value) => bytes.extend([2, u8::from(*value)]),
            Literal::Text(text) => {
                bytes.push(3);
                put_bytes(bytes, text);
            }
            Literal::Glob(glob) => {
                bytes.push(4);
                put_bytes(bytes, glob);
            }
        }
    }
}

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

struct ConditionReader<'a> {
    bytes: ByteReader<'a>,
    /// Parts that it may still have.
    parts: usize,
}

impl ConditionReader<'_> {
    fn spend(&mut self) -> Option<()> {
        self.parts = self.parts.checked_sub(1)?;
        Some(())
    }

    fn condition(&mut self, depth: usize) -> Option<FieldCondition> {
        let below = depth.checked_sub(1)?;
        self.spend()?;
        Some(match self.bytes.u8()? {
            kind @ (0 | 1) => FieldCondition::Const(kind == 1),
            2 => FieldCondition::Not(Box::new(self.condition(below)?)),
            kind @ (3 | 4) => {
                let mut all = Vec::new();
                for _ in 0..self.bytes.u32()? {
                    all.push(self.condition(below)?);
                }
                if kind == 3 { FieldCondition::All(all) } else { FieldCondition::Any(all) }
            }
            5 => FieldCondition::Truth(self.operand()?),
            6 => {
                let comparison = *COMPARISONS.get(usize::from(self.bytes.u8()?))?;
                FieldCondition::Compare(self.operand()?, comparison, self.literal()?)
            }
            _ => return None,
        })
    }

    fn operand(&mut self) -> Option<Operand> {
        let count = self.bytes.u32()?;
        let mut parts = Vec::new();
        for _ in 0..count {
            self.spend()?;
            parts.push(match self.bytes.u8()? {
                0 => OperandPart::Name,
                1 => OperandPart::Field(self.bytes.text()?.to_string()),
                2 => OperandPart::Number(self.bytes.i128()?),
                _ => return None,
            });
        }
        (!parts.is_empty()).then_some(Operand { parts })
    }

    fn literal(&mut self) -> Option<Literal> {
        let flag = |bytes: &mut ByteReader<'_>| bytes.u8().filter(|byte| *byte <= 1).map(|byte| byte == 1);
        Some(match self.bytes.u8()? {
            0 => Literal::Operand(self.operand()?),
            1 => {
                let (has_fraction, has_real) = (flag(&mut self.bytes)?, flag(&mut self.bytes)?);
                let floor = self.bytes.i128()?;
                let real = f64::from_bits(self.bytes.u64()?);
                Literal::Number(Number { floor, has_fraction, real: has_real.then_some(real) })
            }
            2 => Literal::Bool(flag(&mut self.bytes)?),
            3 => Literal::Text(self.bytes.bytes()?.to_vec()),
            4 => Literal::Glob(self.bytes.bytes()?.to_vec()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> FieldCondition {
        let field = |name: &str| Operand { parts: vec![OperandPart::Field(name.to_string())] };
        let number = Number { floor: -3, has_fraction: true, real: Some(-2.5) };
        FieldCondition::All(vec![
            FieldCondition::Not(Box::new(FieldCondition::Truth(field("ok")))),
            FieldCondition::Any(vec![
                FieldCondition::Compare(field("a"), Comparison::GreaterOrEqual, Literal::Number(number)),
                FieldCondition::Compare(
                    Operand { parts: vec![OperandPart::Name] },
                    Comparison::NotEqual,
                    Literal::Glob(b"app:*".to_vec()),
                ),
                FieldCondition::Compare(
                    Operand { parts: vec![OperandPart::Field("flags".to_string()), OperandPart::Number(i128::MIN)] },
                    Comparison::Equal,
                    Literal::Operand(field("b")),
                ),
            ]),
            FieldCondition::Compare(field("t"), Comparison::Less, Literal::Text(b"x\xff".to_vec())),
            FieldCondition::Compare(field("u"), Comparison::Equal, Literal::Bool(true)),
            FieldCondition::Const(true),
        ])
    }

    #[test]
    fn what_is_written_is_read_back() {
        let condition = sample();
        assert_eq!(FieldCondition::decode(&condition.encode()), Ok(condition));
    }

    /// Whatever bytes come: they are read or refused, and what is read is written the same.
    #[test]
    fn other_bytes_are_refused() {
        let bytes = sample().encode();
        for len in 0..bytes.len() {
            assert_eq!(FieldCondition::decode(&bytes[..len]), Err(BadCondition), "{len}");
        }
        assert_eq!(FieldCondition::decode(&[&bytes[..], &[0]].concat()), Err(BadCondition));
        for at in 0..bytes.len() {
            for change in [1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                if let Ok(condition) = FieldCondition::decode(&changed) {
                    assert_eq!(condition.encode().len(), changed.len());
                    let _ = condition.bind("x", &["a", "b"]).is_true("x", |_| super::super::PlainValue::Integer(1));
                }
            }
        }
        assert_eq!(FieldCondition::decode(&[2; 1000]), Err(BadCondition), "too deep");
        let many = FieldCondition::All(vec![FieldCondition::Const(true); MAX_PARTS]);
        assert_eq!(FieldCondition::decode(&many.encode()), Err(BadCondition), "too many");
    }
}
