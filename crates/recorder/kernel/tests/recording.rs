//! Recordings of a folder that stands in for tracefs, of recorders that are killed, and of the kernel of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tracemill_ftrace::builder::{PageBuilder, bytes, format};
use tracemill_kernel::{Options, has_parts, record, recover};
use tracemill_model::schema::ByteOrder;

const ORDER: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };
const LONG: u8 = size_of::<usize>() as u8;
const PAGE_BYTES: usize = 4096;

/// A folder that looks like tracefs: it fills each new instance as the kernel does, with pages that were recorded before.
struct StandIn {
    folder: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StandIn {
    fn new(name: &str, pages: Vec<Vec<u8>>) -> StandIn {
        let folder = std::env::temp_dir().join(format!("tracemill-kernel-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let tracefs = folder.join("tracefs");
        for events in ["events/ftrace/print", "instances"] {
            fs::create_dir_all(tracefs.join(events)).expect("a folder");
        }
        write(&tracefs, "available_events", "demo:step\ndemo:stop\n");
        write(&tracefs, "events/ftrace/print/format", &format("print", 5, &["char buf[];8;0;0"]));
        let page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        write(&tracefs, "events/header_page", page);
        write(&tracefs, "events/header_event", "# compressed entry header\n");
        write(&tracefs, "saved_cmdlines", "7 seven\n");
        let entry = format("funcgraph_entry", 12, &["unsigned long func;8;8;0", "int depth;16;4;1"]);
        let exit = ["unsigned long func;8;8;0", "unsigned long long calltime;16;8;0", "int depth;24;4;1"];
        write(&tracefs, "events/ftrace/funcgraph_entry/format", &entry);
        write(&tracefs, "events/ftrace/funcgraph_exit/format", &format("funcgraph_exit", 13, &exit));
        write(&tracefs, "max_graph_depth", "0\n");
        write(&tracefs, "tracers", "blk function_graph function nop\n");
        let is_over = Arc::new(AtomicBool::new(false));
        let (root, over) = (tracefs.join("instances"), is_over.clone());
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for instance in fs::read_dir(&root).expect("a folder").flatten() {
                    if !instance.path().join("tracing_on").exists() {
                        fill(&instance.path(), &pages);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        StandIn { folder, is_over, thread: Some(thread) }
    }

    fn options(&self, events: &[&str]) -> Options {
        let mut options = Options::default();
        options.output = self.folder.join("out.dat");
        options.tracefs = Some(self.folder.join("tracefs"));
        options.events = events.iter().map(|event| event.to_string()).collect();
        options
    }

    /// A setting of the instance that this process made.
    fn setting(&self, name: &str) -> String {
        let instance = format!("tracefs/instances/tracemill-{}", std::process::id());
        fs::read_to_string(self.folder.join(instance).join(name)).expect("a setting")
    }
}

impl StandIn {
    /// Fills no more instances.
    fn stop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn fill(instance: &Path, pages: &[Vec<u8>]) {
    let of_functions = ["current_tracer", "options/function-fork", "set_ftrace_pid"];
    let names = ["trace_clock", "buffer_size_kb", "buffer_percent", "options/event-fork", "set_event_pid"];
    for name in names.into_iter().chain(of_functions) {
        write(instance, name, "");
    }
    let tracers = instance.join("../../tracers");
    write(instance, "available_tracers", &fs::read_to_string(tracers).expect("a list of tracers"));
    for (name, id) in [("step", 10), ("stop", 11)] {
        let folder = format!("events/demo/{name}");
        write(instance, &format!("{folder}/format"), &format(name, id, &["u32 value;8;4;0"]));
        write(instance, &format!("{folder}/enable"), "0");
        write(instance, &format!("{folder}/filter"), "none");
    }
    for (cpu, pages) in pages.iter().enumerate() {
        let folder = instance.join(format!("per_cpu/cpu{cpu}"));
        write(&folder, "stats", &format!("entries: 0\noverrun: {cpu}\ndropped events: 2\n"));
        fs::write(folder.join("trace_pipe_raw"), pages).expect("a file");
    }
    write(instance, "tracing_on", "1");
}

/// Events `step` with these values, 10 ns apart.
fn page(time: u64, values: &[u32]) -> PageBuilder {
    let mut page = PageBuilder::new(ORDER, LONG, time);
    for &value in values {
        let mut record = [bytes(ORDER, 10, 2), vec![0, 0], bytes(ORDER, 7, 4)].concat();
        record.extend(bytes(ORDER, value.into(), 4));
        page.event(10, &record);
    }
    page
}

fn two_cpus() -> Vec<Vec<u8>> {
    let of = |pages: Vec<PageBuilder>| pages.into_iter().flat_map(|page| page.build(PAGE_BYTES)).collect();
    vec![of(vec![page(1000, &[1, 2]), page(3000, &[5]).missed(Some(3))]), of(vec![page(2000, &[3, 4])])]
}

/// The values of the events of a trace, in their order, and what a check of it finds.
fn values(path: &Path) -> (Vec<u64>, Vec<String>) {
    let traces = tracemill::open([path]).expect("a trace");
    let value = |event: tracemill::Result<tracemill::Event<'_>>| {
        let event = event.expect("a sound event");
        event.get("payload.value").and_then(|value| value.as_u64()).expect("a number")
    };
    let values = traces.events().into_iter().map(value).collect();
    let findings = tracemill::open([path]).expect("a trace").check().findings;
    (values, findings.iter().map(|finding| format!("{finding:?}")).collect())
}

#[test]
fn pages_become_a_trace() {
    let tracefs = StandIn::new("pages", two_cpus());
    let options = tracefs.options(&["demo:step if value > 0"]);
    let mut command = Command::new("sh");
    command.args(["-c", "exit 3"]);
    let recorded = record(Some(command), &options, &|| false).expect("a recording");
    assert_eq!(recorded.status.and_then(|status| status.code()), Some(3));
    assert_eq!((recorded.pages, recorded.cpus, recorded.lost), (3, 2, 5));
    let (values, findings) = values(&options.output);
    assert_eq!(values, [1, 2, 3, 4, 5]);
    assert!(findings.len() == 1 && findings[0].contains("3 events were discarded"), "{findings:?}");
    assert!(!has_parts(&options.output));
    for (name, value) in [
        ("trace_clock", "mono"),
        ("buffer_size_kb", "4096"),
        ("events/demo/step/enable", "1"),
        ("events/demo/step/filter", "value > 0"),
        ("events/demo/stop/enable", "0"),
        ("options/event-fork", "1"),
        ("tracing_on", "0"),
    ] {
        assert_eq!(tracefs.setting(name), value, "{name}");
    }
    assert!(tracefs.setting("set_event_pid").parse::<u32>().is_ok());
}

#[test]
fn a_list_chooses_all_that_it_names() {
    let tracefs = StandIn::new("list", two_cpus());
    let options = tracefs.options(&["demo:step, stop if value > 1"]);
    record(Some(Command::new("true")), &options, &|| false).expect("a recording");
    for event in ["step", "stop"] {
        assert_eq!(tracefs.setting(&format!("events/demo/{event}/enable")), "1");
        assert_eq!(tracefs.setting(&format!("events/demo/{event}/filter")), "value > 1");
    }
    let options = tracefs.options(&["demo:step,demo:stap"]);
    let error = record(Some(Command::new("true")), &options, &|| false).expect_err("an error");
    assert!(error.to_string().contains("this kernel has no event `demo:stap`"), "{error}");
}

#[test]
fn without_a_program_it_goes_on_until_it_is_told() {
    let tracefs = StandIn::new("alone", two_cpus());
    let mut options = tracefs.options(&["all"]);
    options.all_tasks = true;
    let begin = std::time::Instant::now();
    let recorded = record(None, &options, &|| begin.elapsed() > Duration::from_millis(50)).expect("a recording");
    assert_eq!((recorded.status, recorded.pages), (None, 3));
    assert_eq!(values(&options.output).0, [1, 2, 3, 4, 5]);
    assert_eq!(tracefs.setting("set_event_pid"), "");
}

#[test]
fn what_cannot_be_recorded_is_said_and_leaves_nothing() {
    let tracefs = StandIn::new("errors", two_cpus());
    let failed = |options: &Options, program: &str| {
        let error = record(Some(Command::new(program)), options, &|| false).expect_err("an error");
        assert!(!has_parts(&options.output));
        format!("{error}")
    };
    let mut options = tracefs.options(&["demo:stap"]);
    assert!(failed(&options, "true").contains("this kernel has no event `demo:stap`"));
    options.events = vec!["demo:step".into()];
    assert!(failed(&options, "/nonexistent/program").contains("/nonexistent/program"));
    assert!(!options.output.exists());
    fs::write(&options.output, "precious").expect("a file");
    assert!(failed(&options, "true").contains("is not a recording of kernel events"));
    assert_eq!(fs::read_to_string(&options.output).expect("the file"), "precious");
    options.tracefs = Some(tracefs.folder.clone());
    fs::remove_file(&options.output).expect("the file");
    assert!(failed(&options, "true").contains("it lists no events"));
}

#[test]
fn functions_are_recorded_where_the_kernel_can() {
    let mut page = PageBuilder::new(ORDER, LONG, 1000);
    for (id, more) in [(12, vec![]), (13, bytes(ORDER, 900, 8))] {
        let mut record =
            [bytes(ORDER, id, 2), vec![0, 0], bytes(ORDER, 7, 4), bytes(ORDER, 0xffff_8000, 8), more].concat();
        record.extend(bytes(ORDER, 1, 4));
        page.event(10, &record);
    }
    let page = page.build(PAGE_BYTES);
    let tracefs = StandIn::new("functions", vec![page.clone()]);
    let mut options = tracefs.options(&[]);
    options.functions = Some(3);
    // While the program runs; then as it was.
    let depth = tracefs.folder.join("tracefs/max_graph_depth");
    let mut command = Command::new("cat");
    command.arg(&depth).stdout(fs::File::create(tracefs.folder.join("depth")).expect("a file"));
    let recorded = record(Some(command), &options, &|| false).expect("a recording");
    assert_eq!((recorded.status.and_then(|status| status.code()), recorded.pages), (Some(0), 1));
    let text = |path: &Path| fs::read_to_string(path).expect("a text");
    assert_eq!((text(&tracefs.folder.join("depth")), text(&depth)), ("3".to_string(), "0\n".to_string()));
    for (name, value) in [("current_tracer", "function_graph"), ("options/function-fork", "1"), ("tracing_on", "0")] {
        assert_eq!(tracefs.setting(name), value, "{name}");
    }
    assert!(tracefs.setting("set_ftrace_pid").parse::<u32>().is_ok());
    let traces = tracemill::open([&options.output]).expect("a trace");
    let names: Vec<_> =
        traces.events().into_iter().map(|event| event.expect("a sound event").name().to_string()).collect();
    assert_eq!(names, ["funcgraph_entry", "funcgraph_exit"]);
    // At once: the stand-in would fill it again.
    let forget = || {
        let instance = format!("tracefs/instances/tracemill-{}", std::process::id());
        fs::rename(tracefs.folder.join(instance), tracefs.folder.join("gone"))?;
        fs::remove_dir_all(tracefs.folder.join("gone"))
    };
    // In the folder of calls, whose reader needs the formats.
    forget().expect("an instance");
    options.output = tracefs.folder.join("calls");
    fs::create_dir(&options.output).expect("a folder");
    let run = |start: &mut tracemill_kernel::StartProgram<'_>| start(&mut Command::new("true"));
    let (mut child, recorded) = tracemill_kernel::record_beside(&options, run).expect("a recording");
    child.wait().expect("it ends");
    assert_eq!(recorded.pages, 1);
    let header = text(&options.output.join("kernel_header"));
    assert!(header.contains("TRACEFS: events/ftrace/funcgraph_entry/format: "), "{header}");
    assert_eq!(fs::read(options.output.join("kernel-cpu0.dat")).expect("pages"), page);
    // A kernel that cannot.
    options.output = tracefs.folder.join("other.dat");
    forget().expect("an instance");
    write(&tracefs.folder, "tracefs/tracers", "blk function nop\n");
    let error = record(Some(Command::new("true")), &options, &|| false).expect_err("an error");
    assert!(error.to_string().contains("this kernel has no tracer `function_graph` here"), "{error}");
    assert!(error.help().is_some_and(|help| help.ends_with("this one has: blk function nop")), "{error:?}");
}

/// This program again records until it is killed.
#[test]
fn a_killed_recorder_loses_nothing_that_it_had() {
    const CHILD: &str = "TRACEMILL_TEST_KERNEL";
    if let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) {
        let mut options = Options::default();
        options.output = folder.join("out.dat");
        options.tracefs = Some(folder.join("tracefs"));
        options.events = vec!["demo".into()];
        options.functions = Some(3);
        record(None, &options, &|| false).expect("a recording");
        return;
    }
    let mut tracefs = StandIn::new("killed", two_cpus());
    let mut child = Command::new(std::env::current_exe().expect("a program"));
    child.args(["--exact", "a_killed_recorder_loses_nothing_that_it_had"]).env(CHILD, &tracefs.folder);
    let mut child = child.spawn().expect("a child");
    let parts = tracefs.folder.join(".out.dat.parts");
    let has_all = || fs::metadata(parts.join("cpu0")).is_ok_and(|of| of.len() == 2 * PAGE_BYTES as u64);
    while !has_all() || !fs::metadata(parts.join("cpu1")).is_ok_and(|of| of.len() == PAGE_BYTES as u64) {
        assert!(child.try_wait().expect("it can be asked").is_none(), "the child records nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = tracefs.folder.join("out.dat");
    let root = tracefs.folder.join("tracefs");
    assert!(recover(&output, Some(&root)).is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy));
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    tracefs.stop();
    // As after a new start of the machine: the kernel has nothing of it any more. Of a page a part was written.
    fs::remove_dir_all(root.join("instances")).expect("a folder");
    fs::create_dir(root.join("instances")).expect("a folder");
    let cut = fs::read(parts.join("cpu1")).expect("pages");
    fs::write(parts.join("cpu1"), [&cut[..], &cut[..100]].concat()).expect("pages");
    let depth = || fs::read_to_string(root.join("max_graph_depth")).expect("a depth");
    assert_eq!(depth(), "3");
    let recovered = recover(&output, Some(&root)).expect("a recovery");
    assert_eq!((recovered.pages, recovered.cpus, depth()), (3, 2, "0".to_string()));
    assert_eq!(values(&output).0, [1, 2, 3, 4, 5]);
    assert!(!has_parts(&output));
}

/// Pages that were moved before the disk was full stay, and the program's status is reported.
#[test]
fn what_a_full_disk_took_can_be_recovered() {
    const CHILD: &str = "TRACEMILL_TEST_KERNEL_FULL";
    const NAME: &str = "what_a_full_disk_took_can_be_recovered";
    if let Some(folder) = std::env::var_os(CHILD).map(PathBuf::from) {
        let mut options = Options::default();
        options.output = folder.join("small/out.dat");
        options.tracefs = Some(folder.join("tracefs"));
        options.events = vec!["demo".into()];
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let recorded = record(Some(command), &options, &|| false).expect("a program that ran");
        assert_eq!((recorded.status.and_then(|status| status.code()), recorded.lost), (Some(3), 2));
        assert!(recorded.failed.as_deref().is_some_and(|why| why.contains("No space left")), "{recorded:?}");
        assert!(has_parts(&options.output) && !options.output.exists());
        return;
    }
    let pages: Vec<u8> = (0..4096_u32).flat_map(|i| page(u64::from(i) * 1000, &[i]).build(PAGE_BYTES)).collect();
    let mut tracefs = StandIn::new("full", vec![pages]);
    fs::create_dir(tracefs.folder.join("small")).expect("a folder");
    // Half of the pages find room, beside the symbols of the kernel.
    let room = 8 + (fs::read("/proc/kallsyms").map_or(0, |symbols| symbols.len()) >> 20);
    let shell = format!(
        "mount -t tmpfs -o size={room}m none \"$FOLDER/small\" && \"$@\" && cp -r \"$FOLDER/small\" \"$FOLDER/copy\""
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &shell, "sh"]).arg(std::env::current_exe().expect("a program"));
    command.args(["--exact", NAME, "--nocapture"]).env(CHILD, &tracefs.folder).env("FOLDER", &tracefs.folder);
    let Ok(output) = command.output() else { return eprintln!("left out: there is no unshare") };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("unshare: ") || said.contains("mount: ") {
        return eprintln!("left out: file systems cannot be mounted here");
    }
    assert!(output.status.success(), "{said}");
    // As the kernel has it when the recorder is gone.
    tracefs.stop();
    fs::remove_dir_all(tracefs.folder.join("tracefs/instances")).expect("a folder");
    let output = tracefs.folder.join("copy/out.dat");
    let recovered = recover(&output, Some(&tracefs.folder.join("tracefs"))).expect("a recovery");
    let (values, findings) = values(&output);
    assert!((1000..4000).contains(&values.len()) && values.len() as u64 == recovered.pages, "{recovered:?}");
    assert!(values.into_iter().eq(0..recovered.pages), "{findings:?}");
}

/// The kernel of this machine, where its tracer can be used.
#[test]
fn the_kernel_tells_of_a_program() {
    let folder = std::env::temp_dir().join(format!("tracemill-kernel-real-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let mut options = Options::default();
    options.output = folder.join("trace.dat");
    options.events = vec!["sched:sched_process_exec".into(), "sched:sched_process_exit".into()];
    match record(Some(Command::new("true")), &options, &|| false) {
        Err(error) => eprintln!("left out: {error}"),
        Ok(recorded) => {
            assert!(recorded.status.is_some_and(|status| status.success()));
            let traces = tracemill::open([&options.output]).expect("a trace");
            let names: Vec<String> =
                traces.events().into_iter().map(|event| event.expect("a sound event").name().to_string()).collect();
            for name in ["sched_process_exec", "sched_process_exit"] {
                assert!(names.iter().any(|found| found == name), "{name} is not in {names:?}");
            }
        }
    }
    fs::remove_dir_all(folder).expect("a folder");
}
