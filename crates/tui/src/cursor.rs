//! The chosen line of a list, and the lines in sight.

/// A movement of the cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CursorMove {
    /// A number of lines.
    By(i64),
    Home,
    End,
}

/// A place in a list, and the first line in sight.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor {
    top: usize,
    pub(crate) at: usize,
}

impl Cursor {
    /// Moves in a list of so many lines.
    pub(crate) fn step(&mut self, step: CursorMove, count: usize) {
        let last = count.saturating_sub(1);
        self.at = match step {
            CursorMove::By(by) => self.at.saturating_add_signed(by as isize).min(last),
            CursorMove::Home => 0,
            CursorMove::End => last,
        };
    }

    /// The first line in sight when it was shown last.
    pub(crate) fn first(&self) -> usize {
        self.top
    }

    /// The chosen line and the first one in sight are others now, in a list that has changed.
    pub(crate) fn place(&mut self, at: usize, top: usize) {
        (self.at, self.top) = (at, top.min(at));
    }

    /// Makes the chosen line the first one in sight.
    pub(crate) fn scroll(&mut self) {
        self.top = self.at;
    }

    /// The first line in sight, where so many have room: the chosen one is among them.
    pub(crate) fn top(&mut self, height: usize) -> usize {
        self.top = self.top.min(self.at).max((self.at + 1).saturating_sub(height.max(1)));
        self.top
    }
}

/// The next of some lines that is meant, after or before one, and around the end.
pub(crate) fn next_of(count: usize, at: usize, is_next: bool, is_meant: impl Fn(usize) -> bool) -> Option<usize> {
    let place = |distance: usize| if is_next { (at + distance) % count } else { (at + count - distance) % count };
    (1..=count).map(place).find(|at| is_meant(*at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_line_is_in_sight() {
        let mut cursor = Cursor::default();
        let tops: Vec<usize> = [
            CursorMove::By(4),
            CursorMove::By(3),
            CursorMove::By(-5),
            CursorMove::End,
            CursorMove::Home,
            CursorMove::By(-1),
        ]
        .into_iter()
        .map(|step| {
            cursor.step(step, 20);
            cursor.top(5)
        })
        .collect();
        assert_eq!((tops, cursor.at), (vec![0, 3, 2, 15, 0, 0], 0));
        cursor.step(CursorMove::By(i64::MAX), 0);
        assert_eq!((cursor.at, cursor.top(0)), (0, 0));
    }

    #[test]
    fn a_search_goes_around_the_end() {
        let is_even = |at: usize| at.is_multiple_of(2);
        assert_eq!((next_of(5, 4, true, is_even), next_of(5, 0, false, is_even)), (Some(0), Some(4)));
        assert_eq!((next_of(3, 1, true, |_| false), next_of(0, 0, true, is_even)), (None, None));
    }
}
