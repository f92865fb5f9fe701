//! `tracemill formats`.

use serde_json::json;
use tracemill::targets;
use tracemill_codec::text::out::Out;
use tracemill_format::lost::Lost;
use tracemill_formats::FORMATS;
use tracemill_model::error::Error;
use tracemill_table::Layout;

use super::html::HTML;
use crate::args::FormatsOptions;
use crate::report::{Outcome, OutputSink};

/// Forms of lines: of `print`, and of `convert` to a file.
pub(super) const WRITTEN: [(&str, &str); 3] = [
    ("text", "lines as babeltrace2 prints them"),
    ("jsonl", "one JSON object an event"),
    ("csv", "comma-separated values"),
];

/// A picture of the stacks that [`FOLDED`] writes.
pub(super) const SVG: (&str, &str) = ("svg", "a flame graph of calls, as a picture for the browser");
/// The target of stacks.
pub(super) const FOLDED: &str = "folded";

/// Endings of file names that ask for what is no target, without the dot before them.
pub(super) const OTHER_ENDINGS: [(&str, &str); 6] =
    [("jsonl", "jsonl"), ("csv", "csv"), ("txt", "text"), ("log", "text"), ("html", HTML.0), ("svg", SVG.0)];

/// How a program is built that has the formats of [`missing`].
const HOW: &str = "`cargo build --release -p tracemill-cli --features columnar`";

/// Formats that only other builds write, with what they are.
fn missing() -> &'static [(&'static str, &'static str)] {
    if cfg!(feature = "columnar") {
        return &[];
    }
    &[("parquet", "tables of Apache Parquet"), ("arrow", "tables of Apache Arrow (IPC files)")]
}

/// A name and what can be done with it.
struct FormatRow {
    name: &'static str,
    description: String,
    /// How a reader finds it.
    looks_like: Vec<&'static str>,
    read: bool,
    write: bool,
    cannot_hold: &'static [Lost],
    endings: Vec<&'static str>,
}

fn rows() -> Vec<FormatRow> {
    let mut rows: Vec<FormatRow> = Vec::new();
    for format in FORMATS {
        for (at, name) in format.names.iter().enumerate() {
            let description = format.description.lines().nth(at).unwrap_or(format.description);
            let row = match rows.iter().position(|row| row.name == *name) {
                // Several formats may share a name.
                Some(at) => {
                    rows[at].description = format!("{}; {description}", rows[at].description);
                    &mut rows[at]
                }
                None => row_of(&mut rows, name, description),
            };
            row.read = true;
            row.looks_like.extend(Some(format.looks_like).filter(|text| !text.is_empty()));
        }
    }
    for target in targets() {
        let Some(name) = target.names.first() else { continue };
        let row = row_of(&mut rows, name, target.description);
        (row.write, row.cannot_hold, row.endings) = (true, target.cannot_hold, target.endings.to_vec());
    }
    let with_html = cfg!(feature = "viewer").then_some(HTML);
    for (name, description) in WRITTEN.into_iter().chain([SVG]).chain(with_html) {
        let row = row_of(&mut rows, name, description);
        row.write = true;
        row.endings = OTHER_ENDINGS.iter().filter(|(_, format)| *format == name).map(|(ending, _)| *ending).collect();
    }
    rows
}

/// The row of a name, which is new with this description unless the name has one.
fn row_of<'a>(rows: &'a mut Vec<FormatRow>, name: &'static str, description: &str) -> &'a mut FormatRow {
    let at = rows.iter().position(|row| row.name == name).unwrap_or(rows.len());
    if at == rows.len() {
        rows.push(FormatRow {
            name,
            description: description.into(),
            looks_like: Vec::new(),
            read: false,
            write: false,
            cannot_hold: &[],
            endings: Vec::new(),
        });
    }
    &mut rows[at]
}

/// Lists the formats.
pub(crate) fn run(options: &FormatsOptions) -> Result<Outcome, Error> {
    let mut out = Out::default();
    if options.form.is_json() {
        let row = |row: FormatRow| {
            json!({
                "name": row.name,
                "description": row.description,
                "looks_like": row.looks_like,
                "read": row.read,
                "write": row.write,
                "endings": row.endings,
                "cannot_hold": row.cannot_hold.iter().map(Lost::to_string).collect::<Vec<_>>(),
            })
        };
        let list: Vec<_> = rows().into_iter().map(row).collect();
        let missing = missing().iter().map(|(name, _)| json!({ "name": name, "how": HOW })).collect::<Vec<_>>();
        out.put_fmt(format_args!("{}\n", json!({ "formats": list, "not_in_this_build": missing })));
    } else {
        let list = Layout::list(&[12, 12]);
        for row in rows() {
            let can = match (row.read, row.write) {
                (true, true) => "read, write",
                (true, false) => "read",
                _ => "write",
            };
            // The file name that asks `convert` for it.
            let ending = row.endings.first().map(|ending| format!(" (.{ending})")).unwrap_or_default();
            list.put_line(&mut out, &[row.name, can, &format!("{}{ending}", row.description)]);
            for looks in row.looks_like {
                list.put_line(&mut out, &["", "", looks]);
            }
        }
        for (name, description) in missing() {
            let description = format!("{description}; not in this build, but in that of {HOW}");
            list.put_line(&mut out, &[*name, "-", &description]);
        }
    }
    OutputSink::stdout().print(out.written(), Outcome::Done)
}
