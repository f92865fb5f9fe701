//! Options of commands that read what is still being written.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::MessageOptions;

/// Heading of the options, in the help.
pub(super) const GROWING: &str = "Traces that grow";

/// Options of commands that read what is still being written.
#[derive(Args, Clone, Default)]
#[command(group(ArgGroup::new("growing").multiple(true).args(["follow", "metadata"])))]
pub(crate) struct LiveOptions {
    /// Read on when the trace grows: CTF folders, uftrace folders, a trace.dat that is recorded, JSON lines
    #[arg(long, help_heading = GROWING)]
    pub(crate) follow: bool,

    /// Read TRACE as the bytes of a CTF stream that this file describes: a file, `-` for stdin, a FIFO, a serial device, or
    /// `tcp://PORT`, a port at which each connection is a stream
    #[arg(long, value_name = "FILE", help_heading = GROWING)]
    pub(crate) metadata: Option<PathBuf>,

    /// With `tcp://PORT`: listen at this address of the machine, instead of for its own programs only
    #[arg(long, value_name = "ADDRESS", requires = "metadata", help_heading = GROWING)]
    pub(crate) listen: Option<IpAddr>,

    /// With --follow or --metadata: end when nothing has come for so long, such as 5s
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "growing", help_heading = GROWING)]
    pub(crate) until_idle: Option<Duration>,

    /// With --follow: end when this process does not run any more
    #[arg(long = "while-pid", value_name = "PID", requires = "follow", help_heading = GROWING)]
    pub(crate) while_pid: Option<u32>,

    /// Read a live session (`net://HOST[:PORT]/host/TARGET/SESSION`) from its beginning, not from now on
    #[arg(long, help_heading = GROWING)]
    pub(crate) from_beginning: bool,

    /// End with exit status 1 when there is no such live session, instead of waiting for it
    #[arg(long, help_heading = GROWING)]
    pub(crate) no_wait: bool,

    /// Connect again when the connection to the relay daemon breaks, and go on with what is recorded from then on
    #[arg(long, help_heading = GROWING)]
    pub(crate) reconnect: bool,

    /// End when the relay daemon has not answered for so long, such as 5s [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = GROWING)]
    pub(crate) timeout: Option<Duration>,

    /// Wait so long for a stream of which nothing is known, then show the events of the others; 0s waits for ever
    /// [default: 10 live timers of a session; 2s for files]
    #[arg(long, value_name = "DURATION", value_parser = duration_or_zero, help_heading = GROWING)]
    pub(crate) patience: Option<Duration>,

    /// Stop reading a trace that grows after so long, such as 10s or 5m
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, help_heading = GROWING)]
    pub(crate) for_duration: Option<Duration>,
}

impl LiveOptions {
    /// May the input grow while it is read, but for live sessions?
    pub(crate) fn may_grow(&self) -> bool {
        self.follow || self.metadata.is_some()
    }
}

/// `tracemill recv`.
#[derive(Args, Clone, Default)]
pub(crate) struct RecvOptions {
    /// Make the folders of recordings in this folder [default: the current one]
    #[arg(long, short, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Listen at this port [default: 8090]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// Listen at this address of the machine, such as 0.0.0.0 for all, instead of for its own programs only
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<IpAddr>,

    /// End after the first recording
    #[arg(long)]
    pub(crate) once: bool,

    #[command(flatten)]
    pub(crate) messages: MessageOptions,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    super::parse_duration(text).map(Duration::from_nanos)
}

fn duration_or_zero(text: &str) -> Result<Duration, String> {
    if ["0", "0s"].contains(&text) { Ok(Duration::ZERO) } else { duration(text) }
}
