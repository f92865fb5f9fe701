//! Values of tables: a [`Cell`], and a [`Value`], which borrows what a cell owns.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::packed::{take_leb, take_text};

/// A value of a table.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// Not known.
    Null,
    /// An integer.
    Integer(i128),
    /// A number with a fraction.
    Real(f64),
    /// A text; a borrowed one is a word of the program, as [`Cell::name`] makes it.
    Text(Cow<'static, str>),
    /// A truth.
    Bool(bool),
    /// Names, and how often each of them occurred.
    Counts(Vec<(String, u64)>),
}

impl Cell {
    /// An integer, or nothing.
    pub fn integer(value: Option<impl Into<i128>>) -> Cell {
        value.map_or(Cell::Null, |value| Cell::Integer(value.into()))
    }

    /// A text, or nothing.
    pub fn text(value: Option<&str>) -> Cell {
        value.map_or(Cell::Null, |value| Cell::Text(Cow::Owned(value.to_string())))
    }

    /// The order of values in rows: nothing first.
    pub fn order(&self, other: &Cell) -> Ordering {
        Value::from(self).order(&Value::from(other))
    }

    /// A word of the program: letters, digits and signs that no format writes otherwise.
    pub fn name(value: &'static str) -> Cell {
        Cell::Text(Cow::Borrowed(value))
    }
}

impl<T: Into<i128>> From<T> for Cell {
    fn from(value: T) -> Cell {
        Cell::Integer(value.into())
    }
}

/// A value of a row: as a [`Cell`] that owns nothing.
#[derive(Clone, Copy)]
pub enum Value<'r> {
    /// Not known.
    Null,
    /// A truth.
    Bool(bool),
    /// An integer.
    Integer(i128),
    /// A number with a fraction.
    Real(f64),
    /// A text.
    Text(&'r str),
    /// A word of the program, as [`Cell::name`] makes it.
    Word(&'static str),
    /// Names, and how often each of them occurred.
    Counts(Counts<'r>),
}

impl<T: Into<i128>> From<T> for Value<'_> {
    #[inline]
    fn from(value: T) -> Self {
        Value::Integer(value.into())
    }
}

/// Names, and how often each of them occurred.
#[derive(Clone, Copy)]
pub struct Counts<'r>(CountsAs<'r>);

#[derive(Clone, Copy)]
enum CountsAs<'r> {
    /// Their number, and what follows.
    Bytes(u64, &'r [u8]),
    Cell(&'r [(String, u64)]),
}

impl<'r> Counts<'r> {
    /// No names.
    pub const NONE: Counts<'static> = Counts(CountsAs::Cell(&[]));

    /// This number of names, each a text and its count as [`packed`](crate::packed) writes them.
    #[inline]
    pub fn packed(number: u64, bytes: &'r [u8]) -> Counts<'r> {
        Counts(CountsAs::Bytes(number, bytes))
    }

    /// Shows each name with its count.
    pub fn for_each(self, mut each: impl FnMut(&'r str, u64)) {
        match self.0 {
            CountsAs::Cell(counts) => counts.iter().for_each(|(name, count)| each(name, *count)),
            CountsAs::Bytes(number, mut bytes) => {
                for _ in 0..number {
                    let name = take_text(&mut bytes);
                    each(name, take_leb(&mut bytes));
                }
            }
        }
    }

    /// Their number.
    pub fn len(self) -> u64 {
        match self.0 {
            CountsAs::Cell(counts) => counts.len() as u64,
            CountsAs::Bytes(number, _) => number,
        }
    }

    /// Is there none?
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl<'r> From<&'r Cell> for Value<'r> {
    #[inline]
    fn from(cell: &'r Cell) -> Self {
        match cell {
            Cell::Null => Value::Null,
            Cell::Bool(value) => Value::Bool(*value),
            Cell::Integer(value) => Value::Integer(*value),
            Cell::Real(value) => Value::Real(*value),
            Cell::Text(Cow::Borrowed(word)) => Value::Word(word),
            Cell::Text(text) => Value::Text(text),
            Cell::Counts(counts) => Value::Counts(Counts(CountsAs::Cell(counts))),
        }
    }
}

impl<'r> Value<'r> {
    /// An integer, or nothing.
    #[inline]
    pub fn integer(value: Option<impl Into<i128>>) -> Value<'r> {
        value.map_or(Value::Null, |value| Value::Integer(value.into()))
    }

    /// A text, or nothing.
    #[inline]
    pub fn text(value: Option<&'r str>) -> Value<'r> {
        value.map_or(Value::Null, Value::Text)
    }

    /// The order of values in rows: nothing first. Counts are all alike.
    pub fn order(&self, other: &Self) -> Ordering {
        use Value::{Bool, Counts, Integer, Null, Real, Text, Word};
        let rank = |value: &Value<'_>| match value {
            Null => 0,
            Bool(_) => 1,
            Integer(_) | Real(_) => 2,
            Text(_) | Word(_) => 3,
            Counts(..) => 4,
        };
        match (self, other) {
            (Integer(a), Integer(b)) => a.cmp(b),
            (Real(a), Real(b)) => a.total_cmp(b),
            (Integer(a), Real(b)) => (*a as f64).total_cmp(b),
            (Real(a), Integer(b)) => a.total_cmp(&(*b as f64)),
            (Text(a) | Word(a), Text(b) | Word(b)) => (*a).cmp(*b),
            (Bool(a), Bool(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl From<Value<'_>> for Cell {
    #[inline]
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Cell::Null,
            Value::Bool(value) => Cell::Bool(value),
            Value::Integer(value) => Cell::Integer(value),
            Value::Real(value) => Cell::Real(value),
            Value::Text(text) => Cell::Text(Cow::Owned(text.to_string())),
            Value::Word(word) => Cell::name(word),
            Value::Counts(counts) => Cell::Counts(owned(counts)),
        }
    }
}

#[cold]
fn owned(counts: Counts<'_>) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    counts.for_each(|name, count| found.push((name.to_string(), count)));
    found
}
