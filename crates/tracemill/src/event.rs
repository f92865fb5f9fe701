//! An event, and its fields.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;

use tracemill_codec::value::Value as Tree;
use tracemill_engine::event;
use tracemill_engine::filter::{Access, Captured, CapturedValue, FieldReader, PathHead, THREAD, damage};
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::walk::Position;
use tracemill_model::error::Result;
use tracemill_model::schema::{EventClass, FieldClassId, FieldKind, Schema, Scope};
use tracemill_semantics::CpuOf;

use crate::events::Batch;
use crate::traces::Traces;
use crate::value::Value;

/// State that all events of an iteration share.
pub(crate) struct EventReading<'t> {
    pub(crate) traces: &'t Traces,
    pub(crate) streams: Rc<[SelectedStream]>,
    fields: RefCell<FieldReader>,
    cpus: RefCell<CpuOf>,
    /// Storage of events that are gone.
    #[expect(clippy::vec_box, reason = "an event holds it by its box, which moves there and back as it is")]
    pool: RefCell<Vec<Box<Captured>>>,
}

impl<'t> EventReading<'t> {
    pub(crate) fn new(traces: &'t Traces, streams: Rc<[SelectedStream]>) -> Self {
        let fields = RefCell::new(FieldReader::new(&traces.session));
        EventReading { traces, streams, fields, cpus: RefCell::default(), pool: RefCell::default() }
    }
}

/// An event.
///
/// It is a handle: nothing is decoded until it is asked for, and then all fields that were ever asked of events of its
/// class are read in one go. It may be kept; as long as it is, some thousand events around it stay in memory.
///
/// ```
/// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
/// let traces = tracemill::open([demo])?;
/// let event = traces.events().into_iter().next().expect("there are some")?;
/// assert_eq!((&*event.name(), event.id(), event.cpu()), ("orders:taken", 0, Some(0)));
/// assert_eq!(event.time().to_string(), "1795249870.190152266");
/// assert_eq!((event.stream(), event.thread()), ("desk_0", Some(11572)));
/// let customer = event.get("payload.customer").expect("an order has one");
/// assert_eq!(customer.as_str(), Some("千春"));
/// assert_eq!(event.get("payload.goods[1]").and_then(|good| good.as_u64()), Some(7024));
/// assert!(event.get("payload.nothing").is_none());
/// # Ok::<(), tracemill::Error>(())
/// ```
pub struct Event<'t> {
    batch: Rc<Batch<'t>>,
    chunk: u32,
    at: u32,
    ns: Option<i128>,
    captured: OnceCell<Box<Captured>>,
}

impl Drop for Event<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(captured) = self.captured.take() {
            self.batch.reading.pool.borrow_mut().push(captured);
        }
    }
}

/// The time of an event, displayed in seconds: `1700000000.000000001`, `-` for an event without time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Time(Option<i128>);

impl Time {
    /// Ns since the origin of the clock, which is 1970 where clocks know it. `None` for an event without time.
    pub fn ns(self) -> Option<i128> {
        self.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(ns) = self.0 else { return out.write_str("-") };
        let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
        write!(out, "{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}

impl<'t> Event<'t> {
    #[inline]
    pub(crate) fn new(batch: &Rc<Batch<'t>>, Position { chunk, at }: Position) -> Self {
        let (stream, ready) = &batch.chunks[chunk as usize];
        let ns = ready.chunk.event(at as usize).ns(batch.reading.streams[stream.0 as usize].clock.as_ref());
        Event { batch: batch.clone(), chunk, at, ns, captured: OnceCell::new() }
    }

    /// The event as the engine knows it.
    #[inline]
    pub(crate) fn inner(&self) -> event::Event<'_> {
        let (stream, ready) = &self.batch.chunks[self.chunk as usize];
        let of = &self.batch.reading.streams[stream.0 as usize];
        event::Event { trace: of.trace, stream: of.index, raw: ready.chunk.event(self.at as usize), ns: self.ns }
    }

    fn selected_stream(&self) -> &SelectedStream {
        &self.batch.reading.streams[self.batch.chunks[self.chunk as usize].0.0 as usize]
    }

    /// Its time.
    #[inline]
    pub fn time(&self) -> Time {
        Time(self.ns)
    }

    /// Its name; empty when it has none.
    pub fn name(&self) -> Cow<'_, str> {
        let inner = self.inner();
        let class = inner.class();
        if class.open_ids.is_none() {
            return Cow::Borrowed(class.name.as_deref().unwrap_or_default());
        }
        let mut storage = Vec::new();
        Cow::Owned(String::from_utf8_lossy(inner.name(&mut storage).unwrap_or_default()).into_owned())
    }

    /// Its numeric id.
    pub fn id(&self) -> u64 {
        self.inner().id()
    }

    /// The CPU on which it happened, when the trace says so.
    pub fn cpu(&self) -> Option<u64> {
        let (stream, ready) = &self.batch.chunks[self.chunk as usize];
        self.batch.reading.cpus.borrow_mut().cpu(stream.0 as usize, &ready.chunk.packet)
    }

    /// The number of the thread that it is of, or of the track in a trace that numbers its tracks itself, when the trace says
    /// so: the same answer as in every output.
    pub fn thread(&self) -> Option<i64> {
        self.get(THREAD)?.as_i64()
    }

    /// The value of its clock; 0 without clock.
    pub fn cycles(&self) -> u64 {
        self.inner().raw.cycles()
    }

    /// The name of its trace.
    pub fn trace(&self) -> &'t str {
        &self.batch.reading.traces.session.traces[self.selected_stream().trace].name
    }

    /// The name of its stream.
    pub fn stream(&self) -> &str {
        &self.selected_stream().stream.name
    }

    /// Its class: log level, field classes.
    pub fn class(&self) -> &EventClass {
        self.inner().class()
    }

    /// The schema of its trace.
    pub fn schema(&self) -> &'t Schema {
        &self.batch.reading.traces.session.traces[self.selected_stream().trace].schema
    }

    /// The value of a field: `payload.fd`, `fd` for the first scope that has it, `$ctx.vpid`, `payload.list[3].x`, and words
    /// of the language of filters for what is no field, such as `cpu`. `None` when this event does not have it; a path that
    /// no event has is found by [`Traces::check_path`].
    ///
    /// A path is looked up once for each event class. Integers and texts at fixed places are read where they are; other fields are
    /// read together. Arrays, structures and bytes cost more: they are built of the whole scope.
    #[inline]
    pub fn get(&self, path: &str) -> Option<Value<'_>> {
        let inner = self.inner();
        let access = self.batch.reading.fields.borrow_mut().find(&inner, path);
        match access {
            Access::Absent => None,
            Access::Fixed(integer, class) => {
                let chunk = inner.raw.chunk;
                let bits = integer.read(chunk.packet.input(), chunk.body_bits(inner.raw.at))?;
                let value = if integer.is_signed() { i128::from(bits as i64) } else { i128::from(bits) };
                Some(Value::integer(value, Some((self.schema(), class))))
            }
            Access::FixedText(text, class) => {
                let chunk = inner.raw.chunk;
                let text = text.read(chunk.packet.input(), chunk.body_bits(inner.raw.at))?;
                Some(Value::text(text, Some((self.schema(), class))))
            }
            Access::Field(index, class) => self.captured(&inner, index, class),
            Access::Head(head) => self.head(&inner, head),
        }
    }

    fn captured(&self, inner: &event::Event<'_>, index: usize, class: FieldClassId) -> Option<Value<'_>> {
        let reading = &self.batch.reading;
        let class = (self.schema(), class);
        let captured = self.captured.get_or_init(|| {
            let mut captured = reading.pool.borrow_mut().pop().unwrap_or_default();
            reading.fields.borrow_mut().capture(inner, &mut captured);
            captured
        });
        // A path that was met first when the others had been read already is read alone, once.
        let value = if captured.lacks(index) { CapturedValue::Tree } else { captured.get(index)? };
        Some(match value {
            CapturedValue::Integer(value) => Value::integer(value, Some(class)),
            CapturedValue::Wide(value) => Value::wide(value, class),
            CapturedValue::Real(value) => Value::real(value, class),
            CapturedValue::Boolean(value) => Value::boolean(value, class),
            CapturedValue::Text(text) => Value::text(text, Some(class)),
            CapturedValue::Tree => {
                // Finding the event has read all of its fields without damage.
                let tree = reading.fields.borrow().tree(inner, index).ok()??;
                return Value::tree(Cow::Owned(tree), class);
            }
        })
    }

    fn head(&self, inner: &event::Event<'_>, head: PathHead) -> Option<Value<'_>> {
        let integer = |value: i128| Some(Value::integer(value, None));
        let text = |text: &str| Some(Value::text(text.as_bytes().to_vec(), None));
        match head {
            PathHead::Name => text(&self.name()),
            PathHead::Id => integer(self.id().into()),
            PathHead::Stream => integer(self.schema().stream(inner.class().stream).id.into()),
            PathHead::StreamName => text(self.stream()),
            PathHead::Cpu => integer(inner.raw.chunk.packet.cpu?.into()),
            PathHead::Trace => text(self.trace()),
            PathHead::Ns | PathHead::Time => integer(self.ns?),
            PathHead::Cycles => integer(self.cycles().into()),
            // Fields, and what only those know who look at states.
            PathHead::Scope(_) | PathHead::Context | PathHead::Bare | PathHead::Beside { .. } => None,
        }
    }

    /// All fields with their paths, scope by scope, from the event header to the payload: members of the scopes, each with
    /// what is below it. Slower than [`Event::get`] by an order of magnitude.
    ///
    /// ```
    /// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
    /// let traces = tracemill::open([demo])?;
    /// let event = traces.events().into_iter().next().expect("there are some")?;
    /// let payload: Vec<String> = event
    ///     .fields()?
    ///     .filter(|field| field.path.starts_with("payload."))
    ///     .map(|field| format!("{} = {}", field.path, field.value))
    ///     .collect();
    /// assert_eq!(payload[..2], ["payload.id = 1", "payload.customer = 千春"]);
    /// assert_eq!(payload[3], "payload.goods = [1310, 7024]");
    /// # Ok::<(), tracemill::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a field can no longer be decoded.
    pub fn fields(&self) -> Result<impl Iterator<Item = Field<'_>>> {
        let (inner, schema) = (self.inner(), self.schema());
        let mut fields = Vec::new();
        for scope in SCOPES {
            let tree = inner.raw.values(scope).map_err(|fault| damage(&inner, fault))?;
            let (Some(tree), Some(root)) = (tree, schema.scope_root(scope, inner.raw.class())) else { continue };
            let key = scope.key();
            match (tree, &schema.field_class(root).kind) {
                (Tree::Struct(members), FieldKind::Struct(of)) => {
                    for ((name, tree), of) in members.into_iter().zip(&of.members) {
                        let value = Value::tree(Cow::Owned(tree), (schema, of.class));
                        fields.extend(value.map(|value| Field { path: format!("{key}.{name}"), value }));
                    }
                }
                (tree, _) => {
                    let value = Value::tree(Cow::Owned(tree), (schema, root));
                    fields.extend(value.map(|value| Field { path: key.to_string(), value }));
                }
            }
        }
        Ok(fields.into_iter())
    }
}

/// The scopes of an event that have fields.
const SCOPES: [Scope; 5] =
    [Scope::EventHeader, Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// A field of an event; see [`Event::fields`].
#[derive(Clone, Debug)]
pub struct Field<'e> {
    /// Its path, as [`Event::get`] takes it.
    pub path: String,
    /// Its value.
    pub value: Value<'e>,
}
