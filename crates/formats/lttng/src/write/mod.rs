//! Writing legacy LTTng: a trace as it was, any other one as 0.7 with facilities of its own.

use tracemill_model::error::Result;

use crate::facilities::write::{FacilitiesConverter, FacilitiesRewriter};
use crate::markers::write::MarkersRewriter as Markers;
use tracemill_format::lost::Lost;
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};
use tracemill_format::writer::writer_of_each;
use tracemill_format::{OutPath, as_file_name};

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
]);

fn create(path: &OutPath, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    writer_of_each(sources, |at, source| {
        let name = as_file_name(&source.name);
        let folder =
            if sources.len() == 1 { path.clone() } else { path.join(format!("{at}_{}", name.trim_matches('.'))) };
        if source.origin.format == TARGET.names[0] {
            let version = source.origin.version.0;
            if version == 0
                && let Some(writer) = FacilitiesRewriter::new(&folder, source)?
            {
                return Ok(Box::new(writer));
            }
            if version == 2
                && let Some(writer) = Markers::new(&folder, source, options)
            {
                return Ok(Box::new(writer));
            }
        }
        Ok(Box::new(FacilitiesConverter::new(&folder, source, options)))
    })
}
