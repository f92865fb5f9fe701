//! Writing LTTng 0.7: a trace of 0.7 or 0.8 as it was, one of 2.x too, any other with facilities of its own.

mod blocks;
mod concepts;
mod copy;
mod encode;
mod foreign;
pub(super) mod own;

use std::path::Path;

use tracemill_codec::chunk::EventRef;
use tracemill_model::error::Result;
use tracemill_model::packet::Gap;

use self::foreign::Foreign;
use self::own::Own;
use crate::markers::write::Own as Markers;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};

/// LTTng 0.7.
pub static TARGET: Target = Target::folder(
    &["lttng-legacy"],
    "LTTng 0.7: facilities, with their definitions; 0.8 or 2.x when the trace was one",
    create,
)
.cannot_hold(&[
    Lost::DiscardedCounts,
    Lost::LostPacketCounts,
    Lost::PacketContexts,
    Lost::EventHeaders,
    Lost::Optionals,
    Lost::Variants,
    Lost::Booleans,
    Lost::BitFlags,
    Lost::MediaTypes,
    Lost::WideIntegers,
    Lost::UntimedEvents,
    Lost::MoreEventClasses,
])
.copied_by(copy::copy);

fn create(path: &Path, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    let mut writer = Writer { traces: Vec::new(), place_of: Vec::new() };
    for (at, source) in sources.iter().enumerate() {
        let name: String = source.name.chars().map(|one| if one == '/' { '_' } else { one }).collect();
        let folder =
            if sources.len() == 1 { path.to_path_buf() } else { path.join(format!("{at}_{}", name.trim_matches('.'))) };
        writer.place_of.extend((0..source.streams.len()).map(|stream| (at, stream)));
        let is_own = source.origin.format == "lttng-legacy";
        let own = match source.origin.version.0 {
            0 if is_own => Own::new(&folder, source)?.map(|own| Trace::Own(Box::new(own))),
            2 if is_own => Markers::new(&folder, source, options).map(|own| Trace::Markers(Box::new(own))),
            _ => None,
        };
        let foreign = || Trace::Foreign(Box::new(Foreign::new(&folder, source, options)));
        writer.traces.push(own.unwrap_or_else(foreign));
    }
    Ok(Box::new(writer))
}

struct Writer {
    traces: Vec<Trace>,
    /// For each stream of all sources its trace, and its place there.
    place_of: Vec<(usize, usize)>,
}

enum Trace {
    Own(Box<Own>),
    Markers(Box<Markers>),
    Foreign(Box<Foreign>),
}

impl Trace {
    fn losses(&self) -> &Losses {
        match self {
            Trace::Own(own) => &own.losses,
            Trace::Markers(own) => &own.losses,
            Trace::Foreign(foreign) => &foreign.losses,
        }
    }
}

impl TraceWriter for Writer {
    fn losses(&self) -> Losses {
        let mut all = Losses::default();
        self.traces.iter().for_each(|trace| all.extend(trace.losses()));
        all
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let (trace, stream) = self.place_of[stream];
        match &mut self.traces[trace] {
            Trace::Own(own) => own.event(stream, event),
            Trace::Markers(own) => own.event(stream, event),
            Trace::Foreign(foreign) => foreign.event(stream, event),
        }
    }

    fn gap(&mut self, stream: usize, gap: &Gap) -> Result<()> {
        if let Trace::Foreign(foreign) = &mut self.traces[self.place_of[stream].0] {
            foreign.gap(gap);
        }
        Ok(())
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        let (trace, stream) = self.place_of[stream];
        match &mut self.traces[trace] {
            Trace::Own(own) => own.end_stream(stream),
            Trace::Markers(own) => own.end_stream(stream),
            Trace::Foreign(foreign) => foreign.end_stream(stream),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for stream in 0..self.place_of.len() {
            self.end_stream(stream)?;
        }
        for trace in &mut self.traces {
            match trace {
                Trace::Own(own) => own.finish()?,
                Trace::Markers(own) => own.finish()?,
                Trace::Foreign(foreign) => foreign.finish()?,
            }
        }
        Ok(self.losses())
    }
}
