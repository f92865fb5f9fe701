//! Tables of pairs for people: a matrix, where a line has room for it.

use tracemill_analyses::kernel::Matrix;
use tracemill_codec::text::escaped;
use tracemill_codec::text::out::Out;
use tracemill_table::{Column, TableStyle, TextTable, Unit, Value, put_wrapped};

use super::analyze_rows::Paged;

/// Characters of a line of a sentence beside a table that goes to no terminal.
pub(super) const SENTENCE_WIDTH: usize = 100;

/// Columns of a matrix at most, but for that of the others: more of them cannot be taken in.
const MOST: usize = 8;

/// A matrix as text.
pub(super) struct MatrixText<'m> {
    matrix: &'m Matrix,
    columns: Vec<Column>,
    /// The lines, and below them the sums of all lines.
    lines: Vec<Vec<String>>,
}

impl<'m> MatrixText<'m> {
    /// The first lines of a matrix, with as many columns as there is room for; `None` if that is only one of several.
    pub(super) fn new(matrix: &'m Matrix, limit: usize, style: &TableStyle) -> Option<MatrixText<'m>> {
        let least = matrix.across.len().min(2);
        let fits = |text: &MatrixText<'_>| style.width.is_none_or(|most| text.table(style).layout().width() <= most);
        let most = matrix.across.len().min(MOST);
        (least..=most).rev().map(|columns| MatrixText::with_columns(matrix, columns, limit, style)).find(fits)
    }

    /// The matrix with its first columns.
    fn with_columns(matrix: &'m Matrix, shown: usize, limit: usize, style: &TableStyle) -> MatrixText<'m> {
        let number = |title: &str| Column::new(title.to_string(), Unit::Count);
        let across = matrix.across[..shown].iter().map(|(title, _)| number(&escaped(title)));
        let others = matrix.across.len() - shown;
        let others_title = (others > 0).then(|| number(&format!("{others} others")));
        let names = matrix.names.iter().cloned();
        let columns = names.chain(across).chain(others_title).chain([number("total")]).collect();
        let amount = |amount: i128| style.format_value(Value::Integer(amount), matrix.amount.unit);
        let line_of = |names: Vec<String>, cells: &dyn Fn(usize) -> Option<i128>, of_others: i128, total: i128| {
            let cells = (0..shown).map(|at| cells(at).map_or(String::new(), amount));
            let of_others = (others > 0).then(|| if of_others > 0 { amount(of_others) } else { String::new() });
            names.into_iter().chain(cells).chain(of_others).chain([amount(total)]).collect::<Vec<String>>()
        };
        let mut lines: Vec<Vec<String>> = Vec::new();
        for line in matrix.lines.iter().take(limit) {
            let shown_name = |(name, column): (_, &Column)| style.format_value(Value::from(name), column.unit);
            let names = line.names.iter().zip(&matrix.names).map(shown_name).collect();
            lines.push(line_of(names, &|at| line.cell(at), line.from_column(shown), line.total));
        }
        // One line says all that there is, unless --limit left others out.
        if matrix.lines.len() != 1 {
            let mut names = vec![String::new(); matrix.names.len()];
            names.iter_mut().take(1).for_each(|name| *name = "(all)".to_string());
            let of_others = matrix.across[shown..].iter().map(|(_, total)| total).sum();
            lines.push(line_of(names, &|at| Some(matrix.across[at].1), of_others, matrix.total()));
        }
        MatrixText { matrix, columns, lines }
    }

    /// Its layout.
    fn table<'t>(&'t self, style: &'t TableStyle) -> TextTable<'t> {
        let mut table = TextTable::new(self.columns.iter().enumerate().collect(), style);
        self.lines.iter().for_each(|line| table.layout().widen(line));
        table
    }

    /// Writes it.
    pub(super) fn put(&self, page: &mut Paged, style: &TableStyle) {
        put_wrapped(&mut page.out, "", self.matrix.form.legend, 2, style.width.unwrap_or(SENTENCE_WIDTH));
        let mut table = self.table(style);
        table.put_titles(&mut page.out);
        for line in &self.lines {
            table.layout().put_line(&mut page.out, line);
            page.flush_full();
        }
        let (shown, all) = (self.lines.len() - usize::from(self.matrix.lines.len() != 1), self.matrix.lines.len());
        if shown < all {
            put_left_out(&mut page.out, shown, all, self.matrix.form.noun);
        }
    }
}

/// Says how many rows of a table `--limit` left out.
pub(super) fn put_left_out(out: &mut Out, shown: usize, all: usize, noun: &str) {
    out.put_fmt(format_args!("{shown} of {all} {noun}\n"));
}

#[cfg(test)]
mod tests {
    use tracemill_analyses::kernel::{Cell, MatrixForm, Table};
    use tracemill_table::TableClock;

    use super::*;

    const FORM: MatrixForm = MatrixForm {
        lines: &["tid"],
        across: &["by"],
        title: |names| match names {
            [Value::Integer(by)] => format!("task {by}"),
            _ => "a\tb".to_string(),
        },
        amount: "total_ns",
        noun: "threads",
        legend: "how it is read",
    };

    fn text(rows: &[(i128, Option<i128>, i128)], limit: usize, width: Option<usize>) -> Option<String> {
        let columns = [("tid", Unit::Name), ("by", Unit::Name), ("total_ns", Unit::Duration)];
        let rows = rows.iter().map(|(tid, by, total)| vec![(*tid).into(), Cell::integer(*by), (*total).into()]);
        let table = Table {
            columns: columns.map(|(name, unit)| Column::new(name, unit)).into(),
            rows: rows.collect::<Vec<_>>().into(),
            matrix: Some(FORM),
            ..Table::default()
        };
        let matrix = Matrix::of_table(&table).expect("there are rows");
        let style = TableStyle { is_colored: false, width, clock: TableClock::seconds() };
        let mut page = Paged::default();
        MatrixText::new(&matrix, limit, &style)?.put(&mut page, &style);
        Some(String::from_utf8(page.out.written().to_vec()).expect("text"))
    }

    #[test]
    fn lines_have_sums_over_all_columns_and_columns_over_all_lines() {
        let rows = [(5, Some(1), 4000), (5, None, 20_000), (6, Some(1), 1500), (7, Some(2), 1)];
        let wanted = "how it is read\n\
                      tid      a\\tb  task 1  task 2   total\n\
                      5      20.000   4.000          24.000\n\
                      6               1.500           1.500\n\
                      7                       0.001   0.001\n\
                      (all)  20.000   5.500   0.001  25.501\n";
        assert_eq!(text(&rows, 9, None).expect("a matrix"), wanted);
        // The sums are those of all lines, shown or not.
        let found = text(&rows, 1, None).expect("a matrix");
        assert!(found.ends_with("\n(all)  20.000   5.500   0.001  25.501\n1 of 3 threads\n"), "{found}");
        assert_eq!(found.lines().count(), 5);
        // One line is its own sum.
        assert_eq!(text(&rows[3..], 9, None).expect("a matrix").lines().count(), 3);
    }

    #[test]
    fn columns_for_which_there_is_no_room_are_summed_up() {
        let rows: Vec<_> = (1..=12).map(|by| (5 + by % 2, Some(by), by * 1000)).collect();
        let titles = |width| text(&rows, 9, width).map(|text| text.lines().nth(1).unwrap_or_default().to_string());
        let wide = titles(None).expect("a matrix");
        assert!(wide.contains("task 12") && wide.ends_with(" task 5  4 others   total"), "{wide}");
        for most in 20..100 {
            let Some(text) = text(&rows, 9, Some(most)) else {
                assert!(most < 46, "{most}");
                continue;
            };
            assert!(text.lines().all(|line| line.len() <= most), "{most}: {text}");
            let sums: Vec<f64> = text
                .lines()
                .last()
                .unwrap_or_default()
                .split_whitespace()
                .skip(1)
                .map(|n| n.parse().expect(n))
                .collect();
            let (total, cells) = sums.split_last().expect("a total");
            assert_eq!((*total, cells.iter().sum::<f64>()), (78.0, 78.0), "{text}");
        }
        assert_eq!(titles(Some(30)), None);
    }
}
