//! The file system of the kernel's tracer: `Documentation/trace/ftrace.rst`.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use tracemill_codec::text::pattern::Pattern;
use tracemill_codec::text::suggest;
use tracemill_ftrace::parts::{INSTANCE_PREFIX, recorder};
use tracemill_model::error::{Error, ErrorKind, Result};

/// Names another folder than those where tracefs is looked for.
const VARIABLE: &str = "TRACEMILL_TRACEFS";
/// Folders where tracefs usually is.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Bytes that are read at a time: the kernel gives some files to the first reading alone, whatever there was room for.
const READ_BYTES: usize = 64 << 10;

/// The file system of the tracer.
pub(crate) struct Tracefs {
    root: PathBuf,
    /// Keeps it there when it was mounted for this process alone.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds tracefs, unless a folder is given; where none is mounted one is made that only this process sees.
    pub(crate) fn find(folder: Option<&Path>) -> Result<Tracefs> {
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        if let Some(root) = folder.map(Path::to_path_buf).or(named) {
            let is_there = root.join("available_events").is_file();
            return match is_there {
                true => Ok(Tracefs { root, _mount: None }),
                false => {
                    Err(Error::new(ErrorKind::Io, "the folder is not a tracefs: it lists no events").in_file(&root))
                }
            };
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mounted = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let folder = words.next()?;
            (words.next()? == "tracefs").then(|| PathBuf::from(folder))
        });
        for root in USUAL.iter().map(PathBuf::from).chain(mounted) {
            match fs::metadata(root.join("available_events")) {
                Ok(_) => return Ok(Tracefs { root, _mount: None }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(no_permission(&root)),
                Err(_) => {}
            }
        }
        Tracefs::mount().map_err(|error| {
            let message = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "tracefs is not mounted, and mounting it needs the capability CAP_SYS_ADMIN".to_string()
                }
                _ => match io::Error::from(error).raw_os_error() {
                    Some(code) if code == rustix::io::Errno::NODEV.raw_os_error() => {
                        "this kernel was built without its tracer (CONFIG_FTRACE): it has no tracefs".to_string()
                    }
                    _ => format!("tracefs is not mounted, and cannot be mounted: {error}"),
                },
            };
            let error = Error::unsupported(format!("kernel events cannot be recorded: {message}"));
            error.with_help("run it as root, or mount it: `mount -t tracefs nodev /sys/kernel/tracing`")
        })
    }

    /// A tracefs that is in no folder: it goes away with this process, whatever ends it.
    fn mount() -> std::result::Result<Tracefs, rustix::io::Errno> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let root = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), mount.as_raw_fd()));
        Ok(Tracefs { root, _mount: Some(mount) })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The text of a file; nothing when there is none.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        read(&self.path(name))
    }

    /// Puts back the greatest depth of functions, of which a killed recorder noted what it was and what it made it. Not when
    /// it is another one by now, or another recording of ours runs.
    pub(crate) fn put_back_depth(&self, noted: &str) {
        let Some((before, made)) = noted.trim().split_once(' ') else { return };
        let mut instances = fs::read_dir(self.path("instances")).into_iter().flatten().flatten();
        let is_used = instances.any(|entry| entry.file_name().to_str().is_some_and(is_alive));
        if !is_used && self.read(DEPTH).trim_ascii() == made.as_bytes() {
            // A process that may not write it now could not have changed it before.
            let _ = fs::write(self.path(DEPTH), before);
        }
    }

    /// The events that some patterns choose, each once, in the order of the kernel.
    pub(crate) fn choose(&self, patterns: &[String]) -> Result<Vec<Chosen>> {
        let path = self.path("available_events");
        let text = fs::read_to_string(&path).map_err(|error| self.refused("read", &path, &error))?;
        let known: Vec<(&str, &str)> = text.lines().filter_map(|line| line.trim().split_once(':')).collect();
        let mut wanted: Vec<Option<Option<String>>> = vec![None; known.len()];
        for wish in patterns.iter().flat_map(|pattern| EventPattern::parse_list(pattern)) {
            let mut is_any = false;
            for ((system, name), wanted) in known.iter().zip(&mut wanted) {
                if wish.matches(system, name) {
                    is_any = true;
                    *wanted = Some(wish.filter.clone());
                }
            }
            if !is_any {
                let error = Error::misuse(format!("this kernel has no event `{}`", wish.text));
                let names = known.iter().map(|(system, name)| format!("{system}:{name}"));
                let all: Vec<String> = names.chain(known.iter().map(|(system, _)| system.to_string())).collect();
                let is_bare = !wish.text.contains(':');
                let bare = known.iter().map(|(_, name)| *name).filter(|_| is_bare);
                return Err(suggest(error, &wish.text, all.iter().map(String::as_str).chain(bare)));
            }
        }
        let chosen = known.iter().zip(wanted).filter_map(|((system, name), wanted)| {
            Some(Chosen { system: system.to_string(), name: name.to_string(), filter: wanted? })
        });
        Ok(chosen.collect())
    }

    /// The error of a file that may not be used, with the reason.
    fn refused(&self, what: &str, path: &Path, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::PermissionDenied => no_permission(path),
            _ => Error::io(what, path, error),
        }
    }
}

fn no_permission(path: &Path) -> Error {
    let message = "kernel events cannot be recorded: no permission to use the kernel's tracer";
    let owner = fs::metadata(path).ok().or_else(|| fs::metadata(path.parent()?).ok());
    let help = match owner.map(|of| of.gid()).filter(|group| *group != 0) {
        Some(group) => format!("run it as root, or as a member of the group `{}`, which owns it", group_name(group)),
        None => "run it as root, who owns it".to_string(),
    };
    Error::new(ErrorKind::Io, message).in_file(path).with_help(help)
}

fn group_name(group: u32) -> String {
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let name = groups.lines().find_map(|line| {
        let mut words = line.split(':');
        let name = words.next()?;
        (words.nth(1)?.parse() == Ok(group)).then(|| name.to_string())
    });
    name.unwrap_or_else(|| group.to_string())
}

/// The text of a file of the tracer; nothing when there is none.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    let (mut text, mut piece) = (Vec::new(), vec![0; READ_BYTES]);
    let Ok(mut file) = fs::File::open(path) else { return text };
    loop {
        match file.read(&mut piece) {
            Ok(0) => return text,
            Ok(len) => text.extend(&piece[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return text,
        }
    }
}

/// An event that is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chosen {
    pub(crate) system: String,
    pub(crate) name: String,
    /// A condition in the kernel's own language.
    filter: Option<String>,
}

/// A pattern as it was typed: `SYSTEM:NAME`, `SYSTEM`, `NAME`, with globs, and ` if CONDITION` after it or after a list.
struct EventPattern {
    text: String,
    system: Option<Pattern>,
    name: Pattern,
    filter: Option<String>,
}

impl EventPattern {
    /// The patterns of a list: perf separates them by commas, uftrace by semicolons. A condition is that of all of them.
    fn parse_list(list: &str) -> Vec<EventPattern> {
        let (events, filter) = match list.split_once(" if ") {
            Some((events, filter)) => (events, Some(filter.trim().to_string())),
            None => (list, None),
        };
        events.split([',', ';']).map(|text| EventPattern::parse(text, filter.clone())).collect()
    }

    fn parse(text: &str, filter: Option<String>) -> EventPattern {
        let text = text.trim();
        // uftrace says so that an event is one of the kernel.
        let text = text.strip_suffix("@kernel").unwrap_or(text);
        let (system, name) = match text.split_once(':') {
            Some((system, name)) => (Some(Pattern::glob(system)), Pattern::glob(name)),
            None if text == "all" => (None, Pattern::glob("*")),
            None => (None, Pattern::glob(text)),
        };
        EventPattern { text: text.to_string(), system, name, filter }
    }

    fn matches(&self, system: &str, name: &str) -> bool {
        match &self.system {
            Some(of) => of.matches(system.as_bytes()) && self.name.matches(name.as_bytes()),
            None => self.name.matches(system.as_bytes()) || self.name.matches(name.as_bytes()),
        }
    }
}

/// Does the process run that made an instance?
pub(crate) fn is_alive(name: &str) -> bool {
    recorder(name).is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
}

/// An instance of the tracer: buffers and settings of our own, which no other recording notices.
pub(crate) struct Instance<'a> {
    tracefs: &'a Tracefs,
    root: PathBuf,
    /// The greatest depth of functions before this one, which is one for all instances.
    depth_before: Option<Vec<u8>>,
    /// The one that is wanted.
    depth: Option<u32>,
}

/// The tracer of functions with their ends.
const GRAPH: &str = "function_graph";
/// The file of the greatest depth of functions.
const DEPTH: &str = "max_graph_depth";

impl<'a> Instance<'a> {
    /// Has functions of the kernel recorded, nested at most so deep once [`Instance::limit_depth`] says so; 0 is any depth.
    pub(crate) fn with_functions(mut self, depth: u32) -> Result<Instance<'a>> {
        let tracers = String::from_utf8_lossy(&self.read("available_tracers")).trim().to_string();
        if !tracers.split_whitespace().any(|tracer| tracer == GRAPH) {
            let message =
                format!("functions of the kernel cannot be recorded: this kernel has no tracer `{GRAPH}` here");
            let help = "it is built with CONFIG_FUNCTION_GRAPH_TRACER, and instances have it since Linux 6.12 or so; this one has";
            return Err(Error::unsupported(message).with_help(format!("{help}: {tracers}")));
        }
        self.set("current_tracer", GRAPH)?;
        self.depth_before = Some(read(&self.tracefs.path(DEPTH)));
        self.depth = Some(depth);
        Ok(self)
    }
}

impl Instance<'_> {
    /// The note for [`Tracefs::put_back_depth`], when this one changes the greatest depth of functions.
    pub(crate) fn changed_depth(&self) -> Option<String> {
        let before = self.depth_before.as_deref()?;
        Some(format!("{} {}", String::from_utf8_lossy(before).trim(), self.depth?))
    }

    /// Sets the greatest depth of functions, when there are any.
    pub(crate) fn limit_depth(&self) -> Result<()> {
        let Some(depth) = self.depth else { return Ok(()) };
        let path = self.tracefs.path(DEPTH);
        fs::write(&path, depth.to_string()).map_err(|error| self.tracefs.refused("change", &path, &error))
    }

    /// Makes an instance that records nothing yet. Those of processes that are gone are removed.
    pub(crate) fn new(tracefs: &Tracefs) -> Result<Instance<'_>> {
        let instances = tracefs.path("instances");
        for entry in fs::read_dir(&instances).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| recorder(name).is_some() && !is_alive(name)) {
                // Another process that removes it at the same time does the same.
                let _ = fs::remove_dir(entry.path());
            }
        }
        let root = instances.join(format!("{INSTANCE_PREFIX}{}", std::process::id()));
        fs::create_dir(&root).map_err(|error| tracefs.refused("make an instance of the tracer:", &root, &error))?;
        let instance = Instance { tracefs, root, depth_before: None, depth: None };
        // The kernel fills the folder at once; what stands in for one in tests takes its time.
        let begin = Instant::now();
        while !instance.path("tracing_on").exists() && begin.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        instance.set("tracing_on", "0")?;
        Ok(instance)
    }

    /// The instance that a killed recorder left.
    pub(crate) fn leftover<'a>(tracefs: &'a Tracefs, name: &str) -> Option<Instance<'a>> {
        recorder(name)?;
        let root = tracefs.path("instances").join(name);
        root.join("tracing_on").exists().then_some(Instance { tracefs, root, depth_before: None, depth: None })
    }

    /// Its name among the instances.
    pub(crate) fn name(&self) -> String {
        self.root.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Writes a setting.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.path(name);
        let file = fs::OpenOptions::new().write(true).truncate(true).open(&path);
        let result = file.and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
        result.map_err(|error| self.tracefs.refused("change", &path, &error))
    }

    /// Writes a setting that not every kernel has.
    pub(crate) fn try_set(&self, name: &str, value: &str) {
        let _ = self.set(name, value);
    }

    /// The text of a file; nothing when there is none.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        read(&self.path(name))
    }

    /// Makes an event be recorded.
    pub(crate) fn enable(&self, event: &Chosen) -> Result<()> {
        let folder = format!("events/{}/{}", event.system, event.name);
        if let Some(filter) = &event.filter {
            let name = format!("{folder}/filter");
            if self.set(&name, filter).is_err() {
                // The kernel's own words stand in the file then.
                let said = String::from_utf8_lossy(&self.read(&name)).trim().replace('\n', " ");
                let message = format!("the kernel refuses the filter `{filter}` of `{}:{}`", event.system, event.name);
                let error = Error::misuse(message);
                return Err(match said.is_empty() || said == "none" {
                    true => error,
                    false => error.with_help(format!("it says: {said}")),
                });
            }
        }
        self.set(&format!("{folder}/enable"), "1")
    }

    /// The numbers of the CPUs that have a buffer.
    pub(crate) fn cpus(&self) -> Result<Vec<u32>> {
        let path = self.path("per_cpu");
        let entries = fs::read_dir(&path).map_err(|error| self.tracefs.refused("read", &path, &error))?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str()?.strip_prefix("cpu")?.parse().ok());
        let mut cpus: Vec<u32> = numbers.collect();
        cpus.sort_unstable();
        match cpus.is_empty() {
            true => Err(Error::new(ErrorKind::Io, "the tracer has no buffers").in_file(&path)),
            false => Ok(cpus),
        }
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        self.try_set("tracing_on", "0");
        if let Some(depth) = &self.depth_before {
            let _ = fs::write(self.tracefs.path(DEPTH), depth);
        }
        // It stays when somebody else reads it; the next recording tries again.
        let _ = fs::remove_dir(&self.root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let folder = std::env::temp_dir().join(format!("tracemill-tracefs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("available_events"), "sched:sched_switch\nsched:sched_wakeup\nirq:softirq_entry\n")
            .unwrap();
        let tracefs = Tracefs { root: folder.clone(), _mount: None };
        let chosen = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_string()).collect();
            tracefs.choose(&patterns).map(|chosen| {
                let name = |of: Chosen| format!("{}:{} {}", of.system, of.name, of.filter.unwrap_or_default());
                chosen.into_iter().map(name).collect::<Vec<_>>()
            })
        };
        let (switch, wakeup, softirq) = ("sched:sched_switch ", "sched:sched_wakeup ", "irq:softirq_entry ");
        assert_eq!(chosen(&["sched"]).unwrap(), [switch, wakeup]);
        assert_eq!(chosen(&["sched:*_switch", "softirq_*"]).unwrap(), [switch, softirq]);
        assert_eq!(chosen(&["all"]).unwrap(), [switch, wakeup, softirq]);
        assert_eq!(chosen(&["sched:sched_switch@kernel"]).unwrap(), [switch]);
        let filtered = chosen(&["sched_switch if prev_pid > 3"]).unwrap();
        assert_eq!(filtered, ["sched:sched_switch prev_pid > 3"]);
        let error = chosen(&["sched:sched_swich"]).unwrap_err();
        assert_eq!(error.help(), Some("did you mean `sched:sched_switch`?"));
        fs::remove_dir_all(folder).unwrap();
    }
}
