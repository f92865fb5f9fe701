//! `tracemill cluster` and `sql --cluster`.

mod util;

use util::{Run, command};

fn run(words: &[&str]) -> Run {
    Run::from_output(command().args(words).output().expect("it starts"))
}

#[cfg(not(feature = "distributed"))]
#[test]
fn a_program_without_clusters_says_how_to_get_one() {
    run(&["cluster", "scheduler"]).ends(1, &["--features distributed"]);
}

#[cfg(feature = "distributed")]
mod distributed {
    use std::io::{BufRead, BufReader, Read};
    use std::net::{TcpListener, TcpStream};
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::run;
    use super::util::{Folder, Run, command, demo};

    /// Whatever takes longer never ends.
    const NEVER: Duration = Duration::from_secs(240);

    /// One scheduler and some executors, as processes of their own.
    struct Cluster {
        scheduler: Child,
        address: String,
        executors: Vec<Executor>,
    }

    struct Executor {
        process: Child,
        address: String,
    }

    fn free() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.local_addr().expect("it has one").to_string()
    }

    fn started(command: &mut Command) -> Child {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
    }

    impl Cluster {
        fn new() -> Cluster {
            let address = free();
            let scheduler = started(command().args(["cluster", "scheduler", "--bind", &address]));
            let begin = Instant::now();
            while TcpStream::connect(&address).is_err() {
                assert!(begin.elapsed() < NEVER, "the scheduler does not listen");
                std::thread::sleep(Duration::from_millis(20));
            }
            Cluster { scheduler, address, executors: Vec::new() }
        }

        /// Adds an executor that works in a folder and may open what is below it.
        fn add(&mut self, folder: &Path, jobs: &str) {
            let address = free();
            let words = ["cluster", "executor", "--scheduler", &self.address, "--bind", &address, "--jobs", jobs];
            let process = started(command().args(words).arg("--allow").arg(folder).current_dir(folder));
            self.executors.push(Executor { process, address });
        }

        /// `tracemill sql` on this cluster.
        fn sql(&self, words: &[&str]) -> Command {
            let mut command = command();
            command.args(["sql", "--cluster", &format!("df://{}", self.address)]).args(words);
            command
        }

        fn ask(&self, words: &[&str]) -> Run {
            ended(self.sql(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts"))
        }

        fn kill(&mut self, at: usize) {
            let mut executor = self.executors.remove(at);
            executor.process.kill().expect("it runs");
            executor.process.wait().expect("it ends");
        }
    }

    impl Drop for Cluster {
        fn drop(&mut self) {
            let executors = self.executors.iter_mut().map(|executor| &mut executor.process);
            for process in executors.chain([&mut self.scheduler]) {
                // It may have ended before.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }

    /// Waits for the end of a program whose output is piped, and ends it when that does not come.
    fn ended(mut child: Child) -> Run {
        fn all(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                pipe.read_to_end(&mut bytes).expect("it can be read");
                bytes
            })
        }
        let stdout = child.stdout.take().map(all);
        let stderr = child.stderr.take().map(all);
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it is ours") {
                break status;
            }
            if begin.elapsed() > NEVER {
                child.kill().expect("it runs");
                panic!("the query does not end");
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let bytes = |thread: Option<std::thread::JoinHandle<Vec<u8>>>| {
            thread.map(|thread| thread.join().expect("it reads")).unwrap_or_default()
        };
        Run::from_output(std::process::Output { status, stdout: bytes(stdout), stderr: bytes(stderr) })
    }

    fn demos() -> PathBuf {
        std::fs::canonicalize(demo("")).expect("the demo is there")
    }

    #[test]
    fn a_cluster_in_one_process_gives_the_same_rows() {
        for sql in [
            "select name, count(*), sum(class) from events group by name order by name",
            "select ns, event from events limit 5",
            "select ns, grams from \"mill:grind\" where grams > 5 order by ns",
        ] {
            let alone = run(&["sql", "mill", "-c", sql]).ends(0, &[]);
            let cluster = run(&["sql", "--cluster", "standalone", "mill", "-c", sql]).ends(0, &[]);
            assert!(alone.stdout.lines().count() > 5, "{sql}");
            assert_eq!(alone.stdout, cluster.stdout, "{sql}");
        }
    }

    #[test]
    fn an_executor_that_others_may_ask_needs_folders() {
        run(&["cluster", "executor", "--scheduler", "127.0.0.1:1", "--bind", "0.0.0.0:0"]).ends(2, &["--allow"]);
    }

    /// Pairs of events are many, so that there is time to kill somebody.
    const LONG: &str = "select a.name, count(*) as n, sum(a.ns - b.ns) as ns from events a join events b on a.class = b.class \
                        where a.ns % 7 <> b.ns % 11 group by a.name order by a.name";

    #[test]
    fn an_executor_that_is_killed_in_the_middle_changes_no_answer() {
        let alone = run(&["sql", "mill", "-c", LONG]).ends(0, &[]).stdout;
        let mut cluster = Cluster::new();
        (0..2).for_each(|_| cluster.add(&demos(), "1"));
        let begin = Instant::now();
        assert_eq!(cluster.ask(&["mill", "-c", LONG]).ends(0, &[]).stdout, alone);
        // From before the first task to after the last one.
        let span = begin.elapsed();
        for (number, percent) in [0, 15, 30, 45, 60, 75, 90, 100].into_iter().enumerate() {
            let words = ["mill", "-c", LONG];
            let query = cluster.sql(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
            std::thread::sleep(span * percent / 100);
            cluster.kill(number % 2);
            let answer = ended(query);
            match answer.code {
                Some(0) => assert_eq!(answer.stdout, alone, "killed at {percent} %"),
                code => {
                    assert_eq!(code, Some(1), "killed at {percent} %: {}", answer.stderr);
                    assert!(answer.stderr.contains("error: "), "{}", answer.stderr);
                }
            }
            // The executors that are left do the next one.
            assert_eq!(cluster.ask(&["mill", "-c", LONG]).ends(0, &[]).stdout, alone, "after {percent} %");
            cluster.add(&demos(), "1");
        }
    }

    #[test]
    fn an_executor_that_is_killed_while_rows_are_fetched_leaves_no_half_answer() {
        // Many more bytes than pipes hold, so that they are still being fetched.
        let sql = "select a.name, a.ns, b.ns as other, a.payload from events a join events b on a.class = b.class";
        let count = format!("select count(*) as n from ({sql})");
        let rows: usize =
            run(&["sql", "mill", "-c", &count]).ends(0, &[]).stdout.lines().nth(1).expect("a row").parse().expect("n");
        for at in 0..2 {
            let mut cluster = Cluster::new();
            (0..2).for_each(|_| cluster.add(&demos(), "1"));
            let mut query = cluster.sql(&["mill", "--format", "csv", "-c", sql]);
            let mut query = query.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
            let mut lines = BufReader::new(query.stdout.take().expect("it is piped"));
            let mut line = String::new();
            lines.read_line(&mut line).expect("a header");
            assert_eq!(line, "name,ns,other,payload\n");
            lines.read_line(&mut line).expect("a row");
            cluster.kill(at);
            let others = lines.lines().map(|line| line.expect("text")).filter(|line| !line.is_empty()).count();
            let end = ended(query);
            match end.code {
                Some(0) => assert_eq!(others + 1, rows),
                code => {
                    assert_eq!(code, Some(1), "{}", end.stderr);
                    assert!(end.stderr.contains("error: "), "{}", end.stderr);
                }
            }
        }
    }

    #[test]
    fn a_cluster_without_executors_is_not_waited_for() {
        let cluster = Cluster::new();
        cluster.ask(&["mill", "-c", "select count(*) from events"]).ends(1, &["there is none"]);
        let address = cluster.address.clone();
        drop(cluster);
        run(&["sql", "--cluster", &format!("df://{address}"), "mill", "-c", "select 1"])
            .ends(1, &["no scheduler answers"]);
    }

    #[test]
    fn paths_outside_of_allowed_folders_are_refused() {
        let folder = Folder::new();
        folder
            .copy_of("mill", "in/mill")
            .copy_of("mill", "out/mill")
            .file("in/costs.csv", "a\n1\n")
            .file("out/costs.csv", "a\n2\n");
        let mut cluster = Cluster::new();
        cluster.add(&folder.path("in"), "1");
        let path = |name: &str| folder.path(name).display().to_string();
        let count = "select count(*) as n from events";
        assert!(cluster.ask(&[&path("in/mill"), "-c", count]).ends(0, &[]).stdout.starts_with("n\n"));
        let outside = cluster
            .ask(&[&path("out/mill"), "-c", count])
            .ends(1, &["--allow", "out/mill", &cluster.executors[0].address]);
        assert_eq!(outside.stdout, "");
        cluster.ask(&[&path("in/../out/mill"), "-c", count]).ends(1, &["--allow"]);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path("out/mill"), folder.path("in/link")).expect("a link");
            cluster.ask(&[&path("in/link"), "-c", count]).ends(1, &["--allow"]);
        }
        // A join, so that the file is read by the executor.
        let files = |name: &str| format!("select count(*) as n from events, '{}' costs", path(name));
        assert!(cluster.ask(&[&path("in/mill"), "-c", &files("in/costs.csv")]).ends(0, &[]).stdout.starts_with("n\n"));
        cluster.ask(&[&path("in/mill"), "-c", &files("out/costs.csv")]).ends(1, &["--allow"]);
    }

    /// A path that leads elsewhere in each process shows an executor another trace than the one that was planned with.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_changed_file_is_noticed() {
        let folder = Folder::new();
        folder.copy_of("mill", "here/mill").copy_of("mill", "there/mill").file("none/of/it", "");
        let stream =
            std::fs::read_dir(folder.path("there/mill")).expect("a folder").flatten().map(|entry| entry.path());
        let stream = stream.max_by_key(|path| path.metadata().expect("a file").len()).expect("a file");
        let time = std::fs::metadata(folder.path("here/mill").join(stream.file_name().expect("a name")));
        let time = time.expect("a file").modified().expect("a time") + Duration::from_secs(5);
        let words = ["/proc/self/cwd/mill", "-c", "select count(*) as n from events"];
        let mut cluster = Cluster::new();
        cluster.add(&folder.path("here"), "1");
        let ask = |cluster: &Cluster| {
            let mut command = cluster.sql(&words);
            command.current_dir(folder.path("here")).stdout(Stdio::piped()).stderr(Stdio::piped());
            ended(command.spawn().expect("it starts"))
        };
        ask(&cluster).ends(0, &[]);
        for there in ["there", "none"] {
            cluster.kill(0);
            cluster.add(&folder.path(there), "1");
            std::fs::File::options()
                .append(true)
                .open(&stream)
                .expect("a file")
                .set_modified(time)
                .expect("it is ours");
            let run = ask(&cluster).ends(1, &[&cluster.executors[0].address, "/proc/self/cwd/mill"]);
            assert_eq!(run.stdout, "");
        }
    }

    #[test]
    fn faults_are_told_once_and_are_those_of_one_process() {
        let folder = Folder::new();
        folder.copy_of("mill", "mill");
        // Streams that end in the middle of a packet.
        for entry in std::fs::read_dir(folder.path("mill")).expect("a folder").flatten() {
            let (path, length) = (entry.path(), entry.metadata().expect("a file").len());
            if !path.ends_with("metadata") && length > 8192 {
                std::fs::File::options()
                    .write(true)
                    .open(&path)
                    .expect("a file")
                    .set_len(length - 1000)
                    .expect("it is ours");
            }
        }
        let path = folder.path("mill").display().to_string();
        let mut cluster = Cluster::new();
        (0..2).for_each(|_| cluster.add(&folder.path(""), "2"));
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
            lines.sort();
            lines
        };
        for sql in [
            "select name, count(*) as n from events group by name order by name",
            "select a.n + b.n as n from (select count(*) as n from events) a, (select count(*) as n from events) b",
        ] {
            let alone = run(&["sql", &path, "-c", sql]);
            assert!(alone.stderr.contains("fault") || alone.stderr.contains("error"), "{}", alone.stderr);
            let alone = alone.ends(3, &[]);
            let there = cluster.ask(&[&path, "-c", sql]).ends(3, &[]);
            assert_eq!((sorted(&alone.stderr), &alone.stdout), (sorted(&there.stderr), &there.stdout), "{sql}");
        }
    }

    /// Tasks give rows to each other in files.
    #[test]
    fn files_between_tasks_are_removed_at_the_end() {
        let folder = Folder::new();
        std::fs::create_dir(folder.path("temporary")).expect("it is ours");
        let left = || {
            let entries = std::fs::read_dir(folder.path("temporary")).expect("it is there");
            entries.map(|entry| entry.expect("it can be read").file_name()).collect::<Vec<_>>()
        };
        let sql = "select name, count(*) as n from events group by name order by name";
        let mut alone = command();
        alone.args(["sql", "--cluster", "standalone", "mill", "-c", sql]).env("TMPDIR", folder.path("temporary"));
        Run::from_output(alone.output().expect("it starts")).ends(0, &[]);
        assert!(left().is_empty(), "{:?}", left());

        let mut cluster = Cluster::new();
        let words = ["cluster", "executor", "--scheduler", &cluster.address, "--bind", &free(), "--jobs", "1"];
        let mut executor = command();
        executor.args(words).current_dir(demos()).env("TMPDIR", folder.path("temporary"));
        cluster.executors.push(Executor { process: started(&mut executor), address: String::new() });
        let begin = Instant::now();
        while cluster.ask(&["mill", "-c", sql]).code != Some(0) {
            assert!(begin.elapsed() < NEVER, "the executor does not answer");
        }
        assert!(!left().is_empty(), "its files are elsewhere");
        let executor = &mut cluster.executors[0].process;
        Command::new("kill").arg(executor.id().to_string()).status().expect("it runs");
        executor.wait().expect("it ends");
        assert!(left().is_empty(), "{:?}", left());
    }
}
