//! `tracemill cluster` and `sql --cluster`.

use std::path::Path;
use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces");
    Command::new(env!("CARGO_BIN_EXE_tracemill")).current_dir(traces).args(words).output().expect("it starts")
}

#[cfg(not(feature = "distributed"))]
#[test]
fn a_program_without_clusters_says_how_to_get_one() {
    let output = run(&["cluster", "scheduler"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--features distributed"));
}

#[cfg(feature = "distributed")]
#[test]
fn a_cluster_in_one_process_gives_the_same_rows() {
    for sql in [
        "select name, count(*), sum(class) from events group by name order by name",
        "select ns, event from events limit 5",
        "select ns, load from \"mill:tick\" where load > 5 order by ns",
    ] {
        let (alone, cluster) =
            (run(&["sql", "mill", "-c", sql]), run(&["sql", "--cluster", "standalone", "mill", "-c", sql]));
        assert_eq!(alone.status.code(), cluster.status.code(), "{sql}");
        assert_eq!(String::from_utf8_lossy(&alone.stdout), String::from_utf8_lossy(&cluster.stdout), "{sql}");
    }
}

#[cfg(feature = "distributed")]
#[test]
fn an_executor_that_others_may_ask_needs_folders() {
    let output = run(&["cluster", "executor", "--scheduler", "127.0.0.1:1", "--bind", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--allow"));
}
