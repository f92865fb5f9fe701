//! Annotations: where events or packets are missing, and what could not be read.

use serde_json::{Map, Value, json};
use tracemill_lod::{Index, LossKind};

use super::experiments::{Experiment, clamp};
use super::outputs::{completed, response};
use super::parameters::{Parameters, Samples};
use super::refusal::Answered;
use super::styles;

const LOST_EVENTS: &str = "Lost events";
const LOST_PACKETS: &str = "Lost packets";
const DAMAGE: &str = "Damage";

/// Something that is missing from one time to another; how much, when that is known.
struct Missing {
    category: &'static str,
    range: (i128, i128),
    count: Option<u64>,
}

fn missing(index: &Index) -> Vec<Missing> {
    let losses = index.losses.iter().filter_map(|loss| {
        let range = (loss.begin.or(loss.end)?, loss.end.or(loss.begin)?);
        let category = if loss.kind == LossKind::Events { LOST_EVENTS } else { LOST_PACKETS };
        Some(Missing { category, range, count: loss.count })
    });
    let faults = index.faults.iter().filter_map(|fault| {
        let range = fault.range.or_else(|| Some((fault.after?, fault.after?)))?;
        Some(Missing { category: DAMAGE, range, count: Some(1) })
    });
    let mut all: Vec<Missing> = losses.chain(faults).collect();
    all.sort_by_key(|one| (one.category, one.range));
    all
}

/// The categories that there are.
pub(super) fn categories(experiment: &Experiment) -> Answered {
    response(&experiment.state, || {
        let all = experiment.state.index().map(|index| missing(index)).unwrap_or_default();
        let is_there = |category: &&str| all.iter().any(|one| one.category == *category);
        let there: Vec<&str> = [LOST_EVENTS, LOST_PACKETS, DAMAGE].into_iter().filter(is_there).collect();
        Ok(json!({ "annotationCategories": there }))
    })
}

/// The sets of markers that a client may choose: none beside what outputs have.
pub(super) fn marker_sets() -> Value {
    completed(json!([]))
}

/// The annotations in a range.
pub(super) fn list(experiment: &Experiment, parameters: &Parameters) -> Answered {
    let range = parameters.needed_range()?;
    let wanted = parameters.texts("requested_marker_categories")?;
    response(&experiment.state, || {
        let mut all = experiment.state.index().map(|index| missing(index)).unwrap_or_default();
        all.retain(|one| wanted.as_ref().is_none_or(|wanted| wanted.contains(&one.category)));
        let (begin, end) = range.ends();
        all.retain(|one| one.range.0 <= end && one.range.1 >= begin);
        let mut by_category: Map<String, Value> = Map::new();
        for one in together(all, &range) {
            let list = by_category.entry(one.category).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(one.to_json());
            }
        }
        Ok(json!({ "annotations": by_category }))
    })
}

/// Joins those of a category that begin between the same two samples: there may be millions.
fn together(all: Vec<Missing>, range: &Samples) -> Vec<Missing> {
    let mut list: Vec<Missing> = Vec::new();
    for one in all {
        let sample = |of: &Missing| range.first_from(of.range.0);
        match list.last_mut().filter(|last| last.category == one.category && sample(last) == sample(&one)) {
            Some(last) => {
                last.range.1 = last.range.1.max(one.range.1);
                last.count = last.count.zip(one.count).map(|(a, b)| a.saturating_add(b));
            }
            None => list.push(one),
        }
    }
    list
}

impl Missing {
    fn to_json(&self) -> Value {
        let (begin, end) = (clamp(self.range.0), clamp(self.range.1));
        let label = match (self.category, self.count) {
            (DAMAGE, _) => "cannot be read".to_string(),
            (LOST_PACKETS, Some(count)) => format!("{count} packets lost"),
            (LOST_PACKETS, None) => "packets lost".to_string(),
            (_, Some(count)) => format!("{count} events lost"),
            (_, None) => "events lost".to_string(),
        };
        json!({
            "time": begin, "duration": end.saturating_sub(begin), "entryId": -1, "type": "CHART", "label": label,
            "style": styles::like(styles::MISSING),
        })
    }
}
