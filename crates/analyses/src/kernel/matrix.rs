//! Matrices: tables with a row for each pair, as people see them who compare: one of the pair down the side, the other across.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::kernel::table::{Column, MatrixForm, Table};
use crate::kernel::value::{Cell, Value};

/// A line of a matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct MatrixLine {
    /// Values of the columns that name it.
    pub names: Vec<Cell>,
    /// The sum of its cells.
    pub total: i128,
    /// Its cells by the numbers of their columns, which rise; other cells are empty.
    cells: Vec<(usize, i128)>,
}

impl MatrixLine {
    /// Its cell in a column.
    pub fn cell(&self, column: usize) -> Option<i128> {
        let at = self.cells.binary_search_by_key(&column, |(own, _)| *own).ok()?;
        Some(self.cells[at].1)
    }

    /// The sum of its cells from a column on.
    pub fn from_column(&self, column: usize) -> i128 {
        let first = self.cells.partition_point(|(own, _)| *own < column);
        self.cells[first..].iter().map(|(_, amount)| amount).sum()
    }
}

/// A matrix. Its lines and its columns have the largest sums first.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// How it was made.
    pub form: MatrixForm,
    /// The amounts' column.
    pub amount: Column,
    /// The columns that name lines.
    pub names: Vec<Column>,
    /// Its columns: their titles and sums.
    pub across: Vec<(String, i128)>,
    /// Its lines.
    pub lines: Vec<MatrixLine>,
}

impl Matrix {
    /// The matrix of a table; `None` if the table is not of pairs, or has no rows.
    pub fn of_table(table: &Table) -> Option<Matrix> {
        let form = table.matrix?;
        let places = |keys: &[&str]| -> Vec<usize> { keys.iter().filter_map(|key| table.column(key)).collect() };
        let (lines, across, amount) = (places(form.lines), places(form.across), table.column(form.amount)?);
        let (mut first, mut second) = (Names::default(), Names::default());
        let mut cells: BTreeMap<(usize, usize), i128> = BTreeMap::new();
        table.rows.for_each(&mut |row| {
            if let Value::Integer(amount) = row[amount] {
                let pair = (first.add(row, &lines, amount), second.add(row, &across, amount));
                *cells.entry(pair).or_default() += amount;
            }
        });
        if cells.is_empty() {
            return None;
        }
        let (first, second) = (first.sorted(), second.sorted());
        let mut place = vec![0; second.len()];
        second.iter().enumerate().for_each(|(at, (number, ..))| place[*number] = at);
        let lines_of = first.into_iter().map(|(number, names, total)| {
            let own = cells.range((number, 0)..(number + 1, 0));
            let mut cells: Vec<(usize, i128)> = own.map(|((_, column), amount)| (place[*column], *amount)).collect();
            cells.sort_unstable();
            MatrixLine { names, total, cells }
        });
        let title = |names: &[Cell]| (form.title)(&names.iter().map(Value::from).collect::<Vec<_>>());
        Some(Matrix {
            form,
            amount: table.columns[amount].clone(),
            names: lines.iter().map(|&at| table.columns[at].clone()).collect(),
            across: second.iter().map(|(_, names, total)| (title(names), *total)).collect(),
            lines: lines_of.collect(),
        })
    }

    /// The sum of all cells.
    pub fn total(&self) -> i128 {
        self.across.iter().map(|(_, total)| total).sum()
    }
}

/// Names as a key.
#[derive(Clone)]
struct Key(Vec<Cell>);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let differs = self.0.iter().zip(&other.0).map(|(a, b)| a.order(b)).find(|order| order.is_ne());
        differs.unwrap_or_else(|| self.0.len().cmp(&other.0.len()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// Names in the order in which they came: the number of each, and its sum.
#[derive(Default)]
struct Names(BTreeMap<Key, (usize, i128)>);

impl Names {
    /// The number of the names in some places of a row, to whose sum an amount is added.
    fn add(&mut self, row: &[Value<'_>], places: &[usize], amount: i128) -> usize {
        let key = Key(places.iter().map(|&at| Cell::from(row[at])).collect());
        let next = self.0.len();
        let (number, total) = self.0.entry(key).or_insert((next, 0));
        *total += amount;
        *number
    }

    /// The names with their numbers and sums, the largest first; equal ones by their names.
    fn sorted(self) -> Vec<(usize, Vec<Cell>, i128)> {
        let mut all: Vec<_> = self.0.into_iter().map(|(key, (number, total))| (number, key.0, total)).collect();
        all.sort_by_key(|(.., total)| std::cmp::Reverse(*total));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::table::Unit;
    use crate::kernel::testing::seeds::for_each_rng;

    const FORM: MatrixForm = MatrixForm {
        lines: &["trace", "tid"],
        across: &["by"],
        title: |names| match names {
            [Value::Integer(by)] => format!("by {by}"),
            _ => "?".to_string(),
        },
        amount: "total_ns",
        noun: "threads",
        legend: "",
    };

    fn table(rows: &[(i128, Option<i128>, i128)]) -> Table {
        let columns = [("by", Unit::Name), ("tid", Unit::Name), ("total_ns", Unit::Duration)];
        let rows: Vec<Vec<Cell>> =
            rows.iter().map(|(tid, by, total)| vec![Cell::integer(*by), (*tid).into(), (*total).into()]).collect();
        Table {
            columns: columns.map(|(name, unit)| Column::new(name, unit)).into(),
            rows: rows.into(),
            matrix: Some(FORM),
            ..Table::default()
        }
    }

    #[test]
    fn lines_and_columns_have_the_largest_sums_first() {
        let matrix = Matrix::of_table(&table(&[(5, Some(7), 10), (6, None, 40), (5, Some(8), 20), (4, Some(7), 30)]));
        let matrix = matrix.expect("a matrix");
        // The table has no column of this key.
        assert_eq!(matrix.names.iter().map(|column| &*column.name).collect::<Vec<_>>(), ["tid"]);
        let across: Vec<(&str, i128)> = matrix.across.iter().map(|(title, total)| (&**title, *total)).collect();
        assert_eq!(across, [("?", 40), ("by 7", 40), ("by 8", 20)]);
        let lines: Vec<_> = matrix
            .lines
            .iter()
            .map(|line| (line.names[0].clone(), [0, 1, 2].map(|at| line.cell(at)), line.from_column(1), line.total))
            .collect();
        let wanted = [
            (Cell::from(6), [Some(40), None, None], 0, 40),
            (Cell::from(4), [None, Some(30), None], 30, 30),
            (Cell::from(5), [None, Some(10), Some(20)], 30, 30),
        ];
        assert_eq!(lines, wanted);
        assert_eq!(matrix.total(), 100);
        assert!(Matrix::of_table(&table(&[])).is_none());
        assert!(Matrix::of_table(&Table { matrix: None, ..table(&[(1, None, 1)]) }).is_none());
    }

    #[test]
    fn sums_are_those_of_the_rows() {
        for_each_rng(200, |rng| {
            let mut number = |below| i128::from(rng.below(below));
            let rows: Vec<(i128, Option<i128>, i128)> =
                (0..=number(60)).map(|_| (number(8), Some(number(9)).filter(|by| *by > 0), number(1000))).collect();
            let matrix = Matrix::of_table(&table(&rows)).expect("a matrix");
            let sum = |is_of: &dyn Fn(i128, Option<i128>) -> bool| -> i128 {
                rows.iter().filter(|(tid, by, _)| is_of(*tid, *by)).map(|(.., amount)| amount).sum()
            };
            let title = |by: Option<i128>| by.map_or("?".to_string(), |by| format!("by {by}"));
            for line in &matrix.lines {
                let is_own = |tid| line.names == [Cell::Integer(tid)];
                assert_eq!(line.total, sum(&|tid, _| is_own(tid)));
                for (at, (own, _)) in matrix.across.iter().enumerate() {
                    let found = line.cell(at).unwrap_or(0);
                    assert_eq!(found, sum(&|tid, by| is_own(tid) && title(by) == *own));
                    let rest = |title: &String| matrix.across[at..].iter().any(|(other, _)| other == title);
                    assert_eq!(line.from_column(at), sum(&|tid, by| is_own(tid) && rest(&title(by))));
                }
            }
            for (own, total) in &matrix.across {
                assert_eq!(*total, sum(&|_, by| title(by) == *own));
            }
            assert_eq!(matrix.total(), sum(&|_, _| true));
            assert!(matrix.lines.is_sorted_by_key(|line| std::cmp::Reverse(line.total)));
            assert!(matrix.across.is_sorted_by_key(|(_, total)| std::cmp::Reverse(*total)));
        });
    }
}
