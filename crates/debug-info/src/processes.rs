//! The files that processes had mapped, by the events that say so.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tracemill_codec::value::Value;
use tracemill_engine::event::Event;
use tracemill_engine::events::Events;
use tracemill_engine::selection::{ClassSet, streams};
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_model::error::Result;
use tracemill_model::schema::{EventClassId, FieldKind, Schema, Scope};
use tracemill_render::text::Origins;

use crate::image::{ExpectedImage, Image, hexadecimal, join_below};

/// Where files are looked for, and what is shown of their paths.
#[derive(Clone, Debug, Default)]
pub struct SearchOptions {
    /// Folder with debugging information of stripped programs, instead of the system's.
    pub dir: Option<PathBuf>,
    /// Folder in which the file system of the traced machine is.
    pub target_prefix: Option<PathBuf>,
    /// Whole paths instead of names of files.
    pub full_path: bool,
}

/// Description of an address: file, function and line.
type Origin = Arc<[(&'static str, String); 3]>;

fn origin(bin: String, func: String, src: String) -> Origin {
    Arc::new([("bin", bin), ("func", func), ("src", src)])
}

/// The processes of the traces of a session, and the files that they had mapped.
pub struct DebugInfo {
    options: SearchOptions,
    /// By trace: processes by their number.
    traces: Vec<HashMap<i64, Vec<Mapped>>>,
    /// By trace and event class: the members of the common context that hold process and address.
    members: Vec<Vec<Option<[usize; 2]>>>,
    unknown: Origin,
}

/// A file that was mapped.
struct Mapped {
    wanted: ExpectedImage,
    begin: u64,
    end: u64,
    is_pic: bool,
    /// When, in ns.
    from_ns: i128,
    to_ns: Option<i128>,
    image: OnceLock<Image>,
    found: RwLock<HashMap<u64, Origin>>,
}

/// Addresses of a file that are remembered.
const MOST_FOUND: usize = 1 << 16;

/// An event's statement about the files of a process.
#[derive(Clone, Copy)]
enum Says {
    /// All that was said before is over.
    Start,
    /// A file is mapped; a file of `dlopen` says nothing about whether its code depends on its place, as it does not.
    Load,
    BuildId,
    DebugLink,
    Unload,
}

/// Events of LTTng-UST, by the names that `babeltrace2` knows.
const EVENTS: [(&str, Says); 7] = [
    ("lttng_ust_statedump:start", Says::Start),
    ("lttng_ust_statedump:bin_info", Says::Load),
    ("lttng_ust_statedump:build_id", Says::BuildId),
    ("lttng_ust_statedump:debug_link", Says::DebugLink),
    ("lttng_ust_dl:dlopen", Says::Load),
    ("lttng_ust_lib:load", Says::Load),
    ("lttng_ust_lib:unload", Says::Unload),
];

const PROCESS: &str = "vpid";
const ADDRESS: &str = "ip";

impl DebugInfo {
    /// Reads from the events of a session what its processes had mapped.
    ///
    /// # Errors
    /// None but those of a session without streams.
    pub fn read(session: &Session, options: SearchOptions, jobs: usize) -> Result<Self> {
        let said: Vec<Vec<Option<Says>>> = session.traces.iter().map(|trace| event_meanings(&trace.schema)).collect();
        let members: Vec<Vec<Option<[usize; 2]>>> = session.traces.iter().map(|trace| members(&trace.schema)).collect();
        let mut info = DebugInfo {
            traces: said.iter().map(|_| HashMap::new()).collect(),
            members,
            unknown: origin(String::new(), String::new(), String::new()),
            options,
        };
        if said.iter().flatten().all(Option::is_none) {
            return Ok(info);
        }
        let classes = said.iter().map(|classes| {
            let wanted = ClassSet::new(classes.len(), |class| classes[class].is_some());
            Some(Arc::new(wanted))
        });
        let selection = Selection { classes: classes.collect(), jobs, ..Selection::default() };
        let streams = streams(session, &[])?;
        Events::new(session, &streams, &selection, None).for_each(
            |event| {
                if let Some(says) = said[event.trace][event.raw.class().0 as usize] {
                    // An event that lacks something says nothing.
                    let _ = info.learn(says, event);
                }
            },
            // Faults are reported where the events are shown.
            |_| ControlFlow::Continue(()),
        );
        Ok(info)
    }

    fn learn(&mut self, says: Says, event: &Event<'_>) -> Option<()> {
        let ns = event.ns?;
        let context = event.raw.values(Scope::CommonContext).ok()??;
        let process = i64::try_from(context.member(PROCESS)?.integer()?).ok()?;
        let mapped = self.traces[event.trace].entry(process).or_default();
        let payload = event.raw.values(Scope::Payload).ok().flatten().unwrap_or_default();
        let number = |name: &str| u64::try_from(payload.member(name)?.integer()?).ok();
        let live = |mapped: &mut Vec<Mapped>, begin: u64| {
            mapped.iter().rposition(|file| file.begin == begin && file.to_ns.is_none())
        };
        match says {
            Says::Start => {
                mapped.iter_mut().for_each(|file| _ = file.to_ns.get_or_insert(ns));
            }
            Says::Load => {
                let (begin, size, path) = (number("baddr")?, number("memsz")?, payload.member("path")?.bytes()?);
                // Mappings that the kernel adds to each process have no file.
                if size == 0 || live(mapped, begin).is_some() {
                    return None;
                }
                let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
                let path = self
                    .options
                    .target_prefix
                    .as_ref()
                    .map_or_else(|| path.clone(), |prefix| join_below(prefix, &path));
                let is_pic = number("is_pic").is_none_or(|is_pic| is_pic == 1);
                mapped.push(Mapped {
                    wanted: ExpectedImage { path, ..ExpectedImage::default() },
                    begin,
                    end: begin.saturating_add(size),
                    is_pic,
                    from_ns: ns,
                    to_ns: None,
                    image: OnceLock::new(),
                    found: RwLock::default(),
                });
            }
            Says::BuildId => {
                let at = live(mapped, number("baddr")?)?;
                let bytes = payload.member("build_id")?;
                let byte = |value: &Value| u8::try_from(value.integer()?).ok();
                mapped[at].wanted.build_id = match bytes.elements() {
                    Some(elements) => elements.iter().map(byte).collect(),
                    None => bytes.bytes().map(<[u8]>::to_vec),
                };
            }
            Says::DebugLink => {
                let at = live(mapped, number("baddr")?)?;
                let name = String::from_utf8_lossy(payload.member("filename")?.bytes()?).into_owned();
                mapped[at].wanted.link = Some((name, number("crc")? as u32));
            }
            Says::Unload => {
                let at = live(mapped, number("baddr")?)?;
                mapped[at].to_ns = Some(ns);
            }
        }
        Some(())
    }

    fn origin_in(&self, mapped: &Mapped, address: u64) -> Origin {
        if let Some(known) = mapped.found.read().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return known.clone();
        }
        let origin = self.look_up(mapped, address);
        let mut found = mapped.found.write().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= MOST_FOUND {
            found.clear();
        }
        found.insert(address, origin.clone());
        origin
    }

    fn look_up(&self, mapped: &Mapped, address: u64) -> Origin {
        let image = mapped.image.get_or_init(|| Image::open(&mapped.wanted, self.options.dir.as_deref()));
        if image.is_foreign() {
            return self.unknown.clone();
        }
        // Code that may stand anywhere has addresses that count from the beginning of its file.
        let (mark, inside) = if mapped.is_pic { ('+', address - mapped.begin) } else { ('@', address) };
        let found = image.find(inside);
        let shown = |path: &str| match self.options.full_path {
            true => path.to_string(),
            false => path.rsplit('/').next().unwrap_or_default().to_string(),
        };
        let bin = format!("{}{mark}{}", shown(&mapped.wanted.path.to_string_lossy()), hexadecimal(inside));
        let src = found.line.map(|line| format!("{}:{}", shown(&line.path), line.number));
        origin(bin, found.function.unwrap_or_default(), src.unwrap_or_default())
    }
}

impl fmt::Debug for DebugInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DebugInfo").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Origins for DebugInfo {
    fn members(&self, trace: usize, class: EventClassId) -> Option<[usize; 2]> {
        *self.members.get(trace)?.get(class.0 as usize)?
    }

    fn origin(&self, trace: usize, process: i64, address: u64, ns: i128) -> Origin {
        let files = self.traces.get(trace).and_then(|processes| processes.get(&process)).into_iter().flatten();
        let mapped = files.rev().find(|file| {
            (file.begin..file.end).contains(&address) && file.from_ns <= ns && file.to_ns.is_none_or(|to| ns < to)
        });
        mapped.map_or_else(|| self.unknown.clone(), |mapped| self.origin_in(mapped, address))
    }

    fn name(&self) -> &str {
        "debug_info"
    }
}

/// Meaning of the events of each class.
fn event_meanings(schema: &Schema) -> Vec<Option<Says>> {
    let of = |name: &str| EVENTS.iter().find(|(event, _)| *event == name).map(|(_, says)| *says);
    schema.events().iter().map(|class| of(class.name.as_deref()?)).collect()
}

/// Where the common context of each class has a signed number of a process and an address.
fn members(schema: &Schema) -> Vec<Option<[usize; 2]>> {
    let of = |class: usize| {
        let root = schema.scope_root(Scope::CommonContext, EventClassId(class as u32))?;
        let FieldKind::Struct(context) = &schema.field_class(root).kind else { return None };
        let integer = |name: &str, signed: bool| {
            let at = context.members.iter().position(|member| &*member.name == name)?;
            let kind = &schema.field_class(context.members[at].class).kind;
            matches!(kind, FieldKind::Integer(integer) if integer.signed == signed && integer.len_bits <= 64)
                .then_some(at)
        };
        Some([integer(PROCESS, true)?, integer(ADDRESS, false)?])
    };
    (0..schema.events().len()).map(of).collect()
}
