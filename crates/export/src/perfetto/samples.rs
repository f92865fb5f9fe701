//! Samples as messages `PerfSample`, with their stacks in tables (`profile_packet.proto`, `profile_common.proto`).
//!
//! The samples of each event are a sequence of packets of its own, whose defaults name the event.

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_format::perfetto::ProtoWriter;
use tracemill_format::samples::{Frame, Sample};

use super::packets::{CLOCK_BOOTTIME, PacketFile};

/// The content of a packet.
const PERF_SAMPLE: u32 = 66;
/// Fields of `PerfSample`.
const CPU: u32 = 1;
const PID: u32 = 2;
const TID: u32 = 3;
const CALLSTACK: u32 = 4;
const CPU_MODE: u32 = 5;
/// Values of [`CPU_MODE`].
const IN_KERNEL: u64 = 1;
const IN_PROGRAM: u64 = 2;
/// Fields of `InternedData`.
const FUNCTION_NAMES: u32 = 5;
const FRAMES: u32 = 6;
const CALLSTACKS: u32 = 7;
const MAPPING_PATHS: u32 = 17;
const MAPPINGS: u32 = 19;
/// Fields of `TracePacketDefaults`, of `PerfSampleDefaults`, and of `PerfEvents.Timebase`.
const CLOCK_ID: u32 = 58;
const SAMPLE_DEFAULTS: u32 = 12;
const TIMEBASE: u32 = 1;
const TIMEBASE_NAME: u32 = 10;

/// Frames of all stacks of a table, after which it begins anew.
const MAX_STACK_FRAMES: usize = 1 << 22;
/// Events with a sequence of their own; further ones share the last.
const MAX_SEQUENCES: usize = 1 << 10;

/// The samples of all events.
#[derive(Default)]
pub(super) struct SampleSequences {
    by_event: HashMap<Box<[u8]>, usize>,
    list: Vec<SampleSequence>,
}

/// Its tables, as the packets so far made them.
#[derive(Default)]
struct SampleSequence {
    /// Name of the event.
    name: Box<[u8]>,
    has_begun: bool,
    stacks: HashMap<Box<[u32]>, u64>,
    stack_frames: usize,
    /// By number of the frame.
    has_frame: Vec<bool>,
    mappings: HashMap<Arc<str>, u64>,
}

/// Thread and process of a sample that Perfetto can hold.
fn owner(sample: &Sample<'_>) -> Option<(u64, u64)> {
    let thread = u32::try_from(sample.thread?).ok()?;
    let process = u32::try_from(sample.process.unwrap_or(thread.into())).ok()?;
    Some((process.into(), thread.into()))
}

impl SampleSequences {
    /// Writes a sample of an event at a time. Is its thread one that Perfetto can hold?
    pub(super) fn put(&mut self, packets: &mut PacketFile, event: &[u8], ns: u64, sample: &Sample<'_>) -> bool {
        let Some((process, thread)) = owner(sample) else { return false };
        let at = match self.by_event.get(event) {
            Some(&at) => at,
            None => {
                if self.list.len() < MAX_SEQUENCES {
                    self.list.push(SampleSequence { name: event.into(), ..SampleSequence::default() });
                }
                self.by_event.insert(event.into(), self.list.len() - 1);
                self.list.len() - 1
            }
        };
        let sequence = &mut self.list[at];
        if sequence.stack_frames > MAX_STACK_FRAMES {
            *sequence = SampleSequence { name: std::mem::take(&mut sequence.name), ..SampleSequence::default() };
        }
        let is_first = !std::mem::replace(&mut sequence.has_begun, true);
        let mut tables = ProtoWriter::default();
        let stack = sequence.stack(sample, &mut tables);
        packets.sample(at as u64, ns, is_first, |out| {
            if is_first {
                let name = String::from_utf8_lossy(&sequence.name);
                out.begin(super::packets::DEFAULTS);
                out.unsigned(CLOCK_ID, CLOCK_BOOTTIME);
                out.begin(SAMPLE_DEFAULTS);
                out.begin(TIMEBASE);
                out.bytes(TIMEBASE_NAME, name.as_bytes());
                out.end();
                out.end();
                out.end();
            }
            if !tables.is_empty() {
                out.bytes(super::packets::INTERNED_DATA, tables.written());
            }
            out.begin(PERF_SAMPLE);
            if let Some(cpu) = sample.cpu.and_then(|cpu| u32::try_from(cpu).ok()) {
                out.unsigned(CPU, cpu.into());
            }
            out.unsigned(PID, process);
            out.unsigned(TID, thread);
            out.unsigned(CALLSTACK, stack);
            let innermost = sample.stack.first().and_then(|frame| sample.frames.get(*frame as usize));
            if let Some(innermost) = innermost {
                out.unsigned(CPU_MODE, if innermost.is_kernel { IN_KERNEL } else { IN_PROGRAM });
            }
            out.end();
        });
        true
    }
}

impl SampleSequence {
    /// The number of a stack; what the file does not know of it yet goes to `tables`.
    fn stack(&mut self, sample: &Sample<'_>, tables: &mut ProtoWriter) -> u64 {
        if let Some(&iid) = self.stacks.get(sample.stack) {
            return iid;
        }
        for &frame in sample.stack {
            if let Some(known) = sample.frames.get(frame as usize) {
                self.frame(frame, known, tables);
            }
        }
        let iid = self.stacks.len() as u64 + 1;
        tables.begin(CALLSTACKS);
        tables.unsigned(1, iid);
        // The outermost comes first.
        sample.stack.iter().rev().for_each(|&frame| tables.unsigned(2, u64::from(frame) + 1));
        tables.end();
        self.stacks.insert(sample.stack.into(), iid);
        self.stack_frames += sample.stack.len();
        iid
    }

    fn frame(&mut self, number: u32, frame: &Frame, tables: &mut ProtoWriter) {
        let at = number as usize;
        if self.has_frame.len() <= at {
            self.has_frame.resize(at + 1, false);
        }
        if std::mem::replace(&mut self.has_frame[at], true) {
            return;
        }
        let iid = u64::from(number) + 1;
        let mapping = self.mapping(&frame.module, tables);
        tables.begin(FUNCTION_NAMES);
        tables.unsigned(1, iid);
        tables.bytes(2, frame.function.as_bytes());
        tables.end();
        tables.begin(FRAMES);
        tables.unsigned(1, iid);
        tables.unsigned(2, iid);
        tables.unsigned(3, mapping);
        tables.end();
    }

    /// The number of a file of code. trace_processor refuses frames without one: code of which nothing is known gets one without
    /// a path.
    fn mapping(&mut self, module: &Arc<str>, tables: &mut ProtoWriter) -> u64 {
        if let Some(&iid) = self.mappings.get(module) {
            return iid;
        }
        let iid = self.mappings.len() as u64 + 1;
        if !module.is_empty() {
            tables.begin(MAPPING_PATHS);
            tables.unsigned(1, iid);
            tables.bytes(2, module.as_bytes());
            tables.end();
        }
        tables.begin(MAPPINGS);
        tables.unsigned(1, iid);
        if !module.is_empty() {
            tables.unsigned(7, iid);
        }
        tables.end();
        self.mappings.insert(module.clone(), iid);
        iid
    }
}
