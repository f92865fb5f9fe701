//! Traces of small kernels, which do not call things as Linux does: a file of concepts ties their events.

mod util;

use util::{Folder, Run};

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 8; align = 8; encoding = ASCII; } := letter;
trace { major = 1; minor = 8; byte_order = le; };
stream { event.header := struct { u32 timestamp; u8 id; }; };
event { name = thread_switched_out; id = 16; fields := struct { u32 thread_id; letter name[20]; }; };
event { name = thread_switched_in; id = 17; fields := struct { u32 thread_id; letter name[20]; }; };
event { name = isr_enter; id = 27; };
event { name = isr_exit; id = 28; };
";

/// An event: its time in us, its id, and the thread that it names.
type Step = (u32, u8, Option<(u32, &'static str)>);

fn trace(folder: &Folder, metadata: &str, steps: &[Step]) {
    let mut bytes = Vec::new();
    for (at, id, thread) in steps {
        bytes.extend((at * 1000).to_le_bytes());
        bytes.push(*id);
        if let Some((number, name)) = thread {
            let mut text = name.as_bytes().to_vec();
            text.resize(20, 0);
            bytes.extend(number.to_le_bytes());
            bytes.extend(text);
        }
    }
    folder.file("zephyr/metadata", metadata);
    folder.file("zephyr/channel0_0", bytes);
}

const SENSOR: Option<(u32, &str)> = Some((0x2000_0100, "sensor"));
const IDLE: Option<(u32, &str)> = Some((0x2000_0200, "idle"));

/// A sensor that works for 30 us of each 100, twice, and is interrupted once.
const STEPS: [Step; 9] = [
    (0, 17, SENSOR),
    (10, 27, None),
    (15, 28, None),
    (30, 16, SENSOR),
    (30, 17, IDLE),
    (100, 16, IDLE),
    (100, 17, SENSOR),
    (130, 16, SENSOR),
    (130, 17, IDLE),
];

/// The file of concepts, the command and its output, as the documentation shows them.
fn documented() -> (String, String, String) {
    let page = include_str!("../../../docs/analyze.md");
    let (_, section) = page.split_once("## Other kernels").expect("there is a section");
    let section = section.split("\n## ").next().expect("it has an end");
    let mut blocks: Vec<String> = Vec::new();
    let mut is_inside = false;
    for line in section.lines() {
        match line.strip_prefix("    ") {
            Some(code) if is_inside => *blocks.last_mut().expect("a block") += &format!("{code}\n"),
            Some(code) => blocks.push(format!("{code}\n")),
            None => {}
        }
        is_inside = line.starts_with("    ");
    }
    let [concepts, commands, output] = blocks.try_into().expect("a file of concepts, a command, its output");
    (concepts, commands.trim().trim_start_matches("tracemill ").to_string(), output)
}

#[test]
fn the_example_of_the_documentation_says_what_a_zephyr_trace_means() {
    let folder = Folder::new();
    let (concepts, command, output) = documented();
    folder.file("zephyr.concepts", concepts);
    trace(&folder, METADATA, &STEPS);
    let Run { stdout, .. } = folder.run(&command).ends(0, &["cannot tell"]);
    assert_eq!(stdout, output);
    let states = folder.run("analyze states --of threads --concepts zephyr.concepts --format csv zephyr").ends(0, &[]);
    let rows: Vec<&str> = states.stdout.lines().skip(1).collect();
    // Off the CPU nothing is known of either.
    let wanted = [
        "536871168,0,10000,RUN/unknown,10000",
        "536871168,10000,15000,INTERRUPTED,5000",
        "536871168,15000,30000,RUN/unknown,15000",
        "536871168,100000,130000,RUN/unknown,30000",
        "536871424,30000,100000,RUN/unknown,70000",
    ];
    assert_eq!(rows, wanted);
}

#[test]
fn a_switch_may_name_one_thread_only() {
    let folder = Folder::new();
    trace(&folder, METADATA, &STEPS);
    // Both events; the one who comes, with prev that no event has; the one who goes.
    for (name, lines, sensor) in [
        ("both", "switch thread_switched_in next=thread_id\nswitch thread_switched_out prev=thread_id\n", "60.000"),
        ("in", "switch thread_switched_in prev?=nothing next=thread_id\n", "60.000"),
        // The switch that ends a run names who ran since the one before.
        ("out", "switch thread_switched_out prev=thread_id next?=nothing\n", "60.000"),
    ] {
        folder.file("lines", lines);
        let table = folder.run("analyze cpu --concepts lines zephyr").ends(0, &[]).stdout;
        let row = table.lines().find(|line| line.starts_with("536871168")).unwrap_or_else(|| panic!("{name}: {table}"));
        assert!(row.split_ascii_whitespace().any(|cell| cell == sensor), "{name}: {table}");
        assert!(table.contains("no event says its CPU: all are taken to be of one, cpu 0"), "{name}: {table}");
        let json =
            folder.run("analyze sched --switches --by thread --json --concepts lines zephyr").ends(0, &[]).stdout;
        assert!(json.contains("\"assumed_cpus\":1") && !json.contains("\"preempted\":1"), "{name}: {json}");
    }
    // Where packets do say the CPU, nothing is assumed.
    let states_cpus = METADATA.replace("stream { ", "stream { packet.context := struct { u32 cpu_id; }; ");
    let folder = Folder::new();
    trace(&folder, &states_cpus, &STEPS);
    let bytes = std::fs::read(folder.path("zephyr/channel0_0")).expect("it was written");
    folder.file("zephyr/channel0_0", [3u32.to_le_bytes().to_vec(), bytes].concat());
    folder.file("lines", "switch thread_switched_in next=thread_id\n");
    let table = folder.run("analyze cpu --by cpu --concepts lines zephyr").ends(0, &[]).stdout;
    assert!(table.contains("\n3  ") && !table.contains("taken to be of one"), "{table}");
}
