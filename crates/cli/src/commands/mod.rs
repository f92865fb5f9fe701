//! The commands: one file each.

pub(crate) mod analyze;
mod analyze_empty;
mod analyze_forms;
pub(crate) mod analyze_help;
mod analyze_list;
mod analyze_matrix;
mod analyze_options;
mod analyze_periods;
#[cfg(feature = "debug-info")]
mod analyze_places;
mod analyze_rows;
pub(crate) mod cache;
mod calls;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod convert;
mod convert_samples;
mod custom_states;
pub(crate) mod diff;
mod diff_calls;
mod diff_forms;
mod diff_html;
mod diff_json;
mod diff_paths;
pub(crate) mod dump;
pub(crate) mod flame;
pub(crate) mod formats;
pub(crate) mod graph;
pub(crate) mod help;
mod html;
pub(crate) mod info;
mod live;
mod losses;
pub(crate) mod man;
mod no_events;
mod output;
pub(crate) mod print;
mod print_growing;
#[cfg(has_recorder)]
pub(crate) mod record;
#[cfg(has_recorder)]
mod record_control;
#[cfg(has_recorder)]
mod record_debug;
#[cfg(not(has_recorder))]
pub(crate) mod record_missing;
#[cfg(has_recorder)]
mod record_notes;
#[cfg(has_recorder)]
mod record_probes;
#[cfg(has_recorder)]
mod record_samples;
#[cfg(has_recorder)]
mod record_selection;
#[cfg(has_recorder)]
mod record_trigger;
pub(crate) mod recv;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod report_calls;
mod report_forms;
mod request;
mod samples;
mod samples_forms;
#[cfg(feature = "sql")]
mod shell;
pub(crate) mod sql;
pub(crate) mod tui;
pub(crate) mod view;

/// The error of a command that this program was built without, with the way to one that has it.
#[cfg(any(not(feature = "record"), not(feature = "viewer"), not(feature = "sql"), not(feature = "distributed")))]
fn built_without(part: &str, feature: &str) -> tracemill_model::error::Error {
    let error = tracemill_model::error::Error::unsupported(format!("this program was built without {part}"));
    error.with_help(format!(
        "in a clone of its repository, `cargo build --release -p tracemill-cli --features {feature}` builds one with it"
    ))
}
