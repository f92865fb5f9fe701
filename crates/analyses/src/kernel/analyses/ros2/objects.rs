//! The objects of ROS 2 programs: nodes, publishers, subscriptions, services and timers, and which callbacks belong to them.
//! Programs name them once, when they make them, and by their addresses from then on.

use std::rc::Rc;

use tracemill_semantics::states::{Happening, Map};
use tracemill_semantics::{Concept, Field};

tracemill_semantics::named! {
    /// Kinds of things whose callbacks an executor runs.
    pub(super) CallbackKind {
        /// A message of a topic came.
        Subscription = "subscription",
        /// A request came.
        Service = "service",
        /// A timer expired.
        Timer = "timer",
    }
}

/// A thing that has callbacks.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) kind: CallbackKind,
    /// The address of its handle.
    pub(super) handle: u64,
    /// The topic, or the name of the service.
    pub(super) topic: Option<Rc<str>>,
    pub(super) node: Option<Rc<str>>,
    /// Of a timer, in ns.
    pub(super) period: Option<u64>,
}

/// A publisher of messages.
#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) topic: Option<Rc<str>>,
    pub(super) node: Option<Rc<str>>,
}

/// An object, by its address.
enum Ros2Object {
    Node(Rc<str>),
    Publisher(Rc<Publisher>),
    /// A writer of the middleware, and its topic; `None` for what is not of a topic of ROS 2.
    Writer(Option<Rc<str>>),
    Endpoint(Rc<Endpoint>),
    /// It belongs to the object at this address.
    Part(u64),
}

/// The beginning of the names that topics of ROS 2 have in the middleware; services and others begin otherwise.
const TOPIC_PREFIX: &str = "rt/";

/// Objects that belong to one another are this deep at most: a callback, its subscription, the handle of that, with the buffers
/// between processes and threads.
const MAX_PARTS: usize = 8;

/// All objects, by their process and address.
#[derive(Default)]
pub(super) struct Objects {
    processes: Map<(u32, Option<i64>), u32>,
    all: Map<(u32, u64), Ros2Object>,
    /// Subscriptions, by the handles of the middleware.
    taking: Map<(u32, u64), Rc<Endpoint>>,
    symbols: Map<(u32, u64), Rc<str>>,
}

/// An address; it may be a signed number in the trace.
pub(super) fn address(happening: &Happening<'_>, field: Field) -> Option<u64> {
    happening.values.integer(field).map(|address| address as u64)
}

fn text(happening: &Happening<'_>, field: Field) -> Option<Rc<str>> {
    happening.text(field).map(|text| Rc::from(&*text))
}

impl Objects {
    /// The process of an event.
    pub(super) fn process(&mut self, machine: u32, happening: &Happening<'_>) -> u32 {
        let next = self.processes.len() as u32;
        *self.processes.entry((machine, happening.number(Field::Vpid))).or_insert(next)
    }

    /// Takes what an event says about objects.
    pub(super) fn apply(&mut self, process: u32, happening: &Happening<'_>) {
        let Some(own) = address(happening, Field::Ptr) else { return };
        let node = || match self.all.get(&(process, address(happening, Field::Owner)?))? {
            Ros2Object::Node(name) => Some(name.clone()),
            _ => None,
        };
        let object = match happening.concept {
            Concept::Ros2Node => {
                let Some(name) = happening.text(Field::Name) else { return };
                let space = happening.text(Field::Path).unwrap_or_default();
                Ros2Object::Node(format!("{}/{name}", space.trim_end_matches('/')).into())
            }
            Concept::Ros2Publisher => {
                Ros2Object::Publisher(Rc::new(Publisher { topic: text(happening, Field::Name), node: node() }))
            }
            Concept::Ros2Writer => {
                let Some(name) = happening.text(Field::Name) else { return };
                Ros2Object::Writer(name.strip_prefix(TOPIC_PREFIX).map(|name| format!("/{name}").into()))
            }
            Concept::Ros2Subscription | Concept::Ros2Service => {
                let is_service = happening.concept == Concept::Ros2Service;
                let kind = if is_service { CallbackKind::Service } else { CallbackKind::Subscription };
                let topic = text(happening, Field::Name);
                let endpoint = Rc::new(Endpoint { kind, handle: own, topic, node: node(), period: None });
                if let Some(rmw) = address(happening, Field::Rmw).filter(|_| !is_service) {
                    self.taking.insert((process, rmw), endpoint.clone());
                }
                Ros2Object::Endpoint(endpoint)
            }
            Concept::Ros2Timer => {
                let period = happening.values.integer(Field::Period).and_then(|period| u64::try_from(period).ok());
                let kind = CallbackKind::Timer;
                Ros2Object::Endpoint(Rc::new(Endpoint { kind, handle: own, topic: None, node: None, period }))
            }
            Concept::Ros2TimerNode => {
                let period = match self.all.get(&(process, own)) {
                    Some(Ros2Object::Endpoint(timer)) if timer.kind == CallbackKind::Timer => timer.period,
                    _ => None,
                };
                let kind = CallbackKind::Timer;
                Ros2Object::Endpoint(Rc::new(Endpoint { kind, handle: own, topic: None, node: node(), period }))
            }
            Concept::Ros2Part => match address(happening, Field::Owner) {
                Some(owner) => Ros2Object::Part(owner),
                None => return,
            },
            Concept::Ros2Symbol => {
                if let Some(symbol) = text(happening, Field::Name) {
                    self.symbols.insert((process, own), symbol);
                }
                return;
            }
            _ => return,
        };
        self.all.insert((process, own), object);
    }

    /// The thing that an object, such as a callback, belongs to.
    pub(super) fn owner(&self, process: u32, object: u64) -> Option<&Rc<Endpoint>> {
        let mut at = object;
        for _ in 0..MAX_PARTS {
            match self.all.get(&(process, at))? {
                Ros2Object::Endpoint(endpoint) => return Some(endpoint),
                Ros2Object::Part(owner) => at = *owner,
                Ros2Object::Node(_) | Ros2Object::Publisher(_) | Ros2Object::Writer(_) => return None,
            }
        }
        None
    }

    /// A publisher.
    pub(super) fn publisher(&self, process: u32, handle: u64) -> Option<&Rc<Publisher>> {
        match self.all.get(&(process, handle))? {
            Ros2Object::Publisher(publisher) => Some(publisher),
            _ => None,
        }
    }

    /// The topic of what the middleware writes with; `Some(None)` if it is not of a topic of ROS 2.
    pub(super) fn written_topic(&self, process: u32, writer: u64) -> Option<Option<Rc<str>>> {
        match self.all.get(&(process, writer))? {
            Ros2Object::Writer(topic) => Some(topic.clone()),
            _ => None,
        }
    }

    /// The subscription that the middleware takes messages for.
    pub(super) fn taking(&self, process: u32, rmw: u64) -> Option<&Rc<Endpoint>> {
        self.taking.get(&(process, rmw))
    }

    /// The name of the function that a callback is.
    pub(super) fn symbol(&self, process: u32, callback: u64) -> Option<&Rc<str>> {
        self.symbols.get(&(process, callback))
    }
}
