//! Conversion of events to other formats.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tracemill_engine::convert::{ConvertOptions, convert, is_trace};
use tracemill_engine::merge::Note;
use tracemill_engine::output::{Pending, refuse_output};
use tracemill_engine::request::SelectedEvents;
use tracemill_engine::source::FileSystem;
use tracemill_format::lost::Losses;
use tracemill_format::target::Target;
use tracemill_formats::FORMATS;
use tracemill_model::error::{Error, Result};
use tracemill_model::packet::GapKind;

use crate::events::Events;
use crate::targets::target;

pub use tracemill_engine::split::SplitBy;

/// A conversion of events to another format, before it is done.
///
/// ```
/// # let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/traces/orders");
/// # let folder = std::env::temp_dir().join(format!("tracemill-conversion-doc-{}", std::process::id()));
/// # let path = folder.join("out");
/// let traces = tracemill::open([demo])?;
/// let converted = traces.events().filter("cpu == 0")?.conversion("ctf2")?.limit(50).write(&path)?;
/// assert_eq!(converted.events, 50);
/// for (kind, count) in converted.not_kept.report() {
///     println!("not kept: {kind} ({count})");
/// }
/// assert_eq!(tracemill::open([&path])?.events().into_iter().count(), 50);
/// # std::fs::remove_dir_all(&folder).expect("the folder was made");
/// # Ok::<(), tracemill::Error>(())
/// ```
#[derive(Clone)]
pub struct Conversion<'t> {
    events: Events<'t>,
    target: &'static Target,
    options: ConvertOptions<'static>,
    replaces: bool,
}

/// A conversion that is done.
#[derive(Clone, Debug, Default)]
pub struct Converted {
    /// Events that were written.
    pub events: u64,
    /// Losses: kinds of data that the target could not hold.
    pub not_kept: Losses,
    /// Events that the tracer had discarded, as far as the traces know their number.
    pub discarded: u64,
    /// Parts of the input that could not be read, and are not in the output.
    pub damage: Vec<Error>,
}

impl<'t> Events<'t> {
    /// Begins a conversion to the format of this name: `ctf2`, `ctf1.8`, `perfetto`, `uftrace` and all others that
    /// `tracemill formats` lists.
    ///
    /// # Errors
    /// When no format of this name can be written.
    pub fn conversion(self, to: &str) -> Result<Conversion<'t>> {
        Ok(self.conversion_to(target(to, &[])?))
    }

    /// Begins a conversion to a format, which may be the program's own.
    pub fn conversion_to(self, target: &'static Target) -> Conversion<'t> {
        Conversion { events: self, target, options: ConvertOptions::default(), replaces: false }
    }

    /// Converts the events to the format of this name, at a path where nothing is.
    ///
    /// # Errors
    /// The errors of [`Events::conversion`] and [`Conversion::write`].
    pub fn convert(self, to: &str, path: impl AsRef<Path>) -> Result<Converted> {
        self.conversion(to)?.write(path)
    }
}

impl Conversion<'_> {
    /// Leaves out the first events.
    #[must_use]
    pub fn skip(mut self, events: u64) -> Self {
        self.options.skip = events;
        self
    }

    /// Ends after so many events.
    #[must_use]
    pub fn limit(mut self, events: u64) -> Self {
        self.options.limit = Some(events);
        self
    }

    /// Makes several outputs in a folder: one for each stream, process, stretch of time or size.
    #[must_use]
    pub fn split(mut self, by: SplitBy) -> Self {
        self.options.split = Some(by);
        self
    }

    /// Makes one trace of several.
    #[must_use]
    pub fn merge(mut self) -> Self {
        self.options.write.merge = true;
        self
    }

    /// It is an error when the target cannot hold everything.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.options.strict = true;
        self
    }

    /// Packets end at this size; otherwise they end where those of the input do.
    #[must_use]
    pub fn packet_bytes(mut self, bytes: usize) -> Self {
        self.options.write.packet_bytes = Some(bytes);
        self
    }

    /// Replaces an output that is there already by one of its kind.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.replaces = true;
        self
    }

    /// Sets an option that the target defines, as the option of the command line that has this name.
    ///
    /// # Errors
    /// When the target has no such option.
    pub fn setting(mut self, name: &str, value: &str) -> Result<Self> {
        let Some(setting) = self.target.settings.iter().find(|setting| setting.name == name) else {
            let of = self.target.names.first().unwrap_or(&"");
            return Err(Error::misuse(format!("`{name}` is not an option of {of}")));
        };
        self.options.write.settings.0.insert(setting.name, value.to_string());
        Ok(self)
    }

    /// Converts. The output gets its name when it is complete; after an error nothing is there.
    ///
    /// One sound trace of which everything is wanted, in the format that it has, is copied. Parts of the input that cannot
    /// be read are left out: see [`Converted::damage`].
    ///
    /// # Errors
    /// When a choice does not fit the traces, when the path is taken or lies in an input, when the output cannot be
    /// written.
    pub fn write(mut self, path: impl AsRef<Path>) -> Result<Converted> {
        let (path, traces) = (path.as_ref(), self.events.traces);
        let SelectedEvents { streams, selection, filter } = self.events.select()?;
        (self.options.selection, self.options.filter) = (selection, filter);
        let inputs: Vec<PathBuf> = traces.iter().map(|trace| trace.path().to_path_buf()).collect();
        let is_known =
            |path: &Path| is_trace(&FileSystem, FORMATS, path) || tracemill_export::is_output(&FileSystem, path);
        let is_folder = self.options.makes_folder(self.target);
        refuse_output(path, &inputs, is_folder, self.replaces, &is_known)?;
        let mut pending = Pending::new(path)?;
        let mut found = Converted { damage: traces.damage().cloned().collect(), ..Converted::default() };
        let converted = convert(&traces.session, &streams, self.target, &mut pending, &self.options, &mut |note| {
            match note {
                Note::Fault(error) if found.damage.contains(&error) => {}
                Note::Fault(error) => found.damage.push(error),
                Note::Gap(_, gap) if gap.kind == GapKind::DiscardedEvents => {
                    found.discarded = found.discarded.saturating_add(gap.count.unwrap_or(0));
                }
                Note::Gap(..) | Note::Warning(_) => {}
            }
            ControlFlow::Continue(())
        })?;
        pending.commit()?;
        (found.events, found.not_kept) = (converted.events, converted.losses);
        Ok(found)
    }
}
