//! `tracemill diff`: what differs between two traces.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tracemill_analyses::diff::{
    EventNames, FirstDifference, SchemaDifference, Side, SpreadRow, Verdict, add_states, compare_shapes,
    compare_spreads, first_difference, first_difference_of_all, pair_streams, shapes,
};
use tracemill_analyses::kernel::{self, Definitions, PathComparison, Table};
use tracemill_analyses::run::Input;
use tracemill_engine::filter::Filter;
use tracemill_engine::merge::Note;
use tracemill_engine::request::OpenedTraces;
use tracemill_engine::selection::SelectedStream;
use tracemill_engine::session::Session;
use tracemill_engine::timeline::Selection;
use tracemill_model::error::Error;
use tracemill_render::time::{TimeStyle, WallClock};
use tracemill_semantics::Concepts;

use super::losses::report_note;
use super::request::RequestOptions;
use super::{
    diff_calls as calls, diff_forms as forms, diff_html as html, diff_json as json, diff_paths as paths, no_events,
};
use crate::args::{DiffFormat, DiffOptions, InputOptions};
use crate::progress;
use crate::report::{Outcome, OutputSink, Reporter};

/// Compares two traces.
pub(crate) fn run(options: &DiffOptions) -> Result<Outcome, Error> {
    let [a, b] = options.input.traces.as_slice() else {
        return Err(Error::misuse("`diff` compares two traces").with_help("put the traces of a side into one folder"));
    };
    let definitions = paths::definitions(&options.periods)?;
    if definitions.is_some() && options.events.filter.is_some() {
        let error = Error::misuse("--period of `diff` needs all events, and --filter leaves some out");
        return Err(error.with_help("--begin and --end choose a part of the time"));
    }
    let open = |trace| OpenedSide::open(InputOptions { traces: vec![trace], ..options.input.clone() }, options);
    let Some((a, mut of_a)) = open(a.clone())? else { return Ok(Outcome::Nothing) };
    let Some((b, mut of_b)) = open(b.clone())? else { return Ok(Outcome::Nothing) };
    let sink = OutputSink::open(options.output.as_deref(), &options.input.traces)?;
    let mut names = EventNames::default();
    let Some(mut side_a) = a.read(options, &mut of_a, &mut names) else { return Ok(Outcome::Nothing) };
    let Some(mut side_b) = b.read(options, &mut of_b, &mut names) else { return Ok(Outcome::Nothing) };
    let compared = match &definitions {
        Some(definitions) => {
            let of_a = a.paths(definitions, options, &mut side_a)?;
            let of_b = b.paths(definitions, options, &mut side_b)?;
            paths::compare(definitions, [&of_a, &of_b])
        }
        None => Vec::new(),
    };
    let difference = TraceDifference::new([&a, &b], [side_a, side_b], names, compared);
    let text = match options.format {
        DiffFormat::Table => forms::table(&difference, options),
        DiffFormat::Json => json::object(&difference),
        DiffFormat::Html => html::page(&difference),
    };
    let outcome = match [of_a.outcome(), of_b.outcome()] {
        [Outcome::Done, Outcome::Done] if difference.is_different() => Outcome::Differs,
        [Outcome::Done, other] => other,
        [own, _] => own,
    };
    sink.print(text.as_bytes(), outcome)
}

/// One of the traces, open.
struct OpenedSide {
    input: InputOptions,
    session: Arc<Session>,
    streams: Vec<SelectedStream>,
    selection: Selection,
    filter: Option<Filter>,
}

impl OpenedSide {
    /// Opens a trace; `None` when it cannot be read, which is reported.
    fn open(input: InputOptions, options: &DiffOptions) -> Result<Option<(Self, Reporter)>, Error> {
        let Some((opened, reporter)) = RequestOptions::events(&input, &options.events, options.clock_gmt).open()?
        else {
            return Ok(None);
        };
        no_events::explain_if_certain(&opened, &reporter);
        let OpenedTraces { session, streams, selection, filter, .. } = opened;
        Ok(Some((OpenedSide { input, session: Arc::new(session), streams, selection, filter }, reporter)))
    }

    fn input(&self) -> Input<'_> {
        let (selection, filter) = (self.selection.clone(), self.filter.clone());
        Input { session: &self.session, streams: &self.streams, selection, filter }
    }

    fn kernel_input(&self) -> kernel::Input<'_> {
        kernel::Input {
            session: &self.session,
            streams: &self.streams,
            selection: self.selection.clone(),
            concepts: Concepts::built_in(),
            same_host: false,
        }
    }

    /// The paths of the periods that are compared.
    fn paths(
        &self,
        definitions: &Definitions,
        options: &DiffOptions,
        side: &mut Side,
    ) -> Result<Vec<Vec<Table>>, Error> {
        paths::paths(definitions, &self.kernel_input(), options.clock_gmt, side)
    }

    /// Reads all events; `None` when an error ends that.
    fn read(&self, options: &DiffOptions, reporter: &mut Reporter, names: &mut EventNames) -> Option<Side> {
        let mut wall = WallClock::new(TimeStyle { gmt: options.clock_gmt, date: true, ..TimeStyle::default() });
        let shown = progress::show(&self.input, &self.session.progress, false);
        let mut stopped = false;
        let mut note = |note: Note| -> ControlFlow<()> {
            let flow = report_note(note, reporter, &mut wall, &self.session, &self.streams);
            stopped |= flow.is_break();
            flow
        };
        let mut side = Side::read(&self.input(), names, &mut note);
        drop(shown);
        if stopped {
            return None;
        }
        // States follow from all events of a kernel. Losses and errors were reported above.
        if self.filter.is_none() {
            // Traces whose events have no time have no states.
            let _ = add_states(self.kernel_input(), &mut side.spreads, &mut |_| ControlFlow::Continue(()));
        }
        let events = (self.streams.as_slice(), &self.selection, self.filter.as_ref());
        calls::add_durations(&self.session, events, &mut side, reporter).then_some(side)
    }

    fn facts(&self, side: Side) -> SideFacts {
        let path = self.input.traces.first().map(|path| path.display().to_string()).unwrap_or_default();
        let mut formats: Vec<String> = Vec::new();
        for trace in &self.session.traces {
            // The dialects of CTF have their version in their name already, and some formats have none.
            let format = trace.schema.format.to_string();
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        SideFacts { path, formats, traces: self.session.traces.len(), streams: self.streams.len(), side }
    }

    fn stream_name(&self, at: usize) -> String {
        self.streams[at].stream.name.clone()
    }
}

/// A trace, as the output describes it.
pub(super) struct SideFacts {
    /// Its path, as it was typed.
    pub(super) path: String,
    /// Its formats, each once.
    pub(super) formats: Vec<String>,
    /// Number of traces below the path.
    pub(super) traces: usize,
    /// Number of streams that were read.
    pub(super) streams: usize,
    /// The side as it was read.
    pub(super) side: Side,
}

impl SideFacts {
    /// A number of events as a rate, over the time from the first event to the last one.
    pub(super) fn per_second(&self, count: u64) -> Option<f64> {
        let duration = self.side.duration_ns().filter(|ns| *ns > 0)?;
        Some(count as f64 * 1e9 / duration as f64)
    }
}

/// The number of events of a name on both sides.
pub(super) struct CountRow {
    pub(super) name: u32,
    pub(super) counts: [u64; 2],
}

impl CountRow {
    /// How many more the second side has.
    pub(super) fn difference(&self) -> i128 {
        i128::from(self.counts[1]) - i128::from(self.counts[0])
    }
}

/// Two streams whose order was compared.
pub(super) struct StreamRow {
    /// Their names; those of all streams, where these could not be paired, have none.
    pub(super) names: Option<[String; 2]>,
    /// Where they differ first.
    pub(super) difference: Option<FirstDifference>,
}

/// All differences.
pub(super) struct TraceDifference {
    pub(super) sides: [SideFacts; 2],
    pub(super) names: EventNames,
    pub(super) schema: SchemaDifference,
    /// All names, those that differ most first.
    pub(super) counts: Vec<CountRow>,
    pub(super) order: Vec<StreamRow>,
    /// Names of streams that only one side has, by side.
    pub(super) only_streams: [Vec<String>; 2],
    /// All that both sides have, what differs most first.
    pub(super) values: Vec<SpreadRow>,
    /// The critical paths of the periods that were defined.
    pub(super) paths: Vec<PathComparison>,
}

impl TraceDifference {
    fn new([a, b]: [&OpenedSide; 2], mut sides: [Side; 2], mut names: EventNames, paths: Vec<PathComparison>) -> Self {
        let inputs = [&a.input(), &b.input()];
        let pairs = pair_streams(&a.streams, &b.streams);
        let of_sides = [&sides[0], &sides[1]];
        let mut order: Vec<StreamRow> = Vec::new();
        for &pair in &pairs.both {
            let difference = first_difference(inputs, of_sides, pair, &mut names);
            order.push(StreamRow { names: Some([a.stream_name(pair.0), b.stream_name(pair.1)]), difference });
        }
        if pairs.both.is_empty() {
            order.push(StreamRow { names: None, difference: first_difference_of_all(inputs, &mut names) });
        }
        let mut counts: Vec<CountRow> = (0..names.len() as u32)
            .map(|name| CountRow { name, counts: of_sides.map(|side| side.count(name)) })
            .filter(|row| row.counts != [0, 0])
            .collect();
        counts.sort_by(|one, other| {
            let size = |row: &CountRow| row.difference().unsigned_abs();
            size(other).cmp(&size(one)).then_with(|| names.text(one.name).cmp(names.text(other.name)))
        });
        let schema = schema_of([a, b], &counts, &names);
        let [spreads_a, spreads_b] = sides.each_mut().map(|side| std::mem::take(&mut side.spreads));
        let [side_a, side_b] = sides;
        TraceDifference {
            schema,
            counts,
            order,
            only_streams: [
                pairs.only[0].iter().map(|at| a.stream_name(*at)).collect(),
                pairs.only[1].iter().map(|at| b.stream_name(*at)).collect(),
            ],
            values: compare_spreads(spreads_a, spreads_b),
            paths,
            sides: [a.facts(side_a), b.facts(side_b)],
            names,
        }
    }

    /// Is there any difference that counts?
    pub(super) fn is_different(&self) -> bool {
        let SchemaDifference { only, fields, .. } = &self.schema;
        only.iter().any(|events| !events.is_empty())
            || !fields.is_empty()
            || self.counts.iter().any(|row| row.difference() != 0)
            || self.order.iter().any(|row| row.difference.is_some())
            || self.values.iter().any(|row| row.verdict == Verdict::Differs)
    }
}

fn schema_of(sides: [&OpenedSide; 2], counts: &[CountRow], names: &EventNames) -> SchemaDifference {
    let [a, b] = sides.map(|side| shapes(&side.session));
    let known: HashMap<&str, [bool; 2]> =
        counts.iter().map(|row| (names.text(row.name), row.counts.map(|count| count > 0))).collect();
    let mut found = compare_shapes(&a, &b, |name| known.get(name).copied().unwrap_or([false; 2]));
    for row in counts {
        let name = names.text(row.name);
        for (side, other) in [(0, &b), (1, &a)] {
            if row.counts[1 - side] == 0 && !other.contains_key(name) {
                found.only[side].push(name.to_string());
            }
        }
    }
    found.only.iter_mut().for_each(|events| events.sort());
    found
}
