//! A live session kept as traces in a folder: packets as they come, metadata, and an index when it is over.

use std::collections::HashMap;
use std::fs::{self, OpenOptions as FileOptions};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use tracemill_ctf::lttng_index;
use tracemill_engine::growth::GrowingSource;
use tracemill_engine::request::{OpenedTraces, Request};
use tracemill_engine::session::OpenOptions;
use tracemill_engine::source::FileSystem;
use tracemill_format::Stream;
use tracemill_model::error::{Error, Result};

use crate::source::LiveSource;

/// How often the caller is asked whether it goes on while nothing comes.
const TICK: Duration = Duration::from_millis(50);

/// Keeps what comes in a folder, until the session ends or `goes_on` says no. Gives the number of packets.
///
/// # Errors
/// When the folder cannot be written. What ends the session too early is in [`GrowingSource::take_faults`].
pub fn keep(source: &mut LiveSource, folder: &Path, mut goes_on: impl FnMut(&mut LiveSource) -> bool) -> Result<u64> {
    make_folder(folder)?;
    let mut metadata: HashMap<u64, usize> = HashMap::new();
    let (mut packets, mut seen, mut is_left) = (0, 0, false);
    loop {
        if !is_left && !goes_on(source) {
            is_left = true;
            source.leave();
        }
        let (new, is_over) = {
            let feed = source.feed();
            let mut state = feed.wait_for_change(seen, TICK);
            seen = state.version;
            let mut new = Vec::new();
            for (&id, trace) in &state.traces {
                let written = metadata.entry(id).or_default();
                if trace.metadata.len() > *written {
                    new.push((format!("{}/metadata", trace.name), vec![trace.metadata[*written..].to_vec().into()]));
                    *written = trace.metadata.len();
                }
            }
            let state = &mut *state;
            for stream in state.streams.values_mut().filter(|stream| !stream.packets.is_empty()) {
                let Some(trace) = state.traces.get(&stream.trace) else { continue };
                let bytes: Vec<_> = stream.packets.drain(..).map(|packet| packet.bytes).collect();
                state.bytes -= bytes.iter().map(|bytes| bytes.len()).sum::<usize>();
                packets += bytes.len() as u64;
                new.push((format!("{}/{}", trace.name, stream.name), bytes));
            }
            (new, state.is_over)
        };
        // There is room again.
        source.feed().ask(|_| ());
        for (name, pieces) in new {
            append(&folder.join(name), &pieces)?;
        }
        if is_over {
            break;
        }
    }
    write_indexes(folder)?;
    Ok(packets)
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))
}

fn append(path: &Path, pieces: &[std::sync::Arc<Vec<u8>>]) -> Result<()> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    // There may be more streams than files that can be open.
    let file = FileOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| pieces.iter().try_for_each(|piece| file.write_all(piece)));
    written.map_err(|error| Error::io("write the file", path, &error))
}

/// Writes the index of each stream, as a relay daemon does.
fn write_indexes(folder: &Path) -> Result<()> {
    let request = Request {
        inputs: vec![folder.to_path_buf()],
        open: OpenOptions::new(&[&tracemill_ctf::FORMAT]),
        ..Request::default()
    };
    let opened = request.open(&FileSystem, &mut |_| Ok(ControlFlow::Continue(())))?;
    let Some(OpenedTraces { session, .. }) = opened else { return Ok(()) };
    for trace in &session.traces {
        for stream in &trace.streams {
            let (Some(entries), [file]) = (index_of(&trace.schema, stream), &stream.files[..]) else { continue };
            let path = trace.path.join("index").join(format!("{}.idx", file.relative));
            append(&path, &[entries.into()])?;
        }
    }
    Ok(())
}

/// The index of a stream; `None` when its packets do not say what it needs.
fn index_of(schema: &tracemill_model::schema::Schema, stream: &Stream) -> Option<Vec<u8>> {
    let mut index = lttng_index::header();
    for packet in stream.packets.iter() {
        let times = [packet.begin_cycles?, packet.end_cycles?, packet.discarded_snapshot.unwrap_or(0)];
        let ids = [schema.stream(packet.class).id, packet.stream_id.unwrap_or(0), packet.sequence?];
        lttng_index::entry(&mut index, packet.offset_bytes, [packet.total_bits, packet.content_bits], times, ids);
    }
    Some(index)
}
