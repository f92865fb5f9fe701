//! Texts of many threads that are written one after the other, while their parts come mixed: what does not fit into memory
//! waits in a file without a name.

use std::io::{self, Seek, SeekFrom, Write};

use tracemill_format::{OutPath, SinkFile, WAITING};
use tracemill_model::error::Result;

/// Bytes that wait in memory, for all texts together, and the least and most for one of them.
const MEMORY: usize = 8 << 20;
const TEXT: std::ops::RangeInclusive<usize> = (1 << 10)..=(1 << 16);

/// The texts.
pub(super) struct Spill {
    output: OutPath,
    file: Option<Box<dyn SinkFile>>,
    end: u64,
    texts: Vec<Text>,
}

#[derive(Default)]
struct Text {
    /// Where its parts stand in the file: offset and length.
    parts: Vec<(u64, usize)>,
    /// Bytes behind them.
    rest: Vec<u8>,
}

impl Spill {
    /// Texts for an output; what waits is in its folder, where there is room for the output itself.
    pub(super) fn new(output: &OutPath) -> Self {
        Spill { output: output.clone(), file: None, end: 0, texts: Vec::new() }
    }

    /// Appends to a text.
    pub(super) fn put(&mut self, text: usize, bytes: &[u8]) -> Result<()> {
        if self.texts.len() <= text {
            self.texts.resize_with(text + 1, Text::default);
        }
        let limit = (MEMORY / self.texts.len()).clamp(*TEXT.start(), *TEXT.end());
        let of = &mut self.texts[text];
        of.rest.extend_from_slice(bytes);
        if of.rest.len() < limit {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(self.output.temporary(".parts")?),
        };
        file.write_all(&of.rest).map_err(self.output.failed(WAITING))?;
        of.parts.push((self.end, of.rest.len()));
        self.end += of.rest.len() as u64;
        of.rest.clear();
        Ok(())
    }

    /// Writes a text to a file, and forgets it.
    pub(super) fn copy(&mut self, text: usize, out: &mut dyn Write) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use tracemill_engine::source::FileSystem;

    use super::Spill;

    #[test]
    fn texts_come_back_in_their_order() {
        let path = std::env::temp_dir().join(format!("tracemill-spill-{}", std::process::id()));
        let mut spill = Spill::new(&FileSystem.at(path));
        let mut want = vec![Vec::new(); 3];
        for at in 0..60_000u32 {
            let (text, bytes) = ((at * 7 % 3) as usize, format!("{at},"));
            spill.put(text, bytes.as_bytes()).expect("there is room");
            want[text].extend_from_slice(bytes.as_bytes());
        }
        assert!(spill.file.is_some());
        for (text, want) in want.into_iter().enumerate() {
            let mut got = Vec::new();
            spill.copy(text, &mut got).expect("it is there");
            assert_eq!(got, want);
        }
    }
}
