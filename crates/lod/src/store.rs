//! The index of a session as bytes: written once, read when the same session is opened again.
//!
//! The bytes end with a checksum, and every number that another part is found by is checked, so bytes that are cut off,
//! damaged or of another session give nothing. Memory is never taken in proportion to a number that stands there, but to the
//! bytes that follow it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use tracemill_engine::session::Session;

use crate::calls::SessionCalls;
use crate::checkpoints::Checkpoints;
use crate::events::EventColumns;
use crate::index::{Index, LossKind, LossRange};
use crate::kinds::TrackKind;
use crate::reread::EventRereader;
use crate::segments::Spool;
use crate::source::Source;
use crate::states::States;
use crate::timeline::Timeline;

pub(crate) mod bytes;

use bytes::{Reader, Writer};

/// The bytes begin with this; the number changes with the form of the rest.
const MAGIC: &[u8] = b"tracemill index 5\n";

/// All that is known of a session, to be written.
#[derive(Clone, Copy)]
pub struct IndexParts<'k> {
    /// Its density, which was counted.
    pub timeline: &'k Timeline,
    /// Its index.
    pub index: &'k Index,
    /// Its calls, when it has any.
    pub calls: Option<&'k SessionCalls>,
    /// States of CPUs and threads, when it has any, and for each machine a number that is below that of the traces.
    pub states: Option<(&'k States, &'k [Option<usize>])>,
}

/// A session as it was [written](IndexParts), read again.
pub struct StoredIndex {
    /// See [`IndexParts::timeline`].
    pub timeline: Timeline,
    /// See [`IndexParts::index`].
    pub index: Index,
    /// See [`IndexParts::calls`].
    pub calls: Option<SessionCalls>,
    /// See [`IndexParts::states`].
    pub states: Option<(States, Vec<Option<usize>>)>,
}

/// Writes what is known of a session. `identity` says of which one, in words of the caller. False when that cannot be kept:
/// something was damaged, or a name is no text.
///
/// # Errors
/// When the bytes cannot be written.
pub fn write(known: IndexParts<'_>, identity: &[u8], out: &mut dyn Write) -> io::Result<bool> {
    let IndexParts { timeline, index, calls, states } = known;
    let is_text = |name: &String| !name.contains(char::REPLACEMENT_CHARACTER);
    let is_whole = calls.is_none_or(|calls| calls.faults.is_empty() && calls.warnings.is_empty());
    if !is_whole || !index.faults.is_empty() || !index.warnings.is_empty() || !index.names.iter().all(is_text) {
        return Ok(false);
    }
    let mut to = Writer::new(out);
    to.plain(MAGIC)?;
    to.bytes(identity)?;
    to.wide(index.origin);
    to.wide(index.begin);
    to.wide(index.end);
    to.number(index.untimed);
    to.size(index.names.len());
    index.names.iter().try_for_each(|name| to.bytes(name.as_bytes()))?;
    to.size(index.tracks.len());
    index.tracks.iter().try_for_each(|track| to.track(track))?;
    to.size(index.kinds.len());
    for kind in &index.kinds {
        to.number(kind.track.into());
        to.number(kind.name.into());
    }
    to.size(index.losses.len());
    for loss in &index.losses {
        to.maybe(loss.track.map(|track| track as u64));
        to.number(u64::from(loss.kind == LossKind::Packets));
        to.maybe(loss.count);
        for end in [loss.begin, loss.end] {
            to.range(end.map(|end| (end, end)));
        }
    }
    index.columns.write(&mut to)?;
    index.places.write(&mut to);
    if !timeline.write(&mut to)? {
        return Ok(false);
    }
    to.number(calls.is_some().into());
    calls.map_or(Ok(()), |calls| calls.write(&mut to))?;
    to.number(states.is_some().into());
    if let Some((states, traces)) = states {
        states.write(&mut to)?;
        to.size(traces.len());
        traces.iter().for_each(|trace| to.maybe(trace.map(|trace| trace as u64)));
    }
    to.finish()?;
    Ok(true)
}

/// The identity that stands before the index: the words of the writer.
pub fn identity(input: &mut dyn Read, len: u64) -> Option<Vec<u8>> {
    let len = len.checked_sub(4)?;
    head(&mut Reader::new(input, len))
}

fn head(from: &mut Reader<'_>) -> Option<Vec<u8>> {
    (from.many(MAGIC.len())? == MAGIC).then(|| from.bytes())?
}

/// Reads a file that [`write()`] wrote of a source, whose session this is; `None` when it is not that. Times and kinds of events
/// are read from the traces again when they are wanted: see [`Index::fill`]. The steps of calls stay in the file, and are looked
/// at when they are wanted.
pub fn read_file(of: (&Arc<Session>, &Source<'_>), own: &[u8], file: File) -> Option<StoredIndex> {
    let len = file.metadata().ok()?.len();
    let mut input = file.try_clone().ok()?;
    read_from(of, own, (&mut input, len), Some(&Arc::new(Spool::new(file))))
}

/// The same of `len` bytes.
pub fn read(of: (&Arc<Session>, &Source<'_>), own: &[u8], input: &mut dyn Read, len: u64) -> Option<StoredIndex> {
    read_from(of, own, (input, len), None)
}

fn read_from(
    (session, source): (&Arc<Session>, &Source<'_>),
    own: &[u8],
    (input, len): (&mut dyn Read, u64),
    file: Option<&Arc<Spool>>,
) -> Option<StoredIndex> {
    let len = len.checked_sub(4)?;
    let mut from = Reader::new(input, len);
    if head(&mut from)? != own {
        return None;
    }
    let (origin, begin, end) = (from.wide()?, from.wide()?, from.wide()?);
    let untimed = from.number()?;
    let names = from.list(Reader::text)?;
    let tracks = from.list(|from| from.track(source))?;
    let kinds =
        from.list(|from| Some(TrackKind { track: from.small(tracks.len())?, name: from.small(names.len())? }))?;
    let losses = from.list(|from| {
        let track = from.maybe(tracks.len())?;
        let kind = if from.flag()? { LossKind::Packets } else { LossKind::Events };
        let count = if from.flag()? { Some(from.number()?) } else { None };
        let mut time = || Some(from.range()?.map(|(time, _)| time));
        Some(LossRange { track, kind, count, begin: time()?, end: time()? })
    })?;
    let mut columns = EventColumns::read(&mut from)?;
    let places = Arc::new(Checkpoints::read(&mut from, source, columns.len())?);
    let timeline = Timeline::read(&mut from, source, (origin, end), &names)?;
    let calls = if from.flag()? { Some(SessionCalls::read(&mut from, source, file)?) } else { None };
    let states = match from.flag()? {
        true => Some((States::read(&mut from)?, from.list(|from| from.maybe(source.session.traces.len()))?)),
        false => None,
    };
    let events = tracks.iter().try_fold(0u64, |sum, track| sum.checked_add(track.events));
    let is_right = begin <= end && untimed <= columns.len() as u64;
    let is_whole = is_right && from.finish() && events == Some(columns.len() as u64);
    columns.read_by(EventRereader::new(session, source, &timeline, (&places, &kinds)), kinds.len());
    let index = Index {
        tracks,
        names,
        origin,
        begin,
        end,
        losses,
        faults: Vec::new(),
        warnings: Vec::new(),
        untimed,
        columns,
        places,
        kinds,
        growth: None,
    };
    is_whole.then_some(StoredIndex { timeline, index, calls, states })
}
