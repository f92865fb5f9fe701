//! Writing legacy LTTng: a trace as it was, any other one as 0.7 or 0.8 with facilities of its own, or as 2.6 with markers.

#[cfg(test)]
mod tests;

use tracemill_model::error::{Error, Result};

use crate::facilities::write::{FacilitiesConverter, FacilitiesRewriter};
use crate::markers::write::{MarkersConverter, MarkersRewriter as Markers};
use tracemill_format::lost::Lost;
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};
use tracemill_format::writer::writer_of_each;
use tracemill_format::{OutPath, Setting, as_file_name};

/// Name of the option with the version.
const VERSION: &str = "lttng-version";

/// LTTng 0.7 and 0.8.
pub static TARGET: Target = Target::folder(
    &["lttng-legacy"],
    "LTTng 0.7 or 0.8: facilities, with their definitions; 2.6: markers; any version when the trace was one",
    create,
)
.with_settings(&[Setting::with_value(VERSION, "0.7|0.8|2.6", "Version of a legacy LTTng trace: as the input, or 0.7")])
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

/// The version that the user wants.
fn wanted_version(options: &WriteOptions) -> Result<Option<(u32, u32)>> {
    match options.settings.get(VERSION) {
        None => Ok(None),
        Some("0.7") => Ok(Some((0, 7))),
        Some("0.8") => Ok(Some((0, 8))),
        Some("2.6") => Ok(Some((2, 6))),
        Some(other) => Err(Error::misuse(format!("`{other}` is not one of 0.7, 0.8 and 2.6 for --{VERSION}"))),
    }
}

fn create(path: &OutPath, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    let wanted = wanted_version(options)?;
    writer_of_each(sources, |at, source| {
        let name = as_file_name(&source.name);
        let folder =
            if sources.len() == 1 { path.clone() } else { path.join(format!("{at}_{}", name.trim_matches('.'))) };
        let origin = &source.origin;
        if origin.format == TARGET.names[0] && wanted.is_none_or(|wanted| wanted == origin.version) {
            if origin.version.0 == 0
                && let Some(writer) = FacilitiesRewriter::new(&folder, source)?
            {
                return Ok(Box::new(writer));
            }
            if origin.version.0 == 2
                && let Some(writer) = Markers::new(&folder, source, options)
            {
                return Ok(Box::new(writer));
            }
        }
        if wanted == Some((2, 6)) {
            return Ok(Box::new(MarkersConverter::new(&folder, source, options)));
        }
        let minor = if wanted == Some((0, 8)) { 8 } else { 7 };
        Ok(Box::new(FacilitiesConverter::new(&folder, source, options, minor)))
    })
}
