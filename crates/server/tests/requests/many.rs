//! Questions that several threads answer: about so many pieces of states that one would take too long.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{demo, input_of, ns, served_of};

/// A piece of a CPU's time: ns of its begin, its length, and the task.
type Piece = (i128, i128, u32);

/// The tasks of the recording that is made larger.
const TASKS: [u32; 3] = [12529, 12531, 12532];

/// Lengths and tasks at random, with a little time of idleness between.
fn made(seed: u64, count: usize) -> Vec<Piece> {
    let mut state = seed;
    let mut below = move |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut time = 7_896_600_000_000i128;
    (0..count)
        .map(|_| {
            let is_long = below(50) == 0;
            let length = 1 + below(if is_long { 40_000 } else { 900 });
            let piece = (time, i128::from(length), TASKS[below(3) as usize]);
            time += i128::from(length + 1 + below(300));
            piece
        })
        .collect()
}

/// The records of the system that say so: a task comes to the CPU, and goes.
fn records(pieces: &[Piece]) -> Vec<u8> {
    let record = |time: i128, tid: u32, goes: bool| {
        let (kind, misc, size) = (14u32, if goes { 0x2000u16 } else { 0 }, 24u16);
        let head = [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes()].concat();
        [head, [TASKS[0].to_le_bytes(), tid.to_le_bytes()].concat(), (time as u64).to_le_bytes().to_vec()].concat()
    };
    let both =
        |(begin, length, tid): &Piece| [record(*begin, *tid, false), record(begin + length, *tid, true)].concat();
    pieces.iter().flat_map(both).collect()
}

/// A slice: bucket, buckets, number, how full, and the task.
type Told = (i64, i64, u64, u64, u32);

/// Slices of all pieces in buckets of 2^level ns from `begin` on, by hand.
fn by_hand(pieces: &[Piece], begin: i128, level: u32) -> Vec<Told> {
    let bucket = |time: i128| ((time - begin) >> level) as i64;
    let mut told = Vec::new();
    let mut short: BTreeMap<i64, (u64, i128, i128, u32)> = BTreeMap::new();
    for (from, length, tid) in pieces {
        let at = bucket(*from);
        if length >> level > 0 {
            told.push((at, bucket(from + length) - at, 1, 255, *tid));
            continue;
        }
        let (n, sum, longest, name) = short.entry(at).or_insert((0, 0, 0, 0));
        (*n, *sum) = (*n + 1, *sum + length);
        if length > longest {
            (*longest, *name) = (*length, *tid);
        }
    }
    let full = |sum: i128| ((sum * 255) >> level).clamp(1, 255) as u64;
    told.extend(short.into_iter().map(|(at, (n, sum, _, name))| (at, 1, n, full(sum), name)));
    told.sort_unstable();
    told
}

fn slices(answer: &Value, track: usize) -> Vec<Told> {
    let column = |name: &str| -> Vec<i64> {
        answer["tracks"][track][name].as_array().expect("a list").iter().filter_map(Value::as_i64).collect()
    };
    let [at, len, n, busy, name] = ["at", "len", "n", "busy", "name"].map(column);
    let tid = |name: i64| {
        let name = answer["names"][name.to_string()].as_str().expect("a name");
        name.rsplit(' ').next().and_then(|tid| tid.parse().ok()).expect("a task")
    };
    let mut told: Vec<Told> =
        (0..at.len()).map(|i| (at[i], len[i], n[i] as u64, busy[i] as u64, tid(name[i]))).collect();
    told.sort_unstable();
    told
}

#[test]
fn many_pieces_of_states_are_told_as_few_are() {
    let folder = std::env::temp_dir().join(format!("tracemill-many-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for file in std::fs::read_dir(demo("calls/tasting")).expect("it is there") {
        let file = file.expect("it can be listed");
        std::fs::copy(file.path(), folder.join(file.file_name())).expect("it can be copied");
    }
    // The second one is the larger one: threads take the largest first, and put it where it was asked for.
    let cpus = [made(1, 60_000), made(2, 80_000)];
    for (cpu, pieces) in cpus.iter().enumerate() {
        std::fs::write(folder.join(format!("perf-cpu{cpu}.dat")), records(pieces)).expect("a file");
    }
    let mut input = input_of(std::slice::from_ref(&folder), &[]);
    input.traces.selection.jobs = 4;
    let served = served_of(input);
    served.when_counted();
    let tracks = served.json("tracks");
    let states: Vec<&Value> =
        tracks["tracks"].as_array().expect("a list").iter().filter(|track| track["kind"] == "state").collect();
    let ids: Vec<&str> = states.iter().filter_map(|track| track["id"].as_str()).collect();
    assert_eq!(ids.len(), 2);
    // Several threads look at both together, and one at each alone.
    let pieces: Vec<u64> = states.iter().filter_map(|track| track["states"].as_u64()).collect();
    assert_eq!(pieces, [60_000, 80_000]);
    let many = 1 << 17;
    assert!(pieces.iter().sum::<u64>() >= many && pieces.iter().all(|own| *own < many));
    let session = served.json("session");
    let (origin, end) = (ns(&session["origin"]), ns(&session["end"]));
    for level in [6, 9, 13, 16, 20] {
        let last = ((end - origin) >> (level + 10)).min(4095);
        let ask = |tracks: &str| served.json(&format!("tiles?tracks={tracks}&level={level}&from=0&to={last}"));
        let together = ask(&ids.join(","));
        let until = origin + ((last + 1) << (level + 10));
        for (at, (id, pieces)) in ids.iter().zip(&cpus).enumerate() {
            let known = pieces.partition_point(|piece| piece.0 < until);
            let mut expected = by_hand(&pieces[..known], origin, level);
            let behind = ((last + 1) << 10) as i64;
            expected.iter_mut().filter(|told| told.2 == 1).for_each(|told| told.1 = told.1.min(behind - told.0));
            let found = slices(&together, at);
            assert!(found.len() > 20 && found == expected, "{id} at level {level}");
            assert_eq!(slices(&ask(id), 0), found, "{id} at level {level}");
        }
    }
    served.end();
    std::fs::remove_dir_all(&folder).expect("it was made");
}
