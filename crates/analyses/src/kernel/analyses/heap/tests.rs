//! Tests: the calls of the C library one by one, and a second program that keeps all blocks in a list.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::*;
use crate::kernel::question::query::PlaceNames;
use crate::kernel::testing::played::{played, rows};
use crate::kernel::testing::seeds::{Rng, for_each_rng};

fn by(key: &str) -> AnalysisQuery {
    AnalysisQuery { by: Some(key.to_string()), ..AnalysisQuery::default() }
}

fn leaks() -> AnalysisQuery {
    AnalysisQuery { words: vec![FormWord::Leaks], ..AnalysisQuery::default() }
}

const CALLS: &str = "100 0 heap_free name=free ptr=8 vpid=5 vtid=5 comm=larder site=40
    110 0 heap_alloc name=malloc ptr=16 bytes=100 vpid=5 vtid=5 comm=larder site=41
    120 0 heap_alloc name=calloc ptr=32 bytes=8 count=25 vpid=5 vtid=6 comm=shelf site=42
    130 0 heap_realloc name=realloc old=16 ptr=64 bytes=150 vpid=5 vtid=6 comm=shelf site=43
    140 0 heap_realloc name=realloc old=64 ptr=0 bytes=1000 vpid=5 vtid=5 comm=larder site=43
    150 0 heap_alloc name=posix_memalign ptr=64 bytes=7 ret=12 vpid=5 vtid=5 comm=larder site=44
    160 0 heap_free name=free ptr=32 vpid=5 vtid=5 comm=larder site=45
    170 0 heap_free name=free ptr=0 vpid=5 vtid=5 comm=larder site=45
    180 0 heap_realloc name=realloc old=64 ptr=0 bytes=0 vpid=5 vtid=5 comm=larder site=46
    190 0 heap_realloc name=realloc old=0 ptr=80 bytes=30 vpid=5 vtid=5 comm=larder site=43
    200 0 heap_alloc name=malloc ptr=16 bytes=1 vpid=7 vtid=7 comm=oven site=41
    210 0 heap_alloc name=malloc bytes=1 vpid=7 vtid=7 comm=oven site=41";

#[test]
fn each_call_allocates_and_frees_as_the_c_library_says() {
    let table = played(&DESCRIPTOR, &AnalysisQuery::default(), CALLS);
    let columns = ["pid", "comm", "allocs", "frees", "unknown_frees", "failed", "bytes", "bytes_freed"];
    assert_eq!(rows(&table, &columns), ["5 larder 4 4 1 2 480 450", "7 oven 1 0 0 0 1 0"]);
    let columns = ["pid", "begin_bytes", "live", "live_bytes", "peak_bytes", "peak"];
    assert_eq!(rows(&table, &columns), ["5 0 1 30 350 130", "7 0 1 1 1 200"]);
    let all: Vec<_> = table.all.iter().map(|(column, cell)| format!("{}={cell:?}", column.name)).collect();
    assert_eq!(all[7..10], ["live=Integer(2)", "live_bytes=Integer(31)", "peak_bytes=Integer(350)"]);
    assert_eq!(table.notes, [("bad_fields", 1)]);
}

#[test]
fn a_free_belongs_to_its_thread_and_call_but_to_the_place_of_the_block() {
    let columns = ["tid", "comm", "allocs", "frees", "bytes", "bytes_freed", "live", "live_bytes"];
    let table = played(&DESCRIPTOR, &by("thread"), CALLS);
    assert_eq!(rows(&table, &columns), ["6 shelf 2 1 350 100 0 0", "5 larder 2 3 130 350 1 30", "7 oven 1 0 1 0 1 1"]);
    let columns = ["call", "allocs", "frees", "bytes", "bytes_freed", "live_bytes"];
    let expected = ["calloc 1 0 200 0 0", "realloc 2 2 180 250 30", "malloc 2 0 101 0 1", "free 0 2 0 200 0"];
    let table = played(&DESCRIPTOR, &by("call"), CALLS);
    assert_eq!(rows(&table, &columns)[..4], expected);
    let columns = ["pid", "place", "allocs", "frees", "unknown_frees", "failed", "bytes", "bytes_freed"];
    let table = played(&DESCRIPTOR, &by("place"), CALLS);
    let expected = [
        "5 0x2a 1 1 0 0 200 200",
        "5 0x2b 2 1 0 1 180 150",
        "5 0x29 1 1 0 0 100 100",
        "7 0x29 1 0 0 0 1 0",
        "5 0x28 0 1 1 0 0 0",
        "5 0x2c 0 0 0 1 0 0",
    ];
    assert_eq!(rows(&table, &columns), expected);
}

struct NamedPlaces;

impl PlaceNames for NamedPlaces {
    fn name(&self, machine: u32, process: i64, address: u64, at: Ns) -> Option<String> {
        (address == 43).then(|| format!("stack_crates of {machine}:{process} at {at}"))
    }
}

#[test]
fn what_was_never_freed_has_a_place_and_times() {
    let query = AnalysisQuery { places: Some(Rc::new(NamedPlaces)), ..leaks() };
    let table = played(&DESCRIPTOR, &query, CALLS);
    let expected = ["5 larder stack_crates of 0:5 at 130 1 30 190 190", "7 oven 0x29 1 1 200 200"];
    assert_eq!(rows(&table, &["pid", "comm", "place", "blocks", "bytes", "first", "last"]), expected);
    // Blocks that were freed after the range, and one that was allocated before it.
    let query = AnalysisQuery { begin: Some(120), end: Some(150), by: Some("thread".to_string()), ..leaks() };
    let table = played(&DESCRIPTOR, &query, CALLS);
    assert_eq!(rows(&table, &["tid", "blocks", "bytes", "first", "last"]), ["6 2 350 120 130"]);
}

#[test]
fn a_range_begins_with_the_blocks_that_are_there() {
    let query = AnalysisQuery { begin: Some(155), end: Some(185), ..AnalysisQuery::default() };
    let columns = ["pid", "allocs", "frees", "bytes_freed", "begin_bytes", "live_bytes", "peak_bytes", "peak"];
    assert_eq!(rows(&played(&DESCRIPTOR, &query, CALLS), &columns), ["5 0 2 350 350 0 350 -"]);
    // A range without events.
    let query = AnalysisQuery { begin: Some(131), end: Some(139), ..AnalysisQuery::default() };
    assert_eq!(rows(&played(&DESCRIPTOR, &query, CALLS), &columns), ["5 0 0 0 350 350 350 -"]);
    let query = AnalysisQuery { step: Some(50), ..AnalysisQuery::default() };
    let columns = ["from", "pid", "allocs", "begin_bytes", "live_bytes", "peak_bytes"];
    let expected = ["100 5 3 0 350 350", "150 5 1 350 30 350", "200 7 1 0 1 1"];
    assert_eq!(rows(&played(&DESCRIPTOR, &query, CALLS), &columns), expected);
}

#[test]
fn a_process_that_ends_releases_all() {
    let stream = "100 0 heap_alloc name=malloc ptr=16 bytes=100 vpid=5 vtid=5
        110 0 exit tid=5
        120 0 heap_alloc name=malloc ptr=16 bytes=30 vpid=5 vtid=5
        130 0 exec tid=5 name=/bin/oven
        140 0 heap_free name=free ptr=16 vpid=5 vtid=5";
    let table = played(&DESCRIPTOR, &AnalysisQuery::default(), stream);
    let columns = ["pid", "bytes", "bytes_freed", "unknown_frees", "live_bytes"];
    assert_eq!(rows(&table, &columns), ["5 100 0 0 100", "5 30 0 0 30", "5 0 0 1 0"]);
    let all: Vec<_> = table.all.iter().map(|(column, cell)| format!("{}={cell:?}", column.name)).collect();
    assert_eq!(all[8..10], ["live_bytes=Integer(130)", "peak_bytes=Integer(100)"]);
    let leaked = played(&DESCRIPTOR, &AnalysisQuery { by: Some("process".to_string()), ..leaks() }, stream);
    assert_eq!(rows(&leaked, &["pid", "blocks", "bytes", "first"]), ["5 1 100 100", "5 1 30 120"]);
}

#[test]
fn a_block_whose_end_was_not_seen_ends_with_the_next_one_at_its_address() {
    let late = "100 0 heap_alloc name=malloc ptr=16 bytes=100 vpid=5 vtid=5
        110 0 heap_alloc name=malloc ptr=16 bytes=7 vpid=5 vtid=6
        120 0 heap_realloc name=realloc old=16 ptr=64 bytes=200 vpid=5 vtid=5
        130 0 heap_free name=free ptr=16 vpid=5 vtid=6";
    // The event of `realloc` comes after another thread got the address.
    let table = played(&DESCRIPTOR, &AnalysisQuery::default(), late);
    let columns = ["allocs", "frees", "unknown_frees", "bytes", "bytes_freed", "live_bytes"];
    assert_eq!(rows(&table, &columns), ["3 2 0 307 107 200"]);
    assert_eq!(table.notes, [("replaced_blocks", 1)]);
    // A free was lost: the thread that has the block now moves it.
    let lost = late.replace("vtid=5\n        130", "vtid=6\n        130");
    let table = played(&DESCRIPTOR, &AnalysisQuery::default(), &lost);
    assert_eq!(rows(&table, &columns), ["3 3 1 307 107 200"]);
}

#[test]
fn sizes_that_no_memory_has_are_no_panic() {
    let stream = format!(
        "100 0 heap_alloc ptr=-16 bytes={0} count={0}
        110 0 heap_alloc ptr=32 bytes=-5
        120 0 heap_free ptr=18446744073709551600
        130 0 heap_realloc old=32 ptr=32",
        i64::MAX
    );
    let table = played(&DESCRIPTOR, &AnalysisQuery::default(), &stream);
    let expected = [format!("- 2 1 {0} {0} 0", u64::MAX)];
    assert_eq!(rows(&table, &["pid", "allocs", "frees", "bytes", "bytes_freed", "live_bytes"]), expected);
    assert_eq!(table.notes, [("bad_fields", 1)]);
}

/// A random stream of calls that never contradict each other, except that frees are lost now and then.
fn random_calls(rng: &mut Rng) -> String {
    let (mut text, mut now) = (String::new(), 100);
    for _ in 0..rng.choose(&[10, 40, 150]) {
        now += 1 + rng.below(9);
        let (pid, thread) = (5 + rng.below(2), rng.below(3));
        let (ptr, old, bytes) = (rng.below(8) * 16, rng.below(8) * 16, rng.below(200));
        let call = match rng.below(9) {
            0..=3 => format!("heap_alloc name=malloc ptr={ptr} bytes={bytes}"),
            4 | 5 => format!("heap_realloc name=realloc old={old} ptr={ptr} bytes={bytes}"),
            6 | 7 => format!("heap_free name=free ptr={ptr}"),
            _ if rng.one_in(3) => {
                let _ = writeln!(text, "{now} 0 exit tid={pid}");
                continue;
            }
            _ => format!("heap_alloc name=calloc ptr={ptr} bytes={bytes} count=2"),
        };
        let _ = writeln!(text, "{now} 0 {call} vpid={pid} vtid={} site={}", 10 * pid + thread, 1 + rng.below(4));
    }
    text
}

/// A block of the second program.
struct KeptBlock {
    life: (String, u32),
    ptr: u64,
    bytes: u64,
    at: Ns,
    until: Option<Ns>,
    tid: String,
    site: String,
    is_shaky: bool,
}

/// The second program: all blocks in a list, with the times of their ends; a block is looked for from the newest one back.
fn kept_blocks(stream: &str) -> (Vec<KeptBlock>, u64) {
    let (mut kept, mut lives): (Vec<KeptBlock>, BTreeMap<String, u32>) = (Vec::new(), BTreeMap::new());
    let mut unknown = 0;
    for line in stream.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let at: Ns = words[0].parse().expect("a time");
        let field = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok());
        if words[2] == "exit" {
            *lives.entry(field("tid").expect("a thread").to_string()).or_default() += 1;
            continue;
        }
        let pid = field("vpid").expect("a process").to_string();
        let life = (pid.clone(), lives.get(&pid).copied().unwrap_or(0));
        let (ptr, old, tid) = (number("ptr").expect("ptr"), number("old"), field("vtid").expect("a thread"));
        let find = |kept: &[KeptBlock], ptr| {
            kept.iter().rposition(|block| block.life == life && block.ptr == ptr && block.until.is_none())
        };
        let bytes = number("bytes").unwrap_or(0) * number("count").unwrap_or(1);
        // The block that the call frees, and whether it makes one.
        let (freed, is_made) = match words[2] {
            "heap_free" => (Some(ptr), false),
            "heap_realloc" if ptr == 0 => (old.filter(|_| bytes == 0), false),
            "heap_realloc" => (old, true),
            _ => (None, ptr != 0),
        };
        if let Some(freed) = freed.filter(|freed| *freed != 0) {
            match find(&kept, freed) {
                Some(found) if is_made && kept[found].is_shaky && kept[found].tid != tid => {
                    kept[found].is_shaky = false
                }
                Some(found) => kept[found].until = Some(at),
                None => unknown += 1,
            }
        }
        if is_made {
            let before = find(&kept, ptr);
            if let Some(before) = before {
                kept[before].until = Some(at);
            }
            let (tid, site) = (tid.to_string(), field("site").expect("a place").to_string());
            let life = life.clone();
            kept.push(KeptBlock { life, ptr, bytes, at, until: None, tid, site, is_shaky: before.is_some() });
        }
    }
    (kept, unknown)
}

fn number(text: &str) -> i128 {
    text.parse().unwrap_or(0)
}

fn total(table: &Table, column: &str) -> i128 {
    rows(table, &[column]).iter().map(|text| number(text)).sum()
}

fn sum<'k>(blocks: impl Iterator<Item = &'k KeptBlock>) -> i128 {
    blocks.map(|block| i128::from(block.bytes)).sum()
}

#[test]
fn sums_are_what_a_list_of_all_blocks_says() {
    for_each_rng(300, |rng| {
        let stream = random_calls(rng);
        let (kept, unknown) = kept_blocks(&stream);
        let begin = 100 + Ns::from(rng.below(400));
        let end = begin + Ns::from(rng.below(400));
        let is_in = |at: Ns| begin <= at && at <= end;
        let lives_at = |block: &&KeptBlock, at: Ns| block.at <= at && block.until.is_none_or(|until| until > at);
        for key in By::NAMES {
            let whole = played(&DESCRIPTOR, &by(key), &stream);
            assert_eq!(total(&whole, "allocs"), kept.len() as i128, "{key}");
            assert_eq!(total(&whole, "unknown_frees"), unknown.into(), "{key}");
            assert_eq!(total(&whole, "bytes"), sum(kept.iter()), "{key}");
            let query = AnalysisQuery { begin: Some(begin), end: Some(end), ..by(key) };
            let part = played(&DESCRIPTOR, &query, &stream);
            assert_eq!(total(&part, "bytes"), sum(kept.iter().filter(|block| is_in(block.at))), "{key}");
            let freed = |block: &&KeptBlock| block.until.is_some_and(is_in);
            assert_eq!(total(&part, "bytes_freed"), sum(kept.iter().filter(freed)), "{key}");
            assert_eq!(total(&part, "live_bytes"), sum(kept.iter().filter(|block| lives_at(block, end))), "{key}");
            let left = played(&DESCRIPTOR, &AnalysisQuery { words: leaks().words, ..query.clone() }, &stream);
            let is_left = |block: &&KeptBlock| is_in(block.at) && lives_at(block, end);
            assert_eq!(total(&left, "bytes"), sum(kept.iter().filter(is_left)), "{key}");
            // The level of each step is what was live at its end.
            let steps = played(&DESCRIPTOR, &AnalysisQuery { step: Some(50), ..by(key) }, &stream);
            for column in ["allocs", "frees", "bytes", "bytes_freed"] {
                assert_eq!(total(&steps, column), total(&whole, column), "{key} {column}");
            }
        }
        let mut places: BTreeMap<(&str, &str), (u64, Ns, Ns)> = BTreeMap::new();
        for block in kept.iter().filter(|block| block.until.is_none()) {
            let of = places.entry((block.life.0.as_str(), block.site.as_str())).or_insert((0, block.at, block.at));
            *of = (of.0 + 1, of.1.min(block.at), of.2.max(block.at));
        }
        let mut found: BTreeMap<(String, String), (u64, Ns, Ns)> = BTreeMap::new();
        for row in rows(&played(&DESCRIPTOR, &leaks(), &stream), &["pid", "place", "blocks", "first", "last"]) {
            let words: Vec<&str> = row.split(' ').collect();
            let (blocks, first, last) = (number(words[2]) as u64, number(words[3]), number(words[4]));
            // A process that ended and a later one of its number have rows of their own.
            let of = found.entry((words[0].to_string(), words[1].to_string())).or_insert((0, first, last));
            *of = (of.0 + blocks, of.1.min(first), of.2.max(last));
        }
        let place = |((pid, site), of): ((&str, &str), _)| ((pid.to_string(), format!("{:#x}", number(site))), of);
        let expected: BTreeMap<(String, String), (u64, Ns, Ns)> = places.into_iter().map(place).collect();
        assert_eq!(found, expected);
        // The most that each process had, and when it had that first.
        let mut peaks: BTreeMap<(&str, u32), (i128, Ns)> = BTreeMap::new();
        for at in kept.iter().map(|block| block.at) {
            for of in kept.iter().map(|block| &block.life) {
                let live = sum(kept.iter().filter(|block| block.life == *of && lives_at(block, at)));
                let peak = peaks.entry((of.0.as_str(), of.1)).or_default();
                if live > peak.0 {
                    *peak = (live, at);
                }
            }
        }
        let mut expected: Vec<String> = peaks
            .into_iter()
            .filter(|(_, (peak, _))| *peak > 0)
            .map(|((pid, _), (peak, at))| format!("{pid} {peak} {at}"))
            .collect();
        let mut found = rows(&played(&DESCRIPTOR, &by("process"), &stream), &["pid", "peak_bytes", "peak"]);
        found.retain(|row| !row.ends_with('-'));
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    });
}

#[test]
fn blocks_are_bounded() {
    let mut stream = String::new();
    for number in 1..=70 {
        let _ = writeln!(stream, "{number} 0 heap_alloc name=malloc ptr={number} bytes=10 vpid=5 vtid=5");
    }
    for (at, ptr) in [(80, 6), (81, 7)] {
        let _ = writeln!(stream, "{at} 0 heap_free name=free ptr={ptr} vpid=5 vtid=5");
    }
    let table = played(&DESCRIPTOR, &AnalysisQuery::default(), &stream);
    assert_eq!(rows(&table, &["allocs", "frees", "unknown_frees", "live", "live_bytes"]), ["70 2 1 69 690"]);
    assert_eq!(table.notes, [("dropped_blocks", 6)]);
}

const RECORDED: &str = "100 0 call_values vtid=5 depth=0 name=main args=1
    110 0 call_values vtid=5 depth=1 name=malloc args=40
    120 0 call_exit vtid=5 depth=1 ret=16
    130 0 call_entry vtid=5 depth=1 name=_Z5stacki
    140 0 call_values vtid=5 depth=2 name=_Znwm args=8
    141 0 call_values vtid=5 depth=3 name=malloc args=8
    142 0 call_exit vtid=5 depth=3 ret=32
    150 0 call_exit vtid=5 depth=2 ret=32
    160 0 call_values vtid=5 depth=2 name=posix_memalign args=7,64,300
    170 0 call_exit vtid=5 depth=2 ret=0
    180 0 call_values vtid=5 depth=2 name=calloc args=3,10
    190 0 call_exit vtid=5 depth=2 ret=0
    200 0 call_exit vtid=5 depth=1
    210 0 call_values vtid=5 depth=1 name=realloc args=16,100
    220 0 call_exit vtid=5 depth=1 ret=64
    230 0 call_values vtid=5 depth=1 name=_ZdlPvm args=32
    231 0 call_values vtid=5 depth=2 name=free args=32
    232 0 call_exit vtid=5 depth=2
    240 0 call_exit vtid=5 depth=1
    250 0 call_entry vtid=5 depth=1 name=malloc
    260 0 call_exit vtid=5 depth=1 ret=96
    270 0 call_values vtid=5 depth=1 name=malloc which=kernel args=1
    280 0 call_exit vtid=5 depth=1 which=kernel ret=112";

#[test]
fn calls_of_a_program_say_what_it_allocates_and_from_where() {
    let columns = ["call", "allocs", "frees", "failed", "bytes", "bytes_freed", "live_bytes"];
    let table = played(&DESCRIPTOR, &by("call"), RECORDED);
    let expected = [
        "realloc 1 1 0 100 40 100",
        "malloc 1 0 0 40 0 0",
        "operator new 1 0 0 8 0 0",
        "calloc 0 0 1 0 0 0",
        "operator delete 0 1 0 0 8 0",
    ];
    assert_eq!(rows(&table, &columns), expected);
    assert_eq!(table.notes, [("unvalued_calls", 1), ("unplaced_blocks", 1)]);
    assert_eq!(table.sentences.len(), 2);
    assert!(table.sentences[0].contains("not recorded: 1; `tracemill record -a`"), "{:?}", table.sentences);
    let columns = ["place", "allocs", "frees", "failed", "bytes"];
    let table = played(&DESCRIPTOR, &by("place"), RECORDED);
    assert_eq!(rows(&table, &columns), ["main 2 1 0 140", "stack 1 1 1 8"]);
    let table = played(&DESCRIPTOR, &by("path"), RECORDED);
    assert_eq!(rows(&table, &["path", "bytes", "live"]), ["main 140 1", "main;stack 8 0"]);
    let left = AnalysisQuery { by: Some("path".to_string()), ..leaks() };
    let table = played(&DESCRIPTOR, &left, RECORDED);
    assert_eq!(rows(&table, &["path", "blocks", "bytes", "first"]), ["main 1 100 220"]);
    // Events of the C library have no paths.
    let table = played(&DESCRIPTOR, &by("path"), CALLS);
    assert!(table.sentences[0].contains("path of calls"), "{:?}", table.sentences);
}

/// A random program of several threads whose calls are recorded, with blocks from one list of addresses; and the same as events
/// of the C library, with the functions that were open as the place.
fn random_recording(rng: &mut Rng) -> (String, String) {
    let (mut calls, mut events, mut now) = (String::new(), String::new(), 100);
    let mut open: [Vec<u64>; 3] = Default::default();
    for _ in 0..rng.choose(&[10, 60, 200]) {
        let thread = rng.below(3);
        let tid = 50 + thread;
        let stack = &mut open[thread as usize];
        let mut line = |what: &str, depth: usize| {
            now += 3;
            let _ = writeln!(calls, "{now} 0 {what} vtid={tid} depth={depth}");
            now
        };
        match rng.below(10) {
            0..=2 if stack.len() < 4 => {
                let function = rng.below(3);
                line(&format!("call_entry name=f{function}"), stack.len());
                stack.push(function);
            }
            // `longjmp` leaves calls without an end.
            3 if !stack.is_empty() => stack.truncate(rng.below(stack.len() as u64) as usize),
            4 if !stack.is_empty() => {
                stack.pop();
                line("call_exit", stack.len());
            }
            _ => {
                let place: Vec<String> = stack.iter().map(|function| format!("f{function}")).collect();
                let place = place.join(";");
                let (ptr, old, bytes) = (rng.below(8) * 16, rng.below(8) * 16, rng.below(200));
                let (name, args, what) = match rng.below(6) {
                    0 | 1 => ("malloc", format!("{bytes}"), format!("heap_alloc ptr={ptr} bytes={bytes}")),
                    2 => ("calloc", format!("2,{bytes}"), format!("heap_alloc ptr={ptr} bytes={bytes} count=2")),
                    3 => {
                        ("realloc", format!("{old},{bytes}"), format!("heap_realloc old={old} ptr={ptr} bytes={bytes}"))
                    }
                    _ => ("free", format!("{ptr}"), format!("heap_free ptr={ptr}")),
                };
                let begin = line(&format!("call_values name={name} args={args}"), stack.len());
                // Calls inside of an allocation are a part of it.
                if rng.one_in(3) {
                    line("call_values name=malloc args=1", stack.len() + 1);
                    line("call_exit ret=48", stack.len() + 1);
                }
                let end = line(
                    &if name == "free" { "call_exit".into() } else { format!("call_exit ret={ptr}") },
                    stack.len(),
                );
                let at = if name == "free" { begin } else { end };
                let _ = writeln!(events, "{at} 0 {what} name={name} vtid={tid} comm={place}; site=1");
            }
        }
    }
    (calls, events)
}

#[test]
fn calls_say_what_events_of_the_library_say() {
    for_each_rng(300, |rng| {
        let (calls, events) = random_recording(rng);
        for key in ["process", "thread", "call"] {
            let columns: &[&str] = match key {
                "process" => {
                    &["allocs", "frees", "unknown_frees", "failed", "bytes", "bytes_freed", "live", "peak_bytes"]
                }
                "thread" => {
                    &["tid", "allocs", "frees", "unknown_frees", "failed", "bytes", "bytes_freed", "live_bytes"]
                }
                _ => &["call", "allocs", "frees", "unknown_frees", "failed", "bytes", "bytes_freed", "live_bytes"],
            };
            let [mut found, mut expected] =
                [&calls, &events].map(|stream| rows(&played(&DESCRIPTOR, &by(key), stream), columns));
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{key}\n{calls}");
        }
        // A place is the last function of the path; the second program adds up what it finds at the end of each line.
        let mut bytes: BTreeMap<String, i128> = BTreeMap::new();
        for line in events.lines() {
            let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            let path = field("comm").expect("a path").trim_end_matches(';').to_string();
            let size = number(field("bytes").unwrap_or("0")) * field("count").map_or(1, number);
            let is_made = field("ptr").is_some_and(|ptr| ptr != "0") && !line.contains("heap_free");
            *bytes.entry(path).or_default() += if is_made { size } else { 0 };
        }
        let table = played(&DESCRIPTOR, &by("path"), &calls);
        let found = rows(&table, &["path", "bytes"]);
        for row in &found {
            let (path, sum) = row.rsplit_once(' ').expect("two columns");
            let path = if path == "-" { "" } else { path };
            assert_eq!(bytes.get(path), Some(&number(sum)), "{path}\n{calls}");
        }
        assert_eq!(total(&table, "bytes"), bytes.values().sum::<i128>());
    });
}
