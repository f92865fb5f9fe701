//! Actions at calls, as the recorder hands them to the library: a file of little-endian words. Both sides have this text.

/// The text that the file begins with.
pub(crate) const MAGIC: &[u8; 8] = b"TMRULES1";

/// The text that a file of probes begins with: three numbers follow for each place, its address, that of the counter of who
/// listens, which is 0 where there is none, and the id of its events.
pub(crate) const PROBES: &[u8; 8] = b"TMPROBE1";
/// Names of files of probes begin with this.
pub(crate) const PROBE_FILE: &str = ".probes-";
/// And end with this while they are a question: lines with the distance of a file in memory from its own addresses, and its
/// path.
pub(crate) const QUESTION: &str = ".ask";

/// Only what a filter lets in is recorded.
pub(crate) const OPT_IN: u64 = 1;
/// Only calls that lead to certain functions are recorded.
pub(crate) const HAS_CALLERS: u64 = 2;
/// Entries wait until the end of a call decides about them.
pub(crate) const IS_LATE: u64 = 4;

/// The function is recorded, with what it calls.
pub(crate) const FILTER_IN: u64 = 1;
/// The function is left out, with what it calls.
pub(crate) const FILTER_OUT: u64 = 2;
/// It sets the depth that is left.
pub(crate) const DEPTH: u64 = 4;
/// It sets the shortest time.
pub(crate) const TIME: u64 = 8;
/// It sets the smallest size.
pub(crate) const SIZE: u64 = 16;
/// Recording begins with it.
pub(crate) const ON: u64 = 32;
/// Recording pauses from it on.
pub(crate) const OFF: u64 = 64;
/// It is recorded even when it is short.
pub(crate) const TRACED: u64 = 128;
/// Its callers are recorded.
pub(crate) const CALLER: u64 = 256;
/// Recording ends with it.
pub(crate) const FINISH: u64 = 512;

/// It is not recorded itself; what it calls is.
pub(crate) const ALONE: u64 = 2048;

/// Its entry is patched, where that can be.
pub(crate) const PATCH: u64 = 1024;

/// The action at the calls of a function.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Action {
    /// The constants above.
    pub(crate) flags: u64,
    pub(crate) depth: u64,
    /// In counts of the clock.
    pub(crate) time: u64,
    pub(crate) size: u64,
    /// The function's own size.
    pub(crate) own_size: u64,
    /// Number of the first of its arguments in the list of values, and how many there are.
    pub(crate) arguments: [u64; 2],
    /// As `arguments`, of its return value.
    pub(crate) results: [u64; 2],
}

/// Numbers of an [`Action`].
pub(crate) const ACTION_WORDS: usize = 9;

impl Action {
    /// Its numbers, in their order in the file.
    pub(crate) fn words(&self) -> [u64; ACTION_WORDS] {
        let [[first, count], [result, results]] = [self.arguments, self.results];
        [self.flags, self.depth, self.time, self.size, self.own_size, first, count, result, results]
    }

    /// From its numbers.
    pub(crate) fn from_words(words: [u64; ACTION_WORDS]) -> Action {
        let [flags, depth, time, size, own_size, first, count, result, results] = words;
        Action { flags, depth, time, size, own_size, arguments: [first, count], results: [result, results] }
    }
}

/// A value of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallValue {
    /// One of the forms below.
    pub(crate) form: u64,
    /// Bytes that are stored, other than of texts.
    pub(crate) size: u64,
    /// One of the places below.
    pub(crate) place: u64,
    /// Which one, from 0: in the order of the calling convention; of the stack in words after the return address.
    pub(crate) index: u64,
}

/// Bytes as they are.
pub(crate) const PLAIN: u64 = 0;
/// Text of C, by its address.
pub(crate) const TEXT: u64 = 1;
/// A `std::string`, by its address.
pub(crate) const STD_STRING: u64 = 2;
/// Bytes that are on the stack, as many as are stored.
pub(crate) const BYTES: u64 = 3;
/// Bytes after an address.
pub(crate) const BEHIND: u64 = 4;

pub(crate) const INTEGER: u64 = 0;
pub(crate) const VECTOR: u64 = 1;
pub(crate) const STACK: u64 = 2;
/// The return value of the function: integers, floats, a `long double`.
pub(crate) const RESULT: u64 = 3;
pub(crate) const FLOAT_RESULT: u64 = 4;
pub(crate) const LONG_RESULT: u64 = 5;

/// Numbers of a [`CallValue`].
pub(crate) const VALUE_WORDS: usize = 4;

impl CallValue {
    /// Its numbers, in their order in the file.
    pub(crate) fn words(&self) -> [u64; VALUE_WORDS] {
        [self.form, self.size, self.place, self.index]
    }

    /// From its numbers.
    pub(crate) fn from_words([form, size, place, index]: [u64; VALUE_WORDS]) -> CallValue {
        CallValue { form, size, place, index }
    }
}
