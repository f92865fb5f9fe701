//! Several analyses as one observer, and the same ones once for each of some periods.

use std::rc::Rc;

use tracemill_semantics::states::{
    CpuIndex, CpuPiece, Credit, Happening, Interrupt, Machines, Ns, Observer, RunEnd, Scheduled, SystemCall,
    ThreadIndex, ThreadPiece, Woken,
};

use crate::kernel::analysis::{Analysis, Descriptor, ReportKind, ReportTimes};
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::table::PeriodOf;

/// Several analyses as one.
pub(crate) struct AnalysisSet {
    /// Where they are about periods, those of the first period, of the second one, .., and the trackers.
    pub(crate) analyses: Vec<Box<dyn Analysis>>,
    /// For each kind of report, the analyses that get it now.
    subscribers: [Vec<usize>; ReportKind::ALL.len()],
    pub(crate) per: Option<PerPeriod>,
}

/// The periods that analyses are about, ordered by their beginnings.
pub(crate) struct PerPeriod {
    pub(crate) periods: Vec<Rc<PeriodOf>>,
    /// For each period, the latest end of it and of those before it.
    latest: Vec<Ns>,
    /// Analyses of each period.
    pub(crate) each: usize,
    /// Periods that have begun and not ended, the next one that begins, and the first end of those that have begun.
    open: Vec<usize>,
    next: usize,
    next_end: Ns,
}

impl AnalysisSet {
    pub(crate) fn new(analyses: Vec<Box<dyn Analysis>>) -> AnalysisSet {
        let mut all = AnalysisSet { subscribers: std::array::from_fn(|_| Vec::new()), analyses, per: None };
        (0..all.analyses.len()).for_each(|at| all.subscribe(at));
        all
    }

    /// Analyses of each period.
    pub(crate) fn per(periods: &[Rc<PeriodOf>], of_each: &[(&Descriptor, AnalysisQuery)]) -> AnalysisSet {
        let (first, last) = (periods.first().map(|of| of.from), periods.iter().map(|of| of.to).max());
        let whole = |query: &AnalysisQuery| AnalysisQuery { begin: first, end: last, ..query.clone() };
        let mut trackers: Vec<_> = of_each.iter().map(|(known, query)| Some((known.make)(&whole(query)))).collect();
        let mut analyses = Vec::new();
        for period in periods {
            for ((known, query), tracker) in of_each.iter().zip(&mut trackers) {
                let (begin, end) = (Some(period.from), Some(period.to));
                let query = AnalysisQuery { begin, end, of_period: Some(period.clone()), ..query.clone() };
                let view = tracker.as_mut().and_then(|tracker| tracker.for_period(&query));
                analyses.push(view.unwrap_or_else(|| {
                    *tracker = None;
                    (known.make)(&query)
                }));
            }
        }
        let latest = periods.iter().scan(Ns::MIN, |most, of| {
            *most = of.to.max(*most);
            Some(*most)
        });
        let (each, views) = (of_each.len().max(1), analyses.len());
        let per = PerPeriod {
            latest: latest.collect(),
            each,
            open: Vec::new(),
            next: 0,
            next_end: Ns::MAX,
            periods: periods.to_vec(),
        };
        analyses.extend(trackers.into_iter().flatten());
        let mut all = AnalysisSet { subscribers: std::array::from_fn(|_| Vec::new()), analyses, per: Some(per) };
        (views..all.analyses.len()).for_each(|at| all.subscribe(at));
        for at in (0..views).filter(|at| all.analyses[*at].subscriptions().1 == ReportTimes::All).collect::<Vec<_>>() {
            all.subscribe(at);
        }
        all
    }

    /// Gives an analysis its reports from now on.
    fn subscribe(&mut self, at: usize) {
        self.analyses[at].subscriptions().0.iter().for_each(|report| self.subscribers[*report as usize].push(at));
    }

    /// Opens the periods that have begun when an event of a time comes, and leaves those alone that ended before the last
    /// one.
    #[inline]
    pub(crate) fn advance(&mut self, last: Ns, now: Ns) {
        if let Some(per) = &self.per
            && (per.next_end < last || per.periods.get(per.next).is_some_and(|next| next.from <= now))
        {
            self.switch_periods(last, now);
        }
    }

    #[cold]
    fn switch_periods(&mut self, last: Ns, now: Ns) {
        let Some(PerPeriod { periods, each, open, next, next_end, .. }) = &mut self.per else { return };
        let (each, mut changed) = (*each, Vec::new());
        while periods.get(*next).is_some_and(|period| period.from <= now) {
            open.push(*next);
            changed.push((*next, true));
            *next += 1;
        }
        open.retain(|&at| {
            let is_over = periods[at].to < last;
            if is_over {
                changed.push((at, false));
            }
            !is_over
        });
        *next_end = open.iter().map(|&at| periods[at].to).min().unwrap_or(Ns::MAX);
        for (period, is_open) in changed {
            for at in period * each..(period + 1) * each {
                match self.analyses[at].subscriptions() {
                    (_, ReportTimes::All) => {}
                    _ if is_open => self.subscribe(at),
                    (reports, ReportTimes::Range) => {
                        reports.iter().for_each(|report| self.subscribers[*report as usize].retain(|own| *own != at));
                    }
                }
            }
        }
    }

    #[inline]
    pub(crate) fn for_each(&mut self, report: ReportKind, mut tell: impl FnMut(&mut dyn Analysis)) {
        let AnalysisSet { analyses, subscribers, .. } = self;
        subscribers[report as usize].iter().for_each(|&at| tell(&mut *analyses[at]));
    }

    #[inline]
    fn for_piece(&mut self, report: ReportKind, from: Ns, to: Ns, tell: impl FnMut(&mut dyn Analysis)) {
        match self.per {
            None => self.for_each(report, tell),
            Some(_) => self.for_piece_of_periods(report, from, to, tell),
        }
    }

    #[cold]
    fn for_piece_of_periods(&mut self, report: ReportKind, from: Ns, to: Ns, mut tell: impl FnMut(&mut dyn Analysis)) {
        let Some(per) = &self.per else { return };
        let trackers = self.subscribers[report as usize].iter().filter(|at| **at >= per.periods.len() * per.each);
        trackers.for_each(|&at| tell(&mut *self.analyses[at]));
        let first = per.latest.partition_point(|latest| *latest < from);
        let behind = per.periods.partition_point(|period| period.from <= to);
        for at in (first..behind).filter(|at| per.periods[*at].to >= from) {
            self.analyses[at * per.each..(at + 1) * per.each].iter_mut().for_each(|analysis| tell(&mut **analysis));
        }
    }
}

macro_rules! each {
    ($($report:ident $name:ident($($arg:ident: $type:ty),*);)*) => {
        impl Observer for AnalysisSet {
            #[inline]
            fn cpu_piece(&mut self, machines: &Machines, piece: &CpuPiece) {
                self.for_piece(ReportKind::CpuPiece, piece.from, piece.to, |analysis| analysis.cpu_piece(machines, piece));
            }

            #[inline]
            fn thread_piece(&mut self, machines: &Machines, piece: &ThreadPiece) {
                let tell = |analysis: &mut dyn Analysis| analysis.thread_piece(machines, piece);
                self.for_piece(ReportKind::ThreadPiece, piece.from, piece.to, tell);
            }

            #[inline]
            fn interrupt(&mut self, machines: &Machines, interrupt: &Interrupt<'_>) {
                let tell = |analysis: &mut dyn Analysis| analysis.interrupt(machines, interrupt);
                self.for_piece(ReportKind::Interrupt, interrupt.from, interrupt.to, tell);
            }

            fn credit(&mut self, machines: &Machines, credit: &Credit) {
                self.for_piece(ReportKind::Credit, credit.from, credit.to, |analysis| analysis.credit(machines, credit));
            }

            $(#[inline]
            fn $name(&mut self, machines: &Machines, $($arg: $type),*) {
                self.for_each(ReportKind::$report, |analysis| analysis.$name(machines, $($arg),*));
            })*
        }
    };
}

each! {
    Created created(thread: ThreadIndex, at: Ns);
    Forked forked(parent: Option<ThreadIndex>, child: ThreadIndex, at: Ns);
    Woken woken(woken: &Woken);
    Scheduled scheduled(scheduled: &Scheduled);
    Switched switched(cpu: CpuIndex, next: Option<ThreadIndex>, at: Ns);
    RunBegan run_began(thread: ThreadIndex, has_migrated: bool, at: Ns);
    RunEnded run_ended(thread: ThreadIndex, how: RunEnd, at: Ns);
    CallBegan call_began(thread: ThreadIndex, name: &str, happening: &Happening<'_>, at: Ns);
    CallEnded call_ended(call: &SystemCall<'_>, happening: &Happening<'_>);
    Context context(cpu: CpuIndex, happening: &Happening<'_>);
    Applied applied(machine: u32, cpu: Option<CpuIndex>, happening: &Happening<'_>, at: Ns);
}
