//! Traces of LTTng 0.7 and 0.8 around the bytes of the fuzzer.

use std::path::Path;

use tracemill_lttng::facilities::definitions::DefinitionFile;

use crate::storage::Folder;
use crate::{check_metadata_error, exercise};

const DEFINITIONS: &[u8] = b"<facility name=t>
  <type name=k><enum><label name=a/><label name=b value=7/></enum></type>
  <event name=e><field name=n><uint/></field><field name=s><string/></field><field name=k><typeref name=k/></field></event>
  <event name=q><field name=q><sequence><uchar/><ushort/></sequence></field><field name=z><long/></field></event>
  <event name=u attribute=compact_data><field name=c><uchar/></field><field name=u><union>
    <field name=a><uint_fixed size=4/></field><field name=b><array size=3><string/></array></field></union></field></event>
  <event name=none></event></facility>";

/// Events of `cpu_0` for definitions without events made for them: each id, with sizes that are right for some.
fn some_events() -> Vec<u8> {
    let mut events = Vec::new();
    for (at, size) in (0u8..40).zip([0u16, 4, 9, 24, 1, 60, 13, u16::MAX].into_iter().cycle()) {
        events.extend(u32::from(at).to_le_bytes());
        events.extend([1, at % 9]);
        events.extend(size.to_le_bytes());
        events.extend((0..if size == u16::MAX { 40 } else { size }).map(|byte| (byte * 7 % 5) as u8));
    }
    events
}

fn block(minor: u8, alignment: u8, events: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    let size = events.len() as u32 + if minor == 8 { 108 } else { 106 };
    for word in [1u64 << 33, 1000, 2 << 33, 1000] {
        block.extend(word.to_le_bytes());
    }
    for word in [0, size, 0x00D6_B7ED, 1, 0, 1234] {
        block.extend(word.to_le_bytes());
    }
    block.extend([8, 0, minor, 0, 1, alignment]);
    if minor == 8 {
        block.extend([4, 20]);
    }
    block.extend(1000u32.to_le_bytes());
    for word in [1000u64, 1 << 33, 0, 1_000_000, 250] {
        block.extend(word.to_le_bytes());
    }
    block.extend(events);
    block
}

/// Control file that loads each name with an id from 1 on.
fn loads(minor: u8, alignment: u8, names: &[(String, u32)]) -> Vec<u8> {
    let mut events = vec![0u8; if minor == 8 { 108 } else { 106 }];
    let align = |events: &mut Vec<u8>| events.resize(events.len().next_multiple_of(usize::from(alignment.max(1))), 0);
    let start = events.len();
    for (at, (name, checksum)) in names.iter().enumerate().take(200) {
        let mut data = name.clone().into_bytes();
        data.push(0);
        align(&mut data);
        let size = [4, 8, 4, 2][at % 4];
        for word in [*checksum, at as u32 + 1, 4, size, size, 8, u32::from(alignment)] {
            data.extend(word.to_le_bytes());
        }
        align(&mut events);
        events.extend([1, 0, 0, 0, 0, 0]);
        events.extend((data.len() as u16).to_le_bytes());
        align(&mut events);
        events.extend(data);
    }
    block(minor, alignment, &events[start..])
}

/// A definition file; the first byte says how fields are aligned.
pub fn run_lttng_definitions(data: &[u8]) {
    let Some((&first, text)) = data.split_first() else { return };
    let file = DefinitionFile::parse(text, Path::new("x.xml"));
    for (_, error) in &file.broken {
        check_metadata_error(error);
    }
    let alignment = [0, 1, 4, 8][usize::from(first % 4)];
    let names: Vec<(String, u32)> =
        file.facilities.iter().map(|facility| (facility.name.clone(), facility.checksum)).collect();
    let mut folder = Folder::empty();
    folder.add("eventdefs/x.xml", text);
    folder.add("control/facilities_0", &loads(7, alignment, &names));
    folder.add("cpu_0", &block(7, alignment, &some_events()));
    exercise::read(&folder);
}

/// A tracefile; the first byte says which one.
pub fn run_lttng_blocks(data: &[u8]) {
    let Some((&first, bytes)) = data.split_first() else { return };
    let file = DefinitionFile::parse(DEFINITIONS, Path::new("x.xml"));
    let checksum = file.facilities.first().map_or(0, |facility| facility.checksum);
    let minor = 7 + (first >> 4 & 1);
    let alignment = [0, 1, 4, 8][usize::from(first >> 2 & 3)];
    // The facility of compact headers has the same definition under its own name.
    let names = [("t".to_string(), checksum), ("compact".to_string(), 0)];
    let mut folder = Folder::empty();
    folder.add("eventdefs/t.xml", DEFINITIONS);
    let compact = String::from_utf8_lossy(DEFINITIONS).replace("name=t>", "name=compact>");
    folder.add("eventdefs/compact.xml", compact.as_bytes());
    folder.add("control/facilities_0", &loads(minor, alignment, &names));
    let name = ["cpu_0", "compact_0", "control/facilities_0", "flight-cpu_1"][usize::from(first % 4)];
    folder.add(name, bytes);
    exercise::read(&folder);
}

/// Inputs of [`run_lttng_blocks`] that are sound.
pub fn block_seeds() -> Vec<Vec<u8>> {
    let with = |first: u8, bytes: Vec<u8>| [&[first][..], &bytes].concat();
    let mut twice = block(7, 0, &some_events());
    twice.extend(block(7, 0, &some_events()));
    let words: Vec<u8> = (0..30u32).flat_map(|at| ((at % 4) << 20 | at << 8).to_le_bytes()).collect();
    let loads = loads(8, 4, &[("t".into(), 1), ("u".into(), 2)]);
    vec![with(0, twice), with(0x19, block(8, 4, &words)), with(0x1a, loads), with(0x0f, block(7, 8, &some_events()))]
}
