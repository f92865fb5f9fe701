//! One output becomes many: a folder with a trace, or a file, for each stream, process, stretch of time or size.

use std::collections::HashMap;
use std::path::Path;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_format::lost::Losses;
use tracemill_format::samples::Sample;
use tracemill_format::target::{Needs, Source, Target, TraceWriter, WriteOptions};
use tracemill_format::{Extent, OutPath, as_file_name};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::packet::Gap;
use tracemill_semantics::Recording;

use crate::filter::{KeyBy, KeyReader, KeyValue};
use crate::selection::SelectedStream;
use crate::session::Session;

/// Criterion that decides to which part an event goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitBy {
    /// Its stream.
    Stream,
    /// The process that it says, otherwise the only one of its trace, otherwise its stream.
    Process,
    /// How many times this many ns it comes after the first one.
    Time(u64),
    /// How large the part before has become, in bytes.
    Size(u64),
}

impl SplitBy {
    /// Do the parts come one after the other, so that events must come in the order of time?
    pub fn wants_order(self) -> bool {
        matches!(self, SplitBy::Time(_) | SplitBy::Size(_))
    }
}

/// Parts that are written at the same time.
const MAX_OPEN: usize = 500;
/// Parts of a split by time or size.
const MAX_PARTS: u64 = 1_000_000;
/// Events after which the size of a part is looked at.
const SIZE_EVERY: u64 = 256;

/// Index of the name of a process among those of the keys ([`KeyBy::Process`]).
const PROCESS: usize = 1;
/// Index of the name of a stream.
const STREAM: usize = 2;

/// Writes the parts.
pub struct Splitter<'a> {
    by: SplitBy,
    target: &'static Target,
    folder: OutPath,
    sources: &'a [Source],
    options: &'a WriteOptions,
    streams: &'a [SelectedStream],
    keys: Option<KeyReader>,
    key: Vec<u8>,
    /// The only process of each trace, where its environment names one.
    processes: Vec<Option<i128>>,
    /// Parts that are open, by key, with their paths; one at a time where parts come one after the other.
    open: HashMap<Vec<u8>, (OutPath, Box<dyn TraceWriter>)>,
    /// Files and bytes of the parts that are complete.
    written: Extent,
    names: HashMap<String, u32>,
    current: Option<u64>,
    first_ns: Option<i128>,
    events: u64,
    schema_losses: Losses,
    needs: Needs,
    losses: Losses,
}

impl<'a> Splitter<'a> {
    /// A splitter that writes below `folder`.
    ///
    /// # Errors
    /// When the target cannot hold a trace at all.
    pub fn new(
        by: SplitBy,
        target: &'static Target,
        folder: &OutPath,
        (session, streams): (&Session, &'a [SelectedStream]),
        sources: &'a [Source],
        options: &'a WriteOptions,
    ) -> Result<Self> {
        // It writes nothing: what it says of the schemas is the same for every part.
        let probe = (target.create)(&folder.join("part"), sources, options)?;
        Ok(Splitter {
            by,
            target,
            folder: folder.clone(),
            sources,
            options,
            streams,
            keys: (by == SplitBy::Process).then(|| KeyReader::new(session, &KeyBy::Process)),
            key: Vec::new(),
            processes: session.traces.iter().map(|trace| Recording::from_schema(&trace.schema).process).collect(),
            open: HashMap::new(),
            written: Extent::default(),
            names: HashMap::new(),
            current: None,
            first_ns: None,
            events: 0,
            schema_losses: probe.losses(),
            needs: Needs { whole_packets: by == SplitBy::Stream && probe.needs().whole_packets, ..probe.needs() },
            losses: Losses::default(),
        })
    }

    /// The writer of the part that has a key; it gets `name` when it is new.
    fn part(&mut self, name: impl FnOnce() -> String) -> Result<&mut dyn TraceWriter> {
        if !self.open.contains_key(&self.key) {
            if self.open.len() >= MAX_OPEN {
                let message = format!("the output has more than {MAX_OPEN} parts");
                return Err(Error::unsupported(message).with_help("choose some of them with --filter or --stream"));
            }
            self.folder.make_folder()?;
            let path = self.folder.join(free_name(&mut self.names, &name()));
            let writer = (self.target.create)(&path, self.sources, self.options)?;
            self.open.insert(self.key.clone(), (path, writer));
        }
        match self.open.get_mut(&self.key) {
            Some((_, writer)) => Ok(&mut **writer),
            None => Err(Error::misuse("a part of the output is missing")),
        }
    }

    fn close_all(&mut self) -> Result<()> {
        let mut parts: Vec<_> = self.open.drain().collect();
        parts.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, (path, part)) in parts {
            let mut losses = part.finish()?;
            let extent = path.sink().extent(path.path()).ok_or_else(|| vanished(path.path()))?;
            self.written.files += extent.files;
            self.written.bytes += extent.bytes;
            // The losses of the schema are the same in every part, and count once.
            losses.subtract(&self.schema_losses);
            self.losses.extend(&losses);
        }
        Ok(())
    }

    /// The part that comes after those before; parts are numbered from 0.
    fn next_part(&mut self, number: u64) -> Result<&mut dyn TraceWriter> {
        if number >= MAX_PARTS {
            let error = Error::unsupported(format!("the output has more than {MAX_PARTS} parts"));
            return Err(error.with_help("make them larger"));
        }
        if self.current != Some(number) {
            self.close_all()?;
            self.current = Some(number);
        }
        self.key.clear();
        self.part(|| part_name(number))
    }

    fn number_of(&mut self, stream: usize, event: EventRef<'_>) -> u64 {
        let now = self.current.unwrap_or(0);
        match self.by {
            SplitBy::Time(every) => {
                let Some(ns) = event.ns(self.streams[stream].clock.as_ref()) else { return now };
                let first: i128 = *self.first_ns.get_or_insert(ns);
                let after = ns - first;
                // Time that goes back stays in the part that is open.
                now.max((after.max(0) / i128::from(every.max(1))) as u64)
            }
            SplitBy::Size(bytes) => {
                self.events += 1;
                let is_full = self.events.is_multiple_of(SIZE_EVERY) && self.size_of(now) >= bytes;
                if is_full { now + 1 } else { now }
            }
            SplitBy::Stream | SplitBy::Process => now,
        }
    }

    /// Bytes of a part.
    fn size_of(&self, number: u64) -> u64 {
        let path = self.folder.join(part_name(number));
        path.sink().extent(path.path()).unwrap_or_default().bytes
    }

    fn stream_part(&mut self, stream: usize) -> Result<&mut dyn TraceWriter> {
        self.key.clear();
        self.key.extend((stream as u64).to_be_bytes());
        let name = self.streams[stream].stream.name.clone();
        self.part(|| name)
    }

    /// The part that an event goes to.
    fn part_of(&mut self, stream: usize, event: EventRef<'_>) -> Result<Option<&mut dyn TraceWriter>> {
        match self.by {
            SplitBy::Stream => self.stream_part(stream).map(Some),
            SplitBy::Time(_) | SplitBy::Size(_) => {
                let number = self.number_of(stream, event);
                self.next_part(number).map(Some)
            }
            SplitBy::Process => {
                let Some(keys) = &mut self.keys else { return Ok(None) };
                let of = &self.streams[stream];
                let mut values = keys.values(&of.event(event), &mut self.key);
                if let (Some(process), Some((what @ STREAM, value))) = (self.processes[of.trace], values.last_mut()) {
                    (*what, *value) = (PROCESS, KeyValue::Integer(process));
                }
                let name = name_of(&values, self.sources.len() > 1);
                // A stream may be named as a process is numbered.
                self.key.clear();
                self.key.extend(values.last().map(|(what, _)| *what as u8));
                self.key.extend(name.as_bytes());
                self.part(|| name).map(Some)
            }
        }
    }
}

impl TraceWriter for Splitter<'_> {
    fn needs(&self) -> Needs {
        self.needs
    }

    fn losses(&self) -> Losses {
        self.schema_losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        self.part_of(stream, event)?.map_or(Ok(()), |part| part.event(stream, event))
    }

    fn sample(&mut self, stream: usize, event: EventRef<'_>, sample: &Sample<'_>) -> Result<()> {
        self.part_of(stream, event)?.map_or(Ok(()), |part| part.sample(stream, event, sample))
    }

    fn packet(&mut self, stream: usize, packet: &PacketData) -> Result<()> {
        self.stream_part(stream)?.packet(stream, packet)
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        match self.by {
            SplitBy::Stream => self.stream_part(stream)?.gap(stream, gap),
            SplitBy::Time(_) | SplitBy::Size(_) => {
                let number = self.current.unwrap_or(0);
                self.next_part(number)?.gap(stream, gap)
            }
            // The process of the lost events is unknown: each part that is there reports the gap.
            SplitBy::Process => self.open.values_mut().try_for_each(|(_, part)| part.gap(stream, gap)),
        }
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        self.open.values_mut().try_for_each(|(_, part)| part.end_stream(stream))
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        self.close_all()?;
        self.folder.make_folder()?;
        // A writer looks after the files of its own part only.
        if self.folder.sink().extent(self.folder.path()) != Some(self.written) {
            return Err(vanished(self.folder.path()));
        }
        let mut losses = std::mem::take(&mut self.losses);
        losses.extend(&self.schema_losses);
        Ok(losses)
    }
}

/// The name of a part whose events have these values in common.
fn name_of(values: &[(usize, KeyValue)], several: bool) -> String {
    // The first value is the trace.
    let shown = values.iter().skip(usize::from(!several && values.len() > 1));
    shown.map(|(_, value)| value.to_string()).collect::<Vec<_>>().join("-")
}

/// A name of a file that no other part has.
fn free_name(names: &mut HashMap<String, u32>, name: &str) -> String {
    let name = as_file_name(name.trim_matches(['/', '.']));
    let name = if name.is_empty() { "part".to_string() } else { name };
    let mut free = name.clone();
    loop {
        let count = names.entry(free.clone()).or_insert(0);
        *count += 1;
        if *count == 1 {
            return free;
        }
        free = format!("{name}-{count}");
    }
}

fn vanished(path: &Path) -> Error {
    Error::new(ErrorKind::Io, "files of the parts were removed while others were written").in_file(path)
}

/// The name of a part of a split by time or size.
fn part_name(number: u64) -> String {
    format!("part-{number:06}")
}

/// Is it the name of a part of a split by time or size?
pub fn is_part_name(name: &str) -> bool {
    let digits = name.strip_prefix("part-").unwrap_or_default();
    digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_digit())
}
