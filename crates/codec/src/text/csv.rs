//! Lines of CSV.

use super::out::Out;

/// Appends a line of cells.
pub fn put_line(out: &mut Out, cells: &[impl AsRef<[u8]>]) {
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            out.put_byte(b',');
        }
        put_cell(out, cell.as_ref());
    }
    out.put_byte(b'\n');
}

/// Appends a cell, in quotes when it needs them.
pub fn put_cell(out: &mut Out, text: &[u8]) {
    if !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return out.put(text);
    }
    out.put_byte(b'"');
    for part in text.split_inclusive(|&byte| byte == b'"') {
        out.put(part);
        if part.ends_with(b"\"") {
            out.put_byte(b'"');
        }
    }
    out.put_byte(b'"');
}
