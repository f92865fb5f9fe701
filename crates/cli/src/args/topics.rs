//! Help of commands with many options, divided by what it is about: `COMMAND --help TOPIC`. Manual pages are whole.

use clap::Command;

use super::live::GROWING;
use super::record::RUNNING;
use super::report::report_help;
use super::samples::OF_SAMPLES;

/// Options that stand on a page of their own: command, topic, and the headings of the options.
const TOPICS: [(&str, &str, &[&str]); 9] = [
    ("analyze", "periods", &["Periods"]),
    ("analyze", "analyses", &["One analysis", "Meaning of events"]),
    ("analyze", LIVE, &[GROWING]),
    ("info", LIVE, &[GROWING]),
    ("print", LIVE, &[GROWING]),
    ("convert", LIVE, &[GROWING]),
    ("convert", SAMPLES, &[OF_SAMPLES]),
    ("report", LIVE, &[GROWING]),
    ("record", "running", &[RUNNING]),
];

/// The topic of the options for traces that grow.
const LIVE: &str = "live";
/// The topic of the options by which functions of samples are named.
const SAMPLES: &str = "samples";

/// The help of a command about a topic, where it has such a page.
pub(crate) fn help_of_topic(command: &Command, topic: &str) -> Option<Command> {
    let name = command.get_name();
    if (name, topic) == ("report", "calls") {
        return Some(report_help(command.clone(), true));
    }
    if (name, topic) == ("convert", "limits") {
        let limits = command.get_after_long_help()?.clone();
        return Some(command.clone().about(limits).help_template("{about}"));
    }
    let (.., headings) = TOPICS.iter().find(|(of, own, _)| (*of, *own) == (name, topic))?;
    let is_about = |heading: Option<&str>| heading.is_some_and(|heading| headings.contains(&heading));
    let page = command.clone().mut_args(|arg| if is_about(arg.get_help_heading()) { arg } else { arg.hide(true) });
    let rest = format!("`tracemill {name} --help` lists the other options.");
    Some(page.help_template("{usage-heading} {usage}\n\n{all-args}{after-help}\n").after_help(rest))
}

/// The help of a command without what stands on pages of their own.
pub(crate) fn help_without_topics(command: Command) -> Command {
    let name = command.get_name().to_string();
    let command = if name == "report" { report_help(command, false) } else { command };
    let of = TOPICS.iter().filter(|(of, ..)| *of == name).flat_map(|(.., headings)| headings.iter());
    let elsewhere: Vec<&str> = of.copied().collect();
    let command = command.mut_args(|arg| match arg.get_help_heading() {
        Some(heading) if elsewhere.contains(&heading) => arg.hide(true),
        _ => arg,
    });
    if !elsewhere.contains(&GROWING) {
        return command;
    }
    let mut after = command.get_after_help().map(|help| format!("{help}\n")).unwrap_or_default();
    if elsewhere.contains(&OF_SAMPLES) {
        after += &format!("`tracemill {name} --help samples` lists the options that name functions of samples.\n");
    }
    command.after_help(format!(
        "{after}`tracemill {name} --help live` lists the options for traces and streams that grow."
    ))
}
