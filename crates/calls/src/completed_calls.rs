//! Calls one by one, each when it has ended or cannot end any more. Times without processor are calls too.
//!
//! For those who want a row of each call: what is kept of it is what stands on the stacks.

use tracemill_engine::trace_calls::WantedRecords;
use tracemill_format::calls::{CallKind, CallRecord};

use crate::follow::{CallChange, FastStep, Follower};

/// A call that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedCall {
    /// Its number, in the order in which calls begin.
    pub number: u64,
    /// The number of the call that it was made from.
    pub parent: Option<u64>,
    /// Calls around it.
    pub depth: u32,
    /// Index of its task.
    pub task: u32,
    /// The symbol of its function.
    pub symbol: u32,
    /// The address of its function.
    pub address: u64,
    /// Its CPU, where the recording ties its entry to one.
    pub cpu: Option<u16>,
    /// When it began, in cycles.
    pub begin: u64,
    /// How long it took, in ns; `None` when its end is not there.
    pub taken: Option<u64>,
    /// The ns that calls made from it took whose ends are there.
    pub inside: u64,
    /// Is it a time without processor?
    pub is_wait: bool,
    /// Texts of its records, where some were made.
    pub texts: Option<Box<Texts>>,
}

/// Texts of the records of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// Of its entry.
    pub entry: Option<String>,
    /// Of its exit.
    pub exit: Option<String>,
}

impl CompletedCall {
    /// The ns without those of the calls made from it; `None` when its end is not there.
    #[inline]
    pub fn self_ns(&self) -> Option<u64> {
        self.taken.map(|taken| taken.saturating_sub(self.inside))
    }
}

/// Decides which records are wanted.
pub trait CallFilter {
    /// Are all of them?
    fn is_everything(&self) -> bool;

    /// May some of them have texts?
    fn has_texts(&self) -> bool;

    /// The text of a record, where there is one; `None` when the record is not wanted.
    fn select(&mut self, record: &CallRecord) -> Option<Option<String>>;
}

/// All records.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl CallFilter for Everything {
    fn is_everything(&self) -> bool {
        true
    }

    fn has_texts(&self) -> bool {
        false
    }

    fn select(&mut self, _: &CallRecord) -> Option<Option<String>> {
        Some(None)
    }
}

/// The records that a selection leaves.
impl CallFilter for WantedRecords<'_> {
    fn is_everything(&self) -> bool {
        WantedRecords::is_everything(self)
    }

    fn has_texts(&self) -> bool {
        WantedRecords::has_texts(self)
    }

    #[inline]
    fn select(&mut self, record: &CallRecord) -> Option<Option<String>> {
        WantedRecords::select(self, record)
    }
}

/// Takes calls.
pub trait CallSink {
    /// A call is over.
    fn push_call(&mut self, call: CompletedCall);

    /// Is another one wanted? This is asked after some thousand records, and after the last one.
    fn should_continue(&mut self, follower: &mut Follower<'_>) -> bool;
}

/// An open call.
struct OpenCall {
    number: u64,
    address: u64,
    begin: u64,
    inside: u64,
    symbol: u32,
    cpu: Option<u16>,
    is_wait: bool,
    around: Around,
    texts: Option<Box<Texts>>,
}

/// The calls below a call on its stack.
#[derive(Clone, Copy, Default)]
struct Around {
    /// The place of the call that it was made from on the stack, and one; 0 for none.
    below: usize,
    /// The number of that call.
    parent: Option<u64>,
    depth: u32,
}

/// The stacks of the tasks: calls at their places, and places without any.
struct Stacks<N> {
    tasks: Vec<Vec<Option<OpenCall>>>,
    next: u64,
    /// Makes ns of cycles.
    ns: N,
}

/// The calls below one that is made now.
#[inline]
fn enclosing(stack: &[Option<OpenCall>]) -> Around {
    let innermost = stack.iter().enumerate().rev().find_map(|(at, open)| Some((open.as_ref()?, at + 1)));
    innermost.map_or_else(Around::default, |(open, below)| Around {
        below,
        parent: Some(open.number),
        depth: open.around.depth.saturating_add(1),
    })
}

impl OpenCall {
    #[inline]
    fn ended(self, task: u32, taken: Option<u64>) -> CompletedCall {
        let OpenCall { number, address, begin, inside, symbol, cpu, is_wait, around, texts } = self;
        let Around { parent, depth, .. } = around;
        CompletedCall { number, parent, depth, task, symbol, address, cpu, begin, taken, inside, is_wait, texts }
    }
}

impl<N: Fn(u64) -> i128> Stacks<N> {
    /// The number of the next call.
    #[inline]
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    #[inline]
    fn elapsed_ns(&self, begin: u64, end: u64) -> u64 {
        ((self.ns)(end) - (self.ns)(begin)).clamp(0, u64::MAX.into()) as u64
    }

    #[inline]
    fn begin(&mut self, record: &CallRecord, place: usize, entry: Option<String>) {
        let number = self.number();
        let stack = &mut self.tasks[record.task as usize];
        if stack.len() < place {
            stack.resize_with(place, || None);
        }
        let around = enclosing(stack);
        let &CallRecord { symbol, address, cpu, time: begin, .. } = record;
        let is_wait = record.kind == CallKind::Event;
        let texts = entry.map(|entry| Box::new(Texts { entry: Some(entry), exit: None }));
        stack.push(Some(OpenCall { number, address, begin, inside: 0, symbol, cpu, is_wait, around, texts }));
    }

    /// A call that makes none itself, and whose end follows it.
    #[inline]
    fn leaf(&mut self, record: &CallRecord, end: u64) -> CompletedCall {
        let number = self.number();
        let &CallRecord { task, symbol, address, cpu, time: begin, .. } = record;
        let taken = self.elapsed_ns(begin, end);
        let stack = &mut self.tasks[task as usize];
        let Around { below, parent, depth } = enclosing(stack);
        add_inside(stack, below, taken);
        let (taken, is_wait, texts) = (Some(taken), false, None);
        CompletedCall { number, parent, depth, task, symbol, address, cpu, begin, taken, inside: 0, is_wait, texts }
    }

    /// Is a call of a task open?
    fn is_in_call(&self, task: u32) -> bool {
        self.tasks[task as usize].iter().any(Option::is_some)
    }

    /// Ends what stands at a place and above it, without a word of it.
    #[inline]
    fn abandon(&mut self, task: u32, place: usize, see: &mut impl FnMut(CompletedCall)) {
        let stack = &mut self.tasks[task as usize];
        while stack.len() > place {
            stack.pop().flatten().into_iter().for_each(|open| see(open.ended(task, None)));
        }
    }

    /// Ends the call at a place, at the end of whose stack it stands; an end without a beginning is none.
    #[inline]
    fn end(&mut self, record: &CallRecord, place: usize, exit: Option<String>, see: &mut impl FnMut(CompletedCall)) {
        let task = record.task;
        let stack = &mut self.tasks[task as usize];
        let ended = if stack.len() > place { stack.pop().flatten() } else { None };
        let Some(mut open) = ended else { return };
        let is_other_function = open.address != record.address && open.symbol != record.symbol;
        if open.is_wait != (record.kind == CallKind::Event) || is_other_function {
            return see(open.ended(task, None));
        }
        let taken = self.elapsed_ns(open.begin, record.time);
        add_inside(&mut self.tasks[task as usize], open.around.below, taken);
        if exit.is_some() {
            open.texts.get_or_insert_default().exit = exit;
        }
        see(open.ended(task, Some(taken)));
    }
}

/// Adds the ns of a call to those inside of the one that it stands on.
#[inline]
fn add_inside(stack: &mut [Option<OpenCall>], below: usize, taken: u64) {
    if let Some(Some(around)) = below.checked_sub(1).and_then(|at| stack.get_mut(at)) {
        around.inside = around.inside.saturating_add(taken);
    }
}

/// How many records are followed between two questions whether anybody wants more.
const STEPS: usize = 1024;

/// Follows all records of a follower with the default options: `to` gets each call when it is over, those of one task from
/// the inside out. `ns` makes ns of the cycles of a record. The number of calls, unless `to` wanted no more.
pub fn follow(
    follower: &mut Follower<'_>,
    wanted: &mut impl CallFilter,
    ns: impl Fn(u64) -> i128,
    to: &mut impl CallSink,
) -> Option<u64> {
    let tasks = follower.source.tasks().len();
    let mut stacks = Stacks { tasks: (0..tasks).map(|_| Vec::new()).collect(), next: 0, ns };
    let is_whole = wanted.is_everything();
    let has_fast_path = is_whole && !wanted.has_texts() && follower.has_fast_path();
    let mut is_over = false;
    while !is_over {
        for _ in 0..STEPS {
            if has_fast_path && fast(follower, &mut stacks, to) {
                continue;
            }
            let Some(record) = follower.next() else {
                is_over = true;
                break;
            };
            let Some(shown) = follower.step(&record) else { continue };
            let Some(text) = wanted.select(&record) else { continue };
            let (task, place) = (record.task, shown.place.max(0) as usize);
            let mut see = |call| to.push_call(call);
            let change = CallChange::from_record(&record);
            // Calls above this one have ended without an exit record.
            stacks.abandon(task, place + usize::from(matches!(change, Some(CallChange::End(_)))), &mut see);
            match change {
                Some(CallChange::End(_)) => stacks.end(&record, place, text, &mut see),
                Some(CallChange::Call(_)) => stacks.begin(&record, place, text),
                // Where calls are left out, so are the times without processor inside of them.
                Some(CallChange::Wait(..)) if is_whole || stacks.is_in_call(task) => stacks.begin(&record, place, text),
                Some(CallChange::Wait(..)) | None => {}
            }
        }
        if !to.should_continue(follower) {
            return None;
        }
    }
    for task in 0..tasks as u32 {
        stacks.abandon(task, 0, &mut |call| to.push_call(call));
        if !to.should_continue(follower) {
            return None;
        }
    }
    Some(stacks.next)
}

/// Takes the next call, or its end, when nothing is special about it: true when it did.
#[inline]
fn fast<N: Fn(u64) -> i128>(follower: &mut Follower<'_>, stacks: &mut Stacks<N>, to: &mut impl CallSink) -> bool {
    let Some(&record) = follower.ready() else { return false };
    let step = if follower.has_kernel { follower.take_one_fast() } else { follower.take_fast().map(|(step, _)| step) };
    let Some(step) = step else { return false };
    let task = record.task;
    // Of a leaf both records were taken, so its place is free again.
    let place = follower.tasks[task as usize].stack_count.max(0) as usize;
    let mut see = |call| to.push_call(call);
    match step {
        FastStep::Entered => {
            let place = place.saturating_sub(1);
            stacks.abandon(task, place, &mut see);
            stacks.begin(&record, place, None);
        }
        FastStep::Leaf(taken) => {
            stacks.abandon(task, place, &mut see);
            see(stacks.leaf(&record, record.time.wrapping_add(taken)));
        }
        FastStep::Left(_) => {
            stacks.abandon(task, place + 1, &mut see);
            stacks.end(&record, place, None, &mut see);
        }
    }
    true
}
