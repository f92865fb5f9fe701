//! Rows for programs: objects of JSON, and lines of CSV.

use tracemill_codec::text::csv::put_cell;
use tracemill_codec::text::out::{Out, TextPiece};
use tracemill_codec::text::strings::put_json;

use crate::cells::{put_csv_value, put_json_value, put_plain_value};
use crate::layout::Align;
use crate::value::Value;

/// A row, which writes its cells.
pub trait TableRow {
    /// Has it a value in a column?
    fn has(&self, at: usize) -> bool;

    /// Appends the value of a column as JSON.
    fn put_json(&self, out: &mut Out, at: usize);

    /// Appends the value of a column as text without quotes; nothing where there is none.
    fn put_text(&self, out: &mut Out, at: usize);

    /// Appends the value of a column as a cell of CSV. `text` is storage of a text on its way.
    #[inline]
    fn put_csv(&self, out: &mut Out, at: usize, text: &mut Out) {
        text.clear();
        self.put_text(text, at);
        put_cell(out, text.written());
    }

    /// The side at which values of this column stand.
    fn align(&self, at: usize) -> Align;
}

impl TableRow for [Value<'_>] {
    #[inline]
    fn has(&self, at: usize) -> bool {
        self.get(at).is_some_and(|value| !matches!(value, Value::Null))
    }

    #[inline]
    fn put_json(&self, out: &mut Out, at: usize) {
        put_json_value(out, self[at]);
    }

    fn put_text(&self, out: &mut Out, at: usize) {
        put_plain_value(out, self[at]);
    }

    #[inline]
    fn put_csv(&self, out: &mut Out, at: usize, _: &mut Out) {
        put_csv_value(out, self[at]);
    }

    fn align(&self, at: usize) -> Align {
        if matches!(self[at], Value::Integer(_) | Value::Real(_)) { Align::Right } else { Align::Left }
    }
}

/// Rows as JSON objects.
pub struct RowObjects {
    /// Text before each value: a comma, its key, a colon.
    keys: Vec<TextPiece>,
    /// Rows of different kinds: for each kind the column that no other has, and the columns of the kind.
    kinds: Vec<(usize, Vec<bool>)>,
}

impl RowObjects {
    /// Objects with these members.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let key = |name: &str| {
            let mut out = Out::default();
            out.put_byte(b',');
            put_json(&mut out, name.as_bytes());
            out.put_byte(b':');
            TextPiece::new(out.written())
        };
        RowObjects { keys: names.into_iter().map(|name| key(name.as_ref())).collect(), kinds: Vec::new() }
    }

    /// Objects of rows of different kinds, which have the members of their kind: for each kind the column in which only its
    /// rows have a value, and whether it has each of the columns.
    pub fn with_kinds(self, kinds: Vec<(usize, Vec<bool>)>) -> Self {
        RowObjects { kinds, ..self }
    }

    /// Appends a row.
    #[inline]
    pub fn write_row<R: TableRow + ?Sized>(&self, out: &mut Out, row: &R) {
        let begin = out.len();
        let kind = self.kinds.iter().find(|(own, _)| row.has(*own));
        for (at, key) in self.keys.iter().enumerate() {
            if kind.is_some_and(|(_, has)| !has[at]) {
                continue;
            }
            out.put_piece(key);
            row.put_json(out, at);
        }
        // The first member stands after the brace instead of a comma.
        match out.len() > begin {
            true => out.replace(begin, b'{'),
            false => out.put_byte(b'{'),
        }
        out.put_byte(b'}');
    }
}

/// Appends a row of so many cells as a line of CSV. `text` is storage of a text on its way.
#[inline]
pub fn put_csv_row<R: TableRow + ?Sized>(out: &mut Out, row: &R, cells: usize, text: &mut Out) {
    for at in 0..cells {
        if at > 0 {
            out.put_byte(b',');
        }
        row.put_csv(out, at, text);
    }
    out.put_byte(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_members_of_their_kind() {
        let objects = RowObjects::new(["cpu", "sta\"te", "disk"]);
        let put = |objects: &RowObjects, row: &[Value<'_>]| {
            let mut out = Out::default();
            objects.write_row(&mut out, row);
            String::from_utf8(out.written().to_vec()).expect("a text")
        };
        let rows = [
            [Value::Integer(1), Value::Word("idle"), Value::Null],
            [Value::Integer(1), Value::Null, Value::Text("vda")],
        ];
        assert_eq!(put(&objects, &rows[0]), r#"{"cpu":1,"sta\"te":"idle","disk":null}"#);
        let objects = objects.with_kinds(vec![(1, vec![true, true, false]), (2, vec![false, false, true])]);
        assert_eq!(rows.map(|row| put(&objects, &row)), [r#"{"cpu":1,"sta\"te":"idle"}"#, r#"{"disk":"vda"}"#]);
        assert_eq!(put(&RowObjects::new([""; 0]), &[]), "{}");
    }
}
