//! Options that choose threads and CPUs that the traces do not have: what to say instead of an empty answer.

use std::collections::BTreeSet;

use tracemill_semantics::states::{Machines, Thread};

use crate::kernel::question::forms::AnalysisOption;
use crate::kernel::question::query::{AnalysisQuery, Numbers};

/// An option that no thread or CPU of the traces fits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnmatchedOption {
    /// One option alone: [`Tid`](AnalysisOption::Tid), [`Pid`](AnalysisOption::Pid), [`Comm`](AnalysisOption::Comm) or
    /// [`Cpu`](AnalysisOption::Cpu).
    Alone {
        /// The option.
        option: AnalysisOption,
        /// Numbers or names that it would fit, in their order.
        known: Vec<String>,
    },
    /// `--pid`, whose only number is that of a thread of another process.
    ThreadOfProcess {
        /// The thread.
        tid: i64,
        /// Its process.
        pid: i64,
    },
    /// Several options that choose threads: each fits some, no thread fits all.
    Together(Vec<AnalysisOption>),
}

/// The options of a question that nothing in the traces fits.
pub(crate) fn unmatched_options(machines: &Machines, query: &AnalysisQuery) -> Vec<UnmatchedOption> {
    let mut found = Vec::new();
    let only = |option| match option {
        AnalysisOption::Tid => AnalysisQuery { tids: query.tids.clone(), ..AnalysisQuery::default() },
        AnalysisOption::Pid => AnalysisQuery { pids: query.pids.clone(), ..AnalysisQuery::default() },
        _ => AnalysisQuery { comms: query.comms.clone(), ..AnalysisQuery::default() },
    };
    let mut of_threads = Vec::new();
    for option in [AnalysisOption::Tid, AnalysisOption::Pid, AnalysisOption::Comm] {
        let alone = only(option);
        if !alone.chooses_threads() {
            continue;
        }
        of_threads.push(option);
        if !has_thread(machines, &alone) {
            found.push(check_thread(machines, query, option));
        }
    }
    if found.is_empty() && of_threads.len() > 1 && !has_thread(machines, query) {
        found.push(UnmatchedOption::Together(of_threads));
    }
    if let Some(cpus) = &query.cpus {
        let known: BTreeSet<u64> = machines.cpus().iter().map(|cpu| cpu.number).collect();
        if !known.iter().any(|number| i64::try_from(*number).is_ok_and(|number| cpus.has(number))) {
            let known = known.iter().map(u64::to_string).collect();
            found.push(UnmatchedOption::Alone { option: AnalysisOption::Cpu, known });
        }
    }
    found
}

fn has_thread(machines: &Machines, query: &AnalysisQuery) -> bool {
    machines.threads().any(|(thread, _)| query.wants_thread(machines, Some(thread)))
}

/// Says of an option that no thread fits it.
fn check_thread(machines: &Machines, query: &AnalysisQuery, option: AnalysisOption) -> UnmatchedOption {
    let numbers = |number: fn(&Thread) -> Option<i64>| {
        let numbers: BTreeSet<i64> = machines.threads().filter_map(|(_, thread)| number(thread)).collect();
        numbers.iter().map(i64::to_string).collect()
    };
    let known = match option {
        AnalysisOption::Tid => numbers(|thread| Some(thread.tid)),
        AnalysisOption::Pid => {
            let wanted = query.pids.as_ref().and_then(Numbers::single);
            let of_wanted = machines.threads().filter(|(_, thread)| Some(thread.tid) == wanted);
            if let Some((tid, pid)) = of_wanted.filter_map(|(_, thread)| Some((thread.tid, thread.pid()?))).last() {
                return UnmatchedOption::ThreadOfProcess { tid, pid };
            }
            numbers(Thread::pid)
        }
        _ => {
            let names: BTreeSet<&str> = machines.threads().filter_map(|(_, thread)| thread.comm.as_deref()).collect();
            names.iter().map(|name| name.to_string()).collect()
        }
    };
    UnmatchedOption::Alone { option, known }
}

#[cfg(test)]
mod tests {
    use tracemill_codec::text::pattern::Pattern;

    use super::*;
    use crate::kernel::testing::played::play;

    struct Nobody;

    impl tracemill_semantics::states::Observer for Nobody {}

    #[test]
    fn options_that_nothing_fits_are_found() {
        let stream = "100 0 switch prev=0 next=5 next_comm=five
            110 1 switch prev=0 next=7 next_comm=seven
            120 0 fork parent=5 child=6 pid=5 comm=six
            130 0 -";
        let machines = play(stream, &mut Nobody);
        let of = |query: AnalysisQuery| unmatched_options(&machines, &query);
        let numbers = Numbers::parse;
        let alone = |option, known: &[&str]| UnmatchedOption::Alone {
            option,
            known: known.iter().map(|name| name.to_string()).collect(),
        };
        assert_eq!(of(AnalysisQuery::default()), []);
        assert_eq!(of(AnalysisQuery { tids: numbers("1-5"), cpus: numbers("1,9"), ..AnalysisQuery::default() }), []);
        let tid = of(AnalysisQuery { tids: numbers("9"), ..AnalysisQuery::default() });
        assert_eq!(tid, [alone(AnalysisOption::Tid, &["5", "6", "7"])]);
        let pid = of(AnalysisQuery { pids: numbers("6"), ..AnalysisQuery::default() });
        assert_eq!(pid, [UnmatchedOption::ThreadOfProcess { tid: 6, pid: 5 }]);
        let comm =
            of(AnalysisQuery { comms: Some(Pattern::glob("eight*")), cpus: numbers("2"), ..AnalysisQuery::default() });
        assert_eq!(comm[0], alone(AnalysisOption::Comm, &["five", "seven", "six"]));
        assert_eq!(comm[1], alone(AnalysisOption::Cpu, &["0", "1"]));
        let both =
            of(AnalysisQuery { comms: Some(Pattern::glob("six")), tids: numbers("5"), ..AnalysisQuery::default() });
        assert_eq!(both, [UnmatchedOption::Together(vec![AnalysisOption::Tid, AnalysisOption::Comm])]);
    }
}
