//! `tracemill formats`.

use serde_json::json;
use tracemill::targets;
use tracemill_format::lost::Lost;
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;

use crate::args::FormatsOptions;
use crate::report::{Outcome, Sink};

/// Forms of lines: of `print`, and of `convert` to a file.
pub(super) const WRITTEN: [(&str, &str); 3] = [
    ("text", "lines as babeltrace2 prints them"),
    ("jsonl", "one JSON object an event"),
    ("csv", "comma-separated values"),
];

/// A name and what can be done with it.
struct Row {
    name: &'static str,
    description: String,
    read: bool,
    write: bool,
    cannot_hold: &'static [Lost],
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for format in FORMATS {
        for name in format.names {
            match rows.iter_mut().find(|row| row.name == *name) {
                // Several formats may share a name.
                Some(row) => row.description = format!("{}; {}", row.description, format.description),
                None => row_of(&mut rows, name, format.description).read = true,
            }
        }
    }
    for target in targets() {
        let Some(name) = target.names.first() else { continue };
        let row = row_of(&mut rows, name, target.description);
        (row.write, row.cannot_hold) = (true, target.cannot_hold);
    }
    for (name, description) in WRITTEN {
        row_of(&mut rows, name, description).write = true;
    }
    rows
}

/// The row of a name, which is new with this description unless the name has one.
fn row_of<'a>(rows: &'a mut Vec<Row>, name: &'static str, description: &str) -> &'a mut Row {
    let at = rows.iter().position(|row| row.name == name).unwrap_or(rows.len());
    if at == rows.len() {
        rows.push(Row { name, description: description.into(), read: false, write: false, cannot_hold: &[] });
    }
    &mut rows[at]
}

/// Lists the formats.
pub(crate) fn run(options: &FormatsOptions) -> Result<Outcome, Error> {
    let mut sink = Sink::open(None)?;
    let mut text = String::new();
    if options.json {
        let row = |row: Row| {
            json!({
                "name": row.name,
                "description": row.description,
                "read": row.read,
                "write": row.write,
                "cannot_hold": row.cannot_hold.iter().map(Lost::to_string).collect::<Vec<_>>(),
            })
        };
        let list: Vec<_> = rows().into_iter().map(row).collect();
        text = format!("{}\n", json!({ "formats": list }));
    } else {
        for row in rows() {
            let can = match (row.read, row.write) {
                (true, true) => "read, write",
                (true, false) => "read",
                _ => "write",
            };
            text += &format!("{:12} {can:12} {}\n", row.name, row.description);
        }
    }
    sink.write(text.as_bytes())?;
    sink.flush()?;
    Ok(Outcome::Done)
}
