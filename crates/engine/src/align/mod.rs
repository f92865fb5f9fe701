//! Clocks of several traces brought together by what happened between them: an event of one trace (a message is sent)
//! and one of another (it is received) with the same values in some fields.
//!
//! The first trace is the measure. Every other trace that shares messages with it, or with one that is corrected already,
//! gets an offset and a drift; the answer says how accurate they are.

mod begins;
mod fit;

pub use self::begins::{BeginAlignment, align_begins};
pub use self::fit::Fit;

pub(crate) use self::begins::sentence as sentence_of_begins;

use std::collections::HashMap;
use std::sync::Arc;

use tracemill_model::clock::Drift;
use tracemill_model::error::{Error, Result};

use crate::filter::{ColumnList, KeyBy, KeyReader, KeyValue};
use crate::item::Item;
use crate::pattern::Pattern;
use crate::selection::{self, ClassSet};
use crate::session::Session;
use crate::timeline::{self, Selection};

/// Messages that are remembered of a trace: more do not make it more accurate.
const MAX_MESSAGES: usize = 1 << 20;

/// Description of messages: the events at their two ends, and the fields that both share.
#[derive(Clone, Debug)]
pub struct Messages {
    send: Pattern,
    receive: Pattern,
    by: ColumnList,
    text: String,
}

/// Ends that every kernel tracer of LTTng records, and the fields that identify a message.
const KNOWN: [&str; 3] = ["inet_sock_local_out", "inet_sock_local_in", "seq,ack_seq,flags"];

impl Messages {
    /// Reads `SEND=RECEIVE`, names of events with globs, and the fields by which they are matched.
    ///
    /// # Errors
    /// When it is not that.
    pub fn parse(text: &str, by: Option<&str>) -> Result<Messages> {
        let help = "for example --correlate 'send=receive' --correlate-by id, or --correlate tcp for kernel traces";
        if text == "tcp" {
            let by = ColumnList::parse(by.unwrap_or(KNOWN[2]))?;
            let [send, receive] = [KNOWN[0], KNOWN[1]].map(Pattern::glob);
            return Ok(Messages { send, receive, by, text: format!("{}={}", KNOWN[0], KNOWN[1]) });
        }
        let ends = text.split_once('=').filter(|(send, receive)| !send.is_empty() && !receive.is_empty());
        let Some((send, receive)) = ends else {
            return Err(Error::misuse(format!("`{text}` names no two events for --correlate")).with_help(help));
        };
        let Some(by) = by else {
            let error = Error::misuse("--correlate needs the fields that both events of a message share");
            return Err(error.with_help(help));
        };
        let (send, receive) = (Pattern::glob(send), Pattern::glob(receive));
        Ok(Messages { send, receive, by: ColumnList::parse(by)?, text: text.to_string() })
    }
}

/// The correction of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Alignment {
    /// The trace that was corrected.
    pub trace: usize,
    /// The one that it was measured by.
    pub by: usize,
    /// Messages from that one to this.
    pub received: usize,
    /// Messages from this one to that.
    pub sent: usize,
    /// The offset and drift of its clock, in its own times.
    pub fit: Fit,
}

/// One end of messages: the time by key, `None` where a key came twice.
type Ends = HashMap<Box<[u8]>, Option<i64>>;

#[derive(Default)]
struct SeenMessage {
    sent: Ends,
    received: Ends,
}

/// Corrects the clocks of a session by messages. Traces that share none are reported as errors in the second list.
///
/// # Errors
/// When the fields do not exist, or when nothing can be matched at all.
pub fn align(session: &mut Session, messages: &Messages) -> Result<(Vec<Alignment>, Vec<Error>)> {
    if session.traces.len() < 2 {
        return Err(Error::misuse("--correlate needs two traces or more"));
    }
    let seen = gather(session, messages)?;
    let mut is_done = vec![false; seen.len()];
    is_done[0] = true;
    let mut moves = vec![Move::default(); seen.len()];
    let mut found = Vec::new();
    loop {
        // The pair with the most messages comes first: its line is the best known.
        let pairs = (0..seen.len()).filter(|&at| is_done[at]).flat_map(|by| (0..seen.len()).map(move |at| (by, at)));
        let best = pairs
            .filter(|&(_, at)| !is_done[at])
            .map(|(by, at)| (count(&seen[by], &seen[at]), by, at))
            .max_by_key(|&(count, by, at)| (count, std::cmp::Reverse((by, at))));
        let Some((1.., by, at)) = best else { break };
        is_done[at] = true;
        found.extend(correct(session, &seen, &mut moves, by, at));
    }
    let lonely = (0..seen.len()).filter(|&at| !is_done[at]);
    let told = lonely.map(|at| {
        let name = &session.traces[at].name;
        let message = format!("no message of `{}` was sent or received by another trace", messages.text);
        Error::inconsistent(format!("the clock of `{name}` is not corrected: {message}"))
    });
    let told: Vec<Error> = told.collect();
    if found.is_empty() {
        let error =
            Error::misuse(format!("no message of `{}` was sent by one trace and received by another", messages.text));
        return Err(error.with_help("are these the events, and the fields that both share?"));
    }
    Ok((found, told))
}

/// Messages that two traces share, both ways.
fn count(a: &SeenMessage, b: &SeenMessage) -> usize {
    shared(&a.sent, &b.received).count() + shared(&b.sent, &a.received).count()
}

/// Times of the two ends of messages.
fn shared<'a>(sent: &'a Ends, received: &'a Ends) -> impl Iterator<Item = (i64, i64)> + 'a {
    sent.iter().filter_map(|(key, sent)| Some(((*sent)?, received.get(key).copied()??)))
}

/// How the times of a trace were changed.
#[derive(Clone, Copy, Default)]
struct Move {
    offset_ns: i64,
    drift: Option<Drift>,
}

impl Move {
    fn ns(self, ns: i64) -> i64 {
        let ns = ns.saturating_add(self.offset_ns);
        let moved = self.drift.map_or(ns.into(), |drift| drift.ns(ns.into()));
        moved.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

fn correct(session: &mut Session, seen: &[SeenMessage], moves: &mut [Move], by: usize, at: usize) -> Option<Alignment> {
    // Times of the other trace are those after its own correction.
    let before = moves[by];
    let moved = |ns| before.ns(ns);
    let below: Vec<fit::Point> = shared(&seen[by].sent, &seen[at].received)
        .map(|(sent, received)| (received, moved(sent).saturating_sub(received)))
        .collect();
    let above: Vec<fit::Point> = shared(&seen[at].sent, &seen[by].received)
        .map(|(sent, received)| (sent, moved(received).saturating_sub(sent)))
        .collect();
    let fit = fit::fit(&below, &above)?;
    session.corrections[at] = session.corrections[at].saturating_add(fit.offset_ns);
    session.drifts.resize(session.traces.len(), None);
    let per_1e15 = (fit.drift * 1e15).round() as i64;
    let from_ns = fit.from_ns.saturating_add(fit.offset_ns);
    moves[at] = Move { offset_ns: fit.offset_ns, drift: (per_1e15 != 0).then_some(Drift { per_1e15, from_ns }) };
    session.drifts[at] = moves[at].drift;
    Some(Alignment { trace: at, by, received: below.len(), sent: above.len(), fit })
}

/// The ends of messages in each trace.
fn gather(session: &Session, messages: &Messages) -> Result<Vec<SeenMessage>> {
    let columns = messages.by.bind(session)?;
    let mut keys = KeyReader::new(session, &KeyBy::Paths(columns));
    let is_end = |pattern: &Pattern, trace: usize, class: usize| {
        let class = &session.traces[trace].schema.events()[class];
        !class.is_untimed && pattern.matches(class.name.as_deref().unwrap_or_default().as_bytes())
    };
    let classes = session.traces.iter().enumerate().map(|(trace, of)| {
        let is_wanted = |class: usize| is_end(&messages.send, trace, class) || is_end(&messages.receive, trace, class);
        Some(Arc::new(ClassSet::new(of.schema.events().len(), is_wanted)))
    });
    let selection = Selection { classes: classes.collect(), ..Selection::default() };
    let streams = selection::streams(session, &[])?;
    let mut seen: Vec<SeenMessage> = session.traces.iter().map(|_| SeenMessage::default()).collect();
    let cursors = timeline::cursors(session, &streams, &selection);
    let mut key = Vec::new();
    for (of, mut cursor) in streams.iter().zip(cursors) {
        let seen = &mut seen[of.trace];
        // Damage to the streams is reported when they are read for their events.
        while let Some(item) = cursor.next() {
            let Item::Chunk(ready) = item else { continue };
            for at in 0..ready.chunk.len() {
                let class = ready.chunk.classes[at] as usize;
                let event = of.event(ready.chunk.event(at));
                // Times 292 years away do not serve to measure.
                let Some(near) = event.ns.and_then(|ns| i64::try_from(ns).ok()) else { continue };
                if keys.values(&event, &mut key).iter().any(|(_, value)| *value == KeyValue::Absent) {
                    continue;
                }
                for (pattern, ends) in [(&messages.send, &mut seen.sent), (&messages.receive, &mut seen.received)] {
                    if !is_end(pattern, of.trace, class) {
                        continue;
                    }
                    let has_room = ends.len() < MAX_MESSAGES;
                    match ends.get_mut(&*key) {
                        // Sent again: which of them arrived is unknown.
                        Some(time) => *time = None,
                        None if has_room => {
                            ends.insert(key.as_slice().into(), Some(near));
                        }
                        None => {}
                    }
                }
            }
        }
    }
    Ok(seen)
}
