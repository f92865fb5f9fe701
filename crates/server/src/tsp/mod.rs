//! The Trace Server Protocol (`docs/book/from/vscode.md`), by which front ends such as the extension of Trace Compass for VS Code ask about
//! traces. Each experiment is a [`TraceState`](tracemill_answers::TraceState), as the page has one; answers come from it.
//!
//! The clients send no token. So the server listens on this machine only, opens only what is at or below the paths that it was
//! started with, and answers a page only when its origin was allowed.

mod annotations;
mod bookmarks;
mod critical_path;
mod entries;
mod experiments;
mod filter;
mod http;
mod outputs;
mod parameters;
mod refusal;
mod routes;
mod scatter;
mod statistics;
mod styles;
mod table;
mod time_graph;
mod xy;

pub use experiments::TraceOpener;
pub use http::{TspListening, TspSettings, listen_tsp};
