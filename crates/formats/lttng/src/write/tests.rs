//! Traces in memory, written in other versions and read back.

use std::path::Path;
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_codec::value::Value;
use tracemill_format::lost::Lost;
use tracemill_format::target::WriteOptions;
use tracemill_format::testing::{MadeFiles, events_of, shown};
use tracemill_format::{Entry, EntryKind, Format, FoundTrace, OpenContext, OpenTrace, Settings, Storage};
use tracemill_model::clock::ClockMap;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{ByteOrder, Scope};

use super::{TARGET, VERSION};
use crate::{facilities, markers};

/// Files that were made, as a folder.
struct Made(MadeFiles);

impl Made {
    /// The name of a file below the folder `out`.
    fn name(path: &Path) -> Option<String> {
        Some(path.strip_prefix("out").ok()?.display().to_string())
    }
}

impl Storage for Made {
    fn list(&self, path: &Path) -> Result<Vec<Entry>> {
        let below = Made::name(path).unwrap_or_default();
        let below = if below.is_empty() { below } else { below + "/" };
        let mut entries: Vec<Entry> = Vec::new();
        for (name, bytes) in self.0.files() {
            let Some(rest) = name.strip_prefix(&below) else { continue };
            let (name, kind) = match rest.split_once('/') {
                Some((folder, _)) => (folder.to_string(), EntryKind::Directory),
                None => (rest.to_string(), EntryKind::File(bytes.len() as u64)),
            };
            if !entries.iter().any(|entry| entry.name == name) {
                entries.push(Entry { path: path.join(&name), name, kind });
            }
        }
        Ok(entries)
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        let name = Made::name(path)?;
        let files = self.0.files();
        let file = files.get(&name).map(|bytes| EntryKind::File(bytes.len() as u64));
        let is_folder = || name.is_empty() || files.keys().any(|other| other.starts_with(&format!("{name}/")));
        file.or_else(|| is_folder().then_some(EntryKind::Directory))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Bytes>> {
        let name = Made::name(path).unwrap_or_default();
        let bytes = self.0.files().remove(&name).ok_or_else(|| Error::malformed("no such file"))?;
        Ok(Arc::new(bytes))
    }
}

fn open(storage: &dyn Storage, path: &str, format: &Format) -> OpenTrace {
    assert!((format.probe)(storage, Path::new(path)), "not recognised");
    let found = FoundTrace { path: path.into(), name: "t".into(), below: String::new() };
    (format.open)(&OpenContext::new(storage), &[found]).remove(0).expect("the trace opens")
}

/// `stream ns name payload` of all events, without those that say what facilities there are.
fn lines(trace: &OpenTrace) -> Vec<String> {
    let mut lines = Vec::new();
    for stream in &trace.streams {
        let clock = trace.schema.stream(stream.class).default_clock.map(|clock| trace.schema.clock(clock));
        let clock = clock.filter(|clock| clock.frequency > 0).map(|clock| ClockMap::new(clock, 0));
        for index in 0..stream.packets.len() {
            let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).expect("a packet");
            assert_eq!(opened.faults.iter().map(Error::to_string).collect::<Vec<_>>(), [""; 0]);
            let chunk = events_of(opened.data);
            for event in (0..chunk.len()).map(|at| chunk.event(at)) {
                let name = trace.schema.event(event.class()).name.as_deref().unwrap_or("");
                if name.starts_with("core.") || name.starts_with("metadata.") {
                    continue;
                }
                let ns = clock.as_ref().map(|clock| clock.ns(event.cycles()));
                let payload = event.values(Scope::Payload).expect("fields").unwrap_or(Value::Null);
                lines.push(format!("{} {ns:?} {name} {}", stream.name, shown(&payload)));
            }
        }
    }
    lines
}

/// Writes a trace in a version, or in the one that it had; what is lost.
fn written(trace: &OpenTrace, version: Option<&str>, order: Option<ByteOrder>) -> (Made, Vec<Lost>) {
    let settings = Settings(version.map(|version| (VERSION, version.to_string())).into_iter().collect());
    let options = WriteOptions { settings, byte_order: order, ..WriteOptions::default() };
    let made = MadeFiles::default();
    let losses = made.convert(trace, &TARGET, &options, |_| {}).expect("it is written");
    (Made(made), losses.kinds().collect())
}

#[test]
fn facilities_are_written_in_both_versions() {
    let folder = facilities::tests::example();
    let trace = open(&folder, "/t", &facilities::FORMAT);
    let want = lines(&trace);
    assert!(want.len() > 3, "{want:?}");
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut made = written(&trace, Some("0.8"), Some(order));
        // There and back again: its names, fields and times stay.
        for version in ["0.8", "0.7", "0.8"] {
            let (files, losses) = &made;
            assert_eq!(losses, &[], "{version}");
            let opened = open(files, "out", &facilities::FORMAT);
            let told: Vec<String> = opened.faults.iter().chain(&opened.warnings).map(Error::to_string).collect();
            assert_eq!(told, [""; 0], "{version}");
            assert_eq!(opened.schema.version, (0, if version == "0.8" { 8 } else { 7 }));
            assert_eq!(opened.schema.byte_order, order);
            assert_eq!(lines(&opened), want, "{version}");
            let minor = files.0.files()["control/facilities_0"][58];
            assert_eq!(format!("0.{minor}"), version);
            // Without the option it keeps its version, byte for byte.
            let again = written(&opened, None, None);
            assert_eq!(again.1, []);
            assert_eq!(again.0.0.files(), files.0.files(), "{version}");
            made = written(&opened, Some(if version == "0.8" { "0.7" } else { "0.8" }), Some(order));
        }
    }
}

#[test]
fn a_channel_with_the_name_of_compact_files_gets_another() {
    let mut folder = facilities::tests::example();
    folder.rename("cpu_0", "compact_0");
    let trace = open(&folder, "/t", &facilities::FORMAT);
    let want = lines(&trace);
    let (made, _) = written(&trace, Some("0.8"), None);
    let found = lines(&open(&made, "out", &facilities::FORMAT));
    let renamed: Vec<String> = want.iter().map(|line| line.replacen("compact_0", "compact-1_0", 1)).collect();
    assert_eq!(found, renamed);
}

#[test]
fn markers_are_made_of_facilities() {
    let trace = open(&facilities::tests::example(), "/t", &facilities::FORMAT);
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let (made, losses) = written(&trace, Some("2.6"), Some(order));
        let lost =
            [Lost::ClockFrequencies, Lost::ClockOrigins, Lost::FieldsAsText, Lost::Labels].map(|lost| lost.to_string());
        let mut losses: Vec<String> = losses.iter().map(Lost::to_string).collect();
        losses.retain(|lost| !lost.contains("core"));
        let mut want = lost.to_vec();
        want.sort();
        losses.sort();
        assert_eq!(losses, want);
        let opened = open(&made, "out", &markers::FORMAT);
        let told: Vec<String> = opened.faults.iter().chain(&opened.warnings).map(Error::to_string).collect();
        assert_eq!(told, [""; 0]);
        assert_eq!((opened.schema.version, opened.schema.byte_order), ((2, 6), order));
        // Files are those of a channel: the CPU stays.
        let mut expected: Vec<String> = lines(&trace).iter().map(|line| line.replacen("cpu_", "t_", 1)).collect();
        expected.iter_mut().for_each(|line| *line = line.replace("all=[1 65535]", "all=\"[1, 65535]\""));
        expected.iter_mut().for_each(|line| *line = line.replace("all=[256 65535]", "all=\"[256, 65535]\""));
        assert_eq!(lines(&opened), expected);
        // And stays one.
        let again = written(&opened, None, None);
        assert_eq!(again.1, []);
        assert_eq!(again.0.0.files(), made.0.files());
        // Back among the facilities.
        let (back, _) = written(&opened, Some("0.7"), None);
        let found = lines(&open(&back, "out", &facilities::FORMAT));
        assert_eq!(found, expected);
    }
}

#[test]
fn other_versions_are_refused() {
    let trace = open(&facilities::tests::example(), "/t", &facilities::FORMAT);
    for wrong in ["0.6", "8", "", "2.7"] {
        let settings = Settings([(VERSION, wrong.to_string())].into());
        let options = WriteOptions { settings, ..WriteOptions::default() };
        let error = MadeFiles::default().convert(&trace, &TARGET, &options, |_| {}).expect_err(wrong);
        assert!(error.to_string().contains("--lttng-version"), "{error}");
    }
    assert!(!(markers::FORMAT.probe)(&facilities::tests::example(), Path::new("/t")));
}
