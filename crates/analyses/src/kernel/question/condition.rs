//! Conditions on rows, in the language of filters: paths are columns.

use tracemill_engine::filter::{CapturedValue, ColumnKind, Expression, Lookup, RowFilter};
use tracemill_model::error::Result;

use crate::kernel::analysis::Descriptor;
use crate::kernel::question::query::{AnalysisQuery, RowTest};
use crate::kernel::table::Unit;
use crate::kernel::value::Value;

/// A condition on the rows of an analysis. Columns are called by their keys or by their titles; those of a title are in its
/// unit.
pub struct Condition {
    filter: RowFilter,
    /// For each name its column, and the factor from the values of that.
    names: Vec<(usize, f64)>,
}

impl Condition {
    /// Looks up the columns of the table that is asked for.
    ///
    /// # Errors
    /// When the table has no such column, or when a comparison can never be true; with the place in the expression.
    pub fn new(expression: &Expression, known: &Descriptor, query: &AnalysisQuery) -> Result<Condition> {
        let columns = known.columns_for(query);
        let kind =
            |unit| if matches!(unit, Unit::Name | Unit::Address) { ColumnKind::Any } else { ColumnKind::Numbers };
        // Keys come first: a title may be the key of another column.
        let mut names: Vec<(String, ColumnKind, usize, f64)> = Vec::new();
        let all = columns
            .iter()
            .enumerate()
            .flat_map(|(at, column)| column.names().map(move |(name, factor)| (name, kind(column.unit), at, factor)));
        let (keys, titles): (Vec<_>, Vec<_>) = all.partition(|(name, _, at, _)| *name == columns[*at].name);
        for named in keys.into_iter().chain(titles) {
            if !names.iter().any(|(name, ..)| *name == named.0) {
                names.push(named);
            }
        }
        let columns: Vec<(&str, ColumnKind)> = names.iter().map(|(name, kind, ..)| (&**name, *kind)).collect();
        let filter = expression.bind_row(&columns)?;
        Ok(Condition { filter, names: names.iter().map(|(.., at, factor)| (*at, *factor)).collect() })
    }
}

impl RowTest for Condition {
    fn accepts(&self, row: &[Value<'_>]) -> bool {
        self.filter.matches(&Row { values: row, names: &self.names })
    }
}

struct Row<'a> {
    values: &'a [Value<'a>],
    names: &'a [(usize, f64)],
}

/// A value in the unit of a title. Of decimal factors below 1 the inverse is exact, so that the result is the number that a
/// table shows.
fn scaled(value: f64, factor: f64) -> f64 {
    if factor < 1.0 { value / (1.0 / factor).round() } else { value * factor }
}

impl Lookup for Row<'_> {
    fn value(&self, index: usize) -> Option<CapturedValue<'_>> {
        let (at, factor) = *self.names.get(index)?;
        Some(match *self.values.get(at)? {
            Value::Null => return None,
            Value::Integer(value) if factor != 1.0 => CapturedValue::Real(scaled(value as f64, factor)),
            Value::Real(value) if factor != 1.0 => CapturedValue::Real(scaled(value, factor)),
            Value::Integer(value) => CapturedValue::Integer(value),
            Value::Real(value) => CapturedValue::Real(value),
            Value::Text(text) | Value::Word(text) => CapturedValue::Text(text.as_bytes()),
            Value::Bool(value) => CapturedValue::Boolean(value),
            Value::Counts(counts) if counts.is_empty() => return None,
            Value::Counts(_) => CapturedValue::Tree,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tracemill_semantics::states::Machines;

    use super::*;
    use crate::kernel::{ANALYSES, Cell, View};

    #[test]
    fn every_analysis_has_its_columns_without_events() {
        for known in ANALYSES {
            for view in [View::Statistics, View::Log]
                .into_iter()
                .filter(|view| known.forms[0].has_spans() || *view != View::Log)
            {
                let query = AnalysisQuery { view, ..AnalysisQuery::default() };
                let analysis = (known.make)(&query);
                let table = analysis.finish(&Rc::new(Machines::new(1)), Some((0, 0)));
                assert!(!table.columns.is_empty() && table.rows.is_empty(), "{}", known.name);
                assert_eq!(known.columns_for(&query), table.columns, "{}", known.name);
            }
        }
    }

    #[test]
    fn cells_are_compared_by_their_kind() {
        let known = Descriptor::find("syscalls").unwrap();
        let keeps = |text: &str| {
            let condition =
                Condition::new(&Expression::parse(text).unwrap(), known, &AnalysisQuery::default()).unwrap();
            // Name, count and the other statistics, errors, errnos.
            let mut row = vec![Cell::Text("read".into()), Cell::Integer(3)];
            row.extend([100, 10, 50].map(Cell::Integer));
            row.extend([Cell::Real(33.5), Cell::Real(0.5), Cell::Integer(40)]);
            row.extend([50, 50, 50].map(Cell::Integer));
            row.extend([Cell::Integer(0), Cell::Counts(Vec::new())]);
            condition.accepts(&row.iter().map(Value::from).collect::<Vec<_>>())
        };
        assert!(keeps("name == \"re*\" and mean_ns > 33 and mean_ns < 34") && keeps("count == 3 and not errnos"));
        assert!(!keeps("errors > 0") && !keeps("name == \"write\""));
    }

    #[test]
    fn an_unknown_column_is_an_error() {
        let known = Descriptor::find("cpu").unwrap();
        let error =
            Condition::new(&Expression::parse("shar > 0.5").unwrap(), known, &AnalysisQuery::default()).err().unwrap();
        assert_eq!(error.message(), "the table has no column `shar`");
        assert_eq!(error.place().text.as_ref().unwrap().column, 1);
    }
}
