//! Samples in trace JSON: their stacks in `stackFrames`, and the list `samples`, both after the list of events.
//!
//! A frame of that format is a function with its callers, so that a number stands for a whole stack. Both lists wait beside the
//! output, as they come after all events.

use std::collections::HashMap;

use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings;
use tracemill_format::samples::Sample;
use tracemill_format::{OutPath, Spill};
use tracemill_model::error::Result;

use super::Micros;
use crate::late_file::LateFile;

/// Functions on ways to calls; stacks that have further ones are left out.
pub(super) const MAX_FRAMES: usize = 1 << 22;

/// The two lists among the texts that wait.
const FRAMES: usize = 0;
const SAMPLES: usize = 1;

/// The samples so far.
pub(super) struct ChromeSamples {
    spill: Spill,
    /// By the number of the caller and the frame: the number that stands for both. The outermost functions have the caller 0.
    numbers: HashMap<(u32, u32), u32>,
    /// Is the list of samples not empty?
    has_samples: bool,
    out: Out,
}

/// A sample as the list of samples has it, beside its stack.
pub(super) struct ListedSample<'a> {
    pub(super) event: &'a [u8],
    pub(super) process: i64,
    pub(super) thread: i64,
    pub(super) time: Micros,
    pub(super) cpu: Option<u64>,
    pub(super) weight: u64,
}

impl ChromeSamples {
    pub(super) fn new(path: &OutPath) -> ChromeSamples {
        ChromeSamples {
            spill: Spill::new(path, "samples"),
            numbers: HashMap::new(),
            has_samples: false,
            out: Out::default(),
        }
    }

    /// The number of the stack of a sample; `None` when there are too many.
    pub(super) fn stack(&mut self, sample: &Sample<'_>) -> Result<Option<u32>> {
        let mut caller = 0;
        for &frame in sample.stack.iter().rev() {
            let Some(of) = sample.frames.get(frame as usize) else { continue };
            caller = match self.numbers.get(&(caller, frame)) {
                Some(&number) => number,
                None if self.numbers.len() >= MAX_FRAMES => return Ok(None),
                None => {
                    let number = self.numbers.len() as u32 + 1;
                    self.numbers.insert((caller, frame), number);
                    let out = &mut self.out;
                    out.clear();
                    out.put(if number == 1 { b"\n" } else { b",\n" });
                    out.put_fmt(format_args!("\"{number}\":{{\"name\":"));
                    strings::put_json(out, of.function.as_bytes());
                    if !of.module.is_empty() {
                        out.put(b",\"category\":");
                        strings::put_json(out, of.module.as_bytes());
                    }
                    if caller > 0 {
                        out.put_fmt(format_args!(",\"parent\":\"{caller}\""));
                    }
                    out.put_byte(b'}');
                    self.spill.append(FRAMES, out.written())?;
                    number
                }
            };
        }
        Ok(Some(caller).filter(|&number| number > 0))
    }

    /// Adds a sample with a stack to the list.
    pub(super) fn add(&mut self, sample: &ListedSample<'_>, stack: u32) -> Result<()> {
        let out = &mut self.out;
        out.clear();
        out.put(if std::mem::replace(&mut self.has_samples, true) { b",\n" } else { b"\n" });
        out.put(b"{\"name\":");
        strings::put_json(out, sample.event);
        out.put_fmt(format_args!(
            ",\"pid\":{},\"tid\":{},\"ts\":{},\"weight\":{},\"sf\":{stack}",
            sample.process, sample.thread, sample.time, sample.weight
        ));
        if let Some(cpu) = sample.cpu {
            out.put_fmt(format_args!(",\"cpu\":{cpu}"));
        }
        out.put_byte(b'}');
        self.spill.append(SAMPLES, out.written())
    }

    /// Writes both lists, as members after others; nothing where there is no sample.
    pub(super) fn finish(mut self, file: &mut LateFile) -> Result<()> {
        if !self.has_samples {
            return Ok(());
        }
        file.write(b",\n\"stackFrames\":{")?;
        file.append(&mut self.spill, FRAMES)?;
        file.write(b"\n},\n\"samples\":[")?;
        file.append(&mut self.spill, SAMPLES)?;
        file.write(b"\n]")
    }
}
