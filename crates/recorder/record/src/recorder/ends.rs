//! The beginning and the end of a recording, and the way from one to the next.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use super::known::RegisteredSite;
use super::{ProcessState, Running, Summary, UNPLACED, has_ended};
use crate::consumer::ConsumerThread;
use crate::error::StartError;
use crate::local::process;
use crate::options::Options;
use crate::trigger;

/// Begins to record. Gives the number of the recording.
pub(crate) fn start(options: Options) -> Result<u64, StartError> {
    let is_recording = |state: &mut ProcessState| {
        let is_claimed = std::mem::take(&mut state.is_unclaimed) && state.running.is_some();
        if is_claimed { Ok(state.generation) } else { Err(state.running.is_some()) }
    };
    match process::locked(is_recording) {
        Some(Ok(generation)) => return Ok(generation),
        Some(Err(false)) => {}
        _ => return Err(StartError::IsRecording),
    }
    // Without the lock: it takes 20 ms.
    let running = Running::new(options, None)?;
    let begun = process::locked(|state| {
        if state.running.is_some() {
            return Err(Box::new(running));
        }
        // Of events that nothing recorded.
        UNPLACED.store(0, Ordering::Relaxed);
        state.begin(running);
        Ok(state.generation)
    });
    match begun {
        Some(Ok(generation)) => Ok(generation),
        Some(Err(second)) => {
            // An empty trace is left: no event was recorded.
            let _ = second.finish(true, 0);
            Err(StartError::IsRecording)
        }
        None => Err(StartError::IsRecording),
    }
}

/// Begins before `main`, when the environment says so.
pub(crate) fn start_from_environment() {
    if std::env::var_os("TRACEMILL_RECORD").is_none_or(|path| path.is_empty()) {
        return;
    }
    match Options::default().with_environment(|name| std::env::var_os(name)).and_then(start) {
        // It ends with the process, or by the recorder of the program, which is the same then.
        Ok(_) => {
            process::locked(|state| state.is_unclaimed = true);
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "tracemill-record: nothing is recorded: {error}");
        }
    }
}

/// Ends a recording. The thread of the recorder may do it, too, as somebody told it; then the program gets the same summary
/// when it ends the recording once more.
pub(crate) fn finish(generation: u64) -> io::Result<Summary> {
    wait_for_snapshot(generation);
    let ended = process::locked(|state| {
        state.running_of(generation)?;
        state.sites.iter().for_each(RegisteredSite::turn_off);
        trigger::end();
        let are_quiet = state.close_writers();
        // Events that wait for room find none any more.
        state.uncounted += state.writers.iter().filter(|writer| writer.is_waiting()).count() as u64;
        state.settle();
        let mut running = state.running.take()?;
        let is_told = state.leave(&mut running);
        Some((running, are_quiet, state.uncounted, is_told))
    });
    let Some((running, are_quiet, uncounted, is_told)) = ended.flatten() else {
        return ended_by_command(|ended| ended == generation).unwrap_or_else(|| Err(has_ended()));
    };
    let finished = running.finish(are_quiet, uncounted);
    if !is_told {
        join_leaving();
        return finished;
    }
    let copy = match &finished {
        Ok(summary) => Ok(*summary),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    };
    process::locked(|state| state.ended = Some((generation, copy)));
    finished
}

/// Waits for the snapshot that a trigger asked for just before the end: afterwards there are no rings. The thread of the recorder
/// looks at triggers before it looks at commands.
fn wait_for_snapshot(generation: u64) {
    let is_of_other = |state: &mut ProcessState| {
        let consumer = state.running_of(generation)?.consumer.as_ref()?;
        Some(!consumer.is_current())
    };
    if process::locked(is_of_other).flatten() == Some(true) {
        trigger::wait();
    }
}

/// How the recording went that somebody ended by the socket, if it is the wanted one. Once.
fn ended_by_command(is_wanted: impl Fn(u64) -> bool) -> Option<io::Result<Summary>> {
    join_leaving();
    let ended = process::locked(|state| state.ended.take_if(|(ended, _)| is_wanted(*ended)));
    ended.flatten().map(|(_, summary)| summary)
}

/// As [`finish`] gives it, of a recording that somebody ended by the socket.
#[cfg(feature = "c")]
pub(crate) fn take_ended() -> Option<io::Result<Summary>> {
    ended_by_command(|_| true)
}

impl ProcessState {
    /// Leaves a consumer to itself that ends its own recording: it cannot wait for itself.
    fn leave(&mut self, running: &mut Running) -> bool {
        let thread = running.consumer.take_if(|consumer| consumer.is_current());
        let Some(ConsumerThread { consumer, thread }) = thread else { return false };
        consumer.stop();
        // Peers that have left since take no time.
        for gone in self.leaving.extract_if(.., |left| left.is_finished()) {
            let _ = gone.join();
        }
        self.leaving.push(thread);
        true
    }
}

/// Waits for consumers that finish their recordings by themselves.
fn join_leaving() {
    let leaving = process::locked(|state| {
        let (own, others) = std::mem::take(&mut state.leaving)
            .into_iter()
            .partition(|thread| thread.thread().id() == std::thread::current().id());
        state.leaving = own;
        others
    });
    for thread in leaving.into_iter().flat_map(|threads: Vec<JoinHandle<()>>| threads) {
        // Events that it could not finish stay in rings.
        let _ = thread.join();
    }
}

/// Finishes what still records when the process ends.
pub(crate) fn finish_at_exit() {
    // Without a recording of this process there is nothing to tell.
    let is_ours = |running: &&Running| running.pid == std::process::id();
    let Some(Some(generation)) =
        process::locked(|state| state.running.as_ref().filter(is_ours).map(|_| state.generation))
    else {
        return join_leaving();
    };
    let told = match finish(generation) {
        Ok(Summary { discarded: 0, .. }) => return,
        Ok(Summary { discarded, .. }) => format!("{discarded} events were discarded"),
        Err(error) => format!("the trace is not finished: {error}"),
    };
    let _ = writeln!(io::stderr(), "tracemill-record: {told}");
}

/// Finishes a recording, and goes on in another folder.
pub(crate) fn rotate(generation: u64, path: PathBuf) -> io::Result<Summary> {
    wait_for_snapshot(generation);
    let known = process::locked(|state| {
        let running = state.running_of(generation)?;
        Some((running.options.clone(), running.first))
    });
    let (options, first) = known.flatten().ok_or_else(has_ended)?;
    let mut next = Some(Running::new(Options { path, ..options }, Some(first))?);
    let rotated = process::locked(|state| {
        let classes = &state.running_of(generation).ok_or_else(has_ended)?.classes;
        // Ids stay, so that sites need not be asked: an event that is on its way has the id that it had.
        let described =
            next.as_mut().is_some_and(|next| classes.iter().all(|class| next.describe(class.clone()).is_some()));
        if !described {
            return Err(io::Error::other("the classes of events cannot be written to the new folder"));
        }
        let are_quiet = state.close_writers();
        state.settle();
        let mut before = std::mem::replace(&mut state.running, next.take());
        if let Some(before) = &mut before {
            state.leave(before);
        }
        Ok(before.map(|before| (before, are_quiet, std::mem::take(&mut state.uncounted))))
    });
    if let Some(unused) = next {
        // No event was recorded into it.
        let folder = unused.folder.clone();
        let _ = unused.finish(true, 0);
        let _ = fs::remove_dir_all(folder);
    }
    let (before, are_quiet, uncounted) = rotated.ok_or_else(has_ended)??.ok_or_else(has_ended)?;
    before.finish(are_quiet, uncounted)
}
