//! The server of the viewer (`docs/view.md`): it answers what a page in the browser asks about traces.
//!
//! It listens on this machine only, and answers below `/api/` whoever has its token. The page and its assets are a table in
//! the program; no file is served by its path.
//!
//! Its knowledge of traces is [`Shared`], which the viewer in the terminal asks without any requests.
//!
//! A part of the program `tracemill`: this API may change at any time.
#![forbid(unsafe_code)]

mod anew;
mod answers;
mod assets;
pub mod cache;
mod connections;
mod counters;
mod csv;
mod download;
mod error;
mod export;
mod first;
mod groups;
mod guard;
mod html;
mod kept;
mod locate;
mod measures;
mod pack;
mod plots;
mod points;
mod rows;
mod selection;
mod shared;
mod sql;
mod states;
mod stream;
mod tiles;
mod titles;
mod web;

pub use anew::Reopener;
pub use error::ApiError;
pub use export::{Cut, Cutter};
pub use html::{Page, page};
pub use rows::{Place, Row, fields, read as read_rows};
pub use shared::{Input, Shared, Traces};
pub use sql::{Column, MOST, Querier, Refused, Rows};
pub use web::{Listening, Settings, listen};
