//! The registry: every format that tracemill reads or writes, one line and one cargo feature each.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

use tracemill_format::Format;
use tracemill_format::target::Target;

/// Every format that tracemill reads, in the order in which they are asked.
pub static FORMATS: &[&Format] = &[
    #[cfg(feature = "ctf")]
    &tracemill_ctf::FORMAT,
    #[cfg(feature = "ctf")]
    &tracemill_ctf::drafts::FORMAT,
    #[cfg(feature = "lttng")]
    &tracemill_lttng::markers::FORMAT,
    #[cfg(feature = "ftrace")]
    &tracemill_ftrace::FORMAT,
    #[cfg(feature = "perf")]
    &tracemill_perf::FORMAT,
    #[cfg(feature = "cpel")]
    &tracemill_cpel::CPEL,
    #[cfg(feature = "cpel")]
    &tracemill_cpel::ELOG,
    #[cfg(feature = "lttng")]
    &tracemill_lttng::facilities::FORMAT,
    #[cfg(feature = "uftrace")]
    &tracemill_uftrace::FORMAT,
    #[cfg(feature = "jsonl")]
    &tracemill_jsonl::FORMAT,
    #[cfg(feature = "ftrace-text")]
    &tracemill_ftrace_text::FORMAT,
    #[cfg(feature = "ftrace-text")]
    &tracemill_ftrace_text::PERF_SCRIPT,
    #[cfg(feature = "chrome")]
    &tracemill_chrome::FORMAT,
    #[cfg(feature = "perfetto")]
    &tracemill_perfetto::FORMAT,
    #[cfg(feature = "profile")]
    &tracemill_profile::SPEEDSCOPE,
    #[cfg(feature = "profile")]
    &tracemill_profile::FIREFOX,
    #[cfg(feature = "profile")]
    &tracemill_profile::FOLDED,
];

/// The target for parts of a trace when none is named: it can hold those of every format. `None` in a program that was
/// built without it.
pub static USUAL: Option<&Target> = usual();

const fn usual() -> Option<&'static Target> {
    #[cfg(feature = "ctf")]
    return Some(&tracemill_ctf::write::CTF2);
    #[cfg(not(feature = "ctf"))]
    None
}

/// Every format that tracemill writes traces in.
pub static TARGETS: &[&Target] = &[
    #[cfg(feature = "ctf")]
    &tracemill_ctf::write::CTF18,
    #[cfg(feature = "ctf")]
    &tracemill_ctf::write::CTF2,
    #[cfg(feature = "ctf")]
    &tracemill_ctf::drafts::write::CTF11,
    #[cfg(feature = "ctf")]
    &tracemill_ctf::drafts::write::CTF16,
    #[cfg(feature = "lttng")]
    &tracemill_lttng::write::TARGET,
    #[cfg(feature = "uftrace")]
    &tracemill_uftrace::write::TARGET,
    #[cfg(feature = "ftrace")]
    &tracemill_ftrace::write::TARGET,
    #[cfg(feature = "cpel")]
    &tracemill_cpel::write::CPEL,
    #[cfg(feature = "cpel")]
    &tracemill_cpel::write::GIST,
    #[cfg(feature = "cpel")]
    &tracemill_cpel::write::ELOG,
];
