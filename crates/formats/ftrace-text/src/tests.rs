//! Whole texts: what they become, and what is reported of damaged ones.

use tracemill_format::testing::{OneFile, events_of, shown};
use tracemill_format::{Format, OpenTrace};
use tracemill_model::error::Error;
use tracemill_model::packet::Gap;
use tracemill_model::schema::Scope;

fn open(text: &str) -> OpenTrace {
    open_as(&super::FORMAT, text)
}

fn open_as(format: &Format, text: &str) -> OpenTrace {
    let file = OneFile::new(text);
    for other in [&super::FORMAT, &super::PERF_SCRIPT] {
        assert_eq!(file.is_of(other), other.names == format.names, "{text}");
    }
    file.open_as(format).expect("a trace")
}

/// The result of reading: a line for each event, stream after stream.
struct Read {
    lines: Vec<String>,
    faults: Vec<String>,
    warnings: Vec<String>,
    gaps: Vec<Gap>,
}

fn read(text: &str) -> Read {
    read_trace(&open(text))
}

fn read_trace(trace: &OpenTrace) -> Read {
    let messages = |errors: &[Error]| errors.iter().map(|error| error.message().to_string()).collect();
    let (faults, warnings) = (messages(&trace.faults), messages(&trace.warnings));
    let mut read = Read { lines: Vec::new(), faults, warnings, gaps: Vec::new() };
    for stream in &trace.streams {
        for index in 0..stream.packets.len() {
            let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).expect("a packet");
            read.gaps.extend(opened.gaps);
            let (chunk, range) = (events_of(opened.data), stream.packets.at(index));
            for at in 0..chunk.len() {
                let event = chunk.event(at);
                let time = event.cycles();
                assert!(range.begin_cycles <= Some(time) && Some(time) <= range.end_cycles, "{time} in {range:?}");
                let name = trace.schema.event(event.class()).name.clone().unwrap_or_default();
                let values = |scope| event.values(scope).expect("whole").map_or(String::new(), |of| shown(&of));
                let (header, payload) = (values(Scope::EventHeader), values(Scope::Payload));
                read.lines.push(format!("{} {time} {name} | {header} | {payload}", stream.name));
            }
        }
    }
    read
}

#[test]
fn a_report_of_trace_cmd_has_typed_fields() {
    let read = read(include_str!("../fixtures/report.txt"));
    assert_eq!((read.lines.len(), read.faults.len(), read.warnings.len()), (27, 0, 0));
    let want = [
        "cpu0 1103816263000 sched_switch | common_pid=17988 common_comm=\"bash\" | prev_comm=\"bash\" prev_pid=17988 \
         prev_prio=120 prev_state=1 next_comm=\"bash\" next_pid=17993 next_prio=120",
        "cpu1 1103824031000 sched_wakeup | common_pid=17491 common_comm=\"cpelinreg-fix\" | comm=\"rcu_preempt\" pid=15 \
         prio=120 target_cpu=0",
        "cpu0 1103816714000 sys_enter_openat | common_pid=17993 common_comm=\"uftrace\" | dfd=4294967196 \
         filename=139944349405361 flags=524288 mode=0",
    ];
    for line in want {
        assert!(read.lines.iter().any(|own| own == line), "{line}\n{}", read.lines.join("\n"));
    }
}

#[test]
fn lines_of_tracefs_have_flags_and_processes() {
    let read = read(
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: 6/9   #P:4\n#\n\
         #           TASK-PID    TGID   CPU#  |||||  TIMESTAMP  FUNCTION\n\
         \x20          <...>-17   (-----) [001] d..2.     5.000001: sched_waking: comm=kworker/u8:1 pid=18 prio=120 target_cpu=001\n\
         \x20   Web Content-17   (   12) [001] dNh3.     5.000002: sys_read(fd: 3, buf: 7f00, count: a)\n\
         \x20   Web Content-17   (   12) [001] .....     5.000003: sys_read -> 0xfffffffffffffff2\n\
         \x20   Web Content-17   (   12) [001] .....     5.000004: sys_enter: NR 0 (3, 7f00, a, 0, 0, ffffffffffffffff)\n\
         \x20   Web Content-17   (   12) [001] .....     5.000005: tracing_mark_write: B|12|a: b\n\
         \x20   Web Content-17   (   12) [001] .....     5.000006: irq_handler_exit: irq=5 ret=handled\n",
    );
    let head = |flags, depth, comm: &str| {
        format!("common_flags={flags} common_preempt_count={depth} common_pid=17 common_comm=\"{comm}\" tgid=12")
    };
    let want = [
        format!(
            "cpu1 5000001000 sched_waking | {} | comm=\"kworker/u8:1\" pid=18 prio=120 target_cpu=1",
            head(1, 2, "")
        ),
        format!("cpu1 5000002000 sys_enter_read | {} | fd=3 buf=32512 count=10", head(45, 3, "Web Content")),
        format!("cpu1 5000003000 sys_exit_read | {} | ret=-14", head(0, 0, "Web Content")),
        format!("cpu1 5000004000 sys_enter | {} | id=0 args=[3 32512 10 0 0 {}]", head(0, 0, "Web Content"), u64::MAX),
        format!("cpu1 5000005000 print | {} | ip=\"tracing_mark_write\" buf=\"B|12|a: b\"", head(0, 0, "Web Content")),
        format!("cpu1 5000006000 irq_handler_exit | {} | irq=5 ret=1", head(0, 0, "Web Content")),
    ];
    assert_eq!(read.lines, want);
    assert_eq!(read.warnings, ["3 of 9 events were overwritten before the text was made"]);
}

#[test]
fn lines_of_several_instances_name_theirs() {
    let lines = read(
        "mine:            <...>-8021  [001]  1.0: x: a=1\n                      bash-7     [000]  1.1: x: a=2\n\
         mine:      kworker/0:1-9     [000]  1.2: x: a=3\n",
    );
    let want = [
        "cpu0 1100000000 x | common_pid=7 common_comm=\"bash\" instance=\"\" | a=2",
        "cpu0 1200000000 x | common_pid=9 common_comm=\"kworker/0:1\" instance=\"mine\" | a=3",
        "cpu1 1000000000 x | common_pid=8021 common_comm=\"\" instance=\"mine\" | a=1",
    ];
    assert_eq!(lines.lines, want);
}

#[test]
fn stacks_and_texts_go_on_in_the_next_lines() {
    let read = read(
        "  a-1 [000] .... 1.1: <stack trace>\n => f\n => g (ffff)\n\
         \x20 a-1 [000] .... 1.2: tracing_mark_write: one\ntwo\n\n\
         \x20 a-1 [000] 1.3: kernel_stack:         <stack trace >\n=> h\n\
         \x20 a-1 [000] .... 1.4: f.part.0 <-g\n\
         \x20 a-1 [000] 1.5: function:             f <-- g\n",
    );
    let tails: Vec<&str> = read.lines.iter().filter_map(|line| line.split("| ").nth(2)).collect();
    let want = [
        "caller=[\"f\" \"g (ffff)\"]",
        "ip=\"tracing_mark_write\" buf=\"one\\ntwo\"",
        "caller=[\"h\"]",
        "ip=\"f.part.0\" parent_ip=\"g\"",
        "ip=\"f\" parent_ip=\"g\"",
    ];
    assert_eq!(tails, want);
    assert!(read.faults.is_empty(), "{:?}", read.faults);
}

#[test]
fn losses_are_gaps_of_their_cpu() {
    let read = read(
        "a-1 [000] 1.1: x: a=1\nCPU:0 [LOST 5 EVENTS]\nb-2 [001] 1.2: x: a=2\na-1 [000] 1.3: x: a=3\n\
         CPU:1 [EVENTS DROPPED]\nCPU:2 [LOST 7 EVENTS]\n",
    );
    let gap = |gap: &Gap| (gap.count, gap.begin_cycles, gap.end_cycles);
    let gaps: Vec<_> = read.gaps.iter().map(gap).collect();
    assert_eq!(
        gaps,
        [(Some(5), Some(1_100_000_000), Some(1_300_000_000)), (None, Some(1_200_000_000), Some(1_200_000_000))]
    );
    assert_eq!(read.warnings, ["7 events of CPU 2 were lost, and none of it are in the text"]);
}

#[test]
fn calls_of_function_graph_are_two_events() {
    let lines = read(
        "# tracer: function_graph\n#\n# CPU  DURATION                  FUNCTION CALLS\n\
         \x200)   bash-7    =>   idle-0   \n ------------------------------------------\n\n\
         \x20 0)               |  f() {\n 0)   1.500 us    |    g();\n 0)   4.000 us    |  } /* f */\n",
    );
    let want = [
        "cpu0 0 funcgraph_entry | common_pid=0 common_comm=\"idle\" | symbol=\"f\" depth=0",
        "cpu0 0 funcgraph_entry | common_pid=0 common_comm=\"idle\" | symbol=\"g\" depth=1",
        "cpu0 1500 funcgraph_exit | common_pid=0 common_comm=\"idle\" | symbol=\"g\" depth=1 duration=1500",
        "cpu0 4000 funcgraph_exit | common_pid=0 common_comm=\"idle\" | symbol=\"f\" depth=0 duration=4000",
    ];
    assert_eq!(lines.lines, want);
    assert_eq!(lines.warnings, ["lines have no time: it follows from how long calls took"]);
    let of_trace_cmd = read(
        "a-1 [000] 1.000001: funcgraph_entry:                   |  f() {\n\
         a-1 [000] 1.000002: funcgraph_entry:        1.500 us   |    g();\n\
         a-1 [000] 1.000003: funcgraph_exit:         2.000 us   |  }\n",
    );
    let want = [
        "cpu0 1000001000 funcgraph_entry | common_pid=1 common_comm=\"a\" | symbol=\"f\" depth=0",
        "cpu0 1000002000 funcgraph_entry | common_pid=1 common_comm=\"a\" | symbol=\"g\" depth=1",
        "cpu0 1000003000 funcgraph_exit | common_pid=1 common_comm=\"a\" | symbol=\"g\" depth=1 duration=1500",
        "cpu0 1000003000 funcgraph_exit | common_pid=1 common_comm=\"a\" | depth=0 duration=2000",
    ];
    assert_eq!(of_trace_cmd.lines, want);
}

#[test]
fn damage_is_reported_and_left_out() {
    let read = read(
        "a-1 [000] 1.1: x: a=1\nthis is not a line\na-1 [000] 1.2: x: a=\0\na-1 [000] 12: x: a=1\n\
         a-1 [000] 1.3: x: a=one b=2\na-1 [000] 1.4: x\na-1 [000] 1.5: y: just text\na-1 [000] 1.6: x: a=tw",
    );
    let want = [
        "line 2: it is not a line of ftrace; the line is skipped",
        "line 3: a zero byte is in it; the line is skipped",
        "line 4: its time is not of the form of the times before it; the line is skipped",
    ];
    assert_eq!(read.faults, want);
    let tails: Vec<&str> =
        read.lines.iter().filter_map(|line| line.split(" | common_pid=1 common_comm=\"a\" | ").nth(1)).collect();
    assert_eq!(tails, ["a=\"1\"", "a=\"one\" b=2", "text=\"x\"", "text=\"just text\"", "a=\"tw\""]);
}

#[test]
fn texts_of_many_slices_are_read_whole() {
    let mut text = String::new();
    for at in 0..40_000u32 {
        text += &format!(
            "task-{} [{:03}] {}.{:06}: x: number={at} text=some words\n",
            at % 7,
            at % 3,
            at / 1000,
            at % 1000
        );
    }
    assert!(text.len() > 2 << 20);
    let read = read(&text);
    let mut numbers: Vec<u32> = read
        .lines
        .iter()
        .map(|line| {
            let number = line.split("number=").nth(1).expect("a number").split(' ').next().expect("digits");
            number.parse().expect("digits")
        })
        .collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..40_000));
}

#[test]
fn other_texts_are_not_taken() {
    let texts = [
        "",
        "hello\n",
        "# a comment\nhello\n",
        "swapper     0 [000]  4716.524031: cycles:\n",
        "{\"ns\":1}\n",
        "a-1 [000] x\n",
        "the task 7/9 4716.524031:    250000 cpu-clock:u: \n",
        "1) one | two\n",
    ];
    for text in texts {
        assert!(!OneFile::new(text).is_of(&super::FORMAT), "{text}");
    }
}

#[test]
fn pages_of_systrace_hold_a_text() {
    let page = |texts: &str| format!("<!DOCTYPE html>\n<html><script>var a;</script>\n{texts}</html>\n");
    let text = |text: &str| format!("  <script class=\"trace-data\" type=\"application/text\">\n{text}\n  </script>\n");
    let lines = "# tracer: nop\n#\n  hwc-336   [000] 50260.929925: 0: C|124|VSYNC|1\nnot a line";
    let read = read(&page(&(text("{\"traceEvents\":[]}") + &text(lines) + &text(lines))));
    assert_eq!(
        read.lines,
        ["cpu0 50260929925000 print | common_pid=336 common_comm=\"hwc\" | ip=\"0\" buf=\"C|124|VSYNC|1\""]
    );
    assert_eq!(read.faults, ["line 4: it is not a line of ftrace; the line is skipped"]);
    assert_eq!(read.warnings, ["the page holds 2 texts of ftrace, of which the first is read"]);
    let file = OneFile::new(page(&text("{}")));
    assert!(!file.is_of(&super::FORMAT));
}

#[test]
fn lines_of_perf_script_are_samples_and_events_of_the_kernel() {
    let text = "# hostname : x\n#\n\
        sh 7/8 [001] 1.500000:     250000 cpu-clock: \n\
        \tffffffff816dfdb6 __d_lookup+0x56 ([kernel.kallsyms])\n\
        \t           1462a f(int, int)+0xa (/lib/ld so)\n\n\
        a b 9 [000] 1.600000: sched:sched_switch: prev_comm=a b prev_pid=9 prev_prio=120 prev_state=S ==> \
        next_comm=sh next_pid=8 next_prio=120\n\
        a b 9 [000] 1.700000: sched:sched_switch: prev_comm=a b prev_pid=9 prev_prio=120 prev_state=R+ ==> \
        next_comm=sh next_pid=8 next_prio=120\n\
        \tffffffff81415d70 schedule+0x180 ([kernel.kallsyms])\n\
        \n\
        c 5 1.800000:          1 cycles:u:      7f00 g(int)+0x2 (/bin/c)\n\
        not a line\n\
        c 5 1.900000:          1 cycles:u:      0\n";
    let trace = open_as(&super::PERF_SCRIPT, text);
    let read = read_trace(&trace);
    assert_eq!(read.faults, ["line 12: it is not a line of `perf script`; the line is skipped"]);
    let names: Vec<&str> = trace.streams.iter().map(|stream| stream.name.as_str()).collect();
    assert_eq!(names, ["cpu0", "cpu1", "timed"]);
    for line in &read.lines {
        println!("{line}");
    }
    assert!(!read.lines.is_empty());
}
