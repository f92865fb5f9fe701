//! Columns of rows: each is declared once, by its name, its unit and the function that gives its value. Tables take their
//! columns from the same list as rows take their values, so that no value stands in the column of another.

use tracemill_semantics::states::Ns;

use crate::kernel::table::{Column, Unit, known_column};
use crate::kernel::value::{Cell, Value};

/// A column of rows that are made of an `R`.
pub(crate) struct ColumnOf<'v, R> {
    name: &'static str,
    unit: Unit,
    meaning: &'static str,
    value: fn(&R) -> Value<'v>,
}

/// A column that means the same in many tables: `columns.rs` says what.
pub(crate) const fn column<'v, R>(name: &'static str, unit: Unit, value: fn(&R) -> Value<'v>) -> ColumnOf<'v, R> {
    ColumnOf { name, unit, meaning: "", value }
}

/// A column with a meaning of its own, as the help of the analysis shows it.
pub(crate) const fn own_column<'v, R>(
    name: &'static str,
    unit: Unit,
    meaning: &'static str,
    value: fn(&R) -> Value<'v>,
) -> ColumnOf<'v, R> {
    ColumnOf { name, unit, meaning, value }
}

impl<'v, R> ColumnOf<'v, R> {
    /// The column, without what gives its values.
    pub(crate) fn column(&self) -> Column {
        Column { meaning: self.meaning, ..known_column(self.name, self.unit) }
    }

    /// The value of a row.
    #[inline]
    pub(crate) fn value(&self, row: &R) -> Value<'v> {
        (self.value)(row)
    }
}

/// Columns, without what gives their values.
pub(crate) fn columns_of<R>(columns: &[ColumnOf<'_, R>]) -> impl Iterator<Item = Column> {
    columns.iter().map(ColumnOf::column)
}

/// The values of a row in some columns.
#[inline]
pub(crate) fn values_of<'c, 'v, R>(
    columns: &'c [ColumnOf<'v, R>],
    row: R,
) -> impl Iterator<Item = Value<'v>> + use<'c, 'v, R> {
    columns.iter().map(move |column| column.value(&row))
}

/// Columns, each with the cell of a row.
pub(crate) fn cells_of<R>(columns: &[ColumnOf<'_, R>], row: &R) -> Vec<(Column, Cell)> {
    columns.iter().map(|column| (column.column(), Cell::from(column.value(row)))).collect()
}

/// A part of a length of time.
pub(crate) fn share(time: Ns, length: Ns) -> Value<'static> {
    if length > 0 { Value::Real(time as f64 / length as f64) } else { Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Run<'r> {
        name: &'r str,
        length: u64,
    }

    impl<'r> Run<'r> {
        const COLUMNS: &'r [ColumnOf<'r, Self>] = &[
            column("name", Unit::Name, |run| Value::Text(run.name)),
            own_column("length_ns", Unit::Duration, "how long it was", |run| run.length.into()),
        ];
    }

    #[test]
    fn a_value_stands_in_the_column_that_gives_it() {
        let name = String::from("run");
        let found = cells_of(Run::COLUMNS, &Run { name: &name, length: 7 });
        let named: Vec<(&str, &Cell)> = found.iter().map(|(column, cell)| (&*column.name, cell)).collect();
        assert_eq!(named, [("name", &Cell::text(Some("run"))), ("length_ns", &Cell::Integer(7))]);
        let meanings: Vec<&str> = columns_of(Run::COLUMNS).map(|column| column.meaning).collect();
        assert_eq!(meanings, ["", "how long it was"]);
        let cells: Vec<Cell> = values_of(Run::COLUMNS, Run { name: &name, length: 7 }).map(Cell::from).collect();
        assert_eq!(cells, [Cell::text(Some("run")), Cell::Integer(7)]);
    }
}
