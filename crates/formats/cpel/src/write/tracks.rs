//! On which track the events of other formats are: that of their thread, else of their CPU, else of their stream.

use std::collections::HashMap;

use tracemill_codec::value::Value;
use tracemill_model::error::Result;
use tracemill_model::schema::{EventClassId, Schema, Scope};

use super::fields::{Fields, Place};
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Source;
use tracemill_format::writer::STORED;

/// Fields that say the thread of an event, the best first.
const TASKS: [&str; 5] = ["vtid", "tid", "common_pid", "pid", "vpid"];
/// Fields that say its name.
const NAMES: [&str; 4] = ["procname", "comm", "common_comm", "process_name"];
/// Most tracks: viewers and logs number them in 16 bits.
const MAX_TRACKS: usize = 1 << 16;

/// How the events of a class say their track.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// A text is the name of the track.
    Text(Place),
    /// The number of a thread, and its name.
    Task(Place, Option<Place>),
    /// A CPU.
    Cpu(Option<Place>),
}

impl Rule {
    /// That of a class.
    pub(super) fn of(schema: &Schema, event: EventClassId) -> Rule {
        let find = |scope: Scope, name: &str| {
            let top = schema.members(schema.scope_root(scope, event));
            let direct = top.iter().position(|member| &*member.name == name).map(|at| vec![at]);
            // A header of another format that CTF 2 keeps.
            let stored = || {
                let at = top.iter().position(|member| &*member.name == STORED)?;
                let inside = schema.members(Some(top[at].class));
                Some(vec![at, inside.iter().position(|member| &*member.name == name)?])
            };
            direct.or_else(stored).map(|path| Place { scope, path })
        };
        let before = schema.summary.as_ref().and_then(|summary| find(Scope::Payload, &summary.before));
        if let Some(place) = before {
            return Rule::Text(place);
        }
        let scopes = [Scope::CommonContext, Scope::SpecificContext, Scope::PacketContext, Scope::EventHeader];
        for scope in scopes {
            if let Some(task) = TASKS.iter().find_map(|name| find(scope, name)) {
                let name = scopes.iter().find_map(|&scope| NAMES.iter().find_map(|name| find(scope, name)));
                return Rule::Task(task, name);
            }
        }
        Rule::Cpu(scopes.iter().find_map(|&scope| find(scope, "cpu_id")))
    }

    /// The fields that the track says.
    pub(super) fn places(&self) -> Vec<Place> {
        match self {
            Rule::Text(place) => vec![place.clone()],
            Rule::Task(task, name) => std::iter::once(task).chain(name).cloned().collect(),
            Rule::Cpu(place) => place.iter().cloned().collect(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Key {
    Text(Vec<u8>),
    Task(i128),
    Cpu(i128),
    Stream(usize),
}

/// The tracks of a log, numbered as they are met.
#[derive(Default)]
pub(super) struct Tracks {
    known: HashMap<(usize, Key), u32>,
    pub(super) names: Vec<Vec<u8>>,
}

impl Tracks {
    /// The track of an event of a stream of a source; `is_one` when there is no other source.
    pub(super) fn of(
        &mut self,
        rule: &Rule,
        fields: &mut Fields<'_>,
        cpu: Option<u32>,
        (sources, source, stream): (&[Source], usize, usize),
        losses: &mut Losses,
    ) -> Result<u32> {
        let mut name = None;
        let key = match rule {
            Rule::Text(place) => fields.get(place)?.and_then(Value::bytes).map(|text| Key::Text(text.to_vec())),
            Rule::Task(place, of_name) => {
                let task = fields.get(place)?.and_then(Value::integer);
                if let (Some(task), Some(place)) = (task, of_name)
                    && !self.known.contains_key(&(source, Key::Task(task)))
                {
                    name = fields.get(place)?.and_then(Value::bytes).map(<[u8]>::to_vec);
                }
                task.map(Key::Task)
            }
            Rule::Cpu(place) => match (cpu, place) {
                (Some(cpu), _) => Some(Key::Cpu(cpu.into())),
                (None, Some(place)) => fields.get(place)?.and_then(Value::integer).map(Key::Cpu),
                (None, None) => None,
            },
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
        match &key.1 {
            Key::Text(own) => text.extend_from_slice(own),
            Key::Task(task) => {
                let name = name.filter(|name| !name.is_empty());
                text.extend(match name {
                    Some(name) => [&name[..], format!(" ({task})").as_bytes()].concat(),
                    None => format!("thread {task}").into_bytes(),
                });
            }
            Key::Cpu(cpu) => text.extend(format!("CPU {cpu}").into_bytes()),
            Key::Stream(stream) => text.extend(stream_name(of, *stream).into_bytes()),
        }
        super::fields::storable(&mut text);
        self.names.push(text);
        self.known.insert(key, track);
        Ok(track)
    }
}

/// The name of a stream; of one that is a task, when the format says so, the name of that.
fn stream_name(source: &Source, stream: usize) -> String {
    let Some(of) = source.streams.get(stream) else { return String::new() };
    let number = of.origin_name.split('.').next().and_then(|stem| stem.parse::<i64>().ok());
    match number.and_then(|tid| source.tasks.iter().find(|task| task.tid == tid)) {
        Some(task) if !task.name.is_empty() => format!("{} ({})", String::from_utf8_lossy(&task.name), task.tid),
        _ => of.origin_name.clone(),
    }
}
