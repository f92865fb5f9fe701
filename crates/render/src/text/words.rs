//! What stands between the time of a line and its fields: words about trace and class.

use tracemill_model::schema::{EventClass, Schema};

use super::options::{Palette, TextOptions};
use tracemill_codec::text::out::Out;
use tracemill_semantics::Recording;

/// The words about trace and class, as they are put together.
#[derive(Clone, Default)]
pub(super) struct Words {
    pub(super) text: Vec<u8>,
    pub(super) dom: bool,
    /// `start_line` of the peer: nothing printed yet that needs a comma.
    pub(super) start: bool,
}

impl Words {
    fn comma(&mut self) {
        if !self.start {
            self.text.extend_from_slice(b", ");
        }
    }

    fn add(&mut self, name: &str, value: &str, names: bool, palette: Palette) {
        self.comma();
        if names {
            push_name(&mut self.text, palette, name);
        } else if self.dom {
            self.text.push(b':');
        }
        self.text.extend_from_slice(value.as_bytes());
        self.dom = true;
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
    let has_clock = schema.streams().iter().any(|stream| stream.default_clock.is_some());
    // Behind a time the line needs a comma when names are shown, and never otherwise.
    let mut words = Words { text: Vec::new(), dom: false, start: !(names && has_clock) };
    if options.fields.trace && !name.is_empty() {
        words.comma();
        if names {
            push_name(&mut words.text, palette, "trace");
        }
        words.text.extend_from_slice(name.as_bytes());
        if names {
            words.text.extend_from_slice(b", ");
        }
    }
    if let Some(found_as) = found_as {
        words.add("trace:path", found_as, names, palette);
    }
    let recording = Recording::of(schema);
    let entries = [
        (options.fields.hostname, "trace:hostname", recording.host),
        (options.fields.domain, "trace:domain", recording.domain),
        (options.fields.procname, "trace:procname", recording.process_name),
    ];
    for (wanted, name, value) in entries {
        if let (true, Some(value)) = (wanted, value) {
            words.add(name, value, names, palette);
        }
    }
    if let (true, Some(process)) = (options.fields.vpid, recording.process) {
        words.add("trace:vpid", &format!("({process})"), names, palette);
    }
    words
}

/// What stands between the time and a line that sums an event up.
pub(super) fn summary_head(
    options: &TextOptions,
    palette: Palette,
    schema: &Schema,
    found_as: Option<&str>,
) -> Vec<u8> {
    let mut head = Vec::new();
    if options.names.header && schema.streams().iter().any(|stream| stream.default_clock.is_some()) {
        head.extend_from_slice(b", ");
    }
    if let Some(found_as) = found_as {
        if options.names.header {
            push_name(&mut head, palette, "trace:path");
        }
        head.extend_from_slice(found_as.as_bytes());
        head.extend_from_slice(if options.names.header { b", " } else { b" " });
    }
    head
}

pub(super) fn push_name(text: &mut Vec<u8>, palette: Palette, name: &str) {
    text.extend_from_slice(format!("{}{name}{} = ", palette.name, palette.reset).as_bytes());
}

pub(super) fn put_name(out: &mut Out, palette: Palette, name: &str) {
    out.put_fmt(format_args!("{}{name}{} = ", palette.name, palette.reset));
}

/// The words from behind the time to the first context.
pub(super) fn class_words(trace: &Words, event: &EventClass, options: &TextOptions, palette: Palette) -> Vec<u8> {
    let names = options.names.header;
    let mut words = trace.clone();
    let level =
        event.log_level.and_then(|level| LOG_LEVELS.get(usize::try_from(level).ok()?).map(|name| (level, name)));
    if let Some((level, name)) = level.filter(|_| options.fields.log_level) {
        words.add("loglevel", &format!("{name} ({level})"), names, palette);
    }
    if let Some(uri) = event.emf_uri.as_deref().filter(|_| options.fields.emf) {
        words.add("model.emf.uri", uri, names, palette);
    }
    if words.dom && !names {
        words.text.push(b' ');
    }
    if !words.start {
        words.text.extend_from_slice(b", ");
    }
    if names {
        push_name(&mut words.text, palette, "name");
    }
    let (color, name) = match event.name.as_deref() {
        Some(name) => (palette.event, name),
        None if event.open_ids.is_some() => (palette.event, ""),
        None => (palette.unknown, "<unknown>"),
    };
    words.text.extend_from_slice(color.as_bytes());
    words.text.extend_from_slice(name.as_bytes());
    words.text.extend_from_slice(palette.reset.as_bytes());
    words.text.extend_from_slice(if names { b", " } else { b": " });
    words.text
}

/// Names of log levels 0 to 14 (LTTng).
pub(super) const LOG_LEVELS: [&str; 15] = [
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
