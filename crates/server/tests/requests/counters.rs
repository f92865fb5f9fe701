//! Fields over time: those that are asked for, and those that a trace names as counters.

use std::collections::HashMap;

use serde_json::Value;

use super::{ns, serve, served};

/// Buckets of a counter at a level: least, greatest and last value.
fn buckets(values: &[(i128, f64)], level: u32) -> Vec<(i64, f64, f64, f64)> {
    let mut buckets: Vec<(i64, f64, f64, f64)> = Vec::new();
    for (time, value) in values {
        let at = (time >> level) as i64;
        match buckets.last_mut().filter(|last| last.0 == at) {
            Some(last) => *last = (at, last.1.min(*value), last.2.max(*value), *value),
            None => buckets.push((at, *value, *value, *value)),
        }
    }
    buckets
}

#[test]
fn a_field_is_a_counter() {
    let served = serve("traces/mill");
    served.when_counted();
    let origin = ns(&served.json("session")["origin"]);
    let id = "p.g0.mill-3Agrind.payload-2Egrams";
    let values_of = |filter: &str| -> Vec<(i128, f64)> {
        let rows = served.rows(filter).into_iter().filter(|(row, _)| row["name"] == "mill:grind");
        rows.map(|(row, line)| (ns(&row["ns"]) - origin, line["payload"]["grams"].as_f64().expect("a number")))
            .collect()
    };
    let list = |track: &Value, column: &str| -> Vec<f64> {
        track[column].as_array().expect("a list").iter().filter_map(Value::as_f64).collect()
    };
    let tiles = |level: u32, from: u64, to: u64, filter: &str| -> Vec<(i64, f64, f64, f64)> {
        let answer =
            served.json(&format!("tiles?tracks={id}&level={level}&from={from}&to={to}&exact=1&filter={filter}"));
        let track = &answer["tracks"][0];
        assert_eq!((&track["kind"], &track["exact"]), (&Value::from("counter"), &Value::from(true)));
        let [at, min, max, last] = ["at", "min", "max", "last"].map(|column| list(track, column));
        (0..at.len()).map(|row| (at[row] as i64, min[row], max[row], last[row])).collect()
    };
    for filter in ["", "payload.grams%20%3E%2018.5"] {
        let values = values_of(filter);
        assert!(values.len() > 100, "{}", values.len());
        let end = values[values.len() - 1].0;
        for level in [0, 12, 24, 31, 40, 62] {
            let last = (end >> level >> 10).min(4000) as u64;
            let whole: Vec<_> =
                buckets(&values, level).into_iter().filter(|bucket| bucket.0 < (last as i64 + 1) << 10).collect();
            assert_eq!(tiles(level, 0, last, filter), whole, "level {level}");
        }
        // From within: the value before comes first.
        let (middle, before) = (values[values.len() / 2], values[values.len() / 2 - 1].1);
        let tile = (middle.0 >> 13) as u64;
        let begin = (tile as i128) << 13;
        let mut expected: Vec<_> = values.iter().filter(|(time, _)| time >> 13 == tile as i128).copied().collect();
        expected.iter_mut().for_each(|(time, _)| *time -= begin);
        let mut expected = buckets(&expected, 3);
        let known = values.iter().rfind(|(time, _)| *time < begin).map_or(before, |(_, value)| *value);
        expected.insert(0, (-1, known, known, known));
        assert_eq!(tiles(3, tile, tile, filter), expected);
        let track = served.json(&format!("track/{id}?filter={filter}"));
        let low = values.iter().map(|(_, value)| *value).fold(f64::MAX, f64::min);
        let high = values.iter().map(|(_, value)| *value).fold(f64::MIN, f64::max);
        let text = |name: &str| track[name].as_str().and_then(|text| text.parse::<f64>().ok());
        assert_eq!((text("min"), text("max")), (Some(low), Some(high)));
        assert_eq!((&track["events"], &track["done"]), (&Value::from(values.len()), &Value::from(1.0)));
        assert_eq!((&track["parent"], &track["name"]), (&Value::from("g0"), &Value::from("grams of mill:grind")));
    }
    for wrong in ["p.g9.a.payload", "p.g0.a", "p.g0.a.nothing", "p.g0.a.-zz"] {
        assert_eq!(served.ask("GET", &format!("/api/track/{wrong}"), "").0, 404, "{wrong}");
    }
    assert_eq!(served.ask("GET", &format!("/api/select?tracks={id}"), "").0, 200);
    served.end();
}

#[test]
fn counters_that_a_trace_names_show_its_numbers() {
    let folder = std::env::temp_dir().join(format!("tracemill-counters-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("it can be made");
    let (mut random, mut text, mut time) = (7u64, String::new(), 1_000_000u64);
    // By the part of the name that a track of them has: times since the first event, and values.
    let mut wanted: HashMap<&str, Vec<(i128, f64)>> = HashMap::new();
    for at in 0..900 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (value, step) = (random >> 40, 1 + (random >> 33) % 5000);
        let (name, payload, track) = match at % 3 {
            0 => ("power_cpu_frequency", format!("\"state\":{value},\"cpu_id\":0"), ", CPU 0"),
            1 => ("power_cpu_frequency", format!("\"state\":{value},\"cpu_id\":1"), ", CPU 1"),
            _ => ("oven_gauge", format!("\"waiting_bytes\":{value}"), "waiting_bytes"),
        };
        text += &format!("{{\"ns\":{time},\"cycles\":{time},\"name\":\"{name}\",\"payload\":{{{payload}}}}}\n");
        wanted.entry(track).or_default().push((i128::from(time) - 1_000_000, value as f64));
        time += step;
    }
    let file = folder.join("lines.jsonl");
    std::fs::write(&file, text).expect("it can be written");
    let served = served(&[file]);
    served.when_counted();
    let all = served.json("tracks");
    let counters = all["tracks"].as_array().expect("a list").iter().filter(|track| track["kind"] == "counter");
    let counters: Vec<&Value> = counters.collect();
    assert_eq!(counters.len(), wanted.len(), "{counters:?}");
    for (name, values) in &wanted {
        let is_it = |track: &&&Value| track["name"].as_str().is_some_and(|own| own.ends_with(name));
        let track = *counters.iter().find(is_it).expect("each has a track");
        let unit = if name.contains("CPU") { "kHz" } else { "B" };
        assert_eq!(track["unit"], unit, "{track}");
        let id = track["id"].as_str().expect("a text");
        for level in [0, 7, 13, 20] {
            let last = values[values.len() - 1].0 >> level >> 10;
            let answer = served.json(&format!("tiles?tracks={id}&level={level}&from=0&to={last}&exact=1"));
            let column = |name: &str| -> Vec<f64> {
                let list = answer["tracks"][0][name].as_array().expect("a list");
                list.iter().filter_map(Value::as_f64).collect()
            };
            let [at, min, max, last] = ["at", "min", "max", "last"].map(column);
            let shown: Vec<_> = (0..at.len()).map(|row| (at[row] as i64, min[row], max[row], last[row])).collect();
            assert_eq!(shown, buckets(values, level), "{id} at level {level}");
        }
    }
    served.end();
    std::fs::remove_dir_all(&folder).expect("it was made");
}

#[test]
fn a_range_of_more_buckets_than_are_kept_has_wider_ones() {
    let folder = std::env::temp_dir().join(format!("tracemill-wide-counters-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("it can be made");
    let line = |at: u64| {
        let (time, value) = (1000 + at * 3, at % 1000);
        format!("{{\"ns\":{time},\"name\":\"oven_gauge\",\"payload\":{{\"waiting_bytes\":{value}}}}}\n")
    };
    let file = folder.join("lines.jsonl");
    std::fs::write(&file, (0..150_000).map(line).collect::<String>()).expect("it can be written");
    let served = served(&[file]);
    served.when_counted();
    let all = served.json("tracks");
    let tracks = all["tracks"].as_array().expect("a list");
    let id = tracks.iter().find(|track| track["kind"] == "counter").expect("a track")["id"].as_str().expect("a text");
    let last = 450_000 >> 10;
    let answer = served.json(&format!("tiles?tracks={id}&level=0&from=0&to={last}&exact=1"));
    let track = &answer["tracks"][0];
    assert_eq!(track["exact"], false);
    let column = |name: &str| -> Vec<i64> {
        track[name].as_array().expect("a list").iter().map(|value| value.as_f64().expect("a number") as i64).collect()
    };
    let [at, min, max] = ["at", "min", "max"].map(column);
    assert!(at.len() > 30_000 && at.len() <= 1 << 16, "{}", at.len());
    assert!(at.is_sorted() && at[at.len() - 1] > 449_980, "{:?}", at.last());
    // Each bucket stands where its first value may be: at most 8 values are in it.
    for ((at, min), max) in at.iter().zip(min).zip(max) {
        let (first, after) = ((at + 2) / 3, at / 3 + 8);
        let is_in = |value: i64| (first - 1..after).any(|event| event.rem_euclid(1000) == value);
        assert!(is_in(min) && is_in(max), "{at} ns: {min} to {max}");
    }
    served.end();
    std::fs::remove_dir_all(&folder).expect("it was made");
}
