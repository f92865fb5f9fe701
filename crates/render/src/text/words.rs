//! Words about trace and class, between the time of a line and its fields.

use tracemill_model::schema::{EventClass, Schema};

use super::options::{Palette, TextOptions};
use tracemill_semantics::Recording;

/// The words about trace and class, as they are put together.
#[derive(Clone)]
pub(super) struct Words {
    text: String,
    /// Are words named?
    names: bool,
    palette: Palette,
    has_word: bool,
    /// `start_line` of `babeltrace2`: nothing printed yet that needs a comma.
    is_start: bool,
}

impl Words {
    fn comma(&mut self) {
        if !self.is_start {
            self.text += ", ";
        }
    }

    fn name(&mut self, name: &str) {
        if self.names {
            self.text += &name_text(self.palette, name);
        }
    }

    fn add(&mut self, name: &str, value: &str) {
        self.comma();
        self.name(name);
        if !self.names && self.has_word {
            self.text.push(':');
        }
        self.text += value;
        self.has_word = true;
    }
}

pub(super) fn trace_words(
    options: &TextOptions,
    palette: Palette,
    schema: &Schema,
    name: &str,
    found_as: Option<&str>,
) -> Words {
    let names = options.names.header;
    // After a time the line needs a comma when names are shown, and never otherwise.
    let is_start = !(names && has_clock(schema));
    let mut words = Words { text: String::new(), names, palette, has_word: false, is_start };
    // `babeltrace2` names the trace that has no name, too.
    if options.fields.trace && (names || !name.is_empty()) {
        words.comma();
        words.name("trace");
        words.text += name;
        if names {
            words.text += ", ";
        }
    }
    let recording = Recording::from_schema(schema);
    let process = recording.process.map(|process| format!("({process})"));
    let entries = [
        (true, "trace:path", found_as),
        (options.fields.hostname, "trace:hostname", recording.host),
        (options.fields.domain, "trace:domain", recording.domain),
        (options.fields.procname, "trace:procname", recording.process_name),
        (options.fields.vpid, "trace:vpid", process.as_deref()),
    ];
    for (wanted, name, value) in entries {
        if let (true, Some(value)) = (wanted, value) {
            words.add(name, value);
        }
    }
    words
}

fn has_clock(schema: &Schema) -> bool {
    schema.streams().iter().any(|stream| stream.default_clock.is_some())
}

/// Words between the time and a line that sums an event up.
pub(super) fn summary_head(
    options: &TextOptions,
    palette: Palette,
    schema: &Schema,
    found_as: Option<&str>,
) -> Vec<u8> {
    let names = options.names.header;
    let mut head = String::from(if names && has_clock(schema) { ", " } else { "" });
    if let Some(found_as) = found_as {
        if names {
            head += &name_text(palette, "trace:path");
        }
        head += found_as;
        head += if names { ", " } else { " " };
    }
    head.into_bytes()
}

/// The name of a word, with the text up to its value.
pub(super) fn name_text(palette: Palette, name: &str) -> String {
    format!("{}{name}{} = ", palette.name, palette.reset)
}

/// The words from the end of the time to the first context.
pub(super) fn class_words(trace: &Words, event: &EventClass, options: &TextOptions) -> Vec<u8> {
    let mut words = trace.clone();
    let (names, palette) = (words.names, words.palette);
    let level =
        event.log_level.and_then(|level| LOG_LEVELS.get(usize::try_from(level).ok()?).map(|name| (level, name)));
    if let Some((level, name)) = level.filter(|_| options.fields.log_level) {
        words.add("loglevel", &format!("{name} ({level})"));
    }
    if let Some(uri) = event.emf_uri.as_deref().filter(|_| options.fields.emf) {
        words.add("model.emf.uri", uri);
    }
    if words.has_word && !names {
        words.text.push(' ');
    }
    words.comma();
    words.name("name");
    let (color, name) = match event.name.as_deref() {
        Some(name) => (palette.event, name),
        None if event.open_ids.is_some() => (palette.event, ""),
        None => (palette.unknown, "<unknown>"),
    };
    for text in [color, name, palette.reset, if names { ", " } else { ": " }] {
        words.text += text;
    }
    words.text.into_bytes()
}

/// Names of log levels 0 to 14 (LTTng).
const LOG_LEVELS: [&str; 15] = [
    "TRACE_EMERG",
    "TRACE_ALERT",
    "TRACE_CRIT",
    "TRACE_ERR",
    "TRACE_WARNING",
    "TRACE_NOTICE",
    "TRACE_INFO",
    "TRACE_DEBUG_SYSTEM",
    "TRACE_DEBUG_PROGRAM",
    "TRACE_DEBUG_PROCESS",
    "TRACE_DEBUG_MODULE",
    "TRACE_DEBUG_UNIT",
    "TRACE_DEBUG_FUNCTION",
    "TRACE_DEBUG_LINE",
    "TRACE_DEBUG",
];
