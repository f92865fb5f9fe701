//! The state that all questions share: the traces, and the knowledge of them so far.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracemill_engine::event::Event;
use tracemill_engine::filter::Expression;
use tracemill_engine::parsed_query;
use tracemill_engine::samples::has_samples;
use tracemill_lod::calls::{self, SessionCalls};
use tracemill_lod::growth::{self, Growth, KnownTraces};
use tracemill_lod::store::{IndexParts, StoredIndex};
use tracemill_lod::{EventSet, Index, Progress, Source, Timeline, index};
use tracemill_model::error::{Error, Result};

use crate::caches::Caches;
use crate::counters::{self, CounterTrack};
use crate::error::{Answer, ApiError};
use crate::input::AnswerInput;
use crate::query::Asker;
use crate::random::random_name;
use crate::states;
use crate::status::{Stage, Status};
use crate::traces::ShownTraces;

/// Traces, and the knowledge of them so far. One thread [reads](TraceState::read), others ask meanwhile.
pub struct TraceState {
    /// The traces.
    pub input: AnswerInput,
    pub(crate) caches: Caches,
    /// How far all is, for those who wait.
    pub status: Arc<Status>,
    /// How many were shown before in this run of the program.
    pub version: usize,
    /// How far the reading is.
    pub progress: Progress,
    /// The density of all tracks, as far as it is known. Another one takes its place when an event is found before its origin.
    timeline: Mutex<Arc<Timeline>>,
    index: OnceLock<Arc<Index>>,
    /// Did the index come from the cache?
    is_kept: AtomicBool,
    calls: OnceLock<Option<Arc<SessionCalls>>>,
    states: OnceLock<Option<states::StateTracks>>,
    counters: OnceLock<Vec<CounterTrack>>,
    has_samples: bool,
    /// Statistics of all calls of each name, as text.
    pub(crate) of_functions: OnceLock<HashMap<u32, Box<str>>>,
}

impl TraceState {
    /// Traces of which nothing is known yet but what packets tell.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(input: AnswerInput) -> Result<TraceState> {
        let status = Status::new(random_name()?[..12].to_string());
        Ok(TraceState::with_status(input, Arc::new(status), 0))
    }

    /// The state of the same traces after they were opened again.
    pub fn next(input: AnswerInput, before: &TraceState) -> TraceState {
        TraceState::with_status(input, before.status.clone(), before.version + 1)
    }

    /// How traces differ from those of a state that is complete: what is known of them is extended, when they only grew.
    pub fn growth_to(&self, now: &ShownTraces) -> Growth {
        let (Some(index), timeline) = (self.index(), self.timeline()) else { return Growth::Changed };
        let known = KnownTraces { timeline: &timeline, index, source: self.input.traces.source() };
        growth::extend(known, &now.source(), now.ends, &self.progress)
    }

    /// The state of the same traces after they have grown, with what [`growth_to`](TraceState::growth_to) gave. Calls, states and
    /// counters are not known yet: to [read](TraceState::read) it is to follow these.
    pub fn extended(input: AnswerInput, before: &TraceState, (timeline, index): (Timeline, Index)) -> TraceState {
        let state = TraceState::with_timeline(input, before.status.clone(), before.version + 1, timeline);
        state.put_index(Arc::new(index));
        state
    }

    fn with_status(input: AnswerInput, status: Arc<Status>, version: usize) -> TraceState {
        let timeline = Timeline::new(&input.traces.source(), input.traces.ends);
        TraceState::with_timeline(input, status, version, timeline)
    }

    fn with_timeline(input: AnswerInput, status: Arc<Status>, version: usize, timeline: Timeline) -> TraceState {
        let ShownTraces { session, selection, .. } = &input.traces;
        // They would show what is redacted.
        let has_samples = selection.redactions.is_none() && has_samples(session);
        TraceState {
            has_samples,
            timeline: Mutex::new(Arc::new(timeline)),
            input,
            caches: Caches::default(),
            status,
            version,
            progress: Progress::default(),
            index: OnceLock::new(),
            is_kept: AtomicBool::new(false),
            calls: OnceLock::new(),
            states: OnceLock::new(),
            counters: OnceLock::new(),
            of_functions: OnceLock::new(),
        }
    }

    /// Reads the traces in a thread of its own: between two events that match a filter it looks at nothing else.
    pub fn read_in_background(self: &Arc<Self>) {
        let state = self.clone();
        std::thread::spawn(move || {
            give_way();
            state.progress.wait();
            state.read();
        });
    }

    /// Reads the traces: events are counted, then numbered; meanwhile calls and states are followed.
    pub fn read(&self) {
        let ShownTraces { session, selection, .. } = &self.input.traces;
        let change = || self.status.add_change();
        // Calls and states are followed as they were recorded, and would show what is redacted.
        let may_follow = selection.redactions.is_none();
        let follow_calls = || {
            let source = self.input.traces.source();
            let follow = || calls::follow(session, &source, self.timeline().origin, &self.progress);
            let found = may_follow.then(follow).flatten().map(Arc::new);
            // It is written once, so `set` cannot fail.
            let _ = self.calls.set(found);
            change();
        };
        let is_extended = self.index().is_some();
        let cache = self.input.cache.as_ref().filter(|_| !is_extended);
        let kept = cache.and_then(|cache| cache.load(&self.input.traces));
        let kept_states = kept.map(|kept| self.restore(kept));
        let is_kept = kept_states.is_some();
        // The cache has the states that all users of the traces see.
        let has_custom = self.input.traces.custom.is_some();
        let kept_states = kept_states.filter(|_| !has_custom);
        let follow_states = || {
            let find = || counters::find(&self.input.traces, &self.progress.stop);
            let follow = || states::follow(&self.input.traces, self.timeline().origin, &self.progress.stop);
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
            let counted = if is_kept || is_extended { None } else { self.counted(&source) };
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
        self.status.update(|last| {
            let is_new = last.stage == Stage::Counting && last.version == self.version;
            last.stage = if is_new { Stage::Complete } else { last.stage };
            is_new
        });
        match (cache, self.index()) {
            (_, Some(index)) if is_kept => index.fill(selection.jobs, &self.progress),
            (Some(cache), Some(index)) if !has_custom => {
                let states = self.states().map(|found| (&found.states, &*found.traces));
                let calls = self.calls().map(|calls| &**calls);
                cache.save(session, IndexParts { timeline: &self.timeline(), index, calls, states });
            }
            _ => {}
        }
    }

    /// Takes what was kept. Gives the states: who puts them there, when all else is known, says that nothing changes any more.
    fn restore(&self, kept: StoredIndex) -> Option<states::StateTracks> {
        let StoredIndex { timeline, index, calls, states } = kept;
        self.is_kept.store(true, Ordering::Relaxed);
        self.put_timeline(timeline);
        // It is written once, so `set` cannot fail.
        let _ = self.calls.set(calls.map(Arc::new));
        self.put_index(Arc::new(index));
        states.map(|(states, traces)| states::StateTracks::new(states, traces))
    }

    fn put_index(&self, index: Arc<Index>) {
        for known in [&self.progress.counted, &self.progress.events] {
            known.store(index.events() as u64, Ordering::Relaxed);
        }
        // It is written once, so `set` cannot fail.
        let _ = self.index.set(index);
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
                    self.status.add_change();
                }
            }
        }
    }

    /// The density of all tracks, as far as it is known.
    pub fn timeline(&self) -> Arc<Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends all reading.
    pub fn stop(&self) {
        self.progress.stop.store(true, Ordering::Relaxed);
        self.caches.groups.values().iter().for_each(|reading| reading.groups.stop());
    }

    /// Ends the reading, and the program that shows it.
    pub fn end(&self) {
        self.stop();
        self.status.update(|last| {
            last.stage = Stage::End;
            true
        });
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
    pub fn calls(&self) -> Option<&Arc<SessionCalls>> {
        self.calls.get()?.as_ref()
    }

    /// States of CPUs and threads.
    pub fn states(&self) -> Option<&states::StateTracks> {
        self.states.get()?.as_ref()
    }

    /// Counters that have tracks, once they are found.
    pub(crate) fn counters(&self) -> &[CounterTrack] {
        self.counters.get().map_or(&[], |list| list)
    }

    /// May there be samples?
    pub fn has_samples(&self) -> bool {
        self.has_samples
    }

    /// Is nothing left to be read?
    pub fn is_complete(&self) -> bool {
        self.index.get().is_some() && self.calls.get().is_some() && self.states.get().is_some()
    }

    /// Changes whenever answers may. Each run has its own: a browser keeps tiles for a year, and the next server on this
    /// port may show another trace.
    pub fn generation(&self) -> String {
        format!("{}-{}", self.status.run, 1 + self.status.changes())
    }

    /// The first and last time of the timeline.
    pub fn ends(&self) -> (Option<i128>, Option<i128>) {
        match (self.index(), self.timeline().ends()) {
            (Some(index), _) if index.events() as u64 > index.untimed => (Some(index.begin), Some(index.end)),
            (Some(_), _) => (None, None),
            (None, counted) => {
                let (first, last) = self.input.traces.ends;
                // The counted events may reach further than the packets say.
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

    /// As [`set`](Self::set), for a caller that may cancel.
    pub(crate) fn set_for(&self, text: &str, asker: &Asker) -> Answer<Arc<EventSet>> {
        let all = self.whole_index()?.events();
        self.set_of(text.to_string(), asker, || {
            let ShownTraces { session, .. } = &self.input.traces;
            let mistake = |error: Error| ApiError::filter(text, &error);
            let expression = Expression::parse(text).map_err(mistake)?;
            let times = parsed_query::times(session, false, expression.needs());
            let wanted = expression.bind(session, &times).map_err(mistake)?;
            let mut matcher = wanted.matcher();
            let filtering = self.status.begin_filter(text, all);
            let is_wanted = |event: &Event<'_>| filtering.count(matcher.matches(event));
            let set = index::matching(&self.input.traces.source(), &asker.flag(), is_wanted);
            let set = set.filter(|_| !asker.is_over(&self.progress));
            match set {
                Some(_) => self.status.end_filter(&filtering),
                None => self.status.give_up_filter(&filtering),
            }
            set.ok_or_else(Asker::cancelled)
        })
    }

    /// The set of a key: one that is kept, or a new one.
    pub(crate) fn set_of(
        &self,
        key: String,
        asker: &Asker,
        make: impl FnOnce() -> Answer<EventSet>,
    ) -> Answer<Arc<EventSet>> {
        self.caches.sets.get_or_make(key, &|| asker.is_over(&self.progress), || make().map(Arc::new))
    }
}

/// How much less than others a thread that reads ahead of questions is in a hurry, as `nice` counts it: of a core that both
/// want it gets a tenth.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lets others go before this thread and those that it begins: answers, and the browser that shows them. Elsewhere than on
/// Linux that would be true of the whole process.
pub fn give_way() {
    // When that fails, answers wait a little longer.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tracemill_engine::session::Session;
    use tracemill_engine::timeline::Selection;

    use super::*;
    use crate::answer;
    use crate::csv;
    use crate::index_cache::IndexCache;
    use crate::query::Query;

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

    fn mill() -> AnswerInput {
        demo("traces/mill")
    }

    fn demo(name: &str) -> AnswerInput {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name);
        let options = tracemill_engine::session::OpenOptions::new(tracemill_formats::FORMATS);
        let session = Session::open(&tracemill_engine::source::FileSystem, &[path], &options).expect("they are right");
        let streams = tracemill_engine::selection::streams(&session, &[]).expect("all streams");
        AnswerInput::new(ShownTraces::new(session, streams, Selection::default(), None))
    }

    #[test]
    fn traces_that_were_read_before_are_known_at_once() {
        let folder = std::env::temp_dir().join(format!("tracemill-known-{}", std::process::id()));
        let read = |name: &str| {
            let mut input = demo(name);
            let opened = SystemTime::now() + std::time::Duration::from_secs(5);
            input.cache =
                Some(IndexCache::new(folder.clone(), vec![input.traces.session.traces[0].path.clone()], opened));
            let state = TraceState::new(input).expect("there are random numbers");
            state.read();
            assert!(state.is_complete());
            state
        };
        let (first, second) = (read("traces/mill"), read("traces/mill"));
        let is_kept = |state: &TraceState| state.is_kept.load(Ordering::Relaxed);
        assert_eq!((is_kept(&first), is_kept(&second)), (false, true));
        let known = |state: &TraceState| {
            let events = state.index().map(|index| index.events());
            (events, state.ends(), state.timeline().events(), state.timeline().done(&state.progress))
        };
        assert_eq!(known(&first), known(&second));
        let sets = [&first, &second].map(|state| state.set("cpu == 0").expect("it is right").len());
        assert!(sets[0] == sets[1] && sets[0] > 0);
        // The steps of calls stay in the file.
        let [first, second] = ["calls/tasting"; 2].map(read);
        let calls = |state: &TraceState| state.calls().map(|calls| (calls.tasks.len(), calls.bytes()));
        let (Some(followed), Some(kept)) = (calls(&first), calls(&second)) else { panic!("they have calls") };
        assert!(followed.0 == kept.0 && followed.1 > kept.1, "{followed:?} {kept:?}");
        let states = |state: &TraceState| state.states().map(|found| (found.states.tracks.len(), found.traces.clone()));
        assert!(states(&first).is_some() && states(&first) == states(&second));
        // Answers that a browser caches for complete traces must not change any more.
        let third = TraceState::new(demo("calls/tasting")).expect("there are random numbers");
        let kept = second.input.cache.as_ref().and_then(|cache| cache.load(&third.input.traces)).expect("it was kept");
        assert!(third.restore(kept).is_some() && !third.is_complete());
        std::fs::remove_dir_all(&folder).expect("it was made");
    }

    #[test]
    fn a_question_ends_when_the_asker_is_gone() {
        let state = TraceState::new(mill()).expect("there are random numbers");
        state.read();
        let gone = Asker::default();
        gone.cancel();
        assert!(state.set_for("cpu == 0", &gone).is_err());
        assert!(state.status.filtering().is_none(), "a part of the matches is not told as all");
        let found = state.set("cpu == 0").expect("somebody waits for this");
        let told = state.status.filtering().map(|filtering| filtering.progress());
        assert_eq!(told, Some((1.0, found.len())));
        assert!(!found.is_empty() && Arc::ptr_eq(&found, &state.set_for("cpu == 0", &gone).expect("it is known")));
        let index = state.whole_index().expect("it was read");
        assert_eq!(crate::rows::search(&state, index, "nutty", -1, true, None, &gone), None);
        assert!(crate::rows::search(&state, index, "nutty", -1, true, None, &Asker::default()).is_some());
    }

    #[test]
    fn a_filter_that_two_ask_for_is_read_once() {
        let state = TraceState::new(mill()).expect("random numbers");
        state.read();
        let ask = || state.set("cpu == 0").expect("it is right");
        let [a, b] =
            std::thread::scope(|scope| [scope.spawn(ask), scope.spawn(ask)].map(|set| set.join().expect("it ends")));
        assert!(Arc::ptr_eq(&a, &b));
    }

    /// Goes away after some looks.
    struct Leaving {
        looks: std::cell::Cell<usize>,
        taken: usize,
    }

    impl csv::TextSink for Leaving {
        fn write_text(&mut self, text: Vec<u8>) -> bool {
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
        let state = Arc::new(TraceState::new(mill()).expect("there are random numbers"));
        state.read();
        let fetched = |looks: usize| {
            let mut leaving = Leaving { looks: looks.into(), taken: 0 };
            let write = csv::events(&state, &Query::parse("filter=cpu%20%3D%3D%200")).expect("it is right");
            write(&mut leaving).expect("it can be read");
            (leaving.looks.get(), leaving.taken)
        };
        assert_eq!(fetched(2), (0, 0));
        let (left, taken) = fetched(1_000_000);
        let rows = state.set("cpu == 0").expect("it is right").len();
        assert!(1_000_000 - left == rows && taken > rows, "{left} {taken}");
        let gone = Query::parse("filter=cpu%20%3D%3D%201");
        gone.asker.cancel();
        assert!(csv::events(&state, &gone).is_err() && csv::statistics(&state, &gone).is_err());
    }

    #[test]
    fn answers_stop_when_nobody_waits() {
        let state = TraceState::new(mill()).expect("random numbers");
        state.read();
        for (path, parameters) in [
            ("select", ""),
            ("flame", ""),
            ("pairs", "from=mill:grind&to=mill:stage"),
            ("outliers", "name=mill:grind&field=payload.grams"),
            ("search", "q=mill"),
        ] {
            let query = || Query::parse(parameters);
            let gone = query();
            gone.asker.cancel();
            let told = answer::answer(&state, path, &gone).is_err_and(|error| error.status == 503);
            // Without calls there is nothing to follow.
            assert!(told || path == "flame", "{path}");
            assert!(answer::answer(&state, path, &query()).is_ok(), "{path}");
        }
    }
}
