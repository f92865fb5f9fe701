//! Spans: those of a registry, by the layer, and those of the subscriber, which keeps its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_core::span::{Attributes, Current, Id, Record};
use tracing_core::{Event, Interest, LevelFilter, Metadata};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{CallSiteKind, CodePlace, FieldValues, place, record_event, record_event_of};

/// The number of the next span: of all subscribers and layers, so that it is one span's alone.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A span as it was created.
struct CreatedSpan {
    place: &'static CodePlace,
    id: u64,
    /// Its number, that of its parent, and its fields.
    values: FieldValues,
}

impl CreatedSpan {
    fn new(attributes: &Attributes<'_>, parent: u64) -> CreatedSpan {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut values = FieldValues::with_numbers([id, parent]);
        attributes.record(&mut values);
        // It has its bytes for as long as it lives; the next event gets others.
        CreatedSpan { place: place(attributes.metadata()), id, values }
    }

    fn enter(&self) {
        self.place.record(CallSiteKind::Entry, &self.values);
    }

    fn exit(&self) {
        self.place.record_numbers(CallSiteKind::Exit, [self.id]);
    }

    fn record(&self, record: &Record<'_>) {
        self.place.record_late(self.id, record);
    }

    fn follow(&self, other: u64) {
        self.place.record_numbers(CallSiteKind::Follows, [self.id, other]);
    }

    fn close(&self) {
        self.place.record_numbers(CallSiteKind::Close, [self.id]);
    }
}

/// A layer of `tracing-subscriber` that records all events and spans it is given. Levels are chosen by its `with_filter`,
/// events also by [`Options::filter`](crate::Options::filter).
#[derive(Clone, Copy, Default, Debug)]
pub struct Layer;

impl Layer {
    /// A layer that records.
    pub fn new() -> Layer {
        Layer
    }
}

/// Looks at a span of a registry. `None` when it was not given to this layer.
fn with_span<S, R>(context: &Context<'_, S>, id: &Id, look: impl FnOnce(&CreatedSpan) -> R) -> Option<R>
where
    S: tracing_core::Subscriber + for<'a> LookupSpan<'a>,
{
    let span = context.span(id)?;
    let extensions = span.extensions();
    extensions.get::<CreatedSpan>().map(look)
}

impl<S: tracing_core::Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Layer {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.is_contextual() {
            return record_event(event);
        }
        let parent = event.parent().and_then(|id| with_span(&context, id, |opened| opened.id));
        record_event_of(parent.unwrap_or(0), event);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let parent = span.parent().and_then(|parent| parent.extensions().get::<CreatedSpan>().map(|opened| opened.id));
        span.extensions_mut().replace(CreatedSpan::new(attributes, parent.unwrap_or(0)));
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        with_span(&context, id, |opened| opened.record(record));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        if let Some(other) = with_span(&context, follows, |opened| opened.id) {
            with_span(&context, id, |opened| opened.follow(other));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        with_span(&context, id, CreatedSpan::enter);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        with_span(&context, id, CreatedSpan::exit);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        with_span(&context, &id, CreatedSpan::close);
    }
}

/// A span of [`Subscriber`], and how many handles it has: those of the program, of the threads that are in it, and of its
/// children.
struct Counted {
    opened: CreatedSpan,
    parent: Option<Id>,
    handles: AtomicUsize,
}

/// Numbers of parts that [`Subscriber`] keeps its spans in, so that threads seldom wait for each other.
const PARTS: u64 = 16;

/// A subscriber that records all events and spans, up to a level, and does nothing else.
#[derive(Debug)]
pub struct Subscriber {
    level: LevelFilter,
    /// Tells it from others whose spans the same thread may be in.
    number: u64,
    spans: [Mutex<Spans>; PARTS as usize],
}

#[derive(Default)]
struct Spans(HashMap<u64, Arc<Counted>>);

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} spans", self.0.len())
    }
}

/// A span that a thread is in.
struct Inside {
    subscriber: u64,
    span: u64,
    /// Was the thread in it already?
    is_again: bool,
}

thread_local! {
    /// The spans that the thread is in, of all subscribers, the last one last.
    static INSIDE: RefCell<Vec<Inside>> = const { RefCell::new(Vec::new()) };
}

/// Does something with the spans that the thread is in. `None` at the end of the thread, and in a signal handler that
/// interrupts this.
fn with_inside<R>(work: impl FnOnce(&mut Vec<Inside>) -> R) -> Option<R> {
    let done = INSIDE.try_with(|inside| inside.try_borrow_mut().ok().map(|mut inside| work(&mut inside)));
    done.ok().flatten()
}

impl Default for Subscriber {
    fn default() -> Self {
        static SUBSCRIBERS: AtomicU64 = AtomicU64::new(0);
        let number = SUBSCRIBERS.fetch_add(1, Ordering::Relaxed);
        Subscriber { level: LevelFilter::TRACE, number, spans: Default::default() }
    }
}

impl Subscriber {
    /// A subscriber for all levels.
    pub fn new() -> Subscriber {
        Subscriber::default()
    }

    /// Up to this level. What is beyond costs what `tracing` takes.
    pub fn with_max_level(mut self, level: impl Into<LevelFilter>) -> Subscriber {
        self.level = level.into();
        self
    }

    fn spans(&self, id: u64) -> MutexGuard<'_, Spans> {
        let part = &self.spans[(id % PARTS) as usize];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn span(&self, id: &Id) -> Option<Arc<Counted>> {
        self.spans(id.into_u64()).0.get(&id.into_u64()).cloned()
    }

    /// The span that the thread is in.
    fn current(&self) -> Option<Id> {
        let last = |inside: &mut Vec<Inside>| {
            let mut own = inside.iter().rev().filter(|span| span.subscriber == self.number && !span.is_again);
            own.next().map(|span| Id::from_u64(span.span))
        };
        with_inside(last).flatten()
    }
}

impl tracing_core::Subscriber for Subscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if *metadata.level() <= self.level { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let parent = match attributes.is_contextual() {
            true => self.current(),
            false => attributes.parent().cloned(),
        };
        // A span stays as long as its children do.
        let parent = parent.filter(|parent| self.span(parent).is_some()).map(|parent| self.clone_span(&parent));
        let opened = CreatedSpan::new(attributes, parent.as_ref().map_or(0, Id::into_u64));
        let id = opened.id;
        let counted = Counted { opened, parent, handles: AtomicUsize::new(1) };
        self.spans(id).0.insert(id, Arc::new(counted));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(span) = self.span(span) {
            span.opened.record(values);
        }
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        if let (Some(span), Some(follows)) = (self.span(span), self.span(follows)) {
            span.opened.follow(follows.opened.id);
        }
    }

    fn event(&self, event: &Event<'_>) {
        if event.is_contextual() {
            return record_event(event);
        }
        let parent = event.parent().and_then(|id| self.span(id)).map_or(0, |span| span.opened.id);
        record_event_of(parent, event);
    }

    fn enter(&self, id: &Id) {
        let Some(span) = self.span(id) else { return };
        let is_first = with_inside(|inside| {
            let is_it = |known: &Inside| known.subscriber == self.number && known.span == span.opened.id;
            let is_again = inside.iter().any(is_it);
            inside.push(Inside { subscriber: self.number, span: span.opened.id, is_again });
            !is_again
        });
        // A span that a thread is in stays, whatever becomes of its handles.
        if is_first == Some(true) {
            self.clone_span(id);
        }
        span.opened.enter();
    }

    fn exit(&self, id: &Id) {
        let Some(span) = self.span(id) else { return };
        span.opened.exit();
        let left = with_inside(|inside| {
            let is_it = |known: &Inside| known.subscriber == self.number && known.span == span.opened.id;
            inside.iter().rposition(is_it).map(|at| inside.remove(at))
        });
        if left.flatten().is_some_and(|left| !left.is_again) {
            self.try_close(id.clone());
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.span(id) {
            span.handles.fetch_add(1, Ordering::Relaxed);
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let Some(span) = self.span(&id) else { return false };
        let is_last = span.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            span.opened.close();
            self.spans(id.into_u64()).0.remove(&id.into_u64());
            let mut parent = span.parent.clone();
            // Not by calling itself: generations of spans may be many.
            while let Some(id) = parent.take() {
                let Some(span) = self.span(&id) else { break };
                if span.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
                    span.opened.close();
                    self.spans(id.into_u64()).0.remove(&id.into_u64());
                    parent.clone_from(&span.parent);
                }
            }
        }
        is_last
    }

    fn current_span(&self) -> Current {
        let current = self.current().and_then(|id| Some((self.span(&id)?.opened.place.metadata, id)));
        current.map_or_else(Current::none, |(metadata, id)| Current::new(id, metadata))
    }
}
