//! `tracemill convert` of samples to formats of stacks.

use std::collections::BTreeSet;
use std::path::Path;

use tracemill_calls::profile::{WeightUnit, unit_of};
use tracemill_engine::event::Event;
use tracemill_engine::events::Events;
use tracemill_engine::merge::Note;
use tracemill_engine::request::OpenedTraces;
use tracemill_engine::samples::{SampleReader, has_samples};
use tracemill_engine::selection::ClassSet;
use tracemill_engine::session::Session;
use tracemill_engine::source::FileSystem;
use tracemill_export::sampled::{SAMPLED, SampleExport, SampleWeights, StackSample};
use tracemill_format::lost::{Losses, Lost};
use tracemill_model::error::Error;
use tracemill_model::schema::ClockOrigin;

use super::samples::Symbols;
use crate::args::ConvertOptions;

/// Can samples of these traces be written in a format?
pub(super) fn can_write(format: &str, session: &Session) -> bool {
    SAMPLED.contains(&format) && has_samples(session)
}

/// Number and losses of samples that were written.
pub(super) struct ConvertedSamples {
    pub(super) samples: u64,
    pub(super) losses: Losses,
}

/// Writes the samples to a file. What comes up between them goes to `note`, once.
pub(super) fn write(
    options: &ConvertOptions,
    format: &str,
    opened: &OpenedTraces,
    path: &Path,
    symbols: &Symbols,
    mut note: impl FnMut(Note) -> std::ops::ControlFlow<()>,
) -> Result<ConvertedSamples, Error> {
    let OpenedTraces { session, streams, selection, filter, .. } = opened;
    let mut reader = SampleReader::new(session, symbols.symbolizer());
    let classes = reader.wanted_class_sets(&selection.classes);
    // Which events have samples, and so whose they are, is known when all were read.
    let mut events: BTreeSet<String> = BTreeSet::new();
    let mut others = 0;
    let mut storage = Vec::new();
    let is_sample = |event: &Event<'_>| {
        let classes: Option<&ClassSet> = classes.get(event.trace).and_then(|classes| classes.as_deref());
        classes.is_some_and(|classes| classes.has(event.raw.class().0))
    };
    let count = |event: &Event<'_>| match is_sample(event) {
        true => {
            let name = String::from_utf8_lossy(event.name(&mut storage).unwrap_or_default()).into_owned();
            events.insert(name);
        }
        false => others += 1,
    };
    Events::new(session, streams, selection, filter.as_ref()).for_each(count, &mut note);
    let clocks = session.traces.iter().flat_map(|trace| trace.schema.clocks());
    let is_unix = { clocks }.any(|clock| clock.origin == ClockOrigin::Unix);
    let export = SampleExport::new(&FileSystem.path(path), format, is_unix);
    let mut export = export.ok_or_else(|| Error::misuse(format!("`{format}` holds no samples")))?;
    let mut wanted = selection.clone();
    wanted.classes = classes.clone();
    let (mut skip, mut left) = (options.select.skip, options.select.limit.unwrap_or(u64::MAX));
    let (mut samples, mut failed) = (0, None);
    let mut add = |event: &Event<'_>| {
        let name = String::from_utf8_lossy(event.name(&mut storage).unwrap_or_default()).into_owned();
        let Some(sample) = reader.read(event) else { return Ok(()) };
        let is_time = sample.weight.is_some() && unit_of(std::slice::from_ref(&name)) == WeightUnit::Ns;
        let unit = if is_time { SampleWeights::Ns } else { SampleWeights::Events };
        if skip > 0 {
            skip -= 1;
            return Ok(());
        }
        if left == 0 {
            return Ok(());
        }
        (left, samples) = (left - 1, samples + 1);
        let known = export.name_count();
        export.add_names(sample.frames[known..].iter().map(|frame| &*frame.function));
        export.add(&StackSample {
            thread_name: sample.thread_name.unwrap_or_default(),
            thread: sample.thread,
            process: sample.process,
            event: (events.len() > 1).then_some(name.as_str()),
            ns: sample.ns,
            weight: sample.weight.unwrap_or(1),
            unit,
            stack: sample.stack,
        })
    };
    let take = |event: &Event<'_>| {
        if failed.is_none() {
            failed = add(event).err();
        }
    };
    // Their notes were given.
    Events::new(session, streams, &wanted, filter.as_ref()).for_each(take, |_| std::ops::ControlFlow::Continue(()));
    if let Some(error) = failed {
        return Err(error);
    }
    let mut losses = export.finish()?;
    losses.add(Lost::NoSamples, others);
    Ok(ConvertedSamples { samples, losses })
}
