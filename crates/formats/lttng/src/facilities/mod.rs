//! Traces of LTTng 0.7 and 0.8: facilities, described by files that look like XML. See the README of this folder.

mod block;
mod builtin;
mod classes;
pub mod definitions;
mod directory;
mod info;
mod layout;
mod loads;
mod open;
mod reader;
mod scan;
pub(crate) mod write;

pub(crate) use self::loads::core_names;
use tracemill_format::{Format, Setting};

/// LTTng 0.7 and 0.8.
pub static FORMAT: Format = Format::new(
    &["lttng-legacy"],
    "LTTng 0.7 and 0.8: facilities, from kernel traces of 2006 and 2007",
    directory::probe,
    open::open,
)
.looks_like("a trace of LTTng 0.7 or 0.8 is a folder with `control/facilities_0` and `eventdefs/`")
.in_folders()
.with_settings(&[Setting::switch(open::DIVIDE, "Divide start_freq of LTTng 0.7 and 0.8 by freq_scale for the clock")])
.with_calls();

/// Calls of programs that were built with `-finstrument-functions` and the library of the user's side; in 2006 the names of
/// attributes stood after those of events.
const CALLS: &[tracemill_format::calls::CallEvents] = &[
    calls("user_generic.function_entry", "user_generic.function_exit"),
    calls("user_generic.function_entry no_instrument_function", "user_generic.function_exit no_instrument_function"),
];

const fn calls(entry: &'static str, exit: &'static str) -> tracemill_format::calls::CallEvents {
    tracemill_format::calls::CallEvents::by_address(entry, exit, "this_fn")
}

#[cfg(test)]
pub(crate) mod tests;
