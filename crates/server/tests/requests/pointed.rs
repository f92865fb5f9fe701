//! `locate` with `direction=at`: what is at a time that is pointed at, by its depth, against all that is there.

use serde_json::Value;

use super::{Served, ns, serve};

/// Something that has a track: first ns, one past the last one where it has an end, depth, name.
type Thing = (i128, Option<i128>, u64, String);

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_string()
}

fn ids(served: &Served, kind: &str) -> Vec<(String, u64)> {
    let tracks = served.json("tracks");
    let own = tracks["tracks"].as_array().expect("a list").iter().filter(|track| track["kind"] == kind);
    own.map(|track| (text(&track["id"]), track["calls"].as_u64().unwrap_or(0))).collect()
}

fn located(served: &Served, id: &str, depth: u64, (at, around): (i128, i128)) -> Option<Thing> {
    let found = served.json(&format!("locate?track={id}&at={at}&slack={around}&depth={depth}&direction=at"));
    let end = |found: &Value| (found["end"] != Value::Null).then(|| ns(&found["end"]));
    let depth = found["depth"].as_u64().unwrap_or(0);
    (found["begin"] != Value::Null).then(|| (ns(&found["begin"]), end(&found), depth, text(&found["name"])))
}

/// How far a thing is from a time, when it reaches into what looks the same.
fn distance((begin, end, ..): &Thing, (at, around): (i128, i128)) -> Option<i128> {
    let far = match end {
        _ if *begin > at => begin - at,
        Some(end) if *end < at => at - end,
        _ => 0,
    };
    (far <= around).then_some(far)
}

/// Asks at all kinds of times.
fn check(served: &Served, id: &str, things: &[Thing]) {
    assert!(things.len() > 3, "{id}");
    let mut found = [0; 2];
    for at in 0..60 {
        let thing = &things[at * things.len() / 60];
        let time = match (at % 3, thing.1) {
            (0, _) | (_, None) => thing.0,
            (1, Some(end)) => end,
            (_, Some(end)) => thing.0.midpoint(end),
        };
        let depth = if at % 2 == 0 { thing.2 } else { at as u64 / 2 % 3 };
        for around in [0, 700, 2_000_000] {
            let own: Vec<&Thing> = things.iter().filter(|thing| thing.2 == depth).collect();
            // Where one ends when the next one begins, that is the next one.
            let is_here = |thing: &&&Thing| thing.0 <= time && thing.1.is_none_or(|end| end > time || thing.0 == time);
            let answer = located(served, id, depth, (time, around));
            if let Some(here) = own.iter().rev().find(is_here) {
                assert_eq!(answer.as_ref(), Some(*here), "{id}, {depth} deep at {time}");
            } else {
                let least = own.iter().filter_map(|thing| distance(thing, (time, around))).min();
                let told = answer.as_ref().map(|thing| distance(thing, (time, around)));
                assert_eq!(told, least.map(Some), "{id}, {depth} deep at {time}: {answer:?}");
                assert!(answer.as_ref().is_none_or(|thing| own.contains(&thing)), "{answer:?}");
            }
            found[usize::from(answer.is_some())] += 1;
        }
    }
    assert!(found[1] > 40, "{id}: {found:?}");
}

#[test]
fn the_call_at_a_time_has_the_depth_that_is_asked_for() {
    let served = serve("calls/tasting");
    served.when_counted();
    for (id, count) in ids(&served, "calls") {
        let things = (0..count).map(|number| {
            let call = served.json(&format!("call/{id}/{number}"));
            let end = (call["end"] != Value::Null).then(|| ns(&call["end"]));
            (ns(&call["begin"]), end, call["depth"].as_u64().expect("a number"), text(&call["name"]))
        });
        check(&served, &id, &things.collect::<Vec<_>>());
    }
    served.end();
}

#[test]
fn the_state_at_a_time_has_the_lane_that_is_asked_for() {
    let served = serve("kernel/bakery");
    served.when_counted();
    for (id, _) in
        ids(&served, "state").into_iter().filter(|(id, _)| ["s0.cpu0", "s0.520.0", "s0.641.0"].contains(&&**id))
    {
        let mut things: Vec<Thing> = Vec::new();
        for depth in 0..2 {
            let mut at = i128::from(i64::MIN / 4);
            loop {
                let piece = served.json(&format!("locate?track={id}&at={at}&direction=next&depth={depth}"));
                if piece["begin"] == Value::Null {
                    break;
                }
                at = ns(&piece["begin"]);
                things.push((at, Some(ns(&piece["end"])), depth, text(&piece["name"])));
            }
        }
        check(&served, &id, &things);
    }
    served.end();
}

#[test]
fn the_event_at_a_time_is_none_that_is_far_from_it_or_that_a_filter_leaves_out() {
    let served = serve("traces/mill");
    served.when_counted();
    for filter in ["", "name%20==%20%22mill:grind%22"] {
        let rows = served.rows(filter);
        for (id, _) in ids(&served, "events") {
            let times =
                rows.iter().filter(|(row, _)| row["track"] == *id).map(|(row, _)| ns(&row["ns"])).collect::<Vec<_>>();
            for time in times.iter().step_by(times.len() / 8 + 1) {
                for (off, around) in [(0, 0), (1, 0), (700, 900), (40_000, 50_000)] {
                    let at = time + off;
                    let found =
                        served.json(&format!("locate?track={id}&at={at}&slack={around}&direction=at&filter={filter}"));
                    let least = times.iter().map(|time| (time - at).abs()).filter(|far| *far <= around).min();
                    let told = (found["ns"] != Value::Null).then(|| (ns(&found["ns"]) - at).abs());
                    assert_eq!(told, least, "{id} at {at} {filter}");
                }
            }
        }
    }
    served.end();
}

#[test]
fn the_value_of_a_counter_at_a_time_is_the_last_one() {
    let served = serve("traces/mill");
    served.when_counted();
    let id = "p.g0.mill-3Agrind.payload-2Egrams";
    let at = |at: i128| served.json(&format!("locate?track={id}&at={at}&direction=at"));
    let rows: Vec<_> = served.rows("").into_iter().filter(|(row, _)| row["name"] == "mill:grind").collect();
    let values: Vec<(i128, f64)> =
        rows.iter().map(|(row, line)| (ns(&row["ns"]), line["payload"]["grams"].as_f64().expect("a number"))).collect();
    for (time, _) in values.iter().step_by(7) {
        for off in [-1, 0, 1, 900] {
            let (found, wanted) = (at(time + off), values.iter().rev().find(|(own, _)| *own <= time + off));
            let told = found["value"].as_str().map(|value| value.parse::<f64>().expect("a number"));
            assert_eq!(told, wanted.map(|(_, value)| *value), "{off} from {time}");
        }
    }
    served.end();
}
