//! Traces as a query that travels names them: words of options, paths, and marks by which others are found out.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use tracemill_engine::session::Session;
use tracemill_format::{Format, Settings, settings_of};
use tracemill_model::error::Error;

/// The traces of a query.
#[derive(Clone, Debug)]
pub struct NamedTraces {
    /// Options of the command line that open them, `--NAME=VALUE`.
    pub words: Vec<String>,
    /// Absolute paths.
    pub paths: Vec<String>,
    /// The names that results show.
    pub names: Vec<String>,
    /// Ids, and sizes and times of change of files.
    stamps: Vec<Value>,
}

impl NamedTraces {
    /// The traces of a session that was opened with these paths, by options that these words are.
    ///
    /// # Errors
    /// When a path is no text.
    pub fn new(session: &Session, paths: &[PathBuf], words: Vec<String>) -> Result<NamedTraces, Error> {
        let absolute = |path: &PathBuf| {
            let path = std::path::absolute(path).map_err(|error| Error::io("find the path", path, &error))?;
            let text = path.to_str().map(str::to_string);
            text.ok_or_else(|| Error::unsupported("the path is not text, as one that travels must be").in_file(&path))
        };
        Ok(NamedTraces {
            words,
            paths: paths.iter().map(absolute).collect::<Result<_, _>>()?,
            names: session.traces.iter().map(|trace| trace.name.clone()).collect(),
            stamps: stamps(session)?,
        })
    }

    /// The text that travels.
    pub fn text(&self) -> String {
        let NamedTraces { words, paths, names, stamps } = self;
        json!({ "words": words, "paths": paths, "names": names, "stamps": stamps }).to_string()
    }

    /// The traces that a text names.
    ///
    /// # Errors
    /// When it is none of [`text`](NamedTraces::text).
    pub fn parse(text: &str) -> Result<NamedTraces, Error> {
        let known: Value = serde_json::from_str(text).map_err(|_| Error::unsupported("the traces are not named"))?;
        let list = |key: &str| known[key].as_array().cloned().unwrap_or_default();
        let texts = |key: &str| list(key).iter().filter_map(Value::as_str).map(str::to_string).collect();
        Ok(NamedTraces { words: texts("words"), paths: texts("paths"), names: texts("names"), stamps: list("stamps") })
    }

    /// Are the files of a session those that were meant?
    ///
    /// # Errors
    /// When one is another: its name is in the error.
    pub fn check(&self, session: &Session) -> Result<(), Error> {
        let own = stamps(session)?;
        let differs = self.stamps.iter().find(|stamp| !own.contains(stamp));
        let differs = differs.or_else(|| own.iter().find(|stamp| !self.stamps.contains(stamp)));
        let Some(stamp) = differs else { return Ok(()) };
        let file = stamp[0].as_str().unwrap_or_default();
        Err(Error::unsupported("the file is another one here than where the query was asked").in_file(Path::new(file)))
    }
}

/// The words of options of formats, but for those that name files: these hold secrets, and each process has its own.
pub fn setting_words(formats: &[&'static Format], settings: &Settings) -> Vec<String> {
    let travel = settings.0.iter().filter(|(name, _)| !names_file(formats, name));
    let word = |(name, value): (&&str, &String)| match value.is_empty() {
        true => format!("--{name}"),
        false => format!("--{name}={value}"),
    };
    travel.map(word).collect()
}

/// Does an option of some formats name a file?
pub fn names_file(formats: &[&'static Format], name: &str) -> bool {
    let mut all = settings_of(formats).into_iter();
    all.any(|setting| setting.name == name && matches!(setting.value, Some("FILE" | "DIR")))
}

fn stamps(session: &Session) -> Result<Vec<Value>, Error> {
    let mut all = Vec::new();
    for trace in &session.traces {
        let uuid = trace.schema.uuid.map(|uuid| tracemill_codec::text::uuid_text(&uuid).to_string());
        let mut files: Vec<&Path> =
            trace.streams.iter().flat_map(|stream| stream.files.iter().map(|file| &*file.path)).collect();
        files.push(&trace.path);
        files.sort_unstable();
        files.dedup();
        for file in files {
            let path = std::path::absolute(file).map_err(|error| Error::io("find the path", file, &error))?;
            // A folder changes with what is beside the trace; files in archives have no times of their own.
            let Some(known) = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file) else { continue };
            let since = known.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let ns = since.map(|since| since.as_nanos().to_string());
            all.push(json!([path.to_string_lossy(), known.len(), ns, uuid]));
        }
    }
    Ok(all)
}
