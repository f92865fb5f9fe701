//! The state that all requests share: the traces, and the knowledge of them so far.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use tokio::sync::Semaphore;
use tracemill_engine::choice;
use tracemill_engine::event::Event;
use tracemill_engine::filter::{Expression, Filter};
use tracemill_engine::selection::StreamOf;
use tracemill_engine::session::Session;
use tracemill_engine::survey;
use tracemill_engine::timeline::Selection;
use tracemill_lod::calls::{self, Calls};
use tracemill_lod::store::{Kept as KeptIndex, ToKeep};
use tracemill_lod::{EventSet, Index, Progress, Source, Timeline, index};
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ClockOrigin;

use crate::anew::Reopener;
use crate::answers::Asker;
use crate::cache::Cache;
use crate::counters::{self, Known};
use crate::error::{Answer, ApiError};
use crate::export::{Cutter, Exports};
use crate::groups::GroupList;
use crate::guard::Guard;
use crate::kept::Kept;
use crate::plots::Plots;
use crate::sql::{AT_ONCE, Querier};
use crate::states;

/// The traces that are shown.
#[derive(Clone)]
pub struct Traces {
    /// The session.
    pub session: Arc<Session>,
    /// The streams that are wanted.
    pub streams: Vec<StreamOf>,
    /// The events that are wanted.
    pub selection: Selection,
    /// A filter beside the selection.
    pub filter: Option<Filter>,
    /// Times of the first and the last event in ns, as far as they are known without reading all.
    pub ends: (Option<i128>, Option<i128>),
    /// Are times since the Unix epoch?
    pub is_unix: bool,
}

impl Traces {
    /// What is wanted of some streams of a session. Reads the packets at the ends of streams when no header tells their
    /// times.
    pub fn new(session: Session, streams: Vec<StreamOf>, selection: Selection, filter: Option<Filter>) -> Traces {
        let (first, last) = survey::ends(&session, (true, true));
        let within = |ns: i128| {
            let from = selection.begin_ns.map_or(ns, |begin| ns.max(begin));
            selection.end_ns.map_or(from, |end| from.min(end))
        };
        let ends = (first.map(within), last.map(within));
        let mut clocks = session.traces.iter().flat_map(|trace| trace.schema.clocks());
        let is_unix = clocks.any(|clock| clock.origin == ClockOrigin::Unix);
        Traces { session: Arc::new(session), streams, selection, filter, ends, is_unix }
    }

    /// The session with the selection, as readers take them.
    pub fn source(&self) -> Source<'_> {
        let Traces { session, streams, selection, filter, .. } = self;
        Source { session, streams, selection, filter: filter.as_ref() }
    }
}

/// The traces that a server shows, and how it reads them.
pub struct Input {
    /// The traces.
    pub traces: Traces,
    /// Errors and warnings of opening them.
    pub problems: (Vec<Error>, Vec<String>),
    /// Name and version of the program.
    pub program: String,
    /// The line that began it.
    pub command: String,
    /// Writes parts of the traces, where the program can do that.
    pub cut: Option<Cutter>,
    /// Answers queries, where the program can do that.
    pub query: Option<Querier>,
    /// Opens the traces again, where that can be done.
    pub reopen: Option<Reopener>,
    /// A time before they were opened.
    pub opened: SystemTime,
    /// Where their index is kept, when it may be.
    pub cache: Option<Cache>,
}

/// Sets of events that are kept, and their bytes.
const SETS: usize = 8;
const SET_BYTES: usize = 32 << 20;

/// How far the server is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Counting,
    Complete,
    End,
}

/// What pages are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct News {
    pub(crate) stage: Stage,
    /// That of the traces that are shown.
    pub(crate) version: usize,
    /// From when on they are others than those before, in ns, when only that changed.
    pub(crate) grown: Option<i128>,
}

/// What stays as long as a server runs, also when traces are read anew.
pub(crate) struct Lasting {
    pub(crate) guard: Guard,
    pub(crate) exports: Exports,
    /// Room for queries.
    pub(crate) queries: Semaphore,
    /// How often what answers are made of was added to.
    pub(crate) changes: AtomicUsize,
    /// Told when more is known, and when the server ends.
    pub(crate) news: tokio::sync::watch::Sender<News>,
    /// The filter that was asked for last.
    filtering: Mutex<Option<Arc<Filtering>>>,
    /// A sentence for the user when files of the traces are not there any more, or are other files now.
    gone: Mutex<Option<String>>,
}

/// A filter that goes through the events.
pub(crate) struct Filtering {
    pub(crate) filter: String,
    all: usize,
    seen: AtomicUsize,
    matches: AtomicUsize,
    is_over: AtomicBool,
}

impl Filtering {
    /// How much is done, from 0 to 1, and how many events match so far.
    pub(crate) fn progress(&self) -> (f64, usize) {
        let done = if self.is_over() { 1.0 } else { self.seen.load(Ordering::Relaxed) as f64 / self.all.max(1) as f64 };
        (done.min(1.0), self.matches.load(Ordering::Relaxed))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn count(&self, is_match: bool) -> bool {
        self.seen.fetch_add(1, Ordering::Relaxed);
        if is_match {
            self.matches.fetch_add(1, Ordering::Relaxed);
        }
        is_match
    }
}

impl Lasting {
    /// Says that files of the traces are not there any more or are others, or that they are there again.
    pub(crate) fn tell_gone(&self, sentence: Option<String>) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *gone != sentence {
            *gone = sentence;
            drop(gone);
            self.news.send_modify(|_| {});
        }
    }

    pub(crate) fn gone(&self) -> Option<String> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The filter that was asked for last.
    pub(crate) fn filtering(&self) -> Option<Arc<Filtering>> {
        self.filtering.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does a filter go through the events now?
    pub(crate) fn is_filtering(&self) -> bool {
        self.filtering().is_some_and(|filtering| !filtering.is_over())
    }

    /// A filter begins to go through so many events: pages are told how far it is.
    fn begin_filter(&self, filter: &str, all: usize) -> Arc<Filtering> {
        let filtering = Filtering {
            filter: filter.to_string(),
            all,
            seen: AtomicUsize::new(0),
            matches: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        };
        let filtering = Arc::new(filtering);
        *self.filtering.lock().unwrap_or_else(PoisonError::into_inner) = Some(filtering.clone());
        self.news.send_modify(|_| {});
        filtering
    }

    fn end_filter(&self, filtering: &Filtering) {
        filtering.is_over.store(true, Ordering::Relaxed);
        self.news.send_modify(|_| {});
    }

    /// A filter that nobody waits for any more went through a part of the events: nothing is told of it.
    fn give_up_filter(&self, filtering: &Arc<Filtering>) {
        let mut last = self.filtering.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, filtering)) {
            *last = None;
        }
    }
}

/// Traces, and the knowledge of them so far. One thread [reads](Shared::read), others ask meanwhile.
pub struct Shared {
    /// The traces.
    pub input: Input,
    pub(crate) kept: Kept,
    pub(crate) plots: Plots,
    pub(crate) groups: GroupList,
    pub(crate) lasting: Arc<Lasting>,
    /// How many were shown before by this server.
    pub(crate) version: usize,
    /// How far the reading is.
    pub progress: Progress,
    /// The density of all tracks, as far as it is known. Another one takes its place when an event is found before its origin.
    timeline: Mutex<Arc<Timeline>>,
    index: OnceLock<Arc<Index>>,
    /// Did the index come from the cache?
    is_kept: AtomicBool,
    calls: OnceLock<Option<Arc<Calls>>>,
    states: OnceLock<Option<states::Found>>,
    counters: OnceLock<Vec<Known>>,
    sets: Mutex<VecDeque<(String, Arc<EventSet>)>>,
    /// Statistics of all calls of each name, as text.
    pub(crate) of_functions: OnceLock<HashMap<u32, Box<str>>>,
}

impl Shared {
    /// Nothing but what packets tell is known yet. No other process can ask.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn alone(input: Input) -> Result<Shared> {
        Ok(Shared::new(input, Guard::new(&[])?))
    }

    pub(crate) fn new(input: Input, guard: Guard) -> Shared {
        let news = News { stage: Stage::Counting, version: 0, grown: None };
        let lasting = Lasting {
            guard,
            exports: Exports::default(),
            queries: Semaphore::new(AT_ONCE),
            changes: AtomicUsize::new(0),
            news: tokio::sync::watch::channel(news).0,
            filtering: Mutex::default(),
            gone: Mutex::default(),
        };
        Shared::of(input, Arc::new(lasting), 0)
    }

    /// The same traces, opened anew.
    pub(crate) fn next(input: Input, before: &Shared) -> Shared {
        Shared::of(input, before.lasting.clone(), before.version + 1)
    }

    fn of(input: Input, lasting: Arc<Lasting>, version: usize) -> Shared {
        let timeline = Timeline::new(&input.traces.source(), input.traces.ends);
        Shared {
            timeline: Mutex::new(Arc::new(timeline)),
            input,
            kept: Kept::default(),
            plots: Plots::default(),
            groups: GroupList::default(),
            lasting,
            version,
            progress: Progress::default(),
            index: OnceLock::new(),
            is_kept: AtomicBool::new(false),
            calls: OnceLock::new(),
            states: OnceLock::new(),
            counters: OnceLock::new(),
            sets: Mutex::default(),
            of_functions: OnceLock::new(),
        }
    }

    /// Reads the traces in a thread that nobody waits for: between two events that match a filter it looks at nothing else.
    pub fn read_behind(self: &Arc<Self>) {
        let shared = self.clone();
        std::thread::spawn(move || {
            give_way();
            shared.progress.wait();
            shared.read();
        });
    }

    /// Reads the traces: events are counted, then numbered; meanwhile calls and states are followed.
    pub fn read(&self) {
        let Traces { session, selection, .. } = &self.input.traces;
        let change = || self.lasting.changes.fetch_add(1, Ordering::Relaxed);
        // Calls and states are followed as they were recorded, and would show what is redacted.
        let may_follow = selection.redactions.is_none();
        let follow_calls = || {
            let source = self.input.traces.source();
            let follow = || calls::follow(session, &source, self.timeline().origin, &self.progress);
            let found = may_follow.then(follow).flatten().map(Arc::new);
            // Nothing is ever put there twice.
            let _ = self.calls.set(found);
            change();
        };
        let kept = self.input.cache.as_ref().and_then(|cache| cache.load(&self.input.traces));
        let kept_states = kept.map(|kept| self.take(kept));
        let is_kept = kept_states.is_some();
        let follow_states = || {
            let find = || counters::find(&self.input.traces, &self.progress.stop);
            let follow = || states::follow(&self.input.traces, &self.progress.stop);
            let found = kept_states.unwrap_or_else(|| may_follow.then(follow).flatten());
            let _ = self.counters.set(may_follow.then(find).flatten().unwrap_or_default());
            let _ = self.states.set(found);
            change();
        };
        let source = self.input.traces.source();
        // Where calls are what the trace is about they are followed at once; otherwise counting has all threads first.
        let has_calls = session.traces.iter().any(|trace| trace.reader.calls().is_some());
        std::thread::scope(|scope| {
            if has_calls && !is_kept {
                scope.spawn(follow_calls);
            }
            let counted = if is_kept { None } else { self.counted(&source) };
            change();
            if !has_calls && !is_kept {
                scope.spawn(follow_calls);
            }
            scope.spawn(follow_states);
            let Some(timeline) = counted else { return };
            if let Some(index) = index::read(&timeline, &source, &self.progress) {
                let _ = self.index.set(Arc::new(index));
                change();
            }
        });
        if self.index().is_none() {
            return;
        }
        self.lasting.news.send_if_modified(|news| {
            let is_new = news.stage == Stage::Counting && news.version == self.version;
            news.stage = if is_new { Stage::Complete } else { news.stage };
            is_new
        });
        match (&self.input.cache, self.index()) {
            (_, Some(index)) if is_kept => index.fill(selection.jobs, &self.progress),
            (Some(cache), Some(index)) => {
                let states = self.states().map(|found| (&found.states, &*found.traces));
                let calls = self.calls().map(|calls| &**calls);
                cache.save(session, ToKeep { timeline: &self.timeline(), index, calls, states });
            }
            _ => {}
        }
    }

    /// Takes what was kept. Gives the states: who puts them there, when all else is known, says that nothing changes any more.
    fn take(&self, kept: KeptIndex) -> Option<states::Found> {
        let KeptIndex { timeline, index, calls, states } = kept;
        self.is_kept.store(true, Ordering::Relaxed);
        self.put_timeline(timeline);
        for known in [&self.progress.counted, &self.progress.events] {
            known.store(index.events() as u64, Ordering::Relaxed);
        }
        // Nothing is ever put there twice.
        let _ = self.calls.set(calls.map(Arc::new));
        let _ = self.index.set(Arc::new(index));
        states.map(|(states, traces)| states::Found::new(states, traces))
    }

    fn put_timeline(&self, timeline: Timeline) {
        *self.timeline.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(timeline);
    }

    /// The timeline when all events are counted; `None` when the server ends before.
    fn counted(&self, source: &Source<'_>) -> Option<Arc<Timeline>> {
        loop {
            let timeline = self.timeline();
            match timeline.count(source, &self.progress) {
                Ok(is_whole) => return is_whole.then_some(timeline),
                Err(first) => {
                    // Packets did not say that something is before their beginnings.
                    self.progress.counted.store(0, Ordering::Relaxed);
                    let ends = (Some(first), self.input.traces.ends.1);
                    self.put_timeline(Timeline::new(source, ends));
                    self.lasting.changes.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// The density of all tracks, as far as it is known.
    pub fn timeline(&self) -> Arc<Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all reading.
    pub(crate) fn stop(&self) {
        self.progress.stop.store(true, Ordering::Relaxed);
        self.groups.stop();
    }

    /// Ends the reading, and the server.
    pub fn end(&self) {
        self.stop();
        self.lasting.news.send_modify(|news| news.stage = Stage::End);
    }

    /// The index, when all events have their numbers.
    pub fn index(&self) -> Option<&Arc<Index>> {
        self.index.get()
    }

    /// The index, for answers that need it.
    pub(crate) fn whole_index(&self) -> Answer<&Arc<Index>> {
        self.index().ok_or_else(|| ApiError::new(503, "busy", "the events are being counted"))
    }

    /// The calls, when they are followed and there are some.
    pub fn calls(&self) -> Option<&Arc<Calls>> {
        self.calls.get()?.as_ref()
    }

    /// States of CPUs and threads.
    pub(crate) fn states(&self) -> Option<&states::Found> {
        self.states.get()?.as_ref()
    }

    /// Counters that have tracks, once they are found.
    pub(crate) fn counters(&self) -> &[Known] {
        self.counters.get().map_or(&[], |list| list)
    }

    /// Is nothing left to be read?
    pub fn is_complete(&self) -> bool {
        self.index.get().is_some() && self.calls.get().is_some() && self.states.get().is_some()
    }

    /// Changes whenever answers may. Each run has its own: a browser keeps tiles for a year, and the next server on this
    /// port may show another trace.
    pub(crate) fn generation(&self) -> String {
        format!("{}-{}", self.lasting.guard.run, 1 + self.lasting.changes.load(Ordering::Relaxed))
    }

    /// The first and last time of the timeline.
    pub fn ends(&self) -> (Option<i128>, Option<i128>) {
        match (self.index(), self.timeline().ends()) {
            (Some(index), _) if index.events() as u64 > index.untimed => (Some(index.begin), Some(index.end)),
            (Some(_), _) => (None, None),
            (None, counted) => {
                let (first, last) = self.input.traces.ends;
                // What was counted may reach further than what packets said.
                let first = first.into_iter().chain(counted.map(|(first, _)| first)).min();
                (first, last.max(counted.map(|(_, last)| last)))
            }
        }
    }

    /// The events that an expression of the language of filters leaves: the session is read once.
    ///
    /// # Errors
    /// When the text is no expression, or the events are not counted yet.
    pub fn set(&self, text: &str) -> std::result::Result<Arc<EventSet>, ApiError> {
        self.set_for(text, &Asker::default())
    }

    /// The same for somebody who may go away.
    pub(crate) fn set_for(&self, text: &str, asker: &Asker) -> Answer<Arc<EventSet>> {
        let all = self.whole_index()?.events();
        self.set_of(text.to_string(), || {
            let Traces { session, .. } = &self.input.traces;
            let mistake = |error: Error| ApiError::filter(text, &error);
            let expression = Expression::parse(text).map_err(mistake)?;
            let times = choice::times(session, false, expression.needs());
            let wanted = expression.bind(session, &times).map_err(mistake)?;
            let mut matcher = wanted.matcher();
            let filtering = self.lasting.begin_filter(text, all);
            let is_wanted = |event: &Event<'_>| filtering.count(matcher.matches(event));
            let set = index::matching(&self.input.traces.source(), &asker.flag(), is_wanted);
            let set = set.filter(|_| !asker.is_over(self));
            match set {
                Some(_) => self.lasting.end_filter(&filtering),
                None => self.lasting.give_up_filter(&filtering),
            }
            set.ok_or_else(Asker::over)
        })
    }

    /// The set of a key: one that is kept, or a new one.
    pub(crate) fn set_of(&self, key: String, make: impl FnOnce() -> Answer<EventSet>) -> Answer<Arc<EventSet>> {
        let lock = || self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, set)) = lock().iter().find(|(own, _)| *own == key) {
            return Ok(set.clone());
        }
        let set = Arc::new(make()?);
        let mut sets = lock();
        sets.push_back((key, set.clone()));
        // The newest one is wanted whatever it takes.
        while sets.len() > 1
            && (sets.len() > SETS || sets.iter().map(|(_, set)| set.bytes()).sum::<usize>() > SET_BYTES)
        {
            sets.pop_front();
        }
        Ok(set)
    }
}

/// How much less than others a thread that reads ahead of questions is in a hurry, as `nice` counts it: of a core that both
/// want it gets a tenth.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lets others go before this thread and those that it begins: answers, and the browser that shows them. Elsewhere than on
/// Linux that would be true of the whole process.
pub(crate) fn give_way() {
    // Nothing is lost when it stays as it is.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{self, Query};
    use crate::csv;

    #[cfg(target_os = "linux")]
    #[test]
    fn reading_lets_answers_go_first() {
        let niceness = || rustix::process::nice(0).expect("it can be asked for");
        let own = niceness();
        let of_threads = std::thread::spawn(move || {
            give_way();
            (niceness(), std::thread::spawn(niceness).join().expect("it ends"))
        });
        let wanted = (own + NICENESS).min(19);
        assert_eq!(of_threads.join().expect("it ends"), (wanted, wanted));
        assert_eq!(niceness(), own);
    }

    fn mill() -> Input {
        demo("traces/mill")
    }

    fn demo(name: &str) -> Input {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name);
        let options = tracemill_engine::session::OpenOptions::new(tracemill_formats::FORMATS);
        let session = Session::open(&tracemill_engine::source::FileSystem, &[path], &options).expect("they are right");
        let streams = tracemill_engine::selection::streams(&session, &[]).expect("all streams");
        Input {
            traces: Traces::new(session, streams, Selection::default(), None),
            problems: (Vec::new(), Vec::new()),
            program: String::new(),
            command: String::new(),
            cut: None,
            query: None,
            reopen: None,
            opened: SystemTime::now(),
            cache: None,
        }
    }

    #[test]
    fn traces_that_were_read_before_are_known_at_once() {
        let folder = std::env::temp_dir().join(format!("tracemill-known-{}", std::process::id()));
        let read = |name: &str| {
            let mut input = demo(name);
            let opened = SystemTime::now() + std::time::Duration::from_secs(5);
            input.cache = Some(Cache::new(folder.clone(), vec![input.traces.session.traces[0].path.clone()], opened));
            let shared = Shared::alone(input).expect("there are random numbers");
            shared.read();
            assert!(shared.is_complete());
            shared
        };
        let (first, second) = (read("traces/mill"), read("traces/mill"));
        let is_kept = |shared: &Shared| shared.is_kept.load(Ordering::Relaxed);
        assert_eq!((is_kept(&first), is_kept(&second)), (false, true));
        let known = |shared: &Shared| {
            let events = shared.index().map(|index| index.events());
            (events, shared.ends(), shared.timeline().events(), shared.timeline().done(&shared.progress))
        };
        assert_eq!(known(&first), known(&second));
        let sets = [&first, &second].map(|shared| shared.set("cpu == 0").expect("it is right").len());
        assert!(sets[0] == sets[1] && sets[0] > 0);
        // The steps of calls stay in the file.
        let [first, second] = ["calls/tasting"; 2].map(read);
        let calls = |shared: &Shared| shared.calls().map(|calls| (calls.tasks.len(), calls.bytes()));
        let (Some(followed), Some(kept)) = (calls(&first), calls(&second)) else { panic!("they have calls") };
        assert!(followed.0 == kept.0 && followed.1 > kept.1, "{followed:?} {kept:?}");
        let states = |shared: &Shared| shared.states().map(|found| (found.states.tracks.len(), found.traces.clone()));
        assert!(states(&first).is_some() && states(&first) == states(&second));
        // What a browser keeps of complete traces must not change any more.
        let third = Shared::alone(demo("calls/tasting")).expect("there are random numbers");
        let kept = second.input.cache.as_ref().and_then(|cache| cache.load(&third.input.traces)).expect("it was kept");
        assert!(third.take(kept).is_some() && !third.is_complete());
        std::fs::remove_dir_all(&folder).expect("it was made");
    }

    #[test]
    fn a_question_ends_when_the_asker_is_gone() {
        let shared = Shared::alone(mill()).expect("there are random numbers");
        shared.read();
        let gone = Asker::default();
        gone.go();
        assert!(shared.set_for("cpu == 0", &gone).is_err());
        assert!(shared.lasting.filtering().is_none(), "a part of the matches is not told as all");
        let found = shared.set("cpu == 0").expect("somebody waits for this");
        let told = shared.lasting.filtering().map(|filtering| filtering.progress());
        assert_eq!(told, Some((1.0, found.len())));
        assert!(!found.is_empty() && Arc::ptr_eq(&found, &shared.set_for("cpu == 0", &gone).expect("it is known")));
        let index = shared.whole_index().expect("it was read");
        assert_eq!(crate::rows::search(&shared, index, "nutty", -1, true, None, &gone), None);
        assert!(crate::rows::search(&shared, index, "nutty", -1, true, None, &Asker::default()).is_some());
    }

    /// Goes away after some looks.
    struct Leaving {
        looks: std::cell::Cell<usize>,
        taken: usize,
    }

    impl csv::Taker for Leaving {
        fn take(&mut self, text: Vec<u8>) -> bool {
            self.taken += text.len();
            true
        }

        fn is_gone(&self) -> bool {
            let looks = self.looks.get();
            self.looks.set(looks.saturating_sub(1));
            looks == 0
        }
    }

    #[test]
    fn a_table_ends_when_nobody_fetches_it() {
        let shared = Arc::new(Shared::alone(mill()).expect("there are random numbers"));
        shared.read();
        let fetched = |looks: usize| {
            let mut leaving = Leaving { looks: looks.into(), taken: 0 };
            let write = csv::events(&shared, &Query::parse("filter=cpu%20%3D%3D%200")).expect("it is right");
            write(&mut leaving).expect("it can be read");
            (leaving.looks.get(), leaving.taken)
        };
        assert_eq!(fetched(2), (0, 0));
        let (left, taken) = fetched(1_000_000);
        let rows = shared.set("cpu == 0").expect("it is right").len();
        assert!(1_000_000 - left == rows && taken > rows, "{left} {taken}");
        let gone = Query::parse("filter=cpu%20%3D%3D%201");
        gone.asker.go();
        assert!(csv::events(&shared, &gone).is_err() && csv::statistics(&shared, &gone).is_err());
    }

    #[test]
    fn answers_stop_when_nobody_waits() {
        let shared = Shared::alone(mill()).expect("random numbers");
        shared.read();
        for (path, parameters) in [
            ("select", ""),
            ("flame", ""),
            ("pairs", "from=mill:grind&to=mill:stage"),
            ("outliers", "name=mill:grind&field=payload.grams"),
            ("search", "q=mill"),
        ] {
            let query = || Query::parse(parameters);
            let gone = query();
            gone.asker.go();
            let told = answers::answer(&shared, path, &gone).is_err_and(|error| error.status == 503);
            // Without calls there is nothing to follow.
            assert!(told || path == "flame", "{path}");
            assert!(answers::answer(&shared, path, &query()).is_ok(), "{path}");
        }
    }
}
