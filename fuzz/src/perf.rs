//! Files of perf around bytes that are fuzzed.

use tracemill_model::schema::ByteOrder;
use tracemill_perf::builder::{EventBuilder, PerfBuilder};

use crate::exercise;
use crate::ftrace::FORMATS;
use crate::storage::Folder;

/// Bits of `sample_type`.
const IDENTIFIER: u64 = 1 << 16;
const RAW: u64 = 1 << 10;
/// The numbers of flags of events: other records end as samples begin; the clock is stated.
const FLAGS: [u32; 2] = [18, 25];

/// Opens a file and reads it in every way.
pub(crate) fn read(data: &[u8]) {
    exercise::read(&Folder::with_file("perf.data", data));
}

/// A file with two events, both of the same parts.
pub(crate) fn file(head: &[u8; 9], records: &[u8]) -> Vec<u8> {
    let [choices, parts @ ..] = head;
    let (is_pipe, is_tracepoint, has_id) = (choices & 2 != 0, choices & 4 != 0, choices & 8 != 0);
    let mut file = PerfBuilder::new(ByteOrder::big_if(choices & 1 != 0));
    let parts = u64::from_le_bytes(*parts) | if has_id { IDENTIFIER } else { 0 } | if is_tracepoint { RAW } else { 0 };
    for config in [1, 2] {
        file.events.push(EventBuilder {
            event_type: if is_tracepoint { 2 } else { 1 },
            config,
            sample_type: parts,
            read_format: parts >> 32 & 0x1f,
            branch_type: parts >> 40 << 16,
            regs_user: parts >> 48,
            flags: FLAGS.to_vec(),
            clock_id: 1,
            ids: vec![config],
        });
    }
    if is_tracepoint {
        let formats: Vec<String> = FORMATS.iter().map(|format| format.to_string()).collect();
        file.features.push((1, file.tracing_data("fuzz", &formats)));
    }
    file.records = records.to_vec();
    if is_pipe { file.build_pipe() } else { file.build() }
}
