//! The meanings of table columns, by key, and the help of an analysis, which is built from its forms.

use std::rc::Rc;

use tracemill_semantics::states::Machines;

use crate::kernel::analysis::Descriptor;
use crate::kernel::question::forms::{AnalysisOption, Form, FormWord};
use crate::kernel::question::query::{AnalysisQuery, View};
use crate::kernel::table::Column;

/// The meaning of a column, by its key; `ANALYSIS.KEY` overrides it for one analysis.
const MEANINGS: &[(&str, &str)] = &[
    ("tid", "number of the thread; 0 is the idle one"),
    ("cpu.tid", "number of the thread, a row for each life"),
    ("path.tid", "the thread on which the wanted one depends"),
    ("pid", "number of the process"),
    ("ppid", "number of the parent process"),
    ("comm", "name of the thread"),
    ("cpu", "number of the CPU"),
    ("life", "which thread of this number, from 0"),
    ("kernel", "is it a thread of the kernel?"),
    ("depth", "how deep in the tree of processes"),
    ("from", "its beginning"),
    ("to", "its end"),
    ("from_ns", "shortest duration of the bucket"),
    ("to_ns", "upper limit of the bucket"),
    ("duration_ns", "time from its beginning to its end"),
    ("count", "how many"),
    ("total_ns", "sum of the durations"),
    ("min_ns", "shortest duration"),
    ("max_ns", "longest duration"),
    ("mean_ns", "mean of the durations"),
    ("deviation_ns", "standard deviation of the durations"),
    ("p50_ns", "median: half of the durations are at most this long"),
    ("p90_ns", "90 % of the durations are at most this long"),
    ("p95_ns", "95 % of the durations are at most this long"),
    ("p99_ns", "99 % of the durations are at most this long"),
    ("share", "part of the range"),
    ("status", "idle, user, syscall, trap, kernel, irq, softirq, suspended or unknown"),
    ("state", "WAIT_FORK, WAIT_CPU, WAIT, RUN/.., INTERRUPTED, EXIT, ZOMBIE or SUSPENDED"),
    ("path.state", "running, wait_cpu, blocked, .. or what ended the wait: disk, timer"),
    ("dev", "number of the disk"),
    ("disk", "name of the disk"),
    ("waiting", "requests that wait to be issued"),
    ("driver", "requests that the driver has"),
    ("kind", "irq or softirq"),
    ("nr", "number of the interrupt"),
    ("name", "name of the system call"),
    ("irq.name", "name of the handler"),
    ("stats.name", "name of the event"),
    ("time_ns", "time as the running thread of a CPU, with interrupts meanwhile"),
    ("task_ns", "time with a thread other than idle"),
    ("user_ns", "time in the program"),
    ("system_ns", "time in the kernel"),
    ("irq_ns", "time in interrupts"),
    ("softirq_ns", "time in soft interrupts"),
    ("idle_ns", "time without a thread"),
    ("unknown_ns", "time of which nothing tells"),
    ("suspended_ns", "time for which the machine was suspended"),
    ("wait_cpu_ns", "time in which it could run and did not"),
    ("wait_ns", "time in which it was blocked"),
    ("wait_fork_ns", "time before its first wake"),
    ("zombie_ns", "time between its end and its parent's wait"),
    ("born_ns", "when it was made"),
    ("exit_ns", "when it exited"),
    ("freed_ns", "when the kernel forgot it"),
    ("threads", "threads that ran"),
    ("switches", "how often it began to run"),
    ("sched.switches", "switches of the CPU"),
    ("migrations", "runs that began on another CPU than the one before"),
    ("runs", "how often it began to run"),
    ("preempted", "how often it lost its CPU though it could run on"),
    ("blocked", "how often it left its CPU to wait"),
    ("prio", "priority"),
    ("khz", "frequency of the CPU in kHz"),
    ("wake_ns", "when the thread was woken"),
    ("run_ns", "when it ran"),
    ("latency_ns", "time between the two"),
    ("waker", "number of the thread that woke it"),
    ("locks.waker", "number of the thread that let it go on"),
    ("waker_comm", "name of that thread"),
    ("reason", "why: thread, timer, network, disk, irq, softirq, ipi or unknown"),
    ("raises", "runs whose raise was seen"),
    ("raise_ns", "when it was raised"),
    ("raise_total_ns", "sum of the times from raise to entry"),
    ("raise_min_ns", "shortest time from raise to entry"),
    ("raise_max_ns", "longest time from raise to entry"),
    ("errors", "calls that returned -4095 to -1"),
    ("errnos", "how often each error occurred"),
    ("errno", "the error; none for calls that succeeded"),
    ("ret", "the result"),
    ("class", "open, read, write, sync, copy or close"),
    ("file", "name of the file, address of the socket"),
    ("fd", "file descriptor"),
    ("bytes", "bytes that were moved"),
    ("memory.bytes", "bytes that were allocated"),
    ("bytes_freed", "bytes that were freed"),
    ("op", "read or write"),
    ("locks.op", "operation of futex"),
    ("sector", "its first sector"),
    ("sectors", "its sectors, of 512 bytes"),
    ("completed", "requests that were completed"),
    ("periods.completed", "did its own end end it, not that of its parent?"),
    ("queue_ns", "time between insert and issue"),
    ("queue_total_ns", "sum of the times between insert and issue"),
    ("queue_max_ns", "longest time between insert and issue"),
    ("net", "name of the interface"),
    ("packets_in", "packets that came in"),
    ("bytes_in", "bytes that came in"),
    ("packets_out", "packets that went out"),
    ("bytes_out", "bytes that went out"),
    ("allocs", "allocations"),
    ("frees", "frees"),
    ("pages_allocated", "pages that were allocated"),
    ("pages_freed", "pages that were freed"),
    ("site", "address in the kernel that asked for the objects"),
    ("uaddr", "address of the lock"),
    ("waiters", "threads that waited"),
    ("wakes", "calls that let others go on"),
    ("mode", "idle, user, syscall, trap, kernel, irq, softirq, suspended or unknown"),
    ("cpu_ns", "time of the CPU in this mode with this thread"),
    ("events", "events in this mode with this thread"),
    ("period", "name of the period"),
    ("incomplete", "periods that their parents ended"),
    ("parent", "name of the parent"),
];

impl Descriptor {
    /// The meaning of a column of its tables; empty when there is none.
    pub fn meaning(&self, column: &Column) -> &'static str {
        let own = [self.name, &column.name].join(".");
        let of = |key: &str| MEANINGS.iter().find(|(known, _)| *known == key).map(|(_, meaning)| *meaning);
        of(&own).or_else(|| of(&column.name)).unwrap_or_default()
    }

    /// The columns of a form, with all that options add: of its table grouped by a key, or of the list of its spans. They do
    /// not depend on events.
    pub fn columns_of(&self, form: &Form, key: Option<&str>, view: View) -> Vec<Column> {
        let tree = form.takes.contains(&AnalysisOption::Tree).then_some(FormWord::Tree);
        let words = form.word.into_iter().chain(tree).collect();
        self.columns_for(&AnalysisQuery { words, by: key.map(str::to_string), view, ..AnalysisQuery::default() })
    }

    /// The columns of the table of a question.
    pub(super) fn columns_for(&self, query: &AnalysisQuery) -> Vec<Column> {
        let nothing = AnalysisQuery { test: None, sink: None, states: None, ..query.clone() };
        let machines = Rc::new(Machines::new(query.machine_names.len() as u32));
        (self.make)(&nothing).finish(&machines, Some((0, 0))).columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ANALYSES;

    #[test]
    fn every_column_has_a_meaning_and_every_meaning_a_column() {
        let mut used: Vec<&str> = Vec::new();
        for known in ANALYSES {
            for form in known.forms {
                let mut columns = Vec::new();
                let keys: Vec<Option<&str>> = form.keys.iter().copied().map(Some).collect();
                for key in if keys.is_empty() { vec![None] } else { keys } {
                    columns.extend(known.columns_of(form, key, View::Statistics));
                    if form.has_spans() {
                        columns.extend(known.columns_of(form, key, View::Log));
                        columns.extend(known.columns_of(form, key, View::Histogram(1)));
                    }
                }
                for column in columns {
                    assert!(!known.meaning(&column).is_empty(), "{} {}: {}", known.name, form.option, column.name);
                    used.push(known.meaning(&column));
                }
            }
        }
        for (key, meaning) in MEANINGS {
            assert!(used.contains(meaning), "no table has `{key}`");
        }
    }
}
