//! Writing CPEL logs, Gist logs and VPP's event logs: each rewritten as what it is, and any other trace converted to one.

mod convert;
mod convert_cpel;
mod convert_elog;
mod convert_gist;
mod elog_values;
mod fields;
mod output;
mod rewrite_cpel;
mod rewrite_elog;
mod sections;
mod tracks;

use tracemill_model::error::Result;
use tracemill_model::schema::{ClockClass, StreamClassId};

use tracemill_format::OutPath;
use tracemill_format::lost::Lost;
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};

/// CPEL logs.
pub static CPEL: Target =
    Target::file(&["cpel"], "CPEL event logs, version 1", create_cpel).with_endings(&["cpel"]).cannot_hold(&[
        Lost::Fields,
        Lost::ClockOrigins,
        Lost::EarlyOrigins,
        Lost::DiscardedCounts,
        Lost::LostPacketCounts,
        Lost::PacketContexts,
        Lost::EventHeaders,
        Lost::ZeroTimes,
    ]);

/// Gist logs.
pub static GIST: Target =
    Target::file(&["gist"], "Gist event logs", create_gist).with_endings(&["gist"]).cannot_hold(&[
        Lost::EventNames,
        Lost::TrackNames,
        Lost::TrackNumbers,
        Lost::SharedEventIds,
        Lost::LongClassIds,
        Lost::FieldsBesideNumber,
        Lost::ClockFrequencies,
        Lost::ClockOrigins,
        Lost::ZeroTimes,
        Lost::UntimedEvents,
        Lost::DiscardedCounts,
        Lost::LostPacketCounts,
        Lost::PacketContexts,
        Lost::EventHeaders,
    ]);

/// Event logs of VPP.
pub static ELOG: Target =
    Target::file(&["elog"], "event logs of VPP, `elog v0`", create_elog).with_endings(&["elog"]).cannot_hold(&[
        Lost::Signs,
        Lost::FieldsBeyondArguments,
        Lost::FieldsAsText,
        Lost::DiscardedCounts,
        Lost::LostPacketCounts,
        Lost::PacketContexts,
        Lost::EventHeaders,
        Lost::MoreEventTypes,
        Lost::MoreElogTracks,
        Lost::EarlyLogs,
        Lost::RoundedTimes,
        Lost::UntimedEvents,
    ]);

fn create_cpel(path: &OutPath, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    if let [source] = sources
        && ["cpel", "gist"].contains(&source.origin.format.as_str())
        && let Some(rewriter) = rewrite_cpel::CpelRewriter::new(path, source, options)
    {
        return Ok(Box::new(rewriter));
    }
    Ok(Box::new(convert_cpel::CpelConverter::new(path, sources, options)))
}

fn create_gist(path: &OutPath, sources: &[Source], _options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    Ok(Box::new(convert_gist::GistConverter::new(path, sources)))
}

fn create_elog(path: &OutPath, sources: &[Source], _options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    if let [source] = sources
        && source.origin.format == ELOG.names[0]
        && let Some(rewriter) = rewrite_elog::ElogRewriter::new(path, source)
    {
        return Ok(Box::new(rewriter));
    }
    Ok(Box::new(convert_elog::ElogConverter::new(path, sources)))
}

/// The clock of a stream class, when its frequency is known.
fn known_clock(source: &Source, class: StreamClassId) -> Option<&ClockClass> {
    let clock = source.schema.stream(class).default_clock?;
    Some(source.schema.clock(clock)).filter(|clock| clock.frequency > 0)
}
