//! Opening what the user named: files and folders, searched for traces, on one timeline.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracemill_format::foreign::{self, ForeignFormat};
use tracemill_format::{
    Demangle, Entry, EntryKind, Format, FoundTrace, OpenContext, OpenTrace, Settings, Storage, names_of,
};
use tracemill_model::clock::{ClockMap, Drift};
use tracemill_model::error::{Error, ErrorKind, Result};
use tracemill_model::schema::{ClockOrigin, StreamClassId};

use crate::align::{BeginAlignment, align_begins, sentence_of_begins};
use crate::damage::unknown_format;
use crate::mapped_code::MappedByEvents;
use crate::output::is_pending;
use crate::progress::Progress;
use crate::source::Packed;

/// Folders deeper than this below an argument are not searched.
const MAX_DEPTH: usize = 64;

/// The user's wishes for opening.
#[derive(Clone, Default)]
pub struct OpenOptions {
    /// Formats that are looked for, in the order in which they are asked.
    pub formats: Vec<&'static Format>,
    /// Name of the format; detected when absent.
    pub input_format: Option<String>,
    /// Corrections of clocks in ns: of the trace of this name (or tail of it), or of all.
    pub clock_offsets: Vec<(Option<String>, i64)>,
    /// Is what a specification calls an error an error also where it could be read?
    pub strict: bool,
    /// Are calls followed and no events read?
    pub calls_only: bool,
    /// Are traces whose clocks cannot be compared moved so that all begin together? Otherwise they are merged by their ns.
    pub aligns_begins: bool,
    /// Form of the names of functions.
    pub demangle: Demangle,
    /// Threads that opening may use; 0 is one.
    pub jobs: usize,
    /// Options of formats.
    pub settings: Settings,
    /// Bytes that a packed file may hold unpacked, in the place of what its size allows.
    pub max_unpacked: Option<u64>,
}

impl OpenOptions {
    /// Looks for these formats, with nothing else chosen.
    pub fn new(formats: &[&'static Format]) -> Self {
        OpenOptions { formats: formats.to_vec(), ..OpenOptions::default() }
    }
}

/// Everything that was opened: one timeline.
#[derive(Default)]
pub struct Session {
    /// Traces, in the order given or found.
    pub traces: Vec<OpenTrace>,
    /// Ns added to the clocks of each trace.
    pub corrections: Vec<i64>,
    /// How the corrected clocks of traces drift; may be shorter than the list of traces.
    pub drifts: Vec<Option<Drift>>,
    /// Traces whose clocks cannot be compared with those of the others, and that were moved; it is in `corrections`.
    pub aligned_begins: Vec<BeginAlignment>,
    /// Traces that could not be opened.
    pub failures: Vec<Error>,
    /// Warnings about the traces together.
    pub warnings: Vec<Error>,
    /// How much of the packets was read by those that read all of them.
    pub progress: Arc<Progress>,
    /// See [`Session::code_maps`].
    pub mapped_by_events: MappedByEvents,
}

/// A correction of the clock of one trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockMove {
    /// The path of the trace.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// Ns that are added to its clock.
    pub offset_ns: i64,
}

/// Refuses a trace that is of another format than the one that the user names, where one reader reads both.
fn as_named(trace: OpenTrace, format: &Format, name: Option<&str>) -> Result<OpenTrace> {
    let is = trace.schema.format;
    match name {
        Some(name) if name != is && format.names.contains(&name) && format.names.contains(&is) => {
            let error = Error::unsupported(format!("the trace is `{is}`, not `{name}`")).in_file(&trace.path);
            Err(error.with_help(format!("`--input-format {is}`, or none: the format is seen from the content")))
        }
        _ => Ok(trace),
    }
}

impl Session {
    /// Opens all traces in and below `paths`.
    ///
    /// # Errors
    /// When a path does not exist or nothing below it is a trace, every path is an error: those are in `failures`.
    /// An error is returned for wrong options only.
    pub fn open(storage: &dyn Storage, paths: &[PathBuf], options: &OpenOptions) -> Result<Session> {
        let formats: Vec<&'static Format> = match &options.input_format {
            None => options.formats.clone(),
            Some(name) => options.formats.iter().copied().filter(|format| format.is_named(name)).collect(),
        };
        if let (Some(name), true) = (&options.input_format, formats.is_empty()) {
            return Err(unknown_format("input", "read", name, &names_of(&options.formats)));
        }
        check_named_files(storage, options)?;
        let mut session = Session::default();
        let mut found: Vec<(usize, FoundTrace)> = Vec::new();
        let packed = Packed::new(storage, options.max_unpacked);
        let storage = &packed;
        for path in paths {
            if path.as_os_str() == "-"
                && let Err(error) = take_standard_input(&packed, path)
            {
                session.failures.push(error);
                continue;
            }
            if is_pending(path) {
                session.failures.push(unfinished(path));
                continue;
            }
            let before = found.len();
            let typed = path.to_string_lossy();
            let mut unreadable = Vec::new();
            let mut search =
                Search { storage, formats: &formats, found: &mut found, suspects: Vec::new(), visited: HashSet::new() };
            search.search(path, &typed, "", 0, &mut unreadable);
            let suspects = search.suspects;
            drop_transcripts(&mut found, before, path, &formats, !suspects.is_empty());
            // A file that does not look like the requested format is opened as such: the format reports the reason.
            let is_forced = options.input_format.is_some() && found.len() == before && unreadable.is_empty();
            if is_forced && suspects.is_empty() && matches!(storage.kind(path), Some(EntryKind::File(_))) {
                // All have one name, and so one form.
                match formats.first().filter(|format| format.is_folder) {
                    Some(format) => {
                        let error = Error::new(ErrorKind::NotThisFormat, "this is a file, not a folder").in_file(path);
                        unreadable.push(error.with_help(format.looks_like));
                    }
                    None => {
                        found.push((
                            0,
                            FoundTrace { path: path.clone(), name: typed.to_string(), below: String::new() },
                        ));
                    }
                }
            }
            let is_empty = found.len() == before;
            if is_empty && unreadable.is_empty() {
                session.failures.push(nothing_found(storage, path, options, &formats, suspects));
            } else {
                let not_read = suspects.into_iter().map(|suspect| suspect.with_help("its folder is not read"));
                session.warnings.extend(not_read);
            }
            session.failures.append(&mut storage.faults());
            session.failures.append(&mut unreadable);
        }
        let mut context = OpenContext::new(storage);
        context.strict = options.strict;
        context.calls_only = options.calls_only;
        context.named_format = options.input_format.as_deref();
        context.demangle = options.demangle;
        context.jobs = options.jobs;
        context.settings = &options.settings;
        for (at, format) in formats.iter().enumerate() {
            let of_format: Vec<FoundTrace> =
                found.iter().filter(|(format, _)| *format == at).map(|(_, found)| found.clone()).collect();
            if of_format.is_empty() {
                continue;
            }
            for opened in (format.open)(&context, &of_format) {
                match opened.and_then(|trace| as_named(trace, format, options.input_format.as_deref())) {
                    Ok(trace) => session.traces.push(trace),
                    Err(error) if error.kind() == ErrorKind::Misuse => return Err(error),
                    Err(error) => session.failures.push(error),
                }
            }
        }
        // As they were given or found, whatever their format.
        let place = |trace: &OpenTrace| found.iter().position(|(_, found)| found.path.starts_with(&trace.path));
        session.traces.sort_by_key(place);
        session.corrections = vec![0; session.traces.len()];
        session.correct_clocks(options)?;
        if options.aligns_begins {
            session.aligned_begins = align_begins(&mut session);
            let warning = sentence_of_begins(&session, &session.aligned_begins);
            session.warnings.extend(warning);
        } else {
            session.warn_of_origins();
        }
        Ok(session)
    }

    /// The clock of a stream class as a map to time, `None` without one.
    pub fn clock_map(&self, trace: usize, class: StreamClassId) -> Option<ClockMap> {
        let schema = &self.traces[trace].schema;
        let clock = schema.clock(schema.stream(class).default_clock?);
        (clock.frequency > 0).then(|| ClockMap::new(clock, self.corrections[trace]).with_drift(self.drift(trace)))
    }

    /// How the clocks of a trace drift, when they do.
    pub fn drift(&self, trace: usize) -> Option<Drift> {
        self.drifts.get(trace).copied().flatten()
    }

    /// Corrects the clocks of traces, beside the corrections that they have.
    pub fn move_clocks(&mut self, moves: &[ClockMove]) {
        for (trace, correction) in self.traces.iter().zip(&mut self.corrections) {
            let own = moves.iter().filter(|own| own.path == trace.path && own.name == trace.name);
            own.for_each(|own| *correction = correction.saturating_add(own.offset_ns));
        }
    }

    fn correct_clocks(&mut self, options: &OpenOptions) -> Result<()> {
        for (name, offset_ns) in &options.clock_offsets {
            let matches: Vec<usize> = match name {
                None => (0..self.traces.len()).collect(),
                Some(name) => self.named(name)?,
            };
            for at in matches {
                self.corrections[at] = self.corrections[at].saturating_add(*offset_ns);
            }
        }
        Ok(())
    }

    /// The trace of this name, or of a name that ends in `/` and this; otherwise all below this folder, or the only one
    /// that has it in its name.
    fn named(&self, name: &str) -> Result<Vec<usize>> {
        let holding = |is_held: &dyn Fn(&str) -> bool| -> Vec<usize> {
            (0..self.traces.len()).filter(|&at| is_held(&self.traces[at].name)).collect()
        };
        let exact = holding(&|own| own == name);
        let tails = holding(&|own| own.strip_suffix(name).is_some_and(|head| head.ends_with('/')));
        let folder = name.trim_end_matches('/');
        let below =
            holding(&|name| !folder.is_empty() && name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')));
        let inside = holding(&|name| !folder.is_empty() && name.contains(&format!("/{folder}/")));
        let names = || self.names(0..self.traces.len());
        match (exact.as_slice(), tails.as_slice()) {
            ([_, ..], _) => Ok(exact),
            ([], [_]) => Ok(tails),
            ([], []) if !below.is_empty() => Ok(below),
            ([], []) if inside.len() == 1 => Ok(inside),
            (_, tails) => {
                let message = match tails.is_empty() {
                    true => format!("no trace has the name `{name}`"),
                    false => format!("several traces have a name that ends in `{name}`"),
                };
                Err(Error::misuse(message).with_help(format!("the traces are {}", names())))
            }
        }
    }

    /// The names of some traces, for messages.
    fn names(&self, traces: impl IntoIterator<Item = usize>) -> String {
        traces.into_iter().map(|at| format!("`{}`", self.traces[at].name)).collect::<Vec<_>>().join(", ")
    }

    fn warn_of_origins(&mut self) {
        let origin = |at: usize| {
            let trace = &self.traces[at];
            let clocks: Vec<_> = trace.default_clocks().collect();
            (!clocks.is_empty()).then(|| clocks.iter().any(|clock| clock.origin != ClockOrigin::Unknown))
        };
        let with: Vec<usize> = (0..self.traces.len()).filter(|&at| origin(at) == Some(true)).collect();
        let without: Vec<usize> =
            (0..self.traces.len()).filter(|&at| origin(at) == Some(false) && self.corrections[at] == 0).collect();
        if let (Some(&one), false) = (with.first(), without.is_empty()) {
            let message = format!(
                "the clock of {} has no origin and cannot be compared with that of `{}`; they are merged by their ns all the same",
                self.names(without),
                self.traces[one].name
            );
            let warning = Error::inconsistent(message);
            self.warnings.push(warning.with_help("move a clock with --clock-offset TRACE=SECONDS"));
        }
    }
}

/// Finds traces in and below a path.
struct Search<'a> {
    storage: &'a Packed<'a>,
    formats: &'a [&'static Format],
    found: &'a mut Vec<(usize, FoundTrace)>,
    /// Files that have the name of a part of a trace, and whose content is no such thing.
    suspects: Vec<Error>,
    /// Folders without links in their paths: a link may lead to a folder again, or to one that holds it.
    visited: HashSet<PathBuf>,
}

impl Search<'_> {
    /// Looks at a path and, unless it is a trace, at the folders in it.
    fn search(&mut self, path: &Path, name: &str, below: &str, depth: usize, unreadable: &mut Vec<Error>) {
        if !self.visited.insert(self.storage.canonical(path)) {
            return;
        }
        if let Err(error) = self.storage.unpack(path) {
            return unreadable.push(error);
        }
        if let Some(at) = self.format_of(path) {
            let found = FoundTrace { path: path.to_path_buf(), name: name.to_string(), below: below.to_string() };
            return self.found.push((at, found));
        }
        if self.storage.kind(path) != Some(EntryKind::Directory) || depth == MAX_DEPTH {
            return;
        }
        let entries = match self.storage.list(path) {
            Err(error) => return unreadable.push(error),
            Ok(entries) => entries,
        };
        for entry in entries {
            if is_pending(&entry.path) {
                self.suspects.push(unfinished(&entry.path));
                continue;
            }
            match entry.kind {
                EntryKind::Directory => {
                    let (name, below) = entry_paths(name, below, &entry.name);
                    self.search(&entry.path, &name, &below, depth + 1, unreadable);
                }
                EntryKind::File(len) if entry.name == "metadata" => {
                    if let Err(error) = self.storage.read_start(&entry.path, 1) {
                        unreadable.push(error);
                        continue;
                    }
                    let what = if len == 0 { "is empty" } else { "is not that of a CTF trace" };
                    let error = Error::new(ErrorKind::NotThisFormat, format!("the metadata {what}"));
                    self.suspects.push(error.in_file(&entry.path).at_offset(0));
                }
                EntryKind::File(_) => self.file(&entry.path, name, below, &entry.name, depth, unreadable),
                EntryKind::Other => {}
            }
        }
    }

    /// Looks at a file in a folder that is no trace.
    fn file(&mut self, path: &Path, folder: &str, below: &str, name: &str, depth: usize, unreadable: &mut Vec<Error>) {
        if let Err(error) = self.storage.unpack(path) {
            return unreadable.push(error);
        }
        let (name, below) = entry_paths(folder, below, name);
        if self.storage.kind(path) == Some(EntryKind::Directory) {
            return self.search(path, &name, &below, depth + 1, unreadable);
        }
        let Some(at) = self.format_of(path) else { return };
        if self.visited.insert(self.storage.canonical(path)) {
            self.found.push((at, FoundTrace { path: path.to_path_buf(), name, below }));
        }
    }

    /// The format that a path looks like, by its place.
    fn format_of(&self, path: &Path) -> Option<usize> {
        self.formats.iter().position(|format| (format.probe)(self.storage, path))
    }
}

/// The name of an entry of a folder, and its path below what is searched.
fn entry_paths(folder: &str, below: &str, entry: &str) -> (String, String) {
    let separator = if below.is_empty() { "" } else { "/" };
    (format!("{}/{entry}", folder.trim_end_matches('/')), format!("{below}{separator}{entry}"))
}

/// The format that a path looks like.
fn format_of(storage: &dyn Storage, formats: &[&'static Format], path: &Path) -> Option<&'static Format> {
    formats.iter().find(|format| (format.probe)(storage, path)).copied()
}

fn unfinished(path: &Path) -> Error {
    let error = Error::truncated("an output that was not finished: its writer was killed");
    error.in_file(path).with_help("remove it, and convert again")
}

/// Standard input is read to its end before it is opened: files say at their ends what they hold, and times are merged.
fn take_standard_input(packed: &Packed<'_>, path: &Path) -> Result<()> {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        let error = Error::unsupported("standard input is a terminal");
        return Err(error.with_help("name a file or folder, or send one; a file that is called `-` is `./-`"));
    }
    packed.add_stream(path, &mut input)
}

/// Drops transcripts: the events of another trace, printed, are no trace of their own beside one in a folder.
fn drop_transcripts(
    found: &mut Vec<(usize, FoundTrace)>,
    before: usize,
    path: &Path,
    formats: &[&'static Format],
    has_suspects: bool,
) {
    let is_transcript = |(format, _): &(usize, FoundTrace)| formats[*format].is_transcript;
    if found[before..].iter().all(is_transcript) && !has_suspects {
        return;
    }
    let mut at = 0;
    found.retain(|one| {
        at += 1;
        at <= before || one.1.path == path || !is_transcript(one)
    });
}

/// Options that name files name some that are there, also when no trace needs them: a wrong path is not ignored.
fn check_named_files(storage: &dyn Storage, options: &OpenOptions) -> Result<()> {
    let declared = options.formats.iter().flat_map(|format| format.settings);
    for setting in declared.filter(|setting| matches!(setting.value, Some("FILE" | "DIR"))) {
        if let Some(path) = options.settings.get(setting.name)
            && storage.kind(Path::new(path)).is_none()
        {
            let error = Error::misuse(format!("--{} names `{path}`: there is no such file or folder", setting.name));
            return Err(error);
        }
    }
    Ok(())
}

/// A file of another tool in a folder, among the first ones.
fn foreign_file_in(storage: &dyn Storage, folder: &Path) -> Option<(String, &'static ForeignFormat)> {
    const MAX_FILES: usize = 64;
    let entries = storage.list(folder).unwrap_or_default();
    let files = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File(1..)));
    let recognized = |entry: &Entry| {
        let head = storage.read_start(&entry.path, foreign::HEAD_BYTES).ok()?;
        Some((entry.name.clone(), foreign::recognize(&head)?))
    };
    files.take(MAX_FILES).find_map(recognized)
}

fn nothing_found(
    storage: &dyn Storage,
    path: &Path,
    options: &OpenOptions,
    formats: &[&'static Format],
    suspects: Vec<Error>,
) -> Error {
    let names = format!("formats that can be read: {}", names_of(formats).join(", "));
    // With --input-format only some formats are looked for.
    if let Some(other) = format_of(storage, &options.formats, path)
        .filter(|other| !formats.iter().any(|known| std::ptr::eq(*known, *other)))
    {
        let (found, wanted) = (other.names.join(" or "), names_of(formats).join(" or "));
        let error = Error::new(ErrorKind::NotThisFormat, format!("this is a trace of {found}, not of {wanted}"));
        return error.in_file(path).with_help("leave --input-format out, or name that format");
    }
    if let Some(suspect) = suspects.into_iter().next() {
        let message = format!("no trace in this folder or below it: {suspect}");
        let help =
            "CTF metadata begins with `/* CTF 1.8`, the magic number of a metadata packet, or a JSON text sequence";
        return Error::new(ErrorKind::NotThisFormat, message).in_file(path).with_help(format!("{help}; {names}"));
    }
    let error = match storage.kind(path) {
        None => match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Error::new(ErrorKind::Io, "there is no such file or folder").in_file(path);
            }
            Err(error) => return Error::io("open it", path, &error),
            Ok(_) => Error::new(ErrorKind::NotThisFormat, "it cannot be read"),
        },
        Some(EntryKind::Directory) => {
            let error = Error::new(ErrorKind::NotThisFormat, "no trace in this folder or below it");
            match foreign_file_in(storage, path) {
                Some((name, kind)) => {
                    let help = format!("`{name}` in it is {}: {}", kind.description, kind.way_in);
                    return error.in_file(path).with_help(help);
                }
                None => error,
            }
        }
        Some(EntryKind::File(0)) => {
            return Error::new(ErrorKind::NotThisFormat, "there is nothing in it").in_file(path);
        }
        Some(_) => {
            let head = storage.read_start(path, foreign::HEAD_BYTES).unwrap_or_default();
            if let Some(kind) = foreign::recognize(&head) {
                let message = format!("this is {}, not a trace that can be read", kind.description);
                return Error::new(ErrorKind::NotThisFormat, message).in_file(path).with_help(kind.way_in);
            }
            // Formats that could not look into it did not know it.
            if let Err(error) = storage.open(path) {
                return error;
            }
            let error = Error::new(ErrorKind::NotThisFormat, "the file is not a trace of a known format").in_file(path);
            let folder =
                path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
            if let Some(folder) = folder.filter(|folder| format_of(storage, &options.formats, folder).is_some()) {
                return error.with_help(format!("it belongs to the trace in `{}`: name that folder", folder.display()));
            }
            error
        }
    };
    // All of them are a page.
    const MAX_LOOKS: usize = 3;
    let looks: Vec<&str> = formats.iter().map(|format| format.looks_like).filter(|text| !text.is_empty()).collect();
    let looks = match looks.len() {
        1..=MAX_LOOKS => looks.join("; "),
        _ => "`tracemill formats` says what each one looks like".to_string(),
    };
    error.in_file(path).with_help(format!("{names}; {looks}"))
}
