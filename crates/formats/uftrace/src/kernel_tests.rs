//! Folders with kernel data, made of bytes.

use super::range_tests::Random;
use super::tests::{Folder, LITTLE_64, MAIN, Target, folder, open, read};
use tracemill_format::calls::{CallJudge, CallKind, CallOrigin, CallRecord, DumpOptions, Judgement};
use tracemill_ftrace::builder::{PageBuilder, bytes, format, pack};
use tracemill_model::schema::ByteOrder;

const DO_OPEN: u64 = 0xffff_ffff_8100_1000;
const VFS_READ: u64 = 0xffff_ffff_8100_2000;

/// How the kernel writes.
#[derive(Clone, Copy)]
struct Kernel {
    order: ByteOrder,
    long: u8,
}

const KERNEL: Kernel = Kernel { order: ByteOrder::Little, long: 8 };

impl Kernel {
    fn header(self) -> Vec<u8> {
        let (long, data) = (self.long, 8 + self.long);
        let order = if self.order == ByteOrder::Little { "LE" } else { "BE" };
        let page = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{};\tsigned:0;\n",
            256 - u32::from(data)
        );
        let after = 8 + long;
        let function = format!("unsigned long func;8;{long};0");
        let depth = format!("int depth;{after};4;1");
        let args = format!("unsigned long args[];{};0;0", 8 + 2 * long);
        let value = format!("unsigned long retval;{};{long};0", 8 + 2 * long);
        let print = |text: String, line: &str| text.replace("print fmt: \"\"", &format!("print fmt: {line}"));
        let wake = format("sched_wakeup", 30, &["char comm[8];8;8;0", "pid_t pid;16;4;1"]);
        let open = format("do_open", 31, &["__data_loc char[] path;8;4;0", "unsigned int flags;12;4;0"]);
        let files = [
            ("header_page", page),
            ("ftrace/funcgraph_entry/format", format("funcgraph_entry", 11, &[&function, &depth, &args])),
            ("ftrace/funcgraph_exit/format", format("funcgraph_exit", 10, &[&function, &depth, &value])),
            ("sched/sched_wakeup/format", print(wake, "\"comm=%s pid=%d\", REC->comm, REC->pid")),
            ("fs/do_open/format", print(open, "\"%s 0x%08x\", __get_str(path), REC->flags")),
        ];
        let mut out = format!("PAGE_SIZE: 256\nLONG_SIZE: {long}\nENDIAN: {order}\n");
        for (name, text) in files {
            out += &format!("TRACEFS: events/{name}: {}\n{text}", text.len());
        }
        out.into_bytes()
    }

    fn page(self, time: u64) -> PageBuilder {
        PageBuilder::new(self.order, self.long, time)
    }

    fn record(self, id: i64, tid: i64, parts: &[(i64, usize)]) -> Vec<u8> {
        [pack(self.order, &[(id, 2), (0, 2), (tid, 4)]), pack(self.order, parts)].concat()
    }

    fn entry(self, tid: i64, function: u64, depth: i64, args: &[i64]) -> Vec<u8> {
        let long = usize::from(self.long);
        let mut parts = vec![(function as i64, long), (depth, 4)];
        if long == 8 {
            parts.push((0, 4));
        }
        parts.extend(args.iter().map(|&value| (value, long)));
        self.record(11, tid, &parts)
    }

    fn exit(self, tid: i64, function: u64, depth: i64, value: i64) -> Vec<u8> {
        let mut record = self.entry(tid, function, depth, &[value]);
        record[..2].copy_from_slice(&bytes(self.order, 10, 2));
        record
    }

    fn wake(self, tid: i64, comm: &[u8; 8], pid: i64) -> Vec<u8> {
        [self.record(30, tid, &[]), comm.to_vec(), pack(self.order, &[(pid, 4)])].concat()
    }

    fn open(self, tid: i64, path: &[u8], flags: i64) -> Vec<u8> {
        let head = self.record(31, tid, &[(16 | (path.len() as i64) << 16, 4), (flags, 4)]);
        [head, path.to_vec()].concat()
    }
}

/// A call of `main`, task 7, from 100 to 900, with the kernel's pages of two processors.
fn with_kernel(target: Target, kernel: Kernel, pages: [Vec<PageBuilder>; 2]) -> Folder {
    let mut records = Vec::new();
    target.record(&mut records, 100, 0, false, 0, MAIN);
    target.record(&mut records, 900, 1, false, 0, MAIN);
    let mut folder = folder(target, "", records);
    folder.0.insert("kernel_header".into(), kernel.header());
    let symbols = "ffffffff81001000 T __ia32_sys_open\nffffffff81001000 T __x64_sys_open\n\
        ffffffff81002000 t vfs_read\t[fs]\nffffffff81003000 T end\n";
    folder.0.insert("kallsyms".into(), symbols.into());
    for (cpu, pages) in pages.into_iter().enumerate() {
        let bytes = pages.into_iter().flat_map(|page| page.build(256)).collect();
        folder.0.insert(format!("kernel-cpu{cpu}.dat"), bytes);
    }
    folder
}

#[test]
fn calls_and_events_of_the_kernel() {
    for (target, kernel) in [
        (LITTLE_64, KERNEL),
        (Target { big: true, is_64_bit: true }, Kernel { order: ByteOrder::Big, long: 8 }),
        (Target { big: false, is_64_bit: false }, Kernel { order: ByteOrder::Little, long: 4 }),
    ] {
        let mask = if kernel.long == 8 { u64::MAX } else { 0xffff_ffff };
        let (function, inner) = (DO_OPEN & mask, VFS_READ & mask);
        let mut page = kernel.page(200);
        page.event(1, &kernel.entry(7, function, 0, &[5, 6]));
        page.event(1, &kernel.entry(7, inner, 1, &[]));
        page.event(1, &kernel.open(7, b"/tmp\0", 0x241));
        page.event(1, &kernel.exit(7, inner, 1, 3));
        page.event(1, &kernel.exit(7, function, 0, 4));
        let mut other = kernel.page(300);
        // A task that was not traced wakes one that was; another one does not.
        other.event(0, &kernel.wake(99, b"prog\0\0\0\0", 7));
        other.event(0, &kernel.wake(99, b"none\0\0\0\0", 98));
        other.event(0, &kernel.record(77, 7, &[(0x0102, 2)]));
        let mut folder = with_kernel(target, kernel, [vec![page], vec![other]]);
        if kernel.long == 4 {
            folder
                .0
                .insert("kallsyms".into(), b"81001000 T __x64_sys_open\n81002000 T vfs_read\n81003000 T end\n".into());
        }
        let trace = open(&folder);
        let (lines, faults, warnings) = read(&trace);
        assert_eq!(
            lines[2..],
            [
                format!("201 entry 7 0 {function} \"__x64_sys_open\" \"kernel\" 0 5 6"),
                format!("202 entry 7 1 {inner} \"vfs_read\" \"kernel\" 0"),
                "203 event 7 \"kernel\" 0 31 \"fs:do_open\" \"/tmp\" 577".to_string(),
                format!("204 exit 7 1 {inner} \"vfs_read\" \"kernel\" 0 3"),
                format!("205 exit 7 0 {function} \"__x64_sys_open\" \"kernel\" 0 4"),
                "300 event 7 \"kernel\" 1 30 \"sched:sched_wakeup\" \"prog\" 7".to_string(),
                format!(
                    "300 event 7 \"kernel\" 1 77 \"event:77\" \"{}00000007{}0000\"",
                    if target.big { "004d0000" } else { "4d000000" },
                    if target.big { "0102" } else { "0201" }
                )
                .replace("00000007", if target.big { "00000007" } else { "07000000" }),
            ]
        );
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].message().contains("no format describes the event 77"));
        assert!(warnings.is_empty());
        assert!(trace.streams.iter().map(|stream| &*stream.name).eq(["7.dat", "kernel-cpu0.dat", "kernel-cpu1.dat"]));
    }
}

fn calls_of(folder: &Folder) -> Vec<(u64, CallKind, CallOrigin, u16, String)> {
    let trace = open(folder);
    let calls = trace.reader.calls().unwrap();
    let mut all: Vec<CallRecord> = Vec::new();
    for stream in 0..calls.stream_count() {
        let mut stream = calls.open(stream);
        while stream.fill(&mut all) {}
    }
    let name = |record: &CallRecord| match record.kind {
        CallKind::Event => {
            let mut data = Vec::new();
            calls.put_event_data(record, &mut data);
            format!("{}: {}", calls.event_name(record), String::from_utf8_lossy(&data))
        }
        CallKind::Lost => record.address.to_string(),
        _ => calls.symbol(record.symbol, record.address).name,
    };
    all.iter().map(|record| (record.time, record.kind, record.origin, record.depth, name(record))).collect()
}

#[test]
fn processors_are_merged_and_loss_comes_before_its_page() {
    let mut first = KERNEL.page(200);
    // The trace began inside of the first one.
    first.event(0, &KERNEL.exit(7, VFS_READ, 0, 0));
    first.event(5, &KERNEL.entry(7, DO_OPEN, 0, &[]));
    let mut next = KERNEL.page(400).missed(Some(3));
    next.event(0, &KERNEL.open(99, b"x\0", 1));
    next.event(1, &KERNEL.open(7, b"yy\0", 2));
    let mut other = KERNEL.page(300).missed(None);
    other.event(0, &KERNEL.exit(7, DO_OPEN, 0, 0));
    let folder = with_kernel(LITTLE_64, KERNEL, [vec![first, next], vec![other]]);
    let all = calls_of(&folder);
    let kernel = |time, kind, name: &str| (time, kind, CallOrigin::Kernel, 0, name.to_string());
    assert_eq!(
        all[2..],
        [
            kernel(205, CallKind::Entry, "__x64_sys_open"),
            kernel(300, CallKind::Lost, "0"),
            kernel(300, CallKind::Exit, "__x64_sys_open"),
            kernel(401, CallKind::Lost, "3"),
            kernel(401, CallKind::Event, "fs:do_open: yy 0x00000002"),
        ]
    );
    let trace = open(&folder);
    let gaps = |stream: usize| trace.reader.open_packet(&trace.plans, &trace.streams[stream], 0, 0).unwrap().gaps;
    assert_eq!(gaps(1).iter().map(|gap| (gap.count, gap.end_cycles)).collect::<Vec<_>>(), [(Some(3), Some(400))]);
    assert_eq!(gaps(2).iter().map(|gap| (gap.count, gap.end_cycles)).collect::<Vec<_>>(), [(None, Some(300))]);
    let mut text = Vec::new();
    trace.reader.calls().unwrap().dump(DumpOptions::default(), &mut |_| true, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(
        text.split_once("reading kernel").unwrap().1,
        "-cpu0.dat\n0.000000200      7: [exit ] vfs_read(ffff81002000) depth: 0\n\
         0.000000205      7: [entry] __x64_sys_open(ffff81001000) depth: 0\n\
         0.000000400     99: [lost ]: 3 events\n\
         0.000000400     99: [event] fs:do_open(31) x 0x00000001\n\
         0.000000401      7: [event] fs:do_open(31) yy 0x00000002\nreading kernel-cpu1.dat\n\
         0.000000300      7: [lost ]: -1 events\n\
         0.000000300      7: [exit ] __x64_sys_open(ffff81001000) depth: 0\n"
    );
}

/// Two calls of the kernel, with one inside of each.
fn two_calls() -> Folder {
    let mut page = KERNEL.page(200);
    page.event(0, &KERNEL.entry(7, DO_OPEN, 0, &[]));
    page.event(10, &KERNEL.entry(7, VFS_READ, 1, &[]));
    page.event(10, &KERNEL.exit(7, VFS_READ, 1, 0));
    page.event(10, &KERNEL.exit(7, DO_OPEN, 0, 0));
    let mut next = KERNEL.page(300);
    next.event(0, &KERNEL.entry(7, DO_OPEN, 0, &[]));
    next.event(50, &KERNEL.entry(7, VFS_READ, 1, &[]));
    next.event(30, &KERNEL.exit(7, VFS_READ, 1, 0));
    next.event(20, &KERNEL.exit(7, DO_OPEN, 0, 0));
    with_kernel(LITTLE_64, KERNEL, [vec![page, next], vec![]])
}

#[test]
fn what_was_entered_before_a_stretch_of_time_is_not_left_in_it() {
    let trace = open(&two_calls());
    let calls = trace.reader.calls().unwrap();
    let times = |from, to| {
        let mut records = Vec::new();
        let mut stream = calls.open_between(1, from, to);
        while stream.fill(&mut records) {}
        records.iter().map(|record| record.time).collect::<Vec<_>>()
    };
    assert_eq!(times(215, 1000), [300, 350, 380, 400]);
    assert_eq!(times(205, 310), [210, 220, 300]);
    // Which call an end belongs to is not asked.
    assert_eq!(times(300, 345), [300]);
}

/// Wants what its function says.
struct Judge(fn(&CallRecord) -> Judgement);

impl CallJudge for Judge {
    fn judge(&mut self, record: &CallRecord) -> Judgement {
        (self.0)(record)
    }
}

#[test]
fn calls_of_the_kernel_are_judged_while_they_are_read() {
    let trace = open(&two_calls());
    let calls = trace.reader.calls().unwrap();
    let times = |judge: fn(&CallRecord) -> Judgement| {
        let mut stream = calls.open(1);
        let mut judge: Option<Box<dyn CallJudge>> = Some(Box::new(Judge(judge)));
        stream.set_judge(&mut judge);
        assert!(judge.is_none());
        let mut records = Vec::new();
        let mut before = 0;
        while stream.fill(&mut records) {
            // No further than it must.
            assert_eq!(records.len(), before + 1);
            before += 1;
        }
        records.iter().map(|record| record.time).collect::<Vec<_>>()
    };
    let all = [200, 210, 220, 230, 300, 350, 380, 400];
    assert_eq!(times(|_| Judgement::default()), all);
    // The end of a call whose inner one was shown belongs to none that waits.
    assert_eq!(times(|_| Judgement { threshold: 25, ..Judgement::default() }), [200, 230, 300, 350, 380, 400]);
    assert_eq!(times(|_| Judgement { threshold: 25, is_shown: true, ..Judgement::default() }), all);
    assert_eq!(times(|_| Judgement { is_unwanted: true, ..Judgement::default() }), []);
    let is_inner = |record: &CallRecord| Judgement { is_dropped: record.depth == 1, ..Judgement::default() };
    assert_eq!(times(is_inner), [200, 230, 300, 400]);
}

#[test]
fn damage_costs_what_is_damaged() {
    let good = || {
        let mut page = KERNEL.page(300);
        page.event(0, &KERNEL.open(7, b"a\0", 1));
        page
    };
    let mut bad = KERNEL.page(200).commit(4000);
    bad.event(0, &KERNEL.open(7, b"b\0", 1));
    let mut short = KERNEL.page(250);
    short.event(0, &KERNEL.record(30, 7, &[(0, 4)]));
    short.event(0, &KERNEL.record(31, 7, &[(200 | 9 << 16, 4), (0, 4)]));
    let mut folder = with_kernel(LITTLE_64, KERNEL, [vec![bad, short, good()], vec![good()]]);
    folder.0.get_mut("kernel-cpu1.dat").unwrap().truncate(256 + 9);
    folder.0.get_mut("kernel-cpu1.dat").unwrap().extend([1; 300]);
    let (lines, faults, _) = read(&open(&folder));
    let events: Vec<&String> = lines.iter().filter(|line| line.contains("do_open")).collect();
    assert_eq!(events.len(), 4, "{lines:?}");
    let messages: Vec<String> =
        faults.iter().map(|fault| format!("{} {}", fault.place().offset.unwrap(), fault.message())).collect();
    assert!(messages[0].starts_with("0 a page says that it holds 4000 bytes"), "{messages:?}");
    assert!(
        messages.iter().any(|message| message.contains("the format of `sched:sched_wakeup` needs 20")),
        "{messages:?}"
    );
    assert!(messages.iter().any(|message| message.contains("`path` is said to be where the record is not")));
    let followed = calls_of(&folder);
    assert_eq!(followed.iter().filter(|record| record.4.starts_with("fs:do_open")).count(), 4);
}

#[test]
fn headers_that_lie() {
    let page = || {
        let mut page = KERNEL.page(300);
        page.event(0, &KERNEL.open(7, b"a\0", 1));
        page
    };
    let lines_with = |header: Vec<u8>| {
        let mut folder = with_kernel(LITTLE_64, KERNEL, [vec![page()], vec![page()]]);
        folder.0.insert("kernel_header".into(), header);
        let (lines, faults, _) = read(&open(&folder));
        (lines.len(), faults.iter().map(|fault| fault.message().to_string()).collect::<Vec<_>>())
    };
    let good = KERNEL.header();
    let (count, faults) = lines_with(good.clone());
    assert_eq!((count, faults.len()), (4, 0));
    // The last format is cut: its events have no fields, and are reported.
    let (count, faults) = lines_with(good[..good.len() - 300].to_vec());
    assert_eq!(count, 4);
    assert!(faults[0].contains("ends inside what a line announces"), "{faults:?}");
    let text = String::from_utf8(good).unwrap();
    let (count, faults) = lines_with(text.replace("PAGE_SIZE: 256", "PAGE_SIZE: 99999999999").into_bytes());
    assert_eq!(count, 4, "{faults:?}");
    assert!(faults[0].contains("a size that no page has"));
    let (_, faults) = lines_with(text.replace("ID: 31", "ID: 30").into_bytes());
    assert!(faults[0].contains("the number 30 of `fs:do_open` is that of `sched:sched_wakeup`"), "{faults:?}");
    let (count, faults) = lines_with(b"nonsense\nTRACEFS: x\nTRACEFS: events/a: -1\n\xff\xff".to_vec());
    assert_eq!(count, 4);
    assert!(faults.len() >= 4);
    let mut folder = with_kernel(LITTLE_64, KERNEL, [vec![page()], vec![]]);
    folder.0.remove("kernel_header");
    let (lines, faults, _) = read(&open(&folder));
    assert_eq!(lines.len(), 2);
    assert!(faults[0].message().contains("no file `kernel_header`"));
}

/// Pages of a processor: calls and events of a traced task and of another one, losses here and there. Where `is_damaged`,
/// single pages have times that are none of the recording, or lengths that no page has.
fn many_pages(random: &mut Random, first: u64, is_damaged: bool) -> Vec<PageBuilder> {
    let mut time = first + random.below(5000);
    let page = |at: u64| {
        // One of ten, and none of them beside another one.
        let is_bad = is_damaged && at % 10 == 4;
        let own = match random.below(4) {
            0 if is_bad => 1,
            1 if is_bad => time | 1 << 50,
            _ => time,
        };
        let mut page = KERNEL.page(own);
        if random.below(30) == 0 {
            page = page.missed(Some(1 + random.below(9)));
        }
        if is_bad && own == time {
            page = page.commit(4000);
        }
        for place in 0..1 + random.below(5) {
            let delta = if place == 0 { 0 } else { random.below(3000) };
            time += delta;
            let tid = if random.below(3) == 0 { 99 } else { 7 };
            let (function, depth) = [(DO_OPEN, 0), (VFS_READ, 1)][random.below(2) as usize];
            let record = match random.below(3) {
                0 => KERNEL.open(tid, b"a\0", 1),
                1 => KERNEL.entry(tid, function, depth, &[]),
                _ => KERNEL.exit(tid, function, depth, 0),
            };
            page.event(delta, &record);
        }
        time += random.below(2000);
        page
    };
    (0..700).map(page).collect()
}

/// Reading a stretch of time gives what reading all pages gives, and leaves nearly all pages alone.
#[test]
fn a_stretch_of_time_is_found_without_reading_all_pages() {
    let mut random = Random(0x6a09_e667_f3bc_c909);
    let mut found = 0;
    for round in 0..8 {
        let first = [1_000_000, 0x7ffd_0000_0000][round % 2];
        let is_damaged = round / 2 % 2 == 1;
        let pages = [0; 2].map(|_| many_pages(&mut random, first, is_damaged));
        let folder = with_kernel(LITTLE_64, KERNEL, pages);
        let calls = super::open::tests_support::calls(&folder, super::tests::ROOT);
        let span = 700 * 8500;
        let (mut read, mut all) = (0, 0);
        for stretch in 0..40 {
            let from = first + random.below(span + span / 8);
            let to = from + random.below([1, 5_000, 300_000, span][stretch % 4]);
            let (from, to) = match stretch {
                // Damaged pages are as early as the clock's beginning.
                0 => (if is_damaged { 100_000 } else { 0 }, to),
                1 => (from, 1 << 49),
                2 => (first, first),
                _ => (from, to),
            };
            let collect = |is_near: bool| {
                let (mut records, mut stream) = (Vec::new(), calls.kernel_between((from, to), is_near));
                while stream.fill(&mut records) {}
                records
            };
            let wanted = collect(false);
            let some = collect(true);
            let same = some.iter().zip(&wanted).take_while(|(one, other)| one == other).count();
            let place = format!("round {round}, stretch {stretch}, {from} to {to}, record {same}");
            assert_eq!(some.get(same), wanted.get(same), "{place}");
            found += wanted.len();
            for cpu in ["kernel-cpu0.dat", "kernel-cpu1.dat"] {
                let bytes = &folder.0[cpu];
                let (start, end) = calls.definitions.kernel.as_ref().unwrap().pages_around(bytes, (from, to));
                if stretch % 4 < 2 && stretch > 2 {
                    read += end - start;
                    all += bytes.len();
                }
            }
        }
        assert!(read * 3 < all, "{read} of {all} bytes are read in round {round}");
    }
    assert!(found > 10_000, "{found} records were wanted");
}
