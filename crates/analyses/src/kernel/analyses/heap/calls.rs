//! Calls that allocate and free, of recordings of a program's calls: which of them are open, by thread, and what they say about
//! blocks when they are complete.

use std::rc::Rc;

use tracemill_format::demangle::simple_name;
use tracemill_format::open_calls::{CallLevel, End, OpenCalls};
use tracemill_semantics::states::{Happening, Map};
use tracemill_semantics::{Concept, Field};

use super::blocks::{BlockEvent, BlockEventKind};

/// Open calls of a thread that are kept at most.
const MAX_OPEN: usize = 65_535;

/// The innermost calls that a path shows.
const MAX_PATH: usize = 128;

/// How arguments and results of a function say what it does with blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HeapFunction {
    /// The size is the argument of this index, the pointer is returned.
    Alloc(usize),
    /// The sizes of the two first arguments are multiplied.
    AllocMany,
    /// The first argument is the block, the second one its new size.
    Realloc,
    /// The same, and the third one is multiplied.
    ReallocMany,
    /// The first argument is the block.
    Free,
    /// The pointer is stored, and is no value of the call; a result other than 0 is a failure.
    AllocBehind,
}

impl HeapFunction {
    /// The function of a name, without the types of its arguments.
    fn of_name(name: &str) -> Option<HeapFunction> {
        match name {
            "malloc" | "valloc" | "pvalloc" | "operator new" | "operator new[]" => Some(HeapFunction::Alloc(0)),
            "aligned_alloc" | "memalign" => Some(HeapFunction::Alloc(1)),
            "calloc" => Some(HeapFunction::AllocMany),
            "realloc" => Some(HeapFunction::Realloc),
            "reallocarray" => Some(HeapFunction::ReallocMany),
            "free" | "cfree" | "operator delete" | "operator delete[]" => Some(HeapFunction::Free),
            "posix_memalign" => Some(HeapFunction::AllocBehind),
            _ => None,
        }
    }
}

/// A name that calls have.
struct FunctionName {
    name: Rc<str>,
    function: Option<HeapFunction>,
}

/// A call that has not ended.
struct OpenFunction {
    symbol: u32,
    /// The arguments, if it is one that allocates, and no part of another one.
    arguments: Option<Vec<Option<i128>>>,
}

/// The open calls of a thread.
struct CallingThread {
    open: OpenCalls<OpenFunction>,
    /// The place of the outermost one that allocates or frees; what it calls is a part of it.
    heap_call: Option<usize>,
}

/// The calls of all threads.
#[derive(Default)]
pub(super) struct HeapCalls {
    symbols: Vec<FunctionName>,
    numbers: Map<Rc<str>, u32>,
    /// By machine and number of the thread.
    threads: Map<(u32, i64), CallingThread>,
    /// Calls that allocate or free without all their values.
    pub(super) without_values: u64,
    /// Blocks whose addresses no call says.
    pub(super) without_address: u64,
}

/// A call that says something about blocks.
pub(super) struct HeapCall {
    /// Its function.
    pub(super) symbol: u32,
    pub(super) event: BlockEvent,
}

impl HeapCalls {
    /// The name of a function as people read it.
    pub(super) fn name(&self, symbol: u32) -> Rc<str> {
        self.symbols[symbol as usize].name.clone()
    }

    /// Takes the entry or the exit of a function, and gives what it completes: a call that frees says so when it begins, others
    /// when they end.
    pub(super) fn apply(&mut self, machine: u32, happening: &Happening<'_>) -> Option<HeapCall> {
        // Functions of the kernel say that they are from there.
        if happening.text(Field::Which).is_some() {
            return None;
        }
        let tid = happening.number(Field::Vtid)?;
        let depth = happening.number(Field::Depth).and_then(|depth| u64::try_from(depth).ok())?;
        let level = Some(CallLevel { is_kernel: false, depth });
        let is_entry = happening.concept != Concept::CallExit;
        let symbol = if is_entry { Some(self.symbol(&happening.text(Field::Name)?)) } else { None };
        let thread = self.threads.entry((machine, tid)).or_insert_with(CallingThread::new);
        match symbol {
            Some(symbol) => {
                thread.pop(thread.open.abandoned_at(level));
                let function = self.symbols[symbol as usize].function.filter(|_| thread.heap_call.is_none());
                let Some(function) = function else {
                    thread.open.begin(level, OpenFunction { symbol, arguments: None });
                    return None;
                };
                let arguments = happening.values.integers(Field::Args).unwrap_or_default();
                let freed = (function == HeapFunction::Free).then(|| pointer(&arguments, 0));
                let place = thread.open.len();
                if thread.open.begin(level, OpenFunction { symbol, arguments: Some(arguments) }) {
                    thread.heap_call = Some(place);
                }
                match freed? {
                    Some(ptr) => Some(HeapCall { symbol, event: BlockEvent::of(BlockEventKind::Free, ptr) }),
                    None => {
                        self.without_values += 1;
                        None
                    }
                }
            }
            None => {
                let (end, over) = thread.open.end(level, |_| true);
                thread.pop(over);
                let OpenFunction { symbol, arguments } = (end == End::OfCall).then(|| thread.pop_one()).flatten()?;
                let arguments = arguments?;
                let function = self.symbols[symbol as usize].function?;
                self.complete(symbol, function, &arguments, happening)
            }
        }
    }

    /// A call that allocates has ended.
    fn complete(
        &mut self,
        symbol: u32,
        function: HeapFunction,
        arguments: &[Option<i128>],
        happening: &Happening<'_>,
    ) -> Option<HeapCall> {
        let size = |at: usize| arguments.get(at).copied().flatten().map(|size| size.max(0));
        let product = |first: usize| size(first)?.checked_mul(size(first + 1)?).or(Some(i128::MAX));
        let kind = match function {
            HeapFunction::Free => return None,
            HeapFunction::Alloc(at) => size(at).map(|bytes| (BlockEventKind::Alloc, bytes)),
            HeapFunction::AllocMany => product(0).map(|bytes| (BlockEventKind::Alloc, bytes)),
            HeapFunction::AllocBehind => size(2).map(|bytes| (BlockEventKind::Alloc, bytes)),
            HeapFunction::Realloc => pointer(arguments, 0).zip(size(1)).map(of_old),
            HeapFunction::ReallocMany => pointer(arguments, 0).zip(product(1)).map(of_old),
        };
        let (Some((kind, bytes)), Some(result)) = (kind, happening.values.integer(Field::Ret)) else {
            self.without_values += 1;
            return None;
        };
        let mut event = BlockEvent { bytes: Some(bytes), ..BlockEvent::of(kind, result as u64) };
        if function == HeapFunction::AllocBehind {
            if result == 0 {
                self.without_address += 1;
                return None;
            }
            (event.ptr, event.has_failed) = (Some(0), true);
        }
        Some(HeapCall { symbol, event })
    }

    /// The open calls of a thread in which it calls a function that allocates or frees, outermost first.
    pub(super) fn callers(&self, machine: u32, tid: i64, is_free: bool) -> Vec<u32> {
        let Some(thread) = self.threads.get(&(machine, tid)) else { return Vec::new() };
        // A call that frees is still open itself.
        let count = thread.open.len().saturating_sub(usize::from(is_free));
        thread.open.iter().take(count).skip(count.saturating_sub(MAX_PATH)).map(|call| call.symbol).collect()
    }

    /// The number of a name, as the event has it.
    fn symbol(&mut self, raw: &str) -> u32 {
        if let Some(number) = self.numbers.get(raw) {
            return *number;
        }
        let name = simple_name(raw);
        let function = HeapFunction::of_name(&name);
        let number = self.symbols.len() as u32;
        self.symbols.push(FunctionName { name: name.into(), function });
        self.numbers.insert(raw.into(), number);
        number
    }
}

fn of_old((old, bytes): (u64, i128)) -> (BlockEventKind, i128) {
    (BlockEventKind::Realloc(Some(old)), bytes)
}

/// An argument that is an address, which may be a signed number.
fn pointer(arguments: &[Option<i128>], at: usize) -> Option<u64> {
    arguments.get(at).copied().flatten().map(|pointer| pointer as u64)
}

impl CallingThread {
    fn new() -> CallingThread {
        CallingThread { open: OpenCalls::new(MAX_OPEN), heap_call: None }
    }

    fn pop_one(&mut self) -> Option<OpenFunction> {
        let call = self.open.pop();
        self.heap_call = self.heap_call.filter(|place| *place < self.open.len());
        call
    }

    fn pop(&mut self, count: usize) {
        (0..count).for_each(|_| drop(self.pop_one()));
    }
}
