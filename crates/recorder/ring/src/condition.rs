//! Conditions about the fields of an event: those of `--filter` that can be decided where an event is recorded. Whoever has
//! the text compiles it; the recorder binds it once to each place that records, and evaluates it there.
//!
//! The values of an event are numbers of at most 64 bits, truth values, texts and lists; they are compared as `docs/filters.md`
//! says.

mod encoding;
mod evaluate;

pub use encoding::BadCondition;

/// Conditions within each other; deeper ones are refused. A signal handler evaluates them on its own stack.
pub const MAX_DEPTH: usize = 32;
/// Parts of a condition in all.
pub const MAX_PARTS: usize = 4096;

/// A condition. `F` is a field: its name, or after [`FieldCondition::bind`] its place in the event, if it has one.
#[derive(Clone, PartialEq, Debug)]
pub enum FieldCondition<F = String> {
    /// Always or never.
    Const(bool),
    /// The opposite.
    Not(Box<FieldCondition<F>>),
    /// All of these are true.
    All(Vec<FieldCondition<F>>),
    /// One of these is true.
    Any(Vec<FieldCondition<F>>),
    /// The value is there, and is neither zero, empty nor false.
    Truth(Operand<F>),
    /// The values compare so.
    Compare(Operand<F>, Comparison, Literal<F>),
}

/// A value of the event, or the bits that several integers share.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand<F = String> {
    /// Never empty.
    pub parts: Vec<OperandPart<F>>,
}

/// A part of a mask, or the whole of an operand.
#[derive(Clone, PartialEq, Debug)]
pub enum OperandPart<F = String> {
    /// The name of the event.
    Name,
    /// A field.
    Field(F),
    /// A number that masks the others.
    Number(i128),
}

/// The right side of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal<F = String> {
    /// Another value of the event.
    Operand(Operand<F>),
    /// A number.
    Number(Number),
    /// A truth value.
    Bool(bool),
    /// A text, byte for byte.
    Text(Vec<u8>),
    /// A glob, for equality only.
    Glob(Vec<u8>),
}

/// A number as it was written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Number {
    /// The largest integer that is not above it. Integers beyond 128 bits are the last that fit: no event has them.
    pub floor: i128,
    /// Is it above that?
    pub has_fraction: bool,
    /// The nearest float, if it was written with a point or an exponent.
    pub real: Option<f64>,
}

/// How two values compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A value of an event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PlainValue<'a> {
    /// An integer.
    Integer(i128),
    /// A float.
    Real(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(&'a [u8]),
    /// A list, and whether it has elements.
    List(bool),
}

impl FieldCondition {
    /// The condition about events of this name, whose fields have these names. What does not depend on values is decided.
    pub fn bind(&self, name: &str, fields: &[&str]) -> FieldCondition<usize> {
        let bind_all = |all: &[FieldCondition], decider: bool| {
            let mut left = Vec::new();
            for condition in all {
                match condition.bind(name, fields) {
                    FieldCondition::Const(value) if value == decider => return Err(decider),
                    FieldCondition::Const(_) => {}
                    bound => left.push(bound),
                }
            }
            if left.is_empty() { Err(!decider) } else { Ok(left) }
        };
        match self {
            FieldCondition::Const(value) => FieldCondition::Const(*value),
            FieldCondition::Not(inner) => match inner.bind(name, fields) {
                FieldCondition::Const(value) => FieldCondition::Const(!value),
                inner => FieldCondition::Not(Box::new(inner)),
            },
            FieldCondition::All(all) => bind_all(all, false).map_or_else(FieldCondition::Const, FieldCondition::All),
            FieldCondition::Any(all) => bind_all(all, true).map_or_else(FieldCondition::Const, FieldCondition::Any),
            FieldCondition::Truth(operand) => match operand.bind(fields) {
                None => FieldCondition::Const(false),
                Some(operand) => FieldCondition::Truth(operand).decided(name),
            },
            FieldCondition::Compare(left, comparison, right) => match (left.bind(fields), right.bind(fields)) {
                (Some(left), Some(right)) => FieldCondition::Compare(left, *comparison, right).decided(name),
                _ => FieldCondition::Const(false),
            },
        }
    }

    /// The names of the fields that it is about.
    pub fn fields(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.add_fields(&mut names);
        names.sort_unstable();
        names.dedup();
        names
    }

    fn add_fields<'a>(&'a self, names: &mut Vec<&'a str>) {
        let of = |operand: &'a Operand, names: &mut Vec<&'a str>| {
            names.extend(operand.parts.iter().filter_map(|part| match part {
                OperandPart::Field(name) => Some(name.as_str()),
                _ => None,
            }));
        };
        match self {
            FieldCondition::Const(_) => {}
            FieldCondition::Not(inner) => inner.add_fields(names),
            FieldCondition::All(all) | FieldCondition::Any(all) => all.iter().for_each(|one| one.add_fields(names)),
            FieldCondition::Truth(operand) => of(operand, names),
            FieldCondition::Compare(left, _, right) => {
                of(left, names);
                if let Literal::Operand(right) = right {
                    of(right, names);
                }
            }
        }
    }
}

impl FieldCondition<usize> {
    /// A condition that needs no value of the event, decided.
    fn decided(self, name: &str) -> FieldCondition<usize> {
        let has_field =
            |operand: &Operand<usize>| operand.parts.iter().any(|part| matches!(part, OperandPart::Field(_)));
        let needs_values = match &self {
            FieldCondition::Truth(operand) => has_field(operand),
            FieldCondition::Compare(left, _, Literal::Operand(right)) => has_field(left) || has_field(right),
            FieldCondition::Compare(left, ..) => has_field(left),
            _ => true,
        };
        if needs_values { self } else { FieldCondition::Const(self.is_true(name, |_| PlainValue::List(false))) }
    }
}

impl Operand {
    /// `None` when the event lacks a field of it.
    fn bind(&self, fields: &[&str]) -> Option<Operand<usize>> {
        let bind = |part: &OperandPart| {
            Some(match part {
                OperandPart::Name => OperandPart::Name,
                OperandPart::Number(number) => OperandPart::Number(*number),
                OperandPart::Field(name) => OperandPart::Field(fields.iter().position(|field| field == name)?),
            })
        };
        Some(Operand { parts: self.parts.iter().map(bind).collect::<Option<_>>()? })
    }
}

impl Literal {
    fn bind(&self, fields: &[&str]) -> Option<Literal<usize>> {
        Some(match self {
            Literal::Operand(operand) => Literal::Operand(operand.bind(fields)?),
            Literal::Number(number) => Literal::Number(*number),
            Literal::Bool(value) => Literal::Bool(*value),
            Literal::Text(text) => Literal::Text(text.clone()),
            Literal::Glob(glob) => Literal::Glob(glob.clone()),
        })
    }
}
