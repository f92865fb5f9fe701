//! Zip archives (APPNOTE 6.3), also those of more than 4 GiB.

use std::sync::Arc;

use tracemill_codec::bits::read_uint;
use tracemill_codec::chunk::Bytes;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

use super::compression::Compression;
use super::slice::ByteSlice;
use super::spool::Spool;
use super::{Budget, Members};

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
const END64: [u8; 4] = *b"PK\x06\x06";
const END64_LOCATOR: [u8; 4] = *b"PK\x06\x07";
/// The end of the directory, and the longest comment after it.
const MAX_END: usize = 22 + 0xffff;

/// An entry of the directory.
struct ZipEntry<'a> {
    name: &'a [u8],
    flags: u64,
    method: u64,
    crc: u32,
    packed_len: u64,
    len: u64,
    offset: u64,
}

/// The members of an archive.
///
/// # Errors
/// When it has no directory, holds too much, or cannot be unpacked to the disk.
pub(super) fn members(archive: &Arc<dyn Bytes>, budget: &mut Budget) -> Result<Members> {
    let bytes = archive.bytes();
    let (mut at, count) = directory(bytes)?;
    let mut members = Members::default();
    let mut spool = Spool::default();
    let mut spooled: Vec<(ZipEntry<'_>, u64, u64, bool)> = Vec::new();
    for _ in 0..count {
        let Some((entry, next)) = entry(bytes, at) else {
            let error = Error::malformed("the directory of the zip archive is damaged here");
            members.faults.push(error.at_offset(at as u64).with_help("the members after it are left out"));
            break;
        };
        at = next;
        let told = |error: Error| error.at_offset(entry.offset);
        let name = String::from_utf8_lossy(entry.name);
        if entry.name.ends_with(b"/") {
            members.add(entry.name, None, entry.offset)?;
            continue;
        }
        let Some(from) = content_of(bytes, &entry) else {
            let error = Error::malformed(format!("the member `{name}` does not begin where the directory says"));
            members.faults.push(told(error.with_help("the member is left out")));
            continue;
        };
        if entry.flags & 1 != 0 {
            let error = Error::unsupported(format!("the member `{name}` is encrypted"));
            members.faults.push(told(error.with_help("the member is left out; unpack the archive yourself")));
            continue;
        }
        let rest = &bytes[from..];
        let packed_len = usize::try_from(entry.packed_len).unwrap_or(usize::MAX).min(rest.len());
        if (packed_len as u64) < entry.packed_len {
            members.faults.push(told(Error::truncated(format!("the archive ends inside the member `{name}`"))));
        }
        let packed = &rest[..packed_len];
        if entry.method == 0 {
            if crc32fast::hash(packed) != entry.crc {
                members.faults.push(told(wrong_checksum(&name)));
            }
            members.add(entry.name, Some(ByteSlice::from_bytes(archive, from, packed_len)), entry.offset)?;
            continue;
        }
        let before = spool.len;
        let end = match entry.method {
            8 => Compression::Gzip.copy(flate2::bufread::DeflateDecoder::new(packed), &mut spool, budget)?,
            12 => Compression::Bzip2.unpack(packed, &mut spool, budget)?,
            93 | 20 => Compression::Zstd.unpack(packed, &mut spool, budget)?,
            95 => Compression::Xz.unpack(packed, &mut spool, budget)?,
            method => {
                let error = Error::unsupported(format!("the member `{name}` is packed by the method {method}"));
                members.faults.push(told(error.with_help("the member is left out; stored and deflated ones are read")));
                continue;
            }
        };
        let len = spool.len - before;
        let is_whole = end.is_ok() && len == entry.len;
        match end {
            Err(_) => {
                let error = Error::malformed(format!("cannot unpack all of the member `{name}`"));
                members.faults.push(told(error.with_help(format!("its first {len} bytes are used"))));
            }
            Ok(()) if len != entry.len => {
                let message = format!("the member `{name}` has {len} bytes, {} were expected", entry.len);
                members.faults.push(told(Error::malformed(message)));
            }
            Ok(()) => {}
        }
        drop(name);
        spooled.push((entry, before, len, is_whole));
    }
    let whole = spool.finish()?;
    for (entry, from, len, is_whole) in spooled {
        let content = ByteSlice::from_bytes(&whole, from as usize, len as usize);
        if is_whole && crc32fast::hash(content.bytes()) != entry.crc {
            members.faults.push(wrong_checksum(&String::from_utf8_lossy(entry.name)).at_offset(entry.offset));
        }
        members.add(entry.name, Some(content), entry.offset)?;
    }
    Ok(members)
}

fn wrong_checksum(name: &str) -> Error {
    let error = Error::inconsistent(format!("the checksum of the member `{name}` does not match"));
    error.with_help("its content is used all the same")
}

/// Where the directory begins, and how many entries it has.
fn directory(bytes: &[u8]) -> Result<(usize, u64)> {
    let from = bytes.len().saturating_sub(MAX_END);
    let last = memchr::memmem::rfind(&bytes[from..], &END).map(|at| from + at);
    let end = last.and_then(|at| Some((at, bytes.get(at..at + 22)?)));
    let Some((at, end)) = end else {
        let error = Error::truncated("the zip archive has no directory at its end");
        return Err(error.at_offset(bytes.len() as u64).with_help("`zip -FF` may mend it"));
    };
    let (count, offset) = (number(end, 10, 2), number(end, 16, 4));
    let locator = at.checked_sub(20).and_then(|at| bytes.get(at..at + 20)).filter(|of| of.starts_with(&END64_LOCATOR));
    let large = locator.and_then(|locator| {
        let at = usize::try_from(number(locator, 8, 8)).ok()?;
        bytes.get(at..at.checked_add(56)?).filter(|end| end.starts_with(&END64))
    });
    let (count, offset) = match large {
        Some(end) if count == 0xffff || offset == 0xffff_ffff => (number(end, 32, 8), number(end, 48, 8)),
        _ => (count, offset),
    };
    Ok((usize::try_from(offset).unwrap_or(usize::MAX), count))
}

/// The entry at an offset, and where the next one is.
fn entry(bytes: &[u8], at: usize) -> Option<(ZipEntry<'_>, usize)> {
    let head = bytes.get(at..at.checked_add(46)?).filter(|head| head.starts_with(&CENTRAL))?;
    let [name_len, extra_len, comment_len] = [28, 30, 32].map(|place| number(head, place, 2) as usize);
    let name = bytes.get(at + 46..at + 46 + name_len)?;
    let mut extra = bytes.get(at + 46 + name_len..at + 46 + name_len + extra_len)?;
    let [mut packed_len, mut len, mut offset] = [20, 24, 42].map(|place| number(head, place, 4));
    while let Some(field) = extra.get(..4) {
        let field_len = number(field, 2, 2) as usize;
        let mut content = extra.get(4..4 + field_len)?;
        if number(field, 0, 2) == 1 {
            for value in [&mut len, &mut packed_len, &mut offset] {
                if *value == 0xffff_ffff && content.len() >= 8 {
                    *value = number(content, 0, 8);
                    content = &content[8..];
                }
            }
        }
        extra = &extra[4 + field_len..];
    }
    let (flags, method, crc) = (number(head, 8, 2), number(head, 10, 2), number(head, 16, 4) as u32);
    let entry = ZipEntry { name, flags, method, crc, packed_len, len, offset };
    Some((entry, at + 46 + name_len + extra_len + comment_len))
}

/// Where the content of an entry begins: after a header of its own.
fn content_of(bytes: &[u8], entry: &ZipEntry<'_>) -> Option<usize> {
    let at = usize::try_from(entry.offset).ok()?;
    let head = bytes.get(at..at.checked_add(30)?).filter(|head| head.starts_with(&LOCAL))?;
    let from = at + 30 + (number(head, 26, 2) + number(head, 28, 2)) as usize;
    (from <= bytes.len()).then_some(from)
}

/// The number in some bytes; 0 where they are not there.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes.get(at..at + len).map_or(0, |bytes| read_uint(bytes, ByteOrder::Little))
}
