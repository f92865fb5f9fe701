//! Options of the commands that take samples as they take calls.

#[cfg(feature = "debug-info")]
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Heading of these options.
pub(super) const OF_SAMPLES: &str = "Samples";

/// Which samples are added up, and how.
#[derive(Args, Clone, Default)]
pub(crate) struct SampleArgs {
    /// Of samples, keep only those of these events, such as cycles; `*` and `?` are globs
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = OF_SAMPLES)]
    pub(crate) event: Vec<String>,

    /// Count each sample by its period (ns of a clock, or events), or as one
    #[arg(long, value_name = "WEIGHT", default_value = "period", hide_short_help = true, help_heading = OF_SAMPLES)]
    pub(crate) weight: WeightArg,

    /// Add up samples of what threads execute, time without a CPU (from switches of threads), or both
    #[arg(long, value_name = "WHERE", default_value = "on", help_heading = OF_SAMPLES)]
    pub(crate) cpu: CpuArg,

    /// With --cpu off: add the stack of who ended a wait
    #[arg(long, hide_short_help = true, help_heading = OF_SAMPLES)]
    pub(crate) wakers: bool,

    #[command(flatten)]
    pub(crate) symbols: SymbolArgs,
}

/// How the functions of samples are named. A build without `debug-info` names none, and has none of these options.
#[derive(Args, Clone, Default)]
pub(crate) struct SymbolArgs {
    /// List of the kernel's symbols, a copy of /proc/kallsyms [default: `kallsyms` next to TRACE, perf's cache, or that of
    /// this machine if it runs the same kernel]
    #[cfg(feature = "debug-info")]
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = OF_SAMPLES)]
    pub(crate) kallsyms: Option<PathBuf>,

    /// Look below this folder for the programs of the recorded machine
    #[cfg(feature = "debug-info")]
    #[arg(id = "symbols_target_prefix", long = "debug-info-target-prefix", visible_alias = "symfs", value_name = "DIR", hide_short_help = true, help_heading = OF_SAMPLES)]
    pub(crate) target_prefix: Option<PathBuf>,

    /// Look here for the symbols of stripped programs [default: /usr/lib/debug]
    #[cfg(feature = "debug-info")]
    #[arg(id = "symbols_dir", long = "debug-info-dir", value_name = "DIR", hide_short_help = true, help_heading = OF_SAMPLES)]
    pub(crate) dir: Option<PathBuf>,

    /// Do not look for inlined functions (faster)
    #[cfg(feature = "debug-info")]
    #[arg(long, hide_short_help = true, help_heading = OF_SAMPLES)]
    pub(crate) no_inline: bool,
}

/// Whose time is added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum CpuArg {
    /// Of threads that run.
    #[default]
    On,
    /// Of threads without a CPU.
    Off,
    /// Of both; samples must be of a clock.
    Both,
}

/// The weight of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum WeightArg {
    /// For the events that it stands for.
    #[default]
    Period,
    /// For itself.
    Count,
}
