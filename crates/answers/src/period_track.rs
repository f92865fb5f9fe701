//! Periods as a page names them, and their tracks.

use tracemill_lod::states::{Of, States};

use crate::ids::{decoded, encoded};

/// Lanes for periods that overlap, at most.
const MAX_LANES: usize = 64;

/// Words of periods: without a deadline, within it, beyond it.
const WORDS: [&str; 3] = ["period", "met", "missed"];
const PERIOD: u32 = 0;
const MET: u32 = 1;
const MISSED: u32 = 2;

/// The definition of periods, as parameters and ids have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PeriodId {
    /// Name, conditions of begin and end, paths whose values are equal at both ends.
    pub(crate) texts: [String; 4],
    /// Ns that a period may take.
    pub(crate) deadline: Option<u64>,
}

impl PeriodId {
    /// Parses an id; `None` when it is none of periods: `q.NAME.BEGIN.END.MATCH.DEADLINE`, the last two maybe empty.
    pub(crate) fn parse(id: &str) -> Option<PeriodId> {
        let parts: Vec<&str> = id.strip_prefix("q.")?.split('.').collect();
        let [name, begin, end, matched, deadline] = parts[..] else { return None };
        let texts = [decoded(name)?, decoded(begin)?, decoded(end)?, decoded(matched)?];
        let deadline = if deadline.is_empty() { None } else { Some(deadline.parse().ok()?) };
        (!texts[..3].iter().any(String::is_empty)).then_some(PeriodId { texts, deadline })
    }

    /// The id.
    pub(crate) fn id(&self) -> String {
        let texts = self.texts.each_ref().map(|text| encoded(text)).join(".");
        format!("q.{texts}.{}", self.deadline.map_or(String::new(), |ns| ns.to_string()))
    }
}

/// A period in a lane: its beginning, its end, and its word.
type LanePeriod = (i128, i128, u32);

/// Periods that were found.
pub(crate) struct PeriodTrack {
    /// Their track, with lanes for those that overlap.
    pub(crate) states: States,
    /// All periods, in the order of their beginnings.
    pub(crate) spans: Vec<(i128, i128)>,
    /// How many of them missed the deadline.
    pub(crate) missed: u64,
}

impl PeriodTrack {
    /// The track of some periods.
    pub(crate) fn new(id: &PeriodId, mut spans: Vec<(i128, i128)>) -> PeriodTrack {
        spans.sort_unstable();
        let mut lanes: Vec<Vec<LanePeriod>> = Vec::new();
        let mut missed = 0;
        for &(from, to) in &spans {
            let word = match id.deadline {
                None => PERIOD,
                Some(deadline) if to - from > i128::from(deadline) => MISSED,
                Some(_) => MET,
            };
            missed += u64::from(word == MISSED);
            let is_free = |lane: &Vec<LanePeriod>| lane.last().is_none_or(|(_, end, _)| *end <= from);
            match lanes.iter().position(is_free) {
                Some(lane) => lanes[lane].push((from, to, word)),
                // Periods without a lane are in the tables only.
                None if lanes.len() == MAX_LANES => {}
                None => lanes.push(vec![(from, to, word)]),
            }
        }
        if lanes.is_empty() {
            lanes.push(Vec::new());
        }
        let names = WORDS.map(str::to_string).to_vec();
        // It is of no thread; the number only fills its place.
        let states = States::from_spans((0, Of::Thread(0, 0)), id.texts[0].clone(), names, &lanes);
        PeriodTrack { states, spans, missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(deadline: Option<u64>) -> PeriodId {
        let texts = ["a frame", "name == \"x.y\"", "name == \"z\"", ""].map(str::to_string);
        PeriodId { texts, deadline }
    }

    #[test]
    fn ids_come_back() {
        for one in [id(None), id(Some(16_700_000))] {
            let text = one.id();
            assert!(text.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"_.-".contains(&sign)), "{text}");
            assert_eq!(PeriodId::parse(&text), Some(one));
        }
        for wrong in ["q.a.b.c", "q.a.b.c.d.x", "q..b.c..", "p.a.b.c..", "q.a.-G0.c..", "q.a.b.c..-1"] {
            assert_eq!(PeriodId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn periods_that_overlap_have_lanes_and_misses_are_longer_than_the_deadline() {
        let track = PeriodTrack::new(&id(Some(10)), vec![(100, 111), (0, 10), (105, 106), (111, 121)]);
        assert_eq!((track.spans.len(), track.missed), (4, 1));
        let pieces: Vec<_> = track
            .states
            .pieces(0)
            .map(|piece| (piece.depth, piece.from, piece.to, WORDS[piece.name as usize]))
            .collect();
        let wanted = [(0, 0, 10, "met"), (0, 100, 111, "missed"), (0, 111, 121, "met"), (1, 105, 106, "met")];
        assert_eq!(pieces, wanted);
        let none = PeriodTrack::new(&id(None), Vec::new());
        assert_eq!((none.spans.len(), none.states.tracks[0].depth()), (0, 1));
        let many = PeriodTrack::new(&id(None), (0..100).map(|at| (at, 1000)).collect());
        assert_eq!((many.spans.len(), many.states.tracks[0].depth()), (100, MAX_LANES));
    }
}
