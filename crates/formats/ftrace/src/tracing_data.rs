//! The format files of the kernel's tracer that a `perf.data` keeps, in the first sections of a trace.dat of version 6.

use std::collections::HashMap;

use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::bytes::ByteReader;
use super::container::{Container, MAGIC};
use super::event_format::{EventFormat, Machine};

/// Format files of a kernel's events.
#[derive(Debug, Default)]
pub struct KernelFormats {
    /// The kernel whose records they describe.
    pub machine: Machine,
    /// Formats of events with their systems; the ids differ.
    pub formats: Vec<(String, EventFormat)>,
    /// Errors of formats that cannot be used, by the number of the event: they matter when such an event occurs.
    pub unusable: HashMap<u16, Error>,
    /// Parts that cannot be read.
    pub faults: Vec<Error>,
}

impl KernelFormats {
    /// Reads what lies at `offset` of a file. Parts after the formats (symbols, format strings, names of tasks) are not looked at.
    ///
    /// # Errors
    /// When it does not begin as such a section.
    pub fn read(bytes: &[u8], offset: u64) -> Result<KernelFormats> {
        let mut reader = ByteReader::new(bytes, ByteOrder::Little, offset);
        if reader.take(MAGIC.len() as u64, "the magic number")? != MAGIC {
            return Err(Error::malformed("the tracing data does not begin with its magic number").at_offset(offset));
        }
        // perf wrote "0.5" and "0.6", for the same content as far as it is read here.
        reader.string("the version")?;
        let (mut container, mut reader) = Container::of_machine(bytes, reader, 6)?;
        let mut read = || {
            container.read_header_info(&mut reader)?;
            container.read_ftrace_formats(&mut reader)?;
            container.read_event_formats(&mut reader)
        };
        if let Err(error) = read() {
            container.fault(error.with_help("formats after it cannot be found"));
        }
        container.check_formats();
        Ok(KernelFormats {
            machine: container.machine(),
            formats: std::mem::take(&mut container.formats),
            unusable: std::mem::take(&mut container.unusable),
            faults: container.faults.finish("faults like these"),
        })
    }
}
