//! `tracemill sql` and `tracemill query`, on the traces of `demo/`.

mod util;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use util::command;

/// Result of a run of the program.
struct Run {
    status: i32,
    stdout: String,
    stderr: String,
}

/// Runs the program with these words, in the folder above the demo, and gives it bytes to read.
fn run_with(words: &[&str], input: &[u8]) -> Run {
    let mut command = command();
    command.args(words).current_dir(root()).env_remove("XDG_CONFIG_HOME").env("HOME", "/nonexistent");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A program that reads nothing may be over before this.
    let _ = child.stdin.take().expect("it is a pipe").write_all(input);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Run { status: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn run(words: &[&str]) -> Run {
    run_with(words, b"")
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn demo(trace: &str) -> String {
    format!("demo/{trace}")
}

#[cfg(not(feature = "sql"))]
#[test]
fn a_program_without_sql_says_how_to_get_one() {
    for command in ["sql", "query"] {
        let output = run(&[command, &demo("traces/mill"), "select 1"]);
        assert_eq!((output.status, output.stdout.as_str()), (1, ""));
        assert!(output.stderr.contains("--features sql") && output.stderr.lines().count() == 2, "{}", output.stderr);
    }
}

#[cfg(feature = "sql")]
mod asked {
    use std::collections::BTreeMap;
    use std::path::Path;

    use serde_json::Value;

    use super::util::Folder;
    use super::{demo, root, run, run_with};

    /// The rows of an answer as objects.
    fn rows(words: &[&str]) -> Vec<Value> {
        let output = run(&[&["sql", "-q", "--format", "jsonl"], words].concat());
        assert_eq!(output.status, 0, "{words:?}: {}", output.stderr);
        output.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn lines(trace: &str) -> Vec<Value> {
        let output = run(&["print", "-q", "--format", "jsonl", trace]);
        assert_eq!(output.status, 0, "{}", output.stderr);
        output.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    const TRACES: [&str; 7] = [
        "traces/mill",
        "traces/orders",
        "traces/losses",
        "traces/overwritten",
        "logs/belt.cpel",
        "logs/dock.elog",
        "calls/tasting",
    ];

    #[test]
    fn samples_and_their_stacks_are_tables() {
        let trace = demo("samples");
        let rows = |sql: &str| -> Vec<Vec<String>> {
            let output = run(&["query", &trace, sql]);
            assert_eq!(output.status, 0, "{}", output.stderr);
            output.stdout.lines().skip(1).map(|line| line.split(',').map(str::to_string).collect()).collect()
        };
        // Samples of functions are those of `report`.
        let report = run(&["report", &trace, "--format", "json"]);
        let report: Value = serde_json::from_str(&report.stdout).expect("an object");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let mut own: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for function in report["functions"].as_array().expect("a list") {
            let number = |key: &str| function[key].as_u64().unwrap_or_default();
            let key = (text(&function["event"]), text(&function["name"]));
            own.insert(key, (number("self_samples"), number("total_samples")));
        }
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let mut found: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for row in rows("select event, function, count(*) from samples group by 1, 2") {
            found.entry((row[0].clone(), row[1].clone())).or_default().0 = number(&row[2]);
        }
        let all =
            "select event, k.function, count(distinct sample) from samples join stacks k using (stack) group by 1, 2";
        for row in rows(all) {
            found.entry((row[0].clone(), row[1].clone())).or_default().1 = number(&row[2]);
        }
        assert!(found.len() > 10);
        assert_eq!(found, own);
        // The times of events, and what narrows them.
        let events = "select count(*) from samples s join events e on s.ns = e.ns and s.event = e.name";
        assert!(number(&rows(events)[0][0]) >= 84);
        assert_eq!(rows("select count(*) from samples where event = 'sched_switch'"), [["54"]]);
        let narrowed = run(&["query", "--filter", "name == \"sched_switch\"", &trace, "select count(*) from samples"]);
        assert_eq!(narrowed.stdout, "count(*)\n54\n");
        assert_eq!(rows("select sample, function from samples order by sample limit 1"), [["0", "__schedule"]]);
        assert_eq!(rows("select min(level), count(distinct stack) = max(stack) + 1 from stacks"), [["0", "true"]]);
        let none = run(&["query", &demo("calls/tasting"), "select count(*) from samples, stacks"]);
        assert_eq!(none.stdout, "count(*)\n0\n");
    }

    #[test]
    fn tables_hold_the_events_of_the_lines() {
        for name in TRACES {
            let trace = &demo(name);
            let lines = lines(trace);
            for jobs in ["1", "4"] {
                let count = rows(&["-j", jobs, trace, "-c", "select count(*) as n from events"]);
                assert_eq!(count[0]["n"], lines.len(), "{name}");
            }
            let all = rows(&[trace, "-c", "select * from events"]);
            let by_time = rows(&[trace, "-c", "select ns from events order by ns"]);
            let scopes = ["header", "packet_context", "stream_context", "event_context", "payload"];
            assert_eq!(all.len(), lines.len());
            let mut classes: BTreeMap<&str, Vec<(usize, &Value)>> = BTreeMap::new();
            for (number, (line, row)) in lines.iter().zip(&all).enumerate() {
                assert_eq!(row["event"], number);
                // In one stream that goes back in time the order is not that of the times.
                for key in ["ns", "cycles", "name", "id", "stream", "cpu"] {
                    assert_eq!(row[key], line[key], "{name} {number} {key}");
                }
                for scope in scopes {
                    let text = row[scope].as_str().map(|text| serde_json::from_str(text).expect("JSON"));
                    assert_eq!(text.unwrap_or(Value::Null), line[scope], "{name} {number} {scope}");
                }
                if let Some(class) = line["name"].as_str() {
                    classes.entry(class).or_default().push((number, line));
                }
            }
            let mut times: Vec<i64> = lines.iter().filter_map(|line| line["ns"].as_i64()).collect();
            times.sort_unstable();
            assert_eq!(by_time.iter().filter_map(|row| row["ns"].as_i64()).collect::<Vec<_>>(), times, "{name}");
            let tables = rows(&[trace, "-c", "select \"table\" from classes"]);
            // Events of a log without definitions have names that no class has.
            let has_table = |class: &str| tables.iter().any(|row| row["table"] == class);
            for (class, events) in classes.into_iter().filter(|(class, _)| has_table(class)) {
                let rows = rows(&[trace, "-c", &format!("select * from event.\"{class}\"")]);
                assert_eq!(rows.len(), events.len(), "{name} {class}");
                for (row, (number, line)) in rows.iter().zip(events) {
                    assert_eq!(row["event"], number, "{name} {class}");
                    for (field, value) in line["payload"].as_object().into_iter().flatten() {
                        let own = row.get(format!("payload_{field}")).unwrap_or(&row[field]);
                        let value = value.get("value").unwrap_or(value);
                        assert!(own == value || own.is_string() || own.is_object(), "{class}.{field}: {own} {value}");
                    }
                }
            }
        }
    }

    #[test]
    fn times_and_filters_of_the_command_line_narrow_all_tables() {
        let trace = &demo("traces/mill");
        let words = ["--begin", "+20ms", "--filter", "payload.grinder == 1"];
        let printed = run(&[&["print", "-q", "--format", "jsonl", trace], &words[..]].concat()).stdout.lines().count();
        let asked = rows(&[&words[..], &[trace, "-c", "select count(*) as n from events"]].concat());
        assert!(printed > 0);
        assert_eq!(asked[0]["n"], printed);
    }

    #[test]
    fn every_form_holds_the_answer() {
        let trace = &demo("traces/mill");
        let sql = "select 1 as n, 'a,\"b\"' as text, arrow_cast(NULL, 'Int64') as nothing";
        let form = |form: &str| run(&["sql", "--format", form, trace, "-c", sql]).stdout;
        assert_eq!(form("csv"), "n,text,nothing\n1,\"a,\"\"b\"\"\",\n");
        assert_eq!(form("jsonl"), "{\"n\":1,\"text\":\"a,\\\"b\\\"\",\"nothing\":null}\n");
        assert_eq!(form("json"), "[{\"n\":1,\"text\":\"a,\\\"b\\\"\",\"nothing\":null}]\n");
        assert_eq!(form("markdown"), "| n | text | nothing |\n| --- | --- | --- |\n| 1 | a,\"b\" |  |\n");
        assert_eq!(form("table"), "n  text   nothing\n-  -----  -------\n1  a,\"b\"\n");
        let folder = Folder::new();
        for ending in ["parquet", "arrow", "csv", "json"] {
            let path = folder.path(&format!("out.{ending}")).to_string_lossy().into_owned();
            let output = run(&["sql", trace, "-o", &path, "-c", "select name, ns from events"]);
            assert_eq!((output.status, output.stdout.as_str()), (0, ""), "{}", output.stderr);
            assert!(Path::new(&path).is_file());
            let count = format!("select count(*) as n, count(distinct name) as names from '{path}'");
            if ending != "json" {
                let of_trace = rows(&[trace, "-c", "select count(*) as n, count(distinct name) as names from events"]);
                assert_eq!(rows(&["-c", &count]), of_trace, "{ending}");
            }
        }
        let two = run(&["sql", trace, "--format", "json", "-c", "select 1; select 2"]);
        assert_eq!(two.status, 2);
        let twice = run(&[
            "sql",
            "--format",
            "jsonl",
            "-c",
            "select x.a, y.a from (select 1 as a) x cross join (select 2 as a) y",
        ]);
        assert_eq!(twice.stdout, "{\"a\":1,\"a_2\":2}\n", "{}", twice.stderr);
    }

    #[test]
    fn a_table_shows_some_rows_and_says_how_many_are_left() {
        let output =
            run(&["sql", "--format", "table", "--rows", "2", &demo("traces/mill"), "-c", "select ns from events"]);
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert_eq!(lines.len(), 5, "{}", output.stdout);
        assert!(lines[4].ends_with("more rows; `--rows all` shows them)"), "{}", lines[4]);
    }

    #[test]
    fn errors_are_words_with_a_mark() {
        let trace = &demo("traces/mill");
        let wrong = |sql: &str| {
            let output = run(&["sql", trace, "-c", sql]);
            assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{sql}");
            output.stderr
        };
        let text = wrong("select gram from \"mill:grind\"");
        let wanted = "error: there is no column `gram` in \"mill:grind\" (line 1, column 8)\n  | select gram from \"mill:grind\"\n  \
            |        ^^^^\n  did you mean `grams`? Its columns are in `describe \"mill:grind\"`\n";
        assert_eq!(text, wanted);
        assert!(wrong("select *\nfrm events").contains("(line 2, column"));
        assert!(wrong("select * from \"mill:grin\"").contains("did you mean \"mill:grind\"?"));
        assert!(wrong("select field(payload, 'gram') from events").contains("did you mean `grams`?"));
        assert!(wrong("select * from events where ns > $low").contains("-p low=VALUE"));
        assert!(wrong("create view events as select 1").contains("another name"));
        assert!(wrong("select bucket(ns, 'soon') from events").contains("not a width"));
        let output = run(&["sql", trace, "-c", "select 1 / (id - id) from events"]);
        assert_eq!(output.status, 1);
        assert!(output.stderr.contains("division by zero"), "{}", output.stderr);
        for text in ["x", "select (((", "select * from", "'", "select \u{1}", "$", "explain explain select 1", ";;"] {
            let output = run(&["sql", trace, "-c", text]);
            assert!(output.status < 3 && !output.stderr.contains("panicked"), "{text}: {}", output.stderr);
        }
    }

    #[test]
    fn texts_come_from_arguments_files_and_stdin_in_their_order() {
        let folder = Folder::new();
        let path = folder.path("two.sql").to_string_lossy().into_owned();
        std::fs::write(&path, "-- a view\ncreate view two as select 2 as n;\nselect n from two")
            .expect("it is written");
        let words =
            ["sql", "--format", "jsonl", "-c", "select 1 as n", "-f", &path, "-c", "select n + 1 as n from two"];
        assert_eq!(run(&words).stdout, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
        assert_eq!(run_with(&["sql", "--format", "csv"], b"select 4 as n").stdout, "n\n4\n");
        assert_eq!(run(&["query", &demo("traces/mill"), "select 5 as n"]).stdout, "n\n5\n");
        assert_eq!(run(&["sql", "-p", "a=7", "-p", "b=x", "-c", "select $a as a, $b as b"]).stdout, "a,b\n7,x\n");
    }

    #[test]
    fn saved_queries_run() {
        let (mill, calls, orders) = (&demo("traces/mill"), &demo("calls/tasting"), &demo("traces/orders"));
        let top = rows(&[mill, "--run", "top-events"]);
        let by_name = rows(&[mill, "-c", "select name, count(*) as n from events group by name order by n desc, name"]);
        assert_eq!(
            top.iter().map(|row| &row["name"]).collect::<Vec<_>>(),
            by_name.iter().map(|row| &row["name"]).collect::<Vec<_>>()
        );
        let slow = rows(&[calls, "--run", "slow-calls"]);
        assert!(!slow.is_empty() && slow.windows(2).all(|two| two[0]["dur"].as_i64() >= two[1]["dur"].as_i64()));
        let hot = rows(&[calls, "--run", "hot-threads"]);
        let own = rows(&[calls, "-c", "select sum(self) as own from calls"]);
        let sum: i64 = hot.iter().filter_map(|row| row["self_ns"].as_i64()).sum();
        assert_eq!(own[0]["own"], sum);
        let words = ["-p", "from=orders:taken", "-p", "to=orders:sent", "-p", "by=payload.id"];
        let latency = rows(&[&[orders.as_str(), "--run", "latency"][..], &words].concat());
        let report = [
            "report",
            orders,
            "--from",
            "orders:taken",
            "--to",
            "orders:sent",
            "--by",
            "payload.id",
            "--format",
            "json",
        ];
        let report: Value = serde_json::from_str(&run(&report).stdout).expect("JSON");
        let pairs: u64 =
            report["groups"].as_array().expect("groups").iter().filter_map(|group| group["count"].as_u64()).sum();
        assert_eq!(latency[0]["pairs"], pairs, "{report}");
        let gaps = rows(&[mill, "--run", "gaps"]);
        let mut times: Vec<i64> = lines(mill).iter().filter_map(|line| line["ns"].as_i64()).collect();
        times.sort_unstable();
        let longest = times.windows(2).map(|two| two[1] - two[0]).max().expect("there are two");
        assert_eq!(gaps[0]["dur"], longest);
        let rates = rows(&[mill, "--run", "rates", "-p", "width=1ms"]);
        assert_eq!(rates.iter().filter_map(|row| row["events"].as_u64()).sum::<u64>(), times.len() as u64);
        let losses = rows(&[&demo("traces/losses"), "--run", "losses"]);
        assert!(losses.iter().any(|row| row["lost"].as_u64() > Some(0)), "{losses:?}");
        let list = run(&["sql", "--run", "list"]).stdout;
        assert!(list.lines().count() >= 7 && list.contains("top-events     How many"), "{list}");
        assert_eq!(run(&["sql", mill, "--run", "nothing"]).status, 2);
    }

    #[test]
    fn samples_of_a_text_have_these_rows() {
        let folder = Folder::new();
        let main = "\t          401200 main+0x20 (/usr/bin/app)\n\n";
        let add = "\t          401136 add+0x6 (/usr/bin/app)\n";
        let page = "\tffffffff81000010 do_page+0x10 ([kernel.kallsyms])\n";
        let text = format!(
            "app  100/101  [002]     1.000001000:      10000 cycles: \n{add}{main}\
             app  100/102  [003]     1.000002000:      30000 cycles: \n{page}{add}{main}\
             app  100/101  [002]     1.000003000:      20000 cycles: \n{add}{main}\
             app  100/102  [003]     1.000004000:          7 faults: \n{main}"
        );
        folder.file("s.txt", text);
        let trace = &folder.path("s.txt").to_string_lossy().into_owned();
        let csv = |options: &[&str], query: &str| {
            let output = run(&[&["sql", "-q", "--format", "csv", trace, "-c", query], options].concat());
            assert_eq!(output.status, 0, "{query}: {}", output.stderr);
            output.stdout
        };
        let samples =
            "select sample, ns, event, weight, unit, cpu, pid, tid, thread, stack, function, module from samples";
        let stacks = "select stack, level, function, module, kernel from stacks";
        assert_eq!(
            csv(&[], samples),
            "sample,ns,event,weight,unit,cpu,pid,tid,thread,stack,function,module\n\
             0,1000001000,cycles,10000,events,2,100,101,app,0,add,app\n\
             1,1000002000,cycles,30000,events,3,100,102,app,1,do_page,[kernel.kallsyms]\n\
             2,1000003000,cycles,20000,events,2,100,101,app,0,add,app\n\
             3,1000004000,faults,7,events,3,100,102,app,2,main,app\n"
        );
        assert_eq!(
            csv(&[], stacks),
            "stack,level,function,module,kernel\n\
             0,0,add,app,false\n0,1,main,app,false\n\
             1,0,do_page,[kernel.kallsyms],true\n1,1,add,app,false\n1,2,main,app,false\n\
             2,0,main,app,false\n"
        );
        // Stacks are numbered among the selected samples.
        let late = ["--begin", "1.000004"];
        assert_eq!(csv(&late, "select ns, stack, weight from samples"), "ns,stack,weight\n1000004000,0,7\n");
        assert_eq!(csv(&late, stacks), "stack,level,function,module,kernel\n0,0,main,app,false\n");
        let faults = ["--filter", "name == \"faults\""];
        assert_eq!(csv(&faults, "select ns, stack from samples"), "ns,stack\n1000004000,0\n");
        assert_eq!(csv(&["--filter", "cpu == 3"], "select count(*) as n from samples"), "n\n2\n");
        assert_eq!(csv(&[], "select sum(weight) as n from samples where tid = 101"), "n\n30000\n");
    }

    #[test]
    fn damage_is_told_and_the_rest_is_answered() {
        let folder = Folder::new();
        let trace = folder.path("trace");
        folder.copy_of("mill", "trace");
        let stream = std::fs::read_dir(&trace).expect("a folder").flatten().map(|entry| entry.path());
        let stream = stream
            .filter(|path| !path.ends_with("metadata"))
            .max_by_key(|path| path.metadata().map_or(0, |of| of.len()));
        let stream = stream.expect("a stream");
        let bytes = std::fs::read(&stream).expect("it can be read");
        std::fs::write(&stream, &bytes[..bytes.len() - bytes.len() / 3]).expect("it can be written");
        let trace = &trace.to_string_lossy().into_owned();
        let printed = run(&["print", "--format", "jsonl", trace]);
        let output = run(&["sql", "--format", "csv", trace, "-c", "select count(*) as n from events"]);
        assert_eq!((printed.status, output.status), (3, 3), "{}", output.stderr);
        assert_eq!(output.stdout, format!("n\n{}\n", printed.stdout.lines().count()));
        assert_eq!(run(&["sql", "--strict", trace, "-c", "select count(*) from events"]).status, 1);
    }

    #[test]
    fn sums_of_integers_are_exact_or_an_error() {
        let large = "(values (9223372036854775807, 1), (1, 1), (-5, 2), (NULL, 2)) t(x, g)";
        let output = run(&["sql", "-c", &format!("select sum(x) as s from {large} where g = 1")]);
        assert_eq!((output.status, output.stdout.as_str()), (1, ""));
        assert!(output.stderr.contains("leaves 64 bits"), "{}", output.stderr);
        let asked = |sql: &str| rows(&["-c", sql])[0].to_string();
        assert_eq!(asked(&format!("select sum(x) as s, avg(x) as m from {large} where x < 9")), r#"{"s":-4,"m":-2.0}"#);
        let sliding = format!(
            "select sum(x) over (order by x rows between 1 preceding and current row) as s from {large} where x < 9 order by s"
        );
        assert_eq!(
            rows(&["-c", &sliding]).iter().map(|row| row["s"].as_i64()).collect::<Vec<_>>(),
            [Some(-5), Some(-4)]
        );
        let difference = "select arrow_cast(1, 'UInt64') - arrow_cast(2, 'UInt64') as d";
        assert_eq!(asked(difference), r#"{"d":-1}"#);
    }

    #[test]
    fn what_memory_has_no_room_for_is_an_error_where_nothing_may_be_written() {
        let sql =
            "select a.value as x from generate_series(1, 300000) a order by a.value % 7, a.value limit 1 offset 299999";
        let words = ["sql", "--memory", "1M", "--spill", "none", "-c", sql];
        let output = run(&words);
        assert_eq!(output.status, 1, "{}", output.stdout);
        assert!(output.stderr.contains("memory"), "{}", output.stderr);
    }

    /// Each question of the page, with the answer that stands below it.
    #[test]
    fn the_questions_of_the_page_are_answered_as_it_says() {
        let page =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md")).expect("a page");
        let mut asked = 0;
        for block in page.split("```console\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            let (command, answer) = block.split_once('\n').expect("an answer below the command");
            let command = command.strip_prefix("$ tracemill ").expect("a command");
            let output = std::process::Command::new("bash")
                .args(["-c", &format!("\"$0\" {command}"), env!("CARGO_BIN_EXE_tracemill")])
                .current_dir(root())
                .output()
                .expect("it runs");
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert_eq!(stdout, answer, "{command}\n{}", String::from_utf8_lossy(&output.stderr));
            asked += 1;
        }
        assert!(asked >= 10, "{asked} questions");
    }
}
