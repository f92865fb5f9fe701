//! `tracemill record -E`: the commands of docs/record.md on the kernel of this machine, where its tracer can be used; and
//! what is said where it cannot.

mod util;

use std::fs;
use std::process::Output;

use util::{Folder, command};

fn ours(folder: &Folder, arguments: &[&str]) -> Output {
    command().current_dir(folder.path("")).args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn events_of_the_kernel_are_recorded_and_analysed() {
    let folder = Folder::new();
    let wanted = ["-E", "sched", "-E", "irq", "-E", "syscalls:sys_enter_*"];
    let recorded = ours(&folder, &[&["record"][..], &wanted, &["sh", "-c", "exit 5"]].concat());
    let said = text(&recorded.stderr);
    if recorded.status.code() == Some(125) {
        assert!(
            said.contains("kernel events cannot be recorded") || said.contains("this kernel has no event"),
            "{said}"
        );
        eprintln!("left out: {said}");
        return;
    }
    assert_eq!(recorded.status.code(), Some(5), "{said}");
    let cpu = ours(&folder, &["analyze", "cpu", "trace.dat"]);
    assert!(cpu.status.success(), "{}", text(&cpu.stderr));
    let lines = ours(&folder, &["print", "trace.dat"]);
    assert!(lines.status.success(), "{}", text(&lines.stderr));
    let lines = text(&lines.stdout);
    assert!(lines.contains("sched_process_exec") && lines.contains("sys_enter_exit_group"), "{lines}");
    let left = fs::read_dir(folder.path("")).expect("a folder").flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["trace.dat"]);
    let converted = ours(&folder, &["record", "-E", "sched", "--to", "ctf2", "-o", "out", "true"]);
    assert_eq!(converted.status.code(), Some(0), "{}", text(&converted.stderr));
    assert!(ours(&folder, &["check", "out"]).status.success());
}

#[test]
fn what_is_missing_is_said() {
    let folder = Folder::new();
    let mut command = command();
    command.current_dir(folder.path("")).env("TRACEMILL_TRACEFS", folder.path(""));
    let output = command.args(["record", "-E", "sched", "true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("the folder is no tracefs"), "{}", text(&output.stderr));
    let without = ours(&folder, &["record", "-a", "true"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without.stderr).contains("--event"), "{}", text(&without.stderr));
}
