//! Version 6: one section after the other, in a fixed order.

use tracemill_model::error::{Error, Result};

use super::bytes::ByteReader;
use super::container::{Buffer, Container, CpuData, MAX_CPUS};
use super::options::id;

/// The words that say what follows, with blanks up to ten bytes.
const WORD_BYTES: u64 = 10;

/// Reads everything after the size of a page. What cannot be read ends it: nothing says where the rest is.
pub(crate) fn read(container: &mut Container, reader: &mut ByteReader<'_>, file: &[u8]) {
    if let Err(error) = read_all(container, reader, file) {
        container.fault(error.with_help("nothing after it can be found"));
    }
}

fn read_all(container: &mut Container, reader: &mut ByteReader<'_>, file: &[u8]) -> Result<()> {
    let steps: [(u16, ReadSection); 6] = [
        (id::HEADER_INFO, Container::read_header_info),
        (id::FTRACE_EVENTS, Container::read_ftrace_formats),
        (id::EVENT_FORMATS, Container::read_event_formats),
        (id::KALLSYMS, Container::read_symbols),
        (id::PRINTK, Container::read_format_strings),
        (id::CMDLINES, Container::read_comms),
    ];
    for (section, read) in steps {
        let before = reader.rest();
        read(container, reader)?;
        container.keep_section(section, before, reader);
    }
    let cpus = reader.u32("the number of CPUs")?;
    let mut word = reader.take(WORD_BYTES, "the kind of the data")?;
    let mut instances = Vec::new();
    if word.starts_with(b"options") {
        instances = read_options(container, reader)?;
        word = reader.take(WORD_BYTES, "the kind of the data")?;
    }
    let page_bytes = container.page_bytes;
    let top = Buffer { page_bytes, ..Buffer::default() };
    let top = read_buffer(top, word, cpus, reader)?;
    container.buffers.push(top);
    // Instances can share one table of CPUs: not without end.
    let mut left = MAX_CPUS.saturating_sub(cpus);
    for instance in instances {
        let buffer = Buffer { name: instance.name, page_bytes, ..Buffer::default() };
        let mut reader = ByteReader::new(file, container.byte_order, 0);
        let cpus = instance.cpus.unwrap_or(cpus);
        let Some(after) = left.checked_sub(cpus.max(1)) else {
            let message = format!("more than {MAX_CPUS} CPUs in all instances");
            container.fault(Error::unsupported(message).at_offset(instance.offset));
            break;
        };
        left = after;
        let read = reader
            .take(instance.offset, "what lies before an instance")
            .and_then(|_| reader.take(WORD_BYTES, "the kind of the data"))
            .and_then(|word| read_buffer(buffer, word, cpus, &mut reader));
        match read {
            Ok(buffer) => container.buffers.push(buffer),
            Err(error) => container.fault(error),
        }
    }
    Ok(())
}

type ReadSection = fn(&mut Container, &mut ByteReader<'_>) -> Result<()>;

/// An instance of the tracer beside the top one.
struct Instance {
    name: String,
    offset: u64,
    cpus: Option<u32>,
}

fn read_options(container: &mut Container, reader: &mut ByteReader<'_>) -> Result<Vec<Instance>> {
    let mut instances: Vec<Instance> = Vec::new();
    loop {
        let option = reader.u16("the number of an option")?;
        if option == id::DONE {
            return Ok(instances);
        }
        let len = reader.u32("the size of an option")?;
        let offset = reader.offset();
        let content = reader.take(len.into(), "an option")?;
        let order = container.byte_order;
        let result = match option {
            id::BUFFER => {
                let mut reader = ByteReader::new(content, order, offset);
                reader.u64("the place of an instance").and_then(|at| {
                    let name = reader.string("the name of an instance")?;
                    instances.push(Instance { name, offset: at, cpus: None });
                    Ok(())
                })
            }
            // After an instance it is about that.
            id::CPUCOUNT if !instances.is_empty() => {
                let count = ByteReader::new(content, order, offset).u32("the number of CPUs");
                count.map(|count| instances.last_mut().into_iter().for_each(|last| last.cpus = Some(count)))
            }
            _ => {
                container.raw.options.push((option, content.to_vec()));
                container.options.apply_option(option, content, order, offset).map(drop)
            }
        };
        if let Err(error) = result {
            container.fault(error.with_help("the option is skipped"));
        }
    }
}

/// Reads where the data of a buffer is, after the word that says what it is.
fn read_buffer(mut buffer: Buffer, word: &[u8], cpus: u32, reader: &mut ByteReader<'_>) -> Result<Buffer> {
    if word.starts_with(b"latency") {
        let rest = reader.rest().len() as u64;
        buffer.is_text = true;
        buffer.cpus.push(CpuData { cpu: 0, offset: reader.offset(), len: rest });
        return Ok(buffer);
    }
    if !word.starts_with(b"flyrecord") {
        let message = format!("found `{}`, expected `flyrecord` or `latency`", word.escape_ascii());
        return Err(Error::malformed(message).at_offset(reader.offset() - WORD_BYTES));
    }
    if cpus > MAX_CPUS {
        return Err(Error::unsupported(format!("{cpus} CPUs, more than {MAX_CPUS}")).at_offset(reader.offset()));
    }
    for cpu in 0..cpus {
        let offset = reader.u64("the place of the data of a CPU")?;
        let len = reader.u64("the size of the data of a CPU")?;
        buffer.cpus.push(CpuData { cpu, offset, len });
    }
    Ok(buffer)
}
