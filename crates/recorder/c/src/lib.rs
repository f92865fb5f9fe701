//! The library of `tracemill/record.h`: functions for C, which lead to [`record::c`].
//!
//! # Why the `unsafe` here is sound
//!
//! * Pointers come from the functions of the header, which are part of the interface: a [`Site`] and its fields are static
//!   variables of the program, their texts are constants. What a site says is read before the function returns.
//! * The state of a site is reached as an atomic number, until [`tm_record_forget_`] has returned: the header calls that
//!   before the memory of the site goes away.
//! * Texts of the user end with 0 or are null, as the header's documentation demands.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use record::c::{CEvent, CField, StatePlace};
use record::{FieldClass, Format, IntegerClass, Level, Mode, Options, StartError, ValueLabel};

const EINVAL: c_int = 22;
const EIO: c_int = 5;
const ENOENT: c_int = 2;
const EBUSY: c_int = 16;

/// A field of an event, `struct tm_record_field_` of the header.
#[repr(C)]
pub struct HeaderField {
    name: *const c_char,
    class: u32,
    count: u32,
    labels: *const HeaderLabel,
}

/// The name of a range of values, `struct tm_record_label_` of the header. One without a name ends a list of them.
#[repr(C)]
pub struct HeaderLabel {
    name: *const c_char,
    first: i64,
    last: i64,
    follows: u32,
}

/// An event of a program, `struct tm_record_site_` of the header.
#[repr(C)]
pub struct Site {
    state: AtomicU32,
    has_counter: AtomicU32,
    thread: AtomicI64,
    longest_text: AtomicU32,
    field_count: u32,
    target: *const c_char,
    name: *const c_char,
    fields: *const HeaderField,
    next: *const Site,
    is_listed: AtomicU32,
    level: i32,
}

/// `tm_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct COptions {
    path: *const c_char,
    mode: c_int,
    format: c_int,
    ring_bytes: u64,
    packet_bytes: u64,
    events: *const c_char,
    flush_ms: i64,
    text_bytes: u32,
    sync: u8,
    follow_fork: u8,
    no_control: u8,
}

/// A text of the user.
///
/// # Safety
/// It ends with 0, or is null.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// A path of the user.
///
/// # Safety
/// It ends with 0, or is null.
unsafe fn path<'a>(path: *const c_char) -> Option<&'a Path> {
    // SAFETY: the caller's promise.
    unsafe { text(path) }.map(|path| Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// A field class by its number in the header. `None` for one of a newer header.
fn class(number: u32, count: u32) -> Option<FieldClass> {
    const INTEGER: u32 = 0x1000;
    const BIG_ENDIAN: u32 = 0x2000;
    const HEXADECIMAL: u32 = 0x4000;
    const ARRAY: u32 = 0x10000;
    const SEQUENCE: u32 = 0x20000;
    let plain = match number & 0xfff {
        0x108 => FieldClass::Unsigned(8),
        0x110 => FieldClass::Unsigned(16),
        0x120 => FieldClass::Unsigned(32),
        0x140 => FieldClass::Unsigned(64),
        0x208 => FieldClass::Signed(8),
        0x210 => FieldClass::Signed(16),
        0x220 => FieldClass::Signed(32),
        0x240 => FieldClass::Signed(64),
        0x320 => FieldClass::Float(32),
        0x340 => FieldClass::Float(64),
        0x400 => FieldClass::Bool,
        0x500 => FieldClass::Text,
        0x600 => FieldClass::Slice(&FieldClass::Unsigned(8)),
        0x700 => FieldClass::String,
        0x800 => FieldClass::FixedText(count),
        0x900 => FieldClass::SequenceText,
        _ => return None,
    };
    let properties = number & !0xfff;
    let (bits, is_signed) = match plain {
        _ if properties == 0 => return Some(plain),
        FieldClass::Unsigned(bits) => (bits, false),
        FieldClass::Signed(bits) => (bits, true),
        _ => return None,
    };
    let integer = IntegerClass {
        bits,
        is_signed,
        is_big_endian: properties & BIG_ENDIAN != 0,
        is_hexadecimal: properties & HEXADECIMAL != 0,
        labels: &[],
    };
    match properties & !(BIG_ENDIAN | HEXADECIMAL) {
        INTEGER => Some(FieldClass::Integer(integer)),
        others if others == INTEGER | ARRAY => Some(FieldClass::Array(count, integer)),
        others if others == INTEGER | SEQUENCE => Some(FieldClass::Sequence(integer)),
        _ => None,
    }
}

/// The name of a constant of the program.
///
/// # Safety
/// It ends with 0, or is null.
unsafe fn constant(name: *const c_char) -> Option<&'static str> {
    // SAFETY: the caller's promise; it is a constant of the program.
    unsafe { text(name) }?.to_str().ok()
}

/// The labels of a list. `None` when one is not UTF-8.
///
/// # Safety
/// The list ends with a label without a name, or is null.
unsafe fn labels(list: *const HeaderLabel) -> Option<Vec<ValueLabel<'static>>> {
    let mut labels: Vec<ValueLabel<'static>> = Vec::new();
    let mut at = list;
    // SAFETY: the list goes on up to a label without a name.
    while let Some(label) = unsafe { at.as_ref() }.filter(|label| !label.name.is_null()) {
        // SAFETY: as above.
        let name = unsafe { constant(label.name) }?;
        let next = labels.last().map_or(0, |label| label.last.wrapping_add(1));
        labels.push(match label.follows {
            0 => ValueLabel { name, first: label.first as u64, last: label.last as u64 },
            _ => ValueLabel { name, first: next, last: next },
        });
        at = at.wrapping_add(1);
    }
    Some(labels)
}

/// The event that a site describes. `None` when it is of a newer header.
///
/// # Safety
/// The site is one of the header.
unsafe fn event(site: &Site) -> Option<CEvent<'static>> {
    let fields = match site.field_count {
        0 => &[],
        // SAFETY: so many fields stand there, static as the site.
        count => unsafe { std::slice::from_raw_parts(site.fields, count as usize) },
    };
    let field = |field: &HeaderField| {
        // SAFETY: names and labels are constants of the program.
        let (name, labels) = unsafe { (constant(field.name)?, labels(field.labels)?) };
        Some(CField { name, class: class(field.class, field.count)?, labels })
    };
    let fields = fields.iter().map(field).collect::<Option<_>>()?;
    // SAFETY: as above.
    let (target, name) = unsafe { (constant(site.target)?, constant(site.name)?) };
    let level = site.level.try_into().ok().and_then(Level::of_number);
    Some(CEvent { target, name, level, fields })
}

/// Makes an event known, or asks again whether it is on, and gives its state.
///
/// # Safety
/// Only for the functions of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tm_record_register_(site: *const Site) -> u32 {
    // SAFETY: a static variable of the program, until it is forgotten.
    let site: &'static Site = unsafe { &*site };
    // SAFETY: as above.
    let Some(event) = (unsafe { event(site) }) else {
        site.state.store(1, Ordering::Release);
        return 1;
    };
    let process = record::c::process();
    site.has_counter.store(process.has_counter.into(), Ordering::Relaxed);
    site.thread.store(process.thread as i64, Ordering::Relaxed);
    site.longest_text.store(process.longest_text, Ordering::Relaxed);
    record::c::register(StatePlace(&site.state), &event)
}

/// Records an event that needs more than to be written.
///
/// # Safety
/// Only for the functions of the header: so many bytes stand at `fields`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tm_record_special_(site: *const Site, fields: *const u8, len: u64, frame: *const c_void) {
    // SAFETY: a static variable of the program, until it is forgotten; the bytes are there until this returns.
    let (site, fields): (&'static Site, _) = unsafe { (&*site, std::slice::from_raw_parts(fields, len as usize)) };
    // SAFETY: as above.
    record::c::record_special(StatePlace(&site.state), || unsafe { event(site) }, fields, frame as usize);
}

/// Memory for the fields of such an event, as [`record::c::allocate`].
#[unsafe(no_mangle)]
pub extern "C" fn tm_record_allocate_(len: u64) -> *mut u8 {
    record::c::allocate(len)
}

/// Gives it back.
///
/// # Safety
/// It is memory of `tm_record_allocate_` of this length, which nothing uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tm_record_free_(bytes: *mut u8, len: u64) {
    // SAFETY: the caller's promise.
    unsafe { record::c::free(bytes, len) }
}

/// Forgets the sites of a list: their library is unloaded.
///
/// # Safety
/// Only for the functions of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tm_record_forget_(mut site: *const Site) {
    // SAFETY: sites of one source file, which are there until this returns.
    while let Some(known) = unsafe { site.as_ref() } {
        record::c::forget(StatePlace(&known.state));
        site = known.next;
    }
}

/// The writer of the calling thread; null when it cannot record.
#[unsafe(no_mangle)]
pub extern "C" fn tm_record_writer_() -> *const u8 {
    record::c::thread()
}

/// Makes room for an event of the calling thread, as [`record::c::make_room`].
#[unsafe(no_mangle)]
pub extern "C" fn tm_record_room_(len: u64, clock: u64) -> u32 {
    record::c::make_room(len, clock)
}

/// The clock, where it is not the counter of the processor.
#[unsafe(no_mangle)]
pub extern "C" fn tm_record_clock_() -> u64 {
    record::c::now()
}

/// The options that this library knows, with zeros for those that the program does not.
///
/// # Safety
/// `len` bytes stand at `options`.
unsafe fn options(options: *const COptions, len: usize) -> COptions {
    let mut known = std::mem::MaybeUninit::<COptions>::zeroed();
    let len = len.min(size_of::<COptions>());
    // SAFETY: so many bytes are at both places, and zeros are sound options.
    unsafe {
        std::ptr::copy_nonoverlapping(options.cast::<u8>(), known.as_mut_ptr().cast(), len);
        known.assume_init()
    }
}

/// Options of Rust for those of C. `None` when a number means nothing.
///
/// # Safety
/// Texts end with 0, or are null.
unsafe fn in_rust(options: &COptions) -> Option<Options> {
    let mut rust = Options::default();
    // SAFETY: the caller's promise.
    rust.path = PathBuf::from(unsafe { path(options.path) }.unwrap_or(Path::new("")));
    rust.mode = match options.mode {
        0 => Mode::Stream,
        1 => Mode::Flight,
        2 => Mode::Block,
        _ => return None,
    };
    rust.format = match options.format {
        0 => Format::Ctf2,
        1 => Format::Ctf18,
        _ => return None,
    };
    rust.ring_bytes = options.ring_bytes;
    if options.packet_bytes > 0 {
        rust.packet_bytes = options.packet_bytes;
    }
    // SAFETY: the caller's promise.
    if let Some(globs) = unsafe { text(options.events) } {
        rust.filter = globs.to_str().ok()?.to_string();
    }
    match options.flush_ms {
        0 => {}
        every => rust.flush = Duration::from_millis(every.try_into().unwrap_or(0)),
    }
    if options.text_bytes > 0 {
        rust.text_bytes = options.text_bytes as usize;
    }
    (rust.sync, rust.follow_fork) = (options.sync != 0, options.follow_fork != 0);
    rust.control = options.no_control == 0;
    Some(rust)
}

/// Events that were discarded by the recording that ended last.
static DISCARDED: AtomicU64 = AtomicU64::new(0);

fn negative(error: &io::Error) -> c_int {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<StartError>());
    match (inner, error.raw_os_error(), error.kind()) {
        (Some(StartError::Io(_, inner)), ..) => negative(inner),
        (_, Some(number), _) => -number,
        (.., io::ErrorKind::NotFound) => -ENOENT,
        _ => -EIO,
    }
}

/// Begins to record.
///
/// # Safety
/// `len` bytes of options stand at `wanted`, or that is null; its texts end with 0, or are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tm_record_start_(wanted: *const COptions, len: usize) -> c_int {
    if wanted.is_null() {
        return -EINVAL;
    }
    // SAFETY: the caller's promise.
    let Some(options) = (unsafe { in_rust(&options(wanted, len)) }) else { return -EINVAL };
    match record::c::start(options) {
        Ok(()) => 0,
        Err(StartError::IsRecording) => -EBUSY,
        Err(StartError::Io(_, error)) => negative(&error),
        Err(error) => {
            // Best effort: stderr may be closed.
            let _ = writeln!(io::stderr(), "tracemill-record: nothing is recorded: {error}");
            -EINVAL
        }
    }
}

/// Ends recording.
#[unsafe(no_mangle)]
pub extern "C" fn tm_stop() -> c_int {
    match record::c::stop() {
        Ok(summary) => {
            DISCARDED.store(summary.discarded, Ordering::Relaxed);
            0
        }
        Err(error) => negative(&error),
    }
}

/// Copies what is recorded so far.
///
/// # Safety
/// The path ends with 0, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tm_snapshot(to: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let Some(to) = (unsafe { path(to) }) else { return -EINVAL };
    record::c::snapshot(to).map_or_else(|error| negative(&error), |()| 0)
}

/// Finishes the trace and goes on in another folder.
///
/// # Safety
/// The path ends with 0, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tm_rotate(to: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let Some(to) = (unsafe { path(to) }) else { return -EINVAL };
    record::c::rotate(to).map_or_else(|error| negative(&error), |_| 0)
}

/// Events that were discarded so far, or by the recording that ended last.
#[unsafe(no_mangle)]
pub extern "C" fn tm_discarded() -> u64 {
    record::c::discarded().unwrap_or_else(|| DISCARDED.load(Ordering::Relaxed))
}
