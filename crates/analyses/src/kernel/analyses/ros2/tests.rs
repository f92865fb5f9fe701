use std::fmt::Write as _;

use super::*;
use crate::kernel::View;
use crate::kernel::question::query::AnalysisQuery;
use crate::kernel::testing::played::{played, rows};
use crate::kernel::testing::seeds::{Failed, Rng, seeds};

fn query(view: View, is_of_chains: bool) -> AnalysisQuery {
    AnalysisQuery { view, words: is_of_chains.then_some(FormWord::Chains).into_iter().collect(), ..Default::default() }
}

fn note(table: &Table, name: &str) -> u64 {
    table.notes.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
}

/// A talker with a timer, a filter, and a sink: each a node of its own; the filter and the sink are one process.
const WORLD: &str = "
    10 0 ros2_node ptr=16 name=talker path=/ vpid=1
    11 0 ros2_publisher ptr=32 owner=16 name=/chatter vpid=1
    12 0 ros2_timer ptr=48 period=10000000 vpid=1
    13 0 ros2_part ptr=49 owner=48 vpid=1
    14 0 ros2_timer_node ptr=48 owner=16 vpid=1
    15 0 ros2_symbol ptr=49 name=Talker::tick vpid=1
    20 0 ros2_node ptr=16 name=filter path=/robot vpid=2
    21 0 ros2_subscription ptr=64 owner=16 rmw=65 name=/chatter vpid=2
    22 0 ros2_part ptr=66 owner=64 vpid=2
    23 0 ros2_part ptr=67 owner=66 vpid=2
    24 0 ros2_publisher ptr=32 owner=16 name=/clean vpid=2
    30 0 ros2_node ptr=17 name=sink path=/robot/ vpid=2
    31 0 ros2_subscription ptr=80 owner=17 rmw=81 name=/clean vpid=2
    32 0 ros2_part ptr=82 owner=80 vpid=2
    33 0 ros2_part ptr=83 owner=82 vpid=2
    34 0 ros2_part ptr=84 owner=82 vpid=2
    35 0 ros2_part ptr=85 owner=84 vpid=2
";

/// One message from the talker to the filter, and from there to the sink: by the middleware, or inside of the process.
const ROUND: &str = "
    100 0 ros2_start ptr=49 intra=0 vpid=1 vtid=5
    110 0 ros2_publish ptr=32 vpid=1 vtid=5
    112 0 ros2_sent stamp=7000 vpid=1 vtid=5
    120 0 ros2_end ptr=49 vpid=1 vtid=5
    130 0 ros2_take rmw=65 stamp=7000 ret=1 vpid=2 vtid=6
    135 0 ros2_start ptr=67 intra=0 vpid=2 vtid=6
";

#[test]
fn a_chain_goes_from_callback_to_callback() {
    let stream = format!(
        "{WORLD}{ROUND}
        150 0 ros2_publish ptr=32 vpid=2 vtid=6
        152 0 ros2_sent stamp=7050 vpid=2 vtid=6
        160 0 ros2_end ptr=67 vpid=2 vtid=6
        200 0 ros2_take rmw=81 stamp=7050 ret=1 vpid=2 vtid=6
        204 0 ros2_start ptr=83 intra=0 vpid=2 vtid=6
        220 0 ros2_end ptr=83 vpid=2 vtid=6"
    );
    let columns = ["node", "kind", "topic", "period_ns", "callback", "tid", "delay_ns", "from", "to"];
    let expected = [
        "/talker timer - 10000000 Talker::tick 5 - 100 120",
        "/robot/filter subscription /chatter - - 6 25 135 160",
        "/robot/sink subscription /clean - - 6 54 204 220",
    ];
    assert_eq!(rows(&played(&DESCRIPTOR, &query(View::Log, false), &stream), &columns), expected);
    let table = played(&DESCRIPTOR, &query(View::Log, true), &stream);
    let columns = ["chain", "messages", "from", "to", "duration_ns", "running_ns", "transport_ns", "waiting_ns"];
    let expected = [
        "/talker (timer 10 ms) -> /chatter -> /robot/filter 1 100 160 60 35 20 5",
        "/talker (timer 10 ms) -> /chatter -> /robot/filter -> /clean -> /robot/sink 2 100 220 120 41 70 9",
    ];
    assert_eq!(rows(&table, &columns), expected);
    assert!(table.notes.is_empty(), "{:?}", table.notes);
    let by = |key: &str| AnalysisQuery { by: Some(key.to_string()), ..query(View::Statistics, false) };
    let table = played(&DESCRIPTOR, &by("node"), &stream);
    let columns = ["node", "count", "total_ns", "delays", "delay_total_ns"];
    assert_eq!(rows(&table, &columns), ["/robot/filter 1 25 1 25", "/talker 1 20 0 -", "/robot/sink 1 16 1 54"]);
    let table = played(&DESCRIPTOR, &by("kind"), &stream);
    assert_eq!(rows(&table, &["kind", "count", "total_ns"]), ["subscription 2 41", "timer 1 20"]);
}

fn all_of(table: &Table, names: &[&str]) -> Vec<String> {
    let cell =
        |name: &&str| table.all.iter().find(|(column, _)| column.name == *name).map(|(_, cell)| format!("{cell:?}"));
    names.iter().map(|name| cell(name).unwrap_or_default()).collect()
}

#[test]
fn a_chain_and_its_beginning_are_not_added_up() {
    let stream = format!(
        "{WORLD}{ROUND}
        150 0 ros2_publish ptr=32 vpid=2 vtid=6
        152 0 ros2_sent stamp=7050 vpid=2 vtid=6
        160 0 ros2_end ptr=67 vpid=2 vtid=6
        200 0 ros2_take rmw=81 stamp=7050 ret=1 vpid=2 vtid=6
        204 0 ros2_start ptr=83 intra=0 vpid=2 vtid=6
        220 0 ros2_end ptr=83 vpid=2 vtid=6"
    );
    let table = played(&DESCRIPTOR, &query(View::Statistics, true), &stream);
    assert_eq!(rows(&table, &["count", "total_ns"]), ["1 120", "1 60"]);
    let names = ["count", "total_ns", "min_ns", "running_total_ns", "transport_total_ns", "waiting_total_ns"];
    let integers = |numbers: &[u64]| numbers.iter().map(|number| format!("Integer({number})")).collect::<Vec<_>>();
    assert_eq!(all_of(&table, &names), integers(&[1, 120, 120, 41, 70, 9]));
    // If the longer one is not wanted, the shorter one is not its beginning.
    let short = AnalysisQuery { max: Some(100), ..query(View::Statistics, true) };
    assert_eq!(all_of(&played(&DESCRIPTOR, &short, &stream), &names), integers(&[1, 60, 60, 35, 20, 5]));
}

#[test]
fn the_middleware_says_which_message_it_sends_and_its_topic() {
    let world = WORLD.replace("ros2_publisher ptr=32 owner=16 name=/clean", "ros2_writer ptr=33 name=rt/clean");
    let world =
        format!("{world}\n40 0 ros2_writer ptr=34 name=rr/reply vpid=2\n41 0 ros2_writer ptr=35 name=rt/other vpid=2");
    // The publisher is not known by its address.
    let end = "
        160 0 ros2_end ptr=67 vpid=2 vtid=6
        200 0 ros2_take rmw=81 stamp=7050 ret=1 vpid=2 vtid=6
        204 0 ros2_start ptr=83 intra=0 vpid=2 vtid=6
        220 0 ros2_end ptr=83 vpid=2 vtid=6";
    let stream = format!(
        "{world}{ROUND}
        150 0 ros2_publish ptr=9999 vpid=2 vtid=6
        151 0 ros2_sent stamp=7040 owner=34 vpid=2 vtid=6
        152 0 ros2_sent stamp=7050 owner=33 vpid=2 vtid=6{end}"
    );
    let table = played(&DESCRIPTOR, &query(View::Log, true), &stream);
    let expected = [
        "/talker (timer 10 ms) -> /chatter -> /robot/filter 60 35 20 5",
        "/talker (timer 10 ms) -> /chatter -> /robot/filter -> /clean -> /robot/sink 120 41 70 9",
    ];
    assert_eq!(rows(&table, &["chain", "duration_ns", "running_ns", "transport_ns", "waiting_ns"]), expected);
    assert!(table.notes.is_empty(), "{:?}", table.notes);
    // A publisher that is known writes with what is of its topic.
    let stream = format!(
        "{WORLD}40 0 ros2_writer ptr=33 name=rt/clean vpid=2\n41 0 ros2_writer ptr=35 name=rt/other vpid=2{ROUND}
        150 0 ros2_publish ptr=32 vpid=2 vtid=6
        151 0 ros2_sent stamp=7050 owner=35 vpid=2 vtid=6
        152 0 ros2_sent stamp=7050 owner=33 vpid=2 vtid=6{end}"
    );
    let table = played(&DESCRIPTOR, &query(View::Log, true), &stream);
    assert_eq!(rows(&table, &["chain", "duration_ns", "running_ns", "transport_ns", "waiting_ns"]), expected);
}

#[test]
fn messages_inside_of_a_process_go_through_buffers() {
    let stream = format!(
        "{WORLD}{ROUND}
        150 0 ros2_publish name=intra ptr=32 vpid=2 vtid=6
        151 0 ros2_enqueue ptr=85 nr=3 vpid=2 vtid=6
        160 0 ros2_end ptr=67 vpid=2 vtid=6
        200 0 ros2_dequeue ptr=85 nr=3 vpid=2 vtid=7
        204 0 ros2_start ptr=83 intra=1 vpid=2 vtid=7
        220 0 ros2_end ptr=83 vpid=2 vtid=7"
    );
    let table = played(&DESCRIPTOR, &query(View::Log, true), &stream);
    let expected = "/talker (timer 10 ms) -> /chatter -> /robot/filter -> /clean -> /robot/sink 120 41 70 9";
    assert_eq!(rows(&table, &["chain", "duration_ns", "running_ns", "transport_ns", "waiting_ns"])[1], expected);
}

#[test]
fn what_is_not_known_begins_no_chain() {
    let ends = |text: &str| format!("{WORLD}{text}");
    let filtered = "ros2_start ptr=67 intra=0 vpid=2 vtid=6\n 140 0 ros2_end ptr=67 vpid=2 vtid=6";
    for (what, stream, counted) in [
        (
            "no publication was seen",
            format!("130 0 ros2_take rmw=65 stamp=7000 ret=1 vpid=2 vtid=6\n 135 0 {filtered}"),
            "unknown_messages",
        ),
        (
            "no message was taken",
            format!("130 0 ros2_take rmw=65 stamp=7000 ret=0 vpid=2 vtid=6\n 135 0 {filtered}"),
            "unknown_messages",
        ),
        (
            "a stamp is that of two messages",
            format!(
                "100 0 ros2_publish ptr=32 vpid=1 vtid=5\n 101 0 ros2_sent stamp=7000 vpid=1 vtid=5
                102 0 ros2_publish ptr=32 vpid=1 vtid=5\n 103 0 ros2_sent stamp=7000 vpid=1 vtid=5
                130 0 ros2_take rmw=65 stamp=7000 ret=1 vpid=2 vtid=6\n 135 0 {filtered}"
            ),
            "ambiguous_messages",
        ),
        (
            "a publisher was made before the trace",
            format!(
                "100 0 ros2_publish ptr=99 vpid=1 vtid=5\n 101 0 ros2_sent stamp=7000 vpid=1 vtid=5
                130 0 ros2_take rmw=65 stamp=7000 ret=1 vpid=2 vtid=6\n 135 0 {filtered}"
            ),
            "unknown_publishers",
        ),
    ] {
        let stream = ends(&stream);
        let table = played(&DESCRIPTOR, &query(View::Log, true), &stream);
        assert_eq!((table.rows.cells().len(), note(&table, counted)), (0, 1), "{what}");
        let table = played(&DESCRIPTOR, &query(View::Log, false), &stream);
        assert_eq!(rows(&table, &["node", "delay_ns", "from", "to"]), ["/robot/filter - 135 140"], "{what}");
    }
}

#[test]
fn a_lost_end_or_beginning_ends_nothing_else() {
    let stream = format!(
        "{WORLD}
        90 0 ros2_end ptr=49 vpid=1 vtid=5
        100 0 ros2_start ptr=49 vpid=1 vtid=5
        105 0 ros2_start ptr=50 vpid=1 vtid=5
        110 0 ros2_start ptr=49 vpid=1 vtid=5
        120 0 ros2_end ptr=49 vpid=1 vtid=5
        130 0 ros2_start ptr=50 vpid=1 vtid=5
        140 0 ros2_end ptr=50 vpid=1 vtid=6
        150 0 ros2_end ptr=50 vpid=1 vtid=5"
    );
    let table = played(&DESCRIPTOR, &query(View::Log, false), &stream);
    assert_eq!(rows(&table, &["kind", "from", "to"]), ["timer 110 120", "- 130 150"]);
    let notes = ["unmatched_callback_ends", "unmatched_callback_starts"].map(|name| note(&table, name));
    assert_eq!(notes, [2, 2]);
}

#[test]
fn a_message_that_no_callback_publishes_begins_a_chain() {
    let stream = format!(
        "{WORLD}
        100 0 ros2_publish ptr=32 vpid=1 vtid=5
        101 0 ros2_sent stamp=7000 vpid=1 vtid=5
        130 0 ros2_take rmw=65 stamp=7000 ret=1 vpid=2 vtid=6
        135 0 ros2_start ptr=67 intra=0 vpid=2 vtid=6
        140 0 ros2_end ptr=67 vpid=2 vtid=6"
    );
    let table = played(&DESCRIPTOR, &query(View::Statistics, true), &stream);
    let columns = ["chain", "count", "total_ns", "running_total_ns", "transport_total_ns", "waiting_total_ns"];
    assert_eq!(rows(&table, &columns), ["/talker -> /chatter -> /robot/filter 1 40 5 30 5"]);
}

/// An event of a random stream.
#[derive(Clone, Debug)]
struct Played {
    ns: Ns,
    concept: String,
    fields: Vec<(String, String)>,
}

impl Played {
    fn parse(line: &str) -> Played {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let field = |word: &&str| word.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
        Played {
            ns: words[0].parse().unwrap(),
            concept: words[2].into(),
            fields: words[3..].iter().filter_map(field).collect(),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    fn is(&self, concept: &str) -> bool {
        self.concept == concept
    }

    /// Process and thread.
    fn of(&self) -> (Option<i64>, Option<i64>) {
        (self.number("vpid"), self.number("vtid"))
    }
}

/// The second way: each question is answered by looking through all events before it once more.
struct Naive(Vec<Played>);

/// A thing with callbacks: kind, handle, topic, node, period.
type Thing = (&'static str, i64, Option<String>, Option<String>, Option<i64>);

/// A chain: its beginning, path, messages, and parts.
type NaiveChain = (Ns, String, u32, Ns, Ns, Ns);

impl Naive {
    /// The events before a place, the latest first, with their places.
    fn before(&self, place: usize) -> impl Iterator<Item = (usize, &Played)> {
        self.0[..place].iter().enumerate().rev()
    }

    /// The event that made the object at an address last.
    fn definition(&self, place: usize, process: Option<i64>, address: Option<i64>) -> Option<(usize, &Played)> {
        const MAKE: [&str; 7] = [
            "ros2_node",
            "ros2_publisher",
            "ros2_subscription",
            "ros2_service",
            "ros2_timer",
            "ros2_timer_node",
            "ros2_part",
        ];
        let mut all = self.before(place);
        all.find(|(_, of)| MAKE.contains(&&*of.concept) && of.number("vpid") == process && of.number("ptr") == address)
    }

    fn node(&self, (place, of): (usize, &Played)) -> Option<String> {
        let (_, node) = self.definition(place, of.number("vpid"), of.number("owner"))?;
        let space = node.text("path").unwrap_or("").trim_end_matches('/').to_string();
        node.is("ros2_node").then(|| format!("{space}/{}", node.text("name").unwrap_or("")))
    }

    fn thing(&self, place: usize, process: Option<i64>, address: Option<i64>) -> Option<Thing> {
        let mut address = address;
        for _ in 0..8 {
            let (at, made) = self.definition(place, process, address)?;
            let topic = || made.text("name").map(String::from);
            let handle = address?;
            match &*made.concept {
                "ros2_part" => address = made.number("owner"),
                "ros2_subscription" => return Some(("subscription", handle, topic(), self.node((at, made)), None)),
                "ros2_service" => return Some(("service", handle, topic(), self.node((at, made)), None)),
                "ros2_timer" => return Some(("timer", handle, None, None, made.number("period"))),
                "ros2_timer_node" => {
                    // Its period is that of the timer it was before.
                    let before =
                        self.definition(at, process, address).filter(|(_, of)| of.concept.starts_with("ros2_timer"));
                    let period = before.and_then(|(place, _)| self.thing(place + 1, process, address)?.4);
                    return Some(("timer", handle, None, self.node((at, made)), period));
                }
                _ => return None,
            }
        }
        None
    }

    /// The places of the beginnings of the callbacks that run on a thread before a place.
    fn open(&self, place: usize, thread: (Option<i64>, Option<i64>)) -> Vec<usize> {
        let mut open: Vec<usize> = Vec::new();
        for (at, of) in self.0[..place].iter().enumerate().filter(|(_, of)| of.of() == thread) {
            let known = open.iter().position(|start| self.0[*start].number("ptr") == of.number("ptr"));
            match &*of.concept {
                "ros2_start" => {
                    open.truncate(known.unwrap_or(open.len()));
                    open.push(at);
                }
                "ros2_end" => open.truncate(known.unwrap_or(open.len())),
                _ => {}
            }
        }
        open
    }

    /// The last event of a thread before a place that fits, with none between that ends the search.
    fn last(&self, place: usize, fits: impl Fn(&Played) -> bool, ends: impl Fn(&Played) -> bool) -> Option<usize> {
        let thread = self.0[place].of();
        for (at, of) in self.before(place).filter(|(_, of)| of.of() == thread) {
            if fits(of) {
                return Some(at);
            }
            if ends(of) {
                return None;
            }
        }
        None
    }

    /// The publication that an event of the middleware is about.
    fn sent(&self, place: usize) -> Option<usize> {
        let is_edge = |of: &Played| of.is("ros2_start") || of.is("ros2_end") || of.is("ros2_sent");
        self.last(place, |of| of.is("ros2_publish") && of.text("name").is_none(), is_edge)
    }

    fn topic(&self, publication: usize) -> Option<String> {
        let of = &self.0[publication];
        let (_, publisher) = self.definition(publication, of.number("vpid"), of.number("ptr"))?;
        publisher.is("ros2_publisher").then(|| publisher.text("name").map(String::from))?
    }

    /// The publication of the message that started a callback, and where it was taken.
    fn message(&self, start: usize) -> Option<(usize, usize)> {
        let of = &self.0[start];
        let is_inside = of.number("intra").is_some_and(|flag| flag != 0);
        let is_start = |of: &Played| of.is("ros2_start");
        let callback = self.thing(start, of.number("vpid"), of.number("ptr"))?;
        if is_inside {
            let taken = self.last(start, |of| of.is("ros2_dequeue"), is_start)?;
            let of = &self.0[taken];
            let to = self.thing(taken, of.number("vpid"), of.number("ptr"))?;
            let same = |other: &Played| {
                let key = |of: &Played| (of.number("vpid"), of.number("ptr"), of.number("nr"));
                (other.is("ros2_enqueue") || other.is("ros2_dequeue")) && key(other) == key(of)
            };
            let (put, event) = self.before(taken).find(|(_, other)| same(other))?;
            let is_edge = |of: &Played| {
                of.is("ros2_start") || of.is("ros2_end") || (of.is("ros2_publish") && of.text("name").is_none())
            };
            let queued =
                event.is("ros2_enqueue").then(|| self.last(put, |of| of.text("name") == Some("intra"), is_edge))??;
            return ((to.0, to.1) == (callback.0, callback.1)).then_some((queued, taken));
        }
        let taken = self.last(start, |of| of.is("ros2_take") && of.number("ret") != Some(0), is_start)?;
        let of = &self.0[taken];
        let is_own = |other: &Played| {
            other.is("ros2_subscription")
                && other.number("vpid") == of.number("vpid")
                && other.number("rmw") == of.number("rmw")
        };
        let (_, subscription) = self.before(taken).find(|(_, other)| is_own(other))?;
        if ("subscription", subscription.number("ptr")) != (callback.0, Some(callback.1)) {
            return None;
        }
        let is_it = |(at, other): &(usize, &Played)| {
            other.is("ros2_sent")
                && other.number("stamp") == of.number("stamp")
                && other.number("stamp") != Some(0)
                && self
                    .sent(*at)
                    .is_some_and(|of| self.topic(of).is_some_and(|topic| Some(&*topic) == subscription.text("name")))
        };
        let all: Vec<usize> = self.before(taken).filter(is_it).map(|(at, _)| at).collect();
        match all[..] {
            [only] => Some((self.sent(only)?, taken)),
            _ => None,
        }
    }

    /// The chain at the beginning of a run.
    fn chain(&self, start: usize) -> Option<NaiveChain> {
        let of = &self.0[start];
        let unknown = |text: Option<String>| text.unwrap_or("?".to_string());
        let (kind, _, topic, node, period) = self.thing(start, of.number("vpid"), of.number("ptr"))?;
        match kind {
            "timer" => {
                let period = period.map_or(String::new(), |ns| format!(" {ns} ns"));
                Some((of.ns, format!("{} (timer{period})", unknown(node)), 0, 0, 0, 0))
            }
            "subscription" => {
                let (publication, taken) = self.message(start)?;
                let (from, path, messages, running, transport, waiting) = self.chain_of_message(publication)?;
                let (sent, taken) = (self.0[publication].ns, self.0[taken].ns);
                let path = format!("{path} -> {} -> {}", unknown(topic), unknown(node));
                Some((from, path, messages + 1, running, transport + taken - sent, waiting + of.ns - taken))
            }
            _ => None,
        }
    }

    fn chain_of_message(&self, publication: usize) -> Option<NaiveChain> {
        let of = &self.0[publication];
        if let Some(start) = self.open(publication, of.of()).last() {
            let (from, path, messages, running, transport, waiting) = self.chain(*start)?;
            return Some((from, path, messages, running + of.ns - self.0[*start].ns, transport, waiting));
        }
        let (at, publisher) = self.definition(publication, of.number("vpid"), of.number("ptr"))?;
        let node = self.node((at, publisher)).unwrap_or("?".to_string());
        publisher.is("ros2_publisher").then_some((of.ns, node, 0, 0, 0, 0))
    }

    /// The runs of the chain that led to a run, from the last one back.
    fn runs_before(&self, start: usize) -> Vec<usize> {
        let mut runs = Vec::new();
        let mut at = start;
        while let Some((publication, _)) = self.message(at) {
            let Some(before) = self.open(publication, self.0[publication].of()).last().copied() else { break };
            runs.push(before);
            at = before;
        }
        runs
    }

    /// Chains that no other one continues: how many, and the sum of their lengths.
    fn whole_chains(&self) -> (usize, Ns) {
        let mut ended: Vec<(usize, Ns)> = Vec::new();
        for (at, of) in self.0.iter().enumerate().filter(|(_, of)| of.is("ros2_end")) {
            let open = self.open(at, of.of());
            let start = open.into_iter().find(|start| self.0[*start].number("ptr") == of.number("ptr"));
            let chain = start.and_then(|start| Some((start, self.chain(start).filter(|of| of.2 > 0)?.0)));
            ended.extend(chain.map(|(start, from)| (start, of.ns - from)));
        }
        let begun: Vec<usize> = ended.iter().flat_map(|(start, _)| self.runs_before(*start)).collect();
        let whole = ended.iter().filter(|(start, _)| !begun.contains(start));
        whole.fold((0, 0), |(count, sum), (_, length)| (count + 1, sum + length))
    }

    /// The rows of both lists.
    fn rows(&self) -> (Vec<String>, Vec<String>) {
        let (mut runs, mut chains) = (Vec::new(), Vec::new());
        let shown = |text: Option<String>| text.unwrap_or("-".to_string());
        for (at, of) in self.0.iter().enumerate().filter(|(_, of)| of.is("ros2_end")) {
            let open = self.open(at, of.of());
            let Some(start) = open.into_iter().find(|start| self.0[*start].number("ptr") == of.number("ptr")) else {
                continue;
            };
            let begin = &self.0[start];
            let thing = self.thing(start, of.number("vpid"), of.number("ptr"));
            let (kind, _, topic, node, period) =
                thing.map_or((None, 0, None, None, None), |of| (Some(of.0), of.1, of.2, of.3, of.4));
            let delay = self.message(start).map(|(publication, _)| (begin.ns - self.0[publication].ns).to_string());
            runs.push(format!(
                "{} {} {} {} {} {} {} {}",
                shown(node),
                kind.unwrap_or("-"),
                shown(topic),
                shown(period.map(|ns| ns.to_string())),
                shown(of.text("vtid").map(String::from)),
                shown(delay),
                begin.ns,
                of.ns
            ));
            if let Some((from, path, messages, running, transport, waiting)) = self.chain(start).filter(|of| of.2 > 0) {
                let running = running + of.ns - begin.ns;
                chains.push(format!("{path} {messages} {from} {} {running} {transport} {waiting}", of.ns));
            }
        }
        (runs, chains)
    }
}

/// Two processes whose objects have the same addresses, some of which are not made, or made anew; most events stand where a
/// program has them, and some are lost.
fn random_stream(seed: u64) -> String {
    let mut rng = Rng::from_seed(seed);
    let (mut lines, mut now): (Vec<String>, Ns) = (Vec::new(), 100);
    let mut put = |rng: &mut Rng, event: String| {
        now += if rng.one_in(4) { 0 } else { 1 + Ns::from(rng.below(9)) };
        if !rng.one_in(40) {
            lines.push(format!("{now} 0 {event}"));
        }
    };
    let topics = ["/a", "/b"];
    let make = |rng: &mut Rng, process: u64, which: u64, k: u64| -> Vec<String> {
        let topic = rng.choose(&topics);
        let tail = format!("vpid={process}");
        match which {
            0 => vec![format!("ros2_node ptr={} name=n{k} path={} {tail}", 16 + k, rng.choose(&["/", "/x", "/x/"]))],
            1 => vec![format!("ros2_publisher ptr={} owner={} name={topic} {tail}", 32 + k, 16 + rng.below(3))],
            2 => vec![
                format!(
                    "ros2_subscription ptr={} owner={} rmw={} name={topic} {tail}",
                    48 + k,
                    16 + rng.below(2),
                    64 + k
                ),
                format!("ros2_part ptr={} owner={} {tail}", 80 + k, 48 + k),
                format!("ros2_part ptr={} owner={} {tail}", 96 + k, 80 + k),
                format!("ros2_part ptr={} owner={} {tail}", 112 + k, 80 + k),
                format!("ros2_part ptr={} owner={} {tail}", 128 + k, 112 + k),
            ],
            3 => vec![
                format!("ros2_timer ptr={} period={} {tail}", 50 + k, rng.choose(&[7, 13])),
                format!("ros2_part ptr={} owner={} {tail}", 98 + k, 50 + k),
                format!("ros2_timer_node ptr={} owner={} {tail}", 50 + k, 16 + rng.below(2)),
            ],
            _ => vec![
                format!("ros2_service ptr=54 owner=16 name=/s {tail}"),
                format!("ros2_part ptr=100 owner=54 {tail}"),
            ],
        }
    };
    for process in [1, 2] {
        for at in 0..10 {
            for event in make(&mut rng, process, at / 2, at % 2) {
                put(&mut rng, event);
            }
        }
    }
    let mut stamp = 1000;
    let mut open: Vec<(u64, u64, u64)> = Vec::new();
    for _ in 0..rng.choose(&[20, 80]) {
        let (mut process, mut tid) = (1 + rng.below(2), 7 + rng.below(2));
        let action = rng.below(10);
        // Mostly a callback publishes.
        if let (2..=4, Some((of_process, of_tid, _)), false) = (action, open.last(), rng.one_in(4)) {
            (process, tid) = (*of_process, *of_tid);
        }
        let tail = format!("vpid={process} vtid={tid}");
        match action {
            0 | 1 => {
                let callback = 98 + rng.below(3);
                open.push((process, tid, callback));
                put(&mut rng, format!("ros2_start ptr={callback} intra=0 {tail}"));
            }
            2..=4 => {
                stamp += u64::from(!rng.one_in(6));
                let publisher = if rng.one_in(8) { 34 } else { 32 + rng.below(2) };
                if rng.one_in(2) {
                    put(&mut rng, format!("ros2_publish name=intra ptr={publisher} {tail}"));
                    let (buffer, place) = (128 + rng.below(2), rng.below(2));
                    put(&mut rng, format!("ros2_enqueue ptr={buffer} nr={place} {tail}"));
                }
                put(&mut rng, format!("ros2_publish ptr={publisher} {tail}"));
                put(&mut rng, format!("ros2_sent stamp={stamp} {tail}"));
            }
            5 | 6 => {
                let k = rng.below(2);
                let ret = u64::from(!rng.one_in(5));
                let taken = if rng.one_in(9) { 0 } else { stamp - rng.below(2) };
                put(&mut rng, format!("ros2_take rmw={} stamp={taken} ret={ret} {tail}", 64 + k));
                let callback = if rng.one_in(6) { 98 } else { 96 + k };
                open.push((process, tid, callback));
                put(&mut rng, format!("ros2_start ptr={callback} intra=0 {tail}"));
            }
            7 => {
                let (k, place) = (rng.below(2), rng.below(2));
                put(&mut rng, format!("ros2_dequeue ptr={} nr={place} {tail}", 128 + k));
                open.push((process, tid, 96 + k));
                put(&mut rng, format!("ros2_start ptr={} intra=1 {tail}", 96 + k));
            }
            8 if rng.one_in(3) => {
                let (which, k) = (rng.below(5), rng.below(2));
                for event in make(&mut rng, process, which, k) {
                    put(&mut rng, event);
                }
            }
            _ => {
                let at = rng.below(open.len().max(1) as u64) as usize;
                if at < open.len() {
                    let (process, tid, callback) = open.remove(at);
                    put(&mut rng, format!("ros2_end ptr={callback} vpid={process} vtid={tid}"));
                }
            }
        }
    }
    lines.join("\n")
}

#[test]
fn random_programs_are_followed_as_by_a_second_program() {
    let (mut runs, mut chains, mut longest) = (0, 0, 0);
    for seed in seeds(600) {
        let stream = random_stream(seed);
        let hook = Failed(seed, &stream);
        let naive = Naive(stream.lines().map(Played::parse).collect());
        let (wanted_runs, wanted_chains) = naive.rows();
        let table = played(&DESCRIPTOR, &query(View::Log, false), &stream);
        let columns = ["node", "kind", "topic", "period_ns", "tid", "delay_ns", "from", "to"];
        assert_eq!(rows(&table, &columns), wanted_runs);
        let table = played(&DESCRIPTOR, &query(View::Log, true), &stream);
        let columns = ["chain", "messages", "from", "to", "running_ns", "transport_ns", "waiting_ns"];
        assert_eq!(rows(&table, &columns), wanted_chains);
        let (count, total) = naive.whole_chains();
        let all = all_of(&played(&DESCRIPTOR, &query(View::Statistics, true), &stream), &["count", "total_ns"]);
        assert_eq!(all, [format!("Integer({count})"), format!("Integer({total})")]);
        // The parts of a chain are all of it.
        let parts = ["duration_ns", "running_ns", "transport_ns", "waiting_ns"];
        for row in rows(&table, &parts) {
            let numbers: Vec<u64> = row.split(' ').map(|number| number.parse().unwrap()).collect();
            assert_eq!(numbers[0], numbers[1..].iter().sum::<u64>());
        }
        (runs, chains) = (runs + wanted_runs.len(), chains + wanted_chains.len());
        longest = longest.max(rows(&table, &["messages"]).iter().map(|row| row.parse().unwrap()).max().unwrap_or(0));
        std::mem::forget(hook);
    }
    // The streams have what they are about.
    assert!(runs > 1000 && chains > 100 && longest > 1, "{runs} runs, {chains} chains of {longest} messages at most");
}

#[test]
fn numbers_of_any_size_are_no_panic() {
    let stream = "1 0 ros2_start ptr=-9223372036854775808 vpid=-1 vtid=-1
        2 0 ros2_part ptr=5 owner=5
        3 0 ros2_start ptr=5 vtid=9223372036854775807 intra=170141183460469231731687303715884105727
        4 0 ros2_timer ptr=7 period=-5
        5 0 ros2_start ptr=7 vtid=1
        6 0 ros2_take rmw=170141183460469231731687303715884105727 stamp=-1 vtid=1
        7 0 ros2_sent vtid=1
        8 0 ros2_publish vtid=1
        9 0 ros2_dequeue ptr=1 vtid=1
        10 0 ros2_end ptr=7 vtid=1
        11 0 ros2_end vtid=1
        12 0 ros2_start";
    let table = played(&DESCRIPTOR, &query(View::Log, false), stream);
    assert_eq!(rows(&table, &["kind", "period_ns", "from", "to"]), ["timer - 5 10"]);
    assert!(note(&table, "bad_fields") > 0);
    // Depth is bounded.
    let mut deep = String::new();
    for at in 0..200 {
        let _ = writeln!(deep, "{at} 0 ros2_start ptr={at} vtid=1");
    }
    let table = played(&DESCRIPTOR, &query(View::Log, false), &deep);
    assert_eq!(note(&table, "unmatched_callback_starts"), 200 - 64);
}
