//! Examples: what the help and the manual page of each command begin with. `tests/help_examples.rs` runs them all.
//!
//! Traces have the names that readers would give theirs: `my-trace` and `other-trace` hold events of any format,
//! `kernel-trace` those of a kernel, `uftrace.data` calls. A command that needs other words says so in its line.

use clap::Command;

/// The purpose of a command line, and the line.
pub(crate) type Example = (&'static str, &'static str);

/// Examples by command.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "info",
        &[
            ("Format, times, clocks, streams and events of a trace", "tracemill info my-trace"),
            ("Count the events of each class", "tracemill info --count my-trace"),
            ("The same facts for a script", "tracemill info --count --json my-trace"),
        ],
    ),
    (
        "record",
        &[
            ("All calls of a program that was compiled with -pg, into uftrace.data", "tracemill record ./program"),
            (
                "Calls from one function on, with its first argument",
                "tracemill record -F parse -A parse@arg1/i32 ./program",
            ),
            (
                "Calls of 10 us or more, as a file for ui.perfetto.dev",
                "tracemill record -t 10us --to perfetto -o calls.pftrace ./program",
            ),
            ("Samples of any program, into perf.data", "tracemill record --sample ./program"),
            (
                "Samples of a process that runs already, until it ends or Ctrl-C",
                "./program & tracemill record --sample -p $!",
            ),
            (
                "Scheduling of the whole machine while a program runs; root may do it",
                "tracemill record -E 'sched:*' --all-tasks -o sched.dat ./program",
            ),
        ],
    ),
    (
        "print",
        &[
            ("All events in time order", "tracemill print my-trace"),
            ("Half a second of them, 0.1 s after the first one", "tracemill print --begin +0.1s --end +0.6s my-trace"),
            (
                "Events of some names and values",
                "tracemill print --filter 'name == \"mill:*\" and payload.gear >= 2' my-trace",
            ),
            (
                "Two traces on one timeline, one JSON object per event",
                "tracemill print --format jsonl my-trace kernel-trace",
            ),
            (
                "Some columns, for a spreadsheet",
                "tracemill print --format csv --columns time,payload.gear -o gears.csv my-trace",
            ),
            (
                "Each field of some events in its own column",
                "tracemill print --format csv --columns all --filter 'cpu == 1' my-trace",
            ),
        ],
    ),
    (
        "diff",
        &[
            ("Two runs: events, fields, order, times and values", "tracemill diff my-trace other-trace"),
            (
                "What a conversion changed, stored forms too",
                "tracemill convert my-trace my.ctf && tracemill diff --all my-trace my.ctf",
            ),
            (
                "A part of each, for a script",
                "tracemill diff --begin +0.1s --end +0.6s --format json my-trace other-trace",
            ),
            ("All of it as a page for a browser", "tracemill diff --format html -o diff.html my-trace other-trace"),
        ],
    ),
    (
        "check",
        &[
            ("Damage, losses and times that go back", "tracemill check my-trace"),
            (
                "Only the exit status: 0 for a sound trace, 3 for a damaged one",
                "tracemill check --quiet my-trace >/dev/null",
            ),
            ("The same for a script", "tracemill check --json my-trace"),
        ],
    ),
    (
        "convert",
        &[
            ("A file for ui.perfetto.dev", "tracemill convert my-trace trace.pftrace"),
            (
                "One page with the viewer and the trace in it, to send to somebody",
                "tracemill convert --to html -o trace.html my-trace",
            ),
            ("Two traces as one CTF 2 trace", "tracemill convert --merge --to ctf2 -o both my-trace kernel-trace"),
            (
                "A copy with one field made anonymous",
                "tracemill convert --anonymise payload.gear --to ctf2 -o shared my-trace",
            ),
        ],
    ),
    (
        "replay",
        &[
            ("All calls, indented by depth", "tracemill replay uftrace.data"),
            (
                "One function and what it calls, at most three deep",
                "tracemill replay -F tasting::leave -D 3 uftrace.data",
            ),
            ("Calls that took 100 us or more, with the time of day", "tracemill replay -t 100us -f +time uftrace.data"),
        ],
    ),
    (
        "report",
        &[
            (
                "Calls and times of each function, those with the longest own time first",
                "tracemill report -s self uftrace.data",
            ),
            ("What changed between two recordings", "tracemill report --diff other.data uftrace.data"),
            ("Samples of perf: where each thread spends its time", "tracemill report --by thread perf.data"),
            ("How long each state lasts, by thread", "tracemill report --state 'mill:*' --by vtid my-trace"),
            (
                "Time from one event to another",
                "tracemill report --from sched_waking --to sched_wakeup --by tid kernel-trace",
            ),
        ],
    ),
    (
        "analyze",
        &[
            ("Which analyses a trace allows", "tracemill analyze kernel-trace"),
            ("Who used the CPUs", "tracemill analyze cpu kernel-trace"),
            ("The ten longest waits for a CPU", "tracemill analyze sched --top 10 kernel-trace"),
            (
                "System calls of one process, slowest first",
                "tracemill analyze syscalls --pid 640 --sort max_us kernel-trace",
            ),
            ("Why a thread was late", "tracemill analyze path --tid 641 --begin +0.5s --end +0.6s kernel-trace"),
        ],
    ),
    (
        "sql",
        &[
            ("A shell with history and completion; `\\?` lists its commands", "tracemill sql my-trace"),
            ("One question", "tracemill sql my-trace -c 'select name, count(*) from events group by name'"),
            (
                "Questions from a file, the answers as Parquet",
                "tracemill sql my-trace -f question.sql -o answer.parquet",
            ),
            ("Questions that are saved already", "tracemill sql --run list my-trace"),
        ],
    ),
    (
        "query",
        &[
            (
                "How many events there are of each name",
                "tracemill query my-trace 'select name, count(*) from events group by name'",
            ),
            ("Tables that a trace has", "tracemill query my-trace 'show tables'"),
            ("Rows as JSON, for a script", "tracemill query --format jsonl my-trace 'select name from events limit 3'"),
        ],
    ),
    (
        "cluster",
        &[
            ("Share out queries", "tracemill cluster scheduler"),
            (
                "Do their work, with traces below one folder",
                "tracemill cluster executor --scheduler localhost:50050 --allow /traces",
            ),
            ("Ask them", "tracemill sql --cluster df://localhost:50050 my-trace -c 'select 1'"),
        ],
    ),
    (
        "view",
        &[
            ("A trace in the browser", "tracemill view my-trace"),
            ("Several traces on one timeline", "tracemill view kernel-trace uftrace.data"),
            (
                "On a machine without a browser: open the printed address through ssh -L",
                "tracemill view --no-open --port 8765 my-trace",
            ),
            ("For Trace Compass' extension for VS Code", "tracemill view --tsp my-trace"),
        ],
    ),
    (
        "tui",
        &[
            ("A trace in the terminal; `h` lists the keys", "tracemill tui my-trace"),
            ("Only some events", "tracemill tui --filter 'name == \"mill:*\"' my-trace"),
            ("Line by line, for screen readers", "tracemill tui --plain uftrace.data"),
        ],
    ),
    (
        "recv",
        &[
            ("Take recordings of programs of this machine", "tracemill recv -d recordings"),
            ("Take them from other machines", "tracemill recv --listen 0.0.0.0"),
            ("One recording, then end", "tracemill recv --once --port 9000"),
        ],
    ),
    (
        "cache",
        &[
            ("Kept indexes, and the room that they take", "tracemill cache info"),
            ("The same for a script", "tracemill cache info --json"),
            ("Remove them", "tracemill cache clear"),
        ],
    ),
    (
        "graph",
        &[
            ("The whole call graph", "tracemill graph uftrace.data"),
            ("What one function calls, and what calls it", "tracemill graph --function tasting::leave uftrace.data"),
            ("Tasks as a tree", "tracemill graph --task uftrace.data"),
            ("Samples of perf: who calls a function", "tracemill graph --function fold perf.data"),
        ],
    ),
    (
        "flame",
        &[
            ("A flame graph for the browser", "tracemill flame uftrace.data -o flame.svg"),
            (
                "Red for what takes longer than in another recording",
                "tracemill flame --diff other.data uftrace.data -o diff.svg",
            ),
            ("Of the samples of perf", "tracemill flame perf.data -o samples.svg"),
            (
                "With the time that threads wait, from a recording with sched:sched_switch",
                "tracemill flame --cpu both --by comm perf.data -o wall.svg",
            ),
            (
                "Of folded stacks, which `tracemill convert --to folded` writes",
                "tracemill flame --folded stacks.txt -o folded.svg",
            ),
        ],
    ),
    (
        "dump",
        &[
            ("Records as they are stored", "tracemill dump uftrace.data"),
            ("With the bytes of each", "tracemill dump --hex uftrace.data"),
            ("JSON for chrome://tracing", "tracemill dump --chrome uftrace.data > calls.json"),
        ],
    ),
    (
        "formats",
        &[
            ("Formats that can be read and written", "tracemill formats"),
            ("The same for a script", "tracemill formats --json"),
            ("What a format cannot hold", "tracemill convert --help limits"),
        ],
    ),
    (
        "completions",
        &[
            ("For bash, in this shell", "eval \"$(tracemill completions bash)\""),
            ("For zsh", "tracemill completions zsh > _tracemill"),
            ("For fish", "tracemill completions fish > tracemill.fish"),
        ],
    ),
    (
        "man",
        &[
            ("Read the manual page", "tracemill man | man -l -"),
            ("Write the pages of all commands", "tracemill man --dir man1"),
            ("Read that of one of them", "tracemill man --dir man1 && man -l man1/tracemill-print.1"),
        ],
    ),
    (
        "help",
        &[
            ("All commands", "tracemill help"),
            ("One command", "tracemill help print"),
            ("One analysis", "tracemill help analyze cpu"),
        ],
    ),
];

/// The examples of a command.
pub(crate) fn examples_of(name: &str) -> &'static [Example] {
    EXAMPLES.iter().find(|(own, _)| *own == name).map_or(&[], |(_, examples)| examples)
}

/// The examples as lines of help: what one does, then the line.
fn as_help(name: &str) -> String {
    let lines = examples_of(name).iter().map(|(about, line)| format!("  # {about}\n  {line}\n"));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("Examples:\n{lines}") }
}

/// The help of a command with its examples before everything else.
pub(crate) fn with_examples(command: Command) -> Command {
    let examples = as_help(command.get_name());
    if examples.is_empty() {
        return command;
    }
    let template = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";
    command.before_help(examples).help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_a_terminal_of_80_columns() {
        for (about, line) in EXAMPLES.iter().flat_map(|(_, examples)| *examples) {
            assert!(about.len() <= 76 && line.len() <= 78, "{about}\n{line}");
        }
    }
}
