//! Events of kernels as Perfetto's own messages for them (`ftrace_event.proto`, `ftrace_event_bundle.proto`).
//!
//! trace_processor makes its tables `sched`, `thread_state` and `cpu_counter_track`, its tracks of CPUs and interrupts, and
//! the names of threads of these messages alone. Their fields are found by name, once for each event class: the names of
//! LTTng, ftrace and legacy LTTng stand side by side in [`MESSAGES`].

use std::collections::BTreeMap;

use tracemill_codec::plan::{NodeId, Plan, Visitor, VisitorCall};
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::schema::{EnvValue, EventClass, EventClassId, FieldClassId, FieldKind, Roles, Schema, Scope};
use tracemill_semantics::{Concept, Concepts, Recording, Tie, member, names, node_of};

use super::packets::PacketFile;
use tracemill_format::perfetto::messages::message_at;
use tracemill_format::perfetto::{FieldType, ProtoWriter, message};

/// Fields of `FtraceEventBundle`.
const BUNDLE_CPU: u32 = 1;
const BUNDLE_EVENT: u32 = 2;
const BUNDLE_HAS_LOST_EVENTS: u32 = 3;
/// Fields of `FtraceEvent`.
const EVENT_TIMESTAMP: u32 = 1;
pub(super) const EVENT_PID: u32 = 2;
const EVENT_FLAGS: u32 = 5;
const SCHED_WAKING: u32 = 20;
const TASK_NEWTASK: u32 = 235;
const TASK_RENAME: u32 = 236;
const PREV_STATE: u32 = 4;
/// The states of a thread, without what says that it was preempted.
const OLD_STATES: u64 = 0xff;
/// The flag of `clone` that makes a thread of the same process.
const CLONE_THREAD: u64 = 0x1_0000;
/// Bytes of a bundle that is written.
const BUNDLE_BYTES: usize = 8 << 10;

/// The kind of a field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MessageFieldKind {
    Integer,
    Text,
    Integers,
}

use MessageFieldKind::{Integer, Integers, Text};

/// A field of a message: its number, its kind, and the names that tracers have for it.
type MessageField = (u32, MessageFieldKind, &'static [&'static str]);

/// A message: the events that it stands for, by concept or by name, and its field of `FtraceEvent`.
struct Message {
    number: u32,
    concept: Option<Concept>,
    /// Short names of the events, when there are several messages of a concept, or no concept.
    events: &'static [&'static str],
    fields: &'static [MessageField],
    /// Fields that an event must have: the first ones.
    required: usize,
    /// Does its meaning depend on the thread that runs?
    needs_thread: bool,
}

const COMM: MessageField = (1, Text, names::ABOUT_NAME);
const TASK: MessageField = (2, Integer, names::ABOUT_TASK);
const PRIO: MessageField = (3, Integer, &["prio", "priority"]);
const WAKE: &[MessageField] = &[TASK, COMM, PRIO, (4, Integer, &["success"]), (5, Integer, names::ABOUT_CPU)];
const ISSUE: &[MessageField] = &[
    (1, Integer, &["dev"]),
    (2, Integer, &["sector"]),
    (3, Integer, &["nr_sector"]),
    (4, Integer, &["bytes"]),
    (5, Text, &["rwbs"]),
    (6, Text, names::ABOUT_NAME),
    (7, Text, &["cmd"]),
];
const IRQ: MessageField = (1, Integer, &["irq", "irq_id"]);
const VECTOR: &[MessageField] = &[(1, Integer, &["vec", "softirq_id"])];

const fn of_concept(number: u32, concept: Concept, fields: &'static [MessageField]) -> Message {
    Message { number, concept: Some(concept), events: &[], fields, required: 1, needs_thread: false }
}

const fn named(
    number: u32,
    concept: Option<Concept>,
    event: &'static [&'static str],
    fields: &'static [MessageField],
) -> Message {
    Message { number, concept, events: event, fields, required: 1, needs_thread: true }
}

static MESSAGES: [Message; 27] = [
    of_concept(
        4,
        Concept::Switch,
        &[
            (6, Integer, &["next_pid", "next_tid", "in"]),
            (2, Integer, &["prev_pid", "prev_tid", "out"]),
            (PREV_STATE, Integer, &["prev_state", "out_state"]),
            (1, Text, &["prev_comm"]),
            (3, Integer, &["prev_prio"]),
            (5, Text, &["next_comm"]),
            (7, Integer, &["next_prio"]),
        ],
    ),
    named(SCHED_WAKING, Some(Concept::Wake), &["sched_waking"], WAKE),
    named(114, Some(Concept::Wake), &["sched_wakeup_new", "sched_wakeup_new_task"], WAKE),
    named(17, Some(Concept::Wake), &["sched_wakeup", "sched_try_wakeup", "wakeup"], WAKE),
    of_concept(491, Concept::Migrate, &[TASK, COMM, PRIO, (4, Integer, &["orig_cpu"]), (5, Integer, &["dest_cpu"])]),
    of_concept(
        239,
        Concept::Fork,
        &[
            (4, Integer, &["child_tid", "child_pid"]),
            (2, Integer, &["parent_tid", "parent_pid"]),
            (1, Text, &["parent_comm"]),
            (3, Text, &["child_comm"]),
        ],
    ),
    of_concept(
        237,
        Concept::Exec,
        &[(1, Text, &["filename"]), (2, Integer, names::ABOUT_TASK), (3, Integer, &["old_pid", "old_tid"])],
    ),
    of_concept(238, Concept::Exit, &[TASK, COMM, (4, Integer, &["prio"])]),
    of_concept(240, Concept::Free, &[TASK, COMM, PRIO]),
    of_concept(
        353,
        Concept::Prio,
        &[(4, Integer, names::ABOUT_TASK), COMM, (2, Integer, &["newprio"]), (3, Integer, &["oldprio"])],
    ),
    of_concept(36, Concept::IrqEntry, &[IRQ, (2, Text, &["name"]), (3, Integer, &["handler"])]),
    of_concept(37, Concept::IrqExit, &[IRQ, (2, Integer, &["ret", "handled"])]),
    of_concept(24, Concept::SoftEntry, VECTOR),
    of_concept(25, Concept::SoftExit, VECTOR),
    of_concept(26, Concept::SoftRaise, VECTOR),
    named(329, Some(Concept::SysEntry), &["sys_enter"], &[(1, Integer, &["id"]), (2, Integers, &["args"])]),
    named(330, Some(Concept::SysExit), &["sys_exit"], &[(1, Integer, &["id"]), (2, Integer, &["ret"])]),
    of_concept(126, Concept::RqInsert, ISSUE),
    of_concept(45, Concept::RqIssue, ISSUE),
    of_concept(
        125,
        Concept::RqComplete,
        &[
            (1, Integer, &["dev"]),
            (2, Integer, &["sector"]),
            (3, Integer, &["nr_sector"]),
            (4, Integer, &["errors"]),
            (5, Text, &["rwbs"]),
            (6, Text, &["cmd"]),
            (7, Integer, &["error"]),
        ],
    ),
    of_concept(11, Concept::Frequency, &[(1, Integer, &["state"]), (2, Integer, names::ABOUT_CPU)]),
    Message {
        number: 13,
        concept: None,
        events: &["cpu_idle", "power_cpu_idle"],
        fields: &[(1, Integer, &["state"]), (2, Integer, names::ABOUT_CPU)],
        required: 2,
        needs_thread: false,
    },
    Message {
        number: TASK_NEWTASK,
        concept: None,
        events: &["task_newtask"],
        fields: &[
            (1, Integer, names::ABOUT_TASK),
            (3, Integer, &["clone_flags"]),
            (2, Text, names::ABOUT_NAME),
            (4, Integer, &["oom_score_adj"]),
        ],
        required: 2,
        needs_thread: true,
    },
    Message {
        number: TASK_RENAME,
        concept: None,
        events: &["task_rename"],
        fields: &[
            (1, Integer, names::ABOUT_TASK),
            (3, Text, &["newcomm"]),
            (2, Text, &["oldcomm"]),
            (4, Integer, &["oom_score_adj"]),
        ],
        required: 2,
        needs_thread: true,
    },
    Message {
        number: 18,
        concept: None,
        events: &["sched_blocked_reason"],
        fields: &[(1, Integer, names::ABOUT_TASK), (3, Integer, &["io_wait"]), (2, Integer, &["caller"])],
        required: 2,
        needs_thread: true,
    },
    Message {
        number: 59,
        concept: None,
        events: &["workqueue_queue_work"],
        fields: &[
            (1, Integer, &["work"]),
            (2, Integer, &["function"]),
            (3, Text, &["workqueue"]),
            (4, Integer, &["req_cpu"]),
            (5, Integer, names::ABOUT_CPU),
        ],
        required: 2,
        needs_thread: true,
    },
    Message {
        number: 58,
        concept: None,
        events: &["workqueue_execute_start"],
        fields: &[(1, Integer, &["work"]), (2, Integer, &["function"])],
        required: 2,
        needs_thread: true,
    },
];

/// How the events of a class become messages.
#[derive(Debug)]
pub(super) struct EventMessage {
    number: u32,
    /// By node of the plan of the event: the field of the message, 0 for none.
    pub(super) fields: Vec<u32>,
    /// By node of the plan of the header: the field of `FtraceEvent`.
    pub(super) header: Vec<u32>,
    /// Does the message say all that the fields of an event say?
    pub(super) is_whole: bool,
    /// Fields of the header that no field of the message holds.
    pub(super) lost_header: u64,
    /// Has the message another name than the class, or have its fields?
    pub(super) has_other_names: bool,
    /// The field of a switch that is the state of the thread that it leaves, when its preemption has another bit than
    /// trace_processor expects: kernels before 4.14 moved that bit with each state that they got.
    pub(super) old_state: Option<u32>,
    /// Does the header name the thread that did it?
    pub(super) names_thread: bool,
    /// Does its meaning depend on that thread, while the header does not name it?
    pub(super) needs_thread: bool,
}

impl EventMessage {
    /// The message for the events of a class; `None` when there is none.
    ///
    /// trace_processor makes threads runnable by `sched_waking` alone: where a trace has none, the other wakes are written as
    /// such.
    pub(super) fn find(
        schema: &Schema,
        id: EventClassId,
        plans: &TracePlans,
        has_waking: bool,
    ) -> Option<EventMessage> {
        let class = schema.event(id);
        // Programs name their events themselves, whatever these are called.
        if Recording::from_schema(schema).domain == Some("ust") {
            return None;
        }
        let short = names::short(class.name.as_deref()?);
        let concept = Concepts::built_in().tie(schema, id).map(|tie| tie.concept);
        let field = |names: &[&'static str]| {
            let found = |name: &&'static str| Some((member(schema, Scope::Payload, class.payload, name)?, *name));
            names.iter().find_map(found)
        };
        let fits = |message: &&Message| {
            let is_named = message.events.is_empty() || message.events.contains(&short);
            let has = |(_, _, names): &MessageField| field(names).is_some();
            is_named
                && (message.concept.is_none() || message.concept == concept)
                && message.fields[..message.required].iter().all(has)
        };
        let found = MESSAGES.iter().find(fits)?;
        let plan = plans.event_rows(id);
        let mut fields = vec![0; plan.nodes.len()];
        let mut written = 0;
        let number = if found.concept == Some(Concept::Wake) && !has_waking { SCHED_WAKING } else { found.number };
        let own = message("FtraceEvent").and_then(|of| of.field(number));
        let mut has_other_names = own.is_none_or(|own| Some(own.name) != class.name.as_deref());
        let own_fields = own.and_then(|own| match own.of {
            FieldType::Message(number) => message_at(number),
            _ => None,
        });
        for (number, kind, names) in found.fields {
            let Some((path, given)) = field(names) else { continue };
            let Some(node) = node_of(plan, &path).filter(|node| is_of(schema, plan, *node, *kind)) else { continue };
            // The element of an array stands below it.
            fields[node as usize + usize::from(*kind == Integers)] = *number;
            written += 1;
            has_other_names |= own_fields.and_then(|of| of.field(*number)).is_none_or(|own| own.name != given);
        }
        let contexts = [Scope::CommonContext, Scope::SpecificContext]
            .map(|scope| schema.members(schema.scope_root(scope, id)).len());
        let is_whole = written == schema.members(class.payload).len() && contexts == [0, 0];
        let (header, lost_header) = header_fields(schema, id, plans);
        Some(EventMessage {
            number,
            has_other_names,
            old_state: (found.concept == Some(Concept::Switch) && is_old(schema)).then_some(PREV_STATE),
            names_thread: header.contains(&EVENT_PID),
            needs_thread: found.needs_thread && !header.contains(&EVENT_PID),
            fields,
            header,
            is_whole,
            lost_header,
        })
    }
}

/// The tie of the class of a trace by which CPUs turn to other threads.
pub(super) fn switch_of(schema: &Schema) -> Option<Tie> {
    let tie = |at| Concepts::built_in().tie(schema, EventClassId(at));
    (0..schema.events().len() as u32).filter_map(tie).find(|tie| tie.concept == Concept::Switch)
}

/// Was a trace recorded of a kernel before 4.14?
fn is_old(schema: &Schema) -> bool {
    let Some(EnvValue::String(release)) = schema.env("kernel_release") else { return false };
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    numbers.next().is_some_and(|major| (major, numbers.next().unwrap_or(0)) < (4, 14))
}

/// Has a trace a class of events of this short name?
pub(super) fn has_class(schema: &Schema, short: &str) -> bool {
    let is_it = |class: &EventClass| class.name.as_deref().map(names::short) == Some(short);
    schema.events().iter().any(is_it)
}

/// The fields of the header that are those of `FtraceEvent`, by node of its plan, and the number of the others.
fn header_fields(schema: &Schema, id: EventClassId, plans: &TracePlans) -> (Vec<u32>, u64) {
    let class = schema.event(id);
    let root = schema.stream(class.stream).event_header;
    let Some(header) = root.filter(|root| schema.says_more(*root)) else { return (Vec::new(), 0) };
    let plan = plans.header_rows(class.stream);
    let mut fields = vec![0; plan.nodes.len()];
    for (number, name) in [(EVENT_PID, names::FTRACE_HEADER[0]), (EVENT_FLAGS, names::FTRACE_HEADER[1])] {
        let node = member(schema, Scope::EventHeader, Some(header), name).and_then(|path| node_of(plan, &path));
        if let Some(node) = node {
            fields[node as usize] = number;
        }
    }
    let others = schema.members(Some(header)).iter().filter(|member| {
        let has_role = schema.field_class(member.class).roles != Roles::NONE;
        !has_role && !names::FTRACE_HEADER.contains(&&*member.name)
    });
    (fields, others.count() as u64)
}

/// Does a node have values of a kind?
fn is_of(schema: &Schema, plan: &Plan, node: NodeId, kind: MessageFieldKind) -> bool {
    let id: FieldClassId = plan.nodes[node as usize].class;
    match (&schema.field_class(id).kind, kind) {
        (FieldKind::Integer(class), Integer) => class.len_bits <= 64,
        (FieldKind::String(_) | FieldKind::Rendered(_), Text) => true,
        (FieldKind::Array(array), Integers) => matches!(schema.field_class(array.element).kind, FieldKind::Integer(_)),
        _ => false,
    }
}

/// Writes the fields of an event into its message.
pub(super) struct MessageFields<'a> {
    pub(super) out: &'a mut ProtoWriter,
    pub(super) numbers: &'a [u32],
    pub(super) old_state: Option<u32>,
}

impl MessageFields<'_> {
    #[inline]
    fn number(&self, node: NodeId) -> Option<u32> {
        self.numbers.get(node as usize).copied().filter(|number| *number != 0)
    }
}

impl Visitor for MessageFields<'_> {
    const FOR_PEOPLE: bool = true;

    fn any_call(&mut self, _node: NodeId, _shown: VisitorCall<'_>) {}

    fn unsigned(&mut self, node: NodeId, value: u64) {
        if let Some(number) = self.number(node) {
            let value = if self.old_state == Some(number) { value & OLD_STATES } else { value };
            self.out.unsigned(number, value);
        }
    }

    fn signed(&mut self, node: NodeId, value: i64) {
        if let Some(number) = self.number(node) {
            let value = if self.old_state == Some(number) { value & OLD_STATES as i64 } else { value };
            self.out.signed(number, value);
        }
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        if let Some(number) = self.number(node) {
            self.out.bytes(number, String::from_utf8_lossy(bytes).as_bytes());
        }
    }
}

/// The events of CPUs that no packet holds yet.
#[derive(Default)]
pub(super) struct Bundles {
    of_cpus: BTreeMap<u32, Bundle>,
}

#[derive(Default)]
struct Bundle {
    events: ProtoWriter,
    has_lost_events: bool,
}

/// A thread that begins: see [`Bundles::new_task`].
pub(super) struct NewTask<'a> {
    pub(super) parent: i64,
    pub(super) child: i64,
    pub(super) name: &'a str,
    pub(super) is_thread: bool,
}

impl Bundles {
    /// Adds an event of a CPU; `header` are fields of `FtraceEvent`, `fields` those of the message.
    pub(super) fn event(&mut self, cpu: u32, ns: u64, header: &[u8], message: &EventMessage, fields: &[u8]) {
        let out = &mut self.of_cpus.entry(cpu).or_default().events;
        out.begin(BUNDLE_EVENT);
        out.unsigned(EVENT_TIMESTAMP, ns);
        out.append(header);
        out.bytes(message.number, fields);
        out.end();
    }

    /// Adds the start of a thread, when the process that it belongs to is known: `task_newtask` says so.
    pub(super) fn new_task(&mut self, cpu: u32, ns: u64, task: &NewTask<'_>) {
        let out = &mut self.of_cpus.entry(cpu).or_default().events;
        out.begin(BUNDLE_EVENT);
        out.unsigned(EVENT_TIMESTAMP, ns);
        out.signed(EVENT_PID, task.parent);
        out.begin(TASK_NEWTASK);
        out.signed(1, task.child);
        out.bytes(2, task.name.as_bytes());
        out.unsigned(3, if task.is_thread { CLONE_THREAD } else { 0 });
        out.end();
        out.end();
    }

    /// Adds that a thread has another name, and with it its process.
    pub(super) fn renamed(&mut self, cpu: u32, ns: u64, thread: i64, name: &str) {
        let out = &mut self.of_cpus.entry(cpu).or_default().events;
        out.begin(BUNDLE_EVENT);
        out.unsigned(EVENT_TIMESTAMP, ns);
        out.signed(EVENT_PID, thread);
        out.begin(TASK_RENAME);
        out.signed(1, thread);
        out.bytes(3, name.as_bytes());
        out.end();
        out.end();
    }

    /// Events of a CPU were lost before the next one.
    pub(super) fn lose(&mut self, cpu: u32, packets: &mut PacketFile) {
        self.write(cpu, packets);
        self.of_cpus.entry(cpu).or_default().has_lost_events = true;
    }

    /// Writes the events of a CPU when they are many.
    #[inline]
    pub(super) fn write_full(&mut self, cpu: u32, packets: &mut PacketFile) {
        if self.of_cpus.get(&cpu).is_some_and(|bundle| bundle.events.len() >= BUNDLE_BYTES) {
            self.write(cpu, packets);
        }
    }

    /// Writes all events.
    pub(super) fn write_all(&mut self, packets: &mut PacketFile) {
        let cpus: Vec<u32> = self.of_cpus.keys().copied().collect();
        for cpu in cpus {
            self.write(cpu, packets);
        }
    }

    fn write(&mut self, cpu: u32, packets: &mut PacketFile) {
        let Some(bundle) = self.of_cpus.get_mut(&cpu).filter(|bundle| !bundle.events.is_empty()) else { return };
        packets.ftrace(|out| {
            out.unsigned(BUNDLE_CPU, cpu.into());
            if std::mem::take(&mut bundle.has_lost_events) {
                out.unsigned(BUNDLE_HAS_LOST_EVENTS, 1);
            }
            out.append(bundle.events.written());
        });
        bundle.events.clear();
    }
}
