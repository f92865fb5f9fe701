//! Why a choice of tasks or times has no calls: what to say instead of printing nothing.

use tracemill_format::calls::CallSource;

use crate::follow::between;
use crate::select::CallOptions;

/// The most tasks that are listed.
const MAX_LISTED: usize = 10;

/// Sentences about wanted tasks that the trace does not have, and about a time range without a record. Reads the records
/// around that range, and all others only when it has none.
pub fn reasons(source: &dyn CallSource, options: &CallOptions) -> Vec<String> {
    let mut reasons: Vec<String> = unknown_tasks(source, options).into_iter().collect();
    reasons.extend(empty_range(source, options));
    reasons
}

fn unknown_tasks(source: &dyn CallSource, options: &CallOptions) -> Option<String> {
    let mut known: Vec<i64> = source.tasks().iter().map(|task| task.tid).collect();
    known.sort_unstable();
    known.dedup();
    let unknown: Vec<String> =
        options.tids.iter().filter(|tid| !known.contains(tid)).map(|tid| format!("`{tid}`")).collect();
    if unknown.is_empty() {
        return None;
    }
    let mut listed: Vec<String> = known.iter().take(MAX_LISTED).map(i64::to_string).collect();
    if known.len() > MAX_LISTED {
        listed.push(format!("{} more", known.len() - MAX_LISTED));
    }
    Some(format!("no task has the tid {}; the tasks are {}", unknown.join(", "), listed.join(", ")))
}

fn empty_range(source: &dyn CallSource, options: &CallOptions) -> Option<String> {
    let range = &options.range;
    let (from, to) = between(source, options)?;
    let mut is_empty = true;
    each_block(source, options, Some((from, to)), |times| {
        is_empty &= !times.iter().any(|time| (from..=to).contains(time));
        is_empty
    });
    if !is_empty {
        return None;
    }
    let mut all: Option<(u64, u64)> = None;
    each_block(source, options, None, |times| {
        for &time in times {
            all = Some(all.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
        }
        true
    });
    let (first, last) = all?;
    // Times are shown as they were typed: since the first record, or as those of the clock.
    let base = match range {
        _ if range.is_start_elapsed && range.start > 0 => from.saturating_sub(range.start),
        _ if range.is_stop_elapsed && range.stop > 0 => to.saturating_sub(range.stop),
        _ => 0,
    };
    let text = |time: u64| {
        let time = time.saturating_sub(base);
        format!("{}.{:09} s", time / 1_000_000_000, time % 1_000_000_000)
    };
    Some(format!("no record is in this time range: the records are from {} to {}", text(first), text(last)))
}

/// Calls `see` with the times of the records of the wanted tasks, block by block, as long as it returns true.
fn each_block(
    source: &dyn CallSource,
    options: &CallOptions,
    between: Option<(u64, u64)>,
    mut see: impl FnMut(&[u64]) -> bool,
) {
    let is_wanted: Vec<bool> = source.tasks().iter().map(|task| options.wants_task(task.tid)).collect();
    let (mut records, mut times) = (Vec::new(), Vec::new());
    for stream in 0..source.stream_count() {
        let mut stream = match between {
            Some((from, to)) => source.open_between(stream, from, to),
            None => source.open(stream),
        };
        let mut goes_on = true;
        while goes_on {
            records.clear();
            times.clear();
            goes_on = stream.fill(&mut records);
            let wanted = records.iter().filter(|record| is_wanted.get(record.task as usize) == Some(&true));
            times.extend(wanted.map(|record| record.time));
            if !see(&times) {
                return;
            }
        }
    }
}
