//! States as bytes, to be kept until the same traces are shown again.

use std::io;

use super::lanes::StateLane;
use super::{Of, States, StoredWake, Track};
use crate::store::bytes::{Reader, Writer};

/// Stands for no thread.
const NONE: u32 = u32::MAX;

impl States {
    pub(crate) fn write(&self, to: &mut Writer<'_>) -> io::Result<()> {
        for texts in [&self.names, &self.left_out] {
            to.size(texts.len());
            texts.iter().try_for_each(|text| to.bytes(text.as_bytes()))?;
        }
        to.wide(self.base);
        to.size(self.tracks.len());
        for Track { machine, of, name, parent, lanes } in &self.tracks {
            to.number((*machine).into());
            match of {
                Of::Cpu(cpu) => [0, *cpu, 0].into_iter().for_each(|number| to.number(number)),
                Of::Thread(tid, life) => {
                    to.number(1);
                    to.step(*tid);
                    to.number((*life).into());
                }
                Of::Custom(definition, key) => {
                    [2, (*definition).into(), (*key).into()].into_iter().for_each(|number| to.number(number));
                }
            }
            to.bytes(name.as_bytes())?;
            to.size(parent.map_or(0, |parent| parent + 1));
            to.size(lanes.len());
            lanes.iter().try_for_each(|lane| lane.write(to))?;
        }
        to.size(self.wakes.len());
        let mut last = 0;
        for StoredWake { at, woken, waker } in &self.wakes {
            to.step(at.wrapping_sub(last));
            last = *at;
            to.number((*woken).into());
            to.number(u64::from(waker.wrapping_add(1)));
            to.plain(&[])?;
        }
        Ok(())
    }

    /// Reads what was written.
    pub(crate) fn read(from: &mut Reader<'_>) -> Option<States> {
        let names = from.list(Reader::text)?;
        let left_out = from.list(Reader::text)?;
        let base = from.wide()?;
        let mut tracks = from.list(|from| {
            let machine = from.small(usize::MAX)?;
            let of = match from.below(3)? {
                0 => {
                    let (cpu, _) = (from.number()?, from.number()?);
                    Of::Cpu(cpu)
                }
                1 => Of::Thread(from.step()?, from.small(usize::MAX)?),
                _ => Of::Custom(from.small(usize::MAX)?, from.small(usize::MAX)?),
            };
            let (name, parent) = (from.text()?, from.size()?.checked_sub(1));
            let lanes = from.list(|from| StateLane::read(from, names.len()))?;
            Some(Track { machine, of, name, parent, lanes })
        })?;
        let count = tracks.len();
        // One below another, and none below itself: they are reported in this order.
        let is_right = |(at, track): (usize, &Track)| track.parent.is_none_or(|parent| parent < count && parent != at);
        if !tracks.iter().enumerate().all(is_right) || tracks.iter().any(|track| track.lanes.is_empty()) {
            return None;
        }
        tracks.shrink_to_fit();
        let mut last = 0i64;
        let wakes = from.list(|from| {
            let at = last.checked_add(from.step()?).filter(|at| *at >= last || last == 0)?;
            last = at;
            let (woken, waker) = (from.small(count)?, from.below(count + 1)?.checked_sub(1));
            Some(StoredWake { at, woken, waker: waker.map_or(NONE, |waker| waker as u32) })
        })?;
        Some(States { tracks, names, left_out, base, wakes })
    }
}
