//! Any trace as one of 0.7 or 0.8: event classes become events of facilities, whose definitions are written too.
//!
//! Fields are packed, time has 64 bits, an `int` has 8 bytes so that every enumeration is one.

mod clock;
mod names;
mod types;
mod values;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::chunk::{EventRef, PacketData};
use tracemill_codec::value::Value;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::Gap;
use tracemill_model::schema::{ByteOrder, Schema, Scope};

use self::clock::{OutputClock, clock};
use self::types::Types;
use self::values::{in_utf8, shape};
use super::super::block::TraceHeader;
use super::super::definitions::{EventDefinition, FacilityDefinition, are_possible};
use super::super::directory::Candidate;
use super::super::layout::Sizes;
use super::super::loads::{Load, core_names};
use super::blocks::{EventOut, TraceFile, head};
use super::concepts;
use super::encode::NumberForm;
use tracemill_format::OutPath;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::{Source, TraceWriter, WriteOptions};
use tracemill_format::writer::{ClassKey, count_headers, enters};
use tracemill_semantics::cpu;
use tracemill_semantics::names::CPU;

/// Sizes of the C types of what we write.
const SIZES: Sizes = Sizes { int: 8, long: 8, pointer: 8, size: 8, align: 1 };
/// Blocks of streams without packets of a usual size end at this.
const BLOCK_BYTES: usize = 1 << 20;

/// A trace that is written.
pub(crate) struct FacilitiesConverter {
    folder: OutPath,
    source: Source,
    header: TraceHeader,
    clock: OutputClock,
    facilities: Vec<Facility>,
    /// By class, and for classes of many ids by name: facility, event.
    known: HashMap<ClassKey, Option<(usize, usize)>>,
    streams: Vec<CpuStream>,
    names: HashSet<String>,
    block_bytes: usize,
    first: Option<u64>,
    /// Names of the events that say what facilities there are, when the trace has some.
    core: HashSet<String>,
    losses: Losses,
}

struct Facility {
    name: String,
    events: Vec<ConvertedEvent>,
}

struct ConvertedEvent {
    definition: EventDefinition,
    /// Order in which the members of the payload become fields.
    order: Vec<usize>,
    has_contexts: [bool; 2],
}

struct CpuStream {
    file: Option<TraceFile>,
    packet: Option<Arc<PacketData>>,
    last: u64,
}

impl FacilitiesConverter {
    /// Begins a trace of version 0.`minor`, 7 or 8.
    pub(crate) fn new(folder: &OutPath, source: &Source, options: &WriteOptions, minor: u8) -> FacilitiesConverter {
        let mut losses = Losses::default();
        let order = options.byte_order.unwrap_or(source.schema.byte_order);
        let (arch, float_word_order) = match order {
            ByteOrder::Little => (8, 1234),
            ByteOrder::Big => (7, 4321),
        };
        let mut header = TraceHeader {
            order,
            arch,
            float_word_order,
            arch_size: 8,
            minor,
            freq_scale: 1,
            len: TraceHeader::bytes(minor),
            ..TraceHeader::default()
        };
        let clock = clock(source, &mut header, &mut losses);
        count_headers(&mut losses, source, &[CPU], &[CPU]);
        let stream = |_| CpuStream { file: None, packet: None, last: 0 };
        FacilitiesConverter {
            folder: folder.clone(),
            header,
            clock,
            facilities: Vec::new(),
            known: HashMap::new(),
            streams: source.streams.iter().map(stream).collect(),
            names: HashSet::new(),
            block_bytes: options.packet_bytes.unwrap_or(BLOCK_BYTES).clamp(4096, 16 << 20),
            first: None,
            core: core_names(&source.origin),
            losses,
            source: source.clone(),
        }
    }

    fn tsc(&mut self, stream: usize, event: EventRef<'_>, is_untimed: bool) -> u64 {
        let out = &mut self.streams[stream];
        if is_untimed {
            self.losses.add(Lost::UntimedEvents, 1);
            return out.last.max(self.header.start_tsc);
        }
        out.last = match &self.clock {
            OutputClock::Same => event.cycles(),
            OutputClock::Ns(clocks) => {
                let class = self.source.streams[stream].class;
                let ns = clocks.get(&class.0).map(|clock| u64::try_from(clock.ns(event.cycles())));
                match ns {
                    Some(Ok(_)) => {}
                    Some(Err(_)) => self.losses.add(Lost::OutsideTimes, 1),
                    None => self.losses.add(Lost::ClocklessEvents, 1),
                }
                ns.and_then(Result::ok).unwrap_or(0)
            }
        };
        out.last
    }

    /// Opens the file of a stream: its name says channel and CPU.
    fn open_file(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        if self.streams[stream].file.is_some() {
            return Ok(());
        }
        let (cpu, minor) = (cpu(&event.chunk.packet), self.header.minor);
        let own = names::safe_file_name(&self.source.streams[stream].origin_name);
        let digits = own.rsplit_once('_').is_some_and(|(_, digits)| {
            digits.parse::<u32>().is_ok_and(|number| cpu.is_none_or(|cpu| cpu == number.into()))
        });
        let base = if digits { own.clone() } else { format!("{}_{}", own.trim_end_matches(".xml"), cpu.unwrap_or(0)) };
        let mut name = base.clone();
        let mut number = 0;
        let is_other = |name: &str| {
            let candidate = Candidate { path: PathBuf::new(), relative: name.to_string() };
            // Files of that name have other event headers in 0.8.
            matches!(name, "control" | "eventdefs" | "info") || minor == 8 && candidate.is_compact()
        };
        while is_other(&name) || !self.names.insert(name.clone()) {
            number += 1;
            // The CPU stands after the last `_`.
            let (channel, cpu) = base.rsplit_once('_').unwrap_or((&base, "0"));
            name = format!("{channel}-{number}_{cpu}");
        }
        self.streams[stream].file = Some(TraceFile::new(self.folder.join(name), self.header.clone(), None));
        Ok(())
    }

    /// Facility and event of a class, made when it is met first.
    fn place(&mut self, schema: &Schema, event: EventRef<'_>) -> Option<(usize, usize)> {
        let key = ClassKey::from_event(0, event);
        if let Some(place) = self.known.get(&key) {
            return *place;
        }
        let of = schema.event(event.class());
        let name = key.name(schema).into_owned();
        let members = schema.members(of.payload);
        let has = |name: &str| members.iter().any(|member| &*member.name == name);
        let is_markers = schema.format == "lttng-legacy";
        let concept = concepts::find(&name, has).filter(|_| !is_markers);
        let (facility, event) = match &concept {
            Some(concept) => (concept.facility.to_string(), concept.event.to_string()),
            None => names::split(&name),
        };
        // Fields of the concept first, in the order that the facility has; all others after them.
        let mut order: Vec<usize> = Vec::new();
        let renamed = concept.iter().flat_map(|concept| concept.fields.iter().map(|(name, here)| (&**name, *here)));
        let renamed: &[(&str, &str)] = &renamed.collect::<Vec<_>>();
        let place_of = |name: &str| members.iter().position(|member| &*member.name == name);
        order.extend(renamed.iter().filter_map(|(name, _)| place_of(name)));
        let rest: Vec<usize> = (0..members.len()).filter(|at| !order.contains(at)).collect();
        order.extend(rest);
        let mut types = Types { schema, losses: &mut self.losses };
        let mut fields = Vec::with_capacity(order.len() + 2);
        for &at in &order {
            let own = &*members[at].name;
            let name = renamed.iter().find(|(from, _)| *from == own).map_or(own, |(_, to)| to);
            fields.push(types.field(name, members[at].class, 0));
        }
        let stream = schema.stream(of.stream);
        let contexts = [("stream_context", stream.common_context), ("event_context", of.specific_context)];
        let has_contexts = contexts.map(|(_, root)| root.is_some());
        for (name, root) in contexts {
            fields.extend(root.map(|root| types.field(name, root, 0)));
        }
        let definition = EventDefinition { name: event, description: None, fields, has_compact_data: false };
        let place = self.add(&facility, &name, ConvertedEvent { definition, order, has_contexts });
        self.known.insert(key, place);
        place
    }

    /// Gives an event to a facility of a name. What the definitions cannot say loses its fields.
    fn add(&mut self, facility: &str, full: &str, mut event: ConvertedEvent) -> Option<(usize, usize)> {
        let is_it = |known: &Facility, name: &str| known.name == name && known.events.len() < 256;
        let has_room =
            |known: &Facility| !known.events.iter().any(|known| known.definition.name == event.definition.name);
        let mut name = facility.to_string();
        let mut number = 1;
        // A full facility goes on in another one, and so do events of one name.
        let at = loop {
            if let Some(at) = self.facilities.iter().position(|known| is_it(known, &name) && has_room(known)) {
                break at;
            }
            if !self.facilities.iter().any(|known| known.name == name) && name != "core" {
                if self.facilities.len() >= 255 {
                    return None;
                }
                self.facilities.push(Facility { name: name.clone(), events: Vec::new() });
                break self.facilities.len() - 1;
            }
            number += 1;
            name = format!("{facility}_{number}");
        };
        if format!("{name}.{}", event.definition.name) != full {
            event.definition.description = Some(names::text(full));
        }
        if !are_possible(&event.definition.fields) {
            self.losses.add(Lost::UndefinedFields, 1);
            event.definition.fields.clear();
            event.order.clear();
            event.has_contexts = [false; 2];
        }
        self.facilities[at].events.push(event);
        Some((at, self.facilities[at].events.len() - 1))
    }
}

impl TraceWriter for FacilitiesConverter {
    fn losses(&self) -> Losses {
        self.losses.clone()
    }

    fn event(&mut self, stream: usize, event: EventRef<'_>) -> Result<()> {
        let schema = self.source.schema.clone();
        let class = schema.event(event.class());
        if class.name.as_deref().is_some_and(|name| self.core.contains(name)) {
            return Ok(());
        }
        let Some((facility, number)) = self.place(&schema, event) else {
            self.losses.add(Lost::MoreEventClasses, 1);
            return Ok(());
        };
        let tsc = self.tsc(stream, event, class.is_untimed);
        let of = &self.facilities[facility].events[number];
        let plans = &event.chunk.packet.plans;
        let mut truncated = 0;
        let mut shown = |scope: Scope| -> Result<Option<Value>> {
            let mut value = event.values(scope).map_err(Error::from)?;
            let root = plans.schema().scope_root(scope, event.class());
            if let (Some(root), Some(value)) = (root, &mut value) {
                in_utf8(plans.schema(), root, value, &mut truncated);
            }
            Ok(value)
        };
        let mut values = shown(Scope::Payload)?.map(Value::into_parts).unwrap_or_default();
        let mut ordered: Vec<Value> = Vec::with_capacity(values.len() + 2);
        ordered.extend(of.order.iter().map(|&at| values.get_mut(at).map_or(Value::Null, std::mem::take)));
        for (scope, has) in [Scope::CommonContext, Scope::SpecificContext].into_iter().zip(of.has_contexts) {
            if has {
                ordered.push(shown(scope)?.unwrap_or(Value::Null));
            }
        }
        self.losses.add(Lost::TruncatedTexts, truncated);
        let order = self.header.order;
        let form = NumberForm { sizes: SIZES, order, float_order: order };
        let mut data = Vec::new();
        let mut absent = 0;
        let fields = of.definition.fields.iter().zip(ordered);
        let ordered: Vec<Value> = fields.map(|(field, value)| shape(&field.class.kind, value, &mut absent)).collect();
        // No value is absent now, so this cannot fail.
        let _ = form.fields(&of.definition.fields, &ordered, &mut data);
        self.losses.add(Lost::AbsentFields, absent);
        self.first = Some(self.first.map_or(tsc, |first| first.min(tsc)));
        self.open_file(stream, event)?;
        let (header, block_bytes) = (&self.header, self.block_bytes);
        let out = &mut self.streams[stream];
        let is_new = enters(&mut out.packet, event);
        let Some(file) = &mut out.file else { return Ok(()) };
        if is_new || file.block_bytes() > block_bytes {
            file.begin(&head(header, tsc), None, 0)?;
        }
        // Ids are given from 1 on.
        let (facility, event) = ((facility + 1) as u8, number as u8);
        file.event(&EventOut { tsc, facility, event, data: &data, ..EventOut::default() })
    }

    fn gap(&mut self, _stream: usize, gap: &Gap) -> Result<()> {
        self.losses.add_gap(gap);
        Ok(())
    }

    fn end_stream(&mut self, stream: usize) -> Result<()> {
        self.streams.get_mut(stream).and_then(|stream| stream.file.as_mut()).map_or(Ok(()), TraceFile::finish)
    }

    fn finish(mut self: Box<Self>) -> Result<Losses> {
        for stream in 0..self.streams.len() {
            self.end_stream(stream)?;
        }
        let begin = self.first.unwrap_or(self.header.start_tsc);
        let mut control = TraceFile::new(self.folder.join("control/facilities_0"), self.header.clone(), None);
        control.begin(&head(&self.header, begin), None, 4096)?;
        for (at, facility) in self.facilities.into_iter().enumerate() {
            let events = facility.events.into_iter().map(|event| event.definition);
            let facility = FacilityDefinition::new(facility.name, events.collect());
            let path = self.folder.join("eventdefs").join(format!("{}.xml", names::definition_file(&facility.name)));
            path.make_folders_around()?;
            path.write("write the definitions", facility.to_string())?;
            let FacilityDefinition { name, checksum, .. } = facility;
            let load = Load { name, checksum, id: at as u32 + 1, sizes: [8; 4], alignment: 0 };
            control.event(&EventOut { tsc: begin, data: &load.data(&self.header), ..EventOut::default() })?;
        }
        control.finish()?;
        self.folder.join("eventdefs").make_folder()?;
        let files = self.streams.iter().filter_map(|stream| stream.file.as_ref());
        files.chain([&control]).try_for_each(TraceFile::check)?;
        Ok(self.losses)
    }
}
