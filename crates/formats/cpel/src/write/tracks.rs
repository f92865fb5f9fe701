//! On which track the events of other formats are: that of their thread, else of their CPU, else of their stream.

use std::collections::HashMap;

use tracemill_codec::chunk::EventRef;
use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::schema::{EventClassId, FieldPath, PathStep, Scope};
use tracemill_semantics::{CpuOf, Semantics};

use super::fields::{Fields, Place};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Source;

/// Most tracks: viewers and logs number them in 16 bits.
const MAX_TRACKS: usize = 1 << 16;

/// How the events of a class say their track.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// Number of the thread, or of the track.
    id: Option<Place>,
    is_track: bool,
    /// Its name.
    name: Option<Place>,
}

impl Rule {
    /// That of a class.
    pub(super) fn of(semantics: &Semantics, event: EventClassId) -> Rule {
        let who = semantics.who(event);
        let place = |path: FieldPath| {
            // The value of an optional field is that of its content.
            let steps = path.steps.iter().filter_map(|step| match step {
                PathStep::Member(at) => Some(*at as usize),
                _ => None,
            });
            Place { scope: path.scope, path: steps.collect() }
        };
        Rule { id: who.id.map(place), is_track: who.is_track, name: who.name.map(place) }
    }

    /// The fields that the track says.
    pub(super) fn places(&self) -> Vec<Place> {
        let id = self.id.iter().filter(|place| place.scope != Scope::Payload);
        id.chain(self.name.iter().filter(|_| self.id.is_some())).cloned().collect()
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Key {
    Track(i128),
    Thread(i128),
    Cpu(u64),
    Stream(usize),
}

/// The tracks of a log, numbered as they are met.
#[derive(Default)]
pub(super) struct Tracks {
    known: HashMap<(usize, Key), u32>,
    pub(super) names: Vec<Vec<u8>>,
    cpus: CpuOf,
}

impl Tracks {
    /// The track of an event, whose `fields` are these; it is of a stream of a source, which has the number `place` among
    /// all streams.
    pub(super) fn of(
        &mut self,
        rule: &Rule,
        (event, fields): (EventRef<'_>, &mut Fields<'_>),
        place: usize,
        (sources, source, stream): (&[Source], usize, usize),
        losses: &mut Losses,
    ) -> Result<u32> {
        let id = match &rule.id {
            Some(id) => fields.get(id)?.and_then(Value::integer),
            None => None,
        };
        let key = match (id, rule.is_track) {
            (Some(id), true) => Some(Key::Track(id)),
            (Some(id), false) => Some(Key::Thread(id)),
            (None, _) => self.cpus.of(place, &event.chunk.packet).map(Key::Cpu),
        };
        let key = (source, key.unwrap_or(Key::Stream(stream)));
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
        match &key.1 {
            Key::Track(track) => text.extend(name.map_or(format!("track {track}").into_bytes(), <[u8]>::to_vec)),
            Key::Thread(thread) => {
                let task = of.tasks.iter().find(|task| i128::from(task.tid) == *thread);
                let known = task.map(|task| &task.name[..]).filter(|name| !name.is_empty());
                text.extend(match name.or(known) {
                    Some(name) => [name, format!(" ({thread})").as_bytes()].concat(),
                    None => format!("thread {thread}").into_bytes(),
                });
            }
            Key::Cpu(cpu) => text.extend(format!("CPU {cpu}").into_bytes()),
            Key::Stream(stream) => {
                text.extend(of.streams.get(*stream).map_or(&b""[..], |of| of.origin_name.as_bytes()));
            }
        }
        super::fields::storable(&mut text);
        self.names.push(text);
        self.known.insert(key, track);
        Ok(track)
    }
}
