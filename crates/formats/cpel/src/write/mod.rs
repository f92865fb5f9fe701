//! Writing CPEL logs and VPP's event logs: each as itself, and any other trace as one.

mod elog;
mod elog_own;
mod fields;
mod log;
mod own;
mod spool;
mod tracks;

use tracemill_model::error::Result;

use tracemill_format::OutPath;
use tracemill_format::lost::Lost;
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};

/// CPEL logs.
pub static CPEL: Target = Target::file(&["cpel"], "CPEL event logs, version 1", create_cpel).cannot_hold(&[
    Lost::Fields,
    Lost::ClockOrigins,
    Lost::EarlyOrigins,
    Lost::DiscardedCounts,
    Lost::LostPacketCounts,
    Lost::PacketContexts,
    Lost::EventHeaders,
    Lost::ZeroTimes,
]);

/// Event logs of VPP.
pub static ELOG: Target = Target::file(&["elog"], "event logs of VPP, `elog v0`", create_elog).cannot_hold(&[
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
        && let Some(own) = own::Own::new(path, source, options)
    {
        return Ok(Box::new(own));
    }
    Ok(Box::new(log::Log::new(path, sources, options)))
}

fn create_elog(path: &OutPath, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    if let [source] = sources
        && source.origin.format == ELOG.names[0]
        && let Some(own) = elog_own::Own::new(path, source)
    {
        return Ok(Box::new(own));
    }
    Ok(Box::new(elog::Log::new(path, sources, options)))
}
