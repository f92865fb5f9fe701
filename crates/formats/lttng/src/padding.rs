//! Padding of blocks and sub-buffers.

use tracemill_format::OutFile;
use tracemill_model::error::Result;

/// Writes so many zeros.
pub(crate) fn write_zeros(out: &mut OutFile, mut count: usize) -> Result<()> {
    // A page at a time: the size that a header states may be large.
    let page = [0; 4096];
    while count > 0 {
        let part = count.min(page.len());
        out.write(&page[..part])?;
        count -= part;
    }
    Ok(())
}
