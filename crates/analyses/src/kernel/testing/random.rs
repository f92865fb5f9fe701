//! Tests: what has to hold for the analyses of any stream of events.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::rc::Rc;

use tracemill_semantics::states::{Machines, Ns, Observer, ThreadIndex};

use crate::kernel::analysis::Descriptor;
use crate::kernel::question::forms::{AnalysisForm, AnalysisOption, FormWord};
use crate::kernel::question::query::{AnalysisQuery, Numbers, View};
use crate::kernel::table::{PeriodOf, Table};
use crate::kernel::testing::played::{play, played, played_per, rows};
use crate::kernel::testing::seeds::{Failed, Rng, seeds};
use crate::kernel::value::Cell;

const TIDS: [i64; 7] = [0, 1, 2, 3, 4, 5, -1];

/// A stream of events, and a time and a later one in it.
pub(crate) struct Stream {
    pub(crate) text: String,
    times: (Ns, Ns),
}

pub(crate) fn random_stream(seed: u64) -> Stream {
    let mut rng = Rng::from_seed(seed);
    let cpus = 1 + rng.below(3);
    let nonsense = rng.choose(&[4, 20, 200]);
    let losses = rng.choose(&[15, 60, 1000]);
    let mut running = vec![0; cpus as usize];
    let mut now: Ns = 1000;
    let mut text = String::new();
    for _ in 0..rng.choose(&[20, 60, 150]) {
        now += if rng.one_in(5) { 0 } else { 1 + Ns::from(rng.below(20)) };
        let back = if rng.one_in(40) { Ns::from(rng.below(20)) } else { 0 };
        let cpu = rng.below(cpus);
        let cur: &mut i64 = &mut running[cpu as usize];
        if rng.one_in(losses) {
            let _ = writeln!(text, "{} {cpu} loss", now + Ns::from(rng.below(50)) - 10);
            continue;
        }
        let tid = rng.choose(&TIDS);
        let number = rng.below(3);
        let event = match rng.below(22) {
            0..=6 => {
                let prev = if rng.one_in(nonsense) { rng.choose(&TIDS) } else { *cur };
                *cur = tid;
                format!(
                    "switch prev={prev} next={tid} state={} prio={}",
                    rng.choose(&[0, 0, 1, 1, 1, 2, 16, 64]),
                    20 + number
                )
            }
            7..=10 => format!("wake tid={tid} cpu={}", rng.below(cpus)),
            11 => {
                let parent = if *cur == 0 { 1 } else { *cur };
                format!("fork parent={parent} child={tid} pid={} ppid=100", 100 + number)
            }
            12 => format!("exit tid={}", if rng.one_in(nonsense) { tid } else { *cur }),
            13 => format!("free tid={tid}"),
            14 | 15 => format!("sys_entry name={}", rng.choose(&["read", "write", "futex"])),
            16 => format!("sys_exit ret={}", rng.choose(&[0, 5, -2])),
            17 => format!("irq_entry nr={number}"),
            18 => format!("irq_exit nr={number}"),
            19 => rng.choose(&["soft_entry nr=1", "soft_entry nr=3", "soft_raise nr=3", "trap_entry"]).to_string(),
            20 => {
                rng.choose(&["soft_exit nr=1", "soft_exit nr=3", "trap_exit", "timer_entry", "timer_exit"]).to_string()
            }
            _ => "-".to_string(),
        };
        let _ = writeln!(text, "{} {cpu} {event}", now - back);
    }
    let length = (now - 1000).max(1) as u64;
    let first = 1000 + Ns::from(rng.below(length));
    let second = first + Ns::from(rng.below(length));
    Stream { text, times: (first, second.min(now)) }
}

/// Runs the seeds; a failure says which one, and shows its stream.
fn for_each_seed(count: u64, case: impl Fn(&Stream)) {
    for seed in seeds(count) {
        let stream = random_stream(seed);
        let hook = Failed(seed, &stream.text);
        case(&stream);
        std::mem::forget(hook);
    }
}

fn by(key: &str) -> AnalysisQuery {
    AnalysisQuery { by: Some(key.to_string()), ..AnalysisQuery::default() }
}

fn known(name: &str) -> &'static Descriptor {
    Descriptor::find(name).expect(name)
}

fn integer(table: &Table, row: &[Cell], column: &str) -> Ns {
    match row[table.column(column).expect(column)] {
        Cell::Integer(value) => value,
        _ => panic!("{column} is not an integer: {row:?}"),
    }
}

/// Sums of columns by what stands in others.
fn sums(tables: &[Table], keys: &[&str], columns: &[&str]) -> BTreeMap<String, Vec<Ns>> {
    let mut sums: BTreeMap<String, Vec<Ns>> = BTreeMap::new();
    for table in tables {
        for (row, key) in table.rows.cells().iter().zip(rows(table, keys)) {
            let sum = sums.entry(key).or_insert_with(|| vec![0; columns.len()]);
            for (sum, column) in sum.iter_mut().zip(columns) {
                *sum += integer(table, row, column);
            }
        }
    }
    sums.retain(|_, sum| sum.iter().any(|part| *part != 0));
    sums
}

const CPU_PARTS: [&str; 6] = ["user_ns", "system_ns", "irq_ns", "softirq_ns", "idle_ns", "unknown_ns"];

#[test]
fn what_cpus_do_adds_up_to_the_range() {
    for_each_seed(200, |stream| {
        let (begin, end) = stream.times;
        let whole = by("cpu");
        let cut = AnalysisQuery { begin: Some(begin), end: Some(end), ..by("cpu") };
        let steps = AnalysisQuery { step: Some(37), ..by("cpu") };
        let steps_of_cut = AnalysisQuery { step: Some(11), ..cut.clone() };
        let mut count = None;
        for query in [whole, cut, steps, steps_of_cut] {
            let table = played(known("cpu"), &query, &stream.text);
            let (begin, end) = table.range.expect("there are events");
            let mut of_cpus: BTreeMap<Ns, Ns> = BTreeMap::new();
            for row in &table.rows.cells() {
                let sum: Ns = CPU_PARTS.iter().map(|part| integer(&table, row, part)).sum();
                if query.step.is_some() {
                    assert_eq!(sum, integer(&table, row, "to") - integer(&table, row, "from"), "{row:?}");
                }
                let task = integer(&table, row, "task_ns");
                assert!((0..=sum).contains(&task), "task_ns of {row:?}");
                *of_cpus.entry(integer(&table, row, "cpu")).or_default() += sum;
            }
            if begin < end {
                of_cpus.values().for_each(|sum| assert_eq!(*sum, end - begin, "{begin}-{end} {query:?}"));
                assert_eq!(*count.get_or_insert(of_cpus.len()), of_cpus.len(), "each CPU has rows");
            }
        }
    });
}

#[test]
fn parts_of_a_range_add_up() {
    let threads = &["time_ns", "user_ns", "system_ns", "irq_ns", "unknown_ns"];
    let cpus = &["task_ns", "user_ns", "system_ns", "irq_ns", "softirq_ns", "idle_ns", "unknown_ns"];
    let of_time: [(&str, &str, &[&str], &[&str]); 5] = [
        ("cpu", "thread", &["tid"], threads),
        ("cpu", "process", &["pid"], threads),
        ("cpu", "cpu", &["cpu"], cpus),
        ("stats", "thread", &["cpu", "tid", "mode"], &["cpu_ns"]),
        ("stats", "trace", &["mode"], &["cpu_ns"]),
    ];
    let of_spans: [(&str, &str, &[&str]); 6] = [
        ("sched", "thread", &["tid"]),
        ("sched", "waker", &["waker"]),
        ("irq", "number", &["kind", "nr"]),
        ("irq", "cpu", &["kind", "nr", "cpu"]),
        ("syscalls", "name", &["name"]),
        ("syscalls", "thread", &["tid", "name"]),
    ];
    for_each_seed(120, |stream| {
        let cut = stream.times.0;
        let parts = |name: &str, query: &AnalysisQuery, next: Ns| {
            let first = AnalysisQuery { end: Some(cut), ..query.clone() };
            let second = AnalysisQuery { begin: Some(next), ..query.clone() };
            [first, second].map(|query| played(known(name), &query, &stream.text))
        };
        for (name, key, keys, columns) in of_time {
            let whole = [played(known(name), &by(key), &stream.text)];
            let parts = parts(name, &by(key), cut);
            assert_eq!(sums(&parts, keys, columns), sums(&whole, keys, columns), "{name} by {key}, cut at {cut}");
        }
        // A span belongs to the part in which it ends, and both parts have their ends.
        for (name, key, keys) in of_spans {
            let columns = &["count", "total_ns"];
            let whole = [played(known(name), &by(key), &stream.text)];
            let parts_of = parts(name, &by(key), cut + 1);
            assert_eq!(sums(&parts_of, keys, columns), sums(&whole, keys, columns), "{name} by {key}, cut at {cut}");
            let log = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
            let whole = played(known(name), &log, &stream.text);
            let rows: Vec<_> = parts(name, &log, cut + 1).into_iter().flat_map(|table| table.rows.cells()).collect();
            assert_eq!(rows, whole.rows.cells(), "spans of {name}, cut at {cut}");
        }
    });
}

/// A stream with requests of disks, objects of the kernel, files and waits for locks between its events.
fn busy_stream(stream: &Stream, seed: u64) -> String {
    let mut rng = Rng(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1);
    let mut text = String::new();
    for line in stream.text.lines() {
        let _ = writeln!(text, "{line}");
        let (head, _) = line.rsplit_once("loss").unwrap_or((line, ""));
        let head: Vec<&str> = head.split(' ').take(2).collect();
        let (sector, pointer, fd) = (rng.below(3), rng.below(4), rng.below(3));
        let cpu = head[1];
        let more = match rng.below(37) {
            0 => format!("rq_insert dev=8 sector={sector} nr_sector=8 rwbs=1"),
            1 | 2 => format!("rq_issue dev=8 sector={sector} nr_sector=8 rwbs=1"),
            3 | 4 => format!("rq_complete dev=8 sector={sector} nr_sector=8 rwbs=1"),
            5 | 6 => format!("slab_alloc ptr={pointer} bytes={} site={sector}", 8 * sector),
            7 => format!("slab_free ptr={pointer}"),
            8 => format!("sys_entry name=futex uaddr={pointer} op={}", rng.choose(&[0, 0, 1])),
            9 => format!("sys_entry name=openat path=/{pointer}"),
            10 => format!("sys_entry name={} fd={fd}", rng.choose(&["read", "close"])),
            11..=14 => format!("sys_exit ret={fd}"),
            15 => format!("work_queue ptr={pointer} function=f{pointer}"),
            16 => format!("work_start ptr={pointer} function=f{pointer}"),
            17 => format!("work_end ptr={pointer}"),
            18 => format!("timer_start name=hrtimer ptr={pointer} expires={}", 10 * sector),
            19 => format!("timer_entry name=hrtimer ptr={pointer} function=f{pointer} now={}", 10 * sector + 5),
            20 => format!("timer_exit name=hrtimer ptr={pointer}"),
            21 | 22 => format!("idle cpu={cpu} state={}", rng.choose(&[0, 1, 2, -1, -1, -1])),
            23 => format!("frequency cpu={cpu} khz={}", 1000 + sector),
            24 | 25 => format!("vm_entry vcpu={cpu}"),
            26 | 27 => format!("vm_exit reason={sector}"),
            28 => format!("cgroup_attach tid={} path=/{sector}", 1 + pointer),
            29 => format!("lock_acquire uaddr={pointer} op={}", rng.choose(&[0, 0, 1, 2])),
            30 => format!("lock_contended uaddr={pointer} name=&lock"),
            31 | 32 => format!("lock_acquired uaddr={pointer}"),
            33 => format!("lock_release uaddr={pointer} name=&lock"),
            34 => format!("contend_begin uaddr={pointer} op=1"),
            35 => format!("contend_end uaddr={pointer} ret=0"),
            _ => continue,
        };
        let _ = writeln!(text, "{} {more}", head.join(" "));
    }
    text
}

/// The form that a question chooses.
fn form_of(known: &Descriptor, query: &AnalysisQuery) -> &'static AnalysisForm {
    known.forms_for(&query.words, query.by.as_deref()).expect("a form")[0]
}

#[test]
fn analyses_about_periods_say_what_they_say_about_their_ranges() {
    let of = |name: &'static str, key: Option<&str>, words: &[FormWord]| {
        let by = key.map(str::to_string);
        let tids = if matches!(name, "path" | "why") { Numbers::parse("1") } else { None };
        (known(name), AnalysisQuery { by, tids, words: words.to_vec(), ..AnalysisQuery::default() })
    };
    let mut of_each = vec![
        of("states", None, &[]),
        of("states", None, &[FormWord::Irqs]),
        of("states", None, &[FormWord::Disks]),
        of("cpu", Some("thread"), &[]),
        of("cpu", Some("cpu"), &[]),
        of("sched", Some("waker"), &[]),
        of("sched", Some("thread"), &[FormWord::Switches]),
        of("timehist", None, &[]),
        of("map", None, &[]),
        of("irq", Some("number"), &[]),
        of("work", Some("function"), &[]),
        of("idle", Some("state"), &[]),
        of("syscalls", Some("thread"), &[]),
        of("io", Some("class"), &[]),
        of("io", Some("file"), &[]),
        of("io", Some("disk"), &[]),
        of("memory", Some("thread"), &[FormWord::Slab]),
        of("memory", Some("site"), &[]),
        of("locks", Some("lock"), &[]),
        of("contention", Some("lock"), &[]),
        of("contention", Some("call"), &[FormWord::Holds]),
        of("contention", Some("taker"), &[]),
        of("offcpu", Some("thread"), &[]),
        of("processes", None, &[]),
        of("processes", None, &[FormWord::Files]),
        of("path", None, &[]),
        of("why", None, &[]),
    ];
    let logs: Vec<_> = of_each.iter().filter(|(known, query)| form_of(known, query).has_spans()).cloned().collect();
    of_each.extend(logs.into_iter().map(|(known, query)| (known, AnalysisQuery { view: View::Log, ..query })));
    let has_steps =
        |known: &Descriptor, query: &AnalysisQuery| form_of(known, query).takes.contains(&AnalysisOption::Step);
    let steps: Vec<_> = of_each
        .iter()
        .filter(|(known, query)| has_steps(known, query) && query.view == View::Statistics)
        .cloned()
        .collect();
    of_each.extend(steps.into_iter().map(|(known, query)| (known, AnalysisQuery { step: Some(23), ..query })));
    let count = std::cell::Cell::new(0);
    for_each_seed(60, |stream| {
        let seed = stream.text.len() as u64;
        let (text, mut rng) = (busy_stream(stream, seed), Rng(seed | 1));
        let whole = played(known("cpu"), &AnalysisQuery::default(), &text).range.expect("there are events");
        let length = (whole.1 - whole.0) as u64 + 1;
        let period = |first: Ns, second: Ns| {
            let (from, to) = (first.min(second), first.max(second));
            Rc::new(PeriodOf { name: String::new(), from, to, tid: None, values: Vec::new() })
        };
        let mut periods: Vec<_> = (0..1 + rng.below(6))
            .map(|_| period(whole.0 + Ns::from(rng.below(length)), whole.0 + Ns::from(rng.below(length))))
            .collect();
        periods.sort_by_key(|period| (period.from, period.to));
        let tables = played_per(&of_each, &periods, &text);
        for (at, table) in tables.iter().enumerate() {
            let (period, (known, query)) = (&periods[at / of_each.len()], &of_each[at % of_each.len()]);
            let query = AnalysisQuery { begin: Some(period.from), end: Some(period.to), ..query.clone() };
            let alone = played(known, &query, &text);
            let shown =
                |table: &Table| (table.rows.cells(), table.all.clone(), table.totals.clone(), table.notes.clone());
            let (from, to) = (period.from, period.to);
            assert_eq!(shown(table), shown(&alone), "{} {query:?} {:?}, {from}-{to}", known.name, query.words);
            count.set(count.get() + table.rows.len());
        }
    });
    assert!(std::env::var_os("TRACEMILL_SEED").is_some() || count.get() > 10_000, "{}", count.get());
}

/// How threads began.
#[derive(Default)]
struct Births {
    born: HashMap<ThreadIndex, Ns>,
    forked: HashMap<ThreadIndex, Ns>,
}

impl Observer for Births {
    fn created(&mut self, _: &Machines, thread: ThreadIndex, at: Ns) {
        self.born.insert(thread, at);
    }

    fn forked(&mut self, _: &Machines, _: Option<ThreadIndex>, child: ThreadIndex, at: Ns) {
        self.forked.insert(child, at);
    }
}

#[test]
fn a_path_covers_the_range() {
    for_each_seed(200, |stream| {
        let mut births = Births::default();
        let machines = play(&stream.text, &mut births);
        for tid in TIDS.into_iter().filter(|tid| *tid != 0) {
            if machines.find_thread(0, tid).is_none() {
                continue;
            }
            let whole = AnalysisQuery { tids: Numbers::parse(&tid.to_string()), ..AnalysisQuery::default() };
            let cut = AnalysisQuery { begin: Some(stream.times.0), end: Some(stream.times.1), ..whole.clone() };
            for query in [whole, cut] {
                let table = played(known("path"), &query, &stream.text);
                let (begin, end) = table.range.expect("there are events");
                // The last life that began in the range or before it. One that follows another one and was never made
                // begins when it is met.
                let lives = machines.threads().filter(|(_, thread)| thread.tid == tid);
                let began = lives.filter(|(life, thread)| thread.life() == 0 || births.born[life] <= end);
                let (thread, _) = began.last().expect("the first life is always one");
                let is_followed = machines.thread(thread).life() > 0 && !births.forked.contains_key(&thread);
                let mut at = if is_followed { begin.max(births.born[&thread].min(end)) } else { begin };
                let first = at;
                for row in &table.rows.cells() {
                    let (from, to) = (integer(&table, row, "from"), integer(&table, row, "to"));
                    assert!(from == at && from < to, "path of {tid}: {from}-{to} after {at}");
                    at = to;
                }
                assert_eq!(at, end, "path of {tid} ends before the range");
                let (columns, totals) = table.totals.as_ref().expect("a path has totals");
                let place = columns.iter().position(|column| column.name == "total_ns").expect("it is there");
                let total: Ns = totals.iter().map(|row| if let Cell::Integer(of) = row[place] { of } else { 0 }).sum();
                assert_eq!(total, end - first, "totals of the path of {tid}");
                // The causes of a thread in a state take the time that the path gives to both.
                let ranged = AnalysisQuery { begin: Some(begin), end: Some(end), ..query.clone() };
                let why = played(known("why"), &ranged, &stream.text);
                let of = |table: &Table| {
                    let (columns, rows) = table.totals.clone().expect("totals");
                    let totals = Table { columns, rows: rows.into(), ..Table::default() };
                    sums(&[totals], &["tid", "state"], &["total_ns"])
                };
                assert_eq!(of(&why), of(&table), "causes on the path of {tid}");
            }
        }
    });
}

#[test]
fn the_map_shows_what_the_states_of_cpus_say() {
    let count = std::cell::Cell::new(0);
    for_each_seed(100, |stream| {
        let of_cpus = AnalysisQuery { words: vec![FormWord::Cpus], ..AnalysisQuery::default() };
        let states = played(known("states"), &of_cpus, &stream.text);
        let mut pieces: BTreeMap<Ns, Vec<(Ns, Ns, Option<Ns>)>> = BTreeMap::new();
        for row in &states.rows.cells() {
            let tid = match row[states.column("tid").expect("tid")] {
                Cell::Integer(tid) => Some(tid),
                _ => None,
            };
            let number = |column: &str| integer(&states, row, column);
            pieces.entry(number("cpu")).or_default().push((number("from"), number("to"), tid));
        }
        let map = played(known("map"), &AnalysisQuery::default(), &stream.text);
        let text = |row: &[Cell], column: &str| match &row[map.column(column).expect(column)] {
            Cell::Text(text) => text.to_string(),
            _ => ".".to_string(),
        };
        let map_rows = map.rows.cells();
        let names: HashMap<_, _> = map_rows.iter().map(|row| (text(row, "short"), integer(&map, row, "tid"))).collect();
        for row in &map_rows {
            let (ns, cpus) = (integer(&map, row, "at_ns"), text(row, "cpus"));
            assert!(cpus.split_whitespace().any(|cell| cell == format!("*{}", text(row, "short"))), "{row:?}");
            for (cell, pieces) in cpus.split_whitespace().zip(pieces.values()) {
                // A thread that no switch of the map ran has no number here.
                let shown = if cell == "-" { Some(None) } else { names.get(cell).copied().map(Some) };
                let Some(shown) = shown else { continue };
                // Other events may have the same time, so that the piece before counts too.
                let mut at = pieces.iter().filter(|(from, to, _)| (*from..=*to).contains(&ns)).peekable();
                let is_short = at.peek().is_none() || at.clone().any(|(from, to, _)| *from == ns || *to == ns);
                assert!(at.any(|(.., tid)| *tid == shown) || is_short, "{cpus} at {ns}: {pieces:?}");
                count.set(count.get() + usize::from(!is_short));
            }
        }
    });
    assert!(std::env::var_os("TRACEMILL_SEED").is_some() || count.get() > 500, "{}", count.get());
}

/// The lines of a stream that have a CPU and a concept, with the time that the machine has then.
fn lines_of(text: &str) -> Vec<(Ns, &str, &str, &str)> {
    let mut now = Ns::MIN;
    text.lines()
        .filter_map(|line| {
            let mut words = line.splitn(4, ' ');
            let (ns, cpu, concept) = (words.next()?.parse::<Ns>().ok()?, words.next()?, words.next()?);
            (concept != "loss").then(|| {
                now = now.max(ns);
                (now, cpu, concept, words.next().unwrap_or_default())
            })
        })
        .collect()
}

#[test]
fn works_are_what_looking_back_from_each_end_finds() {
    let count = std::cell::Cell::new(0);
    for_each_seed(600, |stream| {
        let text = busy_stream(stream, stream.text.len() as u64);
        let lines = lines_of(&text);
        let address = |fields: &str| fields.split(' ').next().unwrap_or_default().to_string();
        let before = |line: usize| {
            let own = address(lines[line].3);
            let is_own = |at: &usize| lines[*at].2.starts_with("work_") && address(lines[*at].3) == own;
            (0..line).rev().filter(is_own).collect::<Vec<_>>()
        };
        let start_of = |end: usize| {
            let last = before(end).into_iter().find(|at| lines[*at].2 != "work_queue");
            last.filter(|at| lines[*at].2 == "work_start")
        };
        let mut expected = Vec::new();
        for end in (0..lines.len()).filter(|at| lines[*at].2 == "work_end") {
            let Some(start) = start_of(end) else { continue };
            // An end whose start was seen says nothing of the next run.
            let last = before(start).into_iter().find(|at| lines[*at].2 != "work_end" || start_of(*at).is_none());
            let queued = last.filter(|at| lines[*at].2 == "work_queue");
            let delay = queued.map_or("-".to_string(), |at| (lines[start].0 - lines[at].0).to_string());
            expected.push(format!("work {} {} {delay}", lines[start].0, lines[end].0));
            count.set(count.get() + usize::from(queued.is_some()));
        }
        let log = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
        let table = played(known("work"), &log, &text);
        let found = rows(&table, &["kind", "from", "to", "delay_ns"]);
        let works: Vec<_> = found.iter().filter(|row| row.starts_with("work ")).cloned().collect();
        assert_eq!(works, expected);
        let softirqs = found.iter().filter(|row| row.starts_with("softirq ")).count();
        let irqs = rows(&played(known("irq"), &log, &text), &["kind"]);
        assert_eq!(softirqs, irqs.iter().filter(|kind| *kind == "softirq").count());
    });
    assert!(std::env::var_os("TRACEMILL_SEED").is_some() || count.get() > 20, "{}", count.get());
}

#[test]
fn times_of_idle_cpus_are_what_their_changes_say() {
    for_each_seed(200, |stream| {
        let text = busy_stream(stream, stream.text.len() as u64);
        let (begin, end) = stream.times;
        for query in [by("cpu"), AnalysisQuery { begin: Some(begin), end: Some(end), ..by("cpu") }] {
            let table = played(known("idle"), &query, &text);
            let (begin, end) = table.range.expect("there are events");
            let mut expected: BTreeMap<Ns, [Ns; 3]> = BTreeMap::new();
            let mut last: BTreeMap<Ns, (Ns, usize)> = BTreeMap::new();
            let lines = lines_of(&text);
            let first = lines.first().map_or(0, |line| line.0);
            let mut add = |cpu: Ns, (from, to): (Ns, Ns), part: usize| {
                expected.entry(cpu).or_default()[part] += (to.min(end) - from.max(begin)).max(0);
            };
            for (at, cpu, concept, fields) in lines {
                let cpu = cpu.parse().expect("a CPU");
                let (since, part) = *last.entry(cpu).or_insert((first, 2));
                if concept == "idle" {
                    add(cpu, (since, at), part);
                    last.insert(cpu, (at, usize::from(fields.ends_with("state=-1"))));
                }
            }
            last.into_iter().for_each(|(cpu, (since, part))| add(cpu, (since, end), part));
            let mut found: BTreeMap<Ns, [Ns; 3]> = BTreeMap::new();
            for row in &table.rows.cells() {
                let parts = ["idle_ns", "active_ns", "unknown_ns"].map(|column| integer(&table, row, column));
                found.insert(integer(&table, row, "cpu"), parts);
            }
            expected.retain(|_, parts| parts.iter().any(|part| *part > 0));
            found.retain(|_, parts| parts.iter().any(|part| *part > 0));
            // CPUs that only a wake names have no events.
            found.retain(|cpu, _| expected.contains_key(cpu));
            assert_eq!(found, expected, "{begin}-{end}");
            let steps = AnalysisQuery { step: Some(13), ..query };
            let columns = &["idle_ns", "active_ns", "unknown_ns", "suspended_ns"];
            let stepped = played(known("idle"), &steps, &text);
            assert_eq!(sums(&[stepped], &["cpu"], columns), sums(&[table], &["cpu"], columns), "steps");
        }
    });
}

#[test]
fn exits_have_the_parts_that_the_states_of_their_threads_say() {
    let count = std::cell::Cell::new([0; 3]);
    for_each_seed(400, |stream| {
        let text = busy_stream(stream, stream.text.len() as u64);
        let of_threads = AnalysisQuery { words: vec![FormWord::Threads], ..AnalysisQuery::default() };
        let states = played(known("states"), &of_threads, &text);
        let log = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
        let table = played(known("vm"), &log, &text);
        for row in &table.rows.cells() {
            let [tid, from, to, length, steal, wait] =
                ["tid", "from", "to", "duration_ns", "steal_ns", "wait_ns"].map(|column| integer(&table, row, column));
            let mut times: BTreeMap<&str, Ns> = BTreeMap::new();
            let states_rows = states.rows.cells();
            for state in states_rows.iter().filter(|row| integer(&states, row, "tid") == tid) {
                let (begin, end) = (integer(&states, state, "from"), integer(&states, state, "to"));
                let Cell::Text(name) = &state[states.column("state").expect("a state")] else { panic!("{state:?}") };
                let name = ["WAIT", "WAIT_CPU"].into_iter().find(|known| *known == &**name).unwrap_or("running");
                *times.entry(name).or_default() += (end.min(to) - begin.max(from)).max(0);
            }
            let time = |name: &str| times.get(name).copied().unwrap_or(0);
            assert_eq!((time("WAIT_CPU"), time("WAIT")), (steal, wait), "{row:?}");
            assert_eq!((times.values().sum::<Ns>(), length), (to - from, to - from), "{row:?}");
            let [rows, steals, waits] = count.get();
            count.set([rows + 1, steals + u64::from(steal > 0), waits + u64::from(wait > 0)]);
        }
    });
    let count = count.get();
    assert!(std::env::var_os("TRACEMILL_SEED").is_some() || count.iter().all(|count| *count > 10), "{count:?}");
}

#[test]
fn control_groups_share_the_time_of_all_threads() {
    for_each_seed(200, |stream| {
        let text = busy_stream(stream, stream.text.len() as u64);
        let (begin, end) = stream.times;
        let whole = AnalysisQuery::default();
        let cut = AnalysisQuery { begin: Some(begin), end: Some(end), ..whole.clone() };
        let steps = AnalysisQuery { step: Some(37), ..cut.clone() };
        for query in [whole, cut, steps] {
            let steps: &[&str] = if query.step.is_some() { &["from"] } else { &[] };
            let of = |name: &str, key: &str, column: &str| {
                sums(
                    &[played(known(name), &AnalysisQuery { by: Some(key.to_string()), ..query.clone() }, &text)],
                    steps,
                    &[column],
                )
            };
            assert_eq!(of("cgroup", "cgroup", "cpu_ns"), of("cpu", "thread", "time_ns"));
            if query.step.is_some() {
                continue;
            }
            let of_threads = AnalysisQuery { words: vec![FormWord::Threads], by: None, ..query.clone() };
            let states = sums(&[played(known("states"), &of_threads, &text)], &["state"], &["duration_ns"]);
            for (state, column) in [("WAIT", "wait_ns"), ("WAIT_CPU", "wait_cpu_ns")] {
                let found = of("cgroup", "container", column).into_values().next();
                assert_eq!(found.as_ref(), states.get(state), "{column}");
            }
        }
    });
}

/// A time without a CPU is a row of `states`, and the thread goes on after it.
#[test]
fn times_off_the_cpu_are_rows_of_states_that_ended() {
    let count = std::cell::Cell::new(0);
    for_each_seed(200, |stream| {
        // No two events have one time: runs without length have no rows.
        let (mut text, mut last) = (String::new(), 0);
        for line in stream.text.lines() {
            let (ns, rest) = line.split_once(' ').expect("a time");
            let ns = 1000 * ns.parse::<Ns>().expect("a time");
            let is_loss = rest.ends_with("loss");
            last = if is_loss { last } else { ns.max(last + 1) };
            let _ = writeln!(text, "{} {rest}", if is_loss { ns.max(last) + 500 } else { last });
        }
        let _ = writeln!(text, "9000000 0 -");
        let of_threads = AnalysisQuery { words: vec![FormWord::Threads], ..AnalysisQuery::default() };
        let states = played(known("states"), &of_threads, &text);
        let mut threads: BTreeMap<Ns, Vec<(Ns, Ns, String)>> = BTreeMap::new();
        for row in &states.rows.cells() {
            let Cell::Text(state) = &row[states.column("state").expect("a state")] else { panic!("{row:?}") };
            let number = |column: &str| integer(&states, row, column);
            threads.entry(number("tid")).or_default().push((number("from"), number("to"), state.to_string()));
        }
        let is_on = |state: &str| state == "EXIT" || state == "INTERRUPTED" || state.starts_with("RUN/");
        // Rows do not say which life of a thread they are of.
        let machines = play(&text, &mut Births::default());
        let lives: Vec<Ns> = machines.threads().filter(|of| of.1.life() > 0).map(|of| of.1.tid.into()).collect();
        threads.retain(|tid, _| !lives.contains(tid));
        let mut expected = Vec::new();
        for (tid, rows) in &threads {
            for (at, (from, to, state)) in rows.iter().enumerate() {
                let next = rows.get(at + 1).filter(|next| next.0 == *to).map_or("", |next| &next.2);
                let goes_on = is_on(next) || next == "WAIT_CPU" && state != "WAIT_CPU";
                if matches!(&**state, "WAIT" | "WAIT_FORK" | "WAIT_CPU") && goes_on {
                    expected.push(format!("{tid} {from} {to}"));
                }
            }
        }
        let log = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
        let mut found = rows(&played(known("offcpu"), &log, &text), &["tid", "from", "to"]);
        let is_of = |row: &str, tid: &Ns| row.split(' ').next() == Some(&*tid.to_string());
        found.retain(|row| !lives.iter().any(|tid| is_of(row, tid)));
        found.sort();
        expected.sort();
        count.set(count.get() + found.len());
        assert_eq!(found, expected);
    });
    assert!(std::env::var_os("TRACEMILL_SEED").is_some() || count.get() > 300, "{}", count.get());
}

/// The column of `timehist` in which the time of a state counts.
fn phase_of(state: &str) -> Option<usize> {
    match state {
        "WAIT" => Some(0),
        "WAIT_CPU" => Some(1),
        "INTERRUPTED" | "EXIT" => Some(2),
        _ => state.starts_with("RUN/").then_some(2),
    }
}

#[test]
fn rows_of_timehist_are_what_the_states_of_threads_add_up_to() {
    let counts = std::cell::Cell::new([0; 3]);
    for_each_seed(200, |stream| {
        let of_threads = AnalysisQuery { words: vec![FormWord::Threads], ..AnalysisQuery::default() };
        let states = played(known("states"), &of_threads, &stream.text);
        let states: Vec<_> = states
            .rows
            .cells()
            .into_iter()
            .map(|row| {
                let number = |column: &str| integer(&states, &row, column);
                let Cell::Text(state) = &row[states.column("state").expect("a state")] else { panic!("{row:?}") };
                (number("tid"), number("from"), number("to"), phase_of(state))
            })
            .collect();
        let table = played(known("timehist"), &AnalysisQuery::default(), &stream.text);
        let mut left: BTreeMap<(Ns, &str), Ns> = BTreeMap::new();
        for row in &table.rows.cells() {
            let value = |column: &str| match row[table.column(column).expect(column)] {
                Cell::Integer(value) => Some(value),
                _ => None,
            };
            let (tid, out) = (integer(&table, row, "tid"), integer(&table, row, "out_ns"));
            let parts = ["wait_ns", "delay_ns", "running_ns"].map(value);
            // A time is compared as far as all times after it are known.
            let first = (0..3).find(|first| parts[*first..].iter().all(Option::is_some));
            if let Some(first) = first {
                let parts = &parts[first..];
                let from = out - parts.iter().flatten().sum::<Ns>();
                let mut sums = [0; 3];
                for (_, begin, end, phase) in states.iter().filter(|(own, ..)| *own == tid) {
                    let length = (*end).min(out) - (*begin).max(from);
                    if let Some(phase) = phase.filter(|_| length > 0) {
                        sums[phase] += length;
                    }
                }
                assert_eq!(sums[first..], *parts.iter().flatten().copied().collect::<Vec<_>>(), "{row:?}");
                let mut all = counts.get();
                all[first] += 1;
                counts.set(all);
            }
            let Cell::Text(how) = &row[table.column("left").expect("left")] else { panic!("{row:?}") };
            let hows = ["preempted", "blocked"].into_iter().filter(|known| *known == &**how);
            hows.for_each(|how| *left.entry((tid, how)).or_default() += 1);
        }
        // There is a row for each switch out.
        let query = AnalysisQuery { words: vec![FormWord::Switches], ..by("thread") };
        let switches = played(known("sched"), &query, &stream.text);
        let mut expected: BTreeMap<(Ns, &str), Ns> = BTreeMap::new();
        for row in &switches.rows.cells() {
            for how in ["preempted", "blocked"] {
                *expected.entry((integer(&switches, row, "tid"), how)).or_default() += integer(&switches, row, how);
            }
        }
        expected.retain(|_, count| *count > 0);
        assert_eq!(left, expected);
    });
    let counts = counts.get();
    assert!(std::env::var_os("TRACEMILL_SEED").is_some() || counts.iter().all(|count| *count > 100), "{counts:?}");
}
