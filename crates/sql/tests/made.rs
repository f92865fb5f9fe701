//! Queries of traces that are made for them: what headers promise and events break, pairs that nest, members of structures.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use tracemill_engine::check::{Severity, check};
use tracemill_engine::session::{OpenOptions, Session};
use tracemill_engine::source::FileSystem;
use tracemill_engine::timeline::Selection;
use tracemill_formats::FORMATS;
use tracemill_sql::database::Database;
use tracemill_sql::output::{Form, TableFormat, Writer};
use tracemill_sql::query::{MemoryLimits, Queries};

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.c.value; } := stamp_t;
stream {
    packet.context := struct {
        stamp_t timestamp_begin; stamp_t timestamp_end; uint64_t content_size; uint64_t packet_size;
    };
    event.header := struct { uint16_t id; stamp_t timestamp; };
};
event { name = "in"; id = 0; fields := struct { uint32_t lane; struct { uint32_t a; uint64_t b; } s; }; };
event { name = "out"; id = 1; fields := struct { uint32_t lane; struct { uint32_t a; uint64_t b; } s; }; };
"#;

/// An event: is it an `out`, its time, its lane, a number.
type Made = (bool, u64, u32, u64);

/// A trace of one stream, by packets: their times, their events.
struct Trace(PathBuf);

impl Trace {
    fn new(name: &str, packets: &[((u64, u64), Vec<Made>)]) -> Trace {
        let path = std::env::temp_dir().join(format!("tracemill-sql-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        fs::write(path.join("metadata"), METADATA).expect("metadata");
        let mut bytes = Vec::new();
        for ((begin, end), events) in packets {
            let mut body = Vec::new();
            for (is_out, time, lane, number) in events {
                body.extend(u16::from(*is_out).to_le_bytes());
                body.extend(time.to_le_bytes());
                body.extend(lane.to_le_bytes());
                body.extend((*number as u32).to_le_bytes());
                body.extend(number.to_le_bytes());
            }
            let bits = 8 * (32 + body.len() as u64);
            [*begin, *end, bits, bits].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            bytes.extend(body);
        }
        fs::write(path.join("stream"), bytes).expect("a stream");
        Trace(path)
    }

    fn session(&self) -> Session {
        Session::open(&FileSystem, std::slice::from_ref(&self.0), &OpenOptions::new(FORMATS)).expect("it opens")
    }

    fn queries(&self, jobs: usize) -> Queries {
        let database = Database::new(self.session(), &[], Selection::default(), None, jobs).expect("all streams");
        Queries::new(database, MemoryLimits { memory_bytes: 1 << 30, spills: false }).expect("threads")
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The rows of an answer, as CSV.
fn asked(queries: &mut Queries, sql: &str) -> Vec<String> {
    let mut writer = Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None);
    queries.run(sql, &mut writer).unwrap_or_else(|failure| panic!("{sql}: {failure:?}"));
    let bytes = writer.finish().expect("memory takes all").expect("it is given back");
    String::from_utf8(bytes).expect("a text").lines().skip(1).map(str::to_string).collect()
}

/// Packets of so many events each, one ns after the other.
fn packets(count: u64, events: u64) -> Vec<((u64, u64), Vec<Made>)> {
    let packet = |at: u64| {
        let times = at * events..(at + 1) * events;
        ((times.start, times.end - 1), times.map(|time| (time % 3 == 0, time, (time % 5) as u32, time)).collect())
    };
    (0..count).map(packet).collect()
}

#[test]
fn times_that_contradict_their_headers_are_sorted() {
    let mut made = packets(12, 3000);
    // In the last packet, long after the first rows would have left.
    made[11].1[1500].1 = 7;
    let trace = Trace::new("order", &made);
    let mut expected: Vec<u64> = made.iter().flat_map(|(_, events)| events.iter().map(|event| event.1)).collect();
    expected.sort_unstable();
    let expected: Vec<String> = expected.iter().map(u64::to_string).collect();
    for jobs in [1, 3] {
        let mut queries = trace.queries(jobs);
        assert!(asked(&mut queries, "select ns from events order by ns") == expected, "with {jobs} jobs");
        let small = asked(&mut queries, "select ns from events order by ns limit 20000");
        assert!(small == expected[..20000], "with {jobs} jobs and a limit");
    }
}

#[test]
fn a_packet_inside_of_which_time_goes_back_is_sorted_where_it_is_read() {
    let mut made = packets(6, 9000);
    // Far apart, so that they are decoded at different times; and neighbours, with one of equal time.
    made[1].1.swap(3, 8990);
    made[4].1.swap(10, 11);
    made[4].1[12].1 = made[4].1[13].1;
    let trace = Trace::new("turned", &made);
    let mut all: Vec<Made> = made.into_iter().flat_map(|(_, events)| events).collect();
    // Events of one time stay as they are written.
    all.sort_by_key(|event| event.1);
    let rows: Vec<String> = all.iter().map(|event| format!("{},{},{}", event.1, event.2, event.3)).collect();
    let sql = "select ns, field(payload, 'lane') as lane, field(payload, 's.b') as b from events order by ns";
    let chosen = "select ns, lane, s['b'] as b from \"in\" where lane <> 2 order by ns";
    let of_lane: Vec<String> = (all.iter().filter(|event| !event.0 && event.2 != 2))
        .map(|event| format!("{},{},{}", event.1, event.2, event.3))
        .collect();
    for jobs in [1, 3] {
        let mut queries = trace.queries(jobs);
        assert!(asked(&mut queries, sql) == rows, "with {jobs} jobs");
        assert!(asked(&mut queries, chosen) == of_lane, "with {jobs} jobs and a condition");
        let plan = asked(&mut queries, &format!("explain analyze {sql}")).join("\n");
        assert!(!plan.contains("SortExec") && plan.contains("output_ordering=[ns@"), "{plan}");
    }
    // Between packets it is the plan that sorts.
    let mut made = packets(40, 100);
    made[39].1[50].1 = 3_510;
    let mut queries = Trace::new("turned-away", &made).queries(1);
    let plan = asked(&mut queries, "explain analyze select ns from events order by ns").join("\n");
    assert!(plan.contains("SortExec"), "{plan}");
}

#[test]
fn rows_that_share_time_are_paired() {
    let mut queries = Trace::new("overlap", &packets(1, 10)).queries(2);
    // Of both sides rows that overlap each other, that touch, without time, without an end; and equal names.
    let views = "create view a as select * from (values (10, 10, 1, 'x', 1), (12, 3, 1, 'y', 2), (15, 100, 2, 'z', 3), (null, 5, 1, 'n', 4), \
                 (20, null, 1, 'm', 5), (30, 0, 1, 'o', 6), (19, 2, null, 'k', 7)) as t(ns, dur, k, name, n); \
                 create view b as select * from (values (0, 11, 1, 'p', 1), (14, 1, 1, 'q', 2), (20, 5, 1, 'r', 3), (18, 1, 2, 's', 4), \
                 (19, 1, null, 't', 5)) as t(ns, dur, k, name, n)";
    queries.run(views, &mut Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None)).expect("views");
    let sql = "select ns, dur, k, name, name_2, n, n_2 from overlap('a', 'b', 'k') order by ns, name";
    assert_eq!(asked(&mut queries, sql), ["10,1,1,x,p,1,1", "14,1,1,x,q,1,2", "14,1,1,y,q,2,2", "18,1,2,z,s,3,4"]);
    let sql = "select ns, dur, name, name_2, k, k_2 from overlap('a', 'b') where n <> 7 order by ns, name, name_2";
    let rows = [
        "10,1,x,p,1,1",
        "14,1,x,q,1,1",
        "14,1,y,q,1,1",
        "18,1,x,s,1,2",
        "18,1,z,s,2,2",
        "19,1,x,t,1,",
        "19,1,z,t,2,",
        "20,5,z,r,2,1",
    ];
    assert_eq!(asked(&mut queries, sql), rows);
    assert_eq!(asked(&mut queries, "select count(*), sum(dur) from overlap('b', 'a') o"), ["10,14"]);
    assert_eq!(asked(&mut queries, "select count(overlap.ns), sum(\"overlap\".dur) from OVERLAP('b', 'a')"), ["10,14"]);
    // Keys that are NULL throughout, of no kind, too.
    let views = "create view e as select ns, dur, null as k from a; create view f as select ns, dur, null as k from b";
    queries.run(views, &mut Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None)).expect("views");
    assert_eq!(asked(&mut queries, "select ns from overlap('e', 'f', 'k')"), [""; 0]);
    assert_eq!(asked(&mut queries, "select name from overlap('a', 'b', 'name, k')"), [""; 0]);
    // Keys of other kinds, and of any.
    queries
        .run("create view c as select ns, dur, cast(k as double) as k, [name] as names from b; create view d as select ns, dur, \
              k, ['q'] as names from a", &mut Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None))
        .expect("views");
    assert_eq!(
        asked(&mut queries, "select ns, k from overlap('a', 'c', 'k') order by ns, name"),
        ["10,1", "14,1", "14,1", "18,2"]
    );
    assert_eq!(
        asked(&mut queries, "select ns, names from overlap('c', 'd', 'names, k') order by ns"),
        ["14,\"[\"\"q\"\"]\""; 2]
    );
    // Half a ns would be none.
    let half = "create view h as select ns, cast(dur as double) / 2 as dur, k from a";
    queries.run(half, &mut Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None)).expect("a view");
    let refused = queries
        .run("select ns from overlap('b', 'h', 'k')", &mut Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None));
    let refused = format!("{:?}", refused.expect_err("times with fractions"));
    assert!(refused.contains("`dur` of `h` is a floating-point number"), "{refused}");
    let plan = asked(&mut queries, "explain select count(*) from overlap('a', 'b', 'k')").join("\n");
    assert!(plan.contains("OverlapExec: keys=1") && !plan.contains("JoinExec"), "{plan}");
}

/// Many rows, few of which are open at a time, in little memory; and the pairs are those of a join.
#[test]
fn pairs_of_long_tables_need_room_for_open_rows_only() {
    let trace = Trace::new("overlap-long", &packets(1, 10));
    let database = Database::new(trace.session(), &[], Selection::default(), None, 2).expect("all streams");
    let mut queries = Queries::new(database, MemoryLimits { memory_bytes: 24 << 20, spills: false }).expect("threads");
    let views = "create view a as select value as ns, value % 7 + 1 as dur, value % 5 as k from generate_series(1, 300000); \
                 create view b as select value * 3 as ns, value % 11 as dur, value % 5 as k from generate_series(1, 100000)";
    queries.run(views, &mut Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None)).expect("views");
    let pairs = asked(&mut queries, "select count(*), sum(dur), min(ns), max(ns), sum(k) from overlap('a', 'b', 'k')");
    // By hand: for each row of b the rows of a around it.
    let (mut count, mut shared, mut first, mut last, mut keys) = (0u64, 0u64, u64::MAX, 0, 0);
    for value in 1..=100_000u64 {
        let (ns, dur) = (value * 3, value % 11);
        for other in (ns.saturating_sub(7).max(1)..ns + dur).filter(|&other| other <= 300_000 && other % 5 == value % 5)
        {
            let (begin, end) = (ns.max(other), (ns + dur).min(other + other % 7 + 1));
            if begin < end {
                (count, shared, keys) = (count + 1, shared + end - begin, keys + value % 5);
                (first, last) = (first.min(begin), last.max(begin));
            }
        }
    }
    assert_eq!(pairs, [format!("{count},{shared},{first},{last},{keys}")]);
}

#[test]
fn rows_that_were_read_are_not_counted_again() {
    let trace = Trace::new("counted", &packets(9, 500));
    for jobs in [1, 3] {
        let mut queries = trace.queries(jobs);
        for (table, rows) in [("events", 4500), ("\"in\"", 3000)] {
            let count = format!("select count(*) from {table}");
            let reads = |queries: &mut Queries| {
                asked(queries, &format!("explain {count}")).join("\n").contains("DataSourceExec")
            };
            // Not all rows are read, or it is not known how many there are.
            asked(&mut queries, &format!("select ns from {table} limit 5"));
            asked(&mut queries, &format!("select count(*) from {table} where ns = 1"));
            assert!(reads(&mut queries), "{table}");
            assert_eq!(asked(&mut queries, &count), [rows.to_string()]);
            assert!(!reads(&mut queries), "{table}");
            assert_eq!(asked(&mut queries, &count), [rows.to_string()]);
            assert_eq!(
                asked(&mut queries, &format!("select count(*) from {table} where ns < 3")),
                [(rows / 1500).to_string()]
            );
        }
    }
}

#[test]
fn pairs_nest_in_lanes() {
    let times = [
        (false, 10, 1, 1),
        (false, 12, 1, 2),
        (false, 13, 2, 3),
        (true, 15, 1, 0),
        (true, 20, 1, 0),
        (true, 24, 2, 0),
        (true, 25, 1, 0),
        (false, 30, 1, 4),
    ];
    let mut queries = Trace::new("nested", &[((10, 30), times.to_vec())]).queries(2);
    let sql = "select ns, dur, self, depth, b from nested_pairs('in', 'out', 's.b', 'lane') order by ns";
    assert_eq!(asked(&mut queries, sql), ["10,10,7,0,1", "12,3,3,1,2", "13,11,11,0,3"]);
    // One lane: the stream.
    let sql = "select ns, dur, self, depth, lane from nested_pairs('in', 'out', 'lane') order by ns";
    assert_eq!(asked(&mut queries, sql), ["10,14,6,0,1", "12,8,6,1,1", "13,2,2,2,2"]);
}

#[test]
fn a_row_knows_how_much_grew_since_the_one_before() {
    let mut queries = Trace::new("since", &packets(3, 4000)).queries(2);
    let sql = "select count(*), sum(d), min(d), max(d), count(d) from (select since_last(ns) over (order by ns) as d from events)";
    assert_eq!(asked(&mut queries, sql), ["12000,11999,1,1,11999"]);
    let sql = "select a, since_last(cast(a as bigint unsigned)) over (order by n), since_last(b) over (order by n) from \
               (values (1, 18446744073709551615, 1), (2, 18446744073709551610, 2), (3, null, 3), (4, 7, 4)) as t(n, a, b) order by n";
    let rows = ["18446744073709551615,,", "18446744073709551610,-5,1", ",,1", "7,,1"];
    assert_eq!(asked(&mut queries, sql), rows);
    let sql = "select since_last(b) over (partition by a % 2 order by b) as d from (values (1, 1), (1, 4), (2, 9)) as t(a, b) order by d";
    assert_eq!(asked(&mut queries, sql), ["3", "", ""]);
}

#[test]
fn of_a_structure_only_what_is_named_is_decoded() {
    let trace = Trace::new("members", &packets(2, 10));
    let mut queries = trace.queries(1);
    let explained = |queries: &mut Queries, sql: &str| asked(queries, &format!("explain {sql}")).join("\n");
    let sql = "select sum(s['b']), max(s.b) from \"in\" where s['a'] > 3";
    let plan = explained(&mut queries, sql);
    assert!(plan.contains("fields=[payload.s.b], filter=payload.s.a > 3"), "{plan}");
    assert!(!plan.contains("FilterExec"), "{plan}");
    let wanted: Vec<u64> = (4..20).filter(|time| time % 3 != 0).collect();
    assert_eq!(asked(&mut queries, sql), [format!("{},19", wanted.iter().sum::<u64>())]);
    let sql = "select s, s.a from \"in\" limit 1";
    assert_eq!(asked(&mut queries, sql), [r#""{""a"": 1, ""b"": 1}",1"#]);
}

#[test]
fn conditions_leave_no_filter_and_times_leave_packets_out() {
    let mut queries = Trace::new("plans", &packets(10, 100)).queries(2);
    for (condition, packets, rows) in [
        ("ns >= 150 and ns < 350", 3, 200),
        ("ns in (5, 305)", 4, 2),
        ("ns < 50 or (ns between 120 and 130 and name = 'in')", 2, 57),
        ("ns = 7 or ns = 12.5", 10, 1),
        ("not (ns < 850)", 2, 150),
        ("cpu = 1 or id is null", 10, 0),
        ("cycles > 989.5", 10, 10),
        ("id = 1.0 and name like 'o%'", 10, 334),
        ("name not like '_n'", 10, 334),
        ("name in ('in', 'none')", 10, 666),
        ("field(payload, 'lane') & 1 = 1 and not (field(payload, 's.b') > 100)", 10, 40),
        ("field(payload, 'lane') is distinct from 3", 10, 800),
        ("ns is null", 10, 0),
    ] {
        let plan = asked(&mut queries, &format!("explain select count(*) from events where {condition}")).join("\n");
        assert!(!plan.contains("FilterExec"), "{condition}: {plan}");
        assert!(plan.contains(&format!("packets={packets}/10")), "{condition}: {plan}");
        let sql = format!("select count(*) from events where {condition}");
        assert_eq!(asked(&mut queries, &sql), [rows.to_string()], "{condition}");
    }
}

#[test]
fn what_was_counted_is_not_read_again() {
    let mut queries = Trace::new("counted", &packets(4, 500)).queries(2);
    let plan = |queries: &mut Queries, sql: &str| asked(queries, &format!("explain {sql}")).join("\n");
    assert!(plan(&mut queries, "select count(*) from events").contains("file_type=trace"));
    assert_eq!(asked(&mut queries, "select events from traces"), ["2000"]);
    for (sql, rows) in [("events", 2000), ("\"out\"", 667), ("(select * from events limit 10)", 10)] {
        let sql = format!("select count(*) from {sql}");
        assert_eq!(plan(&mut queries, &sql).contains("file_type=trace"), rows == 10, "{sql}");
        assert_eq!(asked(&mut queries, &sql), [rows.to_string()], "{sql}");
    }
    let mut nothing = Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None);
    queries.run("set datafusion.explain.show_statistics = true", &mut nothing).expect("a setting");
    let said = plan(&mut queries, "select ns from events where cycles > 3");
    assert!(said.contains("Min=Inexact(Int64(0)) Max=Inexact(Int64(1999))"), "{said}");
    // A condition must be decided.
    assert_eq!(asked(&mut queries, "select count(*) from events where ns < 100"), ["100"]);
    assert_eq!(asked(&mut queries, "select count(*) from events where name = 'in'"), ["1333"]);
}

#[test]
fn a_plan_that_ran_says_what_it_read() {
    let mut queries = Trace::new("metrics", &packets(4, 500)).queries(1);
    let plan =
        asked(&mut queries, "explain analyze select sum(lane) from \"in\" where ns >= 500 and s.b < 1000").join("\n");
    for metric in ["packets_read=3", "bytes_read=", "events_scanned=", "events_matched=333", "fields_decoded="] {
        assert!(plan.contains(metric), "{metric}: {plan}");
    }
}

#[test]
fn faults_are_those_of_check_and_other_rows_are_there() {
    let trace = Trace::new("faults", &packets(4, 100));
    let file = trace.0.join("stream");
    let mut bytes = fs::read(&file).expect("it was written");
    // The 50th event of the second packet gets an id that no class has.
    let at = bytes.len() / 4 + 32 + 50 * 26;
    bytes[at..at + 2].fill(0xee);
    fs::write(&file, bytes).expect("it is written again");
    let mut expected = 0;
    check(&trace.session(), 1, |finding| {
        expected += usize::from(finding.severity == Severity::Fault);
        true
    });
    assert!(expected > 0);
    let mut queries = trace.queries(2);
    assert_eq!(
        asked(&mut queries, "select count(*), count(reason), count(file) from faults"),
        [format!("{expected},{expected},{expected}")]
    );
    assert_eq!(asked(&mut queries, "select count(*) from events"), ["350"]);
    assert_eq!(asked(&mut queries, "select events from traces"), ["350"]);
    // Counts of what is damaged are no facts.
    assert!(asked(&mut queries, "explain select count(*) from events").join("").contains("file_type=trace"));
}

#[test]
fn files_of_json_lines_are_tables() {
    let trace = Trace::new("lines", &packets(1, 10));
    let mut queries = trace.queries(1);
    for name in ["costs.jsonl", "costs.ndjson"] {
        let path = trace.file(name);
        fs::write(Path::new(&path), "{\"lane\":1,\"cost\":2.5}\n{\"lane\":2,\"cost\":4}\n").expect("a file");
        let sql = format!("select sum(c.cost) from events e join '{path}' c on field(e.payload, 'lane') = c.lane");
        assert_eq!(asked(&mut queries, &sql), ["13.0"]);
    }
}

#[test]
fn fields_are_read_behind_views_joins_and_subqueries() {
    let queries = &mut Trace::new("field", &packets(2, 10)).queries(2);
    let mut nothing = Writer::new(Form::Text(TableFormat::Csv), Vec::new(), None);
    let view = "create view v as select ns, name, payload from events where name = 'in'";
    queries.run(view, &mut nothing).expect("a view");
    for (sql, rows) in [
        ("select sum(field(payload, 's.b')) from v", "127"),
        ("select max(field(x.payload, 'lane')) from (select payload from v order by ns limit 3) x", "4"),
        ("select count(*) from v a join v b on field(a.payload, 's.b') = field(b.payload, 's.b')", "13"),
        ("select sum(field(a.payload, 's.b')) from v a left join v b on a.ns = b.ns where b.ns < 10", "27"),
        ("select sum(x) from (select field(payload, 's.b') as x from v union all select 1)", "128"),
        ("select count(*) from events group by field(payload, 'lane') having min(field(payload, 's.b')) = 4", "4"),
    ] {
        assert_eq!(asked(queries, sql), [rows], "{sql}");
    }
    let none = HashMap::new();
    assert!(queries.prepare("select field(payload, 'nothing') from v", &none).is_err());
}
