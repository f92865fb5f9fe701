//! The streams of a session that are read, and the event classes of them.

use std::sync::Arc;

use tracemill_codec::chunk::EventRef;
use tracemill_format::Stream;
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};

use crate::event::Event;
use crate::pattern::Pattern;
use crate::session::Session;

/// A stream of a session that is read.
#[derive(Clone)]
pub struct SelectedStream {
    /// Index of its trace in the session.
    pub trace: usize,
    /// Index in its trace.
    pub index: usize,
    /// The stream.
    pub stream: Arc<Stream>,
    /// Its clock.
    pub clock: Option<ClockMap>,
    /// Are there classes in its trace whose events have no time? Most traces have none, and need not look each one up.
    pub has_untimed: bool,
}

impl SelectedStream {
    /// An event of the stream, with its time.
    #[inline]
    pub fn event<'e>(&self, raw: EventRef<'e>) -> Event<'e> {
        let clock = self.clock.as_ref();
        let ns = if self.has_untimed { raw.ns(clock) } else { clock.map(|clock| clock.ns(raw.cycles())) };
        Event { trace: self.trace, stream: self.index, raw, ns }
    }
}

/// All wanted streams of a session, in the order of traces and names.
pub fn streams(session: &Session, wanted: &[String]) -> Result<Vec<SelectedStream>> {
    let patterns: Vec<Pattern> = wanted.iter().map(|text| Pattern::glob(text)).collect();
    let mut streams = Vec::new();
    for (trace, of) in session.traces.iter().enumerate() {
        let has_untimed = of.schema.events().iter().any(|class| class.is_untimed);
        for (index, stream) in of.streams.iter().enumerate() {
            let is_wanted = wanted.is_empty()
                || patterns.iter().any(|pattern| pattern.matches(stream.name.as_bytes()))
                || wanted.iter().any(|id| stream.id.is_some_and(|own| *id == own.to_string()));
            if is_wanted {
                let clock = session.clock_map(trace, stream.class);
                streams.push(SelectedStream { trace, index, stream: Arc::new(stream.clone()), clock, has_untimed });
            }
        }
    }
    if streams.is_empty() && !wanted.is_empty() {
        let names: Vec<String> =
            session.traces.iter().flat_map(|trace| &trace.streams).map(|stream| format!("`{}`", stream.name)).collect();
        let error = Error::misuse(format!("no stream has the name or id `{}`", wanted.join("`, `")));
        return Err(match names.as_slice() {
            [] => error.with_help("the traces have no streams"),
            names => error.with_help(format!("the streams are {}", names.join(", "))),
        });
    }
    Ok(streams)
}

/// The stream of a trace, by index among all of it, whose packets hold an error that opening the trace found. Where several share
/// a file it is the one that has the packet there, or the last one before; without an offset, the first that has a packet of
/// this number.
pub fn stream_of_fault(streams: &[Stream], fault: &Error) -> Option<usize> {
    let place = fault.place();
    let (number, path) = (place.packet?, place.file.as_deref()?);
    let of_file = |stream: &Stream| stream.files.iter().position(|file| file.path == path);
    let own: Vec<(usize, usize)> =
        streams.iter().enumerate().filter_map(|(at, stream)| Some((at, of_file(stream)?))).collect();
    if own.len() < 2 {
        return own.first().map(|(at, _)| *at);
    }
    let packets = own.iter().flat_map(|(at, file)| {
        let packets = streams[*at].packets.iter().filter(move |packet| packet.file as usize == *file);
        packets.map(move |packet| (packet.offset_bytes, packet.index == number, *at))
    });
    let found = match place.offset {
        Some(offset) => packets.filter(|(own, ..)| *own <= offset).max_by_key(|(own, is_it, _)| (*own, *is_it)),
        None => packets.into_iter().find(|(_, is_it, _)| *is_it),
    };
    found.map(|(.., at)| at).or(own.first().map(|(at, _)| *at))
}

/// A set of event classes, by index.
#[derive(Clone, Debug, Default)]
pub struct ClassSet(Vec<u64>);

impl ClassSet {
    /// The classes below `count` for which `wanted` is true.
    pub fn new(count: usize, wanted: impl Fn(usize) -> bool) -> Self {
        let mut words = vec![0u64; count.div_ceil(64)];
        for at in (0..count).filter(|&at| wanted(at)) {
            words[at / 64] |= 1 << (at % 64);
        }
        ClassSet(words)
    }

    /// Is the class in the set?
    #[inline]
    pub fn has(&self, class: u32) -> bool {
        self.0.get(class as usize / 64).is_some_and(|word| word >> (class % 64) & 1 == 1)
    }
}

/// Which events of a stream are wanted, as far as the spine shows.
#[derive(Clone, Debug, Default)]
pub struct SpineFilter {
    /// First and last wanted clock value; `None` for all.
    pub cycles: Option<(u64, u64)>,
    /// Wanted event classes; `None` for all.
    pub classes: Option<Arc<ClassSet>>,
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use tracemill_format::DataFile;
    use tracemill_model::error::ErrorKind;
    use tracemill_model::packet::Packet;
    use tracemill_model::packet_list::PacketList;
    use tracemill_model::schema::StreamClassId;

    use super::*;

    /// A stream of one file, with packets at these places, all 0x1000 bytes long.
    fn stream(path: &Path, offsets: &[u64]) -> Stream {
        let bytes = Arc::new(Vec::new());
        let file = DataFile { path: path.to_path_buf(), relative: String::new(), bytes, is_indexed: false };
        let packets = offsets.iter().zip(0..).map(|(offset, index)| {
            let packet = Packet::new(StreamClassId(0), *offset, 0x8000);
            Packet { index, ..packet }
        });
        let packets: PacketList = packets.collect();
        Stream { name: String::new(), class: StreamClassId(0), id: None, files: vec![file], packets }
    }

    #[test]
    fn an_error_of_a_file_that_is_shared_is_that_of_the_stream_that_has_the_packet() {
        let (shared, own) = (PathBuf::from("shared"), PathBuf::from("own"));
        let streams = [stream(&shared, &[0x1000, 0x2000]), stream(&own, &[0]), stream(&shared, &[0x3000, 0x5000])];
        let error = |path: &Path, packet: u64, offset: Option<u64>| {
            let error = Error::new(ErrorKind::Malformed, "damaged").in_file(path).in_packet(packet);
            offset.into_iter().fold(error, Error::at_offset)
        };
        let found = |path: &Path, packet, offset| stream_of_fault(&streams, &error(path, packet, offset));
        for (offset, packet, wanted) in
            [(0x1000, 0, 0), (0x2fff, 1, 0), (0x3000, 0, 2), (0x4800, 1, 2), (0x5001, 1, 2), (0, 0, 0)]
        {
            assert_eq!(found(&shared, packet, Some(offset)), Some(wanted), "{offset:#x}");
        }
        assert_eq!((found(&shared, 1, None), found(&shared, 9, None)), (Some(0), Some(0)));
        assert_eq!((found(&own, 7, Some(0x7000)), found(Path::new("other"), 0, None)), (Some(1), None));
        assert_eq!(stream_of_fault(&streams, &Error::new(ErrorKind::Malformed, "all").in_file(&shared)), None);
    }
}
