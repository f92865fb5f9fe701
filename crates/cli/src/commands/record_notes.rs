//! Messages of `tracemill record` about recordings that differ from what was requested: no data is missing without a
//! message.

use std::io::Write;
use std::path::Path;

use tracemill_model::error::Error;
use tracemill_run::{Built, LeftRings, Obstacle, PatchedFunctions, ProgramFile, Recorded, RemainingProcess};

/// The end of a sentence about a trace of which events are missing.
pub(super) fn discarded_phrase(count: u64) -> String {
    if count == 0 { String::new() } else { format!(", {count} events were discarded") }
}

/// A part of a sentence about records that had no room.
pub(crate) fn lost_phrase(count: u64) -> String {
    if count == 0 { String::new() } else { format!(", {count} were lost") }
}

/// Tells which calls are in no ring.
pub(crate) fn print_left_out(folder: &Path, recorded: &tracemill_run::Recorded) {
    let (mut stderr, folder) = (std::io::stderr().lock(), folder.display());
    let (threads, calls) = recorded.ringless;
    // Best effort: stderr may be closed.
    if threads > 0 {
        let _ =
            writeln!(stderr, "{folder}: {threads} threads were not recorded, with {calls} calls: they have no ring");
    }
    if let Some(depth) = recorded.too_deep {
        let _ = writeln!(stderr, "{folder}: calls deeper than {depth} were left out");
    }
    if recorded.strict_calls > 0 {
        let _ = writeln!(
            stderr,
            "{folder}: {} calls were not recorded, since their thread had entered seccomp's strict mode, in which no \
             clock can be read",
            recorded.strict_calls
        );
    }
    if recorded.killed_by_filter > 0 {
        let _ = writeln!(
            stderr,
            "{folder}: {} killed by a seccomp filter (SIGSYS), maybe for a system call of the recorder; \
             `tracemill record --nop` runs the program without those",
            count_of(recorded.killed_by_filter as usize, "was", "were")
        );
    }
    print_unpatched(&folder.to_string(), &recorded.patches);
    for (path, why) in &recorded.unreadable {
        let _ =
            writeln!(stderr, "{folder}: functions of {} have no names: its file cannot be read: {why}", path.display());
    }
}

/// Tells how many functions were not patched, and why.
fn print_unpatched(folder: &str, functions: &PatchedFunctions) {
    let left = functions.left();
    if left == 0 {
        return;
    }
    let reasons = [
        (functions.short, "shorter than the 5 bytes of a jump"),
        (functions.fixed, "beginning with an instruction that cannot be moved"),
        (functions.targets, "with a jump or an address that leads into the first 5 bytes, or back to the beginning"),
        (functions.unknown, "whose bytes are not all known as instructions"),
        (functions.special, "which use their return address or change stacks"),
        (functions.unwinder, "in a program with an unwinder of its own (-static-libgcc)"),
        (functions.changed, "whose code in memory cannot be changed, or is not that of the file"),
        (functions.without_room, "with less than 5 bytes of room at their entry"),
    ];
    let counted = reasons.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}"));
    // Best effort: stderr may be closed.
    let _ = writeln!(
        std::io::stderr(),
        "{folder}: {left} of {} functions that -P names were not patched: {}; compile with \
         -fpatchable-function-entry=5 to record all",
        functions.patched + left,
        counted.collect::<Vec<_>>().join(", ")
    );
}

/// A list of processes with their names.
fn listed(processes: &[RemainingProcess]) -> String {
    let named: Vec<_> = processes.iter().take(8).map(|process| format!("{} ({})", process.pid, process.name)).collect();
    let more = processes.len().saturating_sub(named.len());
    named.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// "1 process goes", "2 processes go".
fn count_of(processes: usize, one: &str, many: &str) -> String {
    if processes == 1 { format!("1 process {one}") } else { format!("{processes} processes {many}") }
}

/// Tells whom recording waits for.
pub(crate) fn print_wait(folder: &Path, processes: &[RemainingProcess]) {
    let (folder, count, list) = (folder.display(), count_of(processes.len(), "goes on", "go on"), listed(processes));
    // Best effort: stderr may be closed.
    let _ = writeln!(
        std::io::stderr(),
        "{folder}: the program has ended, {count} that it started: {list}; recording waits for the end, an interrupt \
         (Ctrl-C) stops it now"
    );
}

/// Tells who goes on unrecorded.
pub(crate) fn print_remaining(folder: &Path, processes: &[RemainingProcess]) {
    if processes.is_empty() {
        return;
    }
    let (folder, count, list) = (folder.display(), count_of(processes.len(), "goes on", "go on"), listed(processes));
    // Best effort: stderr may be closed.
    let _ = writeln!(
        std::io::stderr(),
        "{folder}: recording was interrupted; {count} that the program started, without being recorded: {list}"
    );
}

/// Tells what became of rings that a recorder left that was killed.
pub(crate) fn print_swept(left: &LeftRings) {
    let mut stderr = std::io::stderr().lock();
    // Best effort: stderr may be closed.
    let _ = match left {
        LeftRings::Finished(folder, recorded) => {
            let (folder, records, lost) = (folder.display(), recorded.records, lost_phrase(recorded.lost));
            writeln!(
                stderr,
                "{folder}: its recorder was killed; it is finished now: {records} records were in rings{lost}"
            )
        }
        LeftRings::Failed(folder, error) => {
            let folder = folder.display();
            writeln!(
                stderr,
                "{folder}: its recorder was killed, and it cannot be finished: {error}; then try `tracemill record --recover {folder}`"
            )
        }
        LeftRings::Removed(rings) => {
            writeln!(stderr, "{}: rings of a recording whose folder is gone were removed", rings.display())
        }
        _ => Ok(()),
    };
}

/// Programs that could not be recorded, of which each is named, at most.
const MOST_NAMED: usize = 10;

/// Tells which programs that were started could not be recorded, and why.
pub(crate) fn print_unrecordable(folder: &Path, recorded: &Recorded) {
    // Of one without names something was recorded, which is said elsewhere.
    let is_silent = |path: &Path| recorded.unreadable.iter().all(|(known, _)| known != path);
    let all: Vec<_> = recorded.unrecordable.iter().filter(|(path, _)| is_silent(path)).collect();
    let (mut stderr, folder) = (std::io::stderr().lock(), folder.display());
    for (path, file) in all.iter().take(MOST_NAMED) {
        let (what, help) = reason(file);
        let help = help.split("--force").next().unwrap_or_default().trim_end_matches("; ");
        let help = if help.is_empty() { String::new() } else { format!("; {help}") };
        // Best effort: stderr may be closed.
        let _ = writeln!(
            stderr,
            "{folder}: nothing of {}, which was started, can be recorded: {what}{help}",
            path.display()
        );
    }
    if let more @ 1.. = all.len().saturating_sub(MOST_NAMED) {
        let _ = writeln!(stderr, "{folder}: and {more} more programs that were started cannot be recorded");
    }
}

/// Why a program is not run: nothing of it would be recorded.
pub(crate) fn refusal(path: &Path, file: &ProgramFile) -> Error {
    let (what, help) = reason(file);
    Error::unsupported(format!("nothing of the program can be recorded: {what}")).in_file(path).with_help(help)
}

/// Why nothing of a program can be recorded, and what to do.
fn reason(file: &ProgramFile) -> (String, &'static str) {
    match &file.obstacle {
        Some(Obstacle::Unreadable(why)) => (
            format!("its file cannot be read ({why}), so it is not known whether it is instrumented"),
            "make it readable (`chmod +r`); --force records it without names of functions",
        ),
        Some(Obstacle::Static) => (
            "it is linked statically, so the library of the recorder cannot be loaded into it".to_string(),
            "link it without -static (and -static-pie); --force runs it all the same",
        ),
        Some(Obstacle::Privileged) => (
            "it is setuid, setgid or has capabilities: the loader ignores LD_PRELOAD for programs that get rights of others"
                .to_string(),
            "run `tracemill record` as the user whose rights it gets, or record a copy of the program; --force runs it all \
             the same",
        ),
        Some(Obstacle::Machine(machine)) => (
            format!("it is a program for {machine}, and calls are recorded on x86-64 only"),
            "--force runs it all the same",
        ),
        _ if file.built == Built::Patchable => (
            "`-P PATTERN` records the functions that it matches, `-P .` all of them".to_string(),
            "compile it with -pg, -pg -mfentry or -finstrument-functions; --force runs it all the same",
        ),
        _ => (
            "it is neither instrumented nor linked with tracemill-record".to_string(),
            "`-P PATTERN` records the functions that it matches, `-P .` all of them; or compile it with -pg, -pg -mfentry or \
             -finstrument-functions; --force records its calls to libraries, and the programs that it runs",
        ),
    }
}

/// Tells why a recording is empty.
pub(crate) fn print_nothing_recorded(path: &Path, how: &tracemill_run::Options, recorded: &Recorded) {
    if recorded.records > 0 || recorded.lost > 0 || recorded.ringless.0 > 0 || recorded.strict_calls > 0 {
        return;
    }
    let file = tracemill_run::inspect(path);
    let selection = &how.selection;
    let is_selected =
        selection.decide.is_some() && !selection.only_patches || selection.time_ns > 0 || selection.starts_off;
    let why = match recorded.sessions {
        0 => "the library of the recorder was loaded into no process: static and setuid programs, and those that clear their \
              environment, cannot be recorded"
            .to_string(),
        // Their patterns have had a message.
        _ if selection.probes.is_some() && recorded.probes.jumps + recorded.probes.traps == 0 => {
            "no probe was switched on".to_string()
        }
        _ if selection.probes.is_some() && file.built == Built::Plain => {
            "the program came to none of the probes".to_string()
        }
        _ if selection.decide.is_some() && selection.only_patches && recorded.patches.patched == 0 => {
            "no function was patched; -P names functions of the symbol table of a program (`nm` lists it), which `strip` removes"
                .to_string()
        }
        _ if !recorded.unrecordable.is_empty() => {
            "no program that could be recorded is instrumented; those that cannot be recorded are named above".to_string()
        }
        count if file.runs_others || file.built == Built::Plain => format!(
            "{} with the library of the recorder, and none of them is instrumented: compile what they run with -pg, -pg \
             -mfentry or -finstrument-functions",
            if count == 1 { "1 program ran".to_string() } else { format!("{count} programs ran") }
        ),
        _ if is_selected => "no call matches the options (-F, -N, -C, -D, -t, -Z, -T, -L, --disable)".to_string(),
        _ => "the program ended before its first call".to_string(),
    };
    // Best effort: stderr may be closed.
    let _ = writeln!(std::io::stderr(), "{}: nothing was recorded: {why}", how.folder.display());
}

/// Tells that a program that is linked with the recorder of events did not begin to record.
pub(crate) fn print_no_trace(path: &Path, folder: &Path) {
    // Best effort: stderr may be closed.
    let _ = writeln!(
        std::io::stderr(),
        "{}: nothing was recorded: {} did not record events of its own (static and setuid programs, and those that clear \
         their environment, do not see TRACEMILL_RECORD)",
        folder.display(),
        path.display()
    );
}
