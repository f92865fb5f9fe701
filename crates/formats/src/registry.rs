//! All formats: one line each.

use crate::api::Format;
use crate::target::Target;

/// Every format that tracemill reads, in the order in which they are asked.
pub static FORMATS: &[&Format] = &[
    &crate::ctf::FORMAT,
    &crate::ctf::rfc::FORMAT,
    &crate::lttng_markers::FORMAT,
    &crate::ftrace::FORMAT,
    &crate::cpel::CPEL,
    &crate::cpel::ELOG,
    &crate::lttng_legacy::FORMAT,
    &crate::uftrace::FORMAT,
    &crate::jsonl::FORMAT,
];

/// Every format that tracemill writes traces in.
pub static TARGETS: &[&Target] = &[
    &crate::ctf::write::CTF18,
    &crate::ctf::write::CTF2,
    &crate::ctf::rfc::write::CTF11,
    &crate::ctf::rfc::write::CTF16,
    &crate::lttng_legacy::write::TARGET,
    &crate::uftrace::write::TARGET,
    &crate::cpel::write::CPEL,
    &crate::cpel::write::ELOG,
];

/// The formats of a name: several may share one, each with a probe of its own.
pub fn by_name(name: &str) -> Vec<&'static Format> {
    FORMATS.iter().copied().filter(|format| format.names.contains(&name)).collect()
}

/// The names of all formats, each once.
pub fn names() -> Vec<&'static str> {
    names_of(FORMATS)
}

/// The names of some formats, each once.
pub fn names_of<'a>(formats: impl IntoIterator<Item = &'a &'static Format>) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for name in formats.into_iter().flat_map(|format| format.names) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names
}

/// The options that formats add, each once.
pub fn settings() -> Vec<&'static crate::api::Setting> {
    let mut settings: Vec<&'static crate::api::Setting> = Vec::new();
    for setting in FORMATS.iter().flat_map(|format| format.settings) {
        if !settings.iter().any(|known| known.name == setting.name) {
            settings.push(setting);
        }
    }
    settings
}
