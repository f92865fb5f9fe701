//! Traces as a whole, in the form of `docs/cli.md`, "info --json".

use std::path::Path;

use serde_json::{Map, Value, json};
use tracemill_codec::text::{base64, uuid_text};
use tracemill_engine::session::Session;
use tracemill_engine::survey::TraceSurvey;
use tracemill_format::{OpenTrace, Section};
use tracemill_model::error::Error;
use tracemill_model::schema::{ClockClass, ClockOrigin, EnvValue};

/// One trace. Streams and event classes are made one by one: there may be many.
pub struct Described<'a> {
    /// The keys before the streams, and those after the event classes.
    pub parts: [Value; 2],
    trace: &'a OpenTrace,
    survey: &'a TraceSurvey,
}

impl<'a> Described<'a> {
    /// A trace of a session, with its packets when they are wanted.
    pub fn new(session: &'a Session, at: usize, survey: &'a TraceSurvey, packets: bool) -> Self {
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

    /// Its streams.
    pub fn streams(&self) -> impl Iterator<Item = Value> {
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

    /// Its event classes.
    pub fn event_classes(&self) -> impl Iterator<Item = Value> {
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

    /// All of it.
    pub fn into_json(self) -> Value {
        let (streams, classes): (Vec<Value>, Vec<Value>) = (self.streams().collect(), self.event_classes().collect());
        let [mut head, tail] = self.parts;
        head["streams"] = streams.into();
        head["event_classes"] = classes.into();
        if let (Value::Object(head), Value::Object(tail)) = (&mut head, tail) {
            head.extend(tail);
        }
        head
    }
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
pub fn add_exact(object: &mut Value, key: &str, path: &Path) {
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
