//! Opening CPEL logs: sections, string tables, definitions.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tracemill_codec::bits::u32_at;
use tracemill_codec::chunk::Bytes;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::EnvValue;

use super::container::{self, Container, NAME_BYTES, RecordHeader, Section, SectionType};
use super::definitions::{EventDefinition, LogDefinitions, TrackDefinition, each_twice};
use super::diagnostics::{Diagnostics, Severity};
use super::elog;
use super::gist;
use super::log::Log;
use super::log_parts::LogParts;
use super::printf::{Budget, PrintfFormat};
use super::settings::Wishes;
use super::strings::{MAX_TEXT, StringTable, Symbols, long_string};
use super::tables;
use tracemill_format::{EntryKind, FoundTrace, OpenContext, OpenTrace, Storage};

/// Is the file a CPEL or a Gist log?
pub(super) fn probe(storage: &dyn Storage, path: &Path) -> bool {
    let Some(EntryKind::File(len)) = storage.kind(path) else { return false };
    let Ok(start) = storage.read_start(path, 16) else { return false };
    let Some(&first) = start.first() else { return false };
    // The length of its magic is a number of events, too: that of a Gist log of 144 octets.
    if start.starts_with(elog::header::MAGIC) {
        return false;
    }
    if gist::is_gist(&start, len) {
        return true;
    }
    // Only few versions are believed at once: files of all kinds are asked.
    let is_near = first & 0x7f != 0 && start.len() >= 8 && (first & 0x7f < 8 || container::is_first(&start, len));
    is_near && storage.open(path).is_ok_and(|file| container::probe(file.bytes()))
}

/// Opens all files that were found.
pub(super) fn open(context: &OpenContext<'_>, found: &[FoundTrace]) -> Vec<Result<OpenTrace>> {
    let open_one = |found: &FoundTrace| {
        let (is_forced, is_strict) = (context.named_format.is_some(), context.strict);
        let wishes = Wishes { is_forced, is_strict, ..Wishes::from_settings(context.settings)? };
        let file = context.storage.open(&found.path)?;
        let len = file.bytes().len() as u64;
        let start = &file.bytes()[..file.bytes().len().min(16)];
        let opened = if gist::is_gist(start, len) || context.named_format == Some("gist") {
            gist::open(context.storage, found, file, &wishes)
        } else {
            open_container(found, file, &wishes)
        };
        opened.map_err(|error| error.in_file(&found.path))
    };
    found.iter().map(open_one).collect()
}

fn open_container(found: &FoundTrace, file: Arc<dyn Bytes>, wishes: &Wishes) -> Result<OpenTrace> {
    let mut diagnostics = Diagnostics::new(&found.path, wishes.is_strict);
    let container = Container::read(file.bytes(), wishes.is_forced, &mut diagnostics)?;
    let tables = StringTables::from_container(&container, &file, &mut diagnostics);
    let mut described = vec![tables::SectionRow::default(); container.sections.len()];
    let mut binder = Binder { container: &container, file: &file, tables: &tables, budget: Budget::new() };
    let definitions = Arc::new(binder.definitions(&mut described, &mut diagnostics));
    let mut log = Log::new("cpel", definitions.clone());
    log.schema.byte_order = container.order;
    log.schema.version = (u32::from(container.version), 0);
    let date = tables::date(container.date);
    log.schema.environment.push(("date".into(), EnvValue::String(date.into())));
    let (mut sections, mut has_events) = (Vec::new(), false);
    for (at, section) in container.sections.iter().enumerate() {
        described[at].title = section.kind.name();
        if section.kind != SectionType::EVENTS {
            continue;
        }
        has_events = true;
        let Some(records) = container.records(file.bytes(), section, &mut diagnostics) else { continue };
        let named = tables.find(&records);
        // Not for those who want it strict (`SPEC.md`, D14).
        let strings = named.or_else(|| tables.only().filter(|_| !wishes.is_strict));
        if named.is_none() && records.count > 0 {
            let instead = if strings.is_some() { "the only one of the file is used" } else { "`%s` finds no strings" };
            let message = format!(
                "{} names the string table `{}`, which is not there: {instead}",
                section.title(),
                String::from_utf8_lossy(records.table())
            );
            diagnostics.warn("string tables are missing", section.data, message);
        }
        let frequency = wishes.frequency_of(records.rate);
        if frequency == 0 && records.count > 0 {
            let message = format!("{} has a clock rate of 0: its events have no times", section.title());
            let error = Error::inconsistent(message);
            let error = error.at_offset(section.data + NAME_BYTES as u64 + 4);
            diagnostics.add(Severity::Warning, "rates are 0", error.with_help("--ticks-per-us N gives one"));
        }
        described[at].records = Some(records);
        described[at].frequency = frequency;
        sections.push(log.add(section.number, section.title(), &records, frequency, strings, &file, wishes));
    }
    if !has_events && !container.is_cut {
        diagnostics.warn("no events", 0, "there is no event section, so there are no events");
    }
    let tables = tables::all(&container, &file, &described, &definitions, &tables.all);
    let log_parts = LogParts::new(&file, &container, described.iter().map(|row| row.records));
    Ok(log.finish(found, file, sections, tables, log_parts, diagnostics))
}

/// The string tables of a file.
pub(super) struct StringTables {
    /// All of them with their sections, in the order of the file.
    pub(super) all: Vec<(Section, StringTable)>,
    /// For each of them where strings begin that have no NUL; `None` when all have one.
    cut_from: Vec<Option<usize>>,
    by_name: HashMap<Vec<u8>, usize>,
}

impl StringTables {
    fn from_container(container: &Container, file: &Arc<dyn Bytes>, diagnostics: &mut Diagnostics) -> Self {
        let mut tables = StringTables { all: Vec::new(), cut_from: Vec::new(), by_name: HashMap::new() };
        let of_kind = container.sections.iter().filter(|section| section.kind == SectionType::STRINGS);
        for section in of_kind {
            let (from, to) = (section.data as usize, (section.data + section.len) as usize);
            let table = StringTable::new(file.clone(), from, to);
            let name = table.string(0).unwrap_or(&[]);
            if section.declared % 4 != 0 {
                let message = format!("{} has {} octets, no multiple of 4", section.title(), section.declared);
                diagnostics.remark("string tables are not padded", section.offset(), message);
            }
            if table.len() == 0 {
                diagnostics.warn(
                    "string tables are empty",
                    section.offset(),
                    format!("{} has no name", section.title()),
                );
            } else if !table.is_terminated(0) {
                let message = format!("the name of {} is not terminated: it ends with the section", section.title());
                diagnostics.unterminated_name(section.data, message);
            }
            let cut = name[..name.len().min(NAME_BYTES)].to_vec();
            let text = String::from_utf8_lossy(&cut).into_owned();
            if tables.by_name.insert(cut, tables.all.len()).is_some() {
                let message =
                    format!("{} has the name `{text}` of a table before it: this one counts", section.title());
                diagnostics.warn("string tables have one name", section.data, message);
            }
            if let Some((at, len)) = long_string(table.octets()) {
                let message = format!(
                    "{} has a string of {len} octets at offset {at:#x}: texts show {MAX_TEXT} of them",
                    section.title()
                );
                diagnostics.warn("strings are long", section.data + at as u64, message);
            }
            let last_nul = memchr::memrchr(0, table.octets()).map_or(0, |nul| nul + 1);
            tables.cut_from.push(Some(last_nul).filter(|&from| from < table.len()));
            tables.all.push((*section, table));
        }
        tables
    }

    /// The table of a file that has only one.
    fn only(&self) -> Option<(&StringTable, Option<usize>)> {
        let [(_, table)] = self.all.as_slice() else { return None };
        Some((table, self.cut_from[0]))
    }

    /// The table that a section names, and where its strings begin that have no NUL.
    fn find(&self, records: &RecordHeader) -> Option<(&StringTable, Option<usize>)> {
        self.by_name.get(records.table()).map(|&at| (&self.all[at].1, self.cut_from[at]))
    }
}

/// Binds definitions and symbols to their strings.
struct Binder<'a> {
    container: &'a Container,
    file: &'a Arc<dyn Bytes>,
    tables: &'a StringTables,
    budget: Budget,
}

impl Binder<'_> {
    fn definitions(&mut self, described: &mut [tables::SectionRow], diagnostics: &mut Diagnostics) -> LogDefinitions {
        let (mut events, mut tracks, mut symbols) = (Vec::new(), Vec::new(), Vec::new());
        // Where each definition stands, for what is reported of it.
        let (mut events_at, mut tracks_at) = (Vec::new(), Vec::new());
        for (at, section) in self.container.sections.iter().enumerate() {
            let kinds = [SectionType::SYMBOLS, SectionType::EVENT_DEFINITIONS, SectionType::TRACK_DEFINITIONS];
            if !kinds.contains(&section.kind) {
                continue;
            }
            let Some(records) = self.container.records(self.file.bytes(), section, diagnostics) else { continue };
            described[at].records = Some(records);
            let table = self.table_of(section, &records, diagnostics);
            match section.kind {
                SectionType::SYMBOLS => self.add_symbols(section, &records, table, &mut symbols, diagnostics),
                SectionType::EVENT_DEFINITIONS => {
                    self.for_each_record::<3>(&records, |this, at, [code, name, datum]| {
                        let name = this.format(section, table, (name, at + 4), true, diagnostics);
                        let datum = this.format(section, table, (datum, at + 8), false, diagnostics);
                        events.push(EventDefinition { code, name, datum });
                        events_at.push(at);
                    })
                }
                _ => self.for_each_record::<2>(&records, |this, at, [id, name]| {
                    let name = this.format(section, table, (name, at + 4), true, diagnostics);
                    tracks.push(TrackDefinition { id, name });
                    tracks_at.push(at);
                }),
            }
        }
        let all = self.tables.all.iter().map(|(_, table)| table.clone()).collect();
        let codes: Vec<u32> = events.iter().map(|event| event.code).collect();
        each_twice(&codes, |at| {
            let message = format!("event code {} is defined twice: the first one counts", codes[at]);
            diagnostics.warn("event codes are defined twice", events_at[at], message);
        });
        let ids: Vec<u32> = tracks.iter().map(|track| track.id).collect();
        each_twice(&ids, |at| {
            let message = format!("track {} is defined twice: the first one counts", ids[at]);
            diagnostics.warn("tracks are defined twice", tracks_at[at], message);
        });
        LogDefinitions::new(events, tracks, Symbols::new(all, symbols))
    }

    /// The table that a section of definitions names; the only one of the file when that is not there (`SPEC.md`, D14).
    fn table_of(&self, section: &Section, records: &RecordHeader, diagnostics: &mut Diagnostics) -> Option<usize> {
        if let Some(&at) = self.tables.by_name.get(records.table()) {
            return Some(at);
        }
        let name = String::from_utf8_lossy(records.table());
        let message = format!("{} names the string table `{name}`, which is not there", section.title());
        let error = Error::malformed(message).at_offset(section.data);
        let only = (self.tables.all.len() == 1).then_some(0);
        let help = match only {
            Some(_) => "the only string table of the file is used",
            None => "its definitions have no formats",
        };
        diagnostics.error("string tables of definitions are missing", error.with_help(help));
        only
    }

    /// Calls `take` for each record of `N` words with its offset in the file.
    fn for_each_record<const N: usize>(
        &mut self,
        records: &RecordHeader,
        mut take: impl FnMut(&mut Self, u64, [u32; N]),
    ) {
        let file = self.file.clone();
        let (from, len) = (records.first as usize, records.count as usize * N * 4);
        let octets = file.bytes().get(from..from + len).unwrap_or(&[]);
        for (at, record) in octets.chunks_exact(N * 4).enumerate() {
            let word = |word: usize| u32_at(record, word * 4, self.container.order).unwrap_or(0);
            let words = std::array::from_fn(word);
            take(self, (from + at * N * 4) as u64, words);
        }
    }

    /// The format at an offset that stands `at` some place; `None` for the default (`SPEC.md`, D24).
    fn format(
        &mut self,
        section: &Section,
        table: Option<usize>,
        (offset, at): (u32, u64),
        is_name: bool,
        diagnostics: &mut Diagnostics,
    ) -> Option<PrintfFormat> {
        let index = table?;
        let (of, table) = &self.tables.all[index];
        if offset == 0 {
            return None;
        }
        let format = PrintfFormat::read_at(table, offset, &mut self.budget);
        if format.is_none() {
            let message = format!(
                "{}: a format at offset {offset:#x} of {}, which has {} octets: it counts as missing",
                section.title(),
                of.title(),
                table.len()
            );
            diagnostics.warn("formats are outside of their tables", at, message);
        } else if self.is_cut(index, offset) {
            let message =
                format!("the string at offset {offset:#x} of {} has no NUL: it ends with the section", of.title());
            if is_name {
                diagnostics.unterminated_name(at, message);
            } else {
                diagnostics.warn("strings are not terminated", at, message);
            }
        }
        format
    }

    /// Has the string at an offset no end of its own?
    fn is_cut(&self, table: usize, offset: u32) -> bool {
        self.tables.cut_from[table].is_some_and(|from| offset as usize >= from)
    }

    fn add_symbols(
        &mut self,
        section: &Section,
        records: &RecordHeader,
        table: Option<usize>,
        symbols: &mut Vec<(u32, u32, u32)>,
        diagnostics: &mut Diagnostics,
    ) {
        let (mut before, mut unsorted) = (0, None);
        let index = table.map_or(u32::MAX, |table| table as u32);
        self.for_each_record::<2>(records, |this, at, [value, name]| {
            if value < before {
                unsorted.get_or_insert((at, before, value));
            }
            before = value;
            if let Some(table) = table {
                let (index, (of, table)) = (table, &this.tables.all[table]);
                if name as usize >= table.len() {
                    let message = format!("{}: a name at offset {name:#x}, outside of {}", section.title(), of.title());
                    diagnostics.warn("names of symbols are outside of their tables", at + 4, message);
                } else if this.is_cut(index, name) {
                    let message = format!("the name at offset {name:#x} of {} has no NUL", of.title());
                    diagnostics.unterminated_name(at + 4, message);
                }
            }
            symbols.push((value, index, name));
        });
        if let Some((at, before, value)) = unsorted {
            let message = format!("{} is not sorted: the value {value:#x} stands after {before:#x}", section.title());
            diagnostics.warn("symbols are not sorted", at, message);
        }
    }
}
