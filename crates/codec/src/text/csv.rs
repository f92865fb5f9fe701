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
    let mut rest = text;
    // Cells of JSON have a quote in almost every eight bytes, so each of them costs more than the bytes around it.
    while let Some(word) = rest.first_chunk::<8>() {
        let room = out.room::<9>();
        room[..8].copy_from_slice(word);
        match first_quote(*word) {
            Some(at) => {
                room[at + 1] = b'"';
                out.advance(at + 2);
                rest = &rest[at + 1..];
            }
            None => {
                out.advance(8);
                rest = &rest[8..];
            }
        }
    }
    for &byte in rest {
        out.put_byte(byte);
        if byte == b'"' {
            out.put_byte(b'"');
        }
    }
    out.put_byte(b'"');
}

/// Where the first quote is, if there is one.
#[inline]
fn first_quote(bytes: [u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // A byte that is zero borrows from its highest bit; what is above it may have borrowed, too, but not what is below.
    let zeros = u64::from_le_bytes(bytes) ^ (ONES * b'"' as u64);
    let found = zeros.wrapping_sub(ONES) & !zeros & (ONES << 7);
    (found != 0).then_some(found.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_doubled_wherever_they_are() {
        let texts = (0..1u32 << 12).map(|bits| {
            let byte = |at: u32| if bits >> at & 1 == 1 { b'"' } else { [b'#', b'!', 0xa2, b'x'][at as usize % 4] };
            (0..12).map(byte).collect::<Vec<u8>>()
        });
        for mut text in texts {
            text.push(b',');
            let mut out = Out::default();
            put_cell(&mut out, &text);
            let mut wanted = vec![b'"'];
            text.iter().for_each(|&byte| wanted.extend(vec![byte; if byte == b'"' { 2 } else { 1 }]));
            wanted.push(b'"');
            assert_eq!(out.written(), wanted);
        }
    }
}
