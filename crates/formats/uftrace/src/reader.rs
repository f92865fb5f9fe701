//! The streams of a folder and their packets: slices of the files with records.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, PacketData};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_format::calls::CallSource;
use tracemill_format::{FirstBytes, OpenTrace, OpenedPacket, PacketReader, Storage, Stream, TraceFiles};
use tracemill_ftrace::packets::StreamInfo;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Packet;
use tracemill_model::schema::{StreamClassId, TracePart};

use super::calls::FolderCalls;
use super::classes::{Classes, Streams};
use super::definitions::FolderDefinitions;
use super::folder::DataFolder;
use super::layout::SliceEvents;
use super::slices::{self, FileSlice};
use super::{events, kernel_events, messages, perf};

/// Where the packets of a stream come from.
pub(super) enum PacketSource {
    Task { tid: i32, slices: Vec<FileSlice>, is_forked: bool },
    Kernel(StreamInfo),
    Perf { cpu: u32, parts: Vec<perf::PerfPart> },
    Messages,
}

/// Opens slices of the files of a trace.
pub(super) struct SliceReader {
    pub definitions: FolderDefinitions,
    pub traced: HashSet<i64>,
    pub classes: Classes,
    pub calls: Option<FolderCalls>,
    /// Is the folder still written? Lists of symbols come at the end.
    pub is_unfinished: bool,
    /// By the name of the stream.
    pub sources: HashMap<String, PacketSource>,
    /// The files that hold no records.
    pub files: Vec<(String, Arc<dyn Bytes>)>,
}

impl SliceReader {
    fn events(
        &self,
        source: &PacketSource,
        stream: &Stream,
        bytes: &[u8],
        index: usize,
        clock: u64,
    ) -> Option<SliceEvents> {
        match source {
            PacketSource::Kernel(info) => {
                let (kernel, classes) = self.definitions.kernel.as_deref().zip(self.classes.kernel.as_ref())?;
                let offset = stream.packets.at(index).offset_bytes;
                let len = (stream.packets.at(index).total_bits / 8) as usize;
                let pages = bytes.get(offset as usize..)?;
                let pages = &pages[..pages.len().min(len)];
                let before = index.checked_sub(1).and_then(|before| stream.packets.at(before).end_cycles);
                Some(kernel_events::read(
                    kernel,
                    classes,
                    &self.definitions.names,
                    info,
                    (pages, offset),
                    before,
                    &self.traced,
                ))
            }
            PacketSource::Task { tid, slices, is_forked } => {
                let slice = *slices.get(index)?;
                // Calls of a forked process began in its parent.
                let is_start = index == 0 && !is_forked;
                let clock = slice.begin.unwrap_or(clock);
                let mut task = self.definitions.task(bytes, i64::from(*tid));
                Some(events::read(&mut task, &self.classes, *tid, slice, clock, is_start))
            }
            PacketSource::Perf { cpu, parts } => {
                Some(perf::read(bytes, self.definitions.order, *parts.get(index)?, *cpu, &self.traced, &self.classes))
            }
            PacketSource::Messages => Some(messages::read(bytes, &self.classes)),
        }
    }

    /// The modules of events whose symbols are missing, each reported once.
    fn missing_symbols(&self, events: &mut SliceEvents, folder: &Path) {
        let ids = std::mem::take(&mut events.without_symbols);
        for id in ids.into_iter().filter(|_| !self.is_unfinished) {
            let Some(module) = self.definitions.names.module(id).filter(|module| module.is_untold()) else { continue };
            let message = format!("the symbols of `{}` are missing: its addresses have no names", module.path);
            events.warnings.push(Error::inconsistent(message).in_file(&folder.join(format!("{}.sym", module.name()))));
        }
    }
}

impl PacketReader for SliceReader {
    fn parts(&self) -> Result<Vec<TracePart>> {
        let part =
            |(name, bytes): &(String, Arc<dyn Bytes>)| TracePart { name: name.clone(), bytes: bytes.bytes().into() };
        Ok(self.files.iter().map(part).collect())
    }

    fn calls(&self) -> Option<&dyn CallSource> {
        self.calls.as_ref().map(|calls| calls as &dyn CallSource)
    }

    fn files(&self, trace: &OpenTrace, storage: &dyn Storage) -> Option<TraceFiles> {
        let mut all = TraceFiles::default();
        all.add_folder(storage, trace, "");
        // It makes the folder a trace.
        let (info, mut others): (Vec<_>, Vec<_>) =
            all.files.into_iter().partition(|file| file.relative == Path::new("info"));
        others.extend(info);
        Some(TraceFiles { folders: Vec::new(), files: others })
    }

    fn open_packet(&self, plans: &Arc<TracePlans>, stream: &Stream, index: usize, clock: u64) -> Result<OpenedPacket> {
        let packet = &stream.packets.at(index);
        let file = &stream.files[packet.file as usize];
        let source = self.sources.get(&stream.name).ok_or_else(no_source)?;
        file.bytes.will_read(packet.offset_bytes as usize, (packet.total_bits / 8) as usize);
        let mut events = self.events(source, stream, file.bytes.bytes(), index, clock).ok_or_else(no_source)?;
        self.missing_symbols(&mut events, file.path.parent().unwrap_or(Path::new("")));
        let mut packet = packet.clone();
        packet.content_bits = events.bytes.len() as u64 * 8;
        let cpu = match source {
            PacketSource::Perf { cpu, .. } => Some(*cpu),
            _ => None,
        };
        let made = (Arc::new(events.bytes) as Arc<dyn Bytes>, 0);
        let data = PacketData::found(plans, &file.bytes, packet, made, events.spine);
        let mut opened = OpenedPacket::new(PacketData { cpu, ..data });
        opened.faults = events.faults;
        opened.warnings = events.warnings;
        opened.gaps = events.gaps;
        Ok(opened)
    }
}

fn no_source() -> Error {
    Error::misuse("the stream is none of this trace")
}

impl DataFolder<'_> {
    /// The streams of the files with records; without packets when only calls are wanted. Sources are added to `reader`.
    pub(super) fn streams(
        &mut self,
        reader: &mut SliceReader,
        classes: Streams,
        tids: &[i64],
        has_packets: bool,
    ) -> Vec<Stream> {
        let mut streams = Vec::new();
        // Ids put streams in order where times are equal, and that is the order of the list.
        let is_ascending = tids.is_sorted();
        for &tid in tids {
            let name = format!("{tid}.dat");
            // The line that names a task may still be to come.
            let is_unknown = !reader.definitions.names.tasks.tasks.contains_key(&tid);
            if is_unknown && self.storage.is_unfinished() {
                continue;
            }
            let (Some(mut file), Ok(id)) = (self.file(&name), i32::try_from(tid)) else { continue };
            let len = file.bytes.bytes().len();
            let size = if has_packets { slices::size(len, tids.len()) } else { len.max(1) };
            let mut found = slices::cut(&mut reader.definitions.task(file.bytes.bytes(), tid), size);
            if self.storage.is_unfinished()
                && let Some(last) = found.last_mut()
            {
                let whole = slices::whole_len(&mut reader.definitions.task(file.bytes.bytes(), tid), last.from);
                last.to = whole.max(last.from);
                file.bytes = FirstBytes::of(file.bytes, last.to);
                found.retain(|slice| slice.from < slice.to);
            }
            let packets = found.iter().map(|slice| (slice.from, slice.to, slice.begin, slice.end));
            let packets = packets_of(packets, classes.tasks);
            let is_forked = reader.definitions.names.tasks.tasks.get(&tid).is_none_or(|task| task.parent != 0);
            reader.sources.insert(name.clone(), PacketSource::Task { tid: id, slices: found, is_forked });
            let id = u64::try_from(tid).ok().filter(|_| is_ascending);
            streams.push(Stream { name, class: classes.tasks, id, files: vec![file], packets: packets.into() });
        }
        if let (Some(kernel), Some(class)) = (reader.definitions.kernel.clone(), classes.kernel) {
            for cpu in self.cpus("kernel-cpu") {
                let name = format!("kernel-cpu{cpu}.dat");
                let Some(file) = self.file(&name) else { continue };
                let (packets, info) = kernel.packets(file.bytes.bytes(), cpu, class, has_packets);
                reader.sources.insert(name.clone(), PacketSource::Kernel(info));
                streams.push(Stream {
                    name,
                    class,
                    id: Some(u64::from(cpu)),
                    files: vec![file],
                    packets: packets.into(),
                });
            }
        }
        for cpu in self.cpus("perf-cpu") {
            let name = format!("perf-cpu{cpu}.dat");
            let Some(file) = self.file(&name) else { continue };
            let parts = match has_packets {
                true => perf::cut(file.bytes.bytes(), reader.definitions.order),
                false => vec![perf::PerfPart { from: 0, to: file.bytes.bytes().len(), begin: 0, end: u64::MAX }],
            };
            let packets = parts.iter().map(|part| (part.from, part.to, Some(part.begin), Some(part.end)));
            let packets = packets_of(packets, classes.perf);
            reader.sources.insert(name.clone(), PacketSource::Perf { cpu, parts });
            streams.push(Stream {
                name,
                class: classes.perf,
                id: Some(u64::from(cpu)),
                files: vec![file],
                packets: packets.into(),
            });
        }
        if let Some(file) = self.file("extern.dat") {
            let times = messages::times(file.bytes.bytes());
            let whole = (0, file.bytes.bytes().len(), times.map(|times| times.0), times.map(|times| times.1));
            let packets = packets_of([whole].into_iter(), classes.messages);
            let name = "extern.dat".to_string();
            reader.sources.insert(name.clone(), PacketSource::Messages);
            streams.push(Stream {
                name,
                class: classes.messages,
                id: None,
                files: vec![file],
                packets: packets.into(),
            });
        }
        streams
    }
}

fn packets_of(
    slices: impl Iterator<Item = (usize, usize, Option<u64>, Option<u64>)>,
    class: StreamClassId,
) -> Vec<Packet> {
    let packet = |(index, (from, to, begin_cycles, end_cycles)): (usize, (usize, usize, _, _))| Packet {
        index: index as u64,
        begin_cycles,
        end_cycles,
        ..Packet::new(class, from as u64, (to - from) as u64 * 8)
    };
    slices.enumerate().map(packet).collect()
}
