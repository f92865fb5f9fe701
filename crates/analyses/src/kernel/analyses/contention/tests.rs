//! Tests of waits for locks and of holds.

use std::collections::BTreeMap;
use std::rc::Rc;

use tracemill_semantics::states::Ns;

use super::DESCRIPTOR;
use crate::kernel::analysis::Descriptor;
use crate::kernel::matrix::Matrix;
use crate::kernel::question::forms::FormWord;
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::table::PeriodOf;
use crate::kernel::testing::played::{played, played_per, rows};
use crate::kernel::testing::random::random_stream;
use crate::kernel::testing::seeds::seeds;
use crate::kernel::value::Cell;

/// Two threads wait for a lock of 5, which 9 keeps from its CPU.
const CONVOY: &str = "100 0 dump_task tid=5 pid=4 mode=0 status=5
    100 0 dump_task tid=6 pid=4 mode=0 status=5
    100 0 dump_task tid=7 pid=4 mode=0 status=5
    100 0 switch prev=0 next=5 prio=30
    110 1 switch prev=0 next=6 prio=10
    120 1 sys_entry name=futex uaddr=64 op=0
    130 1 switch prev=6 next=7 state=1 prio=20
    140 1 sys_entry name=futex uaddr=64 op=0
    150 1 switch prev=7 next=0 state=1
    160 0 switch prev=5 next=9 state=0 prio=25
    200 0 switch prev=9 next=5 state=1 prio=30
    210 0 sys_entry name=futex uaddr=64 op=1
    220 0 wake tid=6 cpu=1
    230 0 sys_exit ret=1
    240 1 switch prev=0 next=6 prio=10
    250 1 sys_exit ret=0
    260 0 wake tid=7 cpu=1
    270 1 switch prev=6 next=7 state=1 prio=20
    280 1 sys_exit ret=0
    300 1 -";

fn log(stream: &str) -> Vec<String> {
    let query = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
    let columns = ["kind", "lock", "tid", "from", "to", "at_once", "releaser", "to_release_ns", "inverted_ns"];
    rows(&played(&DESCRIPTOR, &query, stream), &columns)
}

#[test]
fn waits_have_releasers_convoys_and_inversions() {
    // Thread 5 wakes 7 outside of a call that releases the lock: nobody is known to have released it.
    let expected = ["futex 64 6 120 250 1 5 100 40", "futex 64 7 140 280 2 - - 0"];
    assert_eq!(log(CONVOY), expected);
    let by = |key: &str, columns: &[&str]| {
        let query = AnalysisQuery { by: Some(key.to_string()), ..AnalysisQuery::default() };
        rows(&played(&DESCRIPTOR, &query, CONVOY), columns)
    };
    let figures = ["count", "total_ns", "waiters", "at_once", "to_release_ns", "inversions", "inverted_ns"];
    assert_eq!(by("lock", &[&["pid", "of", "lock"][..], &figures].concat()), ["4 program 64 2 270 2 2 100 1 40"]);
    assert_eq!(by("releaser", &["releaser", "count", "to_release_ns"]), ["- 1 0", "5 1 100"]);
    // A thread of a higher priority than the waiter's inverts nothing.
    let higher = CONVOY.replace("prio=25", "prio=5");
    assert_eq!(log(&higher)[0], "futex 64 6 120 250 1 5 100 0");
    let takers = by("taker", &["tid", "by", "by_comm", "waits", "total_ns", "longest_ns"]);
    assert_eq!(takers, ["5 9 - 1 40 40", "6 0 idle 1 20 20", "7 6 - 1 10 10"]);
}

#[test]
fn locks_of_the_kernel_have_their_kinds() {
    let stream = |flags: &str| {
        format!(
            "100 0 switch prev=0 next=5
             110 0 contend_begin uaddr=99 op={flags}
             120 0 switch prev=5 next=0 state=2
             130 1 switch prev=0 next=6
             150 1 wake tid=5 cpu=0
             160 0 switch prev=0 next=5
             170 0 contend_end uaddr=99 ret=0
             180 0 contend_end uaddr=99 ret=0
             200 0 -"
        )
    };
    let kinds = [
        (0, "semaphore"),
        (1, "spinlock"),
        (3, "rwlock:R"),
        (5, "rwlock:W"),
        (2, "rwsem:R"),
        (4, "rwsem:W"),
        (8, "rt-mutex"),
        (10, "rwlock-rt:R"),
        (12, "rwlock-rt:W"),
        (18, "pcpu-sem:R"),
        (20, "pcpu-sem:W"),
        (32, "mutex"),
        (33, "mutex"),
        (64, "kernel"),
    ];
    for (flags, kind) in kinds {
        assert_eq!(log(&stream(&flags.to_string())), [format!("{kind} 99 5 110 170 1 6 40 0")]);
    }
    // Waiting for a mutex begins by spinning, and may spin again: all of it is one wait. Of others the last begin counts.
    let again = "\n115 0 contend_begin uaddr=99 op=32\n165 0 contend_begin uaddr=99 op=33\n";
    let twice = |flags: &str| {
        let stream = stream(flags);
        let mut lines: Vec<&str> = stream.lines().chain(again.lines()).filter(|line| !line.is_empty()).collect();
        lines.sort_by_key(|line| line.split_whitespace().next().and_then(|at| at.parse::<u64>().ok()));
        log(&lines.join("\n"))
    };
    assert_eq!(twice("33"), ["mutex 99 5 110 170 1 6 40 0"]);
    assert_eq!(twice("4"), ["mutex 99 5 115 170 1 6 35 0"]);
    // An end without a begin is no wait.
    assert_eq!(log(&stream("1").replace("contend_begin", "-")), [""; 0]);
}

/// Three threads, each on a CPU of its own.
const THREADS: &str = "100 0 switch prev=0 next=5 prio=30
    100 1 switch prev=0 next=6 prio=10
    100 2 switch prev=0 next=7 prio=10";

/// Two threads wait for a lock of the kernel that 5 holds.
const QUEUE: &str = "110 0 lock_acquire uaddr=8 op=0
    112 0 lock_acquired uaddr=8
    120 1 lock_acquire uaddr=8 op=0
    121 1 lock_contended uaddr=8 name=&a->lock
    125 2 lock_acquire uaddr=8 op=0
    126 2 lock_contended uaddr=8 name=&a->lock
    150 0 lock_release uaddr=8 name=&a->lock
    152 1 lock_acquired uaddr=8
    170 1 lock_release uaddr=8 name=&a->lock
    175 2 lock_acquired uaddr=8
    180 2 lock_release uaddr=8 name=&a->lock
    200 0 -";

/// Waits and holds of the kernel's locks, after the threads have begun to run.
fn waits_and_holds(stream: &str) -> [Vec<String>; 2] {
    let stream = format!("{THREADS}\n{stream}");
    let of = |words: &[FormWord], columns: &[&str]| {
        let query = AnalysisQuery { view: View::Log, words: words.to_vec(), ..AnalysisQuery::default() };
        rows(&played(&DESCRIPTOR, &query, &stream), columns)
    };
    [
        of(&[], &["kind", "lock", "name", "tid", "from", "to", "at_once", "holder", "releaser", "to_release_ns"]),
        of(&[FormWord::Holds], &["kind", "lock", "name", "tid", "from", "to", "waiters", "at_once", "waited_ns"]),
    ]
}

#[test]
fn locks_of_lockdep_have_holders() {
    let [waits, holds] = waits_and_holds(QUEUE);
    assert_eq!(waits, ["lock 8 &a->lock 6 121 152 1 5 5 29", "lock 8 &a->lock 7 126 175 2 5 6 44"]);
    let expected =
        ["lock 8 &a->lock 5 112 150 2 2 53", "lock 8 &a->lock 6 152 170 1 1 18", "lock 8 &a->lock 7 175 180 0 0 0"];
    assert_eq!(holds, expected);
    // It can run from 130 on, and 9, whose priority is below that of the waiters, has its CPU.
    let preempted = QUEUE.replace(
        "150 0 lock",
        "130 0 switch prev=5 next=9 state=0 prio=25\n140 0 switch prev=9 next=5 state=1 prio=30\n150 0 lock",
    );
    let query = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
    let table = played(&DESCRIPTOR, &query, &format!("{THREADS}\n{preempted}"));
    assert_eq!(rows(&table, &["tid", "releaser", "inverted_ns"]), ["6 5 10", "7 6 0"]);
}

#[test]
fn groups_of_locks_have_names() {
    let by = |words: &[FormWord], key: &str, columns: &[&str]| {
        let by = Some(key.to_string());
        let query = AnalysisQuery { by, words: words.to_vec(), ..AnalysisQuery::default() };
        let stream = QUEUE.replace("120 1", "119 1 sys_entry name=brk\n120 1");
        rows(&played(&DESCRIPTOR, &query, &format!("{THREADS}\n{stream}")), columns)
    };
    let figures = ["count", "total_ns", "waiters", "at_once"];
    assert_eq!(
        by(&[], "lock", &[&["pid", "of", "lock", "name"][..], &figures].concat()),
        ["- kernel 8 &a->lock 2 80 2 2"]
    );
    assert_eq!(by(&[], "name", &[&["of", "name"][..], &figures].concat()), ["kernel &a->lock 2 80 2 2"]);
    assert_eq!(by(&[], "call", &["call", "count", "total_ns"]), ["- 1 49", "brk 1 31"]);
    assert_eq!(by(&[], "process", &["pid", "count"]), ["- 2"]);
    let holds = &[FormWord::Holds];
    assert_eq!(
        by(holds, "name", &["name", "count", "total_ns", "waiters", "at_once", "waited_ns"]),
        ["&a->lock 3 61 2 2 71"]
    );
    assert_eq!(by(holds, "call", &["call", "count", "total_ns"]), ["- 2 43", "brk 1 18"]);
    assert_eq!(by(holds, "thread", &["tid", "total_ns", "waiters"]), ["5 38 2", "6 18 1", "7 5 0"]);
}

#[test]
fn readers_hold_a_lock_together() {
    let [waits, holds] = waits_and_holds(
        "110 0 lock_acquire uaddr=8 op=2
         111 0 lock_acquired uaddr=8
         112 1 lock_acquire uaddr=8 op=2
         113 1 lock_acquired uaddr=8
         115 2 lock_acquire uaddr=8 op=0
         116 2 lock_contended uaddr=8
         120 0 lock_release uaddr=8
         130 1 lock_release uaddr=8
         131 2 lock_acquired uaddr=8
         140 2 lock_release uaddr=8",
    );
    assert_eq!(waits, ["lock 8 - 7 116 131 1 5 6 14"]);
    assert_eq!(holds, ["lock:R 8 - 5 111 120 1 1 4", "lock:R 8 - 6 113 130 1 1 14", "lock 8 - 7 131 140 0 0 0"]);
}

#[test]
fn holds_begin_when_a_lock_is_got() {
    let [waits, holds] = waits_and_holds(
        // By trying; one of RCU, which no event says to be got, twice; and a lock that is taken again by its reader.
        "110 0 lock_acquire uaddr=8 op=1
         120 0 lock_release uaddr=8
         130 0 lock_acquire uaddr=9 op=2
         135 0 lock_acquire uaddr=9 op=2
         140 0 lock_release uaddr=9
         150 0 lock_release uaddr=9
         160 0 lock_acquire uaddr=10 op=2
         161 0 lock_acquired uaddr=10
         165 0 lock_acquire uaddr=10 op=2
         166 0 lock_acquired uaddr=10
         170 0 lock_release uaddr=10
         180 0 lock_release uaddr=10",
    );
    assert_eq!(waits, [""; 0]);
    assert_eq!(holds, ["lock 8 - 5 110 120 0 0 0", "lock:R 9 - 5 130 150 0 0 0", "lock:R 10 - 5 161 180 0 0 0"]);
}

#[test]
fn what_was_not_seen_of_a_lock_is_unknown() {
    // It was held before the first event: who released it is known, how long it was held is not.
    let before = "110 1 lock_acquire uaddr=8 op=0
        111 1 lock_contended uaddr=8
        120 0 lock_release uaddr=8
        121 1 lock_acquired uaddr=8";
    assert_eq!(waits_and_holds(before), [vec!["lock 8 - 6 111 121 1 - 5 9".to_string()], vec![]]);
    // A thread gives up: it never held the lock.
    let given_up = "110 1 lock_acquire uaddr=8 op=0
        111 1 lock_contended uaddr=8
        120 1 lock_release uaddr=8";
    assert_eq!(waits_and_holds(given_up), [vec!["lock 8 - 6 111 120 1 - - -".to_string()], vec![]]);
    // An idle CPU takes and releases it in between.
    let release = "150 0 lock_release uaddr=8 name=&a->lock";
    let idle =
        QUEUE.replace(release, &format!("{release}\n150 0 switch prev=5 next=0 state=1\n151 0 lock_release uaddr=8"));
    assert_eq!(waits_and_holds(&idle)[0][0], "lock 8 &a->lock 6 121 152 1 5 - -");
    // The release of 5 was lost: it does not hold the lock next to 6, nor does it get it twice.
    let lost = QUEUE.replace("150 0 lock_release", "150 0 stage");
    let lost = lost.lines().filter(|line| !line.contains("stage")).collect::<Vec<_>>().join("\n");
    let [waits, holds] = waits_and_holds(&format!("{lost}\n210 0 lock_release uaddr=8"));
    assert_eq!(waits, ["lock 8 &a->lock 6 121 152 1 5 - -", "lock 8 &a->lock 7 126 175 2 5 6 44"]);
    assert_eq!(holds, ["lock 8 &a->lock 6 152 170 1 1 18", "lock 8 &a->lock 7 175 180 0 0 0"]);
}

#[test]
fn a_lock_that_one_thread_takes_and_another_releases_is_held_in_between() {
    // The lock of a CPU's queue: the switch comes before the release.
    let [waits, holds] = waits_and_holds(
        "110 0 lock_acquire uaddr=8 op=0
         111 0 lock_acquired uaddr=8
         115 1 lock_acquire uaddr=8 op=0
         116 1 lock_contended uaddr=8 name=&rq->__lock
         120 0 switch prev=5 next=9 state=1
         125 0 lock_release uaddr=8 name=&rq->__lock
         126 1 lock_acquired uaddr=8
         130 1 lock_release uaddr=8 name=&rq->__lock
         140 0 lock_acquire uaddr=8 op=0
         145 0 lock_release uaddr=8 name=&rq->__lock",
    );
    assert_eq!(waits, ["lock 8 &rq->__lock 6 116 126 1 5 5 9"]);
    let names = ["5 111 125 1 1 9", "6 126 130 0 0 0", "9 140 145 0 0 0"];
    assert_eq!(holds, names.map(|rest| format!("lock 8 &rq->__lock {rest}")));
    // The CPU becomes idle, and the thread takes the lock again.
    let [_, holds] = waits_and_holds(
        "110 0 lock_acquired uaddr=8
         120 0 switch prev=5 next=0 state=1
         125 0 lock_release uaddr=8
         130 0 switch prev=0 next=5
         140 0 lock_acquire uaddr=8 op=0
         141 0 lock_acquired uaddr=8
         150 0 lock_release uaddr=8",
    );
    assert_eq!(holds, ["lock 8 - 5 110 125 0 0 0", "lock 8 - 5 141 150 0 0 0"]);
    // A thread that has a lock for itself does not take it again: the first release was lost.
    let [_, holds] = waits_and_holds(
        "110 0 lock_acquire uaddr=8 op=0
         111 0 lock_acquired uaddr=8
         120 0 lock_acquire uaddr=8 op=0
         121 0 lock_acquired uaddr=8
         130 0 lock_release uaddr=8",
    );
    assert_eq!(holds, ["lock 8 - 5 121 130 0 0 0"]);
}

#[test]
fn waits_and_holds_do_not_reach_across_losses_and_ends() {
    let lost = |begin: &str, end: &str| {
        waits_and_holds(&format!("{begin}\n130 0 loss\n140 0 switch prev=5 next=5 state=0\n{end}\n200 0 -"))
    };
    let nothing: [Vec<String>; 2] = [vec![], vec![]];
    assert_eq!(lost("110 0 lock_contended uaddr=8", "150 0 lock_acquired uaddr=8"), nothing);
    assert_eq!(lost("110 0 lock_acquired uaddr=8", "150 0 lock_release uaddr=8"), nothing);
    assert_eq!(lost("110 0 lock_acquire uaddr=8 op=2", "150 0 lock_release uaddr=8"), nothing);
    assert_eq!(lost("110 0 contend_begin uaddr=8 op=1", "150 0 contend_end uaddr=8"), nothing);
    // After the loss, all is as it was before.
    let [waits, holds] = lost(
        "110 0 lock_acquired uaddr=8",
        "150 0 lock_contended uaddr=8
         160 0 lock_acquired uaddr=8
         170 0 lock_release uaddr=8",
    );
    assert_eq!(
        (waits, holds),
        (vec!["lock 8 - 5 150 160 1 - - -".to_string()], vec!["lock 8 - 5 160 170 0 0 0".to_string()])
    );
    // A program runs without a lock of the kernel, so that the release was lost.
    let call = "110 0 lock_acquired uaddr=8\n120 0 sys_entry name=read\n130 0 lock_release uaddr=8";
    assert_eq!(waits_and_holds(call), nothing);
    let ended = "110 0 lock_acquired uaddr=8\n120 0 exit tid=5\n130 0 switch prev=5 next=0 state=64";
    let query = AnalysisQuery { words: vec![FormWord::Holds], ..AnalysisQuery::default() };
    assert_eq!(played(&DESCRIPTOR, &query, &format!("{THREADS}\n{ended}")).notes, [("unfinished", 0)]);
    let held = "110 0 lock_acquired uaddr=8\n120 0 -";
    assert_eq!(played(&DESCRIPTOR, &query, &format!("{THREADS}\n{held}")).notes, [("unfinished", 1)]);
}

#[test]
fn a_wait_that_two_kinds_of_events_show_is_one() {
    // The map of lockdep lies in the mutex.
    let mutex = "110 0 lock_acquire uaddr=1000 op=0
        112 0 contend_begin uaddr=960 op=33
        115 0 lock_contended uaddr=1000
        116 0 contend_begin uaddr=960 op=32
        130 0 lock_acquired uaddr=1000
        131 0 contend_end uaddr=960 ret=0
        140 0 lock_release uaddr=1000";
    let [waits, holds] = waits_and_holds(mutex);
    assert_eq!(
        (waits, holds),
        (vec!["mutex 1000 - 5 115 130 1 - - -".to_string()], vec!["mutex 1000 - 5 130 140 0 0 0".to_string()])
    );
    // Another lock, which lockdep does not know: one beyond the map, and one while the lock is held.
    for (address, at) in [(1001, 115), (400, 115), (960, 135)] {
        let semaphore = format!(
            "110 0 lock_acquire uaddr=1000 op=0
             130 0 lock_acquired uaddr=1000
             140 0 lock_release uaddr=1000
             {at} 0 contend_begin uaddr={address} op=0
             150 0 contend_end uaddr={address} ret=0"
        );
        let mut lines: Vec<&str> = semaphore.lines().map(str::trim).collect();
        lines.sort_by_key(|line| line.split(' ').next().map(str::to_string));
        assert_eq!(waits_and_holds(&lines.join("\n"))[0], [format!("semaphore {address} - 5 {at} 150 1 - - -")]);
    }
}

#[test]
fn periods_have_the_waits_that_end_in_them() {
    let period = |from, to| Rc::new(PeriodOf { name: "p".to_string(), from, to, tid: None, values: Vec::new() });
    let periods = [period(100, 160), period(160, 190)];
    let query = AnalysisQuery { view: View::Log, ..AnalysisQuery::default() };
    let holds = AnalysisQuery { words: vec![FormWord::Holds], ..query.clone() };
    let of_each = [(&DESCRIPTOR, query), (&DESCRIPTOR, holds)];
    let tables = played_per(&of_each, &periods, &format!("{THREADS}\n{QUEUE}"));
    let shown: Vec<_> = tables.iter().map(|table| rows(table, &["tid", "from", "to", "at_once"])).collect();
    // A wait that began before a period counts in it.
    let expected = [vec!["6 121 152 1"], vec!["5 112 150 2"], vec!["7 126 175 2"], vec!["6 152 170 1", "7 175 180 0"]];
    assert_eq!(shown, expected);
}

/// The matrix says of each thread for how long it waited for CPUs: as long as `sched`, which does not ask who had them.
#[test]
fn lines_of_the_matrix_are_the_waits_for_cpus() {
    let mut cells = 0;
    for seed in seeds(150) {
        let stream = random_stream(seed).text;
        let query = AnalysisQuery { by: Some("taker".to_string()), ..AnalysisQuery::default() };
        let takers = played(&DESCRIPTOR, &query, &stream);
        let matrix = Matrix::of_table(&takers);
        let by = Some("thread".to_string());
        let query = AnalysisQuery { by, words: vec![FormWord::Switches], ..AnalysisQuery::default() };
        let sched = played(Descriptor::find("sched").expect("it is there"), &query, &stream);
        let mut wanted: BTreeMap<i128, Ns> = BTreeMap::new();
        let [tid, wait] = ["tid", "wait_cpu_ns"].map(|name| sched.column(name).expect(name));
        for row in sched.rows.cells() {
            let (Cell::Integer(tid), Cell::Integer(wait)) = (&row[tid], &row[wait]) else { panic!("{row:?}") };
            *wanted.entry(*tid).or_default() += wait;
        }
        wanted.retain(|_, wait| *wait > 0);
        let mut found: BTreeMap<i128, Ns> = BTreeMap::new();
        for line in matrix.iter().flat_map(|matrix| &matrix.lines) {
            let Cell::Integer(tid) = &line.names[0] else { panic!("{:?}", line.names) };
            *found.entry(*tid).or_default() += line.total;
        }
        assert_eq!(found, wanted, "seed {seed}: {stream}");
        cells += takers.rows.len();
        let of_columns = matrix.as_ref().map_or(0, Matrix::total);
        assert_eq!(of_columns, found.values().sum::<Ns>(), "seed {seed}");
    }
    assert!(std::env::var_os("TRACEMILL_SEED").is_some() || cells > 500, "{cells}");
}
