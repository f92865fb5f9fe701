//! Events as CSV (`docs/cli.md`, "CSV").

use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::plan::Fault;
use tracemill_model::schema::{Schema, Scope};

pub use tracemill_codec::text::csv::{put_cell, put_line};
use tracemill_codec::text::fields_json::{JsonTrace, ScopedFields};
use tracemill_codec::text::out::Out;
use tracemill_engine::filter::PathColumns;
use tracemill_semantics::CpuOf;

/// The default columns.
pub const COLUMNS: [&str; 12] = [
    "trace",
    "ns",
    "cycles",
    "name",
    "id",
    "stream",
    "cpu",
    "header",
    "packet_context",
    "stream_context",
    "event_context",
    "payload",
];

/// Prints the events of one trace as rows of the default columns.
pub struct CsvTrace {
    schema: Arc<Schema>,
    trace: String,
    json: JsonTrace,
    cpu: CpuOf,
    scratch: Out,
    name: Vec<u8>,
}

/// The header line, of the default columns unless there are others.
pub fn header(columns: Option<&PathColumns>) -> Vec<u8> {
    let mut out = Out::default();
    put_line(&mut out, &columns.map_or_else(|| COLUMNS.to_vec(), |columns| columns.names().collect()));
    out.written().to_vec()
}

impl CsvTrace {
    /// A printer of rows; `trace` is shown when more than one trace is read.
    pub fn new(schema: Arc<Schema>, trace: Option<&str>) -> Self {
        CsvTrace {
            json: JsonTrace::new(schema.clone()),
            schema,
            trace: trace.unwrap_or_default().to_string(),
            cpu: CpuOf::default(),
            scratch: Out::default(),
            name: Vec::new(),
        }
    }

    pub(crate) fn line(
        &mut self,
        out: &mut Out,
        stream: usize,
        event: EventRef<'_>,
        ns: Option<i128>,
    ) -> Result<(), Fault> {
        let class = self.schema.event(event.class());
        put_cell(out, self.trace.as_bytes());
        out.put_byte(b',');
        ns.into_iter().for_each(|ns| out.put_ns(ns));
        out.put_byte(b',');
        if self.schema.has_cycles(event.class()) {
            out.put_u64(event.cycles());
        }
        out.put_byte(b',');
        put_cell(out, event.name(&mut self.name).unwrap_or_default());
        out.put_fmt(format_args!(",{},{},", event.id(), self.schema.stream(class.stream).id));
        if let Some(cpu) = self.cpu.cpu(stream, &event.chunk.packet) {
            out.put_u64(cpu);
        }
        let mut fields = ScopedFields::default();
        let scopes =
            [Scope::EventHeader, Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
        for scope in scopes {
            out.put_byte(b',');
            self.scratch.clear();
            self.json.scope(&mut self.scratch, stream, event, &mut fields, scope, b"")?;
            put_cell(out, self.scratch.written());
        }
        out.put_byte(b'\n');
        Ok(())
    }
}
