//! Tables: what an analysis says, in rows of cells, for whatever shows them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use tracemill_semantics::states::Ns;

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

    /// A word of the program: letters, digits and signs that no format writes otherwise.
    pub fn name(value: &'static str) -> Cell {
        Cell::Text(Cow::Borrowed(value))
    }

    /// The order of values in rows: nothing first.
    pub fn order(&self, other: &Cell) -> Ordering {
        let rank = |cell: &Cell| match cell {
            Cell::Null => 0,
            Cell::Bool(_) => 1,
            Cell::Integer(_) | Cell::Real(_) => 2,
            Cell::Text(_) => 3,
            Cell::Counts(_) => 4,
        };
        match (self, other) {
            (Cell::Integer(a), Cell::Integer(b)) => a.cmp(b),
            (Cell::Real(a), Cell::Real(b)) => a.total_cmp(b),
            (Cell::Integer(a), Cell::Real(b)) => (*a as f64).total_cmp(b),
            (Cell::Real(a), Cell::Integer(b)) => a.total_cmp(&(*b as f64)),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }
}

impl<T: Into<i128>> From<T> for Cell {
    fn from(value: T) -> Cell {
        Cell::Integer(value.into())
    }
}

/// What the values of a column are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A name or a number that names something.
    Name,
    /// A number of things.
    Count,
    /// A time in ns.
    Time,
    /// A duration in ns.
    Duration,
    /// A part of 1.
    Share,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its key: names of times and durations end with `_ns`, but for `from` and `to`.
    pub name: Cow<'static, str>,
    /// Its unit.
    pub unit: Unit,
}

impl Column {
    /// A column.
    pub fn new(name: &'static str, unit: Unit) -> Column {
        Column { name: Cow::Borrowed(name), unit }
    }
}

/// Shorthand for several columns of one unit.
pub(crate) fn columns(unit: Unit, names: &[&'static str]) -> impl Iterator<Item = Column> {
    names.iter().map(move |name| Column::new(name, unit))
}

/// How rows are ordered unless the user says otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// As they are.
    #[default]
    Found,
    /// By the columns from the first on.
    Keys,
    /// By this column, the largest first, then by the columns from the first on.
    Largest(&'static str),
}

/// A period that a table is about.
#[derive(Clone, PartialEq, Debug)]
pub struct PeriodOf {
    /// Name of the period.
    pub name: String,
    /// Its beginning.
    pub from: Ns,
    /// Its end.
    pub to: Ns,
    /// The values that both of its ends have.
    pub values: Vec<(String, Cell)>,
}

impl PeriodOf {
    /// The period of a row in a list of `periods`.
    pub fn of_row(columns: &[Column], row: &[Cell]) -> Option<PeriodOf> {
        let at = |name: &str| columns.iter().position(|column| column.name == name);
        let (name, from, to) = (at("period")?, at("from")?, at("to")?);
        // Values stand between the name and the times.
        let values = (name + 1..from).filter(|&at| *row.get(at).unwrap_or(&Cell::Null) != Cell::Null);
        let values = values.map(|at| (columns[at].name.to_string(), row[at].clone())).collect();
        match (row.get(name)?, row.get(from)?, row.get(to)?) {
            (Cell::Text(name), Cell::Integer(from), Cell::Integer(to)) => {
                Some(PeriodOf { name: name.to_string(), from: *from, to: *to, values })
            }
            _ => None,
        }
    }
}

/// Rows that are kept in less space than their cells take.
pub(crate) trait Packed {
    /// Their number.
    fn len(&self) -> usize;
    /// Appends the cells of a row.
    fn put(&self, at: usize, row: &mut Vec<Cell>);
}

/// The rows of a table, in their order.
#[derive(Clone)]
pub enum Rows {
    /// Each with its cells.
    Cells(Vec<Vec<Cell>>),
    /// The first ones of some that are kept in less space.
    Packed(PackedRows),
}

/// See [`Rows::Packed`].
#[derive(Clone)]
pub struct PackedRows {
    of: Rc<dyn Packed>,
    len: usize,
}

impl Default for Rows {
    fn default() -> Self {
        Rows::Cells(Vec::new())
    }
}

impl From<Vec<Vec<Cell>>> for Rows {
    fn from(rows: Vec<Vec<Cell>>) -> Self {
        Rows::Cells(rows)
    }
}

impl Rows {
    pub(crate) fn packed(of: impl Packed + 'static) -> Rows {
        let len = of.len();
        Rows::Packed(PackedRows { of: Rc::new(of), len })
    }

    /// Their number.
    pub fn len(&self) -> usize {
        match self {
            Rows::Cells(rows) => rows.len(),
            Rows::Packed(rows) => rows.len,
        }
    }

    /// Is there no row?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the first ones, so many at most.
    pub fn truncate(&mut self, most: usize) {
        match self {
            Rows::Cells(rows) => rows.truncate(most),
            Rows::Packed(rows) => rows.len = rows.len.min(most),
        }
    }

    /// Shows each row.
    pub fn for_each(&self, mut each: impl FnMut(&[Cell])) {
        match self {
            Rows::Cells(rows) => rows.iter().for_each(|row| each(row)),
            Rows::Packed(rows) => {
                let mut row = Vec::new();
                for at in 0..rows.len {
                    row.clear();
                    rows.of.put(at, &mut row);
                    each(&row);
                }
            }
        }
    }

    /// The rows with their cells.
    pub fn cells(&mut self) -> &mut Vec<Vec<Cell>> {
        if let Rows::Packed(_) = self {
            let mut cells = Vec::with_capacity(self.len());
            self.for_each(|row| cells.push(row.to_vec()));
            *self = Rows::Cells(cells);
        }
        let Rows::Cells(rows) = self else { unreachable!("they were unpacked") };
        rows
    }
}

/// What an analysis says.
#[derive(Clone, Default)]
pub struct Table {
    /// Name of the analysis.
    pub analysis: &'static str,
    /// The period that it is about, when it is made for each of them.
    pub period: Option<Rc<PeriodOf>>,
    /// The range that it is about; `None` without any event.
    pub range: Option<(Ns, Ns)>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Their values, row by row.
    pub rows: Rows,
    /// Order of the rows.
    pub order: Order,
    /// Values over all rows.
    pub all: Vec<(Column, Cell)>,
    /// A second table: its name, columns and rows.
    pub totals: Option<(Vec<Column>, Vec<Vec<Cell>>)>,
    /// What was left out or did not fit together.
    pub notes: Vec<(&'static str, u64)>,
    /// CPUs that lost events.
    pub lost_on: Vec<u64>,
    /// Columns of values and a bar of their sizes.
    pub is_histogram: bool,
    /// Are percentiles exact?
    pub is_rough: bool,
}

impl Table {
    /// Index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Sorts the rows in their order.
    pub fn sort(&mut self) {
        match self.order {
            Order::Found => {}
            Order::Keys => self.rows.cells().sort_by(|a, b| by_keys(a, b)),
            Order::Largest(name) => {
                let column = self.column(name);
                self.rows.cells().sort_by(|a, b| {
                    let largest = column.map_or(Ordering::Equal, |at| b[at].order(&a[at]));
                    largest.then_with(|| by_keys(a, b))
                });
            }
        }
    }

    /// Sorts the rows by a column: amounts fall, names and times rise. Equal rows stay in their order.
    ///
    /// Gives false when there is no such column.
    pub fn sort_by(&mut self, name: &str) -> bool {
        let Some(at) = self.column(name) else { return false };
        let falls = matches!(self.columns[at].unit, Unit::Count | Unit::Duration | Unit::Share);
        self.rows.cells().sort_by(|a, b| if falls { b[at].order(&a[at]) } else { a[at].order(&b[at]) });
        true
    }
}

/// The order of rows by their columns from the first on.
pub(crate) fn by_keys(a: &[Cell], b: &[Cell]) -> Ordering {
    a.iter().zip(b).map(|(a, b)| a.order(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
