//! The options of `tracemill record`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::parse_size;

/// `tracemill record`.
#[derive(Args)]
#[command(
    after_help = "Exit status: that of PROGRAM (128 and the number for a signal); 125 when nothing could be recorded."
)]
pub(crate) struct RecordOptions {
    /// The program to record, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, required_unless_present_any = ["recover", "snapshot"])]
    pub(crate) program: Vec<OsString>,

    /// Finish the trace in this folder, whose recorder was killed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["program", "snapshot"])]
    pub(crate) recover: Option<PathBuf>,

    /// Copy what is recorded so far in this folder, by a process that lives or died, to the folder that -o names
    #[arg(long, value_name = "DIR", conflicts_with = "program", requires = "output")]
    pub(crate) snapshot: Option<PathBuf>,

    /// The folder of the trace, which must not exist
    #[arg(long, short, short_alias = 'd', value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// What happens when a thread's ring of events is full
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<RecordMode>,

    /// Events to record: globs of their names, with a dash before those to leave out; the last one that matches decides
    #[arg(long, value_name = "GLOB,..", allow_hyphen_values = true)]
    pub(crate) events: Option<String>,

    /// Size of the ring of events of each thread, such as 16M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) size: Option<usize>,
}

/// What happens when a ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum RecordMode {
    /// Packets are moved to files all the time; events are discarded, and counted, when that is too slow.
    Stream,
    /// The oldest events are written over.
    Flight,
    /// As stream, but the program waits in place of discarding.
    Block,
}
