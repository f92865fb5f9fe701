//! Prints the fields of a scope, as its table has prepared them.

use tracemill_codec::bits::Wide;
use tracemill_codec::plan::{NodeId, Visitor};
use tracemill_model::schema::{Encoding, LabelList};

use super::options::Palette;
use super::table::{EnumText, NodeText, PlainForm, TextForm, TextTable};
use tracemill_codec::text::out::{Out, put_g};
use tracemill_codec::text::strings;

/// Prints the fields of one scope.
pub(super) struct FieldPrinter<'a> {
    pub(super) out: &'a mut Out,
    pub(super) table: &'a mut TextTable,
}

impl FieldPrinter<'_> {
    /// The node, when it is shown, after what stands before its value.
    #[inline]
    fn begin(&mut self, node: NodeId) -> Option<&mut NodeText> {
        let text = &mut self.table.nodes[node as usize];
        if !text.visible {
            return None;
        }
        self.out.put_piece(&text.before);
        Some(text)
    }

    #[inline(never)]
    fn integer(&mut self, node: NodeId, value: u64, signed: bool) {
        let (color, reset) = (self.table.palette.value, self.table.palette.reset);
        let text = &mut self.table.nodes[node as usize];
        if text.visible {
            if let TextForm::Character = text.kind {
                self.table.characters.push(value as u8);
            }
            self.out.put_piece(&text.before);
            put_integer(self.out, &mut text.kind, value, signed, color, reset);
        }
    }

    /// Puts the text of the array of characters that ends here before it, when it is one that people can read: as the
    /// labels of an enumeration stand before its number.
    #[inline(never)]
    fn characters(&mut self) {
        let bytes = &self.table.characters;
        let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let is_plain = |character: char| !character.is_control() || matches!(character, '\n' | '\t' | '\r');
        let Ok(text) = std::str::from_utf8(&bytes[..len]) else { return };
        if text.is_empty() || !text.chars().all(is_plain) {
            return;
        }
        let array = self.out.written()[self.table.text_start..].to_vec();
        self.out.truncate(self.table.text_start);
        self.out.put(b"( ");
        self.out.put(self.table.palette.value.as_bytes());
        strings::put_escaped(self.out, text.as_bytes());
        self.out.put(self.table.palette.reset.as_bytes());
        self.out.put(b" : container = ");
        self.out.put(&array);
        self.out.put(b" )");
    }

    /// Prints a value in its color, when it is shown.
    #[inline]
    fn colored(&mut self, node: NodeId, put: impl FnOnce(&mut Out)) {
        let Palette { value: color, reset, .. } = self.table.palette;
        if self.begin(node).is_some() {
            self.out.put(color.as_bytes());
            put(self.out);
            self.out.put(reset.as_bytes());
        }
    }

    fn mark(&mut self, node: NodeId, text: &[u8]) {
        if self.table.nodes[node as usize].visible {
            self.out.put(text);
        }
    }
}

impl Visitor for FieldPrinter<'_> {
    const FOR_PEOPLE: bool = true;

    #[inline]
    fn unsigned(&mut self, node: NodeId, value: u64) {
        let text = &self.table.nodes[node as usize];
        match text.short {
            PlainForm::Decimal => self.out.put_piece_u64(&text.before, value),
            PlainForm::Hexadecimal => self.out.put_piece_hex(&text.before, value),
            _ => self.integer(node, value, false),
        }
    }

    #[inline]
    fn signed(&mut self, node: NodeId, value: i64) {
        let text = &self.table.nodes[node as usize];
        match text.short {
            PlainForm::Decimal if value >= 0 => self.out.put_piece_u64(&text.before, value as u64),
            PlainForm::Decimal => {
                self.out.put_piece(&text.before);
                self.out.put_i64(value);
            }
            _ => self.integer(node, value as u64, true),
        }
    }

    fn wide(&mut self, node: NodeId, value: &Wide) {
        self.colored(node, |out| out.put(value.to_decimal().as_bytes()));
    }

    fn boolean(&mut self, node: NodeId, value: bool) {
        self.colored(node, |out| out.put_fmt(format_args!("{value}")));
    }

    fn real(&mut self, node: NodeId, value: f64) {
        self.colored(node, |out| put_g(out, value));
    }

    fn string(&mut self, node: NodeId, bytes: &[u8]) {
        let text = &self.table.nodes[node as usize];
        if text.short == PlainForm::Text {
            self.out.put_piece(&text.before);
            return strings::put_escaped(self.out, bytes);
        }
        match text.kind {
            TextForm::Text(encoding) if encoding != Encoding::Utf8 => {
                self.colored(node, |out| strings::put_escaped(out, encoding.to_utf8(bytes).as_bytes()));
            }
            _ => self.colored(node, |out| strings::put_escaped(out, bytes)),
        }
    }

    fn blob(&mut self, node: NodeId, bytes: &[u8]) {
        let Some(text) = self.begin(node) else { return };
        let media_type = if let TextForm::Blob(media_type) = &text.kind { media_type.clone() } else { "".into() };
        self.out.put(b"( ");
        strings::put_escaped(self.out, media_type.as_bytes());
        self.out.put(b" : base64 = \"");
        strings::put_base64(self.out, bytes);
        self.out.put(b"\" )");
    }

    #[inline]
    fn begin_struct(&mut self, node: NodeId) {
        if !self.table.nodes[node as usize].is_folded
            && let Some(text) = self.begin(node)
        {
            let begin = if matches!(text.kind, TextForm::Tuple) { b'[' } else { b'{' };
            self.out.put_byte(begin);
        }
    }

    #[inline]
    fn end_struct(&mut self, node: NodeId) {
        let text = &self.table.nodes[node as usize];
        if !text.is_folded {
            let end: &[u8] = if matches!(text.kind, TextForm::Tuple) { b" ]" } else { b" }" };
            self.mark(node, end);
        }
    }

    fn begin_array(&mut self, node: NodeId, _len: u64) {
        if self.begin(node).is_some() {
            self.table.text_start = self.out.len();
            self.table.characters.clear();
            self.out.put_byte(b'[');
        }
    }

    #[inline]
    fn element(&mut self, node: NodeId, index: u64) {
        let text = &self.table.nodes[node as usize];
        if !text.visible {
            return;
        }
        if text.indexed
            && let Some(piece) = self.table.indexes.get(index as usize)
        {
            return self.out.put_piece(piece);
        }
        self.out.put(if index == 0 { b" " } else { b", " });
        if text.indexed {
            self.out.put_byte(b'[');
            self.out.put_u64(index);
            self.out.put(b"] = ");
        }
    }

    #[inline]
    fn unsigned_element(&mut self, array: NodeId, index: u64, value: u64) {
        // The value directly follows the index.
        if let Some((index, short)) = self.table.indexed(array, index) {
            match short {
                PlainForm::Decimal => return self.out.put_piece_u64(index, value),
                PlainForm::Hexadecimal => return self.out.put_piece_hex(index, value),
                _ => {}
            }
        }
        self.element(array, index);
        self.unsigned(array + 1, value);
    }

    #[inline]
    fn signed_element(&mut self, array: NodeId, index: u64, value: i64) {
        if let Some((index, PlainForm::Decimal)) = self.table.indexed(array, index)
            && value >= 0
        {
            return self.out.put_piece_u64(index, value as u64);
        }
        self.element(array, index);
        self.signed(array + 1, value);
    }

    fn end_array(&mut self, node: NodeId) {
        self.mark(node, b" ]");
        if let NodeText { kind: TextForm::Characters, visible: true, .. } = self.table.nodes[node as usize] {
            self.characters();
        }
    }

    fn begin_variant(&mut self, node: NodeId, _option: usize) {
        if self.begin(node).is_some() {
            self.out.put(b"{ ");
        }
    }

    fn end_variant(&mut self, node: NodeId) {
        self.mark(node, b" }");
    }

    fn begin_optional(&mut self, node: NodeId) {
        if self.begin(node).is_some_and(|text| !matches!(text.kind, TextForm::Bare)) {
            self.out.put(b"{ ");
        }
    }

    fn end_optional(&mut self, node: NodeId) {
        if !matches!(self.table.nodes[node as usize].kind, TextForm::Bare) {
            self.mark(node, b" }");
        }
    }

    fn absent(&mut self, node: NodeId) {
        if self.begin(node).is_some() {
            self.out.put(b"<none>");
        }
    }
}

/// Prints an integer in any form and color.
pub(super) fn put_integer(out: &mut Out, kind: &mut TextForm, value: u64, signed: bool, color: &str, reset: &str) {
    if let TextForm::Enum(text) = kind {
        text.put_labels(out, value, signed);
        out.put(color.as_bytes());
        put_number(out, &text.base, value, signed);
        out.put(reset.as_bytes());
        return out.put(b" )");
    }
    out.put(color.as_bytes());
    put_number(out, kind, value, signed);
    out.put(reset.as_bytes());
}

pub(super) fn put_number(out: &mut Out, kind: &TextForm, value: u64, signed: bool) {
    match kind {
        TextForm::Hexadecimal { mask } => {
            out.put(b"0x");
            out.put_hex(value & mask);
        }
        TextForm::Octal { mask } => out.put_fmt(format_args!("0{:o}", value & mask)),
        TextForm::Binary { len_bits } => {
            out.put(b"0b");
            for bit in (0..*len_bits).rev() {
                out.put_byte(b'0' + (value >> bit & 1) as u8);
            }
        }
        _ if signed => out.put_i64(value as i64),
        _ => out.put_u64(value),
    }
}

impl EnumText {
    fn put_labels(&mut self, out: &mut Out, value: u64, signed: bool) {
        let value = if signed { i128::from(value as i64) } else { i128::from(value) };
        let EnumText { class, texts, palette, .. } = self;
        texts.write(out, value, |out| put_labels(out, class, *palette, value));
    }
}

/// Appends the labels of a value and what stands around them.
fn put_labels(out: &mut Out, class: &LabelList, palette: Palette, value: i128) {
    let Palette { value: color, reset, unknown, .. } = palette;
    out.put(b"( ");
    let mut seen: Vec<&str> = Vec::new();
    for label in class.labels_for(value) {
        if seen.contains(&&**label) {
            continue;
        }
        if !seen.is_empty() {
            out.put(b", ");
        }
        seen.push(label);
        out.put(color.as_bytes());
        strings::put_escaped(out, label.as_bytes());
        out.put(reset.as_bytes());
    }
    if seen.is_empty() {
        out.put_fmt(format_args!("{unknown}<unknown>{reset}"));
    }
    out.put(b" : container = ");
}
