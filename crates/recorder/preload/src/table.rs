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

/// Functions that return more than once, and the way back to them.
pub(crate) const SETJMPS: [&[u8]; 4] = [b"setjmp", b"_setjmp", b"sigsetjmp", b"__sigsetjmp"];
pub(crate) const LONGJMPS: [&[u8]; 4] = [b"longjmp", b"_longjmp", b"siglongjmp", b"__longjmp_chk"];
/// Functions whose child returns first, on the same stack.
pub(crate) const VFORKS: [&[u8]; 2] = [b"vfork", b"__vfork"];
/// Functions that change stacks: they keep the return address for later.
pub(crate) const SWITCHES: [&[u8]; 5] =
    [b"getcontext", b"setcontext", b"swapcontext", b"jump_fcontext", b"ontop_fcontext"];

/// May a function of this name not be given another return address?
pub(crate) fn is_odd_return(name: &[u8]) -> bool {
    [&SETJMPS[..], &LONGJMPS, &VFORKS, &SWITCHES].iter().any(|names| names.contains(&name))
}

/// A function without room for a call: instructions of its entry are moved, or it stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FunctionEntry {
    pub(crate) address: u64,
    /// Bytes before those that are moved. Without any bytes that are moved: why it stays as it is.
    pub(crate) mark: u64,
    /// Bytes that are moved.
    pub(crate) original_len: u64,
    /// Bytes that are executed in their place.
    pub(crate) body_len: u64,
    /// Where distances stand in the body, a byte each; `NO_DISTANCE` for none.
    pub(crate) distances: [u8; 8],
    pub(crate) original: [u8; ORIGINAL_LEN],
    pub(crate) body: [u8; BODY_LEN],
}

/// Bytes that are moved, at most.
pub(crate) const ORIGINAL_LEN: usize = 24;
/// Bytes of what is executed in their place, at most.
pub(crate) const BODY_LEN: usize = 48;
pub(crate) const NO_DISTANCE: u8 = 0xff;
/// Numbers of a [`FunctionEntry`].
pub(crate) const ENTRY_WORDS: usize = 5 + (ORIGINAL_LEN + BODY_LEN) / 8;

/// It is shorter than a jump.
pub(crate) const LEFT_SHORT: u64 = 0;
/// One of its first instructions cannot be moved.
pub(crate) const LEFT_FIXED: u64 = 1;
/// Something leads to the middle of its first instructions.
pub(crate) const LEFT_TARGET: u64 = 2;
/// Its bytes are not all instructions.
pub(crate) const LEFT_UNKNOWN: u64 = 3;
/// It looks at its return address, or changes stacks.
pub(crate) const LEFT_SPECIAL: u64 = 4;
/// Exceptions of the program find callers by code of its own.
pub(crate) const LEFT_UNWINDER: u64 = 5;
/// Its bytes in memory are not those in the file, or cannot be written, or no memory is near.
pub(crate) const LEFT_CHANGED: u64 = 6;
/// How many reasons there are.
pub(crate) const LEFT_REASONS: usize = 7;

impl FunctionEntry {
    /// One that stays as it is.
    pub(crate) fn left(address: u64, why: u64) -> FunctionEntry {
        FunctionEntry {
            address,
            mark: why,
            original_len: 0,
            body_len: 0,
            distances: [NO_DISTANCE; 8],
            original: [0; ORIGINAL_LEN],
            body: [0; BODY_LEN],
        }
    }

    /// Its numbers, in their order in the file.
    pub(crate) fn words(&self) -> [u64; ENTRY_WORDS] {
        let mut words = [0; ENTRY_WORDS];
        let numbers = [self.address, self.mark, self.original_len, self.body_len, u64::from_le_bytes(self.distances)];
        words[..5].copy_from_slice(&numbers);
        for (at, byte) in self.original.iter().chain(&self.body).enumerate() {
            words[5 + at / 8] |= u64::from(*byte) << (at % 8 * 8);
        }
        words
    }

    /// From its numbers; `None` when there are more bytes than it has.
    pub(crate) fn from_words(words: [u64; ENTRY_WORDS]) -> Option<FunctionEntry> {
        let [address, mark, original_len, body_len, distances] = *words.first_chunk()?;
        let byte = |at: usize| words[5 + at / 8].to_le_bytes()[at % 8];
        let are_known = original_len <= ORIGINAL_LEN as u64 && body_len <= BODY_LEN as u64;
        are_known.then(|| FunctionEntry {
            address,
            mark,
            original_len,
            body_len,
            distances: distances.to_le_bytes(),
            original: std::array::from_fn(byte),
            body: std::array::from_fn(|at| byte(ORIGINAL_LEN + at)),
        })
    }
}

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
