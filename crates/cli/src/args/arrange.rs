//! The order of options in help and manual pages: those of the command itself, those that many commands share, then those
//! that few people need.

use clap::{Arg, Command};

/// Headings of options that several commands have, and their ids, in the order in which help shows them. An option that
/// names a heading itself keeps it.
const SHARED: [(&str, &[&str]); 4] = [
    ("Selection of events", &["begin", "end", "timerange", "filter", "stream", "stream_intersection", "skip", "limit"]),
    (
        OF_CALLS,
        &[
            "functions_in",
            "functions_out",
            "triggers",
            "callers",
            "hidden",
            "locations",
            "functions_size",
            "functions_match",
            "kernel_full",
            "kernel_only",
            "event_full",
        ],
    ),
    (
        "Reading and messages",
        &["data", "input_format", "with-syms", "opt_file", "logfile", "jobs", "quiet", "verbose", "strict", "progress"],
    ),
    (
        RARE,
        &[
            "clock_offset",
            "clock_offset_ns",
            "correlate",
            "correlate_by",
            "memory",
            "max_unpacked",
            "debug_info_dir",
            "debug_info_full_path",
            "debug_info_target_prefix",
        ],
    ),
];

/// Heading of the options that select function calls.
pub(super) const OF_CALLS: &str = "Selection of calls";

/// Heading of the options that `-h` leaves out, as it does those of formats.
const RARE: &str = "Rarely needed";

/// Heading of the options that the formats of inputs declare: last of all.
const OF_FORMATS: &str = "Options of input formats";

/// Place of an option: after all options of a smaller one.
fn place(arg: &Arg) -> usize {
    match arg.get_help_heading() {
        None => 0,
        Some(OF_FORMATS) => SHARED.len() + 2,
        Some(heading) => SHARED.iter().position(|(shared, _)| *shared == heading).map_or(1, |at| at + 2),
    }
}

/// The command with its options under their headings, and these in order.
pub(crate) fn arranged(command: Command) -> Command {
    let mut command = command.mut_args(|arg| {
        let of = SHARED.iter().find(|(_, ids)| ids.contains(&arg.get_id().as_str()));
        match of.filter(|_| arg.get_help_heading().is_none() && !arg.is_positional()) {
            Some((RARE, _)) => arg.help_heading(RARE).hide_short_help(true),
            Some((heading, _)) => arg.help_heading(*heading),
            None => arg,
        }
    });
    // Headings stand in the order of their first options.
    let mut args: Vec<Arg> = command.get_arguments().cloned().collect();
    args.sort_by_key(place);
    for arg in &args {
        command = command.mut_arg(arg.get_id(), |arg| arg);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::program;

    #[test]
    fn shared_options_exist_and_own_ones_come_first() {
        let mut program = program();
        program.build();
        let ids = |command: &Command| -> Vec<String> {
            command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
        };
        let all: Vec<String> = program.get_subcommands().flat_map(ids).collect();
        for id in SHARED.iter().flat_map(|(_, ids)| *ids) {
            let is_optional = id.starts_with("debug_info") && !cfg!(feature = "debug-info");
            assert!(is_optional || all.iter().any(|own| own == id), "no command has {id}");
        }
        for command in program.get_subcommands() {
            let arranged = arranged(command.clone());
            let places: Vec<usize> = arranged.get_arguments().map(place).collect();
            assert!(places.is_sorted(), "{}: {places:?}", command.get_name());
            assert_eq!(ids(&arranged).len(), ids(command).len(), "{}", command.get_name());
        }
    }
}
