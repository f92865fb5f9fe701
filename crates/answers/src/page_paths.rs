//! The critical paths of a page in one file: of the threads that waited longest, over all that it shows. From them the page
//! says why a thread waited, and draws paths over any range.

use std::collections::HashMap;

use serde_json::{Value, json};
use tracemill_analyses::kernel::{CauseTotal, ThreadPath, ThreadPaths};

use crate::pack::PackedBytes;
use crate::query::ns;
use crate::states::StateTracks;

/// Parts that all paths of a page may have together, however few events it has; a page with more events has as many parts.
pub(crate) const LEAST_PARTS: usize = 10_000;

/// Causes of a path whose times are in a page: the longest. Of many threads, the others would be half of the page.
const MOST_TOTALS: usize = 50;

/// Paths as a page has them.
pub(crate) struct PackedPaths {
    /// Causes, sentences and sums.
    pub(crate) head: Value,
    /// Parts, in columns.
    pub(crate) columns: PackedBytes,
}

impl PackedPaths {
    pub(crate) fn new(paths: &ThreadPaths, kept: &StateTracks) -> PackedPaths {
        let mut columns = PackedBytes::default();
        let mut lives: HashMap<(u32, i64), Vec<usize>> = HashMap::new();
        let mut track_of = |machine: u32, tid: i64, at: i128| {
            let lives = lives.entry((machine, tid)).or_insert_with(|| kept.lives_of(machine, tid));
            kept.life_at(lives, at)
        };
        let mut list = Vec::new();
        for path in &paths.paths {
            // Threads that nothing is shown of have no path that could be asked for.
            let id = format!("s{}.{}.{}", path.machine, path.tid, path.life);
            if kept.find(&id).is_none() {
                continue;
            }
            list.push(head_of(id, path));
            for part in &path.parts {
                columns.number((part.to - part.from).max(0) as u128);
            }
            path.parts.iter().for_each(|part| columns.number(part.cause as u128));
            for part in &path.parts {
                let cause = &paths.causes[part.cause];
                let track = track_of(cause.machine, cause.tid, part.from);
                columns.number(track.map_or(0, |track| track as u128 + 1));
            }
        }
        let causes = paths
            .causes
            .iter()
            .map(|cause| json!([cause.tid, cause.comm.as_deref(), cause.state, cause.why, cause.through.as_deref()]));
        let head = json!({ "causes": causes.collect::<Vec<_>>(), "paths": list, "left_out": paths.left_out });
        PackedPaths { head, columns }
    }
}

/// A path without its parts.
fn head_of(track: String, path: &ThreadPath) -> Value {
    // The page has the length of the path, and so the shares.
    let total = |total: &CauseTotal| json!([total.why, ns(total.total), total.is_own]);
    let others = path.totals.get(MOST_TOTALS..).unwrap_or_default();
    json!({
        "track": track,
        "begin": ns(path.range.0),
        "end": ns(path.range.1),
        "parts": path.parts.len(),
        "sentence": path.sentence,
        "totals": path.totals.iter().take(MOST_TOTALS).map(total).collect::<Vec<_>>(),
        "others": [others.len(), ns(others.iter().map(|other| other.total).sum::<i128>())],
        "waits": path.waits.iter().map(|(from, to, text)| json!([ns(*from), ns(*to), text])).collect::<Vec<_>>(),
    })
}
