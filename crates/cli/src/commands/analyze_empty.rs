//! Why analyses found nothing: options that no thread and no CPU of the traces fits.

use tracemill_analyses::kernel::{AnalysisOption, UnmatchedOption};
use tracemill_codec::text::closest;

use crate::args::AnalyzeOptions;

/// Names that are listed when none is near the one that was given, at most.
const LISTED: usize = 8;

/// The options with which a user chooses threads, CPUs, spans and rows, as they were given.
fn choosing(options: &AnalyzeOptions) -> Vec<(AnalysisOption, String)> {
    let choice = &options.choice;
    let given = [
        (AnalysisOption::Tid, &choice.tid),
        (AnalysisOption::Pid, &choice.pid),
        (AnalysisOption::Comm, &choice.comm),
        (AnalysisOption::Cpu, &choice.cpu),
    ];
    given.into_iter().filter_map(|(option, text)| Some((option, text.clone()?))).collect()
}

/// An option with its value, as it was given.
fn as_given(options: &AnalyzeOptions, option: AnalysisOption) -> String {
    let value = choosing(options).into_iter().find(|(own, _)| *own == option).map(|(_, value)| value);
    format!("{} {}", option.name(), value.unwrap_or_default()).trim_end().to_string()
}

/// The sentence about an option that nothing fits.
pub(super) fn sentence(options: &AnalyzeOptions, unmatched: &UnmatchedOption) -> String {
    match unmatched {
        UnmatchedOption::Alone { option, known } => option_alone(options, *option, known),
        UnmatchedOption::ThreadOfProcess { tid, pid } => {
            format!(
                "no process has pid {tid}: it is a thread of process {pid}; did you mean `--tid {tid}` or `--pid {pid}`?"
            )
        }
        UnmatchedOption::Together(all) => {
            let all: Vec<String> = all.iter().map(|option| format!("`{}`", as_given(options, *option))).collect();
            format!("no thread fits {} at once, though each of them fits some", all.join(" and "))
        }
    }
}

fn option_alone(options: &AnalyzeOptions, option: AnalysisOption, known: &[String]) -> String {
    let value = choosing(options).into_iter().find(|(own, _)| *own == option).map(|(_, value)| value);
    let value = value.unwrap_or_default();
    let is_pattern = option == AnalysisOption::Comm && value.contains(['*', '?', '[']);
    let (what, things) = match option {
        AnalysisOption::Tid => (format!("no thread has tid {value}"), "threads"),
        AnalysisOption::Pid => (format!("no process has pid {value}"), "processes"),
        AnalysisOption::Cpu => (format!("no event is of cpu {value}"), "cpus"),
        _ if is_pattern => (format!("no thread's name fits `{value}`"), "names"),
        _ => (format!("no thread is called `{value}`"), "names"),
    };
    let known: Vec<&str> = known.iter().map(|name| &**name).collect();
    // A name without its end stands for those that begin so.
    let begins = |name: &&str| option == AnalysisOption::Comm && !is_pattern && name.starts_with(&*value);
    let near = match known.iter().find(|name| begins(name)) {
        Some(_) if !value.is_empty() => Some(format!("{value}*")),
        // No number of a CPU is like another one.
        _ if option == AnalysisOption::Cpu => None,
        _ => closest(&value, &known).map(str::to_string),
    };
    match near {
        Some(near) => format!("{what}; did you mean `{} {near}`?", option.name()),
        None if known.is_empty() => format!("{what}: the traces name no {things}"),
        None if known.len() <= LISTED => format!("{what}: the {things} are {}", known.join(", ")),
        None => format!("{what}: there are {} {things}, from {} to {}", known.len(), known[0], known[known.len() - 1]),
    }
}

/// The sentence about an analysis without rows, when options choose: `None` when none does.
pub(super) fn nothing_fits(options: &AnalyzeOptions, analysis: &str) -> Option<String> {
    let choice = &options.choice;
    let mut given: Vec<String> = choosing(options).iter().map(|(option, _)| as_given(options, *option)).collect();
    let others = [
        ("--min", choice.min.is_some()),
        ("--max", choice.max.is_some()),
        ("--where", choice.condition.is_some()),
        ("--begin", options.begin.is_some()),
        ("--end", options.end.is_some()),
        ("--stream", !options.stream.is_empty()),
    ];
    given.extend(others.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name.to_string()));
    (!given.is_empty()).then(|| format!("`{analysis}` found nothing that fits {}", given.join(", ")))
}
