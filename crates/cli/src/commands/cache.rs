//! `tracemill cache`: the indexes that `view` and `tui` keep.

#[cfg(feature = "viewer")]
pub(crate) use kept::run;

#[cfg(not(feature = "viewer"))]
use tracemill_model::error::Error;

#[cfg(not(feature = "viewer"))]
use crate::args::CacheCommand;
#[cfg(not(feature = "viewer"))]
use crate::report::Outcome;

/// Says how to get a program that can do this.
#[cfg(not(feature = "viewer"))]
pub(crate) fn run(_: &CacheCommand) -> Result<Outcome, Error> {
    Err(super::built_without("the viewer", "viewer"))
}

#[cfg(feature = "viewer")]
mod kept {
    use std::path::{Path, PathBuf};
    use std::time::{SystemTime, UNIX_EPOCH};

    use serde_json::json;
    use tracemill_answers::index_cache::{self, IndexEntry, MOST_BYTES};
    use tracemill_codec::text::out::Out;
    use tracemill_model::error::Error;
    use tracemill_table::{Align, Layout, LayoutColumn, TableClock, Unit, Value, put_shown};

    use crate::args::{CacheAction, CacheCommand};
    use crate::report::{Outcome, OutputSink};

    /// Lists or removes what is kept.
    pub(crate) fn run(command: &CacheCommand) -> Result<Outcome, Error> {
        let text = match &command.action {
            CacheAction::Info { cache_dir, json } => {
                let folder = folder(cache_dir.as_ref())?;
                let entries = index_cache::entries(&folder)?;
                if *json { as_json(&folder, &entries) } else { as_text(&folder, &entries) }
            }
            CacheAction::Clear { cache_dir } => {
                let folder = folder(cache_dir.as_ref())?;
                let (count, bytes) = index_cache::clear(&folder)?;
                format!("{} removed from {}: {}\n", indexes(count), folder.display(), size(bytes))
            }
        };
        OutputSink::stdout().print(text.as_bytes(), Outcome::Done)
    }

    fn folder(typed: Option<&PathBuf>) -> Result<PathBuf, Error> {
        let unknown = || {
            Error::misuse("neither XDG_CACHE_HOME nor HOME says where indexes are kept").with_help("give --cache-dir")
        };
        typed.cloned().or_else(index_cache::usual_folder).ok_or_else(unknown)
    }

    fn as_text(folder: &Path, entries: &[IndexEntry]) -> String {
        let bytes = entries.iter().map(|entry| entry.bytes).sum();
        let mut out = Out::default();
        out.put_fmt(format_args!(
            "{} in {}: {} of at most {}\n",
            indexes(entries.len()),
            folder.display(),
            size(bytes),
            size(MOST_BYTES)
        ));
        let columns = [(Align::Right, 10), (Align::Right, 9), (Align::Left, 0)];
        let layout = Layout::new(columns.map(|(align, width)| LayoutColumn::new(align, width)));
        for entry in entries {
            let traces = match index_cache::traces(entry) {
                none if none.is_empty() => "of another version of this program".to_string(),
                traces => traces.join(", "),
            };
            layout.put_line(&mut out, &[size(entry.bytes), age(entry.used), traces]);
        }
        String::from_utf8_lossy(out.written()).into_owned()
    }

    fn as_json(folder: &Path, entries: &[IndexEntry]) -> String {
        let of_entry = |entry: &IndexEntry| {
            let used = entry.used.duration_since(UNIX_EPOCH).map_or(0, |used| used.as_secs());
            json!({ "file": entry.path.to_string_lossy(), "traces": index_cache::traces(entry), "bytes": entry.bytes, "used": used })
        };
        let bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let indexes: Vec<_> = entries.iter().map(of_entry).collect();
        let all =
            json!({ "folder": folder.to_string_lossy(), "bytes": bytes, "most_bytes": MOST_BYTES, "indexes": indexes });
        format!("{all}\n")
    }

    fn indexes(count: usize) -> String {
        if count == 1 { "1 index".to_string() } else { format!("{count} indexes") }
    }

    /// How long ago, as people say it.
    fn age(used: SystemTime) -> String {
        let seconds = used.elapsed().map_or(0, |age| age.as_secs());
        match seconds {
            0..60 => "now".to_string(),
            60..3600 => format!("{} min ago", seconds / 60),
            3600..86_400 => format!("{} h ago", seconds / 3600),
            _ => format!("{} d ago", seconds / 86_400),
        }
    }

    fn size(bytes: u64) -> String {
        let mut out = Out::default();
        put_shown(&mut out, Value::Integer(bytes.into()), Unit::Bytes, &TableClock::seconds());
        String::from_utf8_lossy(out.written()).into_owned()
    }
}
