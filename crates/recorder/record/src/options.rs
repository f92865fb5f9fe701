//! How to record, as a program or the environment says.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control::{self, Command};
use crate::error::StartError;
use crate::field::TEXT_LIMIT;
use crate::metadata::Format;
use crate::rules::{self, EventRules};
use crate::trigger::Trigger;

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
    /// Which events: globs of their full names, `-` before those that are off; the last one that matches decides. A glob
    /// with `@LEVEL` at its end means events of at least that level.
    pub filter: String,
    /// The other rules about events, which commands change.
    pub(crate) rules: EventRules,
    /// Does the recorder take [commands](crate::control) by a socket in the folder of the rings?
    pub control: bool,
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
            rules: EventRules::default(),
            control: true,
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

    /// Lets the recorder take [commands](crate::control), or not: its thread then makes no calls of the system for them.
    pub fn control(mut self, control: bool) -> Self {
        self.control = control;
        self
    }

    /// Makes a snapshot next to the trace, `PATH.trigger1` and so on, whenever a cause comes true. Up to 16 triggers, and 100
    /// snapshots, after which nothing looks for causes any more.
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.rules.add_trigger(trigger);
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
        if let Some(text) = variable("TRACEMILL_RECORD_RULES") {
            match control::rules_of(&text) {
                Some(commands) => self.follow(commands),
                None => return wrong("TRACEMILL_RECORD_RULES", &text, "what `tracemill record` gives"),
            }
        }
        if let Some(text) = variable("TRACEMILL_RECORD_CONTROL") {
            self.control = match text.as_str() {
                "on" => true,
                "off" => false,
                _ => return wrong("TRACEMILL_RECORD_CONTROL", &text, "`on` or `off`"),
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

    /// Does what commands say before a recording begins.
    fn follow(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Enable(globs) => self.filter = rules::extended(&self.filter, &globs),
                Command::Filter(condition) => _ = self.rules.set_condition(condition),
                Command::Contexts { events, contexts } => match contexts.try_counters() {
                    Ok(_) => _ = self.rules.set_contexts(events, contexts),
                    // Best effort: stderr may be closed.
                    Err(why) => _ = writeln!(io::stderr(), "tracemill-record: without contexts: {why}"),
                },
                Command::Trigger(trigger) => _ = self.rules.add_trigger(trigger),
                Command::NoTriggers => self.rules.clear_triggers(),
                Command::List | Command::Rotate(_) | Command::Stop => {}
            }
        }
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
