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
                None => rows.push(Row {
                    name,
                    description: format.description.into(),
                    read: true,
                    write: false,
                    cannot_hold: &[],
                }),
            }
        }
    }
    for target in targets() {
        let Some(name) = target.names.first() else { continue };
        match rows.iter_mut().find(|row| row.name == *name) {
            Some(row) => (row.write, row.cannot_hold) = (true, target.cannot_hold),
            None => rows.push(Row {
                name,
                description: target.description.into(),
                read: false,
                write: true,
                cannot_hold: target.cannot_hold,
            }),
        }
    }
    for (name, description) in WRITTEN {
        if let Some(row) = rows.iter_mut().find(|row| row.name == name) {
            row.write = true;
            continue;
        }
        rows.push(Row { name, description: description.into(), read: false, write: true, cannot_hold: &[] });
    }
    rows
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
