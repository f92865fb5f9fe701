//! `tracemill formats`.

use serde_json::json;
use tracemill_formats::registry;
use tracemill_model::error::Error;

use crate::args::FormatsOptions;
use crate::report::{Outcome, Sink};

/// Forms of `print`.
const WRITTEN: [(&str, &str); 3] = [
    ("text", "lines as babeltrace2 prints them (`print`)"),
    ("jsonl", "one JSON object an event (`print --format jsonl`)"),
    ("csv", "comma-separated values (`print --format csv`)"),
];

/// Lists the formats.
pub(crate) fn run(options: &FormatsOptions) -> Result<Outcome, Error> {
    let mut sink = Sink::open(None)?;
    let read = registry::FORMATS.iter().flat_map(|format| format.names.iter().map(|name| (*name, format.description)));
    let mut text = String::new();
    if options.json {
        let mut list: Vec<_> = read
            .map(|(name, description)| json!({"name": name, "description": description, "read": true, "write": false}))
            .collect();
        list.extend(WRITTEN.iter().map(
            |(name, description)| json!({"name": name, "description": description, "read": false, "write": true}),
        ));
        text = format!("{}\n", json!({ "formats": list }));
    } else {
        for (name, description) in read {
            text += &format!("{name:8} read   {description}\n");
        }
        for (name, description) in WRITTEN {
            text += &format!("{name:8} write  {description}\n");
        }
    }
    sink.write(text.as_bytes())?;
    sink.flush()?;
    Ok(Outcome::Done)
}
