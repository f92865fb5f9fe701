//! Colours and heights of states, calls and annotations.

use serde_json::{Map, Value, json};

/// Styles of states: the word, the colour, and the part of the row's height that it fills.
const STATES: [(&str, &str, f64); 22] = [
    ("user", "#3fa34d", 1.0),
    ("system call", "#2f6fc4", 1.0),
    ("kernel", "#5b7fa6", 1.0),
    ("trap", "#5b7fa6", 1.0),
    ("exiting", "#5b7fa6", 1.0),
    ("interrupt", "#c2335c", 1.0),
    ("softirq", "#e08a2e", 1.0),
    ("runnable", "#d9b310", 0.5),
    ("blocked", "#8c8c8c", 0.25),
    ("new", "#8c8c8c", 0.25),
    ("zombie", "#8c8c8c", 0.25),
    ("suspended", "#6d5a8c", 0.25),
    ("unknown", "#bfbfbf", 0.25),
    // On critical paths: what a thread does, or what ended its wait.
    ("running", "#3fa34d", 1.0),
    ("wait_cpu", "#d9b310", 0.5),
    ("interrupted", "#c2335c", 1.0),
    ("disk", "#9c755f", 0.5),
    ("network", "#4e79a7", 0.5),
    ("timer", "#f28e2b", 0.5),
    ("irq", "#b07aa1", 0.5),
    ("ipi", "#b07aa1", 0.5),
    ("ended", "#8c8c8c", 0.25),
];

/// Colours of names: of threads that CPUs run, and of functions.
const NAMES: [&str; 12] = [
    "#4e79a7", "#f28e2b", "#76b7b2", "#e15759", "#59a14f", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#86bcb6",
    "#d37295", "#a0cbe8",
];

/// The style of arrows from threads to those that they woke.
pub(super) const WAKE: &str = "wake";
/// The style of arrows by which a critical path goes on in another thread.
pub(super) const TURN: &str = "turn";
/// The style of where something is missing or could not be read.
pub(super) const MISSING: &str = "missing";

/// All styles of an output, by key.
pub(super) fn all() -> Value {
    let mut styles = Map::new();
    let mut add = |key: String, name: &str, colour: &str, height: f64| {
        let values = json!({ "style-name": name, "background-color": colour, "height": height, "opacity": 1.0 });
        styles.insert(key, json!({ "values": values }));
    };
    STATES.into_iter().for_each(|(word, colour, height)| add(word.to_string(), word, colour, height));
    NAMES.into_iter().enumerate().for_each(|(at, colour)| add(format!("name-{at}"), "", colour, 1.0));
    styles.insert(WAKE.to_string(), json!({ "values": { "style-name": "wake-up", "color": "#c2335c", "width": 1 } }));
    styles.insert(TURN.to_string(), json!({ "values": { "style-name": "goes on", "color": "#5b7fa6", "width": 1 } }));
    let values = json!({ "style-name": "missing", "color": "#c2335c", "background-color": "#c2335c", "opacity": 0.35 });
    styles.insert(MISSING.to_string(), json!({ "values": values }));
    json!({ "styles": styles })
}

/// A style that is another one.
pub(super) fn like(key: &str) -> Value {
    json!({ "parentKey": key, "values": {} })
}

/// The style of a state.
pub(super) fn of_state(word: &str) -> Value {
    like(STATES.iter().find(|(known, ..)| *known == word).map_or("unknown", |(known, ..)| known))
}

/// The style of a name: the same for the same name.
pub(super) fn of_name(name: &str) -> Value {
    like(&format!("name-{}", place(name)))
}

/// The style of a series: the same for the same name.
pub(super) fn of_series(name: &str, kind: &str) -> Value {
    json!({ "values": { "series-type": kind, "series-style": "SOLID", "color": NAMES[place(name)], "width": 1 } })
}

fn place(name: &str) -> usize {
    name.bytes().fold(7usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % NAMES.len()
}
