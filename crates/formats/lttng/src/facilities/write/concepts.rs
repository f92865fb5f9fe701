//! Kernel events of newer tracers that the facilities of section 9 have too.

/// A concept, the facility and the event that it is here, and the names of its fields: there, and here in the order of the
/// facility.
type Row = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

static ROWS: &[Row] = &[
    ("switch", "process", "schedchange", &[("prev", "out"), ("next", "in"), ("state", "out_state")]),
    ("fork", "process", "fork", &[("parent", "parent_pid"), ("child", "child_pid")]),
    ("exit", "process", "exit", &[("tid", "pid")]),
    ("free", "process", "free", &[("tid", "pid")]),
    ("wake", "process", "wakeup", &[("tid", "pid")]),
    ("signal_send", "process", "signal", &[("tid", "pid"), ("sig", "signal")]),
    ("irq_entry", "kernel", "irq_entry", &[("nr", "irq_id")]),
    ("irq_exit", "kernel", "irq_exit", &[("nr", "irq_id")]),
    ("soft_entry", "kernel", "soft_irq_entry", &[("nr", "softirq_id")]),
    ("soft_exit", "kernel", "soft_irq_exit", &[("nr", "softirq_id")]),
    ("page_alloc", "memory", "page_alloc", &[("order", "order"), ("page", "address")]),
    ("page_free", "memory", "page_free", &[("order", "order"), ("page", "address")]),
    ("net_in", "network", "packet_in", &[("skb", "skbuff")]),
    ("net_out", "network", "packet_out", &[("skb", "skbuff")]),
    ("timer_expired", "timer", "expired", &[("tid", "pid")]),
    ("timer_set", "timer", "set_itimer", &[("which", "which")]),
];

/// An event that a facility has.
pub(super) struct Known {
    pub(super) facility: &'static str,
    pub(super) event: &'static str,
    /// Names of fields, there and here, in the order of the facility.
    pub(super) fields: Vec<(&'static str, &'static str)>,
}

/// The event that stands for one of a name, with the fields that it `has`.
pub(super) fn find(name: &str, has: impl Fn(&str) -> bool) -> Option<Known> {
    let concept = tracemill_semantics::concept(name, has)?;
    let &(_, facility, event, fields) = ROWS.iter().find(|row| row.0 == concept.name)?;
    let fields = fields.iter().map(|&(field, here)| Some((concept.field(field)?, here))).collect::<Option<_>>()?;
    Some(Known { facility, event, fields })
}
