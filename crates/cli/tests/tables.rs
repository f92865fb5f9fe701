//! `tracemill convert --to parquet` and `--to arrow`, read back.
#![cfg(feature = "columnar")]

mod util;

use std::fs::{self, File};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::FileReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use util::{Folder, json_lines};

fn demo(trace: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces").join(trace).display().to_string()
}

/// All batches of a file.
fn batches(path: &Path) -> Vec<RecordBatch> {
    let file = File::open(path).expect("the table is there");
    if path.extension().is_some_and(|extension| extension == "arrow") {
        return FileReader::try_new(file, None).expect("an Arrow file").map(|batch| batch.expect("a batch")).collect();
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file").build().expect("a reader");
    reader.map(|batch| batch.expect("a batch")).collect()
}

/// A column of 64 bits as numbers.
fn numbers(batches: &[RecordBatch], name: &str) -> Vec<Option<i64>> {
    let of = |batch: &RecordBatch| -> Vec<Option<i64>> {
        let column = batch.column_by_name(name).expect("the column is there");
        match column.as_primitive_opt::<Int64Type>() {
            Some(column) => column.iter().collect(),
            None => column.as_primitive::<UInt64Type>().iter().map(|value| value.map(|value| value as i64)).collect(),
        }
    };
    batches.iter().flat_map(of).collect()
}

#[test]
fn every_event_is_a_row_of_both_tables() {
    let folder = Folder::new();
    let lines = json_lines(&folder.run_with("print --format jsonl -q", &[&demo("mill")]).ends(0, &[]).stdout);
    for form in ["parquet", "arrow"] {
        folder.run_with(&format!("convert --to {form}"), &["-o", form, &demo("mill")]).ends(0, &[]);
        let events = batches(&folder.path(form).join(format!("events.{form}")));
        let column = |name: &str| lines.iter().map(|line| line[name].as_i64()).collect::<Vec<_>>();
        for name in ["ns", "cycles", "id", "stream"] {
            assert_eq!(numbers(&events, name), column(name), "{name} as {form}");
        }
        let mut rows = 0;
        for entry in fs::read_dir(folder.path(form).join("event")).expect("a folder of tables") {
            let path = entry.expect("an entry").path();
            let table = batches(&path);
            let places = numbers(&table, "event");
            assert!(places.is_sorted());
            for (place, ns) in places.iter().zip(numbers(&table, "ns")) {
                let line = &lines[place.expect("each row is of an event") as usize];
                assert_eq!(line["ns"].as_i64(), ns);
                let name = line["name"].as_str().expect("a name").replace(':', "%3a");
                assert!(path.ends_with(format!("{name}.{form}")), "{path:?}");
                rows += 1;
            }
        }
        assert_eq!(rows, lines.len());
    }
}

#[test]
fn losses_and_cuts_are_there() {
    let folder = Folder::new();
    folder.run_with("convert --to parquet", &["-o", "all", &demo("losses")]).ends(0, &[]);
    let losses = batches(&folder.path("all").join("losses.parquet"));
    let missing: i64 = numbers(&losses, "count").into_iter().flatten().sum();
    let info = folder.run_with("info --json -q", &[&demo("losses")]).ends(0, &[]).stdout;
    let info: serde_json::Value = serde_json::from_str(&info).expect("it is JSON");
    let streams = info["traces"][0]["streams"].as_array().expect("streams").clone();
    assert_eq!(missing, streams.iter().filter_map(|stream| stream["discarded_events"].as_i64()).sum::<i64>());
    assert!(missing > 0);
    folder.run_with("convert --to parquet --limit 5", &["-o", "cut", &demo("losses")]).ends(0, &[]);
    assert_eq!(numbers(&batches(&folder.path("cut").join("events.parquet")), "event").len(), 5);
}

#[test]
fn several_traces_have_tables_of_their_own() {
    let folder = Folder::new();
    folder.run_with("convert --to parquet", &["-o", "two", &demo("mill"), &demo("orders")]).ends(0, &[]);
    let events = batches(&folder.path("two").join("events.parquet"));
    assert!(events[0].column_by_name("trace").is_some_and(|column| column.null_count() == 0));
    assert_eq!(fs::read_dir(folder.path("two").join("event")).expect("a folder").count(), 2);
}

#[test]
fn tables_are_replaced_by_force_and_other_folders_are_not() {
    let folder = Folder::new();
    folder.run_with("convert --to parquet", &["-o", "out", &demo("orders")]).ends(0, &[]);
    folder.run_with("convert --to parquet", &["-o", "out", &demo("orders")]).ends(1, &["exists already"]);
    folder.run_with("convert --to arrow --force", &["-o", "out", &demo("orders")]).ends(0, &[]);
    assert!(folder.path("out").join("events.arrow").exists() && !folder.path("out").join("events.parquet").exists());
    fs::write(folder.path("out").join("notes"), "mine").expect("the folder is there");
    folder.run_with("convert --to arrow --force", &["-o", "out", &demo("orders")]).ends(1, &["holds no trace"]);
}

#[test]
fn labels_of_wide_integers_are_counted() {
    let folder = Folder::new();
    let class = r#"{"type":"fixed-length-unsigned-integer","length":72,"byte-order":"little-endian","mappings":{"big":[[5,5]]}}"#;
    let flags = r#"{"type":"fixed-length-bit-map","length":80,"byte-order":"little-endian","flags":{"low":[[0,0]]}}"#;
    let payload = format!(
        r#"{{"type":"structure","member-classes":[{{"name":"n","field-class":{class}}},{{"name":"f","field-class":{flags}}}]}}"#
    );
    let fragments = [
        r#"{"type":"preamble","version":2}"#.to_string(),
        r#"{"type":"data-stream-class"}"#.to_string(),
        format!(r#"{{"type":"event-record-class","name":"e","payload-field-class":{payload}}}"#),
    ];
    let metadata: String = fragments.iter().map(|fragment| format!("\u{1e}{fragment}\n")).collect();
    folder.file("t/metadata", metadata).file("t/s", [5; 19]);
    folder.run("convert --to parquet -o out t").ends(0, &["labels and flags of integers of more than 64 bits (2)"]);
    folder.run("convert --to parquet --strict -o strict t").ends(1, &["labels and flags"]);
}
