//! States and counters of the user on random streams of events and random definitions, against a second way to compute them:
//! for each definition, a pass over all events that knows neither event classes nor changes.

mod util;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use util::{Folder, Run};

/// Numbers that are the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.next(all.len() as u64) as usize].clone()
    }
}

struct Event {
    ns: i64,
    name: &'static str,
    fields: Map<String, Value>,
}

const NAMES: [&str; 4] = ["net:open", "net:done", "q:put", "q:take"];

/// Events with some of their fields, several at one time; the first ones have all fields, so that all paths exist.
fn events(random: &mut Random) -> Vec<Event> {
    let mut ns = 1000;
    let count = 20 + random.next(60);
    let event = |at: u64| {
        ns += [0, 0, 1, 7, 100][random.next(5) as usize];
        let is_full = at < 4;
        let name = if is_full { NAMES[at as usize] } else { random.one_of(&NAMES) };
        let mut fields = Map::new();
        let number = if random.next(4) == 0 {
            json!((random.next(20) * 2 + 1) as f64 / 8.0)
        } else {
            json!(random.next(9) as i64 - 3)
        };
        let text = random.one_of(&["up", "down", "has failed", ""]);
        let all = [("k", json!(random.next(3))), ("j", json!(random.next(2))), ("v", number), ("s", json!(text))];
        for (field, value) in all {
            if is_full || random.next(4) > 0 {
                fields.insert(field.to_string(), value);
            }
        }
        Event { ns, name, fields }
    };
    (0..count).map(event).collect()
}

/// A condition, as it is written and as it is decided.
type Condition = (&'static str, fn(&Map<String, Value>) -> bool);

const CONDITIONS: [Condition; 4] = [
    ("v > 2", |of| of.get("v").and_then(Value::as_f64).is_some_and(|v| v > 2.0)),
    ("k == 1 and v < 0", |of| {
        of.get("k") == Some(&json!(1)) && of.get("v").and_then(Value::as_f64).is_some_and(|v| v < 0.0)
    }),
    ("s == \"has failed\" or k == 2", |of| of.get("s") == Some(&json!("has failed")) || of.get("k") == Some(&json!(2))),
    ("j == 0", |of| of.get("j") == Some(&json!(0))),
];

#[derive(Clone)]
enum Action {
    Enter(&'static str),
    Add(f64),
    Subtract(f64),
    Set(f64),
    AddField(&'static str),
    SetField(&'static str),
    End,
}

struct Rule {
    event: &'static str,
    by: Option<Vec<&'static str>>,
    condition: Option<Condition>,
    action: Action,
}

struct Definition {
    is_counter: bool,
    key: Vec<&'static str>,
    rules: Vec<Rule>,
}

fn definition(random: &mut Random, is_counter: bool) -> Definition {
    let key: Vec<&'static str> = random.one_of(&[vec![], vec!["k"], vec!["k", "j"], vec!["s"]]);
    let rules = (0..1 + random.next(6)).map(|_| {
        let event = random.one_of(&["net:open", "net:done", "q:put", "q:take", "net:*", "q:?a*", "*"]);
        let by = (!key.is_empty() && random.next(3) == 0)
            .then(|| key.iter().map(|_| random.one_of(&["j", "v", "k"])).collect());
        let condition = (random.next(2) == 0).then(|| random.one_of(&CONDITIONS));
        let action = match (random.next(6), is_counter) {
            (0, _) => Action::End,
            (1 | 2, false) => Action::SetField(random.one_of(&["s", "v"])),
            (_, false) => Action::Enter(random.one_of(&["up", "down", "on hold"])),
            (1, true) => Action::Set(random.next(9) as f64 / 2.0),
            (2, true) => Action::AddField(random.one_of(&["v", "s"])),
            (3, true) => Action::SetField("v"),
            (4, true) => Action::Subtract(random.next(5) as f64),
            (_, true) => Action::Add(random.next(5) as f64 + 0.5),
        };
        Rule { event, by, condition, action }
    });
    let rules = rules.collect();
    Definition { is_counter, key, rules }
}

fn written(at: usize, definition: &Definition) -> String {
    let mut text = format!("{} \"d {at}\"", if definition.is_counter { "counter" } else { "states" });
    if !definition.key.is_empty() {
        text += &format!(" by {}", definition.key.join(", "));
    }
    for Rule { event, by, condition, action } in &definition.rules {
        text += &format!("\n  on {event}");
        if let Some(by) = by {
            text += &format!(" by {}", by.join(" , "));
        }
        if let Some((condition, _)) = condition {
            text += &format!(" if {condition}");
        }
        text += &match action {
            Action::Enter(state) => format!(" -> '{state}'"),
            Action::Add(by) => format!(" -> +{by}"),
            Action::Subtract(by) => format!(" -> - {by}"),
            Action::Set(to) => format!(" -> = {to}"),
            Action::AddField(field) => format!(" -> +{field}"),
            Action::SetField(field) => format!(" -> = {field}"),
            Action::End => " -> end".to_string(),
        };
    }
    text + "\n\n"
}

/// Does a name fit a text in which `*` is any text and `?` any sign?
fn fits(glob: &[u8], name: &[u8]) -> bool {
    match (glob.first(), name.first()) {
        (None, None) => true,
        (Some(b'*'), _) => fits(&glob[1..], name) || (!name.is_empty() && fits(glob, &name[1..])),
        (Some(sign), Some(own)) => (*sign == b'?' || sign == own) && fits(&glob[1..], &name[1..]),
        _ => false,
    }
}

/// A value as a key, or as the name of a state.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Keys that hold something from a time on: a text or a number; `None` when they have ended.
type Histories = BTreeMap<Vec<String>, Vec<(i64, Option<Value>)>>;

/// For each key of a definition, the times at which an event changes or sets it; and the events whose keys or values are not known.
fn histories(definition: &Definition, events: &[Event]) -> (Histories, u64, u64) {
    let (mut all, mut unknown_keys, mut unknown_values) = (Histories::new(), 0, 0);
    for event in events {
        let mut done: Vec<Vec<String>> = Vec::new();
        for rule in &definition.rules {
            if !fits(rule.event.as_bytes(), event.name.as_bytes())
                || rule.condition.is_some_and(|of| !of.1(&event.fields))
            {
                continue;
            }
            let paths = rule.by.as_ref().unwrap_or(&definition.key);
            let key: Option<Vec<String>> = paths.iter().map(|path| event.fields.get(*path).map(shown)).collect();
            let Some(key) = key else {
                unknown_keys += 1;
                continue;
            };
            if done.contains(&key) {
                continue;
            }
            done.push(key.clone());
            let before = all.get(&key).and_then(|of| of.last()?.1.clone());
            let number = || before.as_ref().and_then(Value::as_f64).unwrap_or(0.0);
            let of_field =
                |field: &str| event.fields.get(field).filter(|value| !value.as_str().is_some_and(str::is_empty));
            let now = match rule.action {
                Action::Enter(state) => Some(json!(state)),
                Action::Add(by) => Some(json!(number() + by)),
                Action::Subtract(by) => Some(json!(number() - by)),
                Action::Set(to) => Some(json!(to)),
                Action::End => None,
                Action::SetField(field) if !definition.is_counter => match of_field(field) {
                    Some(value) => Some(json!(shown(value))),
                    None => {
                        unknown_values += 1;
                        continue;
                    }
                },
                Action::SetField(field) | Action::AddField(field) => match of_field(field).and_then(Value::as_f64) {
                    Some(by) => {
                        Some(json!(if matches!(rule.action, Action::AddField(_)) { number() + by } else { by }))
                    }
                    None => {
                        unknown_values += 1;
                        continue;
                    }
                },
            };
            // States go on; counters are set even to the value that they have.
            let goes_on = now == before && (now.is_none() || !definition.is_counter);
            if !goes_on {
                all.entry(key).or_default().push((event.ns, now));
            }
        }
    }
    (all, unknown_keys, unknown_values)
}

/// A row with its key: the values of all columns that are keys, or `-`.
fn with_key(at: usize, definition: &Definition, key: &[String], others: Vec<String>) -> Vec<String> {
    let of = |column: &str| {
        definition.key.iter().position(|own| *own == column).map_or("-".to_string(), |at| key[at].clone())
    };
    [format!("d {at}"), of("k"), of("j"), of("s")].into_iter().chain(others).collect()
}

/// The visits that are in a range: with the time that they have in it, and whether there is more of them.
fn visits(history: &[(i64, Option<Value>)], (begin, end): (i64, i64), last: i64) -> Vec<(String, i64, i64, bool)> {
    let mut all = Vec::new();
    for (at, (from, state)) in history.iter().enumerate() {
        let Some(state) = state else { continue };
        let next = history.get(at + 1).map(|(to, _)| *to);
        let to = next.unwrap_or(last);
        let (first, behind) = (*from.max(&begin), to.min(end));
        let is_instant = *from == to || (next.is_none() && *from == end);
        let is_in = if is_instant { begin <= *from && *from <= end } else { first < behind };
        if is_in {
            all.push((shown(state), first, behind, next.is_none() || (first, behind) != (*from, to)));
        }
    }
    all
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |value| format!("{value}"))
}

fn table(folder: &Folder, arguments: &str) -> Value {
    let Run { code, stdout, stderr } = folder.run(&format!("{arguments} -q --json t.jsonl"));
    assert_eq!((code, &*stderr), (Some(0), ""), "{arguments}");
    serde_json::from_str(&stdout).expect("JSON")
}

/// Some columns of all rows, as texts.
fn rows(table: &Value, columns: &[&str]) -> Vec<Vec<String>> {
    let text = |value: &Value| match value {
        Value::Null => "-".to_string(),
        value if value.is_f64() => number(value.as_f64()),
        value => shown(value),
    };
    let of = |row: &Value| columns.iter().map(|column| text(&row[*column])).collect();
    let mut all: Vec<Vec<String>> = table["rows"].as_array().expect("rows").iter().map(of).collect();
    all.sort();
    all
}

fn note(table: &Value, name: &str) -> u64 {
    table["notes"][name].as_u64().unwrap_or(0)
}

#[test]
fn random_definitions_are_followed_as_by_a_second_program() {
    let folder = Folder::new();
    for seed in 1..40 {
        let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let events = events(&mut random);
        let line =
            |Event { ns, name, fields }: &Event| json!({"ns": ns, "name": name, "payload": fields}).to_string() + "\n";
        folder.file("t.jsonl", events.iter().map(line).collect::<String>());
        let all: Vec<Definition> = (0..4).map(|at| definition(&mut random, at >= 2)).collect();
        let text: String = all.iter().enumerate().map(|(at, of)| written(at, of)).collect();
        folder.file("d.states", &text);
        let (first, last) = (events[0].ns, events[events.len() - 1].ns);
        let middle = first + random.next((last - first + 1) as u64) as i64;
        for (begin, end) in [(first, last), (middle, last), (first, middle), (middle, middle + 50)] {
            let range = format!("--begin {begin}ns --end {end}ns");
            let end = end.min(last);
            // States.
            let mut wanted = Vec::new();
            let (mut unknown_keys, mut unknown_values) = (0, 0);
            for (at, of) in all.iter().enumerate().filter(|(_, of)| !of.is_counter) {
                let (histories, keys, values) = histories(of, &events);
                (unknown_keys, unknown_values) = (unknown_keys + keys, unknown_values + values);
                for (key, history) in histories {
                    for (state, from, to, is_cut) in visits(&history, (begin, end), last) {
                        let others =
                            vec![state, from.to_string(), to.to_string(), (to - from).to_string(), is_cut.to_string()];
                        wanted.push(with_key(at, of, &key, others));
                    }
                }
            }
            wanted.sort();
            let found = table(&folder, &format!("analyze custom --states d.states --log {range}"));
            let columns = ["name", "k", "j", "s", "state", "from", "to", "duration_ns", "cut"];
            assert_eq!(rows(&found, &columns), wanted, "seed {seed}, {range}\n{text}");
            let notes = (note(&found, "unknown_keys"), note(&found, "unknown_values"));
            assert_eq!(notes, (unknown_keys, unknown_values), "seed {seed}\n{text}");
            // Counters: their changes, and what they were between them.
            let (mut changes, mut wanted) = (Vec::new(), Vec::new());
            for (at, of) in all.iter().enumerate().filter(|(_, of)| of.is_counter) {
                for (key, history) in histories(of, &events).0 {
                    let is_in = |ns: i64| begin <= ns && ns <= end;
                    for (ns, value) in history.iter().filter(|(ns, _)| is_in(*ns)) {
                        let value = value.as_ref().and_then(Value::as_f64);
                        changes.push(with_key(at, of, &key, vec![ns.to_string(), number(value)]));
                    }
                    let parts: Vec<(f64, i64, i64)> = (visits(&history, (begin, end), last).iter())
                        .map(|(value, from, to, _)| (value.parse().expect("a number"), *from, *to))
                        .collect();
                    let Some((latest, ..)) = parts.last() else { continue };
                    let sum: f64 = parts.iter().map(|(value, from, to)| value * (to - from) as f64).sum();
                    let time: i64 = parts.iter().map(|(_, from, to)| to - from).sum();
                    let count = history.iter().filter(|(ns, _)| is_in(*ns)).count();
                    let least = parts.iter().map(|part| part.0).fold(f64::MAX, f64::min);
                    let most = parts.iter().map(|part| part.0).fold(f64::MIN, f64::max);
                    let mean = (time > 0).then(|| sum / time as f64);
                    let values = [Some(least), Some(most), mean, Some(*latest)].map(number);
                    wanted.push(with_key(at, of, &key, [count.to_string()].into_iter().chain(values).collect()));
                }
            }
            changes.sort();
            wanted.sort();
            let question = format!("analyze custom --of counters --states d.states {range}");
            let found = table(&folder, &format!("{question} --log"));
            assert_eq!(
                rows(&found, &["name", "k", "j", "s", "time", "value"]),
                changes,
                "seed {seed}, {range}\n{text}"
            );
            let found = table(&folder, &question);
            let columns = ["name", "k", "j", "s", "changes", "min", "max", "mean", "last"];
            assert_eq!(rows(&found, &columns), wanted, "seed {seed}, {range}\n{text}");
        }
    }
}
