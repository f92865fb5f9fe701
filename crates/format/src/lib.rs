//! What a trace format is: how it is found, opened, read and written, and the mechanisms that all formats share.
//!
//! [`api`] says what a format gives that is read, [`target`] what one gives that is written.
#![forbid(unsafe_code)]

pub mod api;
pub mod calls;
pub mod hiding;
pub mod out_file;
pub mod target;
pub mod veil;
