//! Rows of a table as bytes: a cell takes one to nine of them, where a [`Cell`] takes 32 and what it owns.

use std::cmp::Ordering;
use std::rc::Rc;

use tracemill_codec::bits::put_leb;

use crate::kernel::value::{Cell, Counts, Value, put_text, take_leb, take_text};

/// The rows of a table, in their order.
#[derive(Clone, Default)]
pub struct Rows {
    bytes: Vec<u8>,
    /// Where each row begins.
    starts: Starts,
    /// Words of the program that occur: rows name them by their index.
    words: Vec<&'static str>,
    /// The first large number: times are near each other and far from zero.
    base: i64,
    /// In the place of all that: rows that are made when they are shown.
    made: Option<Made>,
}

/// Places in bytes: in 32 bits as long as these are enough.
#[derive(Clone)]
enum Starts {
    Short(Vec<u32>),
    Long(Vec<u64>),
}

impl Default for Starts {
    fn default() -> Self {
        Starts::Short(Vec::new())
    }
}

impl Starts {
    fn len(&self) -> usize {
        match self {
            Starts::Short(starts) => starts.len(),
            Starts::Long(starts) => starts.len(),
        }
    }

    #[cfg(test)]
    fn size(&self) -> usize {
        match self {
            Starts::Short(starts) => size_of_val(&**starts),
            Starts::Long(starts) => size_of_val(&**starts),
        }
    }

    #[inline]
    fn get(&self, at: usize) -> usize {
        match self {
            Starts::Short(starts) => starts[at] as usize,
            Starts::Long(starts) => starts[at] as usize,
        }
    }

    #[inline]
    fn push(&mut self, start: usize) {
        match (&mut *self, u32::try_from(start)) {
            (Starts::Short(starts), Ok(start)) => starts.push(start),
            _ => self.push_long(start as u64),
        }
    }

    #[cold]
    fn push_long(&mut self, start: u64) {
        if let Starts::Short(starts) = self {
            *self = Starts::Long(starts.iter().map(|start| u64::from(*start)).collect());
        }
        if let Starts::Long(starts) = self {
            starts.push(start);
        }
    }

    fn truncate(&mut self, most: usize) {
        match self {
            Starts::Short(starts) => starts.truncate(most),
            Starts::Long(starts) => starts.truncate(most),
        }
    }

    /// The starts of the rows at some places, in their order.
    fn select(&self, places: impl Iterator<Item = u32>) -> Starts {
        match self {
            Starts::Short(starts) => Starts::Short(places.map(|at| starts[at as usize]).collect()),
            Starts::Long(starts) => Starts::Long(places.map(|at| starts[at as usize]).collect()),
        }
    }
}

/// Rows that are made when they are shown, out of what is kept of them anyway.
#[derive(Clone)]
struct Made {
    source: Rc<dyn Source>,
    order: Vec<u32>,
}

/// The source of rows that are made when they are shown.
pub(crate) trait Source {
    /// Appends the values of a row.
    fn append_row<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>);

    /// A number that never falls where rows are in the order of their values: so most of them need not be compared.
    fn rank(&self, row: u32) -> i64;

    /// Appends the first values of a row, which tell apart most of those with one rank.
    fn put_head<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
        self.append_row(row, values);
    }

    /// The value of a row in a column.
    fn value(&self, row: u32, column: usize) -> Value<'_> {
        let mut values = Vec::new();
        self.append_row(row, &mut values);
        values.get(column).copied().unwrap_or(Value::Null)
    }
}

// The first byte of a cell says what it is; from `SMALL` on it is a number by itself.
const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const REAL: u8 = 3;
const WORD: u8 = 4;
const TEXT: u8 = 5;
const COUNTS: u8 = 6;
const WIDE: u8 = 7;
const END: u8 = 8;
/// An integer of one byte; those after it have up to eight.
const INTEGER: u8 = 9;
/// A number to be added to the base, in one byte; those after it have up to eight.
const FROM_BASE: u8 = 17;
const SMALL: u8 = 25;

/// Numbers from here on make a base.
const LARGE: i64 = 1 << 40;

impl Rows {
    /// Their number.
    pub fn len(&self) -> usize {
        self.made.as_ref().map_or(self.starts.len(), |made| made.order.len())
    }

    /// Bytes that they take, beside those of what they are made of.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        let order = self.made.as_ref().map_or(0, |made| size_of_val(&*made.order));
        self.bytes.len() + self.starts.size() + order
    }

    /// Is there no row?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows that are made of a source when they are shown.
    pub(crate) fn from_source(source: Rc<dyn Source>, order: Vec<u32>) -> Rows {
        Rows { made: Some(Made { source, order }), ..Rows::default() }
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[Cell]) {
        self.push_values(row.iter().map(Value::from));
    }

    /// Appends a row, value by value.
    #[inline]
    pub fn push_values<'v>(&mut self, row: impl Iterator<Item = Value<'v>>) {
        self.starts.push(self.bytes.len());
        row.for_each(|value| self.encode_value(value));
        self.bytes.push(END);
    }

    /// Keeps the first ones, so many at most.
    pub fn truncate(&mut self, most: usize) {
        match &mut self.made {
            Some(made) => made.order.truncate(most),
            None => self.starts.truncate(most),
        }
    }

    fn encode_value(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.bytes.push(NULL),
            Value::Bool(value) => self.bytes.push(if value { TRUE } else { FALSE }),
            Value::Real(value) => {
                self.bytes.push(REAL);
                self.bytes.extend(value.to_le_bytes());
            }
            Value::Word(word) => {
                let at = self.words.iter().position(|own| std::ptr::eq(*own, word) || *own == word);
                let at = at.unwrap_or_else(|| {
                    self.words.push(word);
                    self.words.len() - 1
                });
                self.bytes.push(WORD);
                put_leb(&mut self.bytes, at as u64, false);
            }
            Value::Text(text) => {
                self.bytes.push(TEXT);
                put_text(&mut self.bytes, text);
            }
            Value::Counts(counts) => {
                self.bytes.push(COUNTS);
                put_leb(&mut self.bytes, counts.len(), false);
                counts.for_each(|name, count| {
                    put_text(&mut self.bytes, name);
                    put_leb(&mut self.bytes, count, false);
                });
            }
            Value::Integer(value) => self.put_integer(value),
        }
    }

    fn put_integer(&mut self, value: i128) {
        let Ok(value) = i64::try_from(value) else {
            self.bytes.push(WIDE);
            return self.bytes.extend(value.to_le_bytes());
        };
        if let Some(small) = u8::try_from(value).ok().and_then(|value| value.checked_add(SMALL)) {
            return self.bytes.push(small);
        }
        if self.base == 0 && value > LARGE {
            self.base = value;
        }
        let (kind, value) = match value.checked_sub(self.base) {
            Some(more) if value > LARGE => (FROM_BASE, more),
            _ => (INTEGER, value),
        };
        // The sign stands in the last bit, so that numbers near zero are short.
        let value = (value << 1 ^ value >> 63) as u64;
        let len = (8 - value.leading_zeros() / 8).max(1);
        let at = self.bytes.len() + 1;
        self.bytes.push(kind + len as u8 - 1);
        self.bytes.extend(value.to_le_bytes());
        self.bytes.truncate(at + len as usize);
    }

    /// The values of a row.
    pub(crate) fn values(&self, at: usize) -> Values<'_> {
        self.values_from(self.starts.get(at))
    }

    fn values_from(&self, start: usize) -> Values<'_> {
        Values { rows: self, bytes: &self.bytes[start..] }
    }

    /// Shows the values of each row.
    pub fn for_each<'r>(&'r self, each: &mut dyn FnMut(&[Value<'r>])) {
        let mut row = Vec::new();
        for at in 0..self.len() {
            row.clear();
            match &self.made {
                Some(made) => made.source.append_row(made.order[at], &mut row),
                None => {
                    for value in self.values(at) {
                        row.push(value);
                    }
                }
            }
            each(&row);
        }
    }

    /// All rows with their cells, which take ten times the space.
    pub fn cells(&self) -> Vec<Vec<Cell>> {
        let mut cells = Vec::with_capacity(self.len());
        self.for_each(&mut |row| cells.push(row.iter().map(|value| Cell::from(*value)).collect()));
        cells
    }

    /// Sorts rows by their cells from the first on.
    pub(crate) fn sort(&mut self) {
        if let Some(made) = &mut self.made {
            return made.sort();
        }
        let mut starts = std::mem::take(&mut self.starts);
        match &mut starts {
            Starts::Short(starts) => self.sort_starts(starts),
            Starts::Long(starts) => self.sort_starts(starts),
        }
        self.starts = starts;
    }

    fn sort_starts<T: Copy + Ord + Into<u64>>(&self, starts: &mut [T]) {
        let row = |start: &T| self.values_from(Into::<u64>::into(*start) as usize);
        // Rows may differ although their order is equal: then they stay as they were found.
        starts.sort_unstable_by(|a, b| cmp_all(row(a), row(b)).then(a.cmp(b)));
    }

    /// Brings rows into another order.
    pub(crate) fn reorder(&mut self, order: impl Iterator<Item = u32>) {
        self.starts = self.starts.select(order);
    }

    /// Sorts rows by one of their cells, the largest first or last. Equal ones stay in their order.
    pub(crate) fn sort_by_column(&mut self, column: usize, is_falling: bool) {
        if let Some(made) = &mut self.made {
            return made.sort_by_column(column, is_falling);
        }
        let value = |at: u32| self.values(at as usize).nth(column).unwrap_or(Value::Null);
        let places = places_by(self.len() as u32, value, is_falling);
        self.reorder(places.into_iter());
    }
}

impl Made {
    /// As [`Rows::sort`].
    fn sort(&mut self) {
        let Made { source, order } = self;
        let row = |row: u32| {
            let mut values = Vec::new();
            source.append_row(row, &mut values);
            values
        };
        let keyed: Option<Vec<u64>> = order
            .iter()
            .map(|&row| u32::try_from(source.rank(row)).ok().map(|rank| u64::from(rank) << 32 | u64::from(row)))
            .collect();
        match keyed {
            Some(mut keyed) => {
                keyed.sort_unstable();
                order.iter_mut().zip(keyed).for_each(|(row, key)| *row = key as u32);
            }
            // Larger ranks are asked for again each time: to keep them takes as much room as the rows.
            None => order.sort_unstable_by_key(|&row| (source.rank(row), row)),
        }
        let head = |row: u32| {
            let mut values = Vec::new();
            source.put_head(row, &mut values);
            values
        };
        for equal in order.chunk_by_mut(|a, b| source.rank(*a) == source.rank(*b)).filter(|equal| equal.len() > 1) {
            equal.sort_by(|a, b| {
                let by_all = || cmp_all(row(*a).into_iter(), row(*b).into_iter());
                cmp_all(head(*a).into_iter(), head(*b).into_iter()).then_with(by_all)
            });
        }
    }

    /// As [`Rows::sort_by_column`].
    fn sort_by_column(&mut self, column: usize, is_falling: bool) {
        let Made { source, order } = self;
        let places = places_by(order.len() as u32, |at| source.value(order[at as usize], column), is_falling);
        *order = places.into_iter().map(|at| order[at as usize]).collect();
    }
}

/// The places of so many values in their order, the largest first or last. Equal ones stay in their order.
fn places_by<'v>(count: u32, value: impl Fn(u32) -> Value<'v>, is_falling: bool) -> Vec<u32> {
    let number = |at: u32| match value(at) {
        Value::Integer(number) => i64::try_from(number).ok(),
        _ => None,
    };
    // Amounts are numbers, for which less room is enough.
    let numbers: Option<Vec<(i64, u32)>> = (0..count).map(|at| Some((number(at)?, at))).collect();
    match numbers {
        Some(mut keyed) => {
            // Places after the numbers keep equal ones in their order.
            let by = |a: i64, b: i64| if is_falling { b.cmp(&a) } else { a.cmp(&b) };
            keyed.sort_unstable_by(|a, b| by(a.0, b.0).then(a.1.cmp(&b.1)));
            keyed.into_iter().map(|(_, at)| at).collect()
        }
        None => {
            let mut keyed: Vec<(Value<'_>, u32)> = (0..count).map(|at| (value(at), at)).collect();
            keyed.sort_by(|(a, _), (b, _)| if is_falling { b.order(a) } else { a.order(b) });
            keyed.into_iter().map(|(_, at)| at).collect()
        }
    }
}

impl From<Vec<Vec<Cell>>> for Rows {
    fn from(cells: Vec<Vec<Cell>>) -> Self {
        let mut rows = Rows::default();
        cells.iter().for_each(|row| rows.push(row));
        rows
    }
}

/// The values of a row, from the first on.
pub(crate) struct Values<'r> {
    rows: &'r Rows,
    bytes: &'r [u8],
}

/// The order of two rows by all their values.
fn cmp_all<'v>(a: impl Iterator<Item = Value<'v>>, b: impl Iterator<Item = Value<'v>>) -> Ordering {
    a.zip(b).map(|(a, b)| a.order(&b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl<'r> Iterator for Values<'r> {
    type Item = Value<'r>;

    #[inline]
    fn next(&mut self) -> Option<Value<'r>> {
        let (&kind, rest) = self.bytes.split_first()?;
        if kind == END {
            return None;
        }
        self.bytes = rest;
        let bytes = &mut self.bytes;
        Some(match kind {
            NULL => Value::Null,
            FALSE | TRUE => Value::Bool(kind == TRUE),
            REAL => Value::Real(f64::from_le_bytes(take(bytes))),
            WORD => Value::Word(self.rows.words[take_leb(bytes) as usize]),
            TEXT => Value::Text(take_text(bytes)),
            COUNTS => {
                let count = take_leb(bytes);
                let all = *bytes;
                skip_counts(bytes, count);
                Value::Counts(Counts::packed(count, all))
            }
            INTEGER..FROM_BASE => Value::Integer(take_integer(bytes, kind - INTEGER).into()),
            FROM_BASE..SMALL => {
                let more = take_integer(bytes, kind - FROM_BASE);
                Value::Integer(i128::from(self.rows.base) + i128::from(more))
            }
            WIDE => Value::Integer(i128::from_le_bytes(take(bytes))),
            small => Value::Integer((small - SMALL).into()),
        })
    }
}

#[cold]
fn skip_counts(bytes: &mut &[u8], count: u64) {
    for _ in 0..count {
        take_text(bytes);
        take_leb(bytes);
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let Some((first, rest)) = bytes.split_first_chunk() else { unreachable!("rows are whole") };
    *bytes = rest;
    *first
}

/// Takes an integer of this many bytes more than one.
#[inline]
fn take_integer(bytes: &mut &[u8], more: u8) -> i64 {
    let len = usize::from(more) + 1;
    let value = match bytes.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight) & u64::MAX >> (64 - 8 * len),
        None => bytes[..len].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)),
    };
    *bytes = &bytes[len..];
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back() {
        let integers = [0, 1, 239, 240, -1, i64::MAX.into(), i64::MIN.into(), i128::MAX, i128::MIN, 1 << 41, 1 << 40];
        let times = [1_700_000_000_000_000_000i128, 1_700_000_000_000_000_001, 1_600_000_000_000_000_000];
        let mut cells: Vec<Cell> = integers.into_iter().chain(times).map(Cell::Integer).collect();
        cells.extend([Cell::Null, Cell::Bool(true), Cell::Bool(false), Cell::Real(0.1), Cell::Real(f64::MIN)]);
        cells.extend([Cell::name("a"), Cell::name(""), Cell::name("a"), Cell::text(Some("ä")), Cell::text(Some(""))]);
        cells.push(Cell::Counts(vec![("x".to_string(), 1), (String::new(), u64::MAX)]));
        cells.extend([Cell::Counts(Vec::new()), Cell::from(7u64)]);
        let expected = vec![cells.clone(), Vec::new(), cells.into_iter().rev().collect()];
        let rows = Rows::from(expected.clone());
        assert_eq!(rows.cells(), expected);
    }

    struct Texts(Vec<Vec<Cell>>);

    impl Source for Texts {
        fn append_row<'s>(&'s self, row: u32, values: &mut Vec<Value<'s>>) {
            values.extend(self.0[row as usize].iter().map(Value::from));
        }

        fn rank(&self, row: u32) -> i64 {
            if let Cell::Integer(number) = self.0[row as usize][0] { number as i64 / 2 } else { i64::MIN }
        }
    }

    #[test]
    fn rows_that_are_made_have_the_order_of_those_that_are_kept() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut row = || {
            let number = |of: u64| if of == 0 { Cell::Null } else { Cell::from(of as i64 - 3) };
            vec![
                number(next(9)),
                Cell::text(Some(["b", "a", ""][next(3) as usize])),
                Cell::from(next(5)),
                number(next(4)),
            ]
        };
        let cells: Vec<Vec<Cell>> = (0..200).map(|_| row()).collect();
        let wanted: Vec<u32> = (0..200).filter(|at| at % 7 != 0).collect();
        for column in [None, Some((1, false)), Some((2, true)), Some((2, false)), Some((3, true)), Some((9, false))] {
            let mut made = Rows::from_source(Rc::new(Texts(cells.clone())), wanted.clone());
            let mut kept: Rows = wanted.iter().map(|at| cells[*at as usize].clone()).collect::<Vec<_>>().into();
            assert_eq!((made.cells(), made.len()), (kept.cells(), kept.len()));
            for rows in [&mut made, &mut kept] {
                rows.sort();
                column.iter().for_each(|(column, is_falling)| rows.sort_by_column(*column, *is_falling));
                rows.truncate(150);
            }
            assert_eq!((made.cells(), made.len()), (kept.cells(), 150));
        }
    }

    #[test]
    fn rows_are_sorted_by_a_column_or_by_all() {
        let row = |a: i64, b: &'static str| vec![Cell::from(a), Cell::name(b)];
        let mut rows = Rows::from(vec![row(2, "b"), row(300, "a"), row(2, "a"), row(-5, "c")]);
        let shown = |rows: &Rows| {
            let mut text = String::new();
            rows.for_each(&mut |row| text.push_str(&format!("{:?} ", Cell::from(row[0]))));
            text.replace("Integer", "")
        };
        rows.sort_by_column(0, true);
        assert_eq!(shown(&rows), "(300) (2) (2) (-5) ");
        rows.sort_by_column(1, false);
        assert_eq!(shown(&rows), "(300) (2) (2) (-5) ");
        rows.sort();
        assert_eq!(shown(&rows), "(-5) (2) (2) (300) ");
        rows.truncate(1);
        assert_eq!((shown(&rows).as_str(), rows.len()), ("(-5) ", 1));
    }

    #[test]
    fn places_beyond_32_bits_are_kept() {
        let mut starts = Starts::default();
        let places = [0, 7, u32::MAX as usize, u32::MAX as usize + 1, 1 << 40, 3];
        places.iter().for_each(|place| starts.push(*place));
        let all = |starts: &Starts| (0..starts.len()).map(|at| starts.get(at)).collect::<Vec<_>>();
        assert_eq!(all(&starts), places);
        assert_eq!(all(&starts.select([4, 0, 2].into_iter())), [1 << 40, 0, u32::MAX as usize]);
        starts.truncate(3);
        assert_eq!(all(&starts), places[..3]);
        // Rows are found and sorted by such places as by short ones.
        let mut rows = Rows::from(vec![vec![Cell::from(5)], vec![Cell::from(300)], vec![Cell::from(-1)]]);
        let Starts::Short(short) = &rows.starts else { unreachable!("there are few") };
        rows.starts = Starts::Long(short.iter().map(|start| u64::from(*start)).collect());
        rows.sort();
        assert_eq!(rows.cells(), [[Cell::from(-1)], [Cell::from(5)], [Cell::from(300)]]);
        rows.sort_by_column(0, true);
        rows.truncate(2);
        assert_eq!(rows.cells(), [[Cell::from(300)], [Cell::from(5)]]);
    }
}
