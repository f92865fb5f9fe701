//! All formats: one line each.

use crate::api::Format;
use crate::target::Target;

/// Every format that tracemill reads, in the order in which they are asked.
pub static FORMATS: &[&Format] = &[&crate::ctf::FORMAT, &crate::ctf::rfc::FORMAT];

/// Every format that tracemill writes traces in.
pub static TARGETS: &[&Target] = &[&crate::ctf::write::CTF18, &crate::ctf::write::CTF2];

/// The format of a name.
pub fn by_name(name: &str) -> Option<&'static Format> {
    FORMATS.iter().copied().find(|format| format.names.contains(&name))
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
