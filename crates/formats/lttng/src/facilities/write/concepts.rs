//! Kernel events of newer tracers that the facilities of `SPEC.md`, section 9, have too.

use tracemill_model::schema::Scope;
use tracemill_semantics::{Concept, Concepts, Field, NamedPath};

/// A concept, the facility and the event that it is here, and the names of its fields: there, and here in the order of the
/// facility.
type ConceptRow = (Concept, &'static str, &'static str, &'static [(Field, &'static str)]);

static ROWS: &[ConceptRow] = &[
    (
        Concept::Switch,
        "process",
        "schedchange",
        &[(Field::Prev, "out"), (Field::Next, "in"), (Field::State, "out_state")],
    ),
    (Concept::Fork, "process", "fork", &[(Field::Parent, "parent_pid"), (Field::Child, "child_pid")]),
    (Concept::Exit, "process", "exit", &[(Field::Tid, "pid")]),
    (Concept::Free, "process", "free", &[(Field::Tid, "pid")]),
    (Concept::Wake, "process", "wakeup", &[(Field::Tid, "pid")]),
    (Concept::SignalSend, "process", "signal", &[(Field::Tid, "pid"), (Field::Sig, "signal")]),
    (Concept::IrqEntry, "kernel", "irq_entry", &[(Field::Nr, "irq_id")]),
    (Concept::IrqExit, "kernel", "irq_exit", &[(Field::Nr, "irq_id")]),
    (Concept::SoftEntry, "kernel", "soft_irq_entry", &[(Field::Nr, "softirq_id")]),
    (Concept::SoftExit, "kernel", "soft_irq_exit", &[(Field::Nr, "softirq_id")]),
    (Concept::PageAlloc, "memory", "page_alloc", &[(Field::Order, "order"), (Field::Page, "address")]),
    (Concept::PageFree, "memory", "page_free", &[(Field::Order, "order"), (Field::Page, "address")]),
    (Concept::NetIn, "network", "packet_in", &[(Field::Skb, "skbuff")]),
    (Concept::NetOut, "network", "packet_out", &[(Field::Skb, "skbuff")]),
    (Concept::TimerExpired, "timer", "expired", &[(Field::Tid, "pid")]),
    (Concept::TimerSet, "timer", "set_itimer", &[(Field::Which, "which")]),
];

/// An event that a facility has.
pub(super) struct FacilityEvent {
    pub(super) facility: &'static str,
    pub(super) event: &'static str,
    /// Names of fields, there and here, in the order of the facility.
    pub(super) fields: Vec<(String, &'static str)>,
}

/// The event that stands for one of a name, with the fields that it `has`.
pub(super) fn find(name: &str, has: impl Fn(&str) -> bool) -> Option<FacilityEvent> {
    let place = |named: &NamedPath| (named.scopes == [Scope::Payload] && has(&named.name)).then(|| named.name.clone());
    let tie = Concepts::built_in().find(name, place)?;
    let &(_, facility, event, fields) = ROWS.iter().find(|row| row.0 == tie.concept)?;
    let fields = fields.iter().map(|&(field, here)| Some((tie.field(field)?.clone(), here))).collect::<Option<_>>()?;
    Some(FacilityEvent { facility, event, fields })
}
