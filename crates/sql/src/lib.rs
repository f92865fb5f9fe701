//! SQL over traces: tables of events and of what surrounds them, for DataFusion.
//!
//! A [`Database`](database::Database) is a session whose events are numbered and wanted; [`Queries`](query::Queries) plans
//! and runs statements over it and gives rows to [`Answers`](query::Answers), of which [`Writer`](output::Writer) writes text
//! and files. A table of events is a source of files for DataFusion whose files are ranges of packets: what a query does
//! not name is not decoded, and conditions are decided where the events are read.
//!
//! A part of the program `tracemill`: this API may change at any time.
#![forbid(unsafe_code)]

mod by_name;
mod calls;
mod catalog;
mod class_rows;
pub mod complete;
mod context;
pub mod database;
mod defined_states;
mod errors;
mod event_columns;
mod exact;
mod field;
mod files;
mod filters;
mod functions;
mod gather;
mod kinds;
mod merged;
mod metadata_rows;
mod metadata_tables;
pub mod output;
mod overlap;
pub mod page;
mod pairs;
mod part;
mod provider;
pub mod query;
mod read;
pub mod remote;
mod rewrite;
pub mod rows;
mod samples;
pub mod saved;
mod scan;
mod since;
mod state_tables;
mod table;
mod text;
mod words;
