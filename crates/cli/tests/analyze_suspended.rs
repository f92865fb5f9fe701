//! Analyses of traces of machines that were suspended: recorded by an event, or told by a jump of their clock alone.

mod util;

use util::Folder;

/// A trace of a kernel, an event a line: time, CPU, number of the class, values.
const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; map = clock.c.value; } := stamp;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; align = 8; } magic; }; };
clock { name = c; freq = 1000000000; offset = 0; };
stream { packet.context := struct { integer { size = 32; align = 8; } cpu_id; };
  event.header := struct { integer { size = 8; align = 8; } id; stamp timestamp; }; };
event { id = 0; name = sched_switch; fields := struct { i32 prev_tid; i32 prev_state; i32 next_tid; }; };
event { id = 1; name = sched_waking; fields := struct { i32 tid; i32 target_cpu; }; };
event { id = 2; name = suspend_resume; fields := struct { string action; i32 val; i32 start; }; };
";

const SECOND: u64 = 1_000_000_000;

struct Packet(Vec<u8>);

impl Packet {
    fn on_cpu(cpu: u32) -> Packet {
        Packet([0xC1FC_1FC1u32.to_le_bytes(), cpu.to_le_bytes()].concat())
    }

    fn event(mut self, at: u64, id: u8, values: &[i32]) -> Packet {
        self.0.push(id);
        self.0.extend(at.to_le_bytes());
        self.0.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self
    }

    fn suspend(self, at: u64, start: i32) -> Packet {
        let mut packet = self.event(at, 2, &[]);
        packet.0.extend(b"machine_suspend\0");
        packet.0.extend([3, start].map(i32::to_le_bytes).concat());
        packet
    }
}

fn trace(folder: &Folder, name: &str, packets: &[Packet]) {
    folder.file(&format!("{name}/metadata"), METADATA);
    for (at, packet) in packets.iter().enumerate() {
        folder.file(&format!("{name}/stream{at}"), &packet.0);
    }
}

/// The cells of a row that begins with a key.
fn row(table: &str, key: &str) -> Vec<String> {
    let line =
        table.lines().find(|line| line.split(',').next() == Some(key)).unwrap_or_else(|| panic!("{key}: {table}"));
    line.split(',').map(str::to_string).collect()
}

#[test]
fn an_hour_of_sleep_is_no_time_of_threads() {
    let folder = Folder::new();
    let hour = 3600 * SECOND;
    // Thread 7 runs on CPU 0 and thread 9 on CPU 1 when the clock jumps; thread 8 has been woken.
    let of_0 = |packet: Packet| packet.event(hour + 3000, 0, &[7, 1, 8]).event(hour + 4000, 0, &[8, 1, 0]);
    let begin = || Packet::on_cpu(0).event(1000, 0, &[0, 1, 7]).event(2000, 1, &[8, 0]);
    let of_1 = || Packet::on_cpu(1).event(1500, 0, &[0, 1, 9]).event(hour + 3500, 0, &[9, 1, 0]);
    trace(&folder, "jump", &[of_0(begin()), of_1()]);
    trace(&folder, "event", &[of_0(begin().suspend(2100, 1).suspend(hour + 2900, 0)), of_1()]);
    for (name, asleep, run, latency) in [("jump", hour + 1000, 1000, 0), ("event", hour + 800, 1200, 200)] {
        let csv = |question: &str| folder.run(&format!("analyze {question} --format csv {name}")).ends(0, &[]).stdout;
        assert_eq!(row(&csv("cpu"), "7")[3], run.to_string(), "{name}");
        assert_eq!(row(&csv("cpu"), "9")[3], (hour + 2000 - asleep).to_string(), "{name}");
        let cpu = row(&csv("cpu --by cpu"), "0");
        assert_eq!(cpu[8], asleep.to_string(), "{name}: {cpu:?}");
        assert_eq!(row(&csv("sched"), "8")[3], latency.to_string(), "{name}");
        let json = folder.run(&format!("analyze sched --json {name}")).ends(0, &[]).stdout;
        assert!(json.contains(&format!("\"suspensions\":1,\"suspended_ns\":{asleep}")), "{json}");
        let states = csv("states");
        assert!(states.contains(",suspended,") && states.contains(",SUSPENDED,"), "{states}");
        let table = folder.run(&format!("analyze cpu {name}")).ends(0, &[]).stdout;
        let sentence = format!("the machine was suspended once, for {}.{:09} s", asleep / SECOND, asleep % SECOND);
        assert!(table.contains(&sentence), "{table}");
        assert_eq!(table.contains("its clock jumped"), name == "jump", "{table}");
        let path = csv("path --tid 8");
        assert!(path.contains(",suspended\n"), "{path}");
    }
}

#[test]
fn an_hour_without_events_of_an_idle_machine_is_none() {
    let folder = Folder::new();
    let hour = 3600 * SECOND;
    let idle = Packet::on_cpu(0).event(1000, 0, &[7, 1, 0]).event(hour, 0, &[0, 0, 7]).event(hour + 10, 0, &[7, 1, 0]);
    trace(&folder, "idle", &[idle]);
    let run = folder.run("analyze cpu --by cpu --json idle").ends(0, &[]);
    assert!(!run.stdout.contains("suspensions") && run.stdout.contains("\"suspended_ns\":0"), "{}", run.stdout);
}
