//! Keys: values of paths, and the short cut to integers at fixed places.

use std::collections::HashMap;

use super::{Input, kernel, kernel_named};
use crate::filter::{ColumnList, KeyBy, KeyReader, KeyValue};

/// The values of the keys of all events, one after the other; cheap keys must say the same as whole ones.
#[track_caller]
fn keys(input: &Input, by: &KeyBy) -> (Vec<Vec<(String, KeyValue)>>, usize) {
    let mut reader = KeyReader::new(&input.session, by);
    let (mut known, mut all, mut cheap) = (HashMap::new(), Vec::new(), 0);
    for event in input.events() {
        let mut key = Vec::new();
        reader.encode(&event, &mut key);
        if let Some(quick) = reader.quick(&event) {
            cheap += 1;
            assert_eq!(*known.entry(quick).or_insert_with(|| key.clone()), key);
        }
        let names = reader.names();
        all.push(KeyReader::decode(&key).into_iter().map(|(name, value)| (names[name].clone(), value)).collect());
    }
    (all, cheap)
}

fn paths(input: &Input, text: &str) -> KeyBy {
    KeyBy::Paths(ColumnList::parse(text).and_then(|list| list.bind(&input.session)).expect("paths"))
}

/// The values of a path.
#[track_caller]
fn values(input: &Input, path: &str) -> (Vec<KeyValue>, usize) {
    let (keys, cheap) = keys(input, &paths(input, path));
    (keys.into_iter().map(|mut key| key.remove(0).1).collect(), cheap)
}

fn integers(values: &[i128]) -> Vec<KeyValue> {
    values.iter().map(|&value| KeyValue::Integer(value)).collect()
}

fn text(text: &str) -> KeyValue {
    KeyValue::Text(text.into())
}

#[test]
fn integers_at_fixed_places_are_cheap() {
    let input = kernel();
    assert_eq!(values(&input, "stream_context.vtid"), (integers(&[4711, 4712, 4711, 1, 0, 4713]), 6));
    // In the payload of one class, after a string of the context.
    let (found, _) = values(&input, "payload.vtid");
    assert_eq!(found, [vec![KeyValue::Absent; 5], integers(&[3])].concat());
    // Names and numbers are those of classes.
    assert_eq!(values(&input, "id"), (integers(&[0, 0, 1, 1, 2, 3]), 6));
    assert_eq!(values(&input, "name").0[..3], [text("sched_switch"), text("sched_switch"), text("file_open")]);
}

#[test]
fn what_a_packet_decides_is_cheap() {
    let input = kernel();
    assert_eq!(values(&input, "cpu"), (integers(&[2; 6]), 6));
    // Not together with a field of each event.
    let (found, cheap) = keys(&input, &paths(&input, "cpu, vtid"));
    assert_eq!((&found[0][1].1, cheap), (&KeyValue::Integer(4711), 0));
}

#[test]
fn everything_else_is_visited() {
    let input = kernel();
    assert_eq!(values(&input, "header.id"), (integers(&[0, 0, 1, 1, 2, 3]), 0));
    assert_eq!(values(&input, "args[2]").0[..3], [&integers(&[-3, 6])[..], &[KeyValue::Absent]].concat());
    assert_eq!(values(&input, "procname").0, vec![text("prog"); 6]);
    assert_eq!(values(&input, "load").0[2..4], [KeyValue::Number("0.5".into()), KeyValue::Number("NaN".into())]);
    assert_eq!(values(&input, "prev_pid").0[..2], integers(&[0, -5]));
    // A structure has no value.
    assert_eq!(values(&input, "payload").0, vec![KeyValue::Absent; 6]);
}

#[test]
fn several_paths_and_the_first_of_some_fields() {
    let input = kernel();
    let (found, _) = keys(&input, &paths(&input, "name, vtid"));
    let pair = |name, vtid| vec![("name".to_string(), text(name)), ("vtid".to_string(), KeyValue::Integer(vtid))];
    assert_eq!((&found[0], &found[5]), (&pair("sched_switch", 4711), &pair("odd name", 3)));
    let first = KeyBy::First(&["prio", "args", "state"]);
    let (found, _) = keys(&input, &first);
    let of = |name: &str, value| vec![(name.to_string(), value)];
    assert_eq!(found[0], of("state", KeyValue::Integer(0)), "an array is not a value");
    assert_eq!(found[2], of("prio", KeyValue::Integer(9)));
    assert_eq!(found[4], of("stream", text("channel0_1")));
    let two = kernel_named(&["one", "two"]);
    let (found, cheap) = keys(&two, &KeyBy::First(&["vtid"]));
    assert_eq!(found[6][0], ("trace".to_string(), text("two")));
    assert_eq!(found[6][1], ("vtid".to_string(), KeyValue::Integer(4711)));
    // All but those whose payload hides the context after a text.
    assert_eq!((found.len(), cheap), (12, 10));
}

#[test]
fn labels_are_those_of_enumerations() {
    let input = kernel();
    let by = paths(&input, "state");
    let mut reader = KeyReader::new(&input.session, &by);
    let labels: Vec<Option<String>> = input.events().map(|event| reader.label(&event)).collect();
    assert_eq!(labels[..3], [Some("RUNNING".into()), Some("SLEEPING".into()), None]);
}
