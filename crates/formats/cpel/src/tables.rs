//! Sections of `info` about a log, beside its events.

use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::schema::EnvValue;

use super::container::{Container, RecordHeader, Section, SectionType};
use super::definitions::LogDefinitions;
use super::printf::PrintfFormat;
use super::strings::StringTable;
use tracemill_format::Section as Table;

/// Rows of a table that are shown.
const MAX_ROWS: usize = 10_000;

/// A section, as the table of sections shows it.
#[derive(Clone, Debug, Default)]
pub(super) struct SectionRow {
    pub(super) title: &'static str,
    pub(super) records: Option<RecordHeader>,
    pub(super) frequency: u64,
}

/// All tables of a CPEL file.
pub(super) fn all(
    container: &Container,
    file: &Arc<dyn Bytes>,
    described: &[SectionRow],
    definitions: &LogDefinitions,
    tables: &[(Section, StringTable)],
) -> Vec<Table> {
    let mut all = vec![sections(container, file, described)];
    if !tables.is_empty() {
        all.push(string_tables(tables));
    }
    all.extend(event_definitions(definitions));
    all.extend(track_definitions(definitions));
    all
}

fn sections(container: &Container, file: &Arc<dyn Bytes>, described: &[SectionRow]) -> Table {
    let rows = container.sections.iter().zip(described).map(|(section, row)| {
        let table = match (section.kind, &row.records) {
            (SectionType::STRINGS, _) => section.octets(file.bytes()).split(|&octet| octet == 0).next().map(text),
            (_, Some(records)) => Some(text(records.table())),
            _ => None,
        };
        let rate = row.records.filter(|_| section.kind == SectionType::EVENTS).map(|records| number(records.rate));
        vec![
            Some(number(section.number)),
            Some(number(section.kind.0)),
            Some(text(section.kind.name().as_bytes())),
            Some(EnvValue::Integer(section.offset().into())),
            Some(EnvValue::Integer(section.declared.into())),
            table,
            row.records.map(|records| EnvValue::Integer(records.count.into())),
            rate,
            (row.frequency > 0).then(|| EnvValue::Integer(row.frequency.into())),
        ]
    });
    table(
        "sections",
        &["section", "type", "kind", "offset", "octets", "string_table", "records", "clock_rate", "frequency"],
        container.sections.len(),
        rows,
    )
}

fn string_tables(tables: &[(Section, StringTable)]) -> Table {
    let rows = tables.iter().map(|(section, table)| {
        let strings = memchr::memchr_iter(0, table.octets()).count();
        vec![
            Some(text(table.string(0).unwrap_or(&[]))),
            Some(number(section.number)),
            Some(EnvValue::Integer(table.len() as i128)),
            Some(EnvValue::Integer(strings as i128)),
        ]
    });
    table("string tables", &["name", "section", "octets", "strings"], tables.len(), rows)
}

/// The event definitions, when there are some.
pub(super) fn event_definitions(definitions: &LogDefinitions) -> Option<Table> {
    let rows = definitions.events.iter().map(|event| {
        vec![Some(number(event.code)), event.name.as_ref().map(format_text), event.datum.as_ref().map(format_text)]
    });
    let count = definitions.events.len();
    (count > 0).then(|| table("event definitions", &["code", "event_format", "datum_format"], count, rows))
}

fn track_definitions(definitions: &LogDefinitions) -> Option<Table> {
    let rows =
        definitions.tracks.iter().map(|track| vec![Some(number(track.id)), track.name.as_ref().map(format_text)]);
    let count = definitions.tracks.len();
    (count > 0).then(|| table("track definitions", &["track", "track_format"], count, rows))
}

/// A table of at most so many rows as anybody reads.
pub(super) fn table(
    title: &str,
    columns: &[&'static str],
    count: usize,
    rows: impl Iterator<Item = Vec<Option<EnvValue>>>,
) -> Table {
    let title = match count {
        0..=MAX_ROWS => title.to_string(),
        count => format!("{title} (the first {MAX_ROWS} of {count})"),
    };
    Table { title, columns: columns.to_vec(), rows: rows.take(MAX_ROWS).collect() }
}

/// Octets as text.
pub(super) fn text(octets: &[u8]) -> EnvValue {
    EnvValue::String(String::from_utf8_lossy(&octets[..octets.len().min(MAX_TEXT)]).into())
}

/// Octets of a text that are shown.
const MAX_TEXT: usize = 1024;

fn format_text(format: &PrintfFormat) -> EnvValue {
    text(format.text())
}

/// A number.
pub(super) fn number(value: u32) -> EnvValue {
    EnvValue::Integer(value.into())
}

/// Seconds since 1970 as a date in UTC.
pub(super) fn date(seconds: u32) -> String {
    let (days, second) = (i64::from(seconds / 86_400), seconds % 86_400);
    // Days are counted in eras of 400 years that begin on a first of March, so that the leap day is a year's last.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_490_885_108), "2017-03-30T14:45:08Z");
        assert_eq!(date(u32::MAX), "2106-02-07T06:28:15Z");
    }
}
