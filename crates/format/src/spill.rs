//! Texts of many threads that are written one after the other, while their parts come mixed: what does not fit into memory
//! waits in a file without a name.

use std::io::{self, Seek, SeekFrom, Write};

use tracemill_model::error::Result;

use crate::sink::{OutPath, SinkFile, WAITING};

/// Bytes that wait in memory, for all texts together, and the least and most for one of them.
const MEMORY: usize = 8 << 20;
const TEXT: std::ops::RangeInclusive<usize> = (1 << 10)..=(1 << 16);

/// The texts.
pub struct Spill {
    output: OutPath,
    /// After the name of the output.
    suffix: String,
    file: Option<Box<dyn SinkFile>>,
    end: u64,
    texts: Vec<SpilledText>,
}

#[derive(Default)]
struct SpilledText {
    /// Where its parts stand in the file: offset and length.
    parts: Vec<(u64, usize)>,
    /// Bytes after them.
    rest: Vec<u8>,
}

impl Spill {
    /// Texts for an output; what waits is in its folder, where there is room for the output itself, and `name` is its own
    /// among the others that wait there. No file is made yet.
    pub fn new(output: &OutPath, name: &str) -> Self {
        Spill { output: output.clone(), suffix: format!(".{name}"), file: None, end: 0, texts: Vec::new() }
    }

    /// Bytes of all texts.
    pub fn len(&self) -> u64 {
        self.end + self.texts.iter().map(|text| text.rest.len() as u64).sum::<u64>()
    }

    /// Was nothing appended?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends to a text.
    ///
    /// # Errors
    /// When the file beside the output cannot be written.
    pub fn append(&mut self, text: usize, bytes: &[u8]) -> Result<()> {
        if self.texts.len() <= text {
            self.texts.resize_with(text + 1, SpilledText::default);
        }
        let limit = (MEMORY / self.texts.len()).clamp(*TEXT.start(), *TEXT.end());
        let of = &mut self.texts[text];
        of.rest.extend_from_slice(bytes);
        if of.rest.len() < limit {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(self.output.temporary(&self.suffix)?),
        };
        file.write_all(&of.rest).map_err(self.output.failed(WAITING))?;
        of.parts.push((self.end, of.rest.len()));
        self.end += of.rest.len() as u64;
        of.rest.clear();
        Ok(())
    }

    /// Writes a text to a file, and forgets it.
    ///
    /// # Errors
    /// When one of them cannot be read or written.
    pub fn copy(&mut self, text: usize, out: &mut dyn Write) -> io::Result<()> {
        let Some(of) = self.texts.get_mut(text).map(std::mem::take) else { return Ok(()) };
        let mut buffer = Vec::new();
        if let Some(file) = &mut self.file {
            for (offset, len) in of.parts {
                buffer.resize(len, 0);
                file.seek(SeekFrom::Start(offset))?;
                file.read_exact(&mut buffer)?;
                out.write_all(&buffer)?;
            }
        }
        out.write_all(&of.rest)
    }
}
