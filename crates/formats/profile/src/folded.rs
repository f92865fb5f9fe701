//! Folded stacks: a line for each stack, the outermost function first, with a number behind it.

use memchr::{memchr, memrchr};
use tracemill_model::error::{Error, Result};

use crate::profile::{NONE, Profile, ProfileRecord, ProfileThread, RecordKind};

/// Lines that decide what a file is, at most.
const PROBED: usize = 200;

/// A line: its stack, and its number.
fn line_of(line: &[u8]) -> Option<(&[u8], u64)> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let at = memrchr(b' ', line)?;
    let (stack, digits) = (line[..at].trim_ascii(), &line[at + 1..]);
    let number = || std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
    (!stack.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(number).flatten().map(|number| (stack, number))
}

/// Does a file begin with folded stacks? Its first line is one, nine of ten lines are, and half of them have several functions.
pub(crate) fn is_folded(start: &[u8], is_whole: bool) -> bool {
    // The last line may not be whole.
    let end = if is_whole { start.len() } else { memrchr(b'\n', start).unwrap_or(0) };
    let (mut lines, mut stacks, mut nested) = (0, 0, 0);
    for line in start[..end].split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).take(PROBED) {
        let stack = line_of(line);
        if lines == 0 && stack.is_none() {
            return false;
        }
        lines += 1;
        stacks += usize::from(stack.is_some());
        nested += usize::from(stack.is_some_and(|(stack, _)| stack.contains(&b';')));
    }
    lines > 0 && stacks * 10 >= lines * 9 && nested * 2 >= lines
}

pub(crate) fn read(file: &[u8]) -> Result<Profile> {
    let mut profile = Profile::default();
    let mut records = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let end = memchr(b'\n', &file[at..]).map_or(file.len(), |len| at + len);
        let line = &file[at..end];
        match line_of(line) {
            Some((stack, weight)) => {
                let mut node = NONE;
                for name in stack.split(|byte| *byte == b';') {
                    let name = profile.name(name);
                    node = profile.stack(node, name);
                }
                records.push(ProfileRecord { at: 0, weight, kind: RecordKind::Sample(node) });
            }
            None if line.trim_ascii().is_empty() => {}
            None => profile.fault("a line is no stack with a number", at),
        }
        at = end + 1;
    }
    if records.is_empty() {
        return Err(Error::malformed("the file has no stack"));
    }
    let thread =
        ProfileThread { place: 0..file.len(), records, event: Some((*b"stack").into()), ..ProfileThread::default() };
    profile.threads.push(thread);
    Ok(profile.finish())
}
