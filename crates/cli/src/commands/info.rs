//! `tracemill info`.

use serde_json::Value;
use tracemill_codec::text::out::Out;
use tracemill_engine::survey::survey;
use tracemill_model::error::Error;
use tracemill_render::info::Described;
use tracemill_render::time::put_seconds;
use tracemill_table::Layout;

use super::live::{self, KeptInput};
use super::request::{RequestOptions, jobs};
use crate::args::InfoOptions;
use crate::progress;
use crate::report::{Outcome, OutputSink, counted, printable};

/// Describes traces.
pub(crate) fn run(options: &InfoOptions) -> Result<Outcome, Error> {
    if let Some(text) = live::sessions(&options.input, &options.live, options.form.is_json())? {
        let sink = OutputSink::open(options.output.as_deref(), &[])?;
        return sink.print(text.as_bytes(), Outcome::Done);
    }
    let Some(kept) = KeptInput::new(&options.input, &options.live, None)? else { return Ok(Outcome::Nothing) };
    let input = &kept.input;
    let Some((opened, mut reporter)) = RequestOptions::traces(input).open()? else {
        return Ok(Outcome::Nothing);
    };
    let shown = progress::show(input, &opened.session.progress, false);
    let surveys = survey(&opened.session, options.count, jobs(options.input.jobs));
    drop(shown);
    for fault in surveys.iter().flat_map(|survey| &survey.faults) {
        if reporter.fault(fault) {
            return Ok(Outcome::Nothing);
        }
    }
    let mut sink = OutputSink::open(options.output.as_deref(), &input.traces)?;
    if options.form.is_json() {
        sink.write(b"{\"traces\":[")?;
    }
    for (at, survey) in surveys.iter().enumerate() {
        let described = Described::new(&opened.session, at, survey, options.packets);
        match (options.form.is_json(), at > 0) {
            (true, true) => sink.write(b",")?,
            (false, true) => sink.write(b"\n")?,
            _ => {}
        }
        if options.form.is_json() {
            write_json(&described, &mut sink)?
        } else {
            write_for_people(&described, &mut sink)?
        }
    }
    if options.form.is_json() {
        sink.write(b"]}\n")?;
    }
    sink.end()?;
    if sink.is_closed {
        return Ok(Outcome::Done);
    }
    Ok(reporter.outcome())
}

/// Writes the description for a program.
fn write_json(described: &Described<'_>, sink: &mut OutputSink) -> Result<(), Error> {
    let [head, tail] = [0, 1].map(|part| described.parts[part].to_string());
    // Both are objects.
    sink.write(head.strip_suffix('}').unwrap_or(&head).as_bytes())?;
    write_list(sink, "streams", described.streams())?;
    write_list(sink, "event_classes", described.event_classes())?;
    sink.write(b",")?;
    sink.write(tail.strip_prefix('{').unwrap_or(&tail).as_bytes())
}

/// Writes the description for a person.
fn write_for_people(described: &Described<'_>, sink: &mut OutputSink) -> Result<(), Error> {
    let [head, tail] = &described.parts;
    sink.write(printable(&head_for_people(head, tail)).as_bytes())?;
    for stream in described.streams() {
        sink.write(printable(&stream_for_people(&stream)).as_bytes())?;
    }
    sink.write(b"\n  event classes\n")?;
    for event in described.event_classes() {
        sink.write(printable(&class_for_people(&event)).as_bytes())?;
    }
    sink.write(printable(&tail_for_people(tail)).as_bytes())
}

fn write_list(sink: &mut OutputSink, key: &str, values: impl Iterator<Item = Value>) -> Result<(), Error> {
    sink.write(format!(",\"{key}\":[").as_bytes())?;
    for (at, value) in values.enumerate() {
        let comma = if at > 0 { "," } else { "" };
        sink.write(format!("{comma}{value}").as_bytes())?;
    }
    sink.write(b"]")
}

fn head_for_people(trace: &Value, tail: &Value) -> String {
    let (layout, mut out) = (Layout::list(&[12]), Out::default());
    out.put_fmt(format_args!("{}\n", trace["name"].as_str().unwrap_or("?")));
    let mut line = |key: &str, value: String| {
        out.put(b"  ");
        layout.put_cells(&mut out, &[key, &value]);
        out.put_byte(b'\n');
    };
    // Formats without versions have 0.0.
    let version = Some(plain(&trace["version"])).filter(|version| version != "0.0");
    line("format", plain(&trace["format"]) + &version.map_or(String::new(), |version| format!(" ({version})")));
    if !trace["uuid"].is_null() {
        line("uuid", plain(&trace["uuid"]));
    }
    if let (Some(begin), Some(end)) = (number(&tail["begin_ns"]), number(&tail["end_ns"])) {
        line("begins", seconds(begin));
        line("ends", format!("{}, after {} s", seconds(end), seconds(end.saturating_sub(begin))));
    }
    for clock in list(&trace["clocks"]) {
        let origin = clock["origin"].as_str().map_or("no known origin".into(), |origin| format!("origin {origin}"));
        let offset = number(&clock["offset_ns"]).map(seconds).unwrap_or_default();
        let rate = match &clock["frequency"] {
            Value::Number(rate) => format!("{rate} Hz"),
            _ => "unknown rate".to_string(),
        };
        line("clock", format!("{}: {rate}, offset {offset} s, {origin}", plain(&clock["name"])));
    }
    for (key, value) in trace["environment"].as_object().into_iter().flatten() {
        line("environment", format!("{key} = {}", plain(value)));
    }
    out.put(b"\n  streams\n");
    String::from_utf8_lossy(out.written()).into_owned()
}

fn stream_for_people(stream: &Value) -> String {
    let mut parts = Vec::new();
    for (key, one, behind) in [
        ("packets", "packet", ""),
        ("bytes", "byte", ""),
        ("events", "event", ""),
        ("discarded_events", "event", " discarded"),
        ("lost_packets", "packet", " lost"),
    ] {
        if let Some(count) = stream[key].as_u64().filter(|&count| count > 0 || behind.is_empty()) {
            parts.push(counted(count, one) + behind);
        }
    }
    let id = stream["id"].as_u64().map_or(String::new(), |id| format!(", id {id}"));
    format!("    {} (class {}{id}): {}\n", plain(&stream["name"]), stream["class"], parts.join(", "))
}

fn class_for_people(event: &Value) -> String {
    let fields: Vec<&str> = list(&event["fields"]).iter().filter_map(Value::as_str).collect();
    let count = event["events"].as_u64().map_or(String::new(), |count| format!(" {}", counted(count, "event")));
    let name = event["name"].as_str().unwrap_or("(no name)");
    format!("    {}/{} {name}{count}: {}\n", event["stream"], event["id"], fields.join(", "))
}

fn tail_for_people(trace: &Value) -> String {
    let mut text = String::new();
    if !trace["packets"].is_null() {
        text += "\n  packets\n";
        for packet in list(&trace["packets"]) {
            text += &format!(
                "    {} {} at {}: {} of {} bytes, {} to {}, {} events, {} discarded and {} packets lost before\n",
                plain(&packet["file"]),
                packet["index"],
                packet["offset"],
                packet["content_size"],
                packet["packet_size"],
                plain(&packet["timestamp_begin"]),
                plain(&packet["timestamp_end"]),
                packet["events"].as_u64().map_or("?".into(), |events| events.to_string()),
                packet["discarded_before"],
                packet["lost_packets_before"],
            );
        }
    }
    for section in list(&trace["sections"]) {
        text += &format!("\n  {}\n", plain(&section["title"]));
        for row in list(&section["rows"]) {
            let cells = row.as_object().into_iter().flatten();
            let cells: Vec<String> = cells.map(|(key, value)| format!("{key} {}", plain(value))).collect();
            text += &format!("    {}\n", cells.join(", "));
        }
    }
    for fault in list(&trace["faults"]) {
        text += &format!(
            "\n  fault in {} at {}: {}\n",
            plain(&fault["file"]),
            plain(&fault["offset"]),
            plain(&fault["reason"])
        );
    }
    text
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "?".into(),
        value => value.to_string(),
    }
}

fn number(value: &Value) -> Option<i128> {
    value.as_number().and_then(serde_json::Number::as_i128)
}

fn seconds(ns: i128) -> String {
    let mut out = Out::default();
    put_seconds(&mut out, ns);
    String::from_utf8_lossy(out.written()).into_owned()
}
