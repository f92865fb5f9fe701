//! Rows of `analyze states`, which are written without cells, against the same rows with them.

mod util;

use util::{Folder, demo};

#[test]
fn rows_without_cells_are_those_with_cells() {
    let folder = Folder::new();
    // Two machines: rows name theirs.
    for name in ["kitchen", "shop"] {
        let from = demo("../kernel/bakery");
        for entry in
            std::fs::read_dir(from).expect("the demo is there").flatten().filter(|entry| entry.path().is_file())
        {
            let bytes = std::fs::read(entry.path()).expect("it can be read");
            folder.file(&format!("{name}/{}", entry.file_name().to_string_lossy()), bytes);
        }
    }
    let mut lines = 0;
    for traces in ["kitchen", "kitchen shop"] {
        for of in ["", "--of cpus", "--of threads,irqs", "--of disks,cpus", "--of irqs,disks,cpus,threads"] {
            for format in ["table", "jsonl", "csv"] {
                let ask = format!("analyze states {of} --format {format} {traces}");
                let without = folder.run(&ask).ends(0, &[]).stdout;
                // A limit asks for cells, and for the order of time.
                let with = folder.run(&format!("{ask} --limit 10000000")).ends(0, &[]).stdout;
                let mut sorted = [&without, &with].map(|text| text.lines().collect::<Vec<_>>());
                if format != "table" {
                    sorted.iter_mut().for_each(|lines| lines.sort_unstable());
                }
                assert!(sorted[0] == sorted[1], "{ask}");
                lines += sorted[0].len();
            }
        }
    }
    assert!(lines > 10_000, "{lines}");
}

#[test]
fn rows_have_durations_that_select_and_sort_them() {
    let folder = Folder::new();
    let trace = demo("../kernel/bakery");
    let lines = |ask: &str| {
        let text = folder.run(&format!("analyze states {ask} {trace}")).ends(0, &[]).stdout;
        text.lines().map(str::to_string).collect::<Vec<String>>()
    };
    // Scripts find columns of CSV by their places: a new one moves none.
    let all = lines("--format csv");
    assert_eq!(all[0], "cpu,from,to,tid,status,state,duration_ns");
    let duration = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [from, to, length] = [1, 2, 6].map(|at| cells[at].parse::<i64>().expect("a number"));
        assert_eq!(length, to - from, "{line}");
        length
    };
    let mut long: Vec<i64> = all[1..].iter().map(|line| duration(line)).filter(|length| *length > 20_000_000).collect();
    long.sort_unstable_by_key(|length| -length);
    for condition in ["duration_ns>20000000", "duration_us>20000"] {
        for sort in ["duration_ns", "duration_us"] {
            let found = lines(&format!("--format csv --where {condition} --sort {sort}"));
            assert_eq!(found[1..].iter().map(|line| duration(line)).collect::<Vec<_>>(), long, "{condition} {sort}");
        }
    }
    assert!(long.len() > 10, "{long:?}");
    for (of, header) in [
        ("cpus", "cpu from to duration_us tid status"),
        ("threads", "tid from to duration_us state"),
        ("disks", "dev disk from to duration_us waiting driver"),
        ("irqs", "kind nr cpu from to duration_us"),
    ] {
        let table = lines(&format!("--clock-gmt --of {of}"));
        assert_eq!(table[0].split_whitespace().collect::<Vec<_>>().join(" "), header);
        let objects = lines(&format!("--format jsonl --of {of}"));
        assert!(objects.iter().all(|object| object.contains(",\"duration_ns\":")), "{of}");
    }
}

#[test]
fn options_that_say_nothing_are_refused() {
    let folder = Folder::new();
    let trace = demo("../kernel/bakery");
    for (ask, said) in [
        ("cpu --min 1us", "`cpu` does not take --min"),
        ("states --step 1ms", "`states` does not take --step"),
        ("processes --of files --step 1ms", "`processes --of files` does not take --step"),
        ("sched --log --step 1ms", "--step divides statistics"),
        ("sched --switches --by prio", "`sched --switches` has no groups `prio`"),
        ("sched --switches --log", "`sched --switches` does not take --log"),
        ("io --by net --top 3", "`io --by net` does not take --top"),
    ] {
        folder.run(&format!("analyze {ask} {trace}")).ends(2, &[said]);
    }
}
