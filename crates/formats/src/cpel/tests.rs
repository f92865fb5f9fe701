//! Whole files, built byte by byte: what is said about damage, and where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::{Bytes, Chunk, ChunkSink, PacketData};
use tracemill_codec::plan::{State, Visitor};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::{ByteOrder, FieldKind};

use super::{CPEL, ELOG};
use crate::api::{Entry, EntryKind, Found, OpenTrace, Settings, Storage};

/// Files in memory.
struct Files(BTreeMap<PathBuf, Arc<Vec<u8>>>);

impl Storage for Files {
    fn list(&self, _: &Path) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        self.0.get(path).map(|bytes| EntryKind::File(bytes.len() as u64))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Bytes>> {
        match self.0.get(path) {
            Some(bytes) => Ok(bytes.clone()),
            None => Err(Error::new(ErrorKind::Io, "no such file").in_file(path)),
        }
    }

    fn read_start(&self, path: &Path, len: usize) -> Result<Vec<u8>> {
        let file = self.open(path)?;
        Ok(file.bytes()[..len.min(file.bytes().len())].to_vec())
    }
}

const FILE: &str = "log";

/// A file being built.
#[derive(Clone)]
struct Builder {
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl Builder {
    /// The header of a CPEL file.
    fn cpel(order: ByteOrder, sections: u16) -> Self {
        let mut builder = Builder { order, bytes: vec![if order == ByteOrder::Little { 0x81 } else { 1 }, 0] };
        builder.u16(sections);
        builder.u32(1_000_000_000);
        builder
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes.extend_from_slice(&match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        });
        self
    }

    fn text(&mut self, text: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(text);
        self
    }

    /// The header of a section and its data.
    fn section(&mut self, kind: u32, data: &[u8]) -> &mut Self {
        self.u32(kind).u32(data.len() as u32).text(data)
    }

    /// A section with records, whose words are given one after the other.
    fn records(&mut self, kind: u32, table: &str, head: &[u32], words: &[u32]) -> &mut Self {
        let mut data = Builder { order: self.order, bytes: vec![0; 64] };
        data.bytes[..table.len()].copy_from_slice(table.as_bytes());
        head.iter().chain(words).for_each(|&word| {
            data.u32(word);
        });
        self.section(kind, &data.bytes)
    }

    /// An event section of 1 GHz: time, track, code, datum of each event.
    fn events(&mut self, table: &str, events: &[(u64, u32, u32, u32)]) -> &mut Self {
        let words: Vec<u32> = events
            .iter()
            .flat_map(|&(time, track, code, datum)| [(time >> 32) as u32, time as u32, track, code, datum])
            .collect();
        self.records(5, table, &[events.len() as u32, 1_000_000_000], &words)
    }
}

/// A small log: the strings `T` at 0, `call` at 2, `%s` at 7, `cpu%d` at 10, `%d` at 16.
const STRINGS: &[u8] = b"T\0call\0%s\0cpu%d\0%d\0\0";

fn small(order: ByteOrder) -> Builder {
    let mut builder = Builder::cpel(order, 4);
    builder.section(1, STRINGS);
    builder.records(3, "T", &[2], &[1, 2, 7, 2, 2, 16]);
    builder.records(4, "T", &[1], &[0, 10]);
    builder.events("T", &[(10, 0, 1, 2), (20, 0, 2, 7), (30, 5, 3, 1)]);
    builder
}

/// Opens one file.
fn open(bytes: Vec<u8>, settings: &[(&'static str, &str)]) -> Result<OpenTrace> {
    open_with(bytes, &[], settings)
}

fn open_with(bytes: Vec<u8>, others: &[(&str, &str)], settings: &[(&'static str, &str)]) -> Result<OpenTrace> {
    let mut files = Files(BTreeMap::from([(PathBuf::from(FILE), Arc::new(bytes))]));
    for (name, text) in others {
        files.0.insert(PathBuf::from(name), Arc::new(text.as_bytes().to_vec()));
    }
    let settings = Settings(settings.iter().map(|&(name, value)| (name, value.to_string())).collect());
    let is_elog = (ELOG.probe)(&files, Path::new(FILE));
    let format = if is_elog { &ELOG } else { &CPEL };
    let found = Found { path: FILE.into(), name: FILE.into(), below: String::new() };
    (format.open)(&files, &[found], &settings).remove(0)
}

fn is_cpel(bytes: &[u8]) -> bool {
    let files = Files(BTreeMap::from([(PathBuf::from(FILE), Arc::new(bytes.to_vec()))]));
    (CPEL.probe)(&files, Path::new(FILE))
}

fn is_elog(bytes: &[u8]) -> bool {
    let files = Files(BTreeMap::from([(PathBuf::from(FILE), Arc::new(bytes.to_vec()))]));
    (ELOG.probe)(&files, Path::new(FILE))
}

/// Shows fields as `track=1 track_name="a"`.
#[derive(Default)]
struct Fields<'a> {
    names: Vec<&'a str>,
    text: String,
}

impl Fields<'_> {
    fn add(&mut self, node: u32, value: &str) {
        self.text += &format!(" {}={value}", self.names[node as usize]);
    }
}

impl Visitor for Fields<'_> {
    fn unsigned(&mut self, node: u32, value: u64) {
        self.add(node, &value.to_string());
    }
    fn real(&mut self, node: u32, value: f64) {
        self.add(node, &value.to_string());
    }
    fn string(&mut self, node: u32, bytes: &[u8]) {
        self.add(node, &format!("{:?}", String::from_utf8_lossy(bytes)));
    }
    fn blob(&mut self, node: u32, bytes: &[u8]) {
        self.add(node, &bytes.escape_ascii().to_string());
    }
    fn absent(&mut self, node: u32) {
        self.add(node, "null");
    }
}

/// What all packets of a trace hold, and what was said when they were read.
#[derive(Default)]
struct Content {
    /// `10 call: code=1 ..`, stream after stream.
    events: Vec<String>,
    faults: Vec<Error>,
    warnings: Vec<Error>,
}

fn read(trace: &OpenTrace) -> Content {
    let mut content = Content::default();
    for stream in &trace.streams {
        for index in 0..stream.packets.len() {
            let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).unwrap();
            content.faults.extend(opened.faults);
            content.warnings.extend(opened.warnings);
            read_packet(opened.data, &mut content.events);
        }
    }
    content
}

fn read_packet(data: PacketData, events: &mut Vec<String>) {
    let (data, mut state) = (Arc::new(data), State::default());
    let mut chunk = Chunk::new(data.clone(), 0, 64);
    data.scan(&mut data.first_event(), &mut state, &mut ChunkSink::new(&mut chunk, usize::MAX));
    for at in 0..chunk.len() {
        let event = chunk.event(at);
        let plan = data.plans.event_flat_rows(event.class());
        let names = plan.nodes.iter().map(|node| &*node.name).collect();
        let mut fields = Fields { names, text: String::new() };
        event.visit_flat(&mut state, &mut fields).unwrap();
        let of = data.plans.schema().event(event.class());
        let mut name = of.name.as_deref().unwrap_or("").as_bytes().to_vec();
        event.own_id(&mut name);
        events.push(format!("{} {}:{}", event.cycles(), String::from_utf8_lossy(&name), fields.text));
    }
}

/// `offset: message` of each.
fn told(errors: &[Error]) -> Vec<String> {
    let one = |error: &Error| format!("{}: {}", error.place().offset.unwrap_or(u64::MAX), error.message());
    errors.iter().map(one).collect()
}

#[test]
fn both_byte_orders_hold_the_same() {
    for order in [ByteOrder::Big, ByteOrder::Little] {
        let bytes = small(order).bytes;
        assert!(is_cpel(&bytes));
        let trace = open(bytes, &[]).unwrap();
        assert!(trace.faults.is_empty() && trace.warnings.is_empty() && trace.remarks.is_empty());
        let content = read(&trace);
        assert_eq!(
            content.events,
            [
                r#"10 call: code=1 track=0 track_name="cpu0" datum=2 datum_text="call""#,
                r#"20 call: code=2 track=0 track_name="cpu0" datum=7 datum_text="7""#,
                r#"30 E3: code=3 track=5 track_name="5" datum=1 datum_text="""#,
            ]
        );
        assert!(content.faults.is_empty() && content.warnings.is_empty());
        let packet = &trace.streams[0].packets[0];
        assert_eq!((packet.begin_cycles, packet.end_cycles), (Some(10), Some(30)));
        let titles: Vec<&str> = trace.sections.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["sections", "string tables", "event definitions", "track definitions"]);
    }
}

#[test]
fn other_versions_are_refused_unless_the_format_is_named() {
    let mut bytes = small(ByteOrder::Big).bytes;
    for version in [2, 8, 100, 127] {
        bytes[0] = version;
        assert!(is_cpel(&bytes));
        let error = open(bytes.clone(), &[]).err().unwrap();
        assert_eq!(told(&[error]), [format!("0: version {version} of CPEL: only version 1 is known")]);
    }
    let mut little = small(ByteOrder::Little).bytes;
    little[0] = 0xff;
    assert!(is_cpel(&little));
    bytes[0] = 0;
    let error = open(bytes.clone(), &[("input-format", "cpel")]).err().unwrap();
    assert!(error.help().is_some_and(|help| help.contains("--input-format gist")));
    bytes[0] = 2;
    let trace = open(bytes, &[("input-format", "cpel")]).unwrap();
    assert_eq!(told(&trace.warnings), ["0: version 2 of CPEL: only version 1 is known; it is read as version 1"]);
    assert_eq!(read(&trace).events.len(), 3);
}

#[test]
fn no_sections_are_no_events() {
    let bytes = Builder::cpel(ByteOrder::Big, 0).bytes;
    assert!(is_cpel(&bytes));
    let trace = open(bytes, &[]).unwrap();
    assert_eq!(told(&trace.warnings), ["0: there is no event section, so there are no events"]);
    assert!(trace.faults.is_empty() && trace.streams.is_empty());
}

#[test]
fn a_cut_section_gives_its_whole_records() {
    let mut bytes = small(ByteOrder::Big).bytes;
    let at = bytes.len() - (8 + 72 + 60);
    bytes.truncate(bytes.len() - 13);
    assert!(is_cpel(&bytes));
    let trace = open(bytes, &[]).unwrap();
    let want = format!("{at}: section 4 (events) of 4 declares 132 octets of data, only 119 are left in the file");
    assert_eq!(told(&trace.faults), [want]);
    assert!(trace.warnings.is_empty());
    assert_eq!(read(&trace).events.len(), 2);
}

#[test]
fn a_length_past_the_end_is_a_fault() {
    let mut bytes = small(ByteOrder::Big).bytes;
    let at = 8 + 8 + STRINGS.len();
    bytes[at + 4..at + 8].copy_from_slice(&0xffff_fff0u32.to_be_bytes());
    assert!(is_cpel(&bytes));
    let left = bytes.len() - at - 8;
    let trace = open(bytes, &[]).unwrap();
    let want = format!(
        "{at}: section 2 (event definitions) of 4 declares 4294967280 octets of data, only {left} are left in the file"
    );
    assert_eq!(told(&trace.faults), [want]);
    assert!(trace.warnings.is_empty() && trace.streams.is_empty());
    assert_eq!(trace.sections[2].rows.len(), 2);
}

#[test]
fn a_file_that_ends_in_a_header_is_cut() {
    let mut bytes = small(ByteOrder::Big).bytes;
    bytes[3] = 5;
    let len = bytes.len();
    bytes.extend_from_slice(&[0, 0, 0]);
    let trace = open(bytes, &[]).unwrap();
    assert_eq!(told(&trace.faults), [format!("{len}: the file ends in the header of section 5 of 5")]);
    assert_eq!(read(&trace).events.len(), 3);
}

#[test]
fn counts_are_bounded_by_the_section() {
    let mut bytes = small(ByteOrder::Big).bytes;
    let count = bytes.len() - 60 - 8;
    bytes[count..count + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let trace = open(bytes.clone(), &[]).unwrap();
    let want = "section 4 (events) says that it has 4294967295 records, its 132 octets have room for 3";
    assert_eq!(told(&trace.faults), [format!("{count}: {want}")]);
    assert_eq!(read(&trace).events.len(), 3);
    bytes[count..count + 4].copy_from_slice(&2u32.to_be_bytes());
    let trace = open(bytes, &[]).unwrap();
    let at = count + 8 + 40;
    assert_eq!(
        told(&trace.warnings),
        [format!("{at}: section 4 (events): 20 octets behind its last record are ignored")]
    );
    assert_eq!(read(&trace).events.len(), 2);
}

#[test]
fn a_section_shorter_than_its_header_is_a_fault() {
    let mut builder = Builder::cpel(ByteOrder::Big, 2);
    builder.section(1, b"T\0\0\0").section(5, &[b'T'; 70]);
    let trace = open(builder.bytes, &[]).unwrap();
    assert_eq!(told(&trace.faults), ["20: section 2 (events) has 70 octets, its fixed header alone 72"]);
}

#[test]
fn offsets_outside_of_a_table() {
    let mut builder = Builder::cpel(ByteOrder::Big, 3);
    builder.section(1, b"T\0call\0%s\0\0\0");
    builder.records(3, "T", &[2], &[1, 2, 7, 2, 0x1000_0000, 12]);
    builder.events("T", &[(0, 0, 1, 2), (1, 0, 1, 0x7fff_ffff), (2, 0, 2, 0), (3, 0, 1, 12)]);
    let trace = open(builder.bytes.clone(), &[]).unwrap();
    let first = 8 + 8 + 12 + 8 + 68 + 12;
    let wrong = "of section 1 (string table), which has 12 octets: it counts as missing";
    assert_eq!(
        told(&trace.warnings),
        [
            format!("{}: section 2 (event definitions): a format at offset 0x10000000 {wrong}", first + 4),
            format!("{}: section 2 (event definitions): a format at offset 0xc {wrong}", first + 8),
        ]
    );
    let content = read(&trace);
    let texts: Vec<&str> = content.events.iter().filter_map(|event| event.split("datum_text=").nth(1)).collect();
    assert_eq!(texts, [r#""call""#, r#""<bad-string:0x7fffffff>""#, r#""""#, r#""<bad-string:0xc>""#]);
    assert!(content.events[2].starts_with("2 E2:"));
    let at = builder.bytes.len() - 3 * 20 + 16;
    let want =
        "section 3 (events): a datum of event code 1 is the offset 0x7fffffff, outside of the string table; said once";
    assert_eq!(told(&content.warnings), [format!("{at}: {want}")]);
    assert!(trace.faults.is_empty() && content.faults.is_empty());
}

#[test]
fn names_and_tracks_may_be_offsets_too() {
    // Codes and tracks that are named by the string at them: `T` at 0, `%s` at 2, `ok` at 5, `cut` at 8 without a NUL.
    let mut builder = Builder::cpel(ByteOrder::Little, 4);
    builder.section(1, b"T\0%s\0ok\0cut\0\0\0\0");
    builder.records(3, "T", &[4], &[5, 2, 2, 8, 2, 0, 99, 2, 0, 2, 5, 2]);
    builder.records(4, "T", &[2], &[9, 2, 77, 2]);
    builder.events("T", &[(0, 5, 5, 5), (1, 5, 99, 0), (2, 77, 8, 0), (3, 9, 99, 0), (4, 77, 2, 9)]);
    let told_of = |bytes: Vec<u8>, settings: &[(&'static str, &str)]| {
        let trace = open(bytes, settings).unwrap();
        let content = read(&trace);
        assert_eq!(content.events.len(), 5);
        (told(&[trace.warnings, content.warnings].concat()), told(&[trace.faults, content.faults].concat()))
    };
    let len = builder.bytes.len();
    let record = |at: usize, word: usize| len - (5 - at) * 20 + word;
    let title = "section 4 (events)";
    let outside = [
        format!(
            "{}: {title}: the name of an event is the offset 0x63, outside of the string table; said once",
            record(1, 12)
        ),
        format!(
            "{}: {title}: the name of a track is the offset 0x4d, outside of the string table; said once",
            record(2, 8)
        ),
    ];
    assert_eq!(told_of(builder.bytes.clone(), &[]), (outside.to_vec(), vec![]));
    // Without the NULs at the end: the padding is a part of the string.
    let at = 16 + 12;
    builder.bytes[at - 1..at + 3].copy_from_slice(b"tail");
    let warned = |kind: &str, place: usize| format!("{place}: {title}: {kind} has no NUL; said once");
    let (name, track) =
        ("the name of an event, the string at offset 0x8,", "the name of a track, the string at offset 0x9,");
    let datum = "a datum of event code 2, the string at offset 0x9,";
    let cut = [warned(name, record(2, 12)), warned(track, record(3, 8)), warned(datum, record(4, 16))];
    let (warnings, faults) = told_of(builder.bytes.clone(), &[]);
    assert_eq!((warnings.len(), faults), (5, vec![]));
    assert!(cut.iter().chain(&outside).all(|told| warnings.contains(told)), "{warnings:?}");
    // A name must have one when it is asked for.
    let (warnings, faults) = told_of(builder.bytes, &[("strict", "")]);
    assert_eq!(faults, cut[..2]);
    assert!(warnings.contains(&cut[2]) && warnings.len() == 3);
}

#[test]
fn octets_of_names_and_data_are_kept_when_asked_for() {
    let mut builder = Builder::cpel(ByteOrder::Big, 4);
    builder.section(1, b"T\0n\xff%d\0%s\0a\xc3\0\0\0");
    builder.records(3, "T", &[1], &[1, 2, 7]).records(4, "T", &[1], &[10, 7]);
    builder.events("T", &[(5, 10, 1, 10), (6, 3, 1, 99), (7, 3, 9, 0)]);
    let events = read(&open(builder.bytes.clone(), &[("octets", "")]).unwrap()).events;
    let first = "5 n\u{fffd}1: code=1 track=10 track_name=\"a\u{fffd}\" datum=10 datum_text=\"a\u{fffd}\"";
    assert_eq!(
        events,
        [
            format!(r"{first} name_octets=n\xff1 track_octets=a\xc3 datum_octets=a\xc3"),
            "6 n\u{fffd}1: code=1 track=3 track_name=\"3\" datum=99 datum_text=\"<bad-string:0x63>\" \
             name_octets=n\\xff1 track_octets=3 datum_octets=<bad-string:0x63>"
                .to_string(),
            "7 E9: code=9 track=3 track_name=\"3\" datum=0 datum_text=\"\" name_octets=E9 track_octets=3 datum_octets="
                .to_string(),
        ]
    );
    assert_eq!(read(&open(builder.bytes, &[]).unwrap()).events[0], first);
}

#[test]
fn names_of_definitions_without_an_end_are_errors_when_strict() {
    let mut builder = Builder::cpel(ByteOrder::Big, 4);
    builder.section(1, b"T\0name").section(2, &[&[b'T'; 1][..], &[0; 66], &[1, 0, 0, 0, 9, 0, 0, 0, 3]].concat());
    builder.records(3, "T", &[2], &[1, 2, 0, 2, 0, 3]).records(4, "T", &[1], &[1, 4]);
    let (at, lenient) = (16 + 6, open(builder.bytes.clone(), &[]).unwrap());
    let string = |offset: u32| {
        format!("the string at offset {offset:#x} of section 1 (string table) has no NUL: it ends with the section")
    };
    let symbols = format!("{}: the name at offset 0x3 of section 1 (string table) has no NUL", at + 8 + 68 + 4);
    let events = at + 8 + 76 + 8 + 68;
    let (name, datum) = (format!("{}: {}", events + 4, string(2)), format!("{}: {}", events + 12 + 8, string(3)));
    let track = format!("{}: {}", events + 24 + 8 + 68 + 4, string(4));
    let none = "0: there is no event section, so there are no events".to_string();
    let all = [symbols.clone(), name.clone(), datum.clone(), track.clone(), none.clone()];
    assert_eq!((told(&lenient.warnings), told(&lenient.faults)), (all.to_vec(), vec![]));
    let strict = open(builder.bytes, &[("strict", "")]).unwrap();
    assert_eq!((told(&strict.warnings), told(&strict.faults)), (vec![datum, none], vec![symbols, name, track]));
}

#[test]
fn symbols_are_sorted_and_said_to_be_unsorted() {
    let mut builder = Builder::cpel(ByteOrder::Big, 4);
    builder.section(1, b"T\0a\0b\0c\0%k\0\0");
    builder.records(2, "T", &[3], &[0x3000, 6, 0x1000, 2, 0x2000, 4]);
    builder.records(3, "T", &[1], &[1, 2, 8]);
    builder.events("T", &[(0, 0, 1, 0x1001), (1, 0, 1, 0x2002), (2, 0, 1, 0x3003), (3, 0, 1, 0)]);
    let trace = open(builder.bytes, &[]).unwrap();
    let at = 8 + 8 + 12 + 8 + 68 + 8;
    assert_eq!(
        told(&trace.warnings),
        [format!("{at}: section 2 (symbols) is not sorted: the value 0x1000 stands behind 0x3000")]
    );
    let events = read(&trace).events;
    let texts: Vec<&str> = events.iter().filter_map(|event| event.split("datum_text=").nth(1)).collect();
    assert_eq!(texts, [r#""a+0x1""#, r#""b+0x2""#, r#""c+0x3""#, r#""0x00000000""#]);
}

#[test]
fn a_table_without_any_nul_ends_with_its_section() {
    let mut builder = Builder::cpel(ByteOrder::Big, 3);
    builder.section(1, b"name without");
    builder.records(3, "name without", &[1], &[1, 5, 0]);
    builder.events("name without", &[(7, 0, 1, 0)]);
    let trace = open(builder.bytes, &[]).unwrap();
    assert_eq!(
        told(&trace.warnings),
        [
            "16: the name of section 1 (string table) is not terminated: it ends with the section",
            "108: the string at offset 0x5 of section 1 (string table) has no NUL: it ends with the section",
        ]
    );
    assert!(read(&trace).events[0].starts_with("7 without:"));
}

#[test]
fn what_the_format_forbids_is_told() {
    let mut builder = Builder::cpel(ByteOrder::Big, 5);
    builder.section(1, b"T\0a\0b\0\0\0").section(1, b"T\0x\0y\0\0");
    builder.records(3, "T", &[3], &[1, 2, 0, 1, 4, 0, 2, 4, 0]);
    builder.records(4, "nowhere", &[2], &[3, 2, 3, 4]);
    builder.events("T", &[(0, 3, 1, 0), (1, 3, 2, 0)]).text(b"more");
    let len = builder.bytes.len();
    let trace = open(builder.bytes, &[]).unwrap();
    assert_eq!(
        told(&trace.warnings),
        [
            format!("{}: 4 octets behind the last section are ignored", len - 4),
            "32: section 2 (string table) has the name `T` of a table before it: this one counts".into(),
            format!("{}: event code 1 is defined twice: the first one counts", 39 + 8 + 68 + 12),
            format!("{}: track 3 is defined twice: the first one counts", 39 + 8 + 68 + 36 + 8 + 68 + 8),
        ]
    );
    assert_eq!(told(&trace.remarks), ["24: section 2 (string table) has 7 octets, no multiple of 4"]);
    let want = "section 4 (track definitions) names the string table `nowhere`, which is not there";
    assert_eq!(told(&trace.faults), [format!("{}: {want}", 39 + 8 + 68 + 36 + 8)]);
    let events = read(&trace).events;
    assert!(events[0].starts_with("0 x: ") && events[1].starts_with("1 y: "), "{events:?}");
}

#[test]
fn lengths_that_leave_the_padding_out() {
    let mut builder = Builder::cpel(ByteOrder::Little, 2);
    builder.u32(1).u32(5).text(b"T\0ab\0\0\0\0");
    builder.events("T", &[(1, 0, 1, 0)]);
    let trace = open(builder.bytes, &[]).unwrap();
    assert!(trace.faults.is_empty());
    assert_eq!(trace.warnings.len(), 1);
    assert_eq!(read(&trace).events.len(), 1);
}

#[test]
fn unsorted_times_are_sorted_and_ties_keep_their_order() {
    let mut builder = Builder::cpel(ByteOrder::Little, 1);
    let times: Vec<(u64, u32, u32, u32)> =
        (0..10_000u32).map(|at| (u64::from(at * 7919 % 5000) << 30, 0, 1, at)).collect();
    builder.events("T", &times);
    let trace = open(builder.bytes, &[]).unwrap();
    let events = read(&trace).events;
    let mut want: Vec<(u64, u32)> = times.iter().map(|&(time, _, _, datum)| (time, datum)).collect();
    want.sort();
    assert_eq!(events.len(), want.len());
    for (event, (time, datum)) in events.iter().zip(want) {
        let start = format!("{time} E1: code=1 track=0 track_name=\"0\" datum={datum} ");
        assert!(event.starts_with(&start), "{event}, not {start}");
    }
    let packets = &trace.streams[0].packets;
    assert!(packets.len() > 1 && packets.is_sorted_by_key(|packet| (packet.begin_cycles, packet.end_cycles)));
}

#[test]
fn counters_of_32_bits_wrap_only_when_asked() {
    let mut builder = Builder::cpel(ByteOrder::Big, 1);
    let times = [0xffff_0000u64, 0xffff_ff00, 0x10, 0x8, 0xffff_0000, 3];
    let events: Vec<_> = times.iter().map(|&time| (time, 0, 1, 0)).collect();
    builder.events("T", &events);
    let cycles = |settings: &[(&'static str, &str)]| -> Vec<u64> {
        let events = read(&open(builder.bytes.clone(), settings).unwrap()).events;
        events.iter().map(|event| event.split(' ').next().unwrap().parse().unwrap()).collect()
    };
    assert_eq!(cycles(&[]), [3, 8, 0x10, 0xffff_0000, 0xffff_0000, 0xffff_ff00]);
    let one = 1 << 32;
    let want = [0xffff_0000, 0xffff_ff00, one + 8, one + 0x10, one + 0xffff_0000, 2 * one + 3];
    assert_eq!(cycles(&[("wrap", "32")]), want);
}

#[test]
fn a_step_back_over_half_the_range_is_told() {
    let mut builder = Builder::cpel(ByteOrder::Big, 1);
    builder.events("T", &[(u64::MAX, 0, 1, 0), (5, 0, 1, 0)]);
    let at = builder.bytes.len() - 20;
    let content = read(&open(builder.bytes, &[]).unwrap());
    let want = format!(
        "{at}: section 1 (events): a time goes back by more than 2^63, from {} to 5; said once for the section",
        u64::MAX
    );
    assert_eq!(told(&content.warnings), [want]);
}

#[test]
fn rates() {
    let rate_of = |rate: u32, settings: &[(&'static str, &str)]| {
        let mut builder = Builder::cpel(ByteOrder::Big, 1);
        builder.records(5, "T", &[1, rate], &[0, 1, 0, 1, 0]);
        let trace = open(builder.bytes, settings).unwrap();
        (trace.schema.clocks()[0].frequency, trace.warnings.len())
    };
    // One warning is about the string table that is not there.
    assert_eq!(rate_of(1_000_000_000, &[]), (1_000_000_000, 1));
    assert_eq!(rate_of(2400, &[]), (2_400_000_000, 1));
    assert_eq!(rate_of(2400, &[("clock-rate-unit", "s")]), (2400, 1));
    assert_eq!(rate_of(0, &[]), (0, 2));
    assert_eq!(rate_of(0, &[("ticks-per-us", "3")]), (3_000_000, 1));
}

#[test]
fn gist_logs() {
    let mut builder = Builder { order: ByteOrder::Big, bytes: Vec::new() };
    builder.u32(2);
    for word in [0, 20, 7, 1001, 5, 0, 10, 8, 3, 6] {
        builder.u32(word);
    }
    let bytes = builder.bytes.clone();
    assert!(is_cpel(&bytes) && !is_cpel(&bytes[..43]));
    let trace = open(bytes.clone(), &[]).unwrap();
    assert_eq!(trace.schema.format, "gist");
    assert_eq!(told(&trace.warnings), ["0: a Gist log does not say its clock rate: events have no times"]);
    assert_eq!(
        read(&trace).events,
        [
            r#"10 E3: code=3 track=8 track_name="8" datum=6 datum_text="""#,
            r#"20 E1001: code=1001 track=7 track_name="7" datum=5 datum_text="""#,
        ]
    );
    let headers = [
        ("h/main.h", "#define SUB 1000 /* pointdefs: sub.h */\n#define A 3 /* alpha: %d */\n"),
        ("h/sub.h", "#define B EV_NUM(1) /* beta: 0x%x of */\n"),
    ];
    let settings = [("pointdefs", "h/main.h"), ("ticks-per-us", "1000")];
    let trace = open_with(bytes.clone(), &headers, &settings).unwrap();
    assert!(trace.warnings.is_empty());
    let events = read(&trace).events;
    assert_eq!(events[0], r#"10 alpha: code=3 track=8 track_name="8" datum=6 datum_text="6""#);
    assert_eq!(events[1], r#"20 beta: code=1001 track=7 track_name="7" datum=5 datum_text="0x5""#);
    // A log that is cut is read when the user says what it is.
    let trace = open(bytes[..43].to_vec(), &[("input-format", "gist")]).unwrap();
    assert_eq!(told(&trace.faults), ["0: the log says that it has 2 events, the file has room for 1"]);
    assert_eq!(read(&trace).events.len(), 1);
}

#[test]
fn other_files_are_not_claimed() {
    let mut random = vec![1u8, 0, 0, 2];
    random.extend((0..500u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8));
    for bytes in [&b""[..], &[1], &[1; 8], &[0x81; 4000], &[0; 5], &[0; 4096], b"\x7fELF\x02\x01\x01\0\0\0", &random] {
        assert!(!is_cpel(bytes) && !is_elog(bytes), "{:?}", &bytes[..bytes.len().min(16)]);
    }
    assert!(!is_elog(b"\0\0\0\x07elog v"));
}

/// A VPP log: two types, two tracks, and the events that are given as octets.
fn elog(events: u32, octets: &[u8]) -> Vec<u8> {
    let mut builder = Builder { order: ByteOrder::Big, bytes: Vec::new() };
    let text = |builder: &mut Builder, text: &[u8]| {
        builder.text(&[(text.len() << 1 | 1) as u8]).text(text);
    };
    builder.u32(7).text(b"elog v0").u32(1024);
    for (low, high) in [(1, 0), (2, 0), (1000, 0), (3, 0)] {
        builder.u32(low).u32(high);
    }
    builder.u32(2);
    text(&mut builder, b"state %s of %s");
    text(&mut builder, b"t1T4");
    builder.u32(1).u32(2);
    text(&mut builder, b"old");
    text(&mut builder, b"new");
    text(&mut builder, b"%s %Ld");
    text(&mut builder, b"s0i8");
    builder.u32(2).u32(0);
    builder.u32(2);
    text(&mut builder, b"main");
    text(&mut builder, b"worker");
    builder.u32(6).text(b"a\0bee\0");
    builder.u32(events).text(octets);
    builder.bytes
}

/// The octets of an event: type, track, seconds, arguments.
fn elog_event(of: u16, track: u16, seconds: f64, args: &[u8]) -> Vec<u8> {
    let bits = seconds.to_bits();
    let mut builder = Builder { order: ByteOrder::Big, bytes: Vec::new() };
    builder.u16(of).u16(track).u32(bits as u32).u32((bits >> 32) as u32).text(args);
    builder.bytes
}

/// A VPP log whose only type has so many enumeration strings, the empty string each, and an event that has one of them.
fn enumeration(strings: u32, index: u32) -> Vec<u8> {
    let mut builder = Builder { order: ByteOrder::Big, bytes: Vec::new() };
    builder.u32(7).text(b"elog v0").u32(1024);
    builder.bytes.resize(builder.bytes.len() + 32, 0);
    builder.u32(1).text(b"\x05%s").text(b"\x05t4").u32(1).u32(strings);
    builder.bytes.resize(builder.bytes.len() + strings as usize, 1);
    builder.u32(1).text(b"\x01").u32(0).u32(1);
    builder.text(&elog_event(0, 0, 0.0, &index.to_be_bytes()));
    builder.bytes
}

#[test]
fn long_enumerations_are_kept() {
    let labels = |trace: &OpenTrace, value: i128| {
        let payload = trace.schema.events()[0].payload.unwrap();
        let FieldKind::Struct(payload) = &trace.schema.field_class(payload).kind else { panic!("a structure") };
        let FieldKind::Integer(class) = &trace.schema.field_class(payload.members[3].class).kind else {
            panic!("an enumeration")
        };
        let (listed, looked_up) = (class.labels(value).count(), class.label_list());
        assert_eq!(looked_up.of(value).count(), listed);
        listed
    };
    let trace = open(enumeration(70_000, 69_999), &[]).unwrap();
    assert_eq!([0, 69_999, 70_000, -1].map(|value| labels(&trace, value)), [1, 1, 0, 0]);
    let content = read(&trace);
    assert!(trace.warnings.is_empty() && content.faults.is_empty());
    let trace = open(enumeration(300_000, 299_999), &[]).unwrap();
    assert_eq!([262_143, 262_144].map(|value| labels(&trace, value)), [1, 0]);
    let want = "the types have more than 262144 enumeration strings: those from string 262144 of the type at 0x33 on are not kept";
    assert_eq!(told(&trace.warnings), [format!("51: {want}")]);
    // There is such a string.
    assert!(read(&trace).faults.is_empty());
}

#[test]
fn events_of_vpp_have_typed_arguments() {
    let args = [&[0x07][..], b"ab\xff", &[0, 0, 0, 5, 0, 0, 0, 1]].concat();
    let octets =
        [elog_event(0, 1, 0.5, &[1, 0, 0, 0, 2]), elog_event(1, 0, -2.5, &args), elog_event(1, 0, 3e-9, &[1; 9])]
            .concat();
    let bytes = elog(3, &octets);
    assert!(is_elog(&bytes) && !is_cpel(&bytes));
    let trace = open(bytes, &[]).unwrap();
    assert!(trace.faults.is_empty() && trace.warnings.is_empty() && trace.remarks.is_empty());
    let start = 1_490_885_108_000_001_000u64;
    let content = read(&trace);
    let want = [
        format!(
            r#"{} state %s of %s: track=1 track_name="worker" text="state new of bee" arg0=1 arg1="bee""#,
            start + 500_000_000
        ),
        format!(
            "{} %s %Ld: track=0 track_name=\"main\" text=\"ab\u{fffd} 4294967301\" arg0=\"ab\u{fffd}\" arg1=4294967301",
            start - 2_500_000_000
        ),
        format!(
            r#"{} %s %Ld: track=0 track_name="main" text=" 72340172838076673" arg0="" arg1=72340172838076673"#,
            start + 3
        ),
    ];
    assert_eq!(content.events, want);
    assert!(content.faults.is_empty() && content.warnings.is_empty());
    let trace = open(elog(0, b""), &[("short-names", "")]).unwrap();
    let names: Vec<_> = trace.schema.events().iter().map(|class| class.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["state", "%s %Ld"]);
}

#[test]
fn damage_of_vpp_logs_keeps_the_events_before_it() {
    let good = elog_event(0, 0, 1.0, &[0, 0, 0, 0, 0]);
    let first = elog(0, b"").len();
    let fault = |count: u32, octets: &[u8]| {
        let trace = open(elog(count, octets), &[]).unwrap();
        let content = read(&trace);
        let faults = [told(&trace.faults), told(&content.faults)].concat();
        (content.events.len(), faults.join("; "), told(&content.warnings).join("; "))
    };
    let second = first + good.len();
    let bad_type = elog_event(2, 0, 1.0, &[]);
    let cases = [
        (2, [&good[..], &bad_type].concat(), 1, format!("{second}: event 1 is of type 2; the file has 2 types")),
        (2, [&good[..], &good[..9]].concat(), 1, format!("{second}: the file ends in event 1 of 2: 9 octets are left")),
        (u32::MAX, good.clone(), 1, format!("{second}: the file says that it has 4294967295 events and ends behind 1")),
        (
            2,
            [&elog_event(0, 7, 1.0, &[0; 5])[..], &good].concat(),
            2,
            format!("{}: an event of track 7; the file has 2 tracks; said once for the file", first + 2),
        ),
        (
            2,
            [&elog_event(0, 0, 1.0, &[2, 0, 0, 0, 0])[..], &good].concat(),
            2,
            format!("{}: the enumeration index 2; the type has 2 strings; said once for the file", first + 12),
        ),
        (
            2,
            [&elog_event(0, 0, 1.0, &[1, 0, 0, 0, 6])[..], &good].concat(),
            2,
            format!("{}: the string offset 6; the string table has 6 octets; said once for the file", first + 13),
        ),
        // A string that says it is longer than the file.
        (
            2,
            [&good[..], &elog_event(1, 0, 1.0, &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])].concat(),
            1,
            format!("{second}: the file ends in event 1 of 2: 21 octets are left"),
        ),
        (1, Vec::new(), 0, format!("{first}: the log says that it has 1 events, the file ends before the first")),
    ];
    for (count, octets, events, want) in cases {
        let (have, faults, warnings) = fault(count, &octets);
        assert_eq!((have, faults), (events, want));
        assert!(warnings.is_empty());
    }
    let (events, faults, warnings) = fault(1, &[&good[..], b"more"].concat());
    assert_eq!((events, faults), (1, String::new()));
    assert_eq!(warnings, format!("{second}: 4 octets behind the last event are ignored"));
    // Every cut of the header is an error with its place.
    let whole = elog(0, b"");
    for len in 11..whole.len() {
        let error = open(whole[..len].to_vec(), &[]).err().unwrap();
        assert!(error.place().offset.is_some_and(|offset| offset <= len as u64), "{error}");
    }
}

#[test]
fn packets_of_vpp_logs_can_be_opened_in_any_order() {
    let mut octets = Vec::new();
    let count = 20_000u32;
    for at in 0..count {
        let text = vec![b'x'; (at % 50) as usize];
        let args = [&[(text.len() << 1 | 1) as u8][..], &text, &at.to_be_bytes(), &[0; 4]].concat();
        octets.extend(elog_event(1, 0, f64::from(at), &args));
    }
    let bytes = elog(count, &octets);
    let trace = open(bytes.clone(), &[]).unwrap();
    let in_order = read(&trace);
    assert_eq!(in_order.events.len(), count as usize);
    assert!(in_order.faults.is_empty() && in_order.warnings.is_empty());
    let trace = open(bytes, &[]).unwrap();
    let stream = &trace.streams[0];
    assert!(stream.packets.len() > 5);
    let mut packets: Vec<Vec<String>> = vec![Vec::new(); stream.packets.len()];
    for index in (0..stream.packets.len()).rev() {
        let opened = trace.reader.open_packet(&trace.plans, stream, index, 0).unwrap();
        assert!(opened.faults.is_empty());
        read_packet(opened.data, &mut packets[index]);
    }
    assert_eq!(packets.concat(), in_order.events);
}

#[test]
fn a_string_longer_than_a_packet() {
    let long = 200_000u64;
    let mut args = vec![0];
    args.extend_from_slice(&long.to_le_bytes());
    args.resize(9 + long as usize, b'y');
    args.extend_from_slice(&[0; 8]);
    let octets = [elog_event(1, 0, 1.0, &args), elog_event(0, 0, 2.0, &[0; 5])].concat();
    let content = read(&open(elog(2, &octets), &[]).unwrap());
    assert_eq!(content.events.len(), 2);
    assert!(content.events[0].len() > 400_000 && content.events[1].contains("state old of a"));
    assert!(content.faults.is_empty());
    let at = elog(2, &[]).len();
    let want = "an event of 200029 octets: its text may end behind 65536, its arguments are whole; said once";
    assert_eq!(told(&content.warnings), [format!("{at}: {want}")]);
}

#[test]
fn times_that_are_no_times_are_told() {
    let octets = [-2e9, 1e12, f64::NAN].map(|seconds| elog_event(0, 0, seconds, &[0; 5])).concat();
    let content = read(&open(elog(3, &octets), &[]).unwrap());
    let start = 1_490_885_108_000_001_000u64;
    let times: Vec<&str> = content.events.iter().filter_map(|event| event.split(' ').next()).collect();
    assert_eq!(times, ["0".to_string(), u64::MAX.to_string(), start.to_string()]);
    let at = elog(0, &[]).len() + 4;
    let far = "the time of an event is not between 1970 and 2554: it is held there; said once";
    let none = "the time of an event is no number: it is shown at the start of the log; said once";
    let len = octets.len() / 3;
    assert_eq!(told(&content.warnings), [format!("{at}: {far}"), format!("{}: {none}", at + 2 * len)]);
}

#[test]
fn too_many_classes_name_themselves() {
    let mut builder = Builder::cpel(ByteOrder::Big, 32);
    builder.section(1, b"T\0n%d\0\0\0");
    let words: Vec<u32> = (0..20_000).flat_map(|code| [code, 2, 0]).collect();
    builder.records(3, "T", &[20_000], &words);
    for at in 0..30 {
        builder.events("T", &[(at, 0, at as u32, 0)]);
    }
    let trace = open(builder.bytes, &[]).unwrap();
    assert!(trace.schema.events().len() < 110_000);
    let events = read(&trace).events;
    for (at, event) in events.iter().enumerate() {
        assert!(event.starts_with(&format!("{at} n{at}: code={at} ")), "{event}");
    }
    assert_eq!(events.len(), 30);
}

#[test]
fn an_event_log_of_the_size_of_a_gist_log_is_none() {
    // 4 octets and 20 for each of the 7 events that the length of the magic would say.
    let mut bytes = b"\0\0\0\x07elog v0".to_vec();
    bytes.resize(144, 0);
    assert!(!is_cpel(&bytes));
    bytes[4] = b'E';
    assert!(is_cpel(&bytes));
}

#[test]
fn events_of_a_table_that_is_not_there_take_the_only_one() {
    let log = |tables: &[&str]| {
        let mut builder = Builder::cpel(ByteOrder::Big, tables.len() as u16 + 2);
        for name in tables {
            let text = [name.as_bytes(), &STRINGS[1..]].concat();
            builder.section(1, &text);
        }
        // Code 1 is called `call` and shows its datum as text.
        builder.records(3, tables[0], &[1], &[1, 2, 7]);
        builder.events("nowhere", &[(5, 0, 1, 2)]);
        builder.bytes
    };
    let shown = |bytes: Vec<u8>, settings: &[(&'static str, &str)]| {
        let trace = open(bytes, settings).unwrap();
        let told = trace.warnings.iter().any(|warning| warning.message().contains("names the string table `nowhere`"));
        assert!(told, "{:?}", trace.warnings);
        read(&trace).events[0].clone()
    };
    let has = |event: &str, text: &str| assert!(event.contains(&format!("datum_text=\"{text}\"")), "{event}");
    has(&shown(log(&["T"]), &[]), "call");
    has(&shown(log(&["T"]), &[("strict", "")]), "<bad-string:0x2>");
    has(&shown(log(&["T", "U"]), &[]), "<bad-string:0x2>");
}
