//! States and counters that the user defines, on their way to tracks.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Value, json};
use tracemill_analyses::kernel::{BoundCustom, CustomChange, CustomFollower, Held, SeenEvent};
use tracemill_engine::event::Event;
use tracemill_lod::counters::{Counter, Points};
use tracemill_lod::states::StatesBuilder;
use tracemill_semantics::states::Ns;

use crate::ids::group_id;
use crate::traces::ShownTraces;

/// Keys of counters that have tracks at most. The values of one take 2.5 MiB at most.
const MAX_COUNTERS: usize = 64;

/// A counter of the user: the values of a key of a definition. Of more than 65,536 of them neighbours are together.
pub(crate) struct CustomCounter {
    /// The trace below whose group its track stands.
    pub(crate) trace: usize,
    pub(crate) name: String,
    pub(crate) counter: Counter,
    id: String,
}

impl CustomCounter {
    /// The id of its track: the same whenever these traces are opened.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Its track, as `tracks` describes others.
    pub(crate) fn json(&self) -> Value {
        let bounds = self.counter.bounds();
        json!({
            "id": self.id, "parent": group_id(self.trace), "kind": "counter", "base": false, "name": self.name,
            "trace": self.trace, "events": self.counter.values(), "unit": null,
            "min": bounds.map(|(min, _)| min.to_string()), "max": bounds.map(|(_, max)| max.to_string()),
        })
    }
}

/// The times that are shown.
#[derive(Clone, Copy)]
pub(crate) struct ShownTimes {
    /// From which on the times of counters are counted.
    pub(crate) origin: Ns,
    pub(crate) begin: Option<Ns>,
    pub(crate) end: Option<Ns>,
}

/// The values of a counter so far.
struct CounterValues {
    machine: u32,
    definition: usize,
    points: Points,
    /// Its value before the times that are shown.
    before: Option<f64>,
}

impl CounterValues {
    /// It has a value, or none any more, since a time.
    fn add(&mut self, at: Ns, value: Option<f64>, times: ShownTimes) {
        if times.begin.is_some_and(|begin| at < begin) {
            self.before = value;
        } else if times.end.is_none_or(|end| at <= end) {
            self.begin(times);
            if let (Some(value), Ok(time)) = (value, i64::try_from(at - times.origin)) {
                self.points.push(time, value);
            }
        }
    }

    /// The value from before the shown times is that at their beginning.
    fn begin(&mut self, times: ShownTimes) {
        if let (Some(value), Some(begin)) = (self.before.take(), times.begin) {
            self.points.push(i64::try_from(begin - times.origin).unwrap_or(0).max(0), value);
        }
    }
}

/// Follows what the user defines.
pub(crate) struct CustomKeeper {
    follower: CustomFollower,
    times: ShownTimes,
    /// By key; those of the first counters.
    counters: BTreeMap<u32, CounterValues>,
    /// Keys of counters for which there was no room.
    left_out: BTreeSet<u32>,
    /// Storage.
    changes: Vec<CustomChange>,
}

impl CustomKeeper {
    /// The keeper for these traces; or, in words, why nothing can be followed.
    pub(crate) fn new(traces: &ShownTraces, times: ShownTimes) -> (Option<CustomKeeper>, Option<String>) {
        let Some(custom) = &traces.custom else { return (None, None) };
        match BoundCustom::new(&custom.definitions, &traces.session, custom.gmt) {
            Ok(bound) => {
                let follower = CustomFollower::new(&Rc::new(bound), None);
                let (counters, changes) = (BTreeMap::new(), Vec::new());
                (Some(CustomKeeper { follower, times, counters, left_out: BTreeSet::new(), changes }), None)
            }
            Err(error) => (None, Some(format!("custom states are not shown: {}", error.message()))),
        }
    }

    pub(crate) fn take<'e>(
        &mut self,
        seen: &SeenEvent<'_>,
        event: &dyn Fn() -> Event<'e>,
        builder: &mut StatesBuilder,
    ) {
        let mut changes = std::mem::take(&mut self.changes);
        self.follower.apply(seen, event, &mut changes);
        for change in &changes {
            if let Some((from, Held::State(state))) = change.before {
                self.put(change.key, (from, state), seen.at, builder);
            }
            self.count(change, seen.at);
        }
        self.changes = changes;
    }

    /// Adds the value of a counter.
    fn count(&mut self, change: &CustomChange, seen: Ns) {
        let is_counter = |held: Option<Held>| matches!(held, Some(Held::Number(_)));
        let before = change.before.map(|(_, held)| held);
        if !is_counter(change.now) && !is_counter(before) {
            return;
        }
        let room = MAX_COUNTERS - self.counters.len();
        let of = match self.counters.get_mut(&change.key) {
            Some(of) => of,
            None if room == 0 => {
                self.left_out.insert(change.key);
                return;
            }
            None => {
                let key = &self.follower.keys()[change.key as usize];
                let (machine, definition) = (key.machine, key.definition);
                let new = CounterValues { machine, definition, points: Points::new(0), before: None };
                self.counters.entry(change.key).or_insert(new)
            }
        };
        let value = match change.now {
            Some(Held::Number(value)) => Some(value),
            _ => None,
        };
        // Times of a key do not go back.
        let at = self.follower.keys()[change.key as usize].held().map_or(seen, |(at, _)| at);
        of.add(at, value, self.times);
    }

    /// Ends the states that last until the end.
    pub(crate) fn finish(&self, end: Ns, builder: &mut StatesBuilder) {
        for (at, key) in (0..).zip(self.follower.keys()) {
            if let Some((from, Held::State(state))) = key.held() {
                self.put(at, (from, state), end, builder);
            }
        }
    }

    fn put(&self, number: u32, (from, state): (Ns, u32), to: Ns, builder: &mut StatesBuilder) {
        let key = &self.follower.keys()[number as usize];
        let of = (key.definition as u32, number);
        builder.custom_piece(key.machine, of, (from, to), self.follower.state(state), || self.follower.title(key));
    }

    /// The counters that have values in the shown times, and what is to be said about the others. `firsts` has the first trace
    /// of each machine.
    pub(crate) fn counters(mut self, firsts: &[usize]) -> (Vec<CustomCounter>, Option<String>) {
        let (times, mut found) = (self.times, Vec::new());
        for (number, mut of) in std::mem::take(&mut self.counters) {
            of.begin(times);
            let counter = of.points.finish();
            if counter.values() > 0
                && let Some(trace) = firsts.get(of.machine as usize)
            {
                let name = self.follower.title(&self.follower.keys()[number as usize]);
                let id = format!("n{}.{}.{number}", of.machine, of.definition);
                found.push(CustomCounter { trace: *trace, name, counter, id });
            }
        }
        let text = |left: usize| {
            format!("custom counters of {left} keys are not shown: those of the first {MAX_COUNTERS} are")
        };
        (found, Some(self.left_out.len()).filter(|left| *left > 0).map(text))
    }
}
