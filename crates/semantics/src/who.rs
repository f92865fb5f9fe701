//! Threads, processes and CPUs of events.

use tracemill_model::schema::{EventClassId, FieldKind, FieldPath, Scope};

use crate::fields::{find, is_integer, is_text, member};
use crate::{EventShape, Semantics, names};

/// Fields that say who an event is of; a field may be absent in an event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Who {
    /// Number of the thread, or of the [track](names::TRACK) that the trace numbers itself.
    pub id: Option<FieldPath>,
    /// Is it a track, not a thread?
    pub is_track: bool,
    /// Does it belong to its CPU, whatever thread runs there, as an interrupt does?
    pub is_of_cpu: bool,
    /// Does it begin or end something?
    pub is_half: bool,
    /// Process of the thread: a number, or a text.
    pub process: Option<FieldPath>,
    /// Name of the thread or track.
    pub name: Option<FieldPath>,
}

impl Semantics {
    /// Thread, process and CPU of the events of a class.
    ///
    /// Fields of an event itself go before those of its packet, and these before its header. Within a scope the order
    /// is that of [`names`]. A payload speaks of others (`sched_wakeup` names the thread that is woken), unless it is that of
    /// a trace whose calls name their thread there.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tracemill_model::schema::{
    ///     EventClass, FieldClass, FieldKind, IntegerClass, Member, PathStep, Schema, StreamClass, StructClass,
    /// };
    /// use tracemill_semantics::Semantics;
    ///
    /// let mut schema = Schema::new("example");
    /// let number = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(32)), 8));
    /// let member = |name: &str| Member::new(name, number);
    /// let members = vec![member("vpid"), member("vtid"), member("tid")];
    /// let context = schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8));
    /// let stream = schema.add_stream(StreamClass { common_context: Some(context), ..StreamClass::default() }).unwrap();
    /// let class = schema.add_event(EventClass::new(0, stream)).unwrap();
    ///
    /// let who = Semantics::new(&Arc::new(schema)).who(class);
    /// assert_eq!(who.id.unwrap().steps, [PathStep::Member(2)]);
    /// assert_eq!(who.process.unwrap().steps, [PathStep::Member(0)]);
    /// assert_eq!(who.name, None);
    /// ```
    pub fn who(&self, class: EventClassId) -> Who {
        let schema = &*self.schema;
        let (number, name) = names::TRACK;
        let of = |name: &str| {
            let scopes = [Scope::Payload, Scope::SpecificContext];
            scopes.into_iter().find_map(|scope| member(schema, scope, schema.scope_root(scope, class), name))
        };
        if let (Some(id), Some(name)) = (of(number), of(name)) {
            return Who { id: Some(id), is_track: true, name: Some(name), ..Who::default() };
        }
        let (event, packet) = ([Scope::CommonContext, Scope::SpecificContext], [Scope::PacketContext]);
        let groups: [&[Scope]; 4] = [&event, &packet, &[Scope::EventHeader], &[Scope::Payload]];
        let best = |names: &[&str], is_wanted: fn(&FieldKind) -> bool, groups: &[&[Scope]]| {
            groups.iter().find_map(|scopes| {
                names.iter().find_map(|name| {
                    let of = |scope: &Scope| find(schema, *scope, schema.scope_root(*scope, class), name, is_wanted);
                    scopes.iter().find_map(of)
                })
            })
        };
        let (shape, title) = self.shape(class);
        let says_itself = self.is_of_tasks || self.call(class).is_some();
        Who {
            id: best(names::THREAD, is_integer, &groups[..if says_itself { 4 } else { 3 }]),
            is_track: false,
            is_of_cpu: names::CPU_BOUND.iter().any(|known| names::short(&title).starts_with(known)),
            is_half: shape != EventShape::Instant,
            process: best(names::PROCESS, |kind| is_integer(kind) || is_text(kind), &groups[..3]),
            name: best(names::THREAD_NAME, is_text, &groups[..3]),
        }
    }

    /// The thread that the payload of a class names.
    pub(crate) fn payload_thread(&self, class: EventClassId) -> Option<FieldPath> {
        let root = self.schema.event(class).payload;
        names::THREAD.iter().find_map(|name| find(&self.schema, Scope::Payload, root, name, is_integer))
    }
}
