//! `tracemill info`.

use std::path::Path;

use serde_json::{Map, Value, json};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::{base64, uuid_text};
use tracemill_engine::session::Session;
use tracemill_engine::survey::{TraceSurvey, survey};
use tracemill_format::{OpenTrace, Section};
use tracemill_model::error::Error;
use tracemill_model::schema::{ClockClass, ClockOrigin, EnvValue};
use tracemill_render::time::put_seconds;

use super::open::open;
use crate::args::InfoOptions;
use crate::progress;
use crate::report::{Outcome, Sink, counted, printable};

/// Describes traces.
pub(crate) fn run(options: &InfoOptions) -> Result<Outcome, Error> {
    let Some(mut opened) = open(&options.input)? else { return Ok(Outcome::Nothing) };
    let shown = progress::show(&options.input, &opened.session.progress, false);
    let surveys = survey(&opened.session, options.count, opened.jobs);
    drop(shown);
    for fault in surveys.iter().flat_map(|survey| &survey.faults) {
        if opened.reporter.fault(fault) {
            return Ok(Outcome::Nothing);
        }
    }
    let mut sink = Sink::stdout();
    if options.json {
        sink.write(b"{\"traces\":[")?;
    }
    for (at, survey) in surveys.iter().enumerate() {
        let described = Described::new(&opened.session, at, survey, options.packets);
        match (options.json, at > 0) {
            (true, true) => sink.write(b",")?,
            (false, true) => sink.write(b"\n")?,
            _ => {}
        }
        if options.json { described.write_json(&mut sink)? } else { described.write_for_people(&mut sink)? }
    }
    if options.json {
        sink.write(b"]}\n")?;
    }
    sink.flush()?;
    if sink.is_closed {
        return Ok(Outcome::Done);
    }
    Ok(opened.reporter.outcome())
}

/// One trace in the form of `docs/cli.md`, "info --json". Streams and event classes are made one by one: there may be
/// many.
struct Described<'a> {
    /// The keys before the streams, and those after the event classes.
    parts: [Value; 2],
    trace: &'a OpenTrace,
    survey: &'a TraceSurvey,
}

impl<'a> Described<'a> {
    fn new(session: &'a Session, at: usize, survey: &'a TraceSurvey, packets: bool) -> Self {
        let trace = &session.traces[at];
        let schema = &trace.schema;
        let mut head = json!({
            "name": trace.name,
            "path": trace.path.to_string_lossy(),
            "format": schema.format,
            "version": format!("{}.{}", schema.version.0, schema.version.1),
            "uuid": schema.uuid.as_ref().map(uuid_text),
            "environment": schema.environment.iter().map(|(key, value)| (key.to_string(), env_json(value))).collect::<Map<_, _>>(),
            "clocks": schema.clocks().iter().map(|clock| clock_json(clock, session.corrections[at])).collect::<Vec<_>>(),
        });
        add_exact(&mut head, "path_base64", &trace.path);
        let all_faults = trace.faults.iter().chain(&survey.faults);
        let mut tail = json!({
            "begin_ns": survey.streams.iter().filter_map(|stream| stream.begin_ns).min(),
            "end_ns": survey.streams.iter().filter_map(|stream| stream.end_ns).max(),
            "faults": all_faults.map(fault_json).collect::<Vec<_>>(),
        });
        if !trace.sections.is_empty() {
            tail["sections"] = trace.sections.iter().map(section_json).collect();
        }
        if packets {
            tail["packets"] = packets_json(trace, survey);
        }
        Described { parts: [head, tail], trace, survey }
    }

    fn streams(&self) -> impl Iterator<Item = Value> {
        let schema = &self.trace.schema;
        self.trace.streams.iter().zip(&self.survey.streams).map(|(stream, found)| {
            json!({
                "name": stream.name,
                "id": stream.id,
                "class": schema.stream(stream.class).id,
                "packets": stream.packets.len(),
                "bytes": stream.packets.iter().map(|packet| packet.total_bits / 8).sum::<u64>(),
                "events": found.events(),
                "begin_ns": found.begin_ns,
                "end_ns": found.end_ns,
                "discarded_events": found.discarded_events,
                "lost_packets": found.lost_packets,
            })
        })
    }

    fn event_classes(&self) -> impl Iterator<Item = Value> {
        let (schema, survey) = (&self.trace.schema, self.survey);
        schema.events().iter().enumerate().map(|(at, event)| {
            json!({
                "name": event.name.as_deref(),
                "id": event.open_ids.is_none().then_some(event.id),
                "stream": schema.stream(event.stream).id,
                "events": survey.class_events.as_ref().map(|events| events[at]),
                "fields": schema.members(event.payload).iter().map(|member| &*member.name).collect::<Vec<_>>(),
            })
        })
    }

    fn write_json(&self, sink: &mut Sink) -> Result<(), Error> {
        let [head, tail] = [0, 1].map(|part| self.parts[part].to_string());
        // Both are objects.
        sink.write(head.strip_suffix('}').unwrap_or(&head).as_bytes())?;
        write_list(sink, "streams", self.streams())?;
        write_list(sink, "event_classes", self.event_classes())?;
        sink.write(b",")?;
        sink.write(tail.strip_prefix('{').unwrap_or(&tail).as_bytes())
    }

    /// Writes the description for a person.
    fn write_for_people(&self, sink: &mut Sink) -> Result<(), Error> {
        let [head, tail] = &self.parts;
        sink.write(printable(&head_for_people(head, tail)).as_bytes())?;
        for stream in self.streams() {
            sink.write(printable(&stream_for_people(&stream)).as_bytes())?;
        }
        sink.write(b"\n  event classes\n")?;
        for event in self.event_classes() {
            sink.write(printable(&class_for_people(&event)).as_bytes())?;
        }
        sink.write(printable(&tail_for_people(tail)).as_bytes())
    }
}

fn write_list(sink: &mut Sink, key: &str, values: impl Iterator<Item = Value>) -> Result<(), Error> {
    sink.write(format!(",\"{key}\":[").as_bytes())?;
    for (at, value) in values.enumerate() {
        let comma = if at > 0 { "," } else { "" };
        sink.write(format!("{comma}{value}").as_bytes())?;
    }
    sink.write(b"]")
}

fn env_json(value: &EnvValue) -> Value {
    match value {
        EnvValue::String(text) => json!(&**text),
        EnvValue::Integer(number) => json!(number),
    }
}

fn clock_json(clock: &ClockClass, correction_ns: i64) -> Value {
    let map = tracemill_model::clock::ClockMap::new(clock, correction_ns);
    json!({
        "name": clock.name.as_deref().unwrap_or(&clock.id),
        "frequency": match (clock.frequency, clock.seconds) {
            (0, _) => Value::Null,
            (whole, 0 | 1) => json!(whole),
            (ticks, seconds) => json!(ticks as f64 / f64::from(seconds)),
        },
        "offset_ns": map.ns(0),
        "origin": match &clock.origin {
            ClockOrigin::Unix => json!("unix"),
            ClockOrigin::Unknown => Value::Null,
            ClockOrigin::Custom { name, .. } => json!(&**name),
        },
        "uuid": clock.uid.as_deref(),
        "description": clock.description.as_deref(),
        "precision": clock.precision,
    })
}

fn section_json(section: &Section) -> Value {
    let row = |row: &Vec<Option<EnvValue>>| -> Map<String, Value> {
        let cells = section.columns.iter().zip(row);
        cells.map(|(column, cell)| (column.to_string(), cell.as_ref().map_or(Value::Null, env_json))).collect()
    };
    json!({ "title": section.title, "rows": section.rows.iter().map(row).collect::<Vec<_>>() })
}

/// An error with its place.
fn fault_json(fault: &Error) -> Value {
    let place = fault.place();
    let mut object = json!({
        "file": place.file.as_ref().map(|file| file.to_string_lossy()),
        "offset": place.offset.or(place.text.as_ref().map(|text| text.offset as u64)),
        "reason": fault.message(),
    });
    if let Some(file) = &place.file {
        add_exact(&mut object, "file_base64", file);
    }
    object
}

/// Adds the bytes of a path whose text does not show all of them.
pub(super) fn add_exact(object: &mut Value, key: &str, path: &Path) {
    if path.to_str().is_none() {
        let mut exact = String::new();
        base64(path.as_os_str().as_encoded_bytes(), |text| exact += text);
        object[key] = exact.into();
    }
}

fn packets_json(trace: &OpenTrace, survey: &TraceSurvey) -> Value {
    let mut rows: Vec<(&String, u64, Value)> = Vec::new();
    for (stream, found) in trace.streams.iter().zip(&survey.streams) {
        for (packet, events) in stream.packets.iter().zip(&found.packet_events) {
            let of = &stream.files[packet.file as usize];
            let mut row = json!({
                "file": of.relative,
                "index": packet.index,
                "offset": packet.offset_bytes,
                "packet_size": packet.total_bits.div_ceil(8),
                "content_size": packet.content_bits.div_ceil(8),
                "packet_bits": packet.total_bits,
                "content_bits": packet.content_bits,
                "timestamp_begin": packet.begin_cycles,
                "timestamp_end": packet.end_cycles,
                "events": events,
                "discarded_before": packet.discarded_before,
                "lost_packets_before": packet.lost_packets_before,
            });
            // Relative to the trace, as the text is.
            add_exact(&mut row, "file_base64", of.path.strip_prefix(&trace.path).unwrap_or(&of.path));
            rows.push((&of.relative, packet.offset_bytes, row));
        }
    }
    rows.sort_by_key(|&(file, offset, _)| (file, offset));
    rows.into_iter().map(|(_, _, row)| row).collect()
}

fn head_for_people(trace: &Value, tail: &Value) -> String {
    let mut text = format!("{}\n", trace["name"].as_str().unwrap_or("?"));
    let mut line = |key: &str, value: String| {
        text += &format!("  {key:<12} {value}\n");
    };
    line("format", format!("{} ({})", plain(&trace["format"]), plain(&trace["version"])));
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
    text + "\n  streams\n"
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
