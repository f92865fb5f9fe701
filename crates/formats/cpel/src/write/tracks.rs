//! The tracks of the events of other formats: that of their thread, else of their CPU, else of their stream.

use std::collections::HashMap;

use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::schema::{EventClassId, FieldPath, PathStep, Scope};
use tracemill_semantics::{CpuOf, EventPlace, Running, Semantics, StatedPlace, Who};

use super::fields::{FieldRoute as Field, FieldValues};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Source;

/// Most tracks: viewers and logs number them in 16 bits.
const MAX_TRACKS: usize = 1 << 16;

/// Where the events of a class have their track.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    who: Who,
    id: Option<Field>,
    name: Option<Field>,
    next: Option<Field>,
}

impl Rule {
    /// The rule of a class.
    pub(super) fn for_class(semantics: &Semantics, event: EventClassId) -> Rule {
        let who = semantics.who(event);
        let field = |path: &FieldPath| {
            // The value of an optional field is that of its content.
            let steps = path.steps.iter().filter_map(|step| match step {
                PathStep::Member(at) => Some(*at as usize),
                _ => None,
            });
            Field { scope: path.scope, path: steps.collect() }
        };
        let next = semantics.switch(event).map(|switch| field(&switch.next));
        Rule { id: who.id.as_ref().map(field), name: who.name.as_ref().map(field), next, who }
    }

    /// The field with the number of the track.
    pub(super) fn number(&self) -> Option<&Field> {
        self.id.as_ref().filter(|_| !self.who.is_of_cpu)
    }

    /// The fields that the track shows.
    pub(super) fn places(&self) -> Vec<Field> {
        let is_said = self.id.is_some() && !self.who.is_of_cpu;
        let id = self.id.iter().filter(|field| field.scope != Scope::Payload);
        id.chain(&self.name).filter(|_| is_said).cloned().collect()
    }
}

/// Origin of a track: its number, and the content of its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TrackOrigin {
    /// The number of its thread or CPU, or its own one, where 32 bits hold it; of a stream its place.
    pub(super) number: Option<u32>,
    /// Is it a stream, whose number is a place?
    pub(super) is_stream: bool,
    /// Does its name say more than its number?
    pub(super) is_named: bool,
}

/// The tracks of a log, numbered as they are met.
#[derive(Default)]
pub(super) struct LogTracks {
    /// By source, place, and stream where the place is that.
    known: HashMap<(usize, EventPlace, usize), u32>,
    pub(super) names: Vec<Vec<u8>>,
    /// Their origins, in the same order.
    pub(super) origins: Vec<TrackOrigin>,
    cpus: CpuOf,
    running: Running,
}

impl LogTracks {
    /// The track of the event of some fields; it is of a stream of a source, which has the number `at` among all streams.
    pub(super) fn track(
        &mut self,
        rule: &Rule,
        fields: &mut FieldValues<'_>,
        at: usize,
        (sources, source, stream): (&[Source], usize, usize),
        losses: &mut Losses,
    ) -> Result<u32> {
        let mut number = |field: &Option<Field>| -> Result<Option<i64>> {
            let Some(field) = field else { return Ok(None) };
            Ok(fields.get(field)?.and_then(Value::integer).and_then(|number| i64::try_from(number).ok()))
        };
        let (id, next) = (number(&rule.id)?, number(&rule.next)?);
        let said = StatedPlace { id, next, cpu: self.cpus.cpu(at, &fields.event.chunk.packet) };
        let place = self.running.place(source as u32, &rule.who, said);
        let key = (source, place, if place == EventPlace::Stream { stream } else { 0 });
        if let Some(&track) = self.known.get(&key) {
            return Ok(track);
        }
        let (Ok(track), true) = (u32::try_from(self.names.len()), self.names.len() < MAX_TRACKS) else {
            losses.add(Lost::MoreElogTracks, 1);
            return Ok(MAX_TRACKS as u32 - 1);
        };
        let of = &sources[source];
        let mut text = match sources.len() {
            1 => Vec::new(),
            _ => format!("{}: ", of.name).into_bytes(),
        };
        let mut name = match rule.name.as_ref().filter(|_| id.is_some()) {
            Some(name) => fields.get(name)?.and_then(Value::bytes),
            None => None,
        };
        name = name.filter(|name| !name.is_empty());
        let mut is_named = name.is_some();
        let number = match place {
            EventPlace::Track(track) => {
                is_named &= name != Some(track.to_string().as_bytes());
                u32::try_from(track).ok()
            }
            EventPlace::Thread(thread) => u32::try_from(thread).ok(),
            EventPlace::Cpu(cpu) => u32::try_from(cpu).ok(),
            EventPlace::Stream => u32::try_from(at).ok(),
        };
        match place {
            EventPlace::Track(track) => text.extend(name.map_or(format!("track {track}").into_bytes(), <[u8]>::to_vec)),
            EventPlace::Thread(thread) => {
                let task = of.tasks.iter().find(|task| task.tid == thread);
                let known = task.map(|task| &task.name[..]).filter(|name| !name.is_empty());
                is_named |= known.is_some();
                text.extend(match name.or(known) {
                    Some(name) => [name, format!(" ({thread})").as_bytes()].concat(),
                    None => format!("thread {thread}").into_bytes(),
                });
            }
            EventPlace::Cpu(cpu) => text.extend(format!("CPU {cpu}").into_bytes()),
            EventPlace::Stream => {
                let name = of.streams.get(stream).map_or(&b""[..], |of| of.origin_name.as_bytes());
                is_named = !name.is_empty();
                text.extend(name);
            }
        }
        super::fields::store(&mut text);
        self.names.push(text);
        self.origins.push(TrackOrigin { number, is_stream: place == EventPlace::Stream, is_named });
        self.known.insert(key, track);
        Ok(track)
    }
}
