//! Makes files of perf for tests, in either byte order.

use tracemill_codec::bits::put_uint;
use tracemill_model::schema::ByteOrder;

/// Bytes of the head of a file.
const HEAD: u64 = 104;
/// Bytes of an event's attributes.
const ATTR: usize = 112;

/// An event that a file says it recorded.
#[derive(Clone, Debug, Default)]
pub struct EventBuilder {
    /// Its type: 1 is an event of software, 2 a tracepoint.
    pub event_type: u32,
    /// Its number in the type.
    pub config: u64,
    /// Parts of its samples.
    pub sample_type: u64,
    /// Counts in its samples.
    pub read_format: u64,
    /// Bits of its branch stack.
    pub branch_type: u64,
    /// Registers in its samples.
    pub regs_user: u64,
    /// Flags by their numbers: 18 is `sample_id_all`, 25 `use_clockid`.
    pub flags: Vec<u32>,
    /// The clock, with the flag.
    pub clock_id: i32,
    /// Ids of its instances.
    pub ids: Vec<u64>,
}

/// A file.
#[derive(Clone, Debug)]
pub struct PerfBuilder {
    /// Byte order.
    pub order: ByteOrder,
    /// Events.
    pub events: Vec<EventBuilder>,
    /// Records, one after the other.
    pub records: Vec<u8>,
    /// Features, by their numbers in ascending order.
    pub features: Vec<(u32, Vec<u8>)>,
}

impl PerfBuilder {
    /// A file without events and records.
    pub fn new(order: ByteOrder) -> Self {
        PerfBuilder { order, events: Vec::new(), records: Vec::new(), features: Vec::new() }
    }

    /// Numbers with their lengths, one after the other.
    pub fn pack(&self, parts: &[(u64, usize)]) -> Vec<u8> {
        let mut out = Vec::new();
        parts.iter().for_each(|&(value, len)| put_uint(&mut out, value, len, self.order));
        out
    }

    /// A record, padded to 8 bytes.
    pub fn packed_record(&self, kind: u32, misc: u16, content: &[u8]) -> Vec<u8> {
        let size = (8 + content.len()).next_multiple_of(8);
        let mut out = self.pack(&[(kind.into(), 4), (misc.into(), 2), (size as u64, 2)]);
        out.extend_from_slice(content);
        out.resize(size, 0);
        out
    }

    /// Adds a record of numbers and a text after them.
    pub fn record(&mut self, kind: u32, misc: u16, numbers: &[(u64, usize)], text: &str, end: &[(u64, usize)]) {
        let mut content = self.pack(numbers);
        if !text.is_empty() {
            content.extend(text.bytes().chain([0]));
            content.resize(content.len().next_multiple_of(8), 0);
        }
        content.extend(self.pack(end));
        let record = self.packed_record(kind, misc, &content);
        self.records.extend(record);
    }

    fn attr(&self, event: &EventBuilder) -> Vec<u8> {
        let mut out = self.pack(&[
            (event.event_type.into(), 4),
            (ATTR as u64, 4),
            (event.config, 8),
            (1, 8),
            (event.sample_type, 8),
            (event.read_format, 8),
        ]);
        let mut flags = [0u8; 8];
        for flag in &event.flags {
            let bit = match self.order {
                ByteOrder::Little => 1 << (flag % 8),
                ByteOrder::Big => 0x80 >> (flag % 8),
            };
            flags[(flag / 8) as usize] |= bit;
        }
        out.extend(flags);
        out.extend(self.pack(&[(0, 4), (0, 4), (0, 8), (0, 8), (event.branch_type, 8), (event.regs_user, 8), (0, 4)]));
        out.extend(self.pack(&[(event.clock_id as u32 as u64, 4), (0, 8), (0, 8)]));
        assert_eq!(out.len(), ATTR);
        out
    }

    /// The records of a pipe that describe its events.
    fn attr_records(&self) -> Vec<u8> {
        let record = |event: &EventBuilder| {
            let ids: Vec<(u64, usize)> = event.ids.iter().map(|id| (*id, 8)).collect();
            self.packed_record(64, 0, &[self.attr(event), self.pack(&ids)].concat())
        };
        self.events.iter().flat_map(record).collect()
    }

    /// The bytes of a pipe.
    pub fn build_pipe(&self) -> Vec<u8> {
        let mut out = self.magic();
        out.extend(self.pack(&[(16, 8)]));
        out.extend(self.attr_records());
        for (number, content) in &self.features {
            let content = [self.pack(&[((*number).into(), 8)]), content.clone()].concat();
            out.extend(self.packed_record(80, 0, &content));
        }
        out.extend(&self.records);
        out
    }

    fn magic(&self) -> Vec<u8> {
        match self.order {
            ByteOrder::Little => b"PERFILE2".to_vec(),
            ByteOrder::Big => b"2ELIFREP".to_vec(),
        }
    }

    /// The bytes of a file.
    pub fn build(&self) -> Vec<u8> {
        let ids: u64 = self.events.iter().map(|event| event.ids.len() as u64 * 8).sum();
        let attrs_at = HEAD + ids;
        let attrs_bytes = (self.events.len() * (ATTR + 16)) as u64;
        let data_at = attrs_at + attrs_bytes;
        let mut out = self.magic();
        let mut words = [0u64; 4];
        self.features.iter().for_each(|(number, _)| words[(number / 64) as usize] |= 1 << (number % 64));
        out.extend(self.pack(&[(HEAD, 8), (ATTR as u64 + 16, 8), (attrs_at, 8), (attrs_bytes, 8), (data_at, 8)]));
        out.extend(self.pack(&[(self.records.len() as u64, 8), (0, 8), (0, 8)]));
        out.extend(self.pack(&words.map(|word| (word, 8))));
        let (mut places, mut place) = (Vec::new(), HEAD);
        for event in &self.events {
            let ids: Vec<(u64, usize)> = event.ids.iter().map(|id| (*id, 8)).collect();
            out.extend(self.pack(&ids));
            places.push(place);
            place += ids.len() as u64 * 8;
        }
        for (event, place) in self.events.iter().zip(places) {
            out.extend(self.attr(event));
            out.extend(self.pack(&[(place, 8), (event.ids.len() as u64 * 8, 8)]));
        }
        out.extend(&self.records);
        let mut place = out.len() as u64 + self.features.len() as u64 * 16;
        for (_, content) in &self.features {
            out.extend(self.pack(&[(place, 8), (content.len() as u64, 8)]));
            place += content.len() as u64;
        }
        self.features.iter().for_each(|(_, content)| out.extend(content));
        out
    }

    /// The feature of a text.
    pub fn text(&self, text: &str) -> Vec<u8> {
        [self.pack(&[(text.len() as u64 + 1, 4)]), text.bytes().chain([0]).collect()].concat()
    }

    /// Format files as `tracing_data` has them.
    pub fn tracing_data(&self, system: &str, formats: &[String]) -> Vec<u8> {
        let mut out = b"\x17\x08\x44tracing0.6\0".to_vec();
        out.extend([u8::from(self.order == ByteOrder::Big), 8]);
        out.extend(self.pack(&[(4096, 4)]));
        for name in ["header_page\0", "header_event\0"] {
            out.extend(name.bytes());
            out.extend(self.pack(&[(0, 8)]));
        }
        out.extend(self.pack(&[(0, 4), (1, 4)]));
        out.extend(system.bytes().chain([0]));
        out.extend(self.pack(&[(formats.len() as u64, 4)]));
        for format in formats {
            out.extend(self.pack(&[(format.len() as u64, 8)]));
            out.extend(format.bytes());
        }
        out
    }
}
