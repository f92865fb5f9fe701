//! Chrome's trace JSON, as Perfetto's viewer and `chrome://tracing` load it.
//!
//! One object with `traceEvents`. Each trace is a process and each stream a thread of it, named so; each event is an
//! instant on its thread, with its scopes as arguments. Times are microseconds with three digits behind the point, so
//! no ns is lost in the text.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tracemill_codec::chunk::EventRef;
use tracemill_formats::target::{Losses, Source, Target, TraceWriter, WriteOptions};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::Scope;

use crate::render::json::{Fields, JsonTrace};
use crate::render::out::Out;
use crate::render::strings;

/// See the module.
pub(super) static CHROME: Target = Target {
    names: &["chrome"],
    description: "trace JSON of Chrome, for chrome://tracing and ui.perfetto.dev",
    cannot_hold: &["schemas, clocks, environments and packets", "events without time"],
    is_folder: false,
    wants_order: true,
    hides_fields: false,
    create,
    copy: None,
    settings: &[],
};

/// Scopes that become arguments, in the order in which they are stored.
const SCOPES: [(Scope, &[u8]); 3] = [
    (Scope::CommonContext, b"\"stream_context\":"),
    (Scope::SpecificContext, b"\"event_context\":"),
    (Scope::Payload, b"\"payload\":"),
];

struct Writer {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    traces: Vec<JsonTrace>,
    streams: Vec<StreamOut>,
    names: Vec<(usize, usize, String)>,
    out: Out,
    name: Vec<u8>,
    is_first: bool,
    latest_ns: i128,
    untimed: u64,
    unreadable: u64,
}

struct StreamOut {
    trace: usize,
    index: usize,
    clock: Option<ClockMap>,
}

fn create(path: &Path, sources: &[Source], _options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    let (mut streams, mut names) = (Vec::new(), Vec::new());
    for (trace, source) in sources.iter().enumerate() {
        names.push((trace, usize::MAX, source.name.clone()));
        for (index, stream) in source.streams.iter().enumerate() {
            let clock = source.schema.stream(stream.class).default_clock.map(|clock| source.schema.clock(clock));
            let clock = clock.filter(|clock| clock.frequency > 0);
            let clock = clock.map(|clock| ClockMap::new(clock, source.correction_ns));
            streams.push(StreamOut { trace, index, clock });
            names.push((trace, index, stream.name.clone()));
        }
    }
    Ok(Box::new(Writer {
        path: path.to_path_buf(),
        file: None,
        traces: sources.iter().map(|source| JsonTrace::new(source.schema.clone())).collect(),
        streams,
        names,
        out: Out::default(),
        name: Vec::new(),
        is_first: true,
        latest_ns: 0,
        untimed: 0,
        unreadable: 0,
    }))
}

impl Writer {
    /// Makes the file and writes what comes before the events.
    fn begin(&mut self) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let file = File::create(&self.path).map_err(|error| Error::io("write the file", &self.path, &error))?;
        self.file = Some(BufWriter::with_capacity(1 << 16, file));
        self.out.put(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        for (trace, stream, name) in std::mem::take(&mut self.names) {
            self.separate();
            let (kind, thread) = if stream == usize::MAX { ("process", 0) } else { ("thread", stream + 1) };
            self.out.put_fmt(format_args!(
                "{{\"name\":\"{kind}_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{thread},\"args\":{{\"name\":",
                trace + 1
            ));
            strings::put_json(&mut self.out, name.as_bytes());
            self.out.put(b"}}");
        }
        self.flush()
    }

    fn separate(&mut self) {
        let before: &[u8] = if std::mem::replace(&mut self.is_first, false) { b"\n" } else { b",\n" };
        self.out.put(before);
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file {
            let written = file.write_all(self.out.written());
            written.map_err(|error| Error::io("write the file", &self.path, &error))?;
        }
        self.out.clear();
        Ok(())
    }

    /// What stands between the name and the arguments of an instant.
    fn place(&mut self, stream: usize, ns: i128) {
        let of = &self.streams[stream];
        let sign = if ns < 0 { "-" } else { "" };
        let size = ns.unsigned_abs();
        self.out.put_fmt(format_args!(
            ",\"ph\":\"i\",\"s\":\"t\",\"pid\":{},\"tid\":{},\"ts\":{sign}{}.{:03},\"args\":",
            of.trace + 1,
            of.index + 1,
            size / 1000,
            size % 1000
        ));
    }
}

impl TraceWriter for Writer {
    fn losses(&self) -> Losses {
        Losses::default()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        self.begin()?;
        let schema = event.chunk.packet.plans.schema().clone();
        let class = schema.event(event.class());
        let of = &self.streams[stream];
        let (trace, index) = (of.trace, of.index);
        let ns = match of.clock.filter(|_| !class.is_untimed) {
            Some(clock) => clock.ns(event.cycles()),
            None => {
                self.untimed += 1;
                self.latest_ns
            }
        };
        self.latest_ns = ns;
        let was_first = self.is_first;
        self.separate();
        self.out.put(b"{\"name\":");
        self.name.clear();
        if class.open_ids.is_none() || event.own_id(&mut self.name).is_none() {
            self.name.extend_from_slice(class.name.as_deref().unwrap_or("(no name)").as_bytes());
        }
        strings::put_json(&mut self.out, &self.name);
        self.place(stream, ns);
        self.out.put_byte(b'{');
        let mut fields = Fields::default();
        let mut is_first = true;
        let mut before = Vec::new();
        for (scope, key) in SCOPES {
            before.clear();
            if !is_first {
                before.push(b',');
            }
            before.extend_from_slice(key);
            match self.traces[trace].scope(&mut self.out, index, event, &mut fields, scope, &before) {
                Ok(is_there) => is_first &= !is_there,
                // It was whole when it was found: the file has changed.
                Err(_) => {
                    self.unreadable += 1;
                    self.is_first = was_first;
                    self.out.clear();
                    return Ok(());
                }
            }
        }
        self.out.put(b"}}");
        self.flush()
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        self.begin()?;
        let clock = self.streams[stream].clock;
        let ns = clock.and_then(|clock| gap.begin_cycles.map(|cycles| clock.ns(cycles))).unwrap_or(self.latest_ns);
        self.separate();
        let name = match gap.kind {
            GapKind::DiscardedEvents => "discarded events",
            GapKind::LostPackets => "lost packets",
        };
        self.out.put_fmt(format_args!("{{\"name\":\"{name}\""));
        self.place(stream, ns);
        match gap.count {
            Some(count) => self.out.put_fmt(format_args!("{{\"count\":{count}}}}}")),
            None => self.out.put(b"{\"count\":null}}"),
        }
        self.flush()
    }

    fn end_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.begin()?;
        self.out.put(b"\n]}\n");
        self.flush()?;
        if let Some(file) = &mut self.file {
            file.flush().map_err(|error| Error::io("write the file", &self.path, &error))?;
        }
        let mut losses = Losses::default();
        losses.add("events without time (they stand at the time of the event before)", self.untimed);
        losses.add("events whose file changed while they were read", self.unreadable);
        Ok(losses)
    }
}
