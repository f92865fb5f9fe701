//! `ros2`: callbacks of ROS 2 nodes, and the latency of chains of messages (`docs/kernel.md`, section 3.25).

mod messages;
mod objects;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use tracemill_semantics::Concept;
use tracemill_semantics::states::{CpuIndex, Happening, Machines, Ns, Observer};

use self::messages::{CallbackLabel, Chain, Messages, RunOfCallback};
use super::delays::Delays;
use crate::durations::Durations;
use crate::kernel::aggregate::groups::{GroupBy, GroupKey, GroupLabels, Names, SpanGroup};
use crate::kernel::aggregate::spans::{SpanFigures, SpanTimes, Spans};
use crate::kernel::aggregate::sum::{Aggregate, Packing, Sum};
use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::forms::{AnalysisForm, AnalysisOption, FormWord, RowNouns};
use crate::kernel::question::query::View;
use crate::kernel::rows::column_of::{ColumnOf, column, columns_of, own_column, values_of};
use crate::kernel::table::{Table, Unit};
use crate::kernel::value::Value;

tracemill_semantics::named! {
    /// Keys of callbacks.
    By {
        /// The node, what it has the callback for, and its function.
        Callback = "callback",
        /// The node.
        Node = "node",
        /// The topic, the service, or the period of a timer.
        Topic = "topic",
        /// The kind alone.
        Kind = "kind",
    }
}

tracemill_semantics::named! {
    /// Keys of chains.
    ByChain {
        /// The nodes and topics of the chain.
        Chain = "chain",
    }
}

/// Runs and chains belong to threads of programs, by numbers that the kernel need not know. They are not made for periods.
const TAKES: &[AnalysisOption] = {
    use AnalysisOption::{Begin, By, Hist, Log, Max, Min, Step, Top};
    &[By, Log, Top, Hist, Step, Min, Max, Begin]
};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "ros2",
    about: "callbacks of ROS 2 nodes, and the end-to-end latency of chains of messages",
    forms: &[
        AnalysisForm::plain(
            By::NAMES,
            TAKES,
            RowNouns::for_groups(&["callbacks", "nodes", "topics", "kinds"]).with_spans("runs").with_buckets("runs"),
        ),
        AnalysisForm {
            option: "--of chains",
            word: Some(FormWord::Chains),
            keys: ByChain::NAMES,
            takes: TAKES,
            nouns: RowNouns::for_groups(&["chains"]).with_spans("chains").with_buckets("chains"),
        },
    ],
    needs: &[&[Concept::Ros2Start], &[Concept::Ros2End]],
    needs_for: &[("chains", &[Concept::Ros2Sent, Concept::Ros2Enqueue])],
    wants: &[
        (Concept::Ros2Part, "what callbacks belong to"),
        (Concept::Ros2Node, "names of nodes"),
        (Concept::Ros2Subscription, "topics"),
        (Concept::Ros2Timer, "timers"),
        (Concept::Ros2Symbol, "functions of callbacks"),
        (Concept::Ros2Take, "which message started a callback"),
        (Concept::Ros2Publish, "which callback published a message"),
        (
            Concept::Ros2Sent,
            "messages between processes, whose time stamps are recorded since ROS 2 Jazzy, or by events of the middleware (dds:*)",
        ),
    ],
    over_periods: None,
    example: "ros2 --of chains demo/ros2/kitchen.jsonl",
    make: |query| match query.has(FormWord::Chains) {
        true => Box::new(Chains {
            spans: Spans::new(query),
            names: Names::default(),
            messages: Messages::default(),
            ended: Vec::new(),
        }),
        false => Box::new(Callbacks {
            by: query.key(By::from_name).unwrap_or(By::Callback),
            spans: Spans::new(query),
            groups: Groups::default(),
            messages: Messages::default(),
        }),
    },
};

/// Runs of callbacks.
struct Callbacks {
    by: By,
    spans: Spans<Delays>,
    groups: Groups,
    messages: Messages,
}

/// Labels of groups: each has what the key is about.
#[derive(Default)]
struct Groups(Vec<CallbackLabel>);

impl Groups {
    /// The group of a callback. There are as many as callbacks at most.
    fn number(&mut self, by: By, label: &CallbackLabel) -> i64 {
        let own = match by {
            By::Callback => label.clone(),
            By::Node => CallbackLabel { node: label.node.clone(), ..CallbackLabel::default() },
            By::Topic => CallbackLabel { node: None, symbol: None, shown: None, ..label.clone() },
            By::Kind => CallbackLabel { kind: label.kind, ..CallbackLabel::default() },
        };
        let known = self.0.iter().position(|known| *known == own);
        known.unwrap_or_else(|| {
            self.0.push(own);
            self.0.len() - 1
        }) as i64
    }
}

/// Meanings of columns.
const NODE: &str = "the node, with its namespace";
const KIND: &str = "subscription, service or timer";
const TOPIC: &str = "the topic, or the name of the service";
const PERIOD: &str = "period of the timer";
const FUNCTION: &str = "the function that is called; without arguments if it is long";
const CHAIN: &str = "nodes and topics, from what began it to the node whose callback ended";

fn kind_of(label: &CallbackLabel) -> Value<'static> {
    label.kind.map_or(Value::Null, |kind| Value::Word(kind.name()))
}

/// A run of a callback in a list.
struct RunRow<'r> {
    run: &'r RunOfCallback,
    label: &'r CallbackLabel,
    span: SpanTimes,
}

impl<'r> RunRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("node", Unit::Name, NODE, |row| Value::text(row.label.node.as_deref())),
        own_column("kind", Unit::Name, KIND, |row| kind_of(row.label)),
        own_column("topic", Unit::Name, TOPIC, |row| Value::text(row.label.topic.as_deref())),
        own_column("period_ns", Unit::Duration, PERIOD, |row| Value::integer(row.label.period)),
        own_column("callback", Unit::Name, FUNCTION, |row| Value::text(row.label.shown.as_deref())),
        column("pid", Unit::Name, |row| Value::integer(row.run.pid)),
        column("tid", Unit::Name, |row| row.run.tid.into()),
        own_column("delay_ns", Unit::Duration, "time from the publication of its message to its beginning", |row| {
            Value::integer(row.run.delay)
        }),
        column("from", Unit::Time, |row| row.span.from.into()),
        column("to", Unit::Time, |row| row.span.to.into()),
        column("duration_ns", Unit::Duration, |row| row.span.duration.into()),
    ];
}

impl Observer for Callbacks {
    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        let Callbacks { by, spans, groups, messages } = self;
        let Some(run) = messages.apply(machines, machine, happening, at) else { return };
        let label = &*messages.labels[run.label as usize];
        let key = GroupKey { machine, number: groups.number(*by, label), ..GroupKey::default() };
        let span = SpanTimes::new(machines, machine, (run.from, run.to));
        spans.add(machines, &span, key, Delays::of_run(run.delay), || {
            values_of(RunRow::LOG, RunRow { run: &run, label, span })
        });
    }
}

impl Analysis for Callbacks {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Applied], ReportTimes::All)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Callbacks { by, spans, groups, messages } = *self;
        let labels =
            GroupLabels { by: ByLabel { by, labels: groups.0 }, names: Names::default(), machines: machines.clone() };
        let mut table = spans.finish(DESCRIPTOR.name, range, columns_of(RunRow::LOG), labels);
        table.notes.extend(messages.unknown.notes());
        table
    }
}

/// Callbacks by what a key has of them.
struct ByLabel {
    by: By,
    labels: Vec<CallbackLabel>,
}

impl<'r> SpanGroup<'r, ByLabel> {
    const NODE: ColumnOf<'r, Self> =
        own_column("node", Unit::Name, NODE, |group| Value::text(group.label().and_then(|of| of.node.as_deref())));
    const KIND: ColumnOf<'r, Self> =
        own_column("kind", Unit::Name, KIND, |group| group.label().map_or(Value::Null, kind_of));
    const TOPIC: ColumnOf<'r, Self> =
        own_column("topic", Unit::Name, TOPIC, |group| Value::text(group.label().and_then(|of| of.topic.as_deref())));
    const PERIOD: ColumnOf<'r, Self> =
        own_column("period_ns", Unit::Duration, PERIOD, |group| Value::integer(group.label().and_then(|of| of.period)));
    const FUNCTION: ColumnOf<'r, Self> = own_column("callback", Unit::Name, FUNCTION, |group| {
        Value::text(group.label().and_then(|of| of.shown.as_deref()))
    });
    const BY_CALLBACK: &'r [ColumnOf<'r, Self>] = &[Self::NODE, Self::KIND, Self::TOPIC, Self::PERIOD, Self::FUNCTION];
    const BY_NODE: &'r [ColumnOf<'r, Self>] = &[Self::NODE];
    const BY_TOPIC: &'r [ColumnOf<'r, Self>] = &[Self::KIND, Self::TOPIC, Self::PERIOD];
    const BY_KIND: &'r [ColumnOf<'r, Self>] = &[Self::KIND];

    fn label(&self) -> Option<&'r CallbackLabel> {
        self.labels.by.labels.get(usize::try_from(self.key.number).ok()?)
    }
}

impl GroupBy for ByLabel {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, ByLabel>>] {
        match self.by {
            By::Callback => SpanGroup::<ByLabel>::BY_CALLBACK,
            By::Node => SpanGroup::<ByLabel>::BY_NODE,
            By::Topic => SpanGroup::<ByLabel>::BY_TOPIC,
            By::Kind => SpanGroup::<ByLabel>::BY_KIND,
        }
    }
}

/// Chains of messages.
struct Chains {
    spans: Spans<Parts>,
    names: Names,
    messages: Messages,
    /// By the number of the run that ends the chain, where all chains are added up.
    ended: Vec<EndedChain>,
}

/// A chain that is added up, if no other one continues it.
#[derive(Clone, Default)]
struct EndedChain {
    is_continued: bool,
    /// Its duration and parts, once it has ended.
    of: Option<(u64, Parts)>,
}

impl Chains {
    /// Keeps a chain for the sum over all, without those that it continues.
    fn keep(&mut self, run: u32, duration: u64, parts: Parts) {
        self.ended_of(run).of = Some((duration, parts));
        let mut next = self.messages.before(run);
        while let Some(before) = next.filter(|before| !self.ended_of(*before).is_continued) {
            self.ended_of(before).is_continued = true;
            next = self.messages.before(before);
        }
    }

    fn ended_of(&mut self, run: u32) -> &mut EndedChain {
        let at = run as usize;
        if at >= self.ended.len() {
            self.ended.resize_with(at + 1, EndedChain::default);
        }
        &mut self.ended[at]
    }
}

/// The parts of the time of chains.
#[derive(Clone, Default)]
struct Parts {
    running: u128,
    transport: u128,
    waiting: u128,
}

impl Sum for Parts {
    fn add(&mut self, other: Self) {
        self.running += other.running;
        self.transport += other.transport;
        self.waiting += other.waiting;
    }
}

impl Aggregate for Parts {
    fn pack<I: Iterator<Item = Option<i128>>>(&mut self, packing: &mut Packing<'_, I>) {
        packing.number(&mut self.running);
        packing.number(&mut self.transport);
        packing.number(&mut self.waiting);
    }
}

impl SpanFigures for Parts {
    const COLUMNS: &'static [ColumnOf<'static, Self>] = &[
        own_column("running_total_ns", Unit::Duration, "the part in callbacks", |of| {
            Value::Integer(of.running as i128)
        }),
        own_column(
            "transport_total_ns",
            Unit::Duration,
            "the part from publications until messages were taken",
            |of| Value::Integer(of.transport as i128),
        ),
        own_column("waiting_total_ns", Unit::Duration, "the part from taking messages to the callbacks", |of| {
            Value::Integer(of.waiting as i128)
        }),
    ];
}

/// A chain in a list.
struct ChainRow<'r> {
    chain: Chain,
    path: &'r str,
    pid: Option<i64>,
    tid: i64,
    span: SpanTimes,
}

impl<'r> ChainRow<'r> {
    const LOG: &'r [ColumnOf<'r, Self>] = &[
        own_column("chain", Unit::Name, CHAIN, |row| Value::Text(row.path)),
        own_column("messages", Unit::Count, "messages of the chain", |row| row.chain.messages.into()),
        own_column("pid", Unit::Name, "process of the callback that ended", |row| Value::integer(row.pid)),
        own_column("tid", Unit::Name, "thread of the callback that ended", |row| row.tid.into()),
        column("from", Unit::Time, |row| row.span.from.into()),
        column("to", Unit::Time, |row| row.span.to.into()),
        column("duration_ns", Unit::Duration, |row| row.span.duration.into()),
        own_column("running_ns", Unit::Duration, "time in callbacks", |row| row.chain.running.into()),
        own_column("transport_ns", Unit::Duration, "time from publications until messages were taken", |row| {
            row.chain.transport.into()
        }),
        own_column("waiting_ns", Unit::Duration, "time from taking messages to the callbacks", |row| {
            row.chain.waiting.into()
        }),
    ];
}

impl Observer for Chains {
    fn applied(&mut self, machines: &Machines, machine: u32, _: Option<CpuIndex>, happening: &Happening<'_>, at: Ns) {
        let Chains { spans, names, messages, .. } = self;
        let Some(run) = messages.apply(machines, machine, happening, at) else { return };
        let Some(chain) = run.chain else { return };
        let path = &**messages.path(&chain);
        let span = SpanTimes::new(machines, machine, (chain.from, run.to));
        let key = GroupKey { machine, name: names.number(path), ..GroupKey::default() };
        let parts =
            Parts { running: chain.running.into(), transport: chain.transport.into(), waiting: chain.waiting.into() };
        spans.add(machines, &span, key, parts.clone(), || {
            values_of(ChainRow::LOG, ChainRow { chain, path, pid: run.pid, tid: run.tid, span })
        });
        let is_added_up = spans.query.view == View::Statistics && spans.is_selected(span.to, span.duration);
        if let Some(number) = chain.run.filter(|_| is_added_up) {
            self.keep(number, span.duration, parts);
        }
    }
}

impl Analysis for Chains {
    fn subscriptions(&self) -> (&'static [ReportKind], ReportTimes) {
        (&[ReportKind::Applied], ReportTimes::All)
    }

    fn finish(self: Box<Self>, machines: &Rc<Machines>, range: Option<(Ns, Ns)>) -> Table {
        let Chains { mut spans, names, messages, ended } = *self;
        let mut all = <(Durations, Parts)>::default();
        for (duration, parts) in ended.into_iter().filter(|chain| !chain.is_continued).filter_map(|chain| chain.of) {
            all.0.add(duration);
            all.1.add(parts);
        }
        spans.all = Some(all);
        let labels = GroupLabels { by: ByChain::Chain, names, machines: machines.clone() };
        let mut table = spans.finish(DESCRIPTOR.name, range, columns_of(ChainRow::LOG), labels);
        table.notes.extend(messages.unknown.notes());
        table
    }
}

impl<'r> SpanGroup<'r, ByChain> {
    const COLUMNS: &'r [ColumnOf<'r, Self>] =
        &[own_column("chain", Unit::Name, CHAIN, |group| Value::text(group.name()))];
}

impl GroupBy for ByChain {
    fn columns<'r>(&self) -> &'r [ColumnOf<'r, SpanGroup<'r, ByChain>>] {
        SpanGroup::<ByChain>::COLUMNS
    }
}
