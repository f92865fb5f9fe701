//! Skipping events of whole bytes: the form of a skip plan that most classes of most traces have.
//!
//! Fields on byte boundaries, strings, and arrays whose elements have a fixed number of bytes need no bit offsets, no
//! loops and no shared slots. Such a plan becomes a few steps over a byte slice; any fault, and any other plan, is left
//! to the general one.

use crate::bits::zero_at;
use crate::plan::{Op, Plan};

/// A skip plan in whole bytes.
#[derive(Clone, Debug)]
pub(crate) enum Quick {
    /// This many bytes, always.
    Fixed(u32),
    /// A few steps, one after the other, in half a cache line: traces of thousands of classes meet another class with
    /// every event, and the next event is not found before the steps are there.
    Few { len: u8, steps: [QuickStep; FEW] },
    /// More steps.
    Many(Box<[QuickStep]>),
    /// Not of this form.
    No,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QuickStep {
    Skip {
        bytes: u16,
    },
    /// A null-terminated string.
    Str,
    /// Reads a length.
    Read {
        slot: u8,
        width: Width,
        big: bool,
    },
    /// `slots[slot]` elements.
    SkipBy {
        slot: u8,
        bytes: u16,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    One,
    Two,
    Four,
    Eight,
}

/// Steps that fit half a cache line with what belongs to them.
const FEW: usize = 5;

/// Bytes that one step skips at most.
const LONGEST: u64 = u16::MAX as u64;
/// Such steps one after the other.
const MANY: u64 = 16;

/// Lengths that one event may hold in this form.
const SLOTS: usize = 8;

impl Quick {
    /// The quick form of a skip plan whose own slots begin at `shared`.
    pub(crate) fn from_plan(plan: &Plan, shared: usize) -> Quick {
        Self::steps(plan, shared).unwrap_or(Quick::No)
    }

    fn steps(plan: &Plan, shared: usize) -> Option<Quick> {
        let mut steps = Vec::new();
        let mut written = [false; SLOTS];
        let own = |slot: u16| usize::from(slot).checked_sub(shared).filter(|&slot| slot < SLOTS);
        let mut ops = plan.ops.iter().peekable();
        while let Some(op) = ops.next() {
            let (width, big) = match *op {
                // The form is for events that begin on a byte, and every step takes whole bytes.
                Op::Align { mask: 0..=7 } => continue,
                Op::Advance { bits } if bits % 8 == 0 => {
                    // Contexts and payload lie next to each other.
                    let before = match steps.last() {
                        Some(QuickStep::Skip { bytes }) if u64::from(*bytes) < LONGEST => u64::from(*bytes),
                        _ => 0,
                    };
                    if before > 0 {
                        steps.pop();
                    }
                    let bytes = before + bits / 8;
                    let (full, rest) = (bytes / LONGEST, bytes % LONGEST);
                    if full > MANY {
                        return None;
                    }
                    let full = (0..full).map(|_| LONGEST);
                    steps.extend(full.chain([rest]).map(|bytes| QuickStep::Skip { bytes: bytes as u16 }));
                    continue;
                }
                Op::Str { unit: 1, .. } => {
                    steps.push(QuickStep::Str);
                    continue;
                }
                Op::AdvanceBy { len, stride_bits, last_bits } if stride_bits == last_bits && stride_bits % 8 == 0 => {
                    let slot = own(len).filter(|&slot| written[slot])? as u8;
                    steps.push(QuickStep::SkipBy { slot, bytes: u16::try_from(stride_bits / 8).ok()? });
                    continue;
                }
                Op::StrBytes { len, unit: 1, .. } | Op::Blob { len, .. } => {
                    let slot = own(len).filter(|&slot| written[slot])? as u8;
                    steps.push(QuickStep::SkipBy { slot, bytes: 1 });
                    continue;
                }
                Op::U8 { .. } => (Width::One, false),
                Op::U16 { big, .. } => (Width::Two, big),
                Op::U32 { big, .. } => (Width::Four, big),
                Op::U64 { big, .. } => (Width::Eight, big),
                _ => return None,
            };
            let Some(Op::Save { slot }) = ops.next() else { return None };
            let slot = own(*slot)?;
            written[slot] = true;
            steps.push(QuickStep::Read { slot: slot as u8, width, big });
        }
        Some(match steps.as_slice() {
            [] => Quick::Fixed(0),
            [QuickStep::Skip { bytes }] => Quick::Fixed((*bytes).into()),
            few if few.len() <= FEW => {
                let mut inline = [QuickStep::Str; FEW];
                inline[..few.len()].copy_from_slice(few);
                Quick::Few { len: few.len() as u8, steps: inline }
            }
            _ => Quick::Many(steps.into()),
        })
    }

    /// End of an event that begins at `at`; `None` for damage and for classes that are not of this form.
    #[inline]
    pub(crate) fn end(&self, content: &[u8], at: usize) -> Option<usize> {
        match self {
            Quick::Fixed(bytes) => at.checked_add(*bytes as usize).filter(|&end| end <= content.len()),
            Quick::Few { len, steps } => run(&steps[..usize::from(*len).min(FEW)], content, at),
            Quick::Many(steps) => run(steps, content, at),
            Quick::No => None,
        }
    }
}

fn run(steps: &[QuickStep], content: &[u8], mut at: usize) -> Option<usize> {
    let mut slots = [0u64; SLOTS];
    for step in steps {
        match *step {
            QuickStep::Skip { bytes } => at = at.checked_add(bytes as usize)?,
            QuickStep::Str => at += zero_at(content.get(at..)?)? + 1,
            QuickStep::Read { slot, width, big } => {
                let (value, len) = read(content.get(at..)?, width, big)?;
                slots[usize::from(slot) % SLOTS] = value;
                at += len;
            }
            QuickStep::SkipBy { slot, bytes } => {
                let bytes = slots[usize::from(slot) % SLOTS].checked_mul(u64::from(bytes))?;
                at = at.checked_add(usize::try_from(bytes).ok()?)?;
            }
        }
    }
    (at <= content.len()).then_some(at)
}

#[inline]
fn read(bytes: &[u8], width: Width, big: bool) -> Option<(u64, usize)> {
    macro_rules! number {
        ($type:ty, $len:expr) => {{
            let chunk = bytes.first_chunk::<$len>()?;
            let value = if big { <$type>::from_be_bytes(*chunk) } else { <$type>::from_le_bytes(*chunk) };
            Some((value.into(), $len))
        }};
    }
    match width {
        Width::One => number!(u8, 1),
        Width::Two => number!(u16, 2),
        Width::Four => number!(u32, 4),
        Width::Eight => number!(u64, 8),
    }
}
