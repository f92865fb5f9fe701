//! Writing CPEL logs and VPP's event logs: each as itself, and any other trace as one.

mod elog;
mod elog_own;
mod fields;
mod log;
mod own;
mod spool;
mod tracks;

use std::path::Path;

use tracemill_model::error::Result;

use tracemill_format::OpenTrace;
use tracemill_format::lost::Lost;
use tracemill_format::out_file::copy_file;
use tracemill_format::target::{Source, Target, TraceWriter, WriteOptions};

/// CPEL logs.
pub static CPEL: Target = Target::file(&["cpel"], "CPEL event logs, version 1", create_cpel)
    .cannot_hold(&[
        Lost::Fields,
        Lost::ClockOrigins,
        Lost::EarlyOrigins,
        Lost::DiscardedCounts,
        Lost::LostPacketCounts,
        Lost::PacketContexts,
        Lost::EventHeaders,
        Lost::ZeroTimes,
    ])
    .copied_by(copy_cpel);

/// Event logs of VPP.
pub static ELOG: Target = Target::file(&["elog"], "event logs of VPP, `elog v0`", create_elog)
    .cannot_hold(&[
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
    ])
    .copied_by(copy_elog);

fn create_cpel(path: &Path, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    if let [source] = sources
        && ["cpel", "gist"].contains(&source.origin.format.as_str())
        && let Some(own) = own::Own::new(path, source, options)
    {
        return Ok(Box::new(own));
    }
    Ok(Box::new(log::Log::new(path, sources, options)))
}

fn create_elog(path: &Path, sources: &[Source], options: &WriteOptions) -> Result<Box<dyn TraceWriter>> {
    if let [source] = sources
        && source.origin.format == ELOG.names[0]
        && let Some(own) = elog_own::Own::new(path, source)
    {
        return Ok(Box::new(own));
    }
    Ok(Box::new(elog::Log::new(path, sources, options)))
}

fn copy_cpel(trace: &OpenTrace, to: &Path) -> Result<bool> {
    copy(trace, to, CPEL.names[0])
}

fn copy_elog(trace: &OpenTrace, to: &Path) -> Result<bool> {
    copy(trace, to, ELOG.names[0])
}

/// Copies a log that is whole, octet by octet.
fn copy(trace: &OpenTrace, to: &Path, format: &str) -> Result<bool> {
    if trace.schema.format != format || !trace.faults.is_empty() || !trace.path.is_file() {
        return Ok(false);
    }
    copy_file(&trace.path, to)?;
    Ok(true)
}
