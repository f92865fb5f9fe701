//! Traces while they are recorded: sessions of LTTng's relay daemon, and files that grow.
//!
//! [`protocol`] has the requests and replies of LTTng's live protocol, [`client`] a connection, [`source`] a session as traces
//! that grow ([`tracemill_engine::growth`]), [`follow`] files and folders, of which [`unfinished`] shows what is whole,
//! [`streams`] bytes that come without a folder, [`calls_network`] recordings of calls that another machine sends.
//!
//! A part of the crate `tracemill`, which names what programs should use: this API may change at any time.
#![forbid(unsafe_code)]

pub mod calls_network;
mod changes;
pub mod client;
mod feed;
pub mod follow;
pub mod keep;
mod memory;
pub mod metadata;
pub mod protocol;
pub mod source;
pub mod streams;
pub mod unfinished;
mod url;
pub mod viewer;

pub use self::memory::MemoryStorage;
pub use self::url::{LiveUrl, PORT, is_live};
