//! Cells side by side: how wide columns are, at which side cells stand, and what a narrow line does without.

use tracemill_codec::text::out::Out;

use crate::widths::{count, put_blanks, shortened};

/// The side of its column at which a cell stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Blanks follow it.
    Left,
    /// Blanks stand before it.
    Right,
}

/// A column of a [`Layout`].
#[derive(Clone, Debug)]
pub struct LayoutColumn {
    /// The side of its cells.
    pub align: Align,
    /// Its characters. A longer cell moves what follows.
    pub width: usize,
    /// May its cells be cut? A part of a name is still known, a part of a number is another number.
    pub may_cut: bool,
    /// Its turn to be left out, as [`Column::spare`](crate::Column::spare) has it.
    pub spare: Option<u8>,
    is_cut: bool,
}

impl LayoutColumn {
    /// A column of at least this width.
    pub fn new(align: Align, width: usize) -> LayoutColumn {
        LayoutColumn { align, width, may_cut: false, spare: None, is_cut: false }
    }

    /// The column, with its turn to be left out.
    pub fn spared(self, turn: Option<u8>) -> LayoutColumn {
        LayoutColumn { spare: turn, ..self }
    }
}

/// Columns that stand side by side, and lines of their cells.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The columns, from the left.
    pub columns: Vec<LayoutColumn>,
    /// Blanks between two columns.
    between: usize,
}

/// Blanks between two columns, unless a layout has others.
pub const BETWEEN: usize = 2;

/// Characters of a cell that are always shown.
const MIN_CUT: usize = 8;

impl Layout {
    /// Columns, two blanks apart.
    pub fn new(columns: impl IntoIterator<Item = LayoutColumn>) -> Layout {
        Layout { columns: columns.into_iter().collect(), between: BETWEEN }
    }

    /// Columns whose cells stand at these sides, as wide as [`Layout::widen`] makes them.
    pub fn with_alignments(sides: impl IntoIterator<Item = Align>) -> Layout {
        Layout::new(sides.into_iter().map(|align| LayoutColumn::new(align, 0)))
    }

    /// A list of texts after names, which take at least this room each; a blank follows a name.
    pub fn list(widths: &[usize]) -> Layout {
        let columns = widths.iter().chain(&[0]).map(|width| LayoutColumn::new(Align::Left, *width));
        Layout { columns: columns.collect(), between: 1 }
    }

    /// Makes room for the cells of a line.
    pub fn widen(&mut self, cells: &[impl AsRef<[u8]>]) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.width = column.width.max(count(cell.as_ref()));
        }
    }

    /// The width of a line.
    pub fn width(&self) -> usize {
        self.width_of(self.columns.iter())
    }

    fn width_of<'c>(&self, columns: impl Iterator<Item = &'c LayoutColumn>) -> usize {
        let (sum, count) = columns.fold((0, 0usize), |(sum, count), column| (sum + column.width, count + 1));
        sum + self.between * count.saturating_sub(1)
    }

    /// Makes lines at most this long: first long texts are cut, then columns are left out. Gives the places of those that
    /// stay.
    pub fn fit(&mut self, most: usize) -> Vec<usize> {
        let wanted: Vec<usize> = self.columns.iter().map(|column| column.width).collect();
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let width_of = |layout: &Layout, kept: &[usize]| layout.width_of(kept.iter().map(|&at| &layout.columns[at]));
        while width_of(self, &kept) > most {
            let can_cut = |&&at: &&usize| self.columns[at].may_cut && self.columns[at].width > MIN_CUT;
            if let Some(&at) = kept.iter().filter(can_cut).max_by_key(|&&at| self.columns[at].width) {
                self.columns[at].width -= 1;
                continue;
            }
            if kept.len() == 1 {
                break;
            }
            let turn = |place: &usize| self.columns[kept[*place]].spare;
            let spare = (0..kept.len()).filter(|place| turn(place).is_some()).min_by_key(turn);
            kept.remove(spare.unwrap_or(kept.len() - 1));
        }
        // Texts that were cut for columns that are left out now.
        for &at in &kept {
            let room = most.saturating_sub(width_of(self, &kept));
            let column = &mut self.columns[at];
            column.width += (wanted[at] - column.width).min(room);
        }
        for (column, wanted) in self.columns.iter_mut().zip(wanted) {
            column.is_cut |= column.width < wanted;
        }
        self.columns = kept.iter().map(|&at| self.columns[at].clone()).collect();
        kept
    }

    /// Puts a cell into a column, after the blanks that separate it from the one before.
    pub fn put_cell(&self, out: &mut Out, at: usize, cell: &[u8]) {
        let column = &self.columns[at];
        let chars = count(cell);
        if column.is_cut && chars > column.width {
            let short = shortened(&String::from_utf8_lossy(cell), chars, column.width);
            return self.put_measured(out, at, column.width, |out| out.put(short.as_bytes()));
        }
        self.put_measured(out, at, chars, |out| out.put(cell));
    }

    /// Puts a cell of so many characters into a column.
    #[inline]
    pub(crate) fn put_measured(&self, out: &mut Out, at: usize, chars: usize, put: impl FnOnce(&mut Out)) {
        let column = &self.columns[at];
        let blanks = column.width.saturating_sub(chars);
        put_blanks(out, if at > 0 { self.between } else { 0 });
        match column.align {
            Align::Left => {
                put(out);
                put_blanks(out, blanks);
            }
            Align::Right => {
                put_blanks(out, blanks);
                put(out);
            }
        }
    }

    /// Puts a line of cells, without blanks at its end.
    pub fn put_line(&self, out: &mut Out, cells: &[impl AsRef<[u8]>]) {
        let begin = out.len();
        self.put_cells(out, cells);
        end_line(out, begin);
    }

    /// Puts cells side by side.
    pub fn put_cells(&self, out: &mut Out, cells: &[impl AsRef<[u8]>]) {
        for (at, cell) in cells.iter().enumerate().take(self.columns.len()) {
            self.put_cell(out, at, cell.as_ref());
        }
    }
}

/// Ends a line that began here: blanks at its end go.
#[inline]
pub fn end_line(out: &mut Out, begin: usize) {
    let blanks = out.written()[begin..].iter().rev().take_while(|byte| **byte == b' ').count();
    out.truncate(out.len() - blanks);
    out.put_byte(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl FnOnce(&mut Out)) -> String {
        let mut out = Out::default();
        put(&mut out);
        String::from_utf8(out.written().to_vec()).expect("a text")
    }

    #[test]
    fn cells_stand_at_the_side_of_their_column() {
        let mut layout = Layout::with_alignments([Align::Left, Align::Right, Align::Left]);
        let lines = [["name", "n", "last"], ["µs", "1000", ""], ["", "7", "x "]];
        lines.iter().for_each(|line| layout.widen(line));
        assert_eq!(layout.width(), 4 + 2 + 4 + 2 + 4);
        let found = text(|out| lines.iter().for_each(|line| layout.put_line(out, line)));
        assert_eq!(found, "name     n  last\nµs    1000\n         7  x\n");
    }

    #[test]
    fn longer_cells_move_what_follows_unless_their_column_was_cut() {
        let mut layout = Layout::list(&[4]);
        assert_eq!(text(|out| layout.put_line(out, &["ctf", "a format"])), "ctf  a format\n");
        assert_eq!(text(|out| layout.put_line(out, &["perfetto", "a target"])), "perfetto a target\n");
        layout.columns[0].may_cut = true;
        layout.widen(&["perfetto-trace", "a target"]);
        assert_eq!(layout.fit(19), [0, 1]);
        assert_eq!(text(|out| layout.put_line(out, &["perfetto-trace", "a target"])), "perfetto-… a target\n");
        assert_eq!(text(|out| layout.put_line(out, &["/perfetto/trace", "a target"])), "…tto/trace a target\n");
    }

    fn wide(columns: &[(usize, bool, Option<u8>)]) -> Layout {
        Layout::new(columns.iter().map(|&(width, may_cut, spare)| LayoutColumn {
            may_cut,
            spare,
            ..LayoutColumn::new(Align::Right, width)
        }))
    }

    #[test]
    fn texts_are_cut_before_columns_go_in_their_turn() {
        let columns = [(20, true, None), (6, false, Some(2)), (6, false, Some(1)), (6, false, None)];
        let fitted = |most| {
            let mut layout = wide(&columns);
            let kept = layout.fit(most);
            assert!(layout.width() <= most || kept.len() == 1, "{most}: {layout:?}");
            (kept, layout.columns.iter().map(|column| column.width).collect::<Vec<_>>())
        };
        assert_eq!(fitted(44), (vec![0, 1, 2, 3], vec![20, 6, 6, 6]));
        assert_eq!(fitted(40), (vec![0, 1, 2, 3], vec![16, 6, 6, 6]));
        // The text takes the room that the column had.
        assert_eq!(fitted(31), (vec![0, 1, 3], vec![15, 6, 6]));
        assert_eq!(fitted(22), (vec![0, 3], vec![14, 6]));
        assert_eq!(fitted(15), (vec![0], vec![15]));
        // Some of the text is always shown, and numbers are whole.
        assert_eq!(fitted(3), (vec![0], vec![8]));
        let mut numbers = wide(&[(9, false, None), (9, false, None)]);
        assert_eq!((numbers.fit(5), numbers.width()), (vec![0], 9));
    }
}
