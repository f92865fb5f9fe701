//! The records of a source as they are stored, those that the options want: what `dump` prints.

use std::io::{self, Write};

use tracemill_format::calls::{CallOrigin, CallRecord, CallSource, DumpOptions, Findings};

use crate::follow::{Follower, between, between_of_all};
use crate::select::{CallOptions, Stretch};

/// Writes the records of each task, one task after the other; gives what was wrong with the source.
///
/// # Errors
/// Errors of the writer.
pub fn write(
    source: &dyn CallSource,
    calls: CallOptions,
    options: DumpOptions<'_>,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let tids = calls.tids.clone();
    let (between, between_of_all) = (between(source, &calls), between_of_all(source, &calls));
    let mut want = chooser(source, calls, between);
    source.dump(DumpOptions { between, between_of_all, tids: &tids, ..options }, &mut want, out)
}

/// Shows `see` the records that [`write`] writes; gives what was wrong with the source.
///
/// # Errors
/// None: nothing is written.
pub(crate) fn for_each_record(
    source: &dyn CallSource,
    calls: CallOptions,
    options: DumpOptions<'_>,
    see: &mut dyn FnMut(&CallRecord),
) -> io::Result<Findings> {
    let tids = calls.tids.clone();
    let (between, between_of_all) = (between(source, &calls), between_of_all(source, &calls));
    let mut want = chooser(source, calls, between);
    let (mut stretch, mut task) = (between.map(Stretch::new), None);
    let mut both = |record: &CallRecord| {
        if task.replace((record.task, record.origin)) != Some((record.task, record.origin)) {
            stretch = if record.origin == CallOrigin::Task { between } else { between_of_all }.map(Stretch::new);
        }
        let is_in_time = stretch.as_mut().is_none_or(|stretch| stretch.has(record));
        if want(record) && is_in_time {
            see(record);
        }
        // The text is not needed.
        false
    };
    source.dump(DumpOptions { between, between_of_all, tids: &tids, ..options }, &mut both, &mut io::sink())
}

/// Selection of records.
fn chooser<'a>(
    source: &'a dyn CallSource,
    calls: CallOptions,
    between: Option<(u64, u64)>,
) -> impl FnMut(&CallRecord) -> bool + 'a {
    let mut follower = Follower::detached(source, calls);
    move |record: &CallRecord| {
        // Records of the system and the kernel are in files of their own, away from the functions that options name.
        if !follower.is_wanted(record) || matches!(record.origin, CallOrigin::System | CallOrigin::Kernel) {
            return follower.is_wanted(record);
        }
        follower.account(record);
        if between.is_some_and(|(from, to)| !(from..=to).contains(&record.time)) {
            return false;
        }
        let is_shown = follower.step_seen(record).is_some();
        is_shown && !(record.is_call() && follower.is_skipped_library_call(record.symbol, record.address))
    }
}
