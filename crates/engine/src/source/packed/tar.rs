//! Archives of tar: POSIX ustar and pax, and what GNU tar adds for long names and large files.

use std::path::PathBuf;
use std::sync::Arc;

use tracemill_codec::chunk::Bytes;
use tracemill_model::error::{Error, Result};

use super::slice::ByteSlice;
use super::{Member, Members, plain_name};

/// Everything begins at a multiple of this.
const BLOCK: usize = 512;

/// Does a member begin here? Its checksum says.
pub(super) fn is_header(block: &[u8]) -> bool {
    let Some(block) = block.get(..BLOCK).filter(|block| block[0] != 0) else { return false };
    let Some(want) = octal(&block[148..156]) else { return false };
    let sum = |signed: bool| -> i64 {
        let byte = |(at, &byte): (usize, &u8)| match at {
            148..156 => 32,
            _ if signed => i64::from(byte as i8),
            _ => i64::from(byte),
        };
        block.iter().enumerate().map(byte).sum()
    };
    // Old programs summed signed bytes.
    sum(false) == want as i64 || sum(true) == want as i64
}

/// The members of an archive; those that are whole and, of the last one, what is there.
pub(super) fn members(archive: &Arc<dyn Bytes>) -> Result<Members> {
    let bytes = archive.bytes();
    let mut members = Members::default();
    let mut links: Vec<(PathBuf, PathBuf, u64)> = Vec::new();
    let mut next = Next::default();
    let mut at = 0;
    while let Some(block) = bytes.get(at..at + BLOCK) {
        if block.iter().all(|&byte| byte == 0) {
            return Ok(linked(members, links));
        }
        if !is_header(block) {
            let error = Error::malformed("no member of a tar archive begins here: the checksum does not match");
            let help = format!("the {} bytes from here on are skipped", bytes.len() - at);
            members.faults.push(error.at_offset(at as u64).with_help(help));
            return Ok(linked(members, links));
        }
        let offset = at as u64;
        let Some(size) = next.size.take().or_else(|| number(&block[124..136])) else {
            members.faults.push(Error::malformed("the size of a member is not a number").at_offset(offset));
            return Ok(linked(members, links));
        };
        let kind = block[156];
        // Links and folders have no content whatever their size says.
        let size = if matches!(kind, b'1'..=b'6') { 0 } else { size };
        let from = at + BLOCK;
        let rest = bytes.len() - from;
        let len = usize::try_from(size).unwrap_or(usize::MAX).min(rest);
        let content = &bytes[from..from + len];
        let name = || next.name.clone().unwrap_or_else(|| name_of(block));
        if (len as u64) < size {
            let message = format!("the archive ends inside the member `{}`", String::from_utf8_lossy(&name()));
            let help = format!("{len} of its {size} bytes are there, and are used");
            members.faults.push(Error::truncated(message).at_offset(offset).with_help(help));
        }
        let is_plain = !matches!(kind, b'L' | b'K' | b'x' | b'g');
        match kind {
            b'L' => next.name = Some(until_zero(content).to_vec()),
            b'K' => next.link = Some(until_zero(content).to_vec()),
            b'x' => next.read_pax(content),
            b'5' => members.add(&name(), None, offset)?,
            0 | b'0' | b'7' if name().ends_with(b"/") => members.add(&name(), None, offset)?,
            0 | b'0' | b'7' => members.add(&name(), Some(ByteSlice::from_bytes(archive, from, len)), offset)?,
            b'1' | b'2' => {
                let target = next.link.clone().unwrap_or_else(|| until_zero(&block[157..257]).to_vec());
                if let (Some(name), Some(target)) = (plain_name(&name()), target_of(&name(), &target, kind == b'1')) {
                    links.push((name, target, offset));
                }
            }
            b'S' => {
                let message = format!("the member `{}` has holes", String::from_utf8_lossy(&name()));
                let error = Error::unsupported(message).at_offset(offset);
                members.faults.push(error.with_help("the member is left out; pack it without --sparse"));
            }
            // Devices, pipes, and unknown types.
            _ => {}
        }
        if is_plain {
            next = Next::default();
        }
        at = from + len.next_multiple_of(BLOCK).min(rest);
    }
    if at < bytes.len() || !bytes.len().is_multiple_of(BLOCK) {
        members.faults.push(Error::truncated("the archive ends inside the header of a member").at_offset(at as u64));
    }
    Ok(linked(members, links))
}

/// Properties of the next member that stand before its header.
#[derive(Default)]
struct Next {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Next {
    /// Records of pax: `LENGTH KEY=VALUE\n`.
    fn read_pax(&mut self, mut records: &[u8]) {
        while let Some(space) = records.iter().position(|&byte| byte == b' ') {
            let len: Option<usize> = std::str::from_utf8(&records[..space]).ok().and_then(|text| text.parse().ok());
            let Some(record) = len.filter(|&len| len > space + 1).and_then(|len| records.get(space + 1..len)) else {
                return;
            };
            let record = record.strip_suffix(b"\n").unwrap_or(record);
            if let Some(equals) = record.iter().position(|&byte| byte == b'=') {
                let (key, value) = (&record[..equals], &record[equals + 1..]);
                match key {
                    b"path" => self.name = Some(value.to_vec()),
                    b"linkpath" => self.link = Some(value.to_vec()),
                    b"size" => self.size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
                    _ => {}
                }
            }
            records = records.get(len.unwrap_or(usize::MAX)..).unwrap_or(&[]);
        }
    }
}

fn name_of(block: &[u8]) -> Vec<u8> {
    let name = until_zero(&block[..100]);
    let prefix = until_zero(&block[345..500]);
    // GNU tar has other things where POSIX has the prefix.
    if &block[257..263] != b"ustar\0" || prefix.is_empty() {
        return name.to_vec();
    }
    [prefix, b"/", name].concat()
}

/// Where a link leads inside the archive: from its root when it is a hard one. `None` outside.
fn target_of(name: &[u8], target: &[u8], is_hard: bool) -> Option<PathBuf> {
    if is_hard {
        return plain_name(target);
    }
    let text = String::from_utf8_lossy(target);
    let mut path = plain_name(name)?;
    path.pop();
    for part in std::path::Path::new(&*text).components() {
        match part {
            std::path::Component::Normal(part) => path.push(part),
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if path.pop() => {}
            _ => return None,
        }
    }
    Some(path)
}

/// Gives links to members the content of those. A link elsewhere is nothing, as a broken one on a disk.
fn linked(mut members: Members, links: Vec<(PathBuf, PathBuf, u64)>) -> Members {
    let mut known: std::collections::HashMap<PathBuf, Arc<dyn Bytes>> = std::collections::HashMap::new();
    if links.is_empty() {
        return members;
    }
    for member in &members.list {
        if let Some(content) = &member.content {
            known.insert(member.name.clone(), content.clone());
        }
    }
    for (name, target, _) in links {
        if let Some(content) = known.get(&target).cloned() {
            known.insert(name.clone(), content.clone());
            members.list.push(Member { name, content: Some(content) });
        }
    }
    members
}

fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or(&[])
}

/// A number in octal digits, or in base 256 when its first bit is set (GNU).
fn number(field: &[u8]) -> Option<u64> {
    match field.split_first() {
        Some((0x80, rest)) => {
            rest.iter().try_fold(0u64, |value, &byte| value.checked_mul(256)?.checked_add(byte.into()))
        }
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(until_zero(field)).ok()?.trim();
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}
