//! From a session to a target: whether it is copied or written, which events go there, in what order, and what comes up
//! on the way. [`convert`] decides; [`Conversion`] is one pass over the events.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, SourceStream, StreamTarget, Target, TraceWriter, WriteOptions};
use tracemill_format::{Entry, Format, OpenTrace, Storage};
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{Origin, TracePart};

use crate::copy::copy;
use crate::damage::check_present;
use crate::filter::{Filter, Matcher};
use crate::item::{Item, ReadyChunk};
use crate::merge::{Note, Sources, StreamIndex};
use crate::output::Pending;
use crate::redact::StreamReader;
use crate::samples::{SampleReader, Symbolizer, has_samples, sample_classes};
use crate::selection::SelectedStream;
use crate::session::Session;
use crate::source::FileSystem;
use crate::split::{SplitBy, Splitter};
use crate::timeline::{self, Selection};
use crate::walk::BATCH;

/// Descriptions of the traces that a target gets before the first event.
///
/// # Errors
/// When a part of a trace cannot be read that a target may need.
pub fn sources(session: &Session, streams: &[SelectedStream]) -> Result<Vec<Source>> {
    let source = |(at, trace): (usize, &OpenTrace)| {
        let parts = trace.reader.parts().map_err(|error| error.in_file(&trace.path))?;
        let origin = origin(trace, &parts);
        let own = streams.iter().filter(|of| of.trace == at);
        let own = own.map(|of| SourceStream {
            name: of.stream.name.clone(),
            origin_name: origin.stream_name(&of.stream.name).unwrap_or(&of.stream.name).to_string(),
            class: of.stream.class,
            id: of.stream.id,
            is_joined: of.stream.files.len() > 1,
        });
        Ok(Source {
            name: trace.name.clone(),
            own_name: trace.own_name.clone(),
            schema: trace.schema.clone(),
            correction_ns: session.corrections[at],
            drift: session.drift(at),
            streams: own.collect(),
            tasks: trace.reader.calls().map_or_else(Vec::new, |calls| calls.tasks().to_vec()),
            origin,
            parts,
        })
    };
    session.traces.iter().enumerate().map(source).collect()
}

/// The format of a trace, or the one that it had before it was converted.
fn origin(trace: &OpenTrace, parts: &[TracePart]) -> Arc<Origin> {
    trace.schema.origin.clone().unwrap_or_else(|| {
        let (format, version) = (trace.schema.format.to_string(), trace.schema.version);
        Arc::new(Origin { format, version, parts: parts.to_vec(), ..Origin::default() })
    })
}

/// Is the path a trace, or a folder of nothing but traces, or parts of an output?
pub fn is_trace(storage: &dyn Storage, formats: &[&Format], path: &Path) -> bool {
    let is_part = |path: &Path| path.file_name().and_then(|name| name.to_str()).is_some_and(crate::split::is_part_name);
    let probe = |path: &Path| formats.iter().any(|format| (format.probe)(storage, path));
    let is_known = |entry: &Entry| probe(&entry.path) || is_part(&entry.path);
    probe(path) || storage.list(path).is_ok_and(|entries| entries.iter().all(is_known))
}

/// Wishes for a conversion.
#[derive(Clone, Default)]
pub struct ConvertOptions<'a> {
    /// Times and classes that are wanted. Damage to packets is met in place, whatever it says of that.
    pub selection: Selection,
    /// Condition on fields.
    pub filter: Option<Filter>,
    /// Events to leave out first.
    pub skip: u64,
    /// Most events.
    pub limit: Option<u64>,
    /// Makes several outputs in a folder.
    pub split: Option<SplitBy>,
    /// Is it an error when the target cannot hold everything?
    pub strict: bool,
    /// Wishes for the writer. Whether events are left out, and whether other parts hold them, is set here.
    pub write: WriteOptions,
    /// Names the functions of samples, for a target that takes them.
    pub symbolizer: Option<&'a dyn Symbolizer>,
    /// Ends the work soon when it is set.
    pub stop: Option<&'a AtomicBool>,
}

impl ConvertOptions<'_> {
    /// Is the output a folder (otherwise a file)?
    pub fn makes_folder(&self, target: &Target) -> bool {
        target.is_folder || self.split.is_some()
    }

    /// Are only some of the events wanted?
    fn has_choice(&self) -> bool {
        let of = &self.selection;
        let has_filter = self.filter.is_some() || !of.classes.is_empty();
        of.begin_ns.is_some() || of.end_ns.is_some() || has_filter || self.skip > 0 || self.limit.is_some()
    }

    /// Is everything wanted as it is?
    fn wants_all(&self, session: &Session, streams: &[SelectedStream]) -> bool {
        let write = &self.write;
        let has_form = write.packet_bytes.is_some() || write.byte_order.is_some() || write.index;
        let has_form = has_form || !write.settings.0.is_empty();
        let is_moved = session.corrections.iter().any(|&ns| ns != 0) || session.drifts.iter().any(Option::is_some);
        let is_split = self.split.is_some() || self.selection.redactions.is_some();
        let has_all = streams.len() == session.traces.iter().map(|trace| trace.streams.len()).sum::<usize>();
        has_all && !(self.has_choice() || is_split || has_form || is_moved)
    }
}

/// Converts streams of a session to a target; what comes up goes to `take`, which can stop the work. The output is not
/// committed: that is for the caller.
///
/// One sound trace of the target's format of which everything is wanted is copied. Otherwise it is rewritten, in up
/// to three passes: whether it is sound, whether a writer that keeps packets can keep all of them, and the events.
///
/// # Errors
/// When the output cannot be written; when the target cannot do what is wished, or, where that is strict, cannot hold
/// everything.
pub fn convert(
    session: &Session,
    streams: &[SelectedStream],
    target: &'static Target,
    output: &mut Pending,
    options: &ConvertOptions<'_>,
    take: &mut dyn FnMut(Note) -> ControlFlow<()>,
) -> Result<Converted> {
    let (named, path) = (output.naming(), FileSystem.path(output.path()));
    let selection = Selection { faults_in_place: true, ..options.selection.clone() };
    let mut sources = sources(session, streams)?;
    if let Some(redactions) = &selection.redactions {
        redactions.clear_origins(&mut sources);
    }
    let conversion = Conversion {
        session,
        streams,
        selection: &selection,
        options,
        in_order: target.wants_order || options.split.is_some_and(SplitBy::wants_order),
    };
    let is_folder = options.makes_folder(target);
    // Only sound traces are copied as they are.
    let may_copy = options.wants_all(session, streams) && can_copy(target, session);
    let sound = if may_copy { conversion.read_all() } else { None };
    let is_sound = sound.is_some();
    if is_sound && is_folder {
        output.make_folder()?;
    }
    if let Some((notes, events)) = sound
        && copy(&session.traces[0], &FileSystem, &path).map_err(&named)?
    {
        for note in notes {
            // The copy is complete: it is too late to stop.
            let _ = take(note);
        }
        return Ok(Converted { events, losses: Losses::default(), is_stopped: false });
    }
    let mut write = options.write.clone();
    write.is_part = options.split.is_some_and(SplitBy::wants_order);
    write.is_cut = options.has_choice()
        || options.split.is_some()
        || may_copy && !is_sound
        || session.traces.iter().any(|trace| !trace.faults.is_empty());
    let needs_sound_packets = || options.split.is_none() && (target.needs_sound_packets)(&sources, &write);
    if !is_sound && !write.is_cut && needs_sound_packets() && conversion.read_all().is_none() {
        write.is_cut = true;
    }
    let writer: Box<dyn TraceWriter + '_> = match options.split {
        Some(by) => Box::new(Splitter::new(by, target, &path, (session, streams), &sources, &write).map_err(&named)?),
        None => (target.create)(&path, &sources, &write).map_err(&named)?,
    };
    if write.merge && target.is_folder && !writer.needs().joined_traces {
        let error = Error::misuse(format!("--merge cannot write {}", target.names.first().unwrap_or(&"")));
        return Err(error.with_help("it writes ctf2 and ctf1.8, which become everything else; files hold all traces"));
    }
    if options.strict && !writer.losses().is_empty() {
        return Err(refused(target, &writer.losses()));
    }
    if is_folder {
        output.make_folder()?;
    }
    let converted = conversion.run(writer, take).map_err(&named)?;
    if options.strict && !converted.is_stopped && !converted.losses.is_empty() {
        return Err(refused(target, &converted.losses));
    }
    Ok(converted)
}

/// May the session be copied byte by byte?
fn can_copy(target: &Target, session: &Session) -> bool {
    let is_one = matches!(session.traces.as_slice(), [trace] if trace.faults.is_empty());
    let has_format = session.traces.iter().all(|trace| target.names.contains(&trace.schema.format));
    is_one && has_format && session.failures.is_empty()
}

/// The error of a target that cannot hold everything where that is strict.
fn refused(target: &Target, losses: &Losses) -> Error {
    let list: Vec<String> = losses.report().iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
    let name = target.names.first().unwrap_or(&"");
    let message = format!("{name} cannot hold everything, and --strict forbids that: {}", list.join("; "));
    Error::unsupported(message).with_help("nothing was written; without --strict the rest is")
}

/// Events of a session on their way to a writer, in one pass.
pub struct Conversion<'a> {
    /// The session.
    pub session: &'a Session,
    /// Its streams that are wanted.
    pub streams: &'a [SelectedStream],
    /// Their events that are read.
    pub selection: &'a Selection,
    /// The wishes; only the filter, the numbers of events, and the flag that ends the work matter here.
    pub options: &'a ConvertOptions<'a>,
    /// Must events come in the order of time?
    pub in_order: bool,
}

/// How a conversion ended.
pub struct Converted {
    /// Events that were written.
    pub events: u64,
    /// Losses.
    pub losses: Losses,
    /// Was it stopped? The output is not complete then.
    pub is_stopped: bool,
}

impl Conversion<'_> {
    /// Reads everything that is wanted, and gives what came up and the number of events. `None` when a part cannot be
    /// read.
    pub fn read_all(&self) -> Option<(Vec<Note>, u64)> {
        let (mut notes, mut events) = (Vec::new(), 0);
        let mut cursors = timeline::cursors(self.session, self.streams, self.selection);
        // They are looked at all the same, without a list of their events.
        cursors.iter_mut().for_each(StreamReader::give_packets);
        let mut sources = self.sources(cursors);
        for at in 0..self.streams.len() {
            while let Some(item) = sources.next(at) {
                match item {
                    Item::Chunk(ready) => events += ready.chunk.len() as u64,
                    Item::Packet(_, count) => events += count,
                    Item::Gap(gap) => notes.push(Note::Gap(StreamIndex(at as u32), gap)),
                    Item::Warning(error) => notes.push(Note::Warning(error)),
                    Item::Fault(_) => return None,
                }
            }
        }
        Some((notes, events))
    }

    /// Readers of the streams, for a writer that takes packets or not.
    fn cursors(&self, takes_packets: bool) -> Vec<StreamReader> {
        let mut cursors = timeline::cursors(self.session, self.streams, self.selection);
        for cursor in &mut cursors {
            if takes_packets {
                cursor.give_packets();
            } else if self.options.filter.is_none() {
                cursor.give_empty_packets();
            }
        }
        cursors
    }

    /// Does the user want no more?
    fn is_stopped(&self) -> bool {
        self.options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// The items of the streams that these read.
    fn sources(&self, cursors: Vec<StreamReader>) -> Sources {
        Sources::new(cursors, self.selection.jobs, timeline::max_events(self.streams, self.selection))
    }

    /// Writes all events; what comes up goes to `take`, which can stop the work.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn run(
        &self,
        mut writer: Box<dyn TraceWriter + '_>,
        take: &mut dyn FnMut(Note) -> ControlFlow<()>,
    ) -> Result<Converted> {
        let is_counted = self.options.skip > 0 || self.options.limit.is_some();
        let (flow, events) = if self.in_order || is_counted {
            self.in_order_of_time(&mut *writer, take)?
        } else {
            self.stream_by_stream(&mut *writer, take)?
        };
        let is_stopped = flow.is_break();
        let names_functions = writer.needs().samples;
        let mut losses = if is_stopped { Losses::default() } else { writer.finish()? };
        if !is_stopped && names_functions && self.selection.redactions.is_some() {
            let with_samples = sample_classes(self.session);
            let with_samples = with_samples.iter().filter(|classes| classes.iter().any(Option::is_some));
            losses.add(Lost::HiddenStacks, with_samples.count() as u64);
        }
        if !is_stopped && !names_functions {
            let maps = self.session.traces.iter().filter_map(|trace| trace.reader.code_maps());
            losses.add(Lost::BuildIds, maps.map(|maps| maps.build_ids_beside_events()).sum());
        }
        Ok(Converted { events, losses, is_stopped })
    }

    /// Writes one stream after the other, or several at a time where there are jobs and the writer can; gives the number of
    /// events, too.
    fn stream_by_stream(
        &self,
        writer: &mut dyn TraceWriter,
        take: &mut dyn FnMut(Note) -> ControlFlow<()>,
    ) -> Result<(ControlFlow<()>, u64)> {
        let takes_packets = self.options.filter.is_none() && writer.needs().whole_packets;
        if self.selection.jobs > 1
            && self.streams.len() > 1
            && let Some(targets) = writer.streams()
        {
            return write_in_parallel(self, targets, takes_packets, take);
        }
        let mut sources = self.sources(self.cursors(takes_packets));
        let mut job = StreamJob::new(self, takes_packets);
        for stream in 0..self.streams.len() {
            let mut target = StreamOfWriter { writer, stream };
            if job.write(stream, || sources.next(stream), &mut target, || false, &mut *take)?.is_break() {
                return Ok((ControlFlow::Break(()), job.events));
            }
        }
        Ok((ControlFlow::Continue(()), job.events))
    }

    /// Writes the events of all streams in the order of time; gives their number, too.
    fn in_order_of_time(
        &self,
        writer: &mut dyn TraceWriter,
        take: &mut dyn FnMut(Note) -> ControlFlow<()>,
    ) -> Result<(ControlFlow<()>, u64)> {
        let mut feed = OrderedFeed {
            streams: self.streams,
            writer,
            matcher: self.options.filter.as_ref().map(Filter::matcher),
            skip: self.options.skip,
            left: self.options.limit.unwrap_or(u64::MAX),
            events: 0,
            damaged: Damaged::default(),
            samples: None,
        };
        // Stacks come from the trace as it was recorded, and would show what is hidden.
        if feed.writer.needs().samples && self.selection.redactions.is_none() && has_samples(self.session) {
            feed.samples = Some(SampleReader::new(self.session, self.options.symbolizer));
        }
        let mut merger = timeline::merger(self.session, self.streams, self.selection);
        // Notes before the first event of any stream come with the first batch, and belong before it.
        let mut size = 1;
        while feed.left > 0 {
            let Some(mut batch) = merger.next_batch(size) else { break };
            if self.is_stopped() {
                return Ok((ControlFlow::Break(()), feed.events));
            }
            let mut notes = std::mem::take(&mut batch.notes).into_iter();
            let before = if size == 1 { notes.len() } else { 0 };
            for note in notes.by_ref().take(before) {
                if feed.pass_note(note, take)?.is_break() {
                    return Ok((ControlFlow::Break(()), feed.events));
                }
            }
            for run in &batch.runs {
                let (stream, ready) = &batch.chunks[run.chunk as usize];
                feed.events(stream.0 as usize, ready, run.from as usize, run.to as usize)?;
            }
            for note in notes {
                if feed.pass_note(note, take)?.is_break() {
                    return Ok((ControlFlow::Break(()), feed.events));
                }
            }
            size = BATCH;
        }
        Ok((ControlFlow::Continue(()), feed.events))
    }
}

/// Notes of a stream that wait for those of the streams before it.
const WAITING: usize = 4;

/// Writes all streams, several at a time; gives the number of events, too. What comes up goes to `take` in the order of
/// the streams.
fn write_in_parallel(
    of: &Conversion<'_>,
    targets: Vec<Box<dyn StreamTarget + Send + '_>>,
    takes_packets: bool,
    take: &mut dyn FnMut(Note) -> ControlFlow<()>,
) -> Result<(ControlFlow<()>, u64)> {
    let jobs = of.selection.jobs;
    let (each, max_events) = ((jobs / of.streams.len()).max(1), timeline::max_events(of.streams, of.selection));
    let (senders, receivers): (Vec<_>, Vec<_>) = of.streams.iter().map(|_| sync_channel(WAITING)).unzip();
    let work = of.cursors(takes_packets).into_iter().zip(targets).zip(senders).enumerate();
    let work = Mutex::new(work);
    let is_stopped = AtomicBool::new(false);
    let events = AtomicU64::new(0);
    // The error of the first stream that has one.
    let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    let mut flow = ControlFlow::Continue(());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(of.streams.len()) {
            scope.spawn(|| {
                let _rest = DropRest(&work);
                // Streams are begun in their order, so that the one whose notes are waited for is being written.
                let next = || work.lock().unwrap_or_else(PoisonError::into_inner).next();
                while !is_stopped.load(Ordering::Relaxed)
                    && let Some((at, ((cursor, mut target), notes))) = next()
                {
                    let mut sources = Sources::new(vec![cursor], each, max_events);
                    let mut job = StreamJob::new(of, takes_packets);
                    let is_over = || is_stopped.load(Ordering::Relaxed);
                    let send = |note| {
                        if notes.send(note).is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                    };
                    let written = job.write(at, || sources.next(0), &mut *target, is_over, send);
                    events.fetch_add(job.events, Ordering::Relaxed);
                    if let Err(error) = written {
                        is_stopped.store(true, Ordering::Relaxed);
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                            *failed = Some((at, error));
                        }
                    }
                }
            });
        }
        for note in receivers.iter().flat_map(Receiver::iter) {
            if take(note).is_break() {
                is_stopped.store(true, Ordering::Relaxed);
                flow = ControlFlow::Break(());
                break;
            }
        }
        // Sending fails from here on: streams that are still written end.
        drop(receivers);
    });
    if let Some((_, error)) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    Ok((if of.is_stopped() { ControlFlow::Break(()) } else { flow }, events.into_inner()))
}

/// Drops what a thread leaves when it ends early: no thread waits for notes that never come.
struct DropRest<'a, I: Iterator>(&'a Mutex<I>);

impl<I: Iterator> Drop for DropRest<'_, I> {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_ref().for_each(drop);
    }
}

/// Writes streams one after the other; what holds for all of them is kept from one to the next.
struct StreamJob<'a> {
    of: &'a Conversion<'a>,
    matcher: Option<Matcher>,
    takes_packets: bool,
    /// Events that were written.
    events: u64,
}

impl StreamJob<'_> {
    fn new<'a>(of: &'a Conversion<'a>, takes_packets: bool) -> StreamJob<'a> {
        let matcher = of.options.filter.as_ref().map(Filter::matcher);
        StreamJob { of, matcher, takes_packets, events: 0 }
    }

    /// Writes the items of a stream to a target, until the end, or until `take` or `is_stopped` ends the work.
    fn write(
        &mut self,
        stream: usize,
        mut next: impl FnMut() -> Option<Item>,
        target: &mut (impl StreamTarget + ?Sized),
        is_stopped: impl Fn() -> bool,
        mut take: impl FnMut(Note) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let of = &self.of.streams[stream];
        let mut damaged = Damaged::default();
        while let Some(item) = next() {
            if is_stopped() || self.of.is_stopped() {
                return Ok(ControlFlow::Break(()));
            }
            let note = match item {
                Item::Chunk(ready) => {
                    self.events(of, &ready, target)?;
                    continue;
                }
                Item::Packet(packet, _) if !self.takes_packets => {
                    target.empty_packet(&packet)?;
                    check_present(&of.stream, &packet)?;
                    continue;
                }
                Item::Packet(packet, count) => {
                    // Also when writing fails: the system refuses to write what is gone.
                    let written = target.packet(&packet);
                    check_present(&of.stream, &packet)?;
                    written?;
                    self.events += count;
                    continue;
                }
                Item::Gap(gap) => {
                    target.gap(&gap)?;
                    Note::Gap(StreamIndex(stream as u32), gap)
                }
                Item::Fault(fault) => {
                    if damaged.is_new(&fault) {
                        target.gap(&DAMAGE)?;
                    }
                    Note::Fault(fault)
                }
                Item::Warning(error) => Note::Warning(error),
            };
            if take(note).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        target.end()?;
        Ok(ControlFlow::Continue(()))
    }

    #[inline]
    fn events(
        &mut self,
        of: &SelectedStream,
        ready: &ReadyChunk,
        target: &mut (impl StreamTarget + ?Sized),
    ) -> Result<()> {
        for at in 0..ready.chunk.len() {
            let event = ready.chunk.event(at);
            if self.matcher.as_mut().is_none_or(|matcher| matcher.matches(&of.event(event))) {
                target.event(event)?;
                self.events += 1;
            }
        }
        Ok(())
    }
}

/// The packet that could not be read last.
#[derive(Default)]
struct Damaged {
    file: Option<PathBuf>,
    packet: Option<u64>,
}

impl Damaged {
    /// Does an error lose something, in a packet that none did so far?
    fn is_new(&mut self, fault: &Error) -> bool {
        let (file, packet) = (&fault.place().file, fault.place().packet);
        if fault.loses_nothing() || packet.is_some() && (&self.file, self.packet) == (file, packet) {
            return false;
        }
        (self.file, self.packet) = (file.clone(), packet);
        true
    }
}

/// The loss that stands for a part that cannot be read where formats count packets: one of them.
const DAMAGE: Gap = Gap { kind: GapKind::LostPackets, count: Some(1), begin_cycles: None, end_cycles: None };

/// A stream of a writer of all.
struct StreamOfWriter<'w, 'a> {
    writer: &'w mut (dyn TraceWriter + 'a),
    stream: usize,
}

impl StreamTarget for StreamOfWriter<'_, '_> {
    #[inline]
    fn event(&mut self, event: EventRef<'_>) -> Result<()> {
        self.writer.event(self.stream, event)
    }

    fn packet(&mut self, packet: &PacketData) -> Result<()> {
        self.writer.packet(self.stream, packet)
    }

    fn empty_packet(&mut self, packet: &PacketData) -> Result<()> {
        self.writer.empty_packet(self.stream, packet)
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.writer.gap(self.stream, gap)
    }

    fn end(&mut self) -> Result<()> {
        self.writer.end_stream(self.stream)
    }
}

/// Hands merged events to a writer.
struct OrderedFeed<'a> {
    streams: &'a [SelectedStream],
    writer: &'a mut dyn TraceWriter,
    matcher: Option<Matcher>,
    skip: u64,
    left: u64,
    events: u64,
    damaged: Damaged,
    samples: Option<SampleReader<'a>>,
}

impl OrderedFeed<'_> {
    /// Reports to the stream in whose files it is that a part cannot be read: once for each packet.
    fn damage(&mut self, fault: &Error) -> Result<()> {
        if !self.damaged.is_new(fault) {
            return Ok(());
        }
        let file = fault.place().file.as_ref();
        let has_file = |of: &SelectedStream| of.stream.files.iter().any(|one| Some(&one.path) == file);
        let stream = self.streams.iter().position(has_file);
        stream.map_or(Ok(()), |stream| self.writer.gap(stream, &DAMAGE))
    }

    /// Hands a note on: to the writer what it has to know, and to the caller all.
    fn pass_note(&mut self, note: Note, take: &mut dyn FnMut(Note) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        match &note {
            Note::Gap(stream, gap) => self.writer.gap(stream.0 as usize, gap)?,
            Note::Fault(fault) => self.damage(fault)?,
            Note::Warning(_) => {}
        }
        Ok(take(note))
    }

    #[inline]
    fn events(&mut self, stream: usize, ready: &ReadyChunk, from: usize, to: usize) -> Result<()> {
        let of = &self.streams[stream];
        for at in from..to {
            let event = ready.chunk.event(at);
            if self.matcher.as_mut().is_some_and(|matcher| !matcher.matches(&of.event(event))) {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            if self.left == 0 {
                return Ok(());
            }
            self.left -= 1;
            self.events += 1;
            let sample = self.samples.as_mut().and_then(|reader| reader.read_stack(&of.event(event)));
            match sample {
                Some(sample) => self.writer.sample(stream, event, &sample)?,
                None => self.writer.event(stream, event)?,
            }
        }
        Ok(())
    }
}
