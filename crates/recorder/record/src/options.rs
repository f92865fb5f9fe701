//! How to record, as a program or the environment says.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::StartError;
use crate::field::TEXT_LIMIT;
use crate::metadata::Format;

/// Behaviour when a thread's ring is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// A thread of the recorder moves packets to files all the time; when it is late, events are discarded and counted.
    #[default]
    Stream,
    /// As stream, but who writes waits in place of discarding. Not in a signal handler.
    Block,
    /// The oldest packet is written over: the ring keeps the last events.
    Flight,
}

/// How to record. Made by [`Recorder::options`](crate::Recorder::options); [`start`](Options::start) begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Folder of the trace, which must not exist. `%p` is the process id.
    pub path: PathBuf,
    /// Behaviour when a ring is full.
    pub mode: Mode,
    /// Bytes of a thread's ring: 1 MiB, or 4 MiB of the mode flight, when 0.
    pub ring_bytes: u64,
    /// Bytes of a packet, a power of two from 4 KiB to 16 MiB; also the most that an event can have, 104 bytes less.
    pub packet_bytes: u64,
    /// Dialect of CTF.
    pub format: Format,
    /// Which events: globs of their full names, `-` before those that are off; the last one that matches decides.
    pub filter: String,
    /// How often packets that are not full are moved, too; zero is never. Not in the mode flight.
    pub flush: Duration,
    /// Longest text in bytes; longer ones are cut.
    pub text_bytes: usize,
    /// Are packets brought to the disk when they are moved? Then they survive the end of the machine, too.
    pub sync: bool,
    /// Do children of `fork` record as well, each in the folder `PATH.PID`?
    pub follow_fork: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            path: PathBuf::new(),
            mode: Mode::default(),
            ring_bytes: 0,
            packet_bytes: 64 << 10,
            format: Format::default(),
            filter: String::new(),
            flush: Duration::from_secs(1),
            text_bytes: TEXT_LIMIT,
            sync: false,
            follow_fork: false,
        }
    }
}

impl Options {
    /// Keeps the last `ring_bytes` of each thread.
    pub fn flight(mut self, ring_bytes: u64) -> Self {
        (self.mode, self.ring_bytes) = (Mode::Flight, ring_bytes);
        self
    }

    /// Moves events to files, by way of `ring_bytes` of each thread.
    pub fn stream(mut self, ring_bytes: u64) -> Self {
        (self.mode, self.ring_bytes) = (Mode::Stream, ring_bytes);
        self
    }

    /// As [`stream`](Options::stream), but lets threads wait in place of discarding events.
    pub fn block(mut self, ring_bytes: u64) -> Self {
        (self.mode, self.ring_bytes) = (Mode::Block, ring_bytes);
        self
    }

    /// Bytes of a packet.
    pub fn packet(mut self, bytes: u64) -> Self {
        self.packet_bytes = bytes;
        self
    }

    /// Dialect of CTF.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Which events: `"app:*,-app:poll"`.
    pub fn filter(mut self, globs: impl Into<String>) -> Self {
        self.filter = globs.into();
        self
    }

    /// How often packets that are not full are moved; zero is never.
    pub fn flush(mut self, every: Duration) -> Self {
        self.flush = every;
        self
    }

    /// Longest text in bytes.
    pub fn text(mut self, bytes: usize) -> Self {
        self.text_bytes = bytes;
        self
    }

    /// Brings packets to the disk when they are moved.
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Lets children of `fork` record, too.
    pub fn follow_fork(mut self, follow: bool) -> Self {
        self.follow_fork = follow;
        self
    }

    /// These options with those of the environment in their place.
    pub(crate) fn with_environment(
        mut self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Options, StartError> {
        // Only a path may be other bytes than text; with a question mark in their place nothing else is right.
        let given = &variable;
        let variable = |name: &str| given(name).map(|value| value.to_string_lossy().into_owned());
        let wrong = |name: &str, value: &str, wanted: &str| {
            Err(StartError::Environment(format!("{name}={value}: expected {wanted}")))
        };
        // Empty, it is as if it were not there.
        if let Some(path) = given("TRACEMILL_RECORD").filter(|path| !path.is_empty()) {
            self.path = PathBuf::from(path);
        }
        if let Some(mode) = variable("TRACEMILL_RECORD_MODE") {
            self.mode = match mode.as_str() {
                "stream" => Mode::Stream,
                "flight" => Mode::Flight,
                "block" => Mode::Block,
                _ => return wrong("TRACEMILL_RECORD_MODE", &mode, "`stream`, `flight` or `block`"),
            };
        }
        for (name, bytes) in
            [("TRACEMILL_RECORD_SIZE", &mut self.ring_bytes), ("TRACEMILL_RECORD_PACKET", &mut self.packet_bytes)]
        {
            let Some(text) = variable(name) else { continue };
            match size(&text) {
                Some(size) => *bytes = size,
                None => return wrong(name, &text, "a number of bytes with K, M or G"),
            }
        }
        if let Some(globs) = variable("TRACEMILL_RECORD_EVENTS") {
            self.filter = globs;
        }
        if let Some(format) = variable("TRACEMILL_RECORD_FORMAT") {
            self.format = match format.as_str() {
                "ctf2" => Format::Ctf2,
                "ctf1.8" => Format::Ctf18,
                _ => return wrong("TRACEMILL_RECORD_FORMAT", &format, "`ctf2` or `ctf1.8`"),
            };
        }
        if let Some(text) = variable("TRACEMILL_RECORD_FLUSH") {
            let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            match seconds {
                Some(every) => self.flush = every,
                None => return wrong("TRACEMILL_RECORD_FLUSH", &text, "a number of seconds"),
            }
        }
        Ok(self)
    }

    /// Size of a slot, and number of slots.
    pub(crate) fn slots(&self) -> (u64, u64) {
        let sizes = tracemill_ring::header::SLOT_SIZES;
        let size = self.packet_bytes.clamp(*sizes.start(), *sizes.end()).next_power_of_two();
        let default = if self.mode == Mode::Flight { 64 } else { 16 };
        let slots = if self.ring_bytes == 0 { default } else { self.ring_bytes / size };
        (size, slots.clamp(2, 1 << 32))
    }

    /// The folder of the trace.
    pub(crate) fn folder(&self) -> PathBuf {
        let pid = std::process::id().to_string();
        let (mut folder, mut rest) = (Vec::new(), self.path.as_os_str().as_bytes());
        while let Some(at) = rest.windows(2).position(|two| two == b"%p") {
            folder.extend_from_slice(&rest[..at]);
            folder.extend_from_slice(pid.as_bytes());
            rest = &rest[at + 2..];
        }
        folder.extend_from_slice(rest);
        PathBuf::from(OsString::from_vec(folder))
    }
}

/// A number of bytes with K, M or G.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift).filter(|&size| size > 0)
}

/// Does a list of globs let this name through?
pub(crate) fn is_allowed(globs: &str, name: &str) -> bool {
    let mut globs = globs.split(',').filter(|glob| !glob.is_empty()).peekable();
    // A list that only leaves out begins with everything.
    let mut is_on = globs.peek().is_none_or(|first| first.starts_with('-'));
    for glob in globs {
        let (glob, lets) = glob.strip_prefix('-').map_or((glob, true), |rest| (rest, false));
        if matches(glob.as_bytes(), name.as_bytes()) {
            is_on = lets;
        }
    }
    is_on
}

/// Does a name match a glob of `*` and `?`? Takes time in the product of their lengths at most.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star = None;
    while from < name.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&c) if c == b'?' || c == name[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((star_at, tried)) => {
                    star = Some((star_at, tried + 1));
                    (at, from) = (star_at + 1, tried + 1);
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|&c| c == b'*')
}

/// The folder of a forked child's trace.
pub(crate) fn folder_of_child(parent: &Path) -> PathBuf {
    let mut name = parent.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_glob_that_matches_decides() {
        for (globs, name, lets) in [
            ("", "a:b", true),
            ("app:*,-app:poll", "app:read", true),
            ("app:*,-app:poll", "app:poll", false),
            ("app:*,-app:poll", "other", false),
            ("-*:poll", "a:read", true),
            ("-*,a:*d", "a:read", true),
            ("-*,a:*d?", "a:read", false),
        ] {
            assert_eq!(is_allowed(globs, name), lets, "{globs} {name}");
        }
    }

    #[test]
    fn the_environment_wins() {
        let variable = |name: &str| match name {
            "TRACEMILL_RECORD_SIZE" => Some("2M".into()),
            "TRACEMILL_RECORD_MODE" => Some("flight".into()),
            _ => None,
        };
        let options = Options::default().stream(1).with_environment(variable).expect("right values");
        assert_eq!((options.mode, options.slots()), (Mode::Flight, (64 << 10, 32)));
        for (name, value) in [("SIZE", "x"), ("SIZE", "0"), ("MODE", "x"), ("FORMAT", "2"), ("FLUSH", "-1")] {
            let wrong = |asked: &str| (asked == format!("TRACEMILL_RECORD_{name}")).then(|| value.into());
            assert!(Options::default().with_environment(wrong).is_err(), "{name}={value}");
        }
        // Bytes that are no text name a folder, and are no mode.
        let bytes = || OsString::from_vec(b"a\xff%p".to_vec());
        let with = |options: Options, wanted: &str, value: OsString| {
            options.with_environment(|name| (name == wanted).then(|| value.clone()))
        };
        let options = with(Options::default(), "TRACEMILL_RECORD", bytes()).expect("right values");
        let folder = [b"a\xff".as_slice(), std::process::id().to_string().as_bytes()].concat();
        assert_eq!(options.folder().into_os_string().into_vec(), folder);
        assert!(with(Options::default(), "TRACEMILL_RECORD_MODE", bytes()).is_err());
        let own = Options { path: PathBuf::from("own"), ..Options::default() };
        let options = with(own, "TRACEMILL_RECORD", OsString::new()).expect("right values");
        assert_eq!(options.folder(), Path::new("own"));
    }
}
