//! The stretch of time that is wanted, and the time from which elapsed time counts.

use tracemill_format::calls::{CallKind, CallOrigin, CallRecord, CallSource};

use crate::select::CallOptions;

/// The first and the last time of the records that are wanted, unless all are.
pub(crate) fn between(source: &dyn CallSource, options: &CallOptions) -> Option<(u64, u64)> {
    let range = &options.range;
    (!range.is_whole()).then(|| range.between(first_time(source, options).unwrap_or(0)))
}

/// The first and the last time of the wanted records where those of all tasks count: elapsed time begins with the first one of any task.
pub(crate) fn between_of_all(source: &dyn CallSource, options: &CallOptions) -> Option<(u64, u64)> {
    let range = &options.range;
    let first = || (0..source.stream_count()).filter_map(|stream| first_record(source, stream)).map(|it| it.time).min();
    (!range.is_whole()).then(|| range.between(if range.is_elapsed() { first() } else { None }.unwrap_or(0)))
}

/// The first record of a stream of a task.
fn first_record(source: &dyn CallSource, stream: usize) -> Option<CallRecord> {
    let mut records = Vec::new();
    let mut stream = source.open(stream);
    while records.is_empty() && stream.fill(&mut records) {}
    records.first().filter(|record| record.origin == CallOrigin::Task).copied()
}

/// With a time filter uftrace reads all that the system reports before anything else, and elapsed time begins with the first
/// of that, wherever it is shown, unless calls are earlier.
fn first_of_system(source: &dyn CallSource, options: &CallOptions) -> Option<u64> {
    if options.time_filter == 0 {
        return None;
    }
    let is_wanted = |record: &CallRecord| options.wants_task(source.tasks()[record.task as usize].tid);
    (0..source.stream_count()).find_map(|stream| {
        let (mut stream, mut records, mut goes_on) = (source.open(stream), Vec::new(), true);
        while goes_on {
            records.clear();
            goes_on = stream.fill(&mut records);
            if records.first().is_some_and(|record| record.origin != CallOrigin::System) {
                return None;
            }
            if let Some(record) = records.iter().find(|record| is_wanted(record)) {
                return Some(record.time);
            }
        }
        None
    })
}

/// The time from which elapsed time counts, as far as it must be known before anything is read: of the tasks that are not
/// wanted the first record, otherwise, for a stretch of time, the first record of the first task.
pub(super) fn first_time(source: &dyn CallSource, options: &CallOptions) -> Option<u64> {
    if options.tids.is_empty() && options.range.is_whole() {
        return first_of_system(source, options);
    }
    let (mut unwanted, mut first): (Option<u64>, Option<u64>) = (None, None);
    for stream in 0..source.stream_count() {
        let Some(record) = first_record(source, stream) else { continue };
        if options.wants_task(source.tasks()[record.task as usize].tid) {
            first.get_or_insert(record.time);
        } else if record.kind != CallKind::Event || options.events.all {
            unwanted = Some(unwanted.map_or(record.time, |time| time.min(record.time)));
        }
    }
    unwanted.or(if options.range.is_whole() { first_of_system(source, options) } else { first })
}
