//! Which facility ids mean what: the loads in `control/facilities_N`, and the definitions that belong to them
//! (`SPEC.md`, sections 4 and 6.2).

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::bits::{put_uint, read_uint};
use tracemill_model::error::Error;
use tracemill_model::schema::{ByteOrder, Origin};

use super::FORMAT;
use super::block::TraceHeader;
use super::builtin;
use super::definitions::{
    DefinitionFile, EventDefinition, FacilityDefinition, FacilityType, FieldDefinition, Integer, TypeKind,
};
use super::layout::Sizes;
use crate::messages::Messages;

/// Name of the part of a trace that lists the facility loads.
pub(super) const LOADS: &str = "facilities";

/// Id of the facility that no file defines.
pub(super) const CORE: u8 = 0;

/// A facility load, as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Load {
    /// Name of the facility.
    pub(super) name: String,
    /// Checksum of its definition.
    pub(super) checksum: u32,
    /// Its id in this trace.
    pub(super) id: u32,
    /// Bytes of `int`, `long`, pointers and `size_t`.
    pub(super) sizes: [u32; 4],
    /// Largest alignment of its fields, 0 for none.
    pub(super) alignment: u32,
}

impl Load {
    /// Reads the payload of a load event, of which `sizes` are those of core events.
    pub(super) fn read(data: &[u8], sizes: &Sizes, order: ByteOrder) -> Option<Load> {
        let end = memchr::memchr(0, data)?;
        let name = String::from_utf8_lossy(&data[..end]).into_owned();
        let at = (end + 1).next_multiple_of(usize::from(sizes.tail().max(1)));
        let words = data.get(at..at.checked_add(28)?)?;
        let word = |at: usize| read_uint(&words[at * 4..at * 4 + 4], order) as u32;
        let sizes = [word(2), word(3), word(4), word(5)];
        Some(Load { name, checksum: word(0), id: word(1), sizes, alignment: word(6) })
    }

    /// The payload of its event, which [`Load::read`] reads.
    pub(super) fn data(&self, header: &TraceHeader) -> Vec<u8> {
        let mut data = [self.name.as_bytes(), &[0]].concat();
        data.resize(data.len().next_multiple_of(header.header_align().into()), 0);
        for word in [self.checksum, self.id].into_iter().chain(self.sizes).chain([self.alignment]) {
            put_uint(&mut data, word.into(), 4, header.order);
        }
        data
    }

    /// A line of text that [`Load::from_line`] reads, for the parts of a trace.
    pub(super) fn line(&self) -> String {
        let [int, long, pointer, size] = self.sizes;
        let Load { name, checksum, id, alignment, .. } = self;
        format!("{id} {checksum} {int} {long} {pointer} {size} {alignment} {name}\n")
    }

    /// The load of a line.
    pub(super) fn from_line(line: &str) -> Option<Load> {
        let mut words = line.splitn(8, ' ');
        let mut next = || words.next()?.parse::<u32>().ok();
        let (id, checksum) = (next()?, next()?);
        let sizes = [next()?, next()?, next()?, next()?];
        let alignment = next()?;
        Some(Load { name: words.next()?.to_string(), checksum, id, sizes, alignment })
    }

    /// The sizes, when they can be used.
    pub(super) fn usable_sizes(&self) -> Result<Sizes, String> {
        let names = ["int", "long", "pointer", "size_t"];
        for (name, size) in names.iter().zip(self.sizes) {
            if !matches!(size, 1 | 2 | 4 | 8) {
                return Err(format!("its `{name}` is said to have {size} bytes, expected 1, 2, 4 or 8"));
            }
        }
        let align = self.alignment.clamp(1, 8);
        if !align.is_power_of_two() {
            return Err(format!("its fields are said to be aligned to {align} bytes, which is not a power of two"));
        }
        let [int, long, pointer, size] = self.sizes.map(|size| size as u8);
        Ok(Sizes { int, long, pointer, size, align: align as u8 })
    }
}

/// Where the definition of a facility comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DefinitionSource {
    /// A file of the trace, by its name.
    File(String),
    /// Our own definitions.
    BuiltIn,
    /// Nowhere.
    Nowhere,
}

/// A facility of a trace.
#[derive(Clone, Debug)]
pub(super) struct Facility {
    /// Its load.
    pub(super) load: Load,
    /// Its id.
    pub(super) id: u8,
    /// Was it loaded before tracing began?
    pub(super) was_loaded: bool,
    /// Its definition.
    pub(super) definition: Option<Arc<FacilityDefinition>>,
    /// Where that comes from.
    pub(super) source: DefinitionSource,
    /// Its sizes, when they can be used.
    pub(super) sizes: Option<Sizes>,
}

/// The definition files of a trace.
#[derive(Default)]
pub(super) struct Library {
    /// Name without `.xml`, path, and content.
    pub(super) files: Vec<(String, PathBuf, DefinitionFile)>,
    /// Broken parts that some facility needed.
    used_broken: Vec<(usize, usize)>,
}

impl Library {
    /// Finds the definition of a loaded facility (`SPEC.md`, D29, D32).
    pub(super) fn resolve(
        &mut self,
        load: Load,
        was_loaded: bool,
        arch: Option<&str>,
        messages: &mut Messages,
    ) -> Facility {
        let (definition, source) = self.find(&load, arch, messages);
        let sizes = match load.usable_sizes() {
            Ok(sizes) => Some(sizes),
            Err(reason) => {
                let message = format!("the facility `{}` cannot be decoded: {reason}", load.name);
                messages.warnings.push(Error::inconsistent(message).with_help(UNDECODED));
                None
            }
        };
        Facility { id: load.id as u8, load, was_loaded, definition, source, sizes }
    }

    fn find(
        &mut self,
        load: &Load,
        arch: Option<&str>,
        messages: &mut Messages,
    ) -> (Option<Arc<FacilityDefinition>>, DefinitionSource) {
        let candidates = self.candidates(&load.name, load.checksum, arch);
        let good = candidates.iter().find(|(_, definition)| definition.checksum == load.checksum);
        if let Some((file, definition)) = good.or(candidates.first()) {
            if definition.checksum != load.checksum {
                let message = format!(
                    "the definition of the facility `{}` has the checksum {}, the trace was made with {}",
                    load.name, definition.checksum, load.checksum
                );
                let warning = Error::inconsistent(message).in_file(&self.files[*file].1);
                messages.warnings.push(warning.with_help("it is used all the same; its fields may be wrong"));
            }
            return (Some(definition.clone()), DefinitionSource::File(self.files[*file].0.clone()));
        }
        if self.report_broken(load, messages) {
            return (None, DefinitionSource::Nowhere);
        }
        match builtin::find(&load.name, load.checksum, arch) {
            Some(definition) => {
                let message = format!(
                    "the trace has no definition of the facility `{}`; our own with its checksum, {}, is used",
                    load.name, load.checksum
                );
                messages.warnings.push(Error::inconsistent(message));
                (Some(definition), DefinitionSource::BuiltIn)
            }
            None => {
                let message = format!(
                    "no definition of the facility `{}` with the checksum {}, neither in the trace nor ours",
                    load.name, load.checksum
                );
                messages.warnings.push(Error::inconsistent(message).with_help(UNDECODED));
                (None, DefinitionSource::Nowhere)
            }
        }
    }

    /// The definitions that could be meant, best first: by the name of their file, then any of that name.
    fn candidates(&self, name: &str, checksum: u32, arch: Option<&str>) -> Vec<(usize, Arc<FacilityDefinition>)> {
        let mut names = vec![format!("{name}_{checksum}")];
        if let (true, Some(arch)) = (name.ends_with("_arch"), arch) {
            names.push(format!("{name}_{arch}"));
        }
        names.push(name.to_string());
        let rank = |file: &str| names.iter().position(|name| name == file).unwrap_or(names.len());
        let mut found: Vec<(usize, usize, Arc<FacilityDefinition>)> = Vec::new();
        for (at, (file, _, content)) in self.files.iter().enumerate() {
            let of_name = content.facilities.iter().filter(|definition| definition.name == name);
            found.extend(of_name.map(|definition| (rank(file), at, definition.clone())));
        }
        found.sort_by_key(|(rank, at, _)| (*rank, *at));
        found.into_iter().map(|(_, at, definition)| (at, definition)).collect()
    }

    /// Reports the damaged definitions of a facility; false when there are none.
    fn report_broken(&mut self, load: &Load, messages: &mut Messages) -> bool {
        let mut is_broken = false;
        for (at, (file, _, content)) in self.files.iter().enumerate() {
            for (number, (name, error)) in content.broken.iter().enumerate() {
                let is_it = match name {
                    Some(name) => *name == load.name,
                    None => *file == load.name || *file == format!("{}_{}", load.name, load.checksum),
                };
                if !is_it {
                    continue;
                }
                is_broken = true;
                if !self.used_broken.contains(&(at, number)) {
                    self.used_broken.push((at, number));
                    messages.errors.push(error.clone().with_help(UNDECODED));
                }
            }
        }
        is_broken
    }

    /// Broken parts that no facility of the trace needs.
    pub(super) fn unused_broken(&self) -> impl Iterator<Item = &Error> {
        let used = &self.used_broken;
        self.files.iter().enumerate().flat_map(move |(at, (_, _, content))| {
            let parts = content.broken.iter().enumerate();
            parts.filter(move |(number, _)| !used.contains(&(at, *number))).map(|(_, (_, error))| error)
        })
    }
}

/// Help for the events of a facility without definition.
const UNDECODED: &str = "its events are shown as `FACILITY.event_N` without fields";

/// Effect of a core event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CoreEvent {
    /// A facility is loaded; `true` when it was before tracing began.
    Load(bool),
    /// A facility is unloaded.
    Unload,
    /// The clock is alive.
    Heartbeat,
    /// The whole clock.
    FullHeartbeat,
}

/// The core events of a version, by their ids (`SPEC.md`, D11).
pub(super) fn core_events(minor: u8) -> &'static [CoreEvent] {
    use CoreEvent::{FullHeartbeat, Heartbeat, Load, Unload};
    if minor == 7 {
        &[Load(false), Unload, Heartbeat, Load(true)]
    } else {
        &[Load(false), Unload, Heartbeat, FullHeartbeat, Load(true)]
    }
}

/// The facility that no file defines (`SPEC.md`, section 4): its integers have 32 bits whatever an `int` has.
pub(super) fn core_definition(minor: u8) -> FacilityDefinition {
    let load = || {
        let names = ["checksum", "id", "int_size", "long_size", "pointer_size", "size_t_size", "has_alignment"];
        let mut fields = vec![field("name", TypeKind::String)];
        fields.extend(names.map(|name| field(name, unsigned(4))));
        fields
    };
    let events = core_events(minor).iter().map(|event| {
        let (name, fields) = match event {
            CoreEvent::Load(false) => ("facility_load", load()),
            CoreEvent::Load(true) => ("state_dump_facility_load", load()),
            CoreEvent::Unload => ("facility_unload", vec![field("id", unsigned(4))]),
            CoreEvent::Heartbeat => ("time_heartbeat", Vec::new()),
            CoreEvent::FullHeartbeat => ("heartbeat_full", vec![field("tsc", unsigned(8))]),
        };
        EventDefinition { name: name.to_string(), description: None, fields, has_compact_data: false }
    });
    FacilityDefinition { name: "core".to_string(), arch: None, events: events.collect(), checksum: 0 }
}

/// Names of the events about facilities and the clock in a trace that is, or was, one with facilities. A writer of another
/// version makes them anew.
pub(crate) fn core_names(origin: &Origin) -> HashSet<String> {
    if origin.format != FORMAT.names[0] || origin.version.0 != 0 {
        return HashSet::new();
    }
    let core = core_definition(origin.version.1 as u8);
    core.events.iter().map(|event| format!("{}.{}", core.name, event.name)).collect()
}

fn unsigned(bytes: u8) -> TypeKind {
    TypeKind::Integer(Integer::Fixed(bytes, false))
}

fn field(name: &str, kind: TypeKind) -> FieldDefinition {
    FieldDefinition { name: name.into(), class: Arc::new(FacilityType::new(kind, None)) }
}
