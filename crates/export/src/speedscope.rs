//! Profiles of speedscope: for each thread when calls begin and end.

use std::io::{self, Write};

use tracemill_format::Spill;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Target;
use tracemill_model::error::Result;

use super::stacks::{CallThread, Change, Follower, StackSink, Stacks};
use tracemill_codec::text::out::Out;
use tracemill_codec::text::strings;

/// See the module.
pub(super) static SPEEDSCOPE: Target =
    Target::file(&["speedscope"], "calls of threads for speedscope.app", |path, sources, _| {
        let sink = Speedscope { spill: Spill::new(path, "parts"), is_filled: Vec::new() };
        Ok(Box::new(Follower::new(path, sources, sink)?))
    })
    .with_endings(&["speedscope.json", "speedscope"])
    .cannot_hold(&[Lost::Values, Lost::NoCalls, Lost::Packets, Lost::Clocks, Lost::Environment]);

/// The file up to its profiles.
pub(crate) fn put_head(text: &mut Out, stacks: &Stacks) {
    text.put(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"tracemill\",");
    text.put(b"\"shared\":{\"frames\":[");
    for (at, name) in stacks.frames.iter().enumerate() {
        text.put(if at > 0 { b",\n{\"name\":" } else { b"\n{\"name\":" });
        strings::put_json(text, name.as_bytes());
        text.put_byte(b'}');
    }
    text.put(b"\n]},\"profiles\":[");
}

struct Speedscope {
    /// The events of each thread.
    spill: Spill,
    is_filled: Vec<bool>,
}

impl StackSink for Speedscope {
    const KEEPS_POINTS: bool = false;

    fn change(&mut self, at: usize, thread: &CallThread, time: u64, change: Change) -> Result<()> {
        let (kind, frame) = match change {
            Change::Push(frame) => ('O', frame),
            Change::Pop => ('C', thread.open.last().copied().unwrap_or(0)),
            Change::Point(_) => return Ok(()),
        };
        if self.is_filled.len() <= at {
            self.is_filled.resize(at + 1, false);
        }
        let before = if std::mem::replace(&mut self.is_filled[at], true) { ",\n" } else { "\n" };
        let text = format!("{before}{{\"type\":\"{kind}\",\"frame\":{frame},\"at\":{time}}}");
        self.spill.append(at, text.as_bytes())
    }

    fn finish(&mut self, out: &mut dyn Write, stacks: &Stacks, _losses: &mut Losses) -> io::Result<()> {
        let mut text = Out::default();
        put_head(&mut text, stacks);
        let mut is_first = true;
        for (at, thread) in stacks.threads.iter().enumerate() {
            if !self.is_filled.get(at).is_some_and(|is| *is) {
                continue;
            }
            text.put(if std::mem::replace(&mut is_first, false) { b"\n" } else { b",\n" });
            text.put(b"{\"type\":\"evented\",\"name\":");
            strings::put_json(&mut text, thread.title().as_bytes());
            text.put_fmt(format_args!(
                ",\"unit\":\"nanoseconds\",\"startValue\":{},\"endValue\":{},\"events\":[",
                thread.first, thread.last
            ));
            out.write_all(text.written())?;
            text.clear();
            self.spill.copy(at, out)?;
            text.put(b"\n]}");
        }
        text.put(b"\n]}\n");
        out.write_all(text.written())
    }
}
