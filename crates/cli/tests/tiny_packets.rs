//! Streams of very many packets of one event, as small producers write them.

mod util;

use util::{Folder, Run, ticks_metadata, ticks_packet};

/// Packets of one event: more than all batches that wait to be printed hold together.
const PACKETS: u32 = 40_000;

/// Memory is limited and not measured, so nothing depends on when one looks. Threads reserve more than they use.
#[test]
#[cfg(target_os = "linux")]
fn an_event_in_a_packet_of_its_own_takes_no_room_for_thousands() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..PACKETS).flat_map(|n| ticks_packet(&[(u64::from(n) * 10, n)], 0)).collect();
    folder.file("tiny/metadata", ticks_metadata("freq = 1000000000;")).file("tiny/stream", bytes);
    for options in ["-j2", "-j2 --memory 16M", "-j1"] {
        let mut shell = std::process::Command::new("sh");
        let script = format!("ulimit -v 300000; exec \"$0\" print {options} tiny");
        shell.args(["-c", &script]).arg(util::command().get_program()).current_dir(folder.path("."));
        let run = Run::from_output(shell.output().expect("it runs")).ends(0, &[]);
        assert_eq!(run.stdout.lines().count(), PACKETS as usize, "{options}");
        assert!(run.stdout.ends_with(&format!("n = {} }}\n", PACKETS - 1)), "{options}");
    }
}

/// More packets than tasks, and not as many for each.
#[test]
fn packets_are_counted_whatever_their_number() {
    for packets in [1u32, 4096, 4097, 9001] {
        let folder = Folder::new();
        let bytes: Vec<u8> = (0..packets).flat_map(|n| ticks_packet(&[(u64::from(n) * 10, n)], 0)).collect();
        folder.file("tiny/metadata", ticks_metadata("freq = 1000000000;")).file("tiny/stream", bytes);
        for jobs in [1, 3] {
            let run = folder.run(&format!("info --count --jobs {jobs} tiny")).ends(0, &[]);
            assert!(run.stdout.contains(&format!(" {packets} event")), "{packets}: {}", run.stdout);
        }
    }
}
