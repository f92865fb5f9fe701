//! The metadata channel: which marker has which id, and how its fields are written.

use std::collections::{BTreeMap, HashMap, HashSet};

use tracemill_codec::bits::u16_at;
use tracemill_model::error::Error;

use super::blocks::Block;
use super::events::{EventWalk, Fit, FoundEvent, Layout, Layouts, Lost, LostKind};
use super::format_string::{FieldKind, MarkerField, Sizes};
use super::header::{AlignRule, SubBufferHeader};
use crate::messages::Messages;
use tracemill_model::schema::DisplayBase;

/// The event that gives an id to a marker.
pub(crate) const SET_ID: u16 = 0;
/// The event that gives a format to a marker.
pub(crate) const SET_FORMAT: u16 = 1;
/// Markers that one trace may define: an id of 16 bits for each of many channels.
const MAX_MARKERS: usize = 1 << 18;

/// Contradictions that are reported of one trace.
const MAX_WARNINGS: usize = 1000;

/// Does the metadata name the channel of a marker? Before 2.3 ids belong to the whole trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    WithChannel,
    WithoutChannel,
}

/// A marker with its id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Marker {
    pub name: String,
    pub sizes: Sizes,
}

/// The markers of one channel, or of all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Channel {
    pub ids: BTreeMap<u16, Marker>,
    pub formats: HashMap<String, Vec<u8>>,
}

/// Markers that the metadata channel defines.
#[derive(Default)]
pub(crate) struct MarkerDefinitions {
    /// By channel; the empty name stands for all of them.
    pub channels: BTreeMap<String, Channel>,
    count: usize,
    /// Ids without a meaning that were reported.
    reported: HashSet<u16>,
    pub messages: Messages,
}

impl MarkerDefinitions {
    /// The markers of a channel.
    pub(crate) fn channel(&self, name: &str) -> Option<&Channel> {
        self.channels.get(name).or_else(|| self.channels.get(""))
    }

    /// Reads the metadata of one CPU.
    pub(crate) fn read(&mut self, file: &[u8], blocks: &[Block], dialect: Dialect) {
        for (index, block) in blocks.iter().enumerate() {
            let (warned, failed) = (self.messages.warnings.len(), self.messages.errors.len());
            self.read_block(file, block, dialect);
            for error in
                self.messages.warnings.iter_mut().skip(warned).chain(self.messages.errors.iter_mut().skip(failed))
            {
                *error = error.clone().in_packet(index as u64);
            }
        }
    }

    fn read_block(&mut self, file: &[u8], block: &Block, dialect: Dialect) {
        let layouts = core_layouts(dialect, block.header.alignment, block.header.rule());
        let data = block.data(file);
        let header = &block.header;
        let mut walk =
            EventWalk::new(header.shape(), data, &layouts, header.header_bytes as usize, header.begin_cycles);
        while let Some(next) = walk.next() {
            match next {
                Err(lost) => {
                    self.messages.errors.push(lost_error(&lost, "metadata", block.offset, data.len()));
                    break;
                }
                Ok(found) => {
                    if let Err(error) = self.define(data, header, &found, dialect)
                        && self.messages.errors.len() < MAX_WARNINGS
                    {
                        self.messages.errors.push(error.at_offset(block.offset + found.start as u64));
                    }
                }
            }
        }
    }

    fn define(
        &mut self,
        data: &[u8],
        header: &SubBufferHeader,
        found: &FoundEvent,
        dialect: Dialect,
    ) -> Result<(), Error> {
        let body = data.get(found.body..found.end).unwrap_or_default();
        match (found.id, found.fit) {
            (SET_ID, Fit::Exact | Fit::Longer(_)) => {
                let alignment = header.rule().bytes(header.alignment, 2) as usize;
                let (channel, marker, rest) = names(body, dialect).ok_or_else(broken)?;
                // Payloads begin where two bytes may stand.
                let at = (body.len() - rest.len()).next_multiple_of(alignment);
                let id = u16_at(body, at, header.order).ok_or_else(broken)?;
                let sizes = body.get(at + 2..).and_then(|rest| rest.first_chunk::<5>()).ok_or_else(broken)?;
                let [int, long, pointer, size_t, alignment] = *sizes;
                let marker = Marker { name: marker, sizes: Sizes { int, long, pointer, size_t, alignment } };
                self.add_id(channel, id, marker)
            }
            (SET_FORMAT, Fit::Exact | Fit::Longer(_)) => {
                let (channel, marker, rest) = names(body, dialect).ok_or_else(broken)?;
                let (format, _) = text(rest).ok_or_else(broken)?;
                self.add_format(channel, marker, format);
                Ok(())
            }
            (SET_ID | SET_FORMAT, _) => Err(broken()),
            (id, _) if !self.reported.insert(id) => Ok(()),
            (id, _) => {
                let message =
                    format!("the metadata channel holds an event of id {id}; only 0 and 1 have a meaning there");
                self.warn(message);
                Ok(())
            }
        }
    }

    fn warn(&mut self, message: String) {
        if self.messages.warnings.len() < MAX_WARNINGS {
            self.messages.warnings.push(Error::inconsistent(message));
        }
    }

    fn add_id(&mut self, channel: String, id: u16, marker: Marker) -> Result<(), Error> {
        if self.count == MAX_MARKERS {
            return Err(Error::unsupported(format!("the trace defines more than {MAX_MARKERS} markers")));
        }
        let ids = &mut self.channels.entry(channel.clone()).or_default().ids;
        match ids.insert(id, marker.clone()) {
            None => self.count += 1,
            Some(before) if before == marker => {}
            Some(before) => self.warn(format!(
                "marker id {id} of channel `{channel}` is given to `{}` and then to `{}`; the last one is used",
                before.name, marker.name
            )),
        }
        Ok(())
    }

    fn add_format(&mut self, channel: String, marker: String, format: &[u8]) {
        let formats = &mut self.channels.entry(channel.clone()).or_default().formats;
        match formats.get(&marker) {
            None => {
                formats.insert(marker, format.to_vec());
            }
            Some(before) if before.as_slice() == format => {}
            Some(before) => {
                let message = format!(
                    "marker `{channel}.{marker}` has the format `{}` and then `{}`; the first one is used",
                    String::from_utf8_lossy(before),
                    String::from_utf8_lossy(format)
                );
                self.warn(message);
            }
        }
    }
}

fn broken() -> Error {
    Error::malformed("the definition of a marker does not fit its event; it is not used")
}

/// Channel and name of a marker, and what follows.
fn names(body: &[u8], dialect: Dialect) -> Option<(String, String, &[u8])> {
    let (channel, rest) = match dialect {
        Dialect::WithChannel => text(body)?,
        Dialect::WithoutChannel => (&body[..0], body),
    };
    let (marker, rest) = text(rest)?;
    let own = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((own(channel), own(marker), rest))
}

fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, bytes)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Names and fields of the two events that define markers.
pub(crate) fn core_markers(dialect: Dialect) -> [(u16, &'static str, Vec<MarkerField>); 2] {
    let text = |name: &str| MarkerField { name: name.into(), kind: FieldKind::Text };
    let number = |name: &str, len_bytes| MarkerField {
        name: name.into(),
        kind: FieldKind::Integer { len_bytes, is_signed: false, base: DisplayBase::Decimal, is_network_order: false },
    };
    let mut names = vec![text("name")];
    if dialect == Dialect::WithChannel {
        names.insert(0, text("channel"));
    }
    let mut id = names.clone();
    id.push(number("event_id", 2));
    id.extend(["int", "long", "pointer", "size_t", "alignment"].map(|name| number(name, 1)));
    let mut format = names;
    format.push(text("format"));
    [(SET_ID, "core_marker_id", id), (SET_FORMAT, "core_marker_format", format)]
}

/// How those two are laid out.
pub(crate) fn core_layouts(dialect: Dialect, alignment: u8, rule: AlignRule) -> Layouts {
    let mut layouts = Layouts::default();
    for (id, _, fields) in core_markers(dialect) {
        layouts.set(id, Layout::from_fields(&fields, alignment, rule));
    }
    layouts
}

/// The dialect of a metadata channel. The version decides; 2.0 to 2.2 are looked at, for the change was made before the
/// number was.
pub(crate) fn dialect(file: &[u8], blocks: &[Block]) -> Dialect {
    let is_old = blocks.first().is_some_and(|block| block.header.minor < 3);
    if !is_old {
        return Dialect::WithChannel;
    }
    let read = |dialect| {
        let mut definitions = MarkerDefinitions::default();
        definitions.read(file, blocks, dialect);
        let ids = definitions.channels.values().flat_map(|channel| channel.ids.values());
        let good = ids.filter(|marker| marker.sizes.are_possible()).count();
        (good, std::cmp::Reverse(definitions.messages.errors.len()))
    };
    if read(Dialect::WithChannel) > read(Dialect::WithoutChannel) {
        Dialect::WithChannel
    } else {
        Dialect::WithoutChannel
    }
}

/// The error of a sub-buffer whose next event cannot be found.
pub(crate) fn lost_error(lost: &Lost, channel: &str, block_offset: u64, data_bytes: usize) -> Error {
    let left = data_bytes.saturating_sub(lost.at);
    let message = match lost.kind {
        LostKind::Header => format!("an event header does not fit the {left} bytes that are left"),
        LostKind::Size { id, size } => {
            format!(
                "event {id} of channel `{channel}` states {size} bytes, more than the {left} that are left with its header"
            )
        }
        LostKind::Fields { id } => {
            format!(
                "the fields of event {id} of channel `{channel}` do not end in the {left} bytes that are left with its header"
            )
        }
        LostKind::Unknown { id } => {
            format!("no format is known for event {id} of channel `{channel}`, and it does not state its size")
        }
    };
    let error = Error::malformed(message).at_offset(block_offset + lost.at as u64);
    error.with_help(format!("{left} bytes of the sub-buffer are skipped"))
}
