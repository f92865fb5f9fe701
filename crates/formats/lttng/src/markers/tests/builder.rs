//! Writes traces byte by byte, by the rules of the format and not by the code that reads it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::ByteOrder;

use tracemill_format::{Entry, EntryKind, Storage};

/// The machine that traces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub order: ByteOrder,
    pub minor: u8,
    pub arch: u8,
    pub alignment: u8,
}

pub(super) const I386: Machine = Machine { order: ByteOrder::Little, minor: 5, arch: 4, alignment: 0 };

/// A value of a payload.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// Length in bytes and value.
    Number(usize, u64),
    /// Length in bytes and value, most significant byte first.
    Network(usize, u64),
    Text(&'a str),
}

pub(super) use Value::{Network, Number, Text};

impl Machine {
    pub(super) fn header_len(&self) -> usize {
        match (self.minor, self.arch) {
            (0, 8) => 64,
            (0 | 1, _) => 60,
            _ => 68,
        }
    }

    fn padding(&self, at: usize, size: usize) -> usize {
        let to = match (self.alignment, self.minor) {
            (0, _) => 1,
            (_, 4 | 5) => size,
            (most, _) => size.min(most.into()),
        };
        (to - at % to) % to
    }

    fn number(&self, len: usize, value: u64) -> Vec<u8> {
        match self.order {
            ByteOrder::Little => value.to_le_bytes()[..len].to_vec(),
            ByteOrder::Big => value.to_be_bytes()[8 - len..].to_vec(),
        }
    }

    pub(super) fn block(&self, begin: u64) -> Block {
        let bytes = vec![0; self.header_len()];
        Block {
            machine: *self,
            bytes,
            begin,
            end: begin,
            lost: 0,
            corrupt: 0,
            padding: 0,
            scale: 1,
            frequency: 1_000_000,
        }
    }

    /// The metadata channel that defines markers (channel, name, id, format), all for this machine.
    pub(super) fn metadata(&self, markers: &[(&str, &str, u16, &str)]) -> Vec<u8> {
        let mut block = self.block(1000);
        for (channel, name, id, format) in markers {
            block.define_id(channel, name, *id, [4, self.arch, self.arch, self.arch, self.alignment]);
            block.define_format(channel, name, format);
        }
        block.finish()
    }
}

/// A sub-buffer being written.
pub(super) struct Block {
    pub machine: Machine,
    pub bytes: Vec<u8>,
    pub begin: u64,
    pub end: u64,
    pub lost: u32,
    pub corrupt: u32,
    /// Unused bytes at the end.
    pub padding: usize,
    pub scale: u32,
    pub frequency: u64,
}

impl Block {
    fn put(&mut self, len: usize, value: u64) {
        self.bytes.extend(self.machine.number(len, value));
    }

    fn pad(&mut self, size: usize) {
        let padding = self.machine.padding(self.bytes.len(), size);
        self.bytes.extend(std::iter::repeat_n(0xee, padding));
    }

    fn word(&mut self, id: u64, clock: u64) {
        self.pad(4);
        self.put(4, id << 27 | (clock & 0x7ff_ffff));
        self.end = self.end.max(clock);
    }

    /// Payload after a header: itself aligned to its largest member, members by their place in it. Its length.
    fn payload(&mut self, values: &[Value]) -> usize {
        let largest = values.iter().map(|value| match value {
            Number(len, _) | Network(len, _) => *len,
            Text(_) => 1,
        });
        self.pad(largest.max().unwrap_or(1));
        let begin = self.bytes.len();
        for value in values {
            match value {
                Text(text) => {
                    self.bytes.extend(text.as_bytes());
                    self.bytes.push(0);
                }
                Number(len, number) | Network(len, number) => {
                    let padding = self.machine.padding(self.bytes.len() - begin, *len);
                    self.bytes.extend(std::iter::repeat_n(0xdd, padding));
                    match value {
                        Network(..) => self.bytes.extend(&number.to_be_bytes()[8 - len..]),
                        _ => self.put(*len, *number),
                    }
                }
            }
        }
        self.bytes.len() - begin
    }

    /// The length that a payload will have.
    fn measure(&self, values: &[Value]) -> usize {
        let mut copy = self.machine.block(0);
        copy.bytes.resize(64, 0);
        copy.payload(values)
    }

    /// An event whose id stands in the header.
    pub(super) fn short(&mut self, id: u16, clock: u64, values: &[Value]) -> &mut Self {
        self.word(id.into(), clock);
        self.payload(values);
        self
    }

    /// An event with an id of 16 bits.
    pub(super) fn wide(&mut self, id: u16, clock: u64, values: &[Value]) -> &mut Self {
        self.word(31, clock);
        self.put(2, id.into());
        self.payload(values);
        self
    }

    fn id_and_size(&mut self, id: u16, size: usize) {
        self.put(2, id.into());
        self.put(2, size.min(0xffff) as u64);
        if size >= 0xffff {
            self.put(4, size as u64);
        }
    }

    /// An event that states its size, which may be a lie.
    pub(super) fn stated(&mut self, id: u16, clock: u64, size: usize, values: &[Value]) -> &mut Self {
        self.word(30, clock);
        self.id_and_size(id, size);
        self.payload(values);
        self
    }

    pub(super) fn sized(&mut self, id: u16, clock: u64, values: &[Value]) -> &mut Self {
        let size = self.measure(values);
        self.stated(id, clock, size, values)
    }

    /// An event with id, size and the whole clock.
    pub(super) fn full(&mut self, id: u16, clock: u64, values: &[Value]) -> &mut Self {
        let size = self.measure(values);
        self.word(29, clock);
        self.id_and_size(id, size);
        self.pad(8);
        self.put(8, clock);
        self.payload(values);
        self
    }

    fn names<'a>(&self, channel: &'a str, name: &'a str) -> Vec<Value<'a>> {
        if self.machine.minor < 3 { vec![Text(name)] } else { vec![Text(channel), Text(name)] }
    }

    pub(super) fn define_id(&mut self, channel: &str, name: &str, id: u16, sizes: [u8; 5]) -> &mut Self {
        let mut values = self.names(channel, name);
        values.push(Number(2, id.into()));
        values.extend(sizes.map(|size| Number(1, size.into())));
        let clock = self.end + 1;
        self.full(0, clock, &values)
    }

    pub(super) fn define_format(&mut self, channel: &str, name: &str, format: &str) -> &mut Self {
        let mut values = self.names(channel, name);
        values.push(Text(format));
        let clock = self.end + 1;
        self.short(1, clock, &values)
    }

    /// The sub-buffer with its header.
    pub(super) fn finish(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let data = bytes.len();
        bytes.resize(data + self.padding, 0);
        let machine = &self.machine;
        let total = bytes.len() as u64;
        let used = if machine.minor >= 5 { data as u64 } else { self.padding as u64 };
        let mut header = Vec::new();
        for (len, value) in [
            (8, self.begin),
            (8, self.end),
            (4, 0x00d6_b7ed),
            (1, 2),
            (1, machine.minor.into()),
            (1, machine.arch.into()),
            (1, machine.alignment.into()),
            (8, 1_262_715_366),
            (8, 408_819),
            (8, self.frequency),
            (4, self.scale.into()),
            (4, used),
            (4, total),
            (4, self.lost.into()),
            (4, self.corrupt.into()),
        ] {
            header.extend(machine.number(len, value));
        }
        header.resize(68, 0);
        let len = machine.header_len();
        bytes[..len].copy_from_slice(&header[..len]);
        bytes
    }
}

/// Files in memory, below `/t`.
#[derive(Clone, Default)]
pub(super) struct Folder(pub BTreeMap<PathBuf, Arc<Vec<u8>>>);

pub(super) const ROOT: &str = "/t";

impl Folder {
    pub(super) fn with(mut self, name: &str, bytes: Vec<u8>) -> Self {
        self.0.insert(Path::new(ROOT).join(name), Arc::new(bytes));
        self
    }
}

impl Storage for Folder {
    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let mut entries = BTreeMap::new();
        for (path, bytes) in &self.0 {
            let Ok(below) = path.strip_prefix(directory) else { continue };
            let mut parts = below.components();
            let Some(first) = parts.next() else { continue };
            let name = first.as_os_str().to_string_lossy().into_owned();
            let is_file = parts.next().is_none();
            let kind = if is_file { EntryKind::File(bytes.len() as u64) } else { EntryKind::Directory };
            entries.insert(name.clone(), Entry { path: directory.join(&name), name, kind });
        }
        Ok(entries.into_values().collect())
    }

    fn kind(&self, path: &Path) -> Option<EntryKind> {
        match self.0.get(path) {
            Some(bytes) => Some(EntryKind::File(bytes.len() as u64)),
            None => self.0.keys().any(|file| file.starts_with(path)).then_some(EntryKind::Directory),
        }
    }

    fn open(&self, file: &Path) -> Result<Arc<dyn Bytes>> {
        let bytes = self.0.get(file).ok_or_else(|| Error::new(ErrorKind::Io, "no such file"))?;
        Ok(bytes.clone())
    }
}
