//! The server of the viewer (`docs/view.md`): it answers what a page in the browser asks about traces.
//!
//! It listens on this machine only, and answers below `/api/` whoever has its token. The page and its assets are a table in
//! the program; no file is served by its path.
//!
//! Beside the page it speaks the Trace Server Protocol, with front ends of others (`docs/book/from/vscode.md`).
//!
//! Apart from that it hands a file to the page of Perfetto ([`HandOver`]).
//!
//! Its answers are those of `tracemill-answers`, which knows nothing of HTTP.
//!
//! A part of the program `tracemill`: this API may change at any time.
#![forbid(unsafe_code)]

mod assets;
mod connections;
mod download;
mod first;
mod guard;
mod perfetto;
mod stream;
mod tsp;
mod web;

pub use perfetto::HandOver;
pub use tsp::{TraceOpener, TspListening, TspSettings, listen_tsp};
pub use web::{Listening, ServerSettings, listen};
