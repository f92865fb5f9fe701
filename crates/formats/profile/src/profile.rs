//! The content of a profile, whatever its format.

use std::collections::HashMap;
use std::ops::Range;

use tracemill_model::error::Error;

/// No stack, no caller.
pub(crate) const NONE: u32 = u32::MAX;
/// Frames of a stack that are kept: the innermost.
pub(crate) const MAX_DEPTH: u32 = 1 << 12;
/// Faults that are told one by one.
const MAX_FAULTS: usize = 1000;

/// Units of weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum ProfileUnit {
    /// Time in ns.
    Ns,
    Bytes,
    /// Numbers of whatever was counted.
    #[default]
    Counts,
}

/// A profile of one or more threads.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// Names of functions and markers.
    pub(crate) names: Vec<Box<[u8]>>,
    by_name: HashMap<Box<[u8]>, u32>,
    /// Stacks: that of the caller, the name of the function, and the number of frames.
    pub(crate) stacks: Vec<StackNode>,
    by_stack: HashMap<(u32, u32), u32>,
    pub(crate) threads: Vec<ProfileThread>,
    /// Time since the Unix epoch that all times count from, where the file says it.
    pub(crate) start_ns: Option<i128>,
    pub(crate) faults: Vec<Error>,
    pub(crate) warnings: Vec<Error>,
    more_faults: u64,
}

/// A function on a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackNode {
    pub(crate) caller: u32,
    pub(crate) name: u32,
    pub(crate) depth: u32,
    /// Bytes of the names of the frames that are kept, at least.
    pub(crate) bytes: u32,
}

/// The records of a thread, or of all that a file does not tell apart.
#[derive(Debug, Default)]
pub(crate) struct ProfileThread {
    pub(crate) name: Box<[u8]>,
    pub(crate) process: Option<i64>,
    pub(crate) thread: Option<i64>,
    pub(crate) process_name: Box<[u8]>,
    /// Where it is in the file.
    pub(crate) place: Range<usize>,
    pub(crate) unit: ProfileUnit,
    /// Name of the event that was sampled.
    pub(crate) event: Option<Box<[u8]>>,
    /// Do its records have times?
    pub(crate) is_timed: bool,
    pub(crate) records: Vec<ProfileRecord>,
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProfileRecord {
    /// Time in ns.
    pub(crate) at: i64,
    /// Of a sample.
    pub(crate) weight: u64,
    pub(crate) kind: RecordKind,
}

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordKind {
    /// A sample of a stack, or of [`NONE`].
    Sample(u32),
    /// A function begins, by its name.
    Entry(u32),
    /// It ends.
    Exit(u32),
    /// Something happens that has a name.
    Marker(u32),
}

impl Profile {
    /// The number of a name. What would end a text in bytes is replaced.
    pub(crate) fn name(&mut self, name: &[u8]) -> u32 {
        if let Some(&known) = self.by_name.get(name) {
            return known;
        }
        let number = self.names.len() as u32;
        self.names.push(without_zeros(name));
        self.by_name.insert(name.into(), number);
        number
    }

    /// The stack of a function that the one of a caller calls.
    pub(crate) fn stack(&mut self, caller: u32, name: u32) -> u32 {
        if let Some(&known) = self.by_stack.get(&(caller, name)) {
            return known;
        }
        let (depth, bytes) = match self.stacks.get(caller as usize) {
            Some(of) => (of.depth.saturating_add(1), of.bytes),
            None => (1, 0),
        };
        let own = self.names.get(name as usize).map_or(0, |name| name.len() as u32 + 1);
        let number = self.stacks.len() as u32;
        self.stacks.push(StackNode { caller, name, depth, bytes: bytes.saturating_add(own) });
        self.by_stack.insert((caller, name), number);
        number
    }

    /// Tells that a part cannot be read.
    pub(crate) fn fault(&mut self, message: &str, at: usize) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Error::malformed(message).at_offset(at as u64));
        } else {
            self.more_faults += 1;
        }
    }

    /// Puts records into the order of their times, and tells what is known when all was read.
    pub(crate) fn finish(mut self) -> Profile {
        for thread in &mut self.threads {
            if thread.is_timed && !thread.records.is_sorted_by_key(|record| record.at) {
                thread.records.sort_by_key(|record| record.at);
            }
        }
        if self.more_faults > 0 {
            let message = format!("{} more parts cannot be read", self.more_faults);
            self.faults.push(Error::malformed(message));
        }
        if self.stacks.iter().any(|stack| stack.depth > MAX_DEPTH) {
            let message = format!("stacks of more than {MAX_DEPTH} functions: the outermost are left out");
            self.warnings.push(Error::malformed(message));
        }
        (self.by_name, self.by_stack) = (HashMap::new(), HashMap::new());
        self
    }
}

/// A text without the bytes that would end it.
pub(crate) fn without_zeros(text: &[u8]) -> Box<[u8]> {
    text.iter().map(|&byte| if byte == 0 { b'?' } else { byte }).collect()
}

/// A name of a thread, and its number where the name ends with it.
pub(crate) fn named_thread(title: &[u8]) -> (&[u8], Option<i64>) {
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<i64>().ok();
    match title.iter().rposition(|byte| *byte == b' ') {
        Some(at) if title[at + 1..].iter().all(u8::is_ascii_digit) => match number(&title[at + 1..]) {
            Some(thread) if &title[..at] == b"thread" => (b"", Some(thread)),
            Some(thread) => (&title[..at], Some(thread)),
            None => (title, None),
        },
        _ => (title, None),
    }
}

/// The event that a thread's samples are of, and the rest of its name: `cpu-clock: mill 12`.
pub(crate) fn sampled_event(title: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match memchr::memmem::find(title, b": ") {
        Some(at) if at > 0 && !title[..at].contains(&b' ') => (Some(&title[..at]), &title[at + 2..]),
        _ => (None, title),
    }
}
