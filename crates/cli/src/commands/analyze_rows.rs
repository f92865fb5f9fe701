//! Rows of `analyze` for programs: JSON, JSON lines, CSV, all at the end or as they are found.

use std::rc::Rc;

use tracemill_analyses::kernel::{RowForm, Rows, StateLines, StateRow, Table, state_kinds};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings::put_json;
use tracemill_model::error::Error;
use tracemill_table::{Cell, Column, RowObjects, TableFormat, TableWriter, Value, put_json_value};

use super::analyze_forms::Tables;
use crate::args::AnalyzeFormat;
use crate::report::{Outcome, OutputSink};

/// Bytes that are written at once.
const TOGETHER: usize = 64 << 10;

/// Output on its way: what is written to `out` is handed to the sink page by page. Without a sink it is kept.
#[derive(Default)]
pub(super) struct Paged {
    pub(super) out: Out,
    sink: Option<OutputSink>,
    failed: Option<Error>,
}

impl Paged {
    pub(super) fn new(sink: OutputSink) -> Self {
        Paged { sink: Some(sink), ..Paged::default() }
    }

    /// Hands on what is written when it is a page. To be called between lines.
    #[inline]
    pub(super) fn flush_full(&mut self) {
        if self.out.len() >= TOGETHER {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Some(sink) = &mut self.sink else { return };
        if self.failed.is_none()
            && let Err(error) = sink.write(self.out.written())
        {
            self.failed = Some(error);
        }
        self.out.clear();
    }

    /// Ends the output.
    ///
    /// # Errors
    /// The first one of writing.
    pub(super) fn end(&mut self, outcome: Outcome) -> Result<Outcome, Error> {
        self.flush();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.sink.take().map_or(Ok(outcome), |sink| sink.print(b"", outcome))
    }
}

// ---- JSON ---------------------------------------------------------------------------------------------------------

/// The kinds of rows that an analysis has in one table: those of `states` have the members of their kind.
fn kinds_of(analysis: &str, columns: &[Column]) -> Vec<(usize, Vec<bool>)> {
    if analysis == "states" { state_kinds(columns) } else { Vec::new() }
}

fn objects_of(analysis: &str, columns: &[Column]) -> RowObjects {
    RowObjects::new(columns.iter().map(|column| &*column.name)).with_kinds(kinds_of(analysis, columns))
}

/// All rows, as the elements of an array.
fn put_all(objects: &RowObjects, page: &mut Paged, rows: &Rows) {
    page.out.put_byte(b'[');
    let mut is_first = true;
    rows.for_each(&mut |row| {
        if !std::mem::take(&mut is_first) {
            page.out.put_byte(b',');
        }
        objects.write_row(&mut page.out, row);
        page.flush_full();
    });
    page.out.put_byte(b']');
}

/// All tables as one object: that of the only one when one analysis was named.
pub(super) fn json(page: &mut Paged, tables: Tables<'_>, is_single: bool) {
    if let [table] = tables
        && table.period.is_none()
        && is_single
    {
        put_object(page, table);
    } else {
        page.out.put(b"{\"analyses\":[");
        for (at, table) in tables.iter().enumerate() {
            if at > 0 {
                page.out.put_byte(b',');
            }
            put_object(page, table);
        }
        page.out.put(b"]}");
    }
    page.out.put_byte(b'\n');
}

fn put_object(page: &mut Paged, table: &Table) {
    let out = &mut page.out;
    out.put_fmt(format_args!("{{\"analysis\":\"{}\",", table.analysis));
    if let Some(period) = &table.period {
        out.put(b"\"period\":");
        put_json(out, period.name.as_bytes());
        if !period.values.is_empty() {
            out.put(b",\"match\":");
            let pairs = period.values.iter().map(|(name, value)| (&**name, value));
            put_pairs(out, pairs);
        }
        out.put_fmt(format_args!(",\"from\":{},\"to\":{},", period.from, period.to));
    }
    for (name, at) in [("begin_ns", table.range.map(|range| range.0)), ("end_ns", table.range.map(|range| range.1))] {
        out.put_fmt(format_args!("\"{name}\":"));
        put_json_value(out, at.map_or(Value::Null, Value::Integer));
        out.put_byte(b',');
    }
    out.put(b"\"rows\":");
    put_all(&objects_of(table.analysis, &table.columns), page, &table.rows);
    let out = &mut page.out;
    out.put(b",\"all\":");
    put_pairs(out, table.all.iter().map(|(column, cell)| (&*column.name, cell)));
    if let Some((columns, rows)) = &table.totals {
        out.put(b",\"totals\":");
        put_all(&objects_of("", columns), page, &rows.clone().into());
    }
    let out = &mut page.out;
    if !table.sentences.is_empty() {
        out.put(b",\"sentences\":[");
        for (at, sentence) in table.sentences.iter().enumerate() {
            if at > 0 {
                out.put_byte(b',');
            }
            put_json(out, sentence.as_bytes());
        }
        out.put_byte(b']');
    }
    out.put(b",\"notes\":");
    let notes: Vec<(&str, Cell)> = table.notes.iter().map(|(name, count)| (*name, Cell::from(*count))).collect();
    put_pairs(out, notes.iter().map(|(name, cell)| (*name, cell)));
    out.put_byte(b'}');
}

/// Names and values, as an object.
fn put_pairs<'p>(out: &mut Out, pairs: impl Iterator<Item = (&'p str, &'p Cell)>) {
    out.put_byte(b'{');
    for (at, (name, cell)) in pairs.enumerate() {
        if at > 0 {
            out.put_byte(b',');
        }
        put_json(out, name.as_bytes());
        out.put_byte(b':');
        put_json_value(out, cell.into());
    }
    out.put_byte(b'}');
}

/// The period of a table, as cells that stand before those of its rows.
fn period_cells(table: &Table) -> Vec<(&'static str, Cell)> {
    let cells = table.period.as_ref().map(|period| {
        let name = Cell::text(Some(&period.name));
        [("period", name), ("period_from_ns", period.from.into()), ("period_to_ns", period.to.into())]
    });
    cells.into_iter().flatten().collect()
}

/// The rows of all tables, one a line, which names its analysis unless only one was named.
pub(super) fn lines(page: &mut Paged, tables: Tables<'_>, is_single: bool) {
    for table in tables {
        let (objects, period) = (objects_of(table.analysis, &table.columns), period_cells(table));
        let mut before = Out::default();
        if !is_single || !period.is_empty() {
            before.put_fmt(format_args!("{{\"analysis\":\"{}\"", table.analysis));
            for (name, cell) in &period {
                before.put_fmt(format_args!(",\"{name}\":"));
                put_json_value(&mut before, cell.into());
            }
        }
        let mut object = Out::default();
        table.rows.for_each(&mut |row| {
            let out = &mut page.out;
            if before.is_empty() {
                objects.write_row(out, row);
            } else {
                object.clear();
                objects.write_row(&mut object, row);
                out.put(before.written());
                if object.written() != b"{}" {
                    out.put_byte(b',');
                }
                out.put(&object.written()[1..]);
            }
            out.put_byte(b'\n');
            page.flush_full();
        });
    }
}

// ---- CSV ----------------------------------------------------------------------------------------------------------

/// The rows of all tables; an empty line stands between two tables, but for those of one analysis over its periods.
pub(super) fn csv(page: &mut Paged, tables: Tables<'_>) {
    for (at, table) in tables.iter().enumerate() {
        let period = period_cells(table);
        let before = at.checked_sub(1).map(|at| &tables[at]);
        let names = period.iter().map(|(name, _)| *name).chain(table.columns.iter().map(|column| &*column.name));
        let mut writer = TableWriter::new(TableFormat::Csv, names.map(String::from).collect(), None);
        if period.is_empty() || before.is_none_or(|before| before.analysis != table.analysis) {
            if at > 0 {
                page.out.put_byte(b'\n');
            }
            writer.begin(&mut page.out);
        }
        let mut line = Vec::new();
        table.rows.for_each(&mut |row| {
            line.clear();
            line.extend(period.iter().map(|(_, cell)| Value::from(cell)));
            line.extend(row);
            writer.write_row(&mut page.out, &line[..]);
            page.flush_full();
        });
    }
}

// ---- Rows as they are found ---------------------------------------------------------------------------------------

/// Rows that are written as they are found.
pub(super) struct Streamed {
    format: AnalyzeFormat,
    rows: TableWriter,
    /// Rows of `states` that come without cells.
    states: Option<StateLines>,
    page: Paged,
    has_rows: bool,
}

impl Streamed {
    pub(super) fn new(format: AnalyzeFormat) -> Self {
        let rows = TableWriter::new(TableFormat::JsonLines, Vec::new(), None);
        Streamed { format, rows, states: None, page: Paged::default(), has_rows: false }
    }

    /// Was no row found?
    pub(super) fn is_empty(&self) -> bool {
        !self.has_rows
    }

    /// Says where the rows go, and what they are.
    pub(super) fn begin(&mut self, analysis: &str, columns: &[Column], machines: Rc<Vec<String>>, sink: OutputSink) {
        self.page = Paged::new(sink);
        let is_csv = self.format == AnalyzeFormat::Csv;
        let format = if is_csv { TableFormat::Csv } else { TableFormat::JsonLines };
        let names = columns.iter().map(|column| column.name.to_string()).collect();
        self.rows = TableWriter::new(format, names, None).with_kinds(kinds_of(analysis, columns));
        self.rows.begin(&mut self.page.out);
        let form = RowForm::new(columns, machines);
        self.states = Some(if is_csv { StateLines::csv(form) } else { StateLines::json(form) });
    }

    /// Writes a row.
    pub(super) fn write_row(&mut self, row: &[Value<'_>]) {
        self.has_rows = true;
        self.rows.write_row(&mut self.page.out, row);
        self.page.flush_full();
    }

    /// Writes a row of `states`.
    #[inline]
    pub(super) fn put_state(&mut self, row: &StateRow) {
        self.has_rows = true;
        if let Some(states) = &mut self.states {
            states.write_line(&mut self.page.out, row);
        }
        self.page.flush_full();
    }

    /// Ends the output.
    pub(super) fn end(&mut self, outcome: Outcome) -> Result<Outcome, Error> {
        self.page.end(outcome)
    }
}
