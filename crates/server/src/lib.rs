//! The server of the viewer (`docs/view.md`): it answers what a page in the browser asks about traces.
//!
//! It listens on this machine only, and answers below `/api/` whoever has its token. The page and its assets are a table in
//! the program; no file is served by its path.
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
mod reload;
mod stream;
mod web;

pub use web::{Listening, ServerSettings, listen};
