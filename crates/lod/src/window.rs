//! The events of a stretch of time, read where they stand.

use std::collections::HashMap;

use tracemill_engine::events::Step;
use tracemill_engine::timeline::Selection;

use crate::source::{Source, in_reach};
use crate::timeline::{Timeline, TrackOf};

/// Shows the events of tracks from one time to another, both included, in ns since the origin: the place of the track among
/// these, the time, and the number of the name.
pub(crate) fn for_each_event(
    timeline: &Timeline,
    source: &Source<'_>,
    tracks: &[TrackOf<'_>],
    window: (i64, i64),
    mut see: impl FnMut(usize, i64, u32),
) {
    let mut wanted: Vec<usize> = tracks.iter().flat_map(TrackOf::streams).copied().collect();
    wanted.sort_unstable();
    wanted.dedup();
    // By stream, its track; by trace and number, the track of that number.
    let mut of_stream: Vec<Option<usize>> = vec![None; wanted.len()];
    let mut of_number: HashMap<(usize, i128), usize> = HashMap::new();
    for (at, track) in tracks.iter().enumerate() {
        match track.number() {
            Some(number) => drop(of_number.insert((track.who(source).0, number), at)),
            None => {
                let places = track.streams().iter().filter_map(|stream| wanted.binary_search(stream).ok());
                places.for_each(|place| of_stream[place] = Some(at));
            }
        }
    }
    let streams: Vec<_> = wanted.iter().map(|at| source.streams[*at].clone()).collect();
    let ns = |time: i64| timeline.origin + i128::from(time);
    let own = source.selection;
    let end_ns = own.end_ns.map_or(ns(window.1), |end| end.min(ns(window.1)));
    let selection = Selection { begin_ns: own.begin_ns.max(Some(ns(window.0))), end_ns: Some(end_ns), ..own.clone() };
    let mut reader = (!of_number.is_empty()).then(|| timeline.reader(source.session));
    let mut of_class: Vec<HashMap<u32, u32>> = vec![HashMap::new(); streams.len()];
    let mut storage = Vec::new();
    let read = Source { streams: &streams, selection: &selection, ..*source };
    let mut events = read.events_until(1, None);
    while let Some(step) = events.next() {
        let Step::Event(stream, event) = step else { continue };
        let Some(ns) = event.ns.filter(|ns| in_reach(timeline.origin, *ns)) else { continue };
        let track = of_stream[stream].or_else(|| {
            let number = reader.as_mut()?.track(&event)?;
            of_number.get(&(event.trace, number)).copied()
        });
        let Some(track) = track else { continue };
        let class = event.raw.class().0;
        let name = match of_class[stream].get(&class) {
            Some(name) => *name,
            None => {
                let name = timeline.names().number(event.name(&mut storage).unwrap_or_default());
                if event.class().name.is_some() {
                    of_class[stream].insert(class, name);
                }
                name
            }
        };
        see(track, (ns - timeline.origin) as i64, name);
    }
}
