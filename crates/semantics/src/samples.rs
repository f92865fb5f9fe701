//! Samples: events that say which code a thread was in.

use tracemill_model::schema::{EventClassId, FieldKind, FieldPath, Scope};

use crate::fields::{find, is_integer, is_text};
use crate::{Concept, Concepts, Field, Semantics, names};

/// Fields of a sample. The stack is in one of three forms: texts of frames, addresses, or the only address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SampleFields {
    /// Addresses of the stack in the kernel: an array, the innermost first.
    pub kernel: Option<FieldPath>,
    /// Addresses of the stack in the program: an array, the innermost first.
    pub user: Option<FieldPath>,
    /// Registers of the program: an array.
    pub registers: Option<FieldPath>,
    /// The kind of machine code that the registers are of.
    pub abi: Option<FieldPath>,
    /// A copy of the program's stack, from the stack pointer on: an array of bytes.
    pub stack_copy: Option<FieldPath>,
    /// Frames as texts, such as `401136 main+0x2a (/usr/bin/x)`: an array, the innermost first.
    pub frames: Option<FieldPath>,
    /// The address that was executed.
    pub address: Option<FieldPath>,
    /// Name of the function of that address, `main+0x2a`, and its file.
    pub symbol: Option<FieldPath>,
    /// See [`SampleFields::symbol`].
    pub file: Option<FieldPath>,
    /// For how many events it stands.
    pub weight: Option<FieldPath>,
    /// The CPU, where the event itself has it.
    pub cpu: Option<FieldPath>,
}

/// Fields by which an event says that a thread leaves a CPU or gets one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TurnFields {
    /// The CPU turns from one thread to another.
    Switch {
        /// The thread that comes.
        next: FieldPath,
        /// The thread that goes; that of the event where it is not there.
        prev: Option<FieldPath>,
        /// The state of the thread that goes.
        state: Option<FieldPath>,
        /// Its name.
        name: Option<FieldPath>,
    },
    /// The thread of the event leaves the CPU or gets one.
    Own {
        /// Does it leave?
        out: FieldPath,
        /// Could it have run on?
        preempted: Option<FieldPath>,
    },
    /// The thread of the event leaves the CPU. Other events say when it gets one again.
    Leaves,
}

/// Fields of an event that wakes a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WakeFields {
    /// The thread.
    pub thread: FieldPath,
    /// The state of the CPU, in ftrace's bits.
    pub context: Option<FieldPath>,
}

impl Semantics {
    /// How the events of a class say that threads leave and get CPUs.
    pub fn turn(&self, class: EventClassId) -> Option<TurnFields> {
        let tie = Concepts::built_in().tie(&self.schema, class).filter(|tie| tie.concept == Concept::Switch);
        if let Some(tie) = tie {
            let field = |field| tie.field(field).cloned();
            let (prev, state, name) = (field(Field::Prev), field(Field::State), field(Field::PrevComm));
            return Some(TurnFields::Switch { next: field(Field::Next)?, prev, state, name });
        }
        let name = self.schema.event(class).name.as_deref()?;
        // Without records of the returns it says too little.
        let own_switches = || {
            let names = self.schema.events().iter().filter_map(|class| class.name.as_deref());
            names.into_iter().any(|name| names::OWN_SWITCHES.contains(&name))
        };
        if name.split([':', '/']).next() == Some(names::LEAVING_SAMPLE) && own_switches() {
            return Some(TurnFields::Leaves);
        }
        let flag = |name: &str| self.payload(class, name, |kind| matches!(kind, FieldKind::Boolean(_)));
        let [out, preempted] = names::OWN_SWITCH_FLAGS;
        names::OWN_SWITCHES
            .contains(&name)
            .then(|| Some(TurnFields::Own { out: flag(out)?, preempted: flag(preempted) }))?
    }

    /// Do the events of a class say nothing but their sample? Then the number of their fields that are neither part of its stack
    /// nor say whose it is.
    pub fn only_sample(&self, class: EventClassId) -> Option<usize> {
        self.sample(class)?;
        let payload = self.schema.scope_root(Scope::Payload, class)?;
        let FieldKind::Struct(payload) = &self.schema.field_class(payload).kind else { return None };
        let stacks = [names::KERNEL_STACK, names::USER_STACK, names::FRAMES, names::THREAD, names::PROCESS];
        let others = [names::CODE_ADDRESS, names::SYMBOL, names::CODE_FILE, names::SAMPLE_CPU];
        let is_kept = |name: &str| others.contains(&name) || stacks.iter().any(|names| names.contains(&name));
        let members = payload.members.iter().map(|member| &*member.name);
        members
            .clone()
            .all(|name| names::OF_SAMPLES.contains(&name))
            .then(|| members.filter(|name| !is_kept(name)).count())
    }

    /// How the events of a class say that they wake a thread.
    pub fn woken(&self, class: EventClassId) -> Option<WakeFields> {
        let tie = Concepts::built_in().tie(&self.schema, class).filter(|tie| tie.concept == Concept::Wake)?;
        Some(WakeFields { thread: tie.field(Field::Tid)?.clone(), context: tie.field(Field::Context).cloned() })
    }

    /// The sample that the events of a class are. A class is one of samples when its events have a call chain, or the address of
    /// the code that ran and a period: an address alone may be any.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tracemill_model::schema::{
    ///     EventClass, FieldClass, FieldKind, IntegerClass, Member, Schema, StreamClass, StructClass,
    /// };
    /// use tracemill_semantics::Semantics;
    ///
    /// let mut schema = Schema::new("example");
    /// let number = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(64)), 8));
    /// let stream = schema.add_stream(StreamClass::default()).unwrap();
    /// let mut class = |id, names: &[&str]| {
    ///     let members = names.iter().map(|name| Member::new(*name, number)).collect();
    ///     let payload = schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8));
    ///     schema.add_event(EventClass { payload: Some(payload), ..EventClass::new(id, stream) }).unwrap()
    /// };
    /// let (sample, function) = (class(0, &["ip", "period"]), class(1, &["ip", "parent_ip"]));
    /// let semantics = Semantics::new(&Arc::new(schema));
    /// assert!(semantics.sample(sample).is_some());
    /// assert_eq!(semantics.sample(function), None);
    /// ```
    pub fn sample(&self, class: EventClassId) -> Option<SampleFields> {
        // The program's part of a stack that was not complete when its sample was taken.
        let name = self.schema.event(class).name.as_deref().unwrap_or_default();
        if name.starts_with(names::PERF_RECORD) {
            return None;
        }
        let of = |names: &[&str], is_wanted: &dyn Fn(&FieldKind) -> bool| {
            names.iter().find_map(|name| {
                SCOPES
                    .iter()
                    .find_map(|&scope| find(&self.schema, scope, self.schema.scope_root(scope, class), name, is_wanted))
            })
        };
        let array = |is_element: fn(&FieldKind) -> bool| move |kind: &FieldKind| matches!(kind, FieldKind::Array(array) if is_element(&self.schema.field_class(array.element).kind));
        let mut fields = SampleFields {
            kernel: of(names::KERNEL_STACK, &array(is_integer)),
            user: of(names::USER_STACK, &array(is_integer)),
            registers: of(&[names::USER_REGISTERS], &array(is_integer)),
            abi: of(&[names::USER_ABI], &is_integer),
            stack_copy: of(&[names::USER_STACK_COPY], &array(is_integer)),
            frames: of(names::FRAMES, &array(is_text)),
            address: of(&[names::CODE_ADDRESS], &is_integer),
            symbol: of(&[names::SYMBOL], &is_text),
            file: of(&[names::CODE_FILE], &is_text),
            weight: of(&[names::PERIOD], &is_integer),
            cpu: of(&[names::SAMPLE_CPU], &is_integer),
        };
        if fields.frames.is_some() {
            // These were named by who had the programs: their addresses are of another machine.
            (fields.kernel, fields.user, fields.registers, fields.stack_copy) = (None, None, None, None);
        }
        let has_stack = fields.kernel.is_some() || fields.user.is_some() || fields.frames.is_some();
        let has_place = fields.address.is_some()
            && (fields.weight.is_some() || of(&[names::CODE_PLACE], &is_text).is_some() || fields.file.is_some());
        (has_stack || has_place).then_some(fields)
    }
}

/// The scopes of what an event says itself, the payload first: a context of the same name says less.
const SCOPES: [Scope; 3] = [Scope::Payload, Scope::SpecificContext, Scope::CommonContext];
