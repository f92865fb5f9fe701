//! Every format that can be written: those of traces, and those that other tools show.

use tracemill_engine::damage::unknown_format;
use tracemill_export::{LEFT_OUT, LEFT_OUT_HELP};
use tracemill_format::target::Target;
use tracemill_format::{Setting, settings_of};
use tracemill_formats::FORMATS;
use tracemill_model::error::{Error, Result};

/// Every format that traces are written in.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    tracemill_formats::TARGETS.iter().chain(tracemill_export::TARGETS).copied()
}

/// The options that targets add, each once.
pub fn target_settings() -> Vec<&'static Setting> {
    let mut settings: Vec<&'static Setting> = Vec::new();
    let of_formats = settings_of(FORMATS);
    for setting in targets().flat_map(|target| target.settings) {
        if !settings.iter().chain(&of_formats).any(|known| known.name == setting.name) {
            settings.push(setting);
        }
    }
    settings
}

/// The target of a name.
///
/// # Errors
/// When there is none, the help names all; or when the program was built without it.
pub fn target(name: &str, others: &[&str]) -> Result<&'static Target> {
    let found = targets().find(|target| target.names.contains(&name));
    found.ok_or_else(|| {
        if LEFT_OUT.contains(&name) {
            return Error::unsupported(format!("this program was built without the format `{name}`"))
                .with_help(LEFT_OUT_HELP);
        }
        let names = targets().flat_map(|target| target.names).chain(others);
        let names: Vec<&str> = names.copied().collect();
        unknown_format("output", "written", name, &names)
    })
}
