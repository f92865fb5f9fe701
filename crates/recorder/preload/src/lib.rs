//! The library that `tracemill record` loads into programs that were built for tracing: it gets every call and every
//! return, and writes them into a ring of the thread.
//!
//! It is compiled by the build script of `tracemill-run`, from these files alone, so it depends on nothing.
//!
//! # Why the `unsafe` here is sound
//!
//! * All of it runs inside of a program that knows nothing of it. The stubs of `stubs` keep every register that a call may
//!   not change, and the vector registers; what they call uses no vectors beyond SSE and no function of the C library,
//!   until `xsave` has put all of them aside.
//! * A thread's data is a private mapping, which the thread alone reaches: itself, and its signal handlers. It changes by
//!   atomics only, through shared references; `thread` says why that is enough.
//! * The places of return addresses on the stack are written while their frames live: a frame is live as long as the stack
//!   of the thread is at or below it. Frames that were left otherwise (`longjmp`, exceptions) are found before anything of
//!   theirs is touched, since whatever calls or returns then stands above them.
//!
//! # Where things are
//!
//! `process` begins and ends with the program; `stubs` is what it calls. From there calls go through `enter` and `exit`
//! (`selective`, when calls are selected) to `frames` and `record`, which change the `thread`. `lifetime` makes and ends
//! a thread's data, `ring` its slots, `fork` what children have of them. `patch` changes functions that have room for a call,
//! `moved` those whose first instructions the recorder (`code`, `moved` of `tracemill-run`) has found movable. `plt` hooks calls to libraries, `special` those
//! of functions that do not simply return (`jumps` is what threads keep for them). `probes` are events of the program, by
//! `landings` or by `traps`, which `events` records.
#![allow(unsafe_code, unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]
// Functions that programs and the loader call are public for them, and not for other crates.
#![allow(missing_docs, unreachable_pub, clippy::missing_safety_doc)]
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod enter;
mod events;
mod exec;
mod exit;
mod fork;
mod frames;
mod jumps;
mod landings;
#[allow(dead_code, reason = "readers of rings use the rest of it")]
mod layout;
mod library;
mod lifetime;
mod local;
mod moved;
mod patch;
mod plt;
mod probes;
mod process;
mod record;
mod replace;
mod ring;
mod rules;
mod same_thread;
mod sandbox;
mod saved;
mod selective;
mod session;
mod settings;
mod special;
mod stubs;
mod system;
#[allow(dead_code, reason = "the program that writes the table compiles it, too")]
mod table;
mod thread;
mod traps;
mod unwind;
mod values;
mod wakeup;
