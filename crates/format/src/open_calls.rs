//! Open calls of a thread, for all that show calls inside of one another: slices, profiles, flame graphs.
//!
//! Not every call ends by an event of its own: `longjmp`, exceptions and `exec` leave calls without one, and tracers lose
//! events. What an event says about its depth, or else its name, tells which calls are over.

/// Depth of a call among the calls of its thread, as its tracer counts it. Those of the kernel stand on all others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallLevel {
    /// Does the depth count from where the kernel was entered?
    pub is_kernel: bool,
    /// Calls below it.
    pub depth: u64,
}

/// Meaning of an end for the open calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It ends the innermost call that is left when the abandoned ones are taken out.
    OfCall,
    /// It ends a call that was too deep to be kept.
    OfDeepCall,
    /// Its beginning is missing.
    Lone,
}

/// The open calls of a thread.
///
/// ```
/// use tracemill_format::open_calls::{End, CallLevel, OpenCalls};
///
/// let level = |depth| Some(CallLevel { is_kernel: false, depth });
/// let mut calls = OpenCalls::new(100);
/// for (depth, name) in ["main", "try", "raise"].into_iter().enumerate() {
///     assert_eq!(calls.abandoned_at(level(depth as u64)), 0);
///     calls.begin(level(depth as u64), name);
/// }
/// // `raise` and `try` do not end: a call begins where `try` stood.
/// assert_eq!(calls.abandoned_at(level(1)), 2);
/// ```
#[derive(Clone, Debug)]
pub struct OpenCalls<T> {
    /// Outermost first.
    open: Vec<(Option<CallLevel>, T)>,
    max: usize,
    /// Open calls that are not kept.
    too_deep: usize,
}

impl<T> OpenCalls<T> {
    /// None are open; `max` may be.
    pub fn new(max: usize) -> Self {
        OpenCalls { open: Vec::new(), max, too_deep: 0 }
    }

    /// How many of the innermost calls are over when another one begins at a level.
    #[inline]
    pub fn abandoned_at(&self, level: Option<CallLevel>) -> usize {
        let Some(level) = level else { return 0 };
        let place = self.open.iter().rposition(|(open, _)| open.is_some_and(|open| open < level));
        // Calls without a level are inside of the one before them.
        let is_above = |open: &(Option<CallLevel>, T)| open.0.is_some_and(|open| open >= level);
        let first = place.map_or(0, |place| place + 1);
        self.open[first..].iter().position(is_above).map_or(0, |at| self.open.len() - first - at)
    }

    /// A call begins; false when it is too deep to be kept. What is over ([`OpenCalls::abandoned_at`]) was taken out.
    #[inline]
    pub fn begin(&mut self, level: Option<CallLevel>, call: T) -> bool {
        if self.open.len() >= self.max {
            self.too_deep += 1;
            return false;
        }
        self.too_deep = 0;
        self.open.push((level, call));
        true
    }

    /// A call ends: `is_it` says whether an open one can be it. Gives what the end means, and how many of the innermost
    /// calls are over without an end of their own: [`OpenCalls::pop`] takes them out.
    #[inline]
    pub fn end(&mut self, level: Option<CallLevel>, is_it: impl Fn(&T) -> bool) -> (End, usize) {
        let innermost = self.open.last().and_then(|(open, _)| *open);
        if self.too_deep > 0 && level.zip(innermost).is_none_or(|(level, innermost)| level > innermost) {
            self.too_deep -= 1;
            return (End::OfDeepCall, 0);
        }
        let is_here = |open: Option<CallLevel>| level.is_none() || open.is_none() || open == level;
        match self.open.iter().rposition(|(open, call)| is_here(*open) && is_it(call)) {
            Some(place) => (End::OfCall, self.open.len() - place - 1),
            None => (End::Lone, self.abandoned_at(level)),
        }
    }

    /// Takes the innermost call out.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.too_deep = 0;
        self.open.pop().map(|(_, call)| call)
    }

    /// The innermost call.
    #[inline]
    pub fn last(&self) -> Option<&T> {
        self.open.last().map(|(_, call)| call)
    }

    /// The open calls, outermost first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.open.iter().map(|(_, call)| call)
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Is none open?
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(depth: u64) -> Option<CallLevel> {
        Some(CallLevel { is_kernel: false, depth })
    }

    fn kernel(depth: u64) -> Option<CallLevel> {
        Some(CallLevel { is_kernel: true, depth })
    }

    fn opened(calls: &[(Option<CallLevel>, &'static str)]) -> OpenCalls<&'static str> {
        let mut open = OpenCalls::new(4);
        for &(level, name) in calls {
            open.begin(level, name);
        }
        open
    }

    #[test]
    fn depths_say_which_calls_were_abandoned() {
        let calls = opened(&[(at(0), "main"), (at(1), "work"), (at(2), "work"), (kernel(0), "read")]);
        assert_eq!(calls.abandoned_at(at(3)), 1);
        assert_eq!(calls.abandoned_at(at(1)), 3);
        assert_eq!(calls.abandoned_at(kernel(0)), 1);
        assert_eq!(calls.abandoned_at(kernel(1)), 0);
        assert_eq!(calls.abandoned_at(None), 0);
        // Of two calls of one function the depth says which one ends.
        assert_eq!(calls.clone().end(at(1), |name| *name == "work"), (End::OfCall, 2));
        assert_eq!(calls.clone().end(at(2), |name| *name == "setjmp"), (End::Lone, 2));
        assert_eq!(calls.clone().end(at(9), |name| *name == "work"), (End::Lone, 1));
        assert_eq!(calls.clone().end(None, |name| *name == "main"), (End::OfCall, 3));
    }

    #[test]
    fn calls_without_a_level_end_with_the_one_below() {
        let calls = opened(&[(at(0), "main"), (None, "wait"), (at(1), "work"), (None, "lock")]);
        assert_eq!(calls.abandoned_at(at(1)), 2);
        assert_eq!(calls.abandoned_at(at(2)), 0);
        assert_eq!(calls.abandoned_at(at(0)), 4);
        assert_eq!(calls.clone().end(None, |_| true), (End::OfCall, 0));
    }

    #[test]
    fn deep_calls_are_counted_and_forgotten_with_those_around_them() {
        let mut calls = opened(&[(at(0), "a"), (at(1), "b"), (at(2), "c"), (at(3), "d"), (at(4), "e"), (at(5), "f")]);
        assert_eq!((calls.len(), calls.last()), (4, Some(&"d")));
        assert_eq!(calls.end(at(5), |name| *name == "f"), (End::OfDeepCall, 0));
        // `e` does not end.
        assert_eq!(calls.end(at(2), |name| *name == "c"), (End::OfCall, 1));
        assert_eq!((calls.pop(), calls.pop()), (Some("d"), Some("c")));
        assert_eq!(calls.end(at(1), |name| *name == "b"), (End::OfCall, 0));
        assert!(!calls.is_empty());
    }
}
