//! Notes of `sys/sdt.h`: the places of probes in a file, each an instruction without effect, and the texts about them.

use crate::elf::{text_at, u32_at, u64_at};

/// A place in a program where it reports something, if anybody listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ProbePlace {
    /// The program or library that the probe belongs to, as it calls itself.
    pub provider: String,
    /// The name of the probe; several places may have it.
    pub name: String,
    /// Where its arguments are, as the compiler wrote it: `-4@%eax 8@-16(%rbp)`.
    pub arguments: String,
    /// The address of the instruction, as the file has it.
    pub address: u64,
    /// The address of the counter of those who listen, which the program tests before it prepares arguments.
    pub semaphore: Option<u64>,
}

/// The probes of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeNotes {
    pub(crate) places: Vec<ProbePlace>,
    /// Where the first note is in the file that could not be read, and why.
    pub(crate) damage: Option<(u64, &'static str)>,
}

/// The kind of a note about a probe.
const PROBE: u64 = 3;
/// The owner of such notes, with the byte that ends it.
const OWNER: &[u8] = b"stapsdt\0";
/// Three addresses stand before the texts.
const TEXTS: u64 = 24;
/// The longest name that a reader of recordings has to take.
const LONGEST_NAME: usize = 256;

impl ProbeNotes {
    /// Adds the notes of a section. `base` is the address that the section `.stapsdt.base` has now: tools that move a file to
    /// another address leave notes as they are, so the difference to the one in the note is that of all its addresses.
    pub(crate) fn add(&mut self, bytes: &[u8], section: [u64; 2], base: Option<u64>) {
        let [mut at, len] = section;
        let end = at.saturating_add(len).min(bytes.len() as u64);
        if at.saturating_add(len) > end {
            self.damage.get_or_insert((at, "the section of notes ends after the file"));
        }
        while at < end {
            let whole =
                |at: u64, len: u64| Some(at.checked_add(len.checked_next_multiple_of(4)?)?).filter(|to| *to <= end);
            let head = (u32_at(bytes, at), u32_at(bytes, at + 4), u32_at(bytes, at + 8));
            let (Some(name_len), Some(len), Some(kind)) = head else {
                return self.fail(at, "a note is cut off");
            };
            let owner = at + 12;
            let next = whole(owner, name_len).and_then(|text| Some((text, whole(text, len)?)));
            let Some((text, next)) = next else { return self.fail(at, "a note is longer than its section") };
            let is_probe = kind == PROBE && bytes.get(owner as usize..(owner + name_len) as usize) == Some(OWNER);
            if is_probe {
                match bytes.get(text as usize..(text + len) as usize).and_then(|note| place(note, base)) {
                    Some(place) => self.places.push(place),
                    None => self.fail(at, "a note has no address or no name"),
                }
            }
            at = next;
        }
    }

    fn fail(&mut self, at: u64, why: &'static str) {
        self.damage.get_or_insert((at, why));
    }
}

fn place(note: &[u8], base: Option<u64>) -> Option<ProbePlace> {
    let (address, linked, semaphore) = (u64_at(note, 0)?, u64_at(note, 8)?, u64_at(note, 16)?);
    let text = |at: u64| text_at(note, at).map(|text| (at + 1 + text.len() as u64, text));
    // A text that is no UTF-8 has another length than what is shown of it.
    let is_text = std::str::from_utf8(note.get(TEXTS as usize..)?).is_ok();
    let (at, provider) = text(TEXTS).filter(|_| is_text)?;
    let (at, name) = text(at)?;
    let (_, arguments) = text(at).unwrap_or_default();
    let moved = base.filter(|_| linked != 0).map_or(0, |base| base.wrapping_sub(linked));
    let has_name = |text: &str| {
        !text.is_empty()
            && text.len() <= LONGEST_NAME
            && !text.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    };
    // The list of events of a recording ends a provider at a colon, and a name at a blank.
    (has_name(&provider) && has_name(&name) && !provider.contains(':')).then(|| ProbePlace {
        provider,
        name,
        arguments,
        address: address.wrapping_add(moved),
        semaphore: (semaphore != 0).then(|| semaphore.wrapping_add(moved)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, numbers: [u64; 3], texts: &[u8]) -> Vec<u8> {
        let len = TEXTS as u32 + texts.len() as u32;
        let mut note: Vec<u8> = [owner.len() as u32, len, kind].into_iter().flat_map(u32::to_le_bytes).collect();
        note.extend(owner);
        note.resize(note.len().next_multiple_of(4), 0);
        note.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        note.extend(texts);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    fn read(bytes: &[u8], base: Option<u64>) -> ProbeNotes {
        let mut notes = ProbeNotes::default();
        notes.add(bytes, [0, bytes.len() as u64], base);
        notes
    }

    #[test]
    fn places_move_with_the_file() {
        let bytes = [
            note(OWNER, 3, [0x1010, 0x2000, 0], b"app\0begin\0\0"),
            note(b"GNU\0", 3, [1, 2, 3], b"x\0y\0\0"),
            note(OWNER, 3, [0x1020, 0x2000, 0x3002], b"app\0step\0-4@%eax 8@%rdi\0"),
        ]
        .concat();
        let places = |base| {
            let notes = read(&bytes, base);
            assert_eq!(notes.damage, None);
            let of = |place: ProbePlace| (place.name, place.arguments, place.address, place.semaphore);
            notes.places.into_iter().map(of).collect::<Vec<_>>()
        };
        let (begin, step) = (("begin".to_string(), String::new()), ("step".to_string(), "-4@%eax 8@%rdi".to_string()));
        let at = |address, semaphore: u64, by: u64| (address + by, (semaphore != 0).then(|| semaphore + by));
        let expected = |by| {
            let [(a, b), (c, d)] = [at(0x1010, 0, by), at(0x1020, 0x3002, by)];
            vec![(begin.0.clone(), begin.1.clone(), a, b), (step.0.clone(), step.1.clone(), c, d)]
        };
        assert_eq!(places(None), expected(0));
        assert_eq!(places(Some(0x2000)), expected(0));
        assert_eq!(places(Some(0x5000)), expected(0x3000));
    }

    #[test]
    fn damaged_notes_are_named() {
        let good = note(OWNER, 3, [1, 2, 0], b"app\0begin\0\0");
        let bad: [(&[u8], &str); 5] = [
            (b"app\0begin", "a note has no address or no name"),
            (b"app", "a note has no address or no name"),
            (b"\0begin\0\0", "a note has no address or no name"),
            (b"a:b\0begin\0\0", "a note has no address or no name"),
            (b"app\0be gin\0\0", "a note has no address or no name"),
        ];
        for (texts, why) in bad {
            let bytes = [good.clone(), note(OWNER, 3, [1, 2, 0], texts), good.clone()].concat();
            let notes = read(&bytes, None);
            assert_eq!((notes.places.len(), notes.damage), (2, Some((good.len() as u64, why))), "{texts:?}");
        }
        for len in 1..good.len() {
            let notes = read(&good[..len], None);
            assert!(notes.places.is_empty() && notes.damage.is_some(), "{len}");
        }
        // Lengths that are not there.
        for at in [0, 4] {
            let mut huge = good.clone();
            huge[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            assert!(read(&huge, None).damage.is_some());
        }
        let mut notes = ProbeNotes::default();
        notes.add(&good, [0, u64::MAX], None);
        assert_eq!((notes.places.len(), notes.damage.is_some()), (1, true));
        notes.add(&good, [u64::MAX, 8], None);
        assert_eq!(notes.places.len(), 1);
    }
}
