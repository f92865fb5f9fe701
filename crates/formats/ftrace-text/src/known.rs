//! Events whose texts are known: the types of their fields cannot be seen in the text.
//!
//! The patterns follow the `TP_printk` of the kernel's `include/trace/events` and what the plugins of trace-cmd print instead.
//! Names of fields are those of the kernel's formats, so that an event has the same fields as in a `trace.dat`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::line::EventForm;
use super::pattern::TextPattern;

/// Names of events with blanks between them; a `*` at an end stands for any rest. And the patterns, the usual ones first.
type Known = (&'static str, &'static [&'static str]);

/// The line of the table for samples of perf.
const SAMPLE: &str = "sample:";

const KNOWN: &[Known] = &[
    (SAMPLE, &["{ip:hex} {symbol:text} ({dso:text})", "{ip:hex} {symbol:text}", "{ip:hex}", ""]),
    (
        "sched_switch",
        &[
            "prev_comm={prev_comm:text} prev_pid={prev_pid:i32} prev_prio={prev_prio:i32} prev_state={prev_state:state} ==> next_comm={next_comm:text} next_pid={next_pid:i32} next_prio={next_prio:i32}",
            "{prev_comm:text}:{prev_pid:i32} [{prev_prio:i32}] {prev_state:plugin-state} ==> {next_comm:text}:{next_pid:i32} [{next_prio:i32}]",
            "prev_comm={prev_comm:text} prev_pid={prev_pid:i32} prev_prio={prev_prio:i32} prev_state={prev_state:state} next_comm={next_comm:text} next_pid={next_pid:i32} next_prio={next_prio:i32}",
            "task {prev_comm:text}:{prev_pid:i32} [{prev_prio:i32}] ({prev_state:state}) ==> {next_comm:text}:{next_pid:i32} [{next_prio:i32}]",
        ],
    ),
    (
        "sched_waking sched_wakeup sched_wakeup_new",
        &[
            "comm={comm:text} pid={pid:i32} prio={prio:i32} target_cpu={target_cpu:i32}",
            "{comm:text}:{pid:i32} [{prio:i32}] CPU:{target_cpu:i32}",
            "comm={comm:text} pid={pid:i32} prio={prio:i32} success={success:i32} target_cpu={target_cpu:i32}",
            "{comm:text}:{pid:i32} [{prio:i32}] success={success:i32} CPU:{target_cpu:i32}",
            "comm={comm:text} pid={pid:i32} prio={prio:i32} success={success:i32}",
        ],
    ),
    (
        "sched_migrate_task",
        &["comm={comm:text} pid={pid:i32} prio={prio:i32} orig_cpu={orig_cpu:i32} dest_cpu={dest_cpu:i32}"],
    ),
    (
        "sched_process_fork",
        &[
            "comm={parent_comm:text} pid={parent_pid:i32} child_comm={child_comm:text} child_pid={child_pid:i32}",
            "parent_comm={parent_comm:text} parent_pid={parent_pid:i32} child_comm={child_comm:text} child_pid={child_pid:i32}",
        ],
    ),
    ("sched_process_exec", &["filename={filename:text} pid={pid:i32} old_pid={old_pid:i32}"]),
    (
        "sched_process_exit sched_process_free sched_process_wait",
        &[
            "comm={comm:text} pid={pid:i32} prio={prio:i32}",
            "comm={comm:text} pid={pid:i32} prio={prio:i32} group_dead={group_dead:word}",
        ],
    ),
    ("sched_process_hang sched_kthread_stop", &["comm={comm:text} pid={pid:i32}"]),
    ("sched_pi_setprio", &["comm={comm:text} pid={pid:i32} oldprio={oldprio:i32} newprio={newprio:i32}"]),
    (
        "sched_stat_wait sched_stat_sleep sched_stat_iowait sched_stat_blocked",
        &["comm={comm:text} pid={pid:i32} delay={delay:u64} [ns]"],
    ),
    (
        "sched_stat_runtime",
        &[
            "comm={comm:text} pid={pid:i32} runtime={runtime:u64} [ns]",
            "comm={comm:text} pid={pid:i32} runtime={runtime:u64} [ns] vruntime={vruntime:u64} [ns]",
        ],
    ),
    ("irq_handler_entry", &["irq={irq:i32} name={name:text}"]),
    ("irq_handler_exit", &["irq={irq:i32} ret={ret:handled}", "irq={irq:i32} ret={ret:i32}"]),
    ("softirq_entry softirq_exit softirq_raise", &["vec={vec:u32} [action={action:skip}]"]),
    ("tasklet_entry tasklet_exit", &["tasklet={tasklet:hex} function={func:text}"]),
    (
        "workqueue_queue_work",
        &[
            "work struct={work:hex} function={function:text} workqueue={workqueue:text} req_cpu={req_cpu:i32} cpu={cpu:i32}",
        ],
    ),
    ("workqueue_activate_work", &["work struct {work:hex}", "work struct={work:hex} function={function:text}"]),
    (
        "workqueue_execute_start workqueue_execute_end",
        &["work struct {work:hex}: function {function:text}", "work struct {work:hex}"],
    ),
    (
        "hrtimer_start",
        &[
            "hrtimer={hrtimer:hex} function={function:text} expires={expires:i64} softexpires={softexpires:i64} mode={mode:text}",
            "hrtimer={hrtimer:hex} function={function:text} expires={expires:i64} softexpires={softexpires:i64}",
        ],
    ),
    (
        "hrtimer_expire_entry",
        &[
            "hrtimer={hrtimer:hex} function={function:text} now={now:i64}",
            "hrtimer={hrtimer:hex} now={now:i64} function={function:text}",
            "hrtimer={hrtimer:hex} now={now:i64}",
        ],
    ),
    ("hrtimer_expire_exit hrtimer_cancel", &["hrtimer={hrtimer:hex}"]),
    ("timer_init timer_expire_exit timer_cancel", &["timer={timer:hex}"]),
    ("itimer_expire", &["which={which:i32} pid={pid:i32} now={now:u64}"]),
    ("cpu_frequency cpu_idle", &["state={state:u32} cpu_id={cpu_id:u32}"]),
    ("cpu_frequency_limits", &["min={min_freq:u32} max={max_freq:u32} cpu_id={cpu_id:u32}"]),
    ("clock_set_rate clock_enable clock_disable", &["{name:text} state={state:u64} cpu_id={cpu_id:u64}"]),
    ("suspend_resume", &["{action:text}[{val:i32}] {start:begin}"]),
    ("machine_suspend", &["state={state:u32}"]),
    (
        "block_rq_issue block_rq_insert block_rq_merge block_rq_remap",
        &[
            "{dev:dev} {rwbs:word} {bytes:u32} ({cmd:text}) {sector:u64} + {nr_sector:u32} [{comm:text}]",
            "{dev:dev} {rwbs:word} {bytes:u32} ({cmd:text}) {sector:u64} + {nr_sector:u32} {ioprio:skip} [{comm:text}]",
        ],
    ),
    (
        "block_rq_complete block_rq_requeue block_rq_error block_rq_abort",
        &[
            "{dev:dev} {rwbs:word} ({cmd:text}) {sector:u64} + {nr_sector:u32} [{error:i32}]",
            "{dev:dev} {rwbs:word} ({cmd:text}) {sector:u64} + {nr_sector:u32} {ioprio:skip} [{error:i32}]",
        ],
    ),
    ("block_bio_complete", &["{dev:dev} {rwbs:word} {sector:u64} + {nr_sector:u32} [{error:i32}]"]),
    (
        "block_bio_queue block_bio_bounce block_bio_backmerge block_bio_frontmerge block_getrq block_sleeprq",
        &["{dev:dev} {rwbs:word} {sector:u64} + {nr_sector:u32} [{comm:text}]"],
    ),
    ("block_split", &["{dev:dev} {rwbs:word} {sector:u64} / {new_sector:u64} [{comm:text}]"]),
    ("block_bio_remap", &["{dev:dev} {rwbs:word} {sector:u64} + {nr_sector:u32} <- ({old_dev:dev}) {old_sector:u64}"]),
    ("block_touch_buffer block_dirty_buffer", &["{dev:dev} sector={sector:u64} size={size:u64}"]),
    ("block_plug", &["[{comm:text}]"]),
    ("block_unplug", &["[{comm:text}] {nr_rq:i32}"]),
    ("netif_receive_skb netif_rx net_dev_queue", &["dev={name:text} skbaddr={skbaddr:hex} len={len:u32}"]),
    ("net_dev_xmit", &["dev={name:text} skbaddr={skbaddr:hex} len={len:u32} rc={rc:i32}"]),
    (
        "napi_poll",
        &["napi poll on napi struct {napi:hex} for device {dev_name:text} work {work:i32} budget {budget:i32}"],
    ),
    (
        "signal_generate",
        &[
            "sig={sig:i32} errno={errno:i32} code={code:i32} comm={comm:text} pid={pid:i32} grp={group:i32} res={result:i32}",
        ],
    ),
    (
        "signal_deliver",
        &["sig={sig:i32} errno={errno:i32} code={code:i32} sa_handler={sa_handler:hex} sa_flags={sa_flags:hex}"],
    ),
    ("sys_enter", &["NR {id:i64} ({args:args})"]),
    ("sys_exit", &["NR {id:i64} = {ret:i64}"]),
    ("sys_exit_*", &["{ret:ret}"]),
    (
        "context_switch",
        &[
            "{prev_pid:u32}:{prev_prio:u32}:{prev_state:state} ==> [{next_cpu:u32}]{next_pid:u32}:{next_prio:u32}:{next_state:state} {next_comm:text}",
        ],
    ),
    (
        "wakeup",
        &[
            "{prev_pid:u32}:{prev_prio:u32}:{prev_state:state}   + [{next_cpu:u32}]{next_pid:u32}:{next_prio:u32}:{next_state:state} {next_comm:text}",
        ],
    ),
    ("contention_begin", &["{lock_addr:hex} (flags={flags:contention})"]),
    ("contention_end", &["{lock_addr:hex} (ret={ret:i32})"]),
    ("lock_acquire", &["{lockdep_addr:hex} {flags:taking}{name:text}"]),
    ("lock_release lock_contended lock_acquired", &["{lockdep_addr:hex} {name:text}"]),
    ("print", &["{ip:word}: {buf:text}"]),
    ("bprint bputs", &["{ip:word}: {text:text}"]),
    ("function", &["{ip:text} <-- {parent_ip:text}", "{ip:text} <-{parent_ip:text}"]),
    ("task_rename", &["pid={pid:i32} oldcomm={oldcomm:text} newcomm={newcomm:text} oom_score_adj={oom_score_adj:i32}"]),
    (
        "task_newtask",
        &["pid={pid:i32} comm={comm:text} clone_flags={clone_flags:hex} oom_score_adj={oom_score_adj:i32}"],
    ),
];

/// An event of the table.
#[derive(Debug)]
pub(super) struct KnownEvent {
    pub(super) patterns: Vec<TextPattern>,
    /// For each pattern the first one that has the same fields: they are of one class.
    pub(super) class_of: Vec<usize>,
}

/// The table, ready to be asked.
struct KnownTable {
    by_name: HashMap<&'static [u8], usize>,
    by_start: Vec<(&'static [u8], usize)>,
    events: Vec<KnownEvent>,
}

static TABLE: LazyLock<KnownTable> = LazyLock::new(|| {
    let mut table = KnownTable { by_name: HashMap::new(), by_start: Vec::new(), events: Vec::new() };
    for (names, patterns) in KNOWN {
        let patterns: Vec<TextPattern> = patterns.iter().filter_map(|text| TextPattern::new(text)).collect();
        let same = |own: &TextPattern| patterns.iter().position(|other| other.fields == own.fields).unwrap_or(0);
        let class_of = patterns.iter().map(same).collect();
        for name in names.split(' ') {
            match name.strip_suffix('*') {
                Some(start) => table.by_start.push((start.as_bytes(), table.events.len())),
                None => {
                    table.by_name.insert(name.as_bytes(), table.events.len());
                }
            }
        }
        table.events.push(KnownEvent { patterns, class_of });
    }
    table
});

/// The known texts of the events of a name.
pub(super) fn known(form: EventForm, name: &[u8]) -> Option<&'static KnownEvent> {
    let name = match form {
        EventForm::Named => name,
        EventForm::SysExit => b"sys_exit_",
        EventForm::Function => b"function",
        EventForm::Sample => SAMPLE.as_bytes(),
        _ => return None,
    };
    let table = &*TABLE;
    let at = table.by_name.get(name).copied();
    let at = at.or_else(|| table.by_start.iter().find(|(start, _)| name.starts_with(start)).map(|(_, at)| *at))?;
    table.events.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{FieldType, FieldValue};

    #[test]
    fn every_pattern_of_the_table_can_be_used() {
        for (names, patterns) in KNOWN {
            for text in *patterns {
                assert!(TextPattern::new(text).is_some(), "{names}: {text}");
            }
        }
    }

    #[test]
    fn both_forms_of_a_switch_have_the_same_fields() {
        let event = known(EventForm::Named, b"sched_switch").expect("it is in the table");
        let texts = [
            "prev_comm=a b prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=Web Content next_pid=-1 next_prio=0",
            "a b:7 [120] R ==> Web Content:-1 [0]",
            "prev_comm=a b prev_pid=7 prev_prio=120 prev_state=256 next_comm=Web Content next_pid=-1 next_prio=0",
        ];
        for (at, text) in texts.iter().enumerate() {
            let mut values = Vec::new();
            assert!(event.patterns[at].read(text.as_bytes(), &mut values), "{text}");
            assert_eq!(event.class_of[at], 0);
            assert_eq!((values[0], values[4]), (FieldValue::Text(b"a b"), FieldValue::Text(b"Web Content")));
            assert_eq!(values[5], FieldValue::Number(u64::MAX));
            assert_eq!(values[3], FieldValue::Number(if at == 1 { 0 } else { 256 }));
        }
        assert_eq!(event.patterns[0].fields[3], ("prev_state", FieldType::I64));
    }
}
