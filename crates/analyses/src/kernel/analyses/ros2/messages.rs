//! From events to runs of callbacks, and to chains of messages: which message started a run, which run published that message,
//! and so on back to the run that no message started.

use std::rc::Rc;

use tracemill_semantics::states::{Happening, Machines, Map, Ns};
use tracemill_semantics::{Concept, Field};

use super::objects::{CallbackKind, Endpoint, Objects, address};
use crate::kernel::aggregate::groups::Names;
use crate::kernel::aggregate::keys::{NO_KEY, duration};
use crate::kernel::aggregate::latest::Latest;

/// Messages that are kept at most, until they are taken. Several subscriptions may take one.
const MAX_MESSAGES: usize = if cfg!(test) { 64 } else { 1 << 16 };

/// Messages of a chain, and different chains, at most: programs may send messages in a circle.
const MAX_LEGS: u32 = 64;
const MAX_PATHS: usize = 1 << 16;

/// Callbacks that a thread runs inside of each other at most.
const MAX_DEPTH: usize = 64;

/// A callback, in words. Where groups have less than all of it, the rest is `None`.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct CallbackLabel {
    pub(super) kind: Option<CallbackKind>,
    pub(super) node: Option<Rc<str>>,
    pub(super) topic: Option<Rc<str>>,
    pub(super) period: Option<u64>,
    pub(super) symbol: Option<Rc<str>>,
    /// The same, as rows show it.
    pub(super) shown: Option<Rc<str>>,
}

/// A chain of messages, up to some time in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Chain {
    /// When it began: with the run of a callback, or with a message that was published outside of all.
    pub(super) from: Ns,
    /// Its nodes and topics: see [`Messages::path`].
    pub(super) path: u32,
    /// The number of the run of a callback that is its last one so far, if it began with one: see [`Messages::before`].
    pub(super) run: Option<u32>,
    /// Messages so far.
    pub(super) messages: u32,
    /// Time in callbacks.
    pub(super) running: u64,
    /// Time from a publication until the message was taken.
    pub(super) transport: u64,
    /// Time from taking a message to the callback.
    pub(super) waiting: u64,
}

/// A message that was published.
struct Published {
    at: Ns,
    /// The number of its topic.
    topic: Option<i64>,
    chain: Option<Chain>,
}

/// A message that was taken and not yet given to a callback.
struct TakenMessage {
    at: Ns,
    subscription: Rc<Endpoint>,
    message: Option<Rc<Published>>,
}

/// A callback that runs.
struct OpenCallback {
    callback: u64,
    label: u32,
    from: Ns,
    delay: Option<u64>,
    /// As it was at the beginning of the run.
    chain: Option<Chain>,
}

#[derive(Default)]
struct Thread {
    open: Vec<OpenCallback>,
    taken: Option<TakenMessage>,
    /// The same, inside of the process.
    dequeued: Option<TakenMessage>,
    /// The message that is on its way to the middleware.
    published: Option<Rc<Published>>,
    /// The message that is on its way to the buffers of other subscriptions of the process.
    queued: Option<Rc<Published>>,
}

/// A run that ended.
#[derive(Clone)]
pub(super) struct RunOfCallback {
    pub(super) label: u32,
    pub(super) pid: Option<i64>,
    pub(super) tid: i64,
    pub(super) from: Ns,
    pub(super) to: Ns,
    /// From the publication of the message that started it to its beginning.
    pub(super) delay: Option<u64>,
    /// The chain of messages that led to it; `None` without a message, or where its beginning is not known.
    pub(super) chain: Option<Chain>,
}

/// Counts of events and messages that were left out.
#[derive(Clone, Copy, Default)]
pub(super) struct Unknown {
    /// Ends of callbacks whose beginning was not seen.
    ends: u64,
    /// Beginnings of callbacks whose end was not seen.
    begins: u64,
    /// Messages that started a callback, and whose publication is not known.
    messages: u64,
    /// Messages whose publisher is not known.
    publishers: u64,
    /// Messages of one topic with the time stamp of another one.
    ambiguous: u64,
    /// Messages that were forgotten.
    dropped: u64,
    /// Chains that were longer than is followed.
    too_long: u64,
    /// Events without an address or a thread.
    bad_fields: u64,
}

impl Unknown {
    /// The counts that are not 0, by their names.
    pub(super) fn notes(self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("unmatched_callback_ends", self.ends),
            ("unmatched_callback_starts", self.begins),
            ("unknown_messages", self.messages),
            ("unknown_publishers", self.publishers),
            ("ambiguous_messages", self.ambiguous),
            ("dropped_messages", self.dropped),
            ("too_long_chains", self.too_long),
            ("bad_fields", self.bad_fields),
        ];
        all.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// Follows the callbacks and messages of all programs.
pub(super) struct Messages {
    objects: Objects,
    /// By process and number.
    threads: Map<(u32, i64), Thread>,
    pub(super) labels: Vec<Rc<CallbackLabel>>,
    numbers: Map<Rc<CallbackLabel>, u32>,
    /// Names of nodes and topics.
    names: Names,
    paths: Vec<Rc<str>>,
    /// By the path before, the topic and the node.
    of_path: Map<(u32, i64, i64), u32>,
    /// By the topic and the time stamp that the middleware gave it: `None` when several have both.
    sent: Latest<(i64, i128), Option<Rc<Published>>>,
    /// In the buffers of subscriptions: by process, buffer and place.
    buffered: Latest<(u32, u64, i128), Rc<Published>>,
    /// For each run of a chain the one before it.
    runs: Vec<Option<u32>>,
    pub(super) unknown: Unknown,
}

impl Default for Messages {
    fn default() -> Self {
        Messages {
            objects: Objects::default(),
            threads: Map::default(),
            labels: Vec::new(),
            numbers: Map::default(),
            names: Names::default(),
            paths: Vec::new(),
            of_path: Map::default(),
            sent: Latest::new(MAX_MESSAGES),
            buffered: Latest::new(MAX_MESSAGES),
            runs: Vec::new(),
            unknown: Unknown::default(),
        }
    }
}

/// The node or the topic of which nothing is known.
const UNKNOWN: &str = "?";

/// No path before, no topic.
const NONE: (u32, i64) = (u32::MAX, NO_KEY);

impl Messages {
    /// Takes an event. Gives the run that it ends.
    pub(super) fn apply(
        &mut self,
        machines: &Machines,
        machine: u32,
        happening: &Happening<'_>,
        at: Ns,
    ) -> Option<RunOfCallback> {
        let is_of_thread = match happening.concept {
            Concept::Ros2Node
            | Concept::Ros2Publisher
            | Concept::Ros2Writer
            | Concept::Ros2Subscription
            | Concept::Ros2Service
            | Concept::Ros2Timer
            | Concept::Ros2TimerNode
            | Concept::Ros2Part
            | Concept::Ros2Symbol => false,
            Concept::Ros2Start
            | Concept::Ros2End
            | Concept::Ros2Publish
            | Concept::Ros2Sent
            | Concept::Ros2Take
            | Concept::Ros2Enqueue
            | Concept::Ros2Dequeue => true,
            _ => return None,
        };
        let process = self.objects.process(machine, happening);
        if !is_of_thread {
            self.objects.apply(process, happening);
            return None;
        }
        let Some(tid) = happening.number(Field::Vtid) else {
            self.unknown.bad_fields += 1;
            return None;
        };
        let of = (process, tid);
        match happening.concept {
            Concept::Ros2Start => self.start(machines, machine, of, happening, at),
            Concept::Ros2End => return self.end(machines, machine, of, happening, at),
            Concept::Ros2Publish => self.publish(machines, machine, of, happening, at),
            Concept::Ros2Sent => self.send(of, happening),
            Concept::Ros2Take => self.take(of, happening, at),
            Concept::Ros2Enqueue => self.enqueue(of, happening),
            _ => self.dequeue(of, happening, at),
        }
        None
    }

    fn thread(&mut self, of: (u32, i64)) -> &mut Thread {
        self.threads.entry(of).or_default()
    }

    /// An address, which the event should have.
    fn address(&mut self, happening: &Happening<'_>, field: Field) -> Option<u64> {
        let found = address(happening, field);
        self.unknown.bad_fields += u64::from(found.is_none());
        found
    }

    fn start(&mut self, machines: &Machines, machine: u32, of: (u32, i64), happening: &Happening<'_>, at: Ns) {
        let Some(callback) = self.address(happening, Field::Ptr) else { return };
        let owner = self.objects.owner(of.0, callback).cloned();
        let symbol = self.objects.symbol(of.0, callback).cloned();
        let label = self.label(match &owner {
            Some(owner) => CallbackLabel {
                kind: Some(owner.kind),
                node: owner.node.clone(),
                topic: owner.topic.clone(),
                period: owner.period,
                symbol,
                shown: None,
            },
            None => CallbackLabel { symbol, ..CallbackLabel::default() },
        });
        let is_inside = happening.number(Field::Intra).is_some_and(|flag| flag != 0);
        let thread = self.threads.entry(of).or_default();
        // A callback that runs does not begin once more: its end was not seen, nor those of callbacks inside of it.
        if let Some(lost) = thread.open.iter().position(|open| open.callback == callback) {
            self.unknown.begins += (thread.open.len() - lost) as u64;
            thread.open.truncate(lost);
        }
        let (taken, dequeued) = (thread.taken.take(), thread.dequeued.take());
        (thread.published, thread.queued) = (None, None);
        let taken = if is_inside { dequeued } else { taken };
        let taken = taken.filter(|taken| owner.as_ref().is_some_and(|owner| is_same(owner, &taken.subscription)));
        let message = taken.as_ref().and_then(|taken| Some((taken.at, taken.message.clone()?)));
        let length = |from: Ns, to: Ns| duration(machines, machine, from, to);
        let delay = message.as_ref().map(|(_, message)| length(message.at, at));
        let chain = match owner.as_deref() {
            Some(Endpoint { kind: CallbackKind::Timer, node, period, .. }) => self.timer(node.as_deref(), *period, at),
            Some(Endpoint { kind: CallbackKind::Subscription, node, topic, .. }) => {
                self.unknown.messages += u64::from(message.is_none());
                message.and_then(|(taken, message)| {
                    let before = message.chain?;
                    let path = self.next_path(before, topic.as_deref(), node.as_deref())?;
                    Some(Chain {
                        path,
                        run: self.next_run(before.run),
                        messages: before.messages + 1,
                        transport: before.transport + length(message.at, taken),
                        waiting: before.waiting + length(taken, at),
                        ..before
                    })
                })
            }
            _ => None,
        };
        let thread = self.thread(of);
        if thread.open.len() == MAX_DEPTH {
            thread.open.remove(0);
            self.unknown.begins += 1;
        }
        self.thread(of).open.push(OpenCallback { callback, label, from: at, delay, chain });
    }

    fn end(
        &mut self,
        machines: &Machines,
        machine: u32,
        of: (u32, i64),
        happening: &Happening<'_>,
        at: Ns,
    ) -> Option<RunOfCallback> {
        let callback = self.address(happening, Field::Ptr)?;
        let thread = self.threads.entry(of).or_default();
        (thread.published, thread.queued) = (None, None);
        let Some(place) = thread.open.iter().rposition(|open| open.callback == callback) else {
            self.unknown.ends += 1;
            return None;
        };
        // Ends of callbacks inside of it were not seen.
        self.unknown.begins += (thread.open.len() - place - 1) as u64;
        let open = thread.open.drain(place..).next()?;
        let chain = open.chain.filter(|chain| chain.messages > 0);
        Some(RunOfCallback {
            label: open.label,
            pid: happening.number(Field::Vpid),
            tid: of.1,
            from: open.from,
            to: at,
            delay: open.delay,
            chain: chain.map(|chain| chain.run(duration(machines, machine, open.from, at))),
        })
    }

    fn publish(&mut self, machines: &Machines, machine: u32, of: (u32, i64), happening: &Happening<'_>, at: Ns) {
        let Some(handle) = self.address(happening, Field::Ptr) else { return };
        let publisher = self.objects.publisher(of.0, handle).cloned();
        let topic = publisher.as_ref().and_then(|publisher| publisher.topic.clone());
        let topic = topic.map(|topic| self.names.number(&topic));
        let open = self.threads.get(&of).and_then(|thread| thread.open.last());
        let chain = match open {
            Some(open) => open.chain.map(|chain| chain.run(duration(machines, machine, open.from, at))),
            // No callback publishes it.
            None => match publisher.as_ref().map(|publisher| publisher.node.as_deref().unwrap_or(UNKNOWN)) {
                Some(node) => self.first_path(node).map(|path| Chain::new(path, at)),
                None => None,
            },
        };
        let message = Some(Rc::new(Published { at, topic, chain }));
        let is_inside = happening.text(Field::Name).is_some_and(|name| name == "intra");
        let thread = self.thread(of);
        match is_inside {
            true => thread.queued = message,
            false => (thread.published, thread.queued) = (message, None),
        }
    }

    /// The middleware gives a time stamp to the message that the thread publishes.
    fn send(&mut self, of: (u32, i64), happening: &Happening<'_>) {
        // The middleware also writes what no publisher of ROS 2 sends.
        let written = address(happening, Field::Owner).map(|writer| self.objects.written_topic(of.0, writer));
        let written = match written {
            Some(Some(None)) => return,
            Some(known) => known.flatten().map(|topic| self.names.number(&topic)),
            None => None,
        };
        let is_other = |own: &Rc<Published>| own.topic.zip(written).is_some_and(|(topic, written)| topic != written);
        let thread = self.threads.entry(of).or_default();
        if thread.published.as_ref().is_some_and(is_other) {
            return;
        }
        let message = thread.published.take().map(|message| match message.topic {
            // A publisher that is not known by its address: its topic is that of what writes.
            None => Rc::new(Published { at: message.at, topic: written, chain: message.chain }),
            Some(_) => message,
        });
        let stamp = happening.values.integer(Field::Stamp).filter(|stamp| *stamp != 0);
        let Some((topic, message)) = message.and_then(|message| Some((message.topic?, message))) else {
            self.unknown.publishers += 1;
            return;
        };
        let Some(stamp) = stamp else { return };
        match self.sent.get_mut(&(topic, stamp)) {
            Some(other) => {
                *other = None;
                self.unknown.ambiguous += 1;
            }
            None => self.unknown.dropped += u64::from(self.sent.insert((topic, stamp), Some(message)).is_some()),
        }
    }

    fn take(&mut self, of: (u32, i64), happening: &Happening<'_>, at: Ns) {
        if happening.number(Field::Ret) == Some(0) {
            return;
        }
        let Some(rmw) = self.address(happening, Field::Rmw) else { return };
        let Some(subscription) = self.objects.taking(of.0, rmw).cloned() else {
            self.thread(of).taken = None;
            return;
        };
        let topic = subscription.topic.as_ref().map(|topic| self.names.number(topic));
        let stamp = happening.values.integer(Field::Stamp);
        let message = topic.zip(stamp).and_then(|key| self.sent.get_mut(&key)?.clone());
        self.thread(of).taken = Some(TakenMessage { at, subscription, message });
    }

    fn enqueue(&mut self, of: (u32, i64), happening: &Happening<'_>) {
        let Some(buffer) = self.address(happening, Field::Ptr) else { return };
        let Some(place) = happening.values.integer(Field::Nr) else { return };
        let key = (of.0, buffer, place);
        // The place may hold a message that nobody took.
        self.buffered.remove(&key);
        if let Some(message) = self.thread(of).queued.clone() {
            self.unknown.dropped += u64::from(self.buffered.insert(key, message).is_some());
        }
    }

    fn dequeue(&mut self, of: (u32, i64), happening: &Happening<'_>, at: Ns) {
        let Some(buffer) = self.address(happening, Field::Ptr) else { return };
        let place = happening.values.integer(Field::Nr);
        let message = place.and_then(|place| self.buffered.remove(&(of.0, buffer, place)));
        let subscription = self.objects.owner(of.0, buffer).cloned();
        self.thread(of).dequeued = subscription.map(|subscription| TakenMessage { at, subscription, message });
    }

    fn label(&mut self, label: CallbackLabel) -> u32 {
        if let Some(known) = self.numbers.get(&label) {
            return *known;
        }
        let number = self.labels.len() as u32;
        let shown = label.symbol.as_ref().map(|symbol| shown_function(symbol).into());
        self.labels.push(Rc::new(CallbackLabel { shown, ..label.clone() }));
        self.numbers.insert(Rc::new(label), number);
        number
    }

    /// A chain that a timer begins.
    fn timer(&mut self, node: Option<&str>, period: Option<u64>, at: Ns) -> Option<Chain> {
        let node = node.unwrap_or(UNKNOWN);
        let name = match period {
            Some(period) => format!("{node} (timer {})", short(period)),
            None => format!("{node} (timer)"),
        };
        let path = self.first_path(&name)?;
        Some(Chain { run: self.next_run(None), ..Chain::new(path, at) })
    }

    /// The number of a run that continues the one before it; `None` when there are no more numbers.
    fn next_run(&mut self, before: Option<u32>) -> Option<u32> {
        let number = u32::try_from(self.runs.len()).ok()?;
        self.runs.push(before);
        Some(number)
    }

    /// The run whose message started a run.
    pub(super) fn before(&self, run: u32) -> Option<u32> {
        self.runs.get(run as usize).copied().flatten()
    }

    fn first_path(&mut self, name: &str) -> Option<u32> {
        let number = self.names.number(name);
        self.path_of((NONE.0, NONE.1, number), || name.into())
    }

    fn next_path(&mut self, before: Chain, topic: Option<&str>, node: Option<&str>) -> Option<u32> {
        if before.messages >= MAX_LEGS {
            self.unknown.too_long += 1;
            return None;
        }
        let (topic, node) = (topic.unwrap_or(UNKNOWN), node.unwrap_or(UNKNOWN));
        let key = (before.path, self.names.number(topic), self.names.number(node));
        let start = self.paths[before.path as usize].clone();
        self.path_of(key, || format!("{start} -> {topic} -> {node}").into())
    }

    fn path_of(&mut self, key: (u32, i64, i64), text: impl FnOnce() -> Rc<str>) -> Option<u32> {
        if let Some(known) = self.of_path.get(&key) {
            return Some(*known);
        }
        if self.paths.len() == MAX_PATHS {
            self.unknown.too_long += 1;
            return None;
        }
        let number = self.paths.len() as u32;
        self.paths.push(text());
        self.of_path.insert(key, number);
        Some(number)
    }

    /// The nodes and the topics of a chain, in words.
    pub(super) fn path(&self, chain: &Chain) -> &Rc<str> {
        &self.paths[chain.path as usize]
    }
}

impl Chain {
    fn new(path: u32, from: Ns) -> Chain {
        Chain { from, path, run: None, messages: 0, running: 0, transport: 0, waiting: 0 }
    }

    /// The chain when a callback has run for a time.
    fn run(self, length: u64) -> Chain {
        Chain { running: self.running + length, ..self }
    }
}

/// Are they one subscription? Each event that names one makes its own.
fn is_same(one: &Endpoint, other: &Endpoint) -> bool {
    (one.kind, one.handle) == (other.kind, other.handle)
}

/// Longer names of functions are shortened.
const MAX_NAME: usize = 64;

/// The name of a function as rows show it: that of a callback may have a thousand characters, mostly arguments of templates.
/// Of a bound method there is the class, as its name is not recorded.
fn shown_function(symbol: &str) -> String {
    if let Some(class) = symbol
        .strip_prefix("std::_Bind<")
        .and_then(|bound| bound.split_once("::*"))
        .and_then(|(before, _)| Some(before.split_once('(')?.1))
    {
        return format!("{}::*", without_arguments(class));
    }
    if symbol.len() <= MAX_NAME { symbol.to_string() } else { without_arguments(symbol) }
}

/// A name without what is in brackets; a lambda keeps its braces and its number.
fn without_arguments(name: &str) -> String {
    let (mut short, mut depth) = (String::new(), 0_u32);
    for letter in name.trim_end_matches(" const").chars() {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            letter if depth == 0 => short.push(letter),
            _ => {}
        }
    }
    short
}

/// A period as people write it.
fn short(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    let unit = units.into_iter().find(|(length, _)| ns >= *length && ns.is_multiple_of(*length));
    unit.map_or_else(|| format!("{ns} ns"), |(length, name)| format!("{} {name}", ns / length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_functions_are_short() {
        let list =
            "std::vector<char, std::allocator<char> > const&, std::shared_ptr<std_msgs::msg::String>, rclcpp::Node*";
        let cases = [
            ("Oven::bake(Dough)".to_string(), "Oven::bake(Dough)"),
            (format!("Sink::Sink({list})::{{lambda(std::unique_ptr<int>)#1}}"), "Sink::Sink::{lambda#1}"),
            (format!("std::_Bind<void (kitchen::Oven<int>::*(Oven*, {list}))(Dough) const>"), "kitchen::Oven::*"),
            ("std::_Bind<void (Oven::*(Oven*))()>".to_string(), "Oven::*"),
            (format!("Oven::bake({list}) const"), "Oven::bake"),
            (format!("std::_Bind<{list}>"), "std::_Bind"),
            ("<".repeat(70), ""),
            (">".repeat(70), ""),
        ];
        for (symbol, shown) in cases {
            assert_eq!(shown_function(&symbol), shown, "{symbol}");
        }
    }
}
