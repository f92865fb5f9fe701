//! A page that holds what it shows: one file for a report of a fault (`convert --to html`).
//!
//! The page is that of the server, and asks the same questions; a worker in it answers them from columns. What the server
//! sends once for all (the session, its tracks, losses and damage) stands there as the server sends it.

use std::collections::{HashMap, HashSet};
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};
use tracemill_codec::text::base64;
use tracemill_lod::Index;
use tracemill_lod::states::Of;
use tracemill_model::error::{Error, ErrorKind, Result};

use crate::analyses::{self, PageAnalyses};
use crate::answer;
use crate::events::fields_text;
use crate::input::AnswerInput;
use crate::pack::{PackedBytes, PackedLines};
use crate::page_paths::{LEAST_PARTS, PackedPaths};
use crate::query::{Query, ns};
use crate::rows;
use crate::samples::PackedSamples;
use crate::state::TraceState;
use crate::tracks::base_of;
use crate::why;

/// Where the data goes in the page.
const MARK: &str = "@DATA@";
/// Bytes of a file at most.
const MAX_BYTES: usize = 50 << 20;
/// Events whose size says how large the file will be, and those that are read at once.
const SAMPLE: usize = 1 << 16;
/// Bytes of memory for the texts of events.
const MAX_HELD_BYTES: usize = 384 << 20;
/// Ns that numbers of the page hold exactly.
const MAX_NS: i128 = 1 << 53;

/// A page in one file.
pub struct Page {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its events.
    pub events: u64,
    /// Errors of reading.
    pub faults: Vec<Error>,
}

/// Makes a file of the events of some traces from `skip` on, `limit` at most. The events are read twice.
///
/// # Errors
/// When events cannot be read again, when the file would be larger than 50 MiB, with the number of events that would fit,
/// and when times are further apart than the page can tell them.
pub fn page(input: AnswerInput, skip: u64, limit: Option<u64>) -> Result<Page> {
    let mut state = TraceState::new(input)?;
    state.read();
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let all = index_of(&state)?.events();
    let mut first = size(skip).min(all);
    let count = limit.map_or(all - first, |limit| size(limit).min(all - first));
    if count < all {
        (state, first) = part(state, first, count)?;
        state.read();
    }
    let index = index_of(&state)?;
    let (begin, end) = state.ends();
    if begin.zip(end).is_some_and(|(begin, end)| end - begin >= MAX_NS) {
        let error = Error::unsupported("the events are more than 104 days apart, which the page cannot show");
        return Err(error.with_help("choose a part with --begin and --end"));
    }
    let mut tracks = vec![0u64; index.tracks.len()];
    let mut kinds = Kinds::default();
    let PageColumns { times, kinds: of_events, lines } = events(&state, first, count, &mut kinds, &mut tracks)?;
    let mut out = PackedBytes::default();
    let samples = PackedSamples::collect(&state);
    let PageAnalyses { tables, paths } = analyses::page_analyses(&state, count.max(LEAST_PARTS));
    let paths = paths.zip(state.states()).map(|(paths, kept)| PackedPaths::new(&paths, kept));
    let found = FoundBefore { samples: &samples, analyses: tables, paths: paths.as_ref().map(|paths| &paths.head) };
    out.text(&head(&state, count, &kinds, &tracks, found).to_string());
    out.number(count as u128);
    out.0.extend(times.0);
    out.0.extend(of_events.0);
    lines.write_out(&mut out);
    calls(&state, &mut out);
    states(&state, &mut out);
    out.0.extend(samples.columns.0);
    out.0.extend(paths.map(|paths| paths.columns.0).unwrap_or_default());
    let bytes = render_page(&deflated(&out.0)?)?;
    if bytes.len() > MAX_BYTES {
        return Err(too_large(bytes.len(), count));
    }
    let faults = index.faults.iter().map(|fault| (*fault.error).clone());
    let of_calls = state.calls().map_or(&[][..], |calls| &calls.faults).iter().cloned();
    let mut faults: Vec<Error> = faults.chain(of_calls).collect();
    let mut known = HashSet::new();
    faults.retain(|fault| known.insert(fault.to_string()));
    Ok(Page { bytes, events: count as u64, faults })
}

fn index_of(state: &TraceState) -> Result<&Index> {
    let index = state.index().map(|index| &**index);
    index.ok_or_else(|| Error::new(ErrorKind::Io, "the events could not be read"))
}

/// The traces again, from the time of the first wanted event to that of the last one, and the place of the first one.
fn part(state: TraceState, first: usize, count: usize) -> Result<(TraceState, usize)> {
    let index = index_of(&state)?;
    let times = || (first..first + count).filter_map(|event| index.ns(event));
    let (begin, end) = (times().min(), times().max());
    let is_before = |event: &usize| {
        index.ns(*event).is_none_or(|time| begin.is_none_or(|begin| begin <= time) && end.is_none_or(|end| time <= end))
    };
    let place = (0..first).filter(is_before).count();
    let mut input = state.input;
    let selection = &mut input.traces.selection;
    (selection.begin_ns, selection.end_ns) = (begin.or(selection.begin_ns), end.or(selection.end_ns));
    input.traces.ends = (begin.or(input.traces.ends.0), end.or(input.traces.ends.1));
    Ok((TraceState::new(input)?, place))
}

fn too_large(bytes: usize, events: usize) -> Error {
    let fit = events as u128 * MAX_BYTES as u128 * 95 / 100 / bytes.max(1) as u128;
    let megabytes = bytes >> 20;
    Error::unsupported(format!("{events} events make a file of some {megabytes} MiB, and 50 MiB are the limit"))
        .with_help(format!("about {fit} events fit: choose them with --begin, --end, --filter, --stream or --limit"))
}

/// The texts of so many events are all that there is memory for.
fn too_long(fit: usize, events: usize) -> Error {
    let limit = MAX_HELD_BYTES >> 20;
    let message = format!("the texts of {events} events are longer than {limit} MiB, which is the limit of a page");
    let help = format!("{fit} events fit: choose them with --begin, --end, --filter, --stream or --limit");
    Error::unsupported(message).with_help(help)
}

fn deflated(bytes: &[u8]) -> Result<Vec<u8>> {
    let failed = |error| Error::new(ErrorKind::Io, format!("cannot compress: {error}"));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(failed)
}

/// The page around its data.
fn render_page(data: &[u8]) -> Result<Vec<u8>> {
    let mut page = String::new();
    let wrong = || Error::new(ErrorKind::Io, "the page is not as it was built");
    GzDecoder::new(tracemill_page::FILE).read_to_string(&mut page).map_err(|_| wrong())?;
    let (before, behind) = page.split_once(MARK).ok_or_else(wrong)?;
    let mut out = String::with_capacity(page.len() + data.len() / 3 * 4 + 4);
    out.push_str(before);
    base64(data, |four| out.push_str(four));
    out.push_str(behind);
    Ok(out.into_bytes())
}

/// The findings that are there before the head of a page is written.
struct FoundBefore<'f> {
    samples: &'f PackedSamples,
    analyses: Option<Value>,
    paths: Option<&'f Value>,
}

/// Session, tracks and problems as the server sends them, without features that only a server has.
fn head(state: &TraceState, count: usize, kinds: &Kinds<'_>, events: &[u64], found: FoundBefore<'_>) -> Value {
    let FoundBefore { samples, analyses, paths } = found;
    let known = |path: &str| match answer::answer(state, path, &Query::parse("")) {
        Ok(answer::Reply::Value(value)) => value,
        _ => Value::Null,
    };
    let (mut session, mut tracks, mut problems) = (known("session"), known("tracks"), known("problems"));
    let of_paths = paths.map_or((0, 0), |paths| {
        (paths["paths"].as_array().map_or(0, Vec::len), paths["left_out"].as_u64().unwrap_or(0))
    });
    if let ((shown, left @ 1..), Some(warnings)) = (of_paths, problems["warnings"].as_array_mut()) {
        let text = format!(
            "reasons of waits and critical paths are in this page for the {shown} threads that waited longest; those of {left} \
             others have no room"
        );
        warnings.push(text.into());
    }
    let features = ["select", "search", "calls", "states", "samples", "analyses", why::ANALYSIS];
    let mut elsewhere = Vec::new();
    if let Some(list) = session["features"].as_array_mut() {
        let is_here = |feature: &Value| match features.iter().any(|own| feature == own) {
            true if feature == "analyses" => analyses.is_some(),
            true => feature != why::ANALYSIS || paths.is_some(),
            false => false,
        };
        (*list, elsewhere) = std::mem::take(list).into_iter().partition(is_here);
        list.push("file".into());
    }
    // The page says how to get what it cannot answer.
    session["elsewhere"] = elsewhere.into();
    session["events"] = count.into();
    session["generation"] = "file".into();
    // The same events make the same file, however they were chosen.
    session["command"] = "".into();
    if let Some(traces) = session["traces"].as_array_mut() {
        let all = state.index().map_or(&[][..], |index| &index.tracks);
        for (at, trace) in traces.iter_mut().enumerate() {
            let own = all.iter().zip(events).filter(|(track, _)| track.trace == at);
            trace["events"] = own.map(|(_, events)| events).sum::<u64>().into();
        }
    }
    let by_trace: Vec<Value> =
        session["traces"].as_array().into_iter().flatten().map(|trace| trace["events"].clone()).collect();
    // Values of fields are read by a server only.
    tracks["tracks"].as_array_mut().into_iter().for_each(|list| list.retain(|track| track["kind"] != "counter"));
    for track in tracks["tracks"].as_array_mut().into_iter().flatten() {
        let at: Option<usize> = track["id"].as_str().and_then(|id| id.get(1..)?.parse().ok());
        match track["kind"].as_str() {
            Some("events") => track["events"] = at.and_then(|at| events.get(at)).copied().into(),
            Some("group") => track["events"] = at.and_then(|at| by_trace.get(at)).cloned().unwrap_or_default(),
            _ => {}
        }
    }
    let index = state.index();
    let origin = state.timeline().origin;
    let since = |time: i64| ns(i128::from(time) - origin);
    let modules = state.calls().map_or(&[][..], |calls| &calls.modules);
    let (functions, tasks) = match state.calls() {
        Some(calls) => {
            let task = |at: usize| {
                let task = &calls.tasks[at];
                json!({ "trace": task.trace, "of": base_of(state, calls, at), "end": since(task.end) })
            };
            (calls.names.clone(), (0..calls.tasks.len()).map(task).collect())
        }
        None => (Vec::new(), Vec::new()),
    };
    let of_states = state.states();
    json!({
        "session": session,
        "tracks": tracks["tracks"],
        "problems": problems,
        "names": kinds.names,
        "kinds": kinds.list,
        "bases": index.into_iter().flat_map(|index| &index.tracks).map(|track| track.trace).collect::<Vec<_>>(),
        "functions": functions,
        "modules": modules,
        "tasks": tasks,
        "states": of_states.map_or(Vec::new(), |of| (0..of.states.tracks.len()).map(|at| of.id(at)).collect()),
        "state_names": of_states.map_or(&[][..], |of| &of.states.names),
        "states_of": of_states.map_or(Vec::new(), |of| of.states.tracks.iter().map(|track| state_of(track.of)).collect()),
        "samples": samples.head,
        "analyses": analyses,
        "paths": paths,
    })
}

/// The thread or the CPU of a track of states; what users define belongs to neither.
fn state_of(of: Of) -> Value {
    match of {
        Of::Thread(thread, _) => json!({ "thread": thread }),
        Of::Cpu(cpu) => json!({ "cpu": cpu }),
        Of::Custom(..) => json!({}),
    }
}

/// Names on tracks.
#[derive(Default)]
struct Kinds<'i> {
    /// Places of the name in the list, and tracks.
    list: Vec<(usize, usize)>,
    names: Vec<&'i str>,
    known: HashMap<(&'i str, usize), usize>,
    known_names: HashMap<&'i str, usize>,
}

impl<'i> Kinds<'i> {
    fn number(&mut self, (name, track): (&'i str, usize)) -> usize {
        let (list, names) = (&mut self.list, &mut self.names);
        *self.known.entry((name, track)).or_insert_with(|| {
            let name = *self.known_names.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            });
            list.push((name, track));
            list.len() - 1
        })
    }
}

/// Events in columns.
struct PageColumns {
    times: PackedBytes,
    kinds: PackedBytes,
    lines: PackedLines,
}

/// Events in columns: times, kinds, texts. Counts those of each track.
fn events<'s>(
    state: &'s TraceState,
    first: usize,
    count: usize,
    names: &mut Kinds<'s>,
    tracks: &mut [u64],
) -> Result<PageColumns> {
    let index = index_of(state)?;
    let mut reader = None;
    let (mut lines, mut times, mut kinds) = (PackedLines::default(), PackedBytes::default(), PackedBytes::default());
    let (mut from, mut before) = (first, 0i128);
    while from < first + count {
        let to = (from + SAMPLE).min(first + count);
        for event in from..to {
            let gone = || Error::new(ErrorKind::Io, format!("event {event} is not there any more"));
            let row = rows::RowReader::on(&mut reader, state, index, event, true).ok_or_else(gone)?;
            let time = index.ns(row.event).map(|ns| ns - index.origin);
            // 0 says that there is no time.
            times.number(time.map_or(0, |time| {
                let step = time - before;
                before = time;
                ((step << 1) ^ (step >> 127)) as u128 + 1
            }));
            let (name, track) = index.kind(row.event).unwrap_or_default();
            let kind = names.number((name, track));
            kinds.number(kind as u128);
            if let Some(events) = tracks.get_mut(track) {
                *events += 1;
            }
            let cycles = row.cycles.map_or(String::new(), |cycles| cycles.to_string());
            let title = row.title.map_or(String::new(), |title| Value::String(title).to_string());
            let details = format!("{cycles} {title} {}", fields_text(&row.fields));
            lines.push([row.json.as_deref().unwrap_or_default(), &row.text, &details], time.unwrap_or(0) as i64, kind);
            if lines.held_bytes() > MAX_HELD_BYTES {
                return Err(too_long(event - first, count));
            }
        }
        if lines.len() == SAMPLE && count > 2 * SAMPLE {
            let mut sample = PackedBytes::default();
            lines.write(&mut sample);
            sample.0.extend_from_slice(&times.0);
            sample.0.extend_from_slice(&kinds.0);
            // Calls and states come on top.
            let bytes = deflated(&sample.0)?.len() / 3 * 4;
            let all = bytes as u128 * count as u128 / SAMPLE as u128;
            if all > MAX_BYTES as u128 {
                return Err(too_large(usize::try_from(all).unwrap_or(usize::MAX), count));
            }
        }
        from = to;
    }
    Ok(PageColumns { times, kinds, lines })
}

/// Calls of each task, in columns.
fn calls(state: &TraceState, out: &mut PackedBytes) {
    let Some(calls) = state.calls() else { return };
    let origin = state.timeline().origin;
    for task in 0..calls.tasks.len() {
        let list = calls.list(task);
        out.number(list.len() as u128);
        let mut before = 0;
        for call in &list {
            let begin = i128::from(call.begin) - origin;
            out.signed(begin - before);
            before = begin;
        }
        list.iter().for_each(|call| out.number(call.end.map_or(0, |end| (end - call.begin).max(0) as u128 + 1)));
        list.iter().for_each(|call| out.number(call.depth as u128));
        list.iter().for_each(|call| out.number(call.name.into()));
    }
}

/// Pieces of each track of states, in columns.
fn states(state: &TraceState, out: &mut PackedBytes) {
    let Some(of) = state.states() else { return };
    let origin = state.timeline().origin;
    for track in 0..of.states.tracks.len() {
        let list: Vec<_> = of.states.pieces(track).collect();
        out.number(list.len() as u128);
        let mut before = 0;
        for piece in &list {
            // Mostly one begins where the one before ends.
            out.signed(piece.from - origin - before);
            before = piece.to - origin;
        }
        list.iter().for_each(|piece| out.number((piece.to - piece.from).max(0) as u128));
        list.iter().for_each(|piece| out.number(piece.depth.into()));
        list.iter().for_each(|piece| out.number(piece.name.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_says_how_much_fits() {
        let error = too_large(100 << 20, 1_000_000);
        assert_eq!(error.message(), "1000000 events make a file of some 100 MiB, and 50 MiB are the limit");
        assert!(error.help().is_some_and(|help| help.starts_with("about 475000 events fit")), "{:?}", error.help());
    }
}
