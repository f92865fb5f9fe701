//! Exported files, on their way to the browser.

use std::fs::File;
use std::io::Error;

use axum::body::{Body, Bytes};
use axum::http::{Method, header};
use axum::response::Response;
use futures_util::Stream;
use tracemill_answers::{Answer, ApiError, Cache, Exported, TextSink, WriteTable, random_name};

use crate::web::built;

/// Files that wait to be fetched.
const EXPORTS: usize = 4;

/// Files that wait to be fetched, by name.
pub(crate) struct Exports(Cache<String, Exported>);

impl Default for Exports {
    fn default() -> Exports {
        Exports(Cache::with_entries(EXPORTS))
    }
}

impl Exports {
    /// Keeps a file until it is fetched; gives its name.
    pub(crate) fn add(&self, file: Exported) -> Answer<String> {
        let name = random_name().map_err(|error| ApiError::new(500, "fault", error.message()))?;
        self.0.insert(name.clone(), file);
        Ok(name)
    }
}

/// A file that was exported, once. Its name is as good as the token: a browser fetches it without a header.
pub(crate) fn exported(exports: &Exports, name: &str, method: &Method) -> Answer<Response> {
    let is_there = method == Method::GET;
    let file = is_there.then(|| exports.0.remove(&name.to_string())).flatten();
    let file = file.ok_or_else(|| ApiError::new(404, "path", "there is no such file, or it was fetched already"))?;
    let response = Response::builder();
    let attached = |name: &str| format!("attachment; filename=\"{name}\"");
    Ok(match file {
        Exported::Archive(file) => {
            let len = file.metadata().map_or(0, |metadata| metadata.len());
            let response = response
                .header(header::CONTENT_TYPE, "application/x-tar")
                .header(header::CONTENT_LENGTH, len)
                .header(header::CONTENT_DISPOSITION, attached("trace.tar"));
            built(response, Body::from_stream(blocks(file)))
        }
        Exported::Table(name, write) => {
            let response = response
                .header(header::CONTENT_TYPE, "text/csv; charset=utf-8")
                .header(header::CONTENT_DISPOSITION, attached(name));
            built(response, Body::from_stream(lines(write)))
        }
    })
}

/// Bytes of a file that are read at once.
const BLOCK: usize = 256 << 10;

fn blocks(file: File) -> impl Stream<Item = Result<Bytes, Error>> {
    futures_util::stream::try_unfold(Some(file), async |file| {
        let Some(mut file) = file else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; BLOCK];
            let len = std::io::Read::read(&mut file, &mut bytes)?;
            bytes.truncate(len);
            Ok::<_, Error>((bytes, file))
        });
        let (bytes, file) = read.await.map_err(Error::other)??;
        Ok((!bytes.is_empty()).then_some((Bytes::from(bytes), Some(file))))
    })
}

/// Parts of a table that wait for the browser, at most.
const WAITING: usize = 2;

/// The browser that fetches a table.
struct Browser(tokio::sync::mpsc::Sender<Result<Bytes, Error>>);

impl TextSink for Browser {
    fn write_text(&mut self, text: Vec<u8>) -> bool {
        self.0.blocking_send(Ok(Bytes::from(text))).is_ok()
    }

    fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

/// A table while it is written; it ends when it is not fetched any more.
fn lines(write: WriteTable) -> impl Stream<Item = Result<Bytes, Error>> {
    let (give, given) = tokio::sync::mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let mut browser = Browser(give);
        let written = write(&mut browser);
        let Browser(give) = browser;
        if let Err(error) = written {
            // The error makes the download fail, so that a part is not taken for the whole.
            let _ = give.blocking_send(Err(Error::other(error.message())));
        }
    });
    futures_util::stream::unfold(given, async |mut given| given.recv().await.map(|part| (part, given)))
}
