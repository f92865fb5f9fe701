//! Which threads belong to which processes, as messages `ProcessTree` (`process_tree.proto`).

use std::collections::{BTreeMap, HashMap};

use tracemill_semantics::{Concept, Field};

use super::packets::PacketFile;
use crate::tracks::ExportTracks;
use tracemill_format::perfetto::ProtoWriter;

/// Fields of `ProcessTree`, of its processes, and of its threads.
const PROCESSES: u32 = 1;
const THREADS: u32 = 2;
const PROCESS_PID: u32 = 1;
const PROCESS_PPID: u32 = 2;
const PROCESS_CMDLINE: u32 = 3;
const THREAD_TID: u32 = 1;
const THREAD_NAME: u32 = 2;
const THREAD_TGID: u32 = 3;

/// Concepts that make the process of a thread known, and the threads that they are about.
const THREADS_OF: [(Concept, Field); 5] = [
    (Concept::Switch, Field::Next),
    (Concept::Wake, Field::Tid),
    (Concept::Exec, Field::Tid),
    (Concept::Exit, Field::Tid),
    (Concept::DumpTask, Field::Tid),
];

/// Threads and processes of the first machine that the file knows.
#[derive(Default)]
pub(super) struct KnownProcesses {
    threads: HashMap<i64, i64>,
    /// Processes that live and have no name, and the stream of the first event of each.
    unnamed: BTreeMap<i64, usize>,
}

impl KnownProcesses {
    /// Keeps that the file says already which process a thread belongs to.
    pub(super) fn insert(&mut self, thread: i64, process: i64) {
        self.threads.insert(thread, process);
    }

    /// Writes what an event of a concept, which was placed, made known.
    pub(super) fn put_known(
        &mut self,
        packets: &mut PacketFile,
        tracks: &ExportTracks,
        stream: usize,
        concept: Concept,
        ns: u64,
    ) {
        let Some((_, field)) = THREADS_OF.iter().find(|(own, _)| *own == concept) else { return };
        let Some(thread) = tracks.concept_field(*field).filter(|thread| *thread != 0) else { return };
        let Some(process) = tracks.process_of(stream, thread) else { return };
        if self.threads.insert(thread, process) != Some(process) {
            let name = tracks.thread_name(stream, thread).unwrap_or_default();
            packets.process_tree(ns, |out| {
                if !put_process(out, tracks, stream, process) {
                    self.unnamed.entry(process).or_insert(stream);
                }
                out.begin(THREADS);
                out.signed(THREAD_TID, thread);
                out.signed(THREAD_TGID, process);
                if !name.is_empty() {
                    out.bytes(THREAD_NAME, name.as_bytes());
                }
                out.end();
            });
        }
        if concept == Concept::Exit {
            self.threads.remove(&thread);
            self.unnamed.remove(&thread);
        }
    }

    /// Writes the names of processes that became known late.
    pub(super) fn put_names(&mut self, packets: &mut PacketFile, tracks: &ExportTracks, ns: u64) {
        for (process, stream) in std::mem::take(&mut self.unnamed) {
            if tracks.process_name(stream, 0, process).is_some() {
                packets.process_tree(ns, |out| _ = put_process(out, tracks, stream, process));
            }
        }
    }
}

/// Writes a process with its parent: one with another parent would be another process. Does it have a name?
fn put_process(out: &mut ProtoWriter, tracks: &ExportTracks, stream: usize, process: i64) -> bool {
    out.begin(PROCESSES);
    out.signed(PROCESS_PID, process);
    if let Some(parent) = tracks.parent_of(stream, process) {
        out.signed(PROCESS_PPID, parent);
    }
    let name = tracks.process_name(stream, 0, process);
    if let Some(name) = name {
        out.bytes(PROCESS_CMDLINE, name.as_bytes());
    }
    out.end();
    name.is_some()
}
