//! Writing CPEL logs and VPP's event logs: each as itself, and any other trace as one.

mod elog;
mod elog_own;
mod fields;
mod log;
mod own;
mod spool;
mod tracks;

use std::path::Path;

use tracemill_codec::chunk::EventRef;
use tracemill_model::error::Result;
use tracemill_model::packet::{Gap, GapKind};
use tracemill_model::schema::{EventClassId, Member};

use tracemill_format::OpenTrace;
use tracemill_format::lost::{Losses, Lost};
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

/// Counts what a log has no place for.
fn count_gap(losses: &mut Losses, gap: &Gap) {
    let kind = match gap.kind {
        GapKind::DiscardedEvents => Lost::DiscardedCounts,
        GapKind::LostPackets => Lost::LostPacketCounts,
    };
    losses.add(kind, gap.count.unwrap_or(1));
}

/// Counts what is lost of headers and packets, whatever the events.
fn count_headers(losses: &mut Losses, sources: &[Source]) {
    for source in sources {
        let schema = &source.schema;
        for stream in &source.streams {
            let class = schema.stream(stream.class);
            let has_more = |root, known: &[&str]| {
                // What only describes the packet, or is the id or the time of an event, says nothing more.
                let is_more = |member: &Member| !known.contains(&&*member.name) && schema.says_more(member.class);
                fields::members(schema, root).iter().any(is_more)
            };
            losses.add(Lost::PacketContexts, u64::from(has_more(class.packet_context, &["cpu_id"])));
            let has_header = has_more(class.event_header, &["id", "timestamp", "v"]);
            losses.add(Lost::EventHeaders, u64::from(has_header));
        }
    }
}

/// The source and the class of an event; of one whose class stands for many its name too.
type ClassKey = (usize, EventClassId, Option<Vec<u8>>);

/// The members of an event's own id: its number and name, when its class stands for many.
fn own_name(event: EventRef<'_>) -> Option<(u32, Vec<u8>)> {
    let mut name = Vec::new();
    event.own_id(&mut name).map(|id| (id, name))
}
