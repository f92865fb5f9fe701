//! Event formats: the text files in which the kernel says how the records of each event are laid out.
//!
//! ```text
//! name: sched_switch
//! ID: 372
//! format:
//!   field:unsigned short common_type;  offset:0;  size:2;  signed:0;
//!   ...
//!
//!   field:char prev_comm[16];  offset:8;  size:16;  signed:0;
//!   field:__data_loc char[] name;  offset:24;  size:4;  signed:0;
//!
//! print fmt: "..."
//! ```
//!
//! Offsets are those of the record; there may be holes between fields. What the declaration says beside the numbers
//! decides only whether a field is text, and what the elements of an array are.

use std::ops::Range;

use tracemill_codec::bits::read_uint;
use tracemill_model::error::{Error, Result};
use tracemill_model::schema::ByteOrder;

/// Fields that a format may have; the kernel's largest have about 40.
const MAX_FIELDS: usize = 1024;
/// Fields without a fixed place that it may have.
const MAX_DYNAMIC_FIELDS: usize = 32;
/// Records are shorter than a page of the ring buffer, and those have at most a few MiB; no fixed field is larger.
const MAX_RECORD_BYTES: u32 = 1 << 16;

/// The format of one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventFormat {
    /// Name: `sched_switch`.
    pub name: String,
    /// The number with which its records begin.
    pub id: u16,
    /// Fields that every record has: `common_type`, `common_pid`, ...
    pub common: Vec<FormatField>,
    /// Its own fields, in the order of the file.
    pub fields: Vec<FormatField>,
    /// The text after `print fmt:`.
    pub print_format: String,
    /// Names that the file gives to several fields; all but the first of them got names of their own.
    pub repeated: Vec<String>,
}

/// A field of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormatField {
    /// Name.
    pub name: String,
    /// The text before the name: `unsigned long`, `__data_loc char[]`.
    pub type_name: String,
    /// First byte in the record.
    pub offset: u32,
    /// Bytes that it takes there.
    pub size: u32,
    /// Its content.
    pub content: Content,
    /// Where its content is.
    pub place: ContentPlace,
}

/// Content of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// One integer.
    Integer(FieldElement),
    /// Characters up to the first zero.
    Text,
    /// Integers one after the other.
    Array(FieldElement),
}

/// An integer, or an element of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldElement {
    /// 1, 2, 4 or 8.
    pub bytes: u8,
    /// Two's complement?
    pub signed: bool,
    /// An address: people want it in hexadecimal.
    pub is_pointer: bool,
}

/// Where the content of a field is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentPlace {
    /// In the field.
    Fixed,
    /// From the field's offset to the end of the record, or so many bytes as the field takes, if it takes any.
    Rest,
    /// Elsewhere in the record: the field is an integer of 32 bits, of which the upper half is the length in bytes and
    /// the lower half the offset, from the start of the record or (`relative`) from the end of the field.
    Located {
        /// From the end of the field?
        relative: bool,
    },
}

/// Peculiarities of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// Order of the bytes of its numbers.
    pub byte_order: ByteOrder,
    /// Bytes of a `long`: 4 or 8.
    pub long_bytes: u8,
}

impl Machine {
    /// The unsigned number in up to 8 bytes.
    #[inline]
    pub fn number(self, bytes: &[u8]) -> u64 {
        read_uint(bytes, self.byte_order)
    }
}

impl EventFormat {
    /// Reads a format file.
    ///
    /// # Errors
    /// When it does not say what the event is called, what its number is, or where its fields are. The message names
    /// the line; the place in a trace is added by the caller.
    pub fn parse(text: &str, machine: Machine) -> Result<EventFormat> {
        let (mut name, mut id, mut print_format) = (None, None, String::new());
        let (mut common, mut fields) = (Vec::new(), Vec::new());
        let mut repeated: Vec<String> = Vec::new();
        for line in text.lines() {
            let line = line.trim();
            if let Some(text) = line.strip_prefix("name:") {
                name.get_or_insert(text.trim().to_string());
            } else if let Some(text) = line.strip_prefix("ID:") {
                let text = text.trim();
                let number = text.parse::<u16>();
                let number = number.map_err(|_| Error::malformed(format!("the event number `{text}` is not a number")));
                id.get_or_insert(number?);
            } else if let Some(text) = line.strip_prefix("print fmt:") {
                print_format = text.trim().to_string();
            } else if let Some(field) = line.strip_prefix("field").and_then(after_colon) {
                let mut field = FormatField::parse(field, machine)?;
                let list = if field.name.starts_with("common_") { &mut common } else { &mut fields };
                // Kernels do this: `sys_enter_io_submit` has the number of the call and an argument as `nr`.
                if list.iter().any(|known: &FormatField| known.name == field.name) {
                    let free = free_name(list, &field.name);
                    let name = std::mem::replace(&mut field.name, free);
                    if !repeated.contains(&name) {
                        repeated.push(name);
                    }
                }
                list.push(field);
                if common.len() + fields.len() > MAX_FIELDS {
                    return Err(Error::malformed(format!("more than {MAX_FIELDS} fields")));
                }
            }
        }
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::malformed("an event format without `name:`"))?;
        let Some(id) = id else {
            return Err(Error::malformed(format!("the format of `{name}` has no `ID:`")));
        };
        let is_dynamic = |field: &&FormatField| field.place != ContentPlace::Fixed;
        if common.iter().chain(&fields).filter(is_dynamic).count() > MAX_DYNAMIC_FIELDS {
            return Err(Error::malformed(format!(
                "`{name}` has more than {MAX_DYNAMIC_FIELDS} fields of variable length"
            )));
        }
        Ok(EventFormat { name, id, common, fields, print_format, repeated })
    }

    /// The event number in a format file, whatever else is wrong with the file.
    pub fn number(text: &str) -> Option<u16> {
        text.lines().find_map(|line| line.trim().strip_prefix("ID:"))?.trim().parse().ok()
    }

    /// The field of a name, common or not.
    pub fn field(&self, name: &str) -> Option<&FormatField> {
        self.common.iter().chain(&self.fields).find(|field| field.name == name)
    }

    /// Bytes that a record must have so that every field with a place of its own is there.
    pub fn min_bytes(&self) -> u32 {
        let fields = self.common.iter().chain(&self.fields);
        fields
            .filter(|field| field.place != ContentPlace::Rest)
            .map(|field| field.offset + field.size)
            .max()
            .unwrap_or(0)
    }
}

/// The name with the first number from 2 on that makes it one that no field has.
fn free_name(fields: &[FormatField], name: &str) -> String {
    let is_free = |name: &String| fields.iter().all(|field| field.name != *name);
    // Fields are fewer than the numbers.
    (2..=MAX_FIELDS + 2).map(|number| format!("{name}_{number}")).find(is_free).unwrap_or_else(|| name.to_string())
}

/// The text after the colon of `field:` or `field special:`.
fn after_colon(text: &str) -> Option<&str> {
    let (word, rest) = text.split_once(':')?;
    matches!(word.trim(), "" | "special").then_some(rest)
}

impl FormatField {
    /// Reads `TYPE NAME; offset:N; size:N; signed:N;`.
    fn parse(text: &str, machine: Machine) -> Result<FormatField> {
        let mut parts = text.split(';');
        let declaration = parts.next().unwrap_or("").trim();
        let (mut offset, mut size, mut signed) = (None, None, None);
        for part in parts {
            let Some((key, value)) = part.trim().split_once(':') else { continue };
            let value = value.trim();
            let number = || {
                let message =
                    || Error::malformed(format!("`{key}:{value}` of the field `{declaration}` is not a number"));
                value.parse::<u32>().map_err(|_| message())
            };
            match key {
                "offset" => offset = Some(number()?),
                "size" => size = Some(number()?),
                "signed" => signed = Some(value != "0"),
                _ => {}
            }
        }
        let (Some(offset), Some(size)) = (offset, size) else {
            return Err(Error::malformed(format!("the field `{declaration}` has no offset or no size")));
        };
        if offset > MAX_RECORD_BYTES || size > MAX_RECORD_BYTES {
            let message = format!("the field `{declaration}` is {size} bytes at {offset}: no record is so long");
            return Err(Error::malformed(message));
        }
        Declaration::parse(declaration)?.field(offset, size, signed, machine)
    }

    /// The bytes that hold its content in a record, as far as they are there. Empty when they are not.
    pub fn bytes<'r>(&self, record: &'r [u8], machine: Machine) -> &'r [u8] {
        record.get(self.range(record, machine).0).unwrap_or(&[])
    }

    /// Where those bytes are; false when the record does not hold all that the field says.
    pub fn range(&self, record: &[u8], machine: Machine) -> (Range<usize>, bool) {
        let (from, len) = match self.place {
            ContentPlace::Fixed => (self.offset as usize, self.size as usize),
            ContentPlace::Rest => {
                let len = record.len().saturating_sub(self.offset as usize);
                (self.offset as usize, if self.size > 0 { len.min(self.size as usize) } else { len })
            }
            ContentPlace::Located { relative } => {
                let end = (self.offset + self.size) as usize;
                let Some(own) = record.get(self.offset as usize..end) else { return (0..0, false) };
                let own = machine.number(own);
                let base = if relative { end } else { 0 };
                (base + (own & 0xffff) as usize, (own >> 16 & 0xffff) as usize)
            }
        };
        // Of nothing there is enough everywhere.
        let left = record.len().saturating_sub(from);
        if len.min(left) == 0 { (0..0, len == 0) } else { (from..from + len.min(left), len <= left) }
    }

    /// The value of an integer field, `None` when it is none or the record ends before it.
    #[inline]
    pub fn integer(&self, record: &[u8], machine: Machine) -> Option<i128> {
        let Content::Integer(element) = self.content else { return None };
        let bytes = record.get(self.offset as usize..(self.offset + self.size) as usize)?;
        let value = machine.number(bytes);
        let unused = 64 - 8 * u32::from(element.bytes);
        Some(if element.signed { i128::from((value << unused) as i64 >> unused) } else { i128::from(value) })
    }
}

/// `unsigned long args[6]`, taken apart.
struct Declaration<'a> {
    type_name: String,
    /// The words of the type without brackets, `__data_loc` and the like.
    words: Vec<&'a str>,
    name: &'a str,
    is_array: bool,
    /// The number in the brackets, when it is one.
    count: Option<u32>,
    located: Option<ContentPlace>,
}

impl<'a> Declaration<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let bad = || Error::malformed(format!("the field `{text}` has no name"));
        let located = match text.split_once(char::is_whitespace) {
            Some(("__data_loc", rest)) => Some((rest, ContentPlace::Located { relative: false })),
            Some(("__rel_loc", rest)) => Some((rest, ContentPlace::Located { relative: true })),
            _ => None,
        };
        let rest = located.map_or(text, |(rest, _)| rest).trim();
        let (before, brackets) = match (located, rest.find('[')) {
            // The brackets stand before the name: `char[] name`.
            (Some(_), _) | (None, None) => (rest, None),
            (None, Some(at)) => (&rest[..at], Some(&rest[at..])),
        };
        let before = before.trim_end();
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '-';
        let begin = before.char_indices().rev().take_while(|&(_, c)| is_part(c)).last().map(|(at, _)| at);
        let begin = begin.ok_or_else(bad)?;
        let (type_text, name) = (before[..begin].trim(), &before[begin..]);
        let words = type_text.split(|c: char| c.is_whitespace() || "[]".contains(c));
        let words = words.flat_map(|word| word.split_inclusive('*')).filter(|word| !word.is_empty()).collect();
        let count = brackets.and_then(|text| text.strip_prefix('[')?.split_once(']')?.0.trim().parse().ok());
        let is_array = brackets.is_some();
        let mut type_name = match located {
            None => type_text.to_string(),
            Some(_) => text[..text.len() - name.len()].trim().to_string(),
        };
        type_name += brackets.unwrap_or("");
        Ok(Declaration { type_name, words, name, is_array, count, located: located.map(|(_, place)| place) })
    }

    fn field(self, offset: u32, size: u32, signed: Option<bool>, machine: Machine) -> Result<FormatField> {
        let by_type = self.element(machine);
        let is_pointer = by_type.is_some_and(|element| element.is_pointer);
        let signed = signed.unwrap_or_else(|| by_type.is_some_and(|element| element.signed));
        let element = |bytes: u32| FieldElement { bytes: bytes as u8, signed, is_pointer };
        // `signed` is about the elements; bytes of unknown types have none.
        let of_type = by_type.map_or(BYTE, |of| element(of.bytes.into()));
        let is_whole = |bytes: u32| matches!(bytes, 1 | 2 | 4 | 8);
        let is_text = self.is_character();
        if self.located.is_some() && size != 4 {
            let message = format!("the field `{}` says in {size} bytes where it is, expected 4", self.name);
            return Err(Error::malformed(message));
        }
        let (content, place) = match self.located.or((size == 0).then_some(ContentPlace::Rest)) {
            Some(place) if is_text => (Content::Text, place),
            Some(place) => (Content::Array(of_type), place),
            None if self.is_array && is_text => (Content::Text, ContentPlace::Fixed),
            // Call stacks: the format says the most, the record holds what there was.
            None if self.is_array && self.name == "caller" && by_type.is_some() => {
                (Content::Array(of_type), ContentPlace::Rest)
            }
            None if self.is_array => {
                let by_count =
                    self.count.filter(|&count| count > 0 && size.is_multiple_of(count)).map(|count| size / count);
                let known = by_type.map(|element| u32::from(element.bytes));
                let bytes = by_count.or(known).filter(|&bytes| is_whole(bytes) && size.is_multiple_of(bytes));
                (Content::Array(bytes.map_or(BYTE, element)), ContentPlace::Fixed)
            }
            None if is_whole(size) => (Content::Integer(element(size)), ContentPlace::Fixed),
            None => (Content::Array(BYTE), ContentPlace::Fixed),
        };
        let name = self.name.to_string();
        Ok(FormatField { name, type_name: self.type_name, offset, size, content, place })
    }

    /// The words that say what it is.
    fn base(&self) -> impl Iterator<Item = &str> {
        let is_base = |word: &&str| !matches!(*word, "const" | "volatile" | "__user" | "__kernel" | "__rcu" | "struct");
        self.words.iter().copied().filter(is_base)
    }

    /// Plain `char`, which is text wherever there is more than one of it.
    fn is_character(&self) -> bool {
        let mut base = self.base();
        base.next() == Some("char") && base.next().is_none()
    }

    /// The element that the type's name stands for; `None` for types that only the kernel knows.
    fn element(&self, machine: Machine) -> Option<FieldElement> {
        let words: Vec<&str> = self.base().collect();
        if words.iter().any(|word| word.ends_with('*')) {
            return Some(FieldElement { bytes: machine.long_bytes, signed: false, is_pointer: true });
        }
        let (bytes, signed) = type_of_words(&words, machine)?;
        Some(FieldElement { bytes: bytes as u8, signed, is_pointer: false })
    }
}

/// Bytes and sign of an integer type of C, given as its words; `None` for other types.
pub(crate) fn type_of_words(words: &[&str], machine: Machine) -> Option<(u32, bool)> {
    let long = u32::from(machine.long_bytes);
    let is_unsigned = words.contains(&"unsigned");
    let rest: Vec<&str> = words.iter().copied().filter(|word| !matches!(*word, "unsigned" | "signed")).collect();
    let (bytes, signed) = match rest.as_slice() {
        ["char"] => (1, true),
        ["short"] | ["short", "int"] => (2, true),
        [] | ["int"] => (4, true),
        ["long"] | ["long", "int"] => (long, true),
        ["long", "long"] | ["long", "long", "int"] => (8, true),
        ["enum", _] => (4, false),
        [word] => named(word, long)?,
        _ => return None,
    };
    Some((bytes, signed && !is_unsigned))
}

/// A byte of something without parts.
const BYTE: FieldElement = FieldElement { bytes: 1, signed: false, is_pointer: false };

/// Size and sign of the types that the kernel has names for.
fn named(name: &str, long: u32) -> Option<(u32, bool)> {
    Some(match name.trim_start_matches('_') {
        "u8" | "uint8_t" | "bool" | "Bool" | "uchar" | "u_char" => (1, false),
        "s8" | "int8_t" => (1, true),
        "u16" | "uint16_t" | "le16" | "be16" | "umode_t" | "ushort" | "sum16" => (2, false),
        "s16" | "int16_t" => (2, true),
        "u32" | "uint32_t" | "le32" | "be32" | "uint" | "gfp_t" | "dev_t" | "uid_t" | "gid_t" | "wsum" => (4, false),
        "s32" | "int32_t" | "pid_t" | "clockid_t" => (4, true),
        "u64" | "uint64_t" | "le64" | "be64" | "sector_t" | "ino_t" | "dma_addr_t" | "blkcnt_t" => (8, false),
        "s64" | "int64_t" | "loff_t" | "ktime_t" | "time64_t" => (8, true),
        "size_t" | "uintptr_t" | "ulong" | "cpumask_t" | "cpumask" | "pgoff_t" => (long, false),
        "ssize_t" | "intptr_t" | "ptrdiff_t" => (long, true),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const M64: Machine = Machine { byte_order: ByteOrder::Little, long_bytes: 8 };
    const M32: Machine = Machine { byte_order: ByteOrder::Big, long_bytes: 4 };

    fn field(text: &str, machine: Machine) -> FormatField {
        FormatField::parse(text, machine).expect(text)
    }

    fn text_of<'r>(field: &FormatField, record: &'r [u8], machine: Machine) -> Option<&'r [u8]> {
        let bytes = field.bytes(record, machine).split(|&byte| byte == 0).next();
        bytes.filter(|_| field.content == Content::Text)
    }

    fn integer(bytes: u8, signed: bool) -> Content {
        Content::Integer(FieldElement { bytes, signed, is_pointer: false })
    }

    fn array(bytes: u8, signed: bool) -> Content {
        Content::Array(FieldElement { bytes, signed, is_pointer: false })
    }

    #[test]
    fn a_format_of_the_kernel() {
        let text = "name: sched_wakeup\nID: 374\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
            \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
            \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
            \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\n\
            print fmt: \"comm=%s pid=%d\", REC->comm, REC->pid\n";
        let format = EventFormat::parse(text, M64).unwrap();
        assert_eq!((format.name.as_str(), format.id, format.min_bytes()), ("sched_wakeup", 374, 28));
        assert_eq!(format.common.iter().map(|field| &*field.name).collect::<Vec<_>>(), ["common_type", "common_pid"]);
        assert_eq!(format.field("comm").unwrap().content, Content::Text);
        assert_eq!(format.field("pid").unwrap().content, integer(4, true));
        assert_eq!(format.print_format, "\"comm=%s pid=%d\", REC->comm, REC->pid");
        let mut record = vec![0; 28];
        record[8..12].copy_from_slice(b"bash");
        record[24..].copy_from_slice(&(-5i32).to_le_bytes());
        assert_eq!(text_of(format.field("comm").unwrap(), &record, M64), Some(&b"bash"[..]));
        assert_eq!(format.field("pid").unwrap().integer(&record, M64), Some(-5));
        assert_eq!(format.field("pid").unwrap().integer(&record[..26], M64), None);
    }

    #[test]
    fn declarations() {
        let cases = [
            ("const char * filename; offset:8; size:8; signed:0;", "filename", "const char *", ContentPlace::Fixed),
            ("char *name; offset:8; size:8; signed:0;", "name", "char *", ContentPlace::Fixed),
            (
                "__data_loc char[] name; offset:8; size:4; signed:1;",
                "name",
                "__data_loc char[]",
                ContentPlace::Located { relative: false },
            ),
            (
                "__rel_loc char[] name; offset:8; size:4; signed:1;",
                "name",
                "__rel_loc char[]",
                ContentPlace::Located { relative: true },
            ),
            ("unsigned long args[6]; offset:16; size:48; signed:0;", "args", "unsigned long[6]", ContentPlace::Fixed),
            ("char buf[]; offset:16; size:0; signed:0;", "buf", "char[]", ContentPlace::Rest),
            ("char func[30+1]; offset:8; size:31; signed:0;", "func", "char[30+1]", ContentPlace::Fixed),
            (
                "__u8 a[sizeof(struct in6_addr)]; offset:8; size:16; signed:0;",
                "a",
                "__u8[sizeof(struct in6_addr)]",
                ContentPlace::Fixed,
            ),
            (
                "const char __attribute__((btf_type_tag(\"user\"))) * s; offset:8; size:8; signed:0;",
                "s",
                "const char __attribute__((btf_type_tag(\"user\"))) *",
                ContentPlace::Fixed,
            ),
        ];
        for (text, name, type_name, place) in cases {
            let field = field(text, M64);
            assert_eq!(
                (field.name.as_str(), field.type_name.as_str(), field.place),
                (name, type_name, place),
                "{text}"
            );
        }
        assert!(
            EventFormat::parse("name: x\nID: 1\n\tfield special:char buf;\toffset:12;\tsize:0;", M64)
                .unwrap()
                .fields
                .len()
                == 1
        );
    }

    #[test]
    fn contents() {
        let content = |text: &str, machine| field(text, machine).content;
        let pointer = FieldElement { bytes: 8, signed: false, is_pointer: true };
        assert_eq!(content("const char * f; offset:8; size:8; signed:0;", M64), Content::Integer(pointer));
        assert_eq!(content("unsigned long args[6]; offset:16; size:48; signed:0;", M64), array(8, false));
        assert_eq!(content("unsigned long args[]; offset:16; size:0; signed:0;", M32), array(4, false));
        assert_eq!(content("__data_loc unsigned long[] st; offset:16; size:4; signed:0;", M64), array(8, false));
        assert_eq!(content("__data_loc u8[] x; offset:16; size:4; signed:0;", M64), array(1, false));
        assert_eq!(content("__data_loc s32[] x; offset:16; size:4; signed:1;", M64), array(4, true));
        assert_eq!(content("__data_loc cpumask_t *[] x; offset:16; size:4; signed:0;", M64), Content::Array(pointer));
        assert_eq!(content("__data_loc struct foo[] x; offset:16; size:4; signed:0;", M64), array(1, false));
        assert_eq!(content("unsigned char mac[6]; offset:16; size:6; signed:0;", M64), array(1, false));
        assert_eq!(content("u8 mac[ETH_ALEN]; offset:16; size:6; signed:0;", M64), array(1, false));
        assert_eq!(content("char c[TASK_COMM_LEN]; offset:16; size:16; signed:0;", M64), Content::Text);
        assert_eq!(content("char c; offset:16; size:1; signed:1;", M64), integer(1, true));
        assert_eq!(content("struct big b; offset:16; size:24; signed:0;", M64), array(1, false));
        assert_eq!(content("enum hrtimer_mode mode; offset:16; size:4; signed:0;", M64), integer(4, false));
        assert_eq!(content("__u16 x[3]; offset:16; size:6; signed:0;", M64), array(2, false));
        assert_eq!(content("int x; offset:16; size:4;", M64), integer(4, true), "without `signed` the type says it");
    }

    #[test]
    fn located_fields_are_cut_to_the_record() {
        let name = field("__data_loc char[] name; offset:8; size:4; signed:0;", M64);
        let mut record = vec![0u8; 12];
        record[8..].copy_from_slice(&(12u32 | 5 << 16).to_le_bytes());
        record.extend(b"eth0\0\0\0\0");
        assert_eq!(text_of(&name, &record, M64), Some(&b"eth0"[..]));
        assert_eq!(name.range(&record[..14], M64), (12..14, false));
        assert_eq!(name.bytes(&record[..14], M64), b"et");
        assert_eq!(name.range(&record[..10], M64), (0..0, false));
        let name = field("__rel_loc char[] name; offset:4; size:4; signed:0;", M32);
        let record = [0, 0, 0, 0, 0, 3, 0, 1, b'?', b'a', b'b', 0];
        assert_eq!(text_of(&name, &record, M32), Some(&b"ab"[..]));
        assert_eq!(M32.number(&[1, 2, 3]), 0x010203);
        let wild = field("__data_loc char[] name; offset:0; size:4; signed:0;", M64);
        assert_eq!(wild.range(&[0xff; 4], M64), (0..0, false));
        assert_eq!(wild.range(&[0xff, 0xff, 0, 0], M64), (0..0, true), "of length 0");
    }

    #[test]
    fn what_is_no_format_is_refused() {
        let fault = |text: &str| EventFormat::parse(text, M64).unwrap_err().message().to_string();
        assert_eq!(fault("ID: 7\n"), "an event format without `name:`");
        assert_eq!(fault("name: x\n"), "the format of `x` has no `ID:`");
        assert_eq!(fault("name: x\nID: 70000\n"), "the event number `70000` is not a number");
        assert_eq!(fault("name: x\nID: 7\nfield:int a;\toffset:0;"), "the field `int a` has no offset or no size");
        assert_eq!(
            fault("name: x\nID: 7\nfield:int a;\toffset:-4;\tsize:4;"),
            "`offset:-4` of the field `int a` is not a number"
        );
        assert_eq!(
            fault("name: x\nID: 7\nfield:int a;\toffset:4294967295;\tsize:4;"),
            "the field `int a` is 4 bytes at 4294967295: no record is so long"
        );
        assert_eq!(fault("name: x\nID: 7\nfield:;\toffset:0;\tsize:4;"), "the field `` has no name");
        assert_eq!(
            fault("name: x\nID: 7\nfield:__data_loc char[] n;\toffset:0;\tsize:8;"),
            "the field `n` says in 8 bytes where it is, expected 4"
        );
    }

    #[test]
    fn fields_of_one_name_get_names_of_their_own() {
        let field = |name: &str, offset: u32| format!("field:int {name};\toffset:{offset};\tsize:4;\n");
        // The second `a` does not take the name of the field before it.
        let names = ["a", "a_2", "a", "b", "a", "b"];
        let fields: String = names.iter().zip(0..).map(|(name, at)| field(name, at * 4)).collect();
        let format = EventFormat::parse(&format!("name: x\nID: 7\n{fields}"), M64).unwrap();
        let names: Vec<&str> = format.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["a", "a_2", "a_3", "b", "a_4", "b_2"]);
        assert_eq!(format.repeated, ["a", "b"]);
    }
}
