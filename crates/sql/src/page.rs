//! The first rows of an answer as texts, for those who show a page of it, and who may only read.

use std::collections::HashMap;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType};
use tracemill_codec::text::out::Out;
use tracemill_model::error::Error;

use crate::errors::Explained;
use crate::query::Queries;
use crate::rows::{Next, without_place};
use crate::text::Json;

/// How often somebody looks whether the answer is still wanted.
const PATIENCE: Duration = Duration::from_millis(20);

/// A column of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageColumn {
    /// Its name.
    pub name: String,
    /// The kind of its values: `integer`, `real`, `text`, `boolean` or `other`.
    pub kind: &'static str,
}

/// The first rows of an answer.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Page {
    /// Its columns.
    pub columns: Vec<PageColumn>,
    /// Values as they stand in CSV; `None` for NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Are there more rows?
    pub is_cut: bool,
}

fn kind_of(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Dictionary(_, values) => kind_of(values),
        DataType::Boolean => "boolean",
        DataType::Decimal128(_, 0) | DataType::Decimal256(_, 0) => "integer",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "real",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        other if other.is_integer() => "integer",
        other if other.is_floating() => "real",
        _ => "other",
    }
}

impl Queries {
    /// Answers the one statement of a text with its first rows: as many of these, and bytes of their texts. `None` when nobody
    /// wants to know any more, which is asked on the way.
    ///
    /// # Errors
    /// When the statement is wrong or fails.
    pub fn page(
        &self,
        text: &str,
        (most_rows, most_bytes): (usize, usize),
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Page>, Explained> {
        let prepared = self.prepare(text, &HashMap::new())?;
        let mut rows = self.rows(&prepared)?;
        let mut page = Page::default();
        let columns = rows.schema().fields().iter();
        page.columns =
            columns.map(|of| PageColumn { name: of.name().clone(), kind: kind_of(of.data_type()) }).collect();
        let mut bytes = 0;
        loop {
            if is_over() {
                return Ok(None);
            }
            match rows.next(PATIENCE)? {
                Next::Later => {}
                Next::End => return Ok(Some(page)),
                Next::Batch(batch) => {
                    let failed =
                        |error: ArrowError| without_place(Error::unsupported(format!("rows cannot be shown: {error}")));
                    for row in texts(&batch).map_err(failed)? {
                        bytes += row.iter().flatten().map(String::len).sum::<usize>();
                        if page.rows.len() >= most_rows || bytes > most_bytes {
                            page.is_cut = true;
                            return Ok(Some(page));
                        }
                        page.rows.push(row);
                    }
                }
            }
        }
    }
}

/// The rows of a batch.
fn texts(batch: &RecordBatch) -> Result<impl Iterator<Item = Vec<Option<String>>>, ArrowError> {
    let columns = batch.columns().iter().map(Json::new).collect::<Result<Vec<_>, _>>()?;
    Ok((0..batch.num_rows()).map(move |row| {
        let cell = |column: &Json| {
            let mut out = Out::default();
            column.put_cell(&mut out, row);
            (!column.is_null(row)).then(|| String::from_utf8_lossy(out.written()).into_owned())
        };
        columns.iter().map(cell).collect()
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tracemill_engine::session::{OpenOptions, Session};
    use tracemill_engine::source::FileSystem;
    use tracemill_engine::timeline::Selection;
    use tracemill_formats::FORMATS;

    use super::*;
    use crate::database::Database;
    use crate::query::MemoryLimits;

    fn queries() -> Queries {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/traces/mill");
        let session = Session::open(&FileSystem, &[path], &OpenOptions::new(FORMATS)).expect("it opens");
        let mut database = Database::new(session, &[], Selection::default(), None, 2).expect("all streams");
        database.read_only();
        Queries::new(database, MemoryLimits { memory_bytes: 1 << 26, spills: true }).expect("threads")
    }

    #[test]
    fn the_first_rows_are_texts() {
        let queries = queries();
        let page = |text: &str, most| queries.page(text, most, &|| false).expect(text).expect("somebody waits");
        let two = page("select event, name, null as nothing from events order by event", (2, 1000));
        let column = |name: &str, kind| PageColumn { name: name.to_string(), kind };
        assert_eq!(two.columns, [column("event", "integer"), column("name", "text"), column("nothing", "other")]);
        assert_eq!(
            (two.rows.len(), two.rows[1][0].as_deref(), &two.rows[1][2], two.is_cut),
            (2, Some("1"), &None, true)
        );
        let all = page("select count(*) as n, 1.5 as real from events", (2, 1000));
        assert_eq!((all.rows.len(), all.is_cut, all.columns[1].kind), (1, false, "real"));
        assert!(page("select name from events", (1000, 50)).is_cut);
        assert_eq!(queries.page("select * from events", (9, 999), &|| true).expect("no mistake"), None);
    }

    #[test]
    fn who_may_only_read_writes_nothing_and_reads_no_files() {
        let queries = queries();
        let folder = std::env::temp_dir().join(format!("tracemill-page-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = |name: &str| folder.join(name).display().to_string();
        std::fs::write(file("secret.csv"), "a,b\n1,2\n").expect("a file");
        let out = file("out.csv");
        for text in [
            format!("copy (select 1 as a) to '{out}'"),
            format!("explain analyze copy (select 1 as a) to '{out}'"),
            format!("select * from '{}'", file("secret.csv")),
            format!("create external table t stored as csv location '{}'", file("secret.csv")),
            "create view v as select 1".to_string(),
            "create table t as select 1 as a".to_string(),
            "insert into events values (1)".to_string(),
            "set datafusion.execution.batch_size = 1".to_string(),
            format!("with t as (select 1 as a) select * from t; copy (select 1 as a) to '{out}'"),
        ] {
            let answer = queries.page(&text, (9, 999), &|| false);
            assert!(answer.is_err(), "{text}: {answer:?}");
            assert!(!Path::new(&out).exists(), "{text}");
        }
        let _ = std::fs::remove_dir_all(&folder);
    }
}
