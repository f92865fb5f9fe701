//! Profiles: the samples of a recording, added up by their stacks.
//!
//! A profile is a tree of functions, callers before callees. Its first levels may be groups, such as threads or events. What is
//! shown of it is made of the tree: functions with their sums ([`Profile::functions`]), flame graphs, call trees.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tracemill_codec::text::pattern::Pattern;
use tracemill_engine::event::Event;
use tracemill_engine::events::Events;
use tracemill_engine::filter::Filter;
use tracemill_engine::merge::Note;
use tracemill_engine::samples::{Frame, Sample, SampleReader, Symbolizer};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_semantics::names;

mod stacks;

/// A property by which samples are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProfileGroup {
    /// The name of the event that was sampled.
    Event,
    /// The thread.
    Thread,
    /// The process.
    Process,
    /// The name of the thread.
    Comm,
    /// The CPU.
    Cpu,
}

impl ProfileGroup {
    /// All of them by their names.
    pub const ALL: [(&'static str, ProfileGroup); 5] = [
        ("event", ProfileGroup::Event),
        ("thread", ProfileGroup::Thread),
        ("process", ProfileGroup::Process),
        (names::ABOUT_NAME[0], ProfileGroup::Comm),
        ("cpu", ProfileGroup::Cpu),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, group)| *group == self).map_or("", |(name, _)| name)
    }
}

/// The unit of weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WeightUnit {
    /// Time in ns: the events are those of a clock.
    Ns,
    /// Numbers of events.
    Events,
    /// Numbers of samples.
    #[default]
    Samples,
}

impl WeightUnit {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            WeightUnit::Ns => "ns",
            WeightUnit::Events => "events",
            WeightUnit::Samples => "samples",
        }
    }
}

/// Whose time is added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CpuTime {
    /// Samples of what threads execute.
    #[default]
    On,
    /// Time that threads are without a CPU, by the stacks that they left it with. Time without an end in the recording does not count.
    Off,
    /// Both together. Samples must be of a clock.
    Both,
}

/// Says whether a sample is wanted.
pub type SampleTest<'s> = &'s dyn Fn(&Event<'_>, &Sample<'_>) -> bool;

/// Where samples come from.
#[derive(Clone, Copy)]
pub struct ProfileSource<'s> {
    /// The traces.
    pub session: &'s Session,
    /// Their streams that are wanted.
    pub streams: &'s [SelectedStream],
    /// The times and classes that are wanted. Time without a CPU is that between events of all classes that tell it.
    pub selection: &'s Selection,
    /// A condition on events.
    pub filter: Option<&'s Filter>,
    /// Is a sample wanted? All are without it.
    pub is_wanted: Option<SampleTest<'s>>,
    /// Names functions; without it they have names only where the trace has them.
    pub symbolizer: Option<&'s dyn Symbolizer>,
    /// Is the profile not wanted any more? Then it stays incomplete.
    pub is_over: &'s dyn Fn() -> bool,
}

/// Which samples are wanted, and how they are added up.
#[derive(Clone, Debug, Default)]
pub struct ProfileQuery {
    /// Names of events; none for all.
    pub events: Vec<Pattern>,
    /// Threads; none for all.
    pub tids: Vec<i64>,
    /// Groups, the outer one first. Samples of several events are grouped by event in any case: their weights count different
    /// things.
    pub by: Vec<ProfileGroup>,
    /// Does each sample count once, instead of for the events that it stands for?
    pub counts_samples: bool,
    /// Time on CPUs, or without them.
    pub cpu: CpuTime,
    /// Do the stacks of those that woke the threads stand above the stacks with which these left their CPU?
    pub has_wakers: bool,
}

impl ProfileQuery {
    /// Are samples of an event wanted? An event with modifiers (`cycles:u`, `cycles/period=9/`) is also known by its name alone.
    fn wants_event(&self, name: &[u8]) -> bool {
        let short = name.split(|byte| matches!(byte, b':' | b'/')).next().unwrap_or_default();
        self.events.is_empty() || self.events.iter().any(|wanted| wanted.matches(name) || wanted.matches(short))
    }
}

/// A group, or a function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProfileLabel {
    /// Its name.
    pub name: Arc<str>,
    /// The file of the function; empty where it is not known, and for groups.
    pub module: Arc<str>,
    /// Is it a function of the kernel?
    pub is_kernel: bool,
    /// Is it time without a CPU?
    pub is_wait: bool,
}

impl ProfileLabel {
    fn new(name: impl Into<Arc<str>>) -> Self {
        ProfileLabel { name: name.into(), module: "".into(), is_kernel: false, is_wait: false }
    }
}

/// A function as it was called, or a group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProfileNode {
    /// Its number in [`Profile::labels`].
    pub label: u32,
    /// The node of its caller; that of the root is its own.
    pub parent: usize,
    /// Groups and functions above it.
    pub depth: usize,
    /// Weight of the samples in the function itself, and their number.
    pub own: u64,
    /// See [`ProfileNode::own`].
    pub own_samples: u64,
    /// Weight of the samples in the function and all that it called, and their number.
    pub total: u64,
    /// See [`ProfileNode::total`].
    pub samples: u64,
}

/// Sums of a function in a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfileFunction {
    /// The labels of its groups.
    pub groups: Vec<u32>,
    /// Its label.
    pub label: u32,
    /// Weight of the samples in the function itself, and their number.
    pub own: u64,
    /// See [`ProfileFunction::own`].
    pub own_samples: u64,
    /// Weight of the samples in the function and all that it called, each sample once, and their number.
    pub total: u64,
    /// See [`ProfileFunction::total`].
    pub samples: u64,
    /// Weight of all samples of the same event: what shares are parts of.
    pub whole: u64,
}

/// Samples, added up by their stacks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Profile {
    /// Groups and functions, each once.
    pub labels: Vec<ProfileLabel>,
    /// The tree: the root first, callers before callees, callees of one caller in the order of their names.
    pub nodes: Vec<ProfileNode>,
    /// The groups that the first levels below the root are.
    pub by: Vec<ProfileGroup>,
    /// The unit of weights.
    pub unit: WeightUnit,
    /// The events whose samples are in it.
    pub events: Vec<String>,
    /// Is it time on CPUs, or without them?
    pub cpu: CpuTime,
    /// Samples whose innermost function has no name.
    pub unnamed: u64,
}

/// Builds the tree of a profile.
#[derive(Default)]
struct ProfileBuilder {
    labels: Vec<ProfileLabel>,
    by_label: HashMap<ProfileLabel, u32>,
    nodes: Vec<ProfileNode>,
    found: HashMap<(usize, u32), usize>,
}

impl ProfileBuilder {
    fn new() -> Self {
        let mut builder = ProfileBuilder { nodes: vec![ProfileNode::default()], ..ProfileBuilder::default() };
        builder.label(ProfileLabel::new("all"));
        builder
    }

    fn label(&mut self, label: ProfileLabel) -> u32 {
        if let Some(&known) = self.by_label.get(&label) {
            return known;
        }
        let number = self.labels.len() as u32;
        self.by_label.insert(label.clone(), number);
        self.labels.push(label);
        number
    }

    fn node(&mut self, parent: usize, label: u32) -> usize {
        *self.found.entry((parent, label)).or_insert_with(|| {
            let depth = self.nodes[parent].depth + 1;
            self.nodes.push(ProfileNode { label, parent, depth, ..ProfileNode::default() });
            self.nodes.len() - 1
        })
    }

    fn add(&mut self, node: usize, weight: u64, samples: u64) {
        let node = &mut self.nodes[node];
        node.own = node.own.saturating_add(weight);
        node.own_samples += samples;
    }

    /// Adds totals, and puts nodes into their order.
    fn finish(self) -> Profile {
        let ProfileBuilder { labels, mut nodes, .. } = self;
        for at in (0..nodes.len()).rev() {
            let (own, own_samples, parent) = (nodes[at].own, nodes[at].own_samples, nodes[at].parent);
            nodes[at].total = nodes[at].total.saturating_add(own);
            nodes[at].samples += own_samples;
            if at > 0 {
                let (total, samples) = (nodes[at].total, nodes[at].samples);
                nodes[parent].total = nodes[parent].total.saturating_add(total);
                nodes[parent].samples += samples;
            }
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        for (at, node) in nodes.iter().enumerate().skip(1) {
            children[node.parent].push(at);
        }
        let key = |at: &usize| {
            let label = &labels[nodes[*at].label as usize];
            (&label.name, &label.module, label.is_kernel, label.is_wait)
        };
        children.iter_mut().for_each(|children| children.sort_by(|a, b| key(b).cmp(&key(a))));
        let mut open = vec![(0, 0)];
        let mut ordered = Vec::with_capacity(nodes.len());
        while let Some((at, parent)) = open.pop() {
            let here = ordered.len();
            ordered.push(ProfileNode { parent, ..nodes[at].clone() });
            open.extend(children[at].iter().map(|&child| (child, here)));
        }
        Profile { labels, nodes: ordered, ..Profile::default() }
    }
}

/// Properties of a sample by which it is grouped.
struct SampleGroups<'s> {
    event: &'s str,
    sample: Sample<'s>,
}

impl SampleGroups<'_> {
    fn name(&self, group: ProfileGroup) -> String {
        let unknown = || "(unknown)".to_string();
        let Sample { thread, process, thread_name, cpu, .. } = self.sample;
        match group {
            ProfileGroup::Event => self.event.to_string(),
            ProfileGroup::Comm => thread_name.map_or_else(unknown, str::to_string),
            ProfileGroup::Cpu => cpu.map_or_else(unknown, |cpu| format!("cpu {cpu}")),
            ProfileGroup::Process => process.map_or_else(unknown, |process| format!("process {process}")),
            ProfileGroup::Thread => match (thread_name, thread) {
                (Some(name), Some(thread)) => format!("{name} ({thread})"),
                (None, Some(thread)) => format!("thread {thread}"),
                (name, None) => name.map_or_else(unknown, str::to_string),
            },
        }
    }
}

/// Names of the events of a session whose samples are wanted, each once, in the order of traces and classes.
pub fn sample_events(session: &Session, reader: &SampleReader<'_>, query: &ProfileQuery) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (trace, classes) in session.traces.iter().zip(reader.class_sets()) {
        for (at, class) in trace.schema.events().iter().enumerate() {
            let is_sample = classes.as_ref().is_some_and(|classes| classes.has(at as u32));
            let name = class.name.as_deref().unwrap_or_default();
            let is_wanted = query.wants_event(name.as_bytes());
            if is_sample && is_wanted && !found.iter().any(|known| known == name) {
                found.push(name.to_string());
            }
        }
    }
    found
}

/// Time without a CPU, as frames; of threads that wait, and of those that could have run.
const OFF_CPU: &str = "(off CPU)";
const PREEMPTED: &str = "(preempted)";
/// Between the stack of a thread that waited, and that of the thread that woke it, whose innermost function comes first.
const WOKEN_BY: &str = "(woken by)";

/// In place of the thread that woke another one, where an interrupt did.
const INTERRUPT: &str = "(interrupt)";

/// How many of the innermost frames of a stack are those of an interrupt: what calls its entry was interrupted.
fn frames_of_interrupt(frames: &[Frame], stack: &[u32]) -> usize {
    let is_entry = |frame: &u32| {
        let Frame { function, is_kernel, .. } = &frames[*frame as usize];
        *is_kernel && names::INTERRUPT_ENTRIES.iter().any(|entry| function.starts_with(entry))
    };
    let of_kernel = || stack.iter().take_while(|frame| frames[**frame as usize].is_kernel).count();
    stack.iter().position(is_entry).map_or_else(of_kernel, |entry| entry + 1)
}

/// A thread that has left its CPU.
struct OffThread {
    since: i128,
    /// The node of its stack.
    node: usize,
    has_stack: bool,
    was_preempted: bool,
    /// Labels of the frames of its first waker, the innermost first, and of its name.
    waker: Option<Vec<u32>>,
}

/// The unit of the periods of samples of some events.
pub fn unit_of(events: &[String]) -> WeightUnit {
    if events.iter().all(|event| is_clock(event)) { WeightUnit::Ns } else { WeightUnit::Events }
}

/// Does an event count time?
fn is_clock(event: &str) -> bool {
    names::CLOCK_EVENTS.contains(&event.split([':', '/']).next().unwrap_or_default())
}

impl Profile {
    /// Adds up the wanted samples of some streams. What comes up between them goes to `note`.
    pub fn collect(
        source: &ProfileSource<'_>,
        query: &ProfileQuery,
        note: impl FnMut(Note) -> ControlFlow<()>,
    ) -> Profile {
        /// Events between two questions whether it is over.
        const ASKING: u32 = 1 << 10;
        let ProfileSource { session, streams, filter, is_wanted, symbolizer, is_over, .. } = *source;
        let mut reader = SampleReader::new(session, symbolizer);
        let mut selection = source.selection.clone();
        let is_on = query.cpu == CpuTime::On;
        let has_wakers = query.has_wakers && !is_on;
        selection.classes = match is_on {
            true => reader.wanted_class_sets(&selection.classes),
            false => reader.class_sets_with_turns(has_wakers),
        };
        let mut by = query.by.clone();
        // Which events have samples is known when all were read, so a first level of events may turn out to be needless.
        let by_event = is_on && !by.contains(&ProfileGroup::Event) && sample_events(session, &reader, query).len() > 1;
        if by_event {
            by.insert(0, ProfileGroup::Event);
        }
        let mut builder = ProfileBuilder::new();
        let mut events: Vec<String> = Vec::new();
        // By class: the number of its event, if it is wanted.
        let mut of_classes: HashMap<(usize, u32), Option<usize>> = HashMap::new();
        let mut frames: Vec<u32> = Vec::new();
        let (mut unnamed, mut has_weights) = (0, false);
        let mut storage = Vec::new();
        // By trace and thread.
        let mut off: HashMap<(usize, i64), OffThread> = HashMap::new();
        let mut label_frames = |builder: &mut ProfileBuilder, known: &[Frame], stack: &[u32]| -> Vec<u32> {
            while frames.len() < known.len() {
                let Frame { function, module, is_kernel } = known[frames.len()].clone();
                frames.push(builder.label(ProfileLabel { name: function, module, is_kernel, is_wait: false }));
            }
            stack.iter().map(|&frame| frames[frame as usize]).collect()
        };
        let (mut taken, mut is_given_up) = (0_u32, false);
        let take = |event: &Event<'_>| {
            taken = taken.wrapping_add(1);
            is_given_up |= taken.is_multiple_of(ASKING) && is_over();
            if is_given_up {
                return;
            }
            if has_wakers && let Some(woken) = reader.woken(event) {
                // The first wake counts; a thread that was preempted waits for no one.
                let thread = off.get_mut(&(event.trace, woken.thread));
                if let Some(off) = thread.filter(|off| off.waker.is_none() && !off.was_preempted)
                    && let Some(sample) = reader.read(event)
                {
                    let name = match woken.by_interrupt {
                        true => INTERRUPT.into(),
                        false => SampleGroups { event: "", sample }.name(ProfileGroup::Comm),
                    };
                    let mut stack = sample.stack.to_vec();
                    if woken.by_interrupt {
                        stack.truncate(frames_of_interrupt(reader.frames(), &stack));
                    }
                    let mut waker = label_frames(&mut builder, reader.frames(), &stack);
                    waker.push(builder.label(ProfileLabel::new(name)));
                    off.waker = Some(waker);
                }
                return;
            }
            let turn = if is_on { None } else { reader.turn(event) };
            let class = (event.trace, event.raw.class().0);
            // An event that takes a thread off its CPU is none that was sampled.
            let number = match turn {
                Some(_) => None,
                None => *of_classes.entry(class).or_insert_with(|| {
                    let name = event.name(&mut storage).unwrap_or_default();
                    let is_wanted = query.wants_event(name);
                    is_wanted.then(|| {
                        let name = String::from_utf8_lossy(name);
                        events.iter().position(|known| *known == name).unwrap_or_else(|| {
                            events.push(name.into_owned());
                            events.len() - 1
                        })
                    })
                }),
            };
            if turn.is_none() && number.is_none() {
                return;
            }
            let Some(sample) = reader.read(event) else { return };
            if is_wanted.is_some_and(|is_wanted| !is_wanted(event, &sample)) {
                return;
            }
            let mut back = |builder: &mut ProfileBuilder, thread: Option<i64>| {
                let OffThread { since, mut node, waker, .. } = off.remove(&(event.trace, thread?))?;
                let taken = u64::try_from(event.ns? - since).unwrap_or(0);
                if let Some(waker) = waker {
                    let label = builder.label(ProfileLabel { is_wait: true, ..ProfileLabel::new(WOKEN_BY) });
                    node = waker.iter().fold(builder.node(node, label), |node, frame| builder.node(node, *frame));
                }
                builder.add(node, taken, 1);
                Some(())
            };
            match turn {
                Some(turn) => back(&mut builder, turn.gets),
                // A thread that is sampled runs.
                None if !is_on => back(&mut builder, sample.thread),
                None => None,
            };
            if query.cpu == CpuTime::Off && turn.is_none() {
                return;
            }
            let leaving = turn.and_then(|turn| turn.leaves.filter(|thread| *thread != 0));
            let is_left = leaving.zip(event.ns).map(|(thread, ns)| ((event.trace, thread), ns));
            if turn.is_some() && is_left.is_none() {
                return;
            }
            let thread = leaving.or(sample.thread);
            if !query.tids.is_empty() && !thread.is_some_and(|thread| query.tids.contains(&thread)) {
                return;
            }
            let mut at = 0;
            let event_name = number.map_or(OFF_CPU, |number| &events[number]);
            let groups = SampleGroups { event: event_name, sample: Sample { thread, ..sample } };
            for group in &by {
                let label = builder.label(ProfileLabel::new(groups.name(*group)));
                at = builder.node(at, label);
            }
            let weight = if query.counts_samples { 1 } else { sample.weight.unwrap_or(1) };
            has_weights |= sample.weight.is_some();
            let stack: Vec<u32> = sample.stack.to_vec();
            let known = reader.frames();
            let labels = label_frames(&mut builder, known, &stack);
            let has_stack = !stack.is_empty();
            unnamed += u64::from(
                turn.is_none() && stack.first().is_none_or(|&first| known[first as usize].function.starts_with('[')),
            );
            for &label in labels.iter().rev() {
                at = builder.node(at, label);
            }
            let Some((thread, ns)) = is_left else { return builder.add(at, weight, 1) };
            let is_preempted = turn.is_some_and(|turn| turn.is_preempted);
            // A tracepoint, or a sample, has the stack, and a record of the kernel follows it, which alone may say that the thread
            // was preempted.
            if let Some(known) = off.get_mut(&thread).filter(|known| !has_stack && known.has_stack) {
                if is_preempted && !known.was_preempted {
                    let label = builder.label(ProfileLabel { is_wait: true, ..ProfileLabel::new(PREEMPTED) });
                    (known.node, known.was_preempted) = (builder.node(known.node, label), true);
                }
                return;
            }
            if is_preempted || !has_stack || query.cpu == CpuTime::Both {
                let name = if is_preempted { PREEMPTED } else { OFF_CPU };
                let label = builder.label(ProfileLabel { is_wait: true, ..ProfileLabel::new(name) });
                at = builder.node(at, label);
            }
            // Of two of a kind the first has lost its end.
            match off.get_mut(&thread) {
                Some(known) if has_stack && !known.has_stack => (known.node, known.has_stack) = (at, true),
                _ => {
                    let was_preempted = is_preempted;
                    off.insert(thread, OffThread { since: ns, node: at, has_stack, was_preempted, waker: None });
                }
            }
        };
        Events::new(session, streams, &selection, filter).for_each(take, note);
        let mut profile = builder.finish();
        profile.unit = match () {
            () if query.cpu == CpuTime::Off => WeightUnit::Ns,
            () if query.counts_samples => WeightUnit::Samples,
            // An event that counts time says nothing of time where each sample counts once.
            () if is_on && !has_weights && !events.is_empty() => WeightUnit::Samples,
            () => unit_of(&events),
        };
        (profile.by, profile.events, profile.unnamed, profile.cpu) = (by, events, unnamed, query.cpu);
        if query.cpu == CpuTime::Off {
            profile.events.clear();
        }
        if by_event && profile.events.len() < 2 { profile.without_group(0) } else { profile }
    }

    /// The labels of a stack from the root to a node, without the root.
    pub fn path(&self, node: usize) -> Vec<u32> {
        let mut path = Vec::with_capacity(self.nodes[node].depth);
        let mut at = node;
        while at > 0 {
            path.push(self.nodes[at].label);
            at = self.nodes[at].parent;
        }
        path.reverse();
        path
    }

    /// The functions of each group with their sums. A sample counts once for a function, however often that is on its stack.
    pub fn functions(&self) -> Vec<ProfileFunction> {
        let groups = self.by.len();
        let event_level = self.by.iter().position(|group| *group == ProfileGroup::Event);
        let mut wholes: HashMap<u32, u64> = HashMap::new();
        for node in self.nodes.iter().filter(|node| event_level.is_some_and(|level| node.depth == level + 1)) {
            let whole = wholes.entry(node.label).or_default();
            *whole = whole.saturating_add(node.total);
        }
        let whole = |groups: &[u32]| match event_level {
            Some(level) => wholes.get(&groups[level]).copied().unwrap_or(0),
            None => self.total().0,
        };
        let mut found: Vec<ProfileFunction> = Vec::new();
        let mut by_key: HashMap<(usize, u32), usize> = HashMap::new();
        // The nodes from the root to the one at hand.
        let mut open: Vec<usize> = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            open.truncate(node.depth);
            open.push(at);
            // Samples without a stack stand in their group.
            if node.depth <= groups {
                continue;
            }
            let is_again = open[groups + 1..node.depth].iter().any(|&above| self.nodes[above].label == node.label);
            let place = *by_key.entry((open[groups], node.label)).or_insert_with(|| {
                let groups: Vec<u32> = open[1..=groups].iter().map(|&group| self.nodes[group].label).collect();
                found.push(ProfileFunction {
                    whole: whole(&groups),
                    groups,
                    label: node.label,
                    own: 0,
                    own_samples: 0,
                    total: 0,
                    samples: 0,
                });
                found.len() - 1
            });
            let function = &mut found[place];
            function.own = function.own.saturating_add(node.own);
            function.own_samples += node.own_samples;
            if !is_again {
                function.total = function.total.saturating_add(node.total);
                function.samples += node.samples;
            }
        }
        found
    }

    /// The weight and the number of all samples.
    pub fn total(&self) -> (u64, u64) {
        self.nodes.first().map_or((0, 0), |root| (root.total, root.samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile of folded stacks with numbers of samples; each weighs ten.
    pub(super) fn profile(stacks: &str, by: &[ProfileGroup]) -> Profile {
        let mut builder = ProfileBuilder::new();
        for line in stacks.lines() {
            let (stack, count) = line.rsplit_once(' ').expect("a number");
            let mut at = 0;
            for name in stack.split(';').filter(|name| !name.is_empty()) {
                let label = builder.label(ProfileLabel::new(name));
                at = builder.node(at, label);
            }
            let count: u64 = count.parse().expect("a number");
            builder.add(at, count * 10, count);
        }
        Profile { by: by.to_vec(), ..builder.finish() }
    }

    #[test]
    fn recordings_are_compared_by_shares() {
        let mut flame = crate::flame::Flame::from_profile(&profile("main;f 3\nmain;g 1\n", &[]));
        flame.compare(&crate::flame::Flame::from_profile(&profile("main;f 10\nmain;h 30\n", &[])));
        let mut out = Vec::new();
        flame.write_json(&mut out).expect("memory");
        let text = String::from_utf8(out).expect("it is text");
        let before = text
            .lines()
            .filter_map(|line| line.split_once("\"before\":"))
            .map(|(_, rest)| rest.split('}').next().unwrap_or_default().to_string());
        // Of 40 samples there, 10 were in `f`: as much as one of 4 here; each weighs ten.
        assert_eq!(before.collect::<Vec<_>>(), ["40", "40", "10", "0"]);
        assert!(text.contains(r#""samples":3,"total":30,"self":30,"before":10"#), "{text}");
    }

    pub(super) fn folded(profile: &Profile) -> Vec<String> {
        let line = |(at, node): (usize, &ProfileNode)| {
            let names = profile.path(at).into_iter().map(|label| profile.labels[label as usize].name.to_string());
            (node.own_samples > 0).then(|| format!("{} {}", names.collect::<Vec<_>>().join(";"), node.own_samples))
        };
        profile.nodes.iter().enumerate().filter_map(line).collect()
    }

    #[test]
    fn a_sample_counts_once_for_a_function() {
        let profile = profile("main;f;g;f 2\nmain;f 1\nmain;g 4\n", &[]);
        let sums: Vec<(String, u64, u64, u64)> = profile
            .functions()
            .into_iter()
            .map(|of| (profile.labels[of.label as usize].name.to_string(), of.own_samples, of.samples, of.total))
            .collect();
        let want =
            [("main", 0, 7, 70), ("f", 3, 3, 30), ("g", 4, 6, 60)].map(|(name, a, b, c)| (name.to_string(), a, b, c));
        assert_eq!(sums, want);
        assert_eq!(profile.total(), (70, 7));
    }

    #[test]
    fn groups_are_apart() {
        let profile = profile("a;f 2\nb;f 1\nb;f;f 1\nb 5\n", &[ProfileGroup::Event]);
        let shown: Vec<(u32, u64, u64)> =
            profile.functions().iter().map(|of| (of.groups[0], of.samples, of.whole)).collect();
        assert_eq!(shown.iter().map(|(_, samples, whole)| (*samples, *whole)).collect::<Vec<_>>(), [(2, 20), (2, 70)]);
        assert_eq!(folded(&profile.without_group(0)), [" 5", "f 3", "f;f 1"]);
    }
}
