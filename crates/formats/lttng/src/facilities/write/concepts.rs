//! Kernel events of newer tracers that the facilities of section 9 have too.

/// An event that a facility has.
pub(super) struct Concept {
    pub(super) facility: &'static str,
    pub(super) event: &'static str,
    /// Names of fields, there and here, in the order of the facility.
    pub(super) fields: &'static [(&'static str, &'static str)],
}

/// A name, and what it is.
type Row = (&'static [&'static str], Concept);

const fn row(
    names: &'static [&'static str],
    facility: &'static str,
    event: &'static str,
    fields: &'static [(&'static str, &'static str)],
) -> Row {
    (names, Concept { facility, event, fields })
}

static ROWS: &[Row] = &[
    row(
        &["sched_switch"],
        "process",
        "schedchange",
        &[("prev_pid", "out"), ("next_pid", "in"), ("prev_state", "out_state")],
    ),
    row(
        &["sched_switch"],
        "process",
        "schedchange",
        &[("prev_tid", "out"), ("next_tid", "in"), ("prev_state", "out_state")],
    ),
    row(&["sched_process_fork"], "process", "fork", &[("parent_pid", "parent_pid"), ("child_pid", "child_pid")]),
    row(&["sched_process_fork"], "process", "fork", &[("parent_tid", "parent_pid"), ("child_tid", "child_pid")]),
    row(&["sched_process_exit"], "process", "exit", &[("pid", "pid")]),
    row(&["sched_process_exit"], "process", "exit", &[("tid", "pid")]),
    row(&["sched_process_free"], "process", "free", &[("pid", "pid")]),
    row(&["sched_process_free"], "process", "free", &[("tid", "pid")]),
    row(&["sched_wakeup"], "process", "wakeup", &[("pid", "pid")]),
    row(&["sched_wakeup"], "process", "wakeup", &[("tid", "pid")]),
    row(&["signal_generate"], "process", "signal", &[("pid", "pid"), ("sig", "signal")]),
    row(&["irq_handler_entry"], "kernel", "irq_entry", &[("irq", "irq_id")]),
    row(&["irq_handler_exit"], "kernel", "irq_exit", &[("irq", "irq_id")]),
    row(&["softirq_entry", "irq_softirq_entry"], "kernel", "soft_irq_entry", &[("vec", "softirq_id")]),
    row(&["softirq_exit", "irq_softirq_exit"], "kernel", "soft_irq_exit", &[("vec", "softirq_id")]),
    row(&["mm_page_alloc", "kmem_mm_page_alloc"], "memory", "page_alloc", &[("order", "order"), ("page", "address")]),
    row(&["mm_page_free", "kmem_mm_page_free"], "memory", "page_free", &[("order", "order"), ("page", "address")]),
    row(&["netif_receive_skb", "net_if_receive_skb"], "network", "packet_in", &[("skbaddr", "skbuff")]),
    row(&["net_dev_xmit"], "network", "packet_out", &[("skbaddr", "skbuff")]),
    row(&["itimer_expire", "timer_itimer_expire"], "timer", "expired", &[("pid", "pid")]),
    row(&["itimer_state", "timer_itimer_state"], "timer", "set_itimer", &[("which", "which")]),
];

/// What an event is of which the name is known and whether it has a field.
pub(super) fn find(name: &str, has: impl Fn(&str) -> bool) -> Option<&'static Concept> {
    let is_it = |(names, concept): &&Row| names.contains(&name) && concept.fields.iter().all(|(field, _)| has(field));
    ROWS.iter().find(is_it).map(|(_, concept)| concept)
}
