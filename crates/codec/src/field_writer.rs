//! Values of a program become the bytes of an event.
//!
//! A [`FieldLayout`] is made once of the field classes of an event; a [`FieldWriter`] goes through it value by value. Nothing is
//! allocated for an event, and no tree of values stands between the program and the bytes. Every field begins at a whole
//! byte (see [`crate::encode`]), so the bytes of an event do not depend on where it stands.
//!
//! ```
//! use tracemill_codec::encode::LooseBits;
//! use tracemill_codec::field_writer::FieldLayout;
//! use tracemill_model::schema::{FieldClass, FieldKind, IntegerClass, Member, Schema, Scope, StructClass};
//!
//! let mut schema = Schema::new("ctf2");
//! let id = schema.add_field_class(FieldClass::new(FieldKind::Integer(IntegerClass::unsigned(16)), 8));
//! let members = vec![Member::new("id", id)];
//! let root = schema.add_field_class(FieldClass::new(FieldKind::Struct(StructClass { members }), 8));
//!
//! let layout = FieldLayout::new(&schema, &[(Scope::Payload, root)])?;
//! let (mut bytes, mut loose) = (Vec::new(), LooseBits::default());
//! layout.write(&mut bytes, &mut loose, |e| e.u64(0x1234))?;
//! assert_eq!(bytes, [0x34, 0x12]);
//!
//! let error = layout.write(&mut bytes, &mut loose, |e| e.u64(70_000)).unwrap_err();
//! assert_eq!(error.message(), "expected an unsigned integer of 16 bits, not 70000");
//! assert_eq!(error.place().field.as_deref(), Some("payload.id"));
//! assert_eq!(bytes.len(), 2); // What was refused left no bytes.
//! # Ok::<(), tracemill_model::error::Error>(())
//! ```

use std::fmt;
use std::sync::Arc;

use tracemill_model::error::{Error, Result};
use tracemill_model::schema::{
    ByteOrder, Encoding, FieldClassId, FieldKind, FieldPath, Length, Mapping, Member, PathStep, Presence, Schema,
    Scope, StringLength,
};

use crate::bits::{mask, put_fixed, put_uint, sign_extend, uint_bytes, zero_at};
use crate::encode::LooseBits;
use crate::layout;
use crate::value::Value;

/// The order and the form of the values of an event.
#[derive(Clone, Debug, Default)]
pub struct FieldLayout {
    steps: Vec<LayoutStep>,
    /// The path of each step's field.
    paths: Vec<Box<str>>,
    /// Labels of the steps that are enumerations.
    labels: Vec<(u32, Arc<[Mapping]>)>,
    /// The first step of each structure inside of a scope.
    structs: Vec<u32>,
}

/// One value, or the frame of several.
#[derive(Clone, Debug)]
enum LayoutStep {
    Unsigned {
        len_bits: u8,
        order: ByteOrder,
    },
    Signed {
        len_bits: u8,
        order: ByteOrder,
    },
    Boolean(WholeBytes),
    Float32(ByteOrder),
    Float64(ByteOrder),
    Text,
    Blob(Count),
    /// The steps of an element follow, and an end.
    Array {
        count: Count,
        next: u32,
    },
    /// The steps of the content follow, and an end.
    Optional {
        flag: WholeBytes,
        next: u32,
    },
    /// The steps of each option follow, with an end each.
    Variant {
        tag: WholeBytes,
        options: Box<[OptionSteps]>,
        next: u32,
    },
    End,
}

/// An unsigned integer of whole bytes that the writer knows itself.
#[derive(Clone, Copy, Debug)]
struct WholeBytes {
    len_bytes: u8,
    order: ByteOrder,
}

/// Where the number of elements or bytes comes from.
#[derive(Clone, Copy, Debug)]
enum Count {
    Fixed(u64),
    /// Written before them.
    Stored(WholeBytes),
}

/// An option of a variant.
#[derive(Clone, Debug)]
struct OptionSteps {
    name: Option<Arc<str>>,
    tag: u64,
    /// Its first step.
    first: u32,
}

impl FieldLayout {
    /// The layout of the scopes of an event, one after the other. A field that says the length, the presence or the
    /// option of the one right after it is written by itself: no value is given for it.
    ///
    /// # Errors
    /// When a class has no place here: one that begins inside of a byte, integers of more than 64 bits or of variable
    /// length, strings that do not end with a zero, lengths and selectors that do not stand right before their field.
    pub fn new(schema: &Schema, roots: &[(Scope, FieldClassId)]) -> Result<FieldLayout> {
        let mut compiler = Compiler::new(schema);
        for &(scope, root) in roots {
            compiler.root(scope, root, 0)?;
        }
        Ok(compiler.done())
    }

    /// The layout of the members of one scope from the one at `first` on.
    ///
    /// # Errors
    /// As [`FieldLayout::new`].
    pub fn from_members(schema: &Schema, scope: Scope, root: FieldClassId, first: usize) -> Result<FieldLayout> {
        let mut compiler = Compiler::new(schema);
        compiler.root(scope, root, first)?;
        Ok(compiler.done())
    }

    /// Are there no values to give?
    pub fn is_empty(&self) -> bool {
        self.steps.len() <= 1
    }

    /// Appends the values of an event. `loose` are the bits that the last integer leaves in its last byte.
    ///
    /// # Errors
    /// When there are too few values or too many, or one is not of its field; the error names the field. `out` and `loose`
    /// are then what they were.
    #[inline]
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        loose: &mut LooseBits,
        fields: impl for<'w, 'a> FnOnce(&'w mut FieldWriter<'a>) -> &'w mut FieldWriter<'a>,
    ) -> Result<()> {
        let (start, before) = (out.len(), *loose);
        let mut writer = FieldWriter { out, layout: self, at: 0, loose, opened: (0, 0), error: None };
        fields(&mut writer);
        writer.expect_end(self.steps.len() - 1);
        let error = writer.error.take();
        error.map_or(Ok(()), |error| {
            out.truncate(start);
            *loose = before;
            Err(error)
        })
    }
}

/// Makes the steps of field classes.
struct Compiler<'a> {
    schema: &'a Schema,
    layout: FieldLayout,
}

impl<'a> Compiler<'a> {
    fn new(schema: &'a Schema) -> Self {
        Compiler { schema, layout: FieldLayout::default() }
    }

    /// Adds the steps of the members of a scope.
    fn root(&mut self, scope: Scope, root: FieldClassId, first: usize) -> Result<()> {
        let FieldKind::Struct(structure) = &self.schema.field_class(root).kind else {
            return Err(Error::unsupported("a scope that is not a structure cannot be written").in_field(scope.key()));
        };
        self.members(&structure.members, first, &FieldPath { scope, steps: Vec::new() }, scope.key())
    }

    fn add(&mut self, step: LayoutStep, name: &str) {
        self.layout.steps.push(step);
        self.layout.paths.push(name.into());
    }

    fn end(&mut self) {
        self.add(LayoutStep::End, "");
    }

    fn done(mut self) -> FieldLayout {
        self.end();
        self.layout
    }

    /// Adds the steps of a class. `before` is the number that stands right before it for it.
    fn class(&mut self, id: FieldClassId, path: &FieldPath, name: &str, before: Option<WholeBytes>) -> Result<()> {
        let class = self.schema.field_class(id);
        let unsupported = |what: &str| Err(Error::unsupported(format!("{what} cannot be written")).in_field(name));
        let is_leaf = layout::children(class).is_empty() && !matches!(class.kind, FieldKind::Struct(_));
        if is_leaf && class.align_bits != 8 || class.place.is_some() {
            return unsupported("a field that does not begin at a whole byte");
        }
        let count = |length: &Length| match (length, before) {
            (Length::Static(count), _) => Ok(Count::Fixed(*count)),
            (Length::Field(_), Some(number)) => Ok(Count::Stored(number)),
            _ => Err(Error::unsupported("a length that does not stand right before its field").in_field(name)),
        };
        match &class.kind {
            FieldKind::Integer(integer) => {
                if !(1..=64).contains(&integer.len_bits) || integer.reversed_bits {
                    return unsupported("an integer of this form");
                }
                if let Some(labels) = &integer.mappings {
                    self.layout.labels.push((self.layout.steps.len() as u32, labels.clone()));
                }
                let (len_bits, order) = (integer.len_bits as u8, integer.byte_order);
                let step = match integer.signed {
                    true => LayoutStep::Signed { len_bits, order },
                    false => LayoutStep::Unsigned { len_bits, order },
                };
                self.add(step, name);
            }
            FieldKind::Boolean(_) => match self.number(id) {
                Some(number) => self.add(LayoutStep::Boolean(number), name),
                None => return unsupported("a boolean of this size"),
            },
            FieldKind::Float(float) if !float.reversed_bits && float.len_bits == 32 => {
                self.add(LayoutStep::Float32(float.byte_order), name);
            }
            FieldKind::Float(float) if !float.reversed_bits && float.len_bits == 64 => {
                self.add(LayoutStep::Float64(float.byte_order), name);
            }
            FieldKind::String(string)
                if string.encoding == Encoding::Utf8 && string.length == StringLength::NullTerminated =>
            {
                self.add(LayoutStep::Text, name);
            }
            FieldKind::Blob(blob) => self.add(LayoutStep::Blob(count(&blob.length)?), name),
            FieldKind::Struct(structure) => {
                self.layout.structs.push(self.layout.steps.len() as u32);
                self.members(&structure.members, 0, path, name)?;
            }
            FieldKind::Array(array) => {
                let at = self.layout.steps.len();
                let count = count(&array.length)?;
                self.add(LayoutStep::Array { count, next: 0 }, name);
                self.class(array.element, &child_path(path, PathStep::Element), &format!("{name}[]"), None)?;
                self.end();
                let next = self.layout.steps.len() as u32;
                self.layout.steps[at] = LayoutStep::Array { count, next };
            }
            FieldKind::Optional(optional) => {
                let (Some(flag), Presence::Boolean) = (before, &optional.presence) else {
                    return unsupported("an optional field without a boolean right before it");
                };
                let at = self.layout.steps.len();
                self.add(LayoutStep::Optional { flag, next: 0 }, name);
                self.class(optional.content, &child_path(path, PathStep::Content), name, None)?;
                self.end();
                let next = self.layout.steps.len() as u32;
                self.layout.steps[at] = LayoutStep::Optional { flag, next };
            }
            FieldKind::Variant(variant) => {
                let Some(tag) = before else {
                    return unsupported("a variant without its selector right before it");
                };
                let at = self.layout.steps.len();
                self.add(LayoutStep::End, name);
                let mut options = Vec::new();
                for (index, option) in variant.options.iter().enumerate() {
                    let first = self.layout.steps.len() as u32;
                    let value = option.ranges.first().and_then(|range| u64::try_from(range.0).ok());
                    let Some(value) = value else { return unsupported("an option that nothing selects") };
                    options.push(OptionSteps { name: option.name.clone(), tag: value, first });
                    let name = format!("{name}.{}", option.name.as_deref().unwrap_or(""));
                    self.class(option.class, &child_path(path, PathStep::Option(index as u32)), &name, None)?;
                    self.end();
                }
                self.layout.steps[at] =
                    LayoutStep::Variant { tag, options: options.into(), next: self.layout.steps.len() as u32 };
            }
            _ => return unsupported("a field of this class"),
        }
        Ok(())
    }

    fn members(&mut self, members: &[Member], first: usize, path: &FieldPath, name: &str) -> Result<()> {
        let mut before = None;
        for (at, member) in members.iter().enumerate().skip(first) {
            let path = child_path(path, PathStep::Member(at as u32));
            let next = members.get(at + 1).map(|next| self.schema.field_class(next.class));
            if next.and_then(layout::reference) == Some(&path) {
                before = self.number(member.class);
                continue;
            }
            self.class(member.class, &path, &format!("{name}.{}", member.name), before.take())?;
        }
        Ok(())
    }

    /// The form of an unsigned integer or boolean of whole bytes.
    fn number(&self, id: FieldClassId) -> Option<WholeBytes> {
        let (len_bits, order) = match &self.schema.field_class(id).kind {
            FieldKind::Integer(class) if !class.signed && !class.reversed_bits => (class.len_bits, class.byte_order),
            FieldKind::Boolean(class) if !class.reversed_bits => (class.len_bits, class.byte_order),
            _ => return None,
        };
        let is_whole = matches!(len_bits, 8 | 16 | 32 | 64);
        is_whole.then_some(WholeBytes { len_bytes: (len_bits / 8) as u8, order })
    }
}

fn child_path(path: &FieldPath, step: PathStep) -> FieldPath {
    let mut path = path.clone();
    path.steps.push(step);
    path
}

/// Takes the values of an event in the order of its fields.
///
/// Structures take no call of their own: their members follow one another. A value that is not of the field whose turn it
/// is makes [`FieldLayout::write`] fail; the calls after it do nothing.
pub struct FieldWriter<'a> {
    out: &'a mut Vec<u8>,
    layout: &'a FieldLayout,
    at: usize,
    loose: &'a mut LooseBits,
    /// A step, and how many of the structures that begin there were given as a value.
    opened: (usize, usize),
    error: Option<Error>,
}

impl<'a> FieldWriter<'a> {
    /// An unsigned integer, also of an enumeration.
    #[inline]
    pub fn u64(&mut self, value: u64) -> &mut Self {
        match self.layout.steps.get(self.at) {
            Some(&LayoutStep::Unsigned { len_bits, order }) if value <= mask(len_bits.into()) => {
                self.integer(value, len_bits, order);
            }
            _ => return self.refuse(format_args!("{value}")),
        }
        self
    }

    /// An unsigned integer, for a field of any width that holds it.
    #[inline]
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.u64(value.into())
    }

    /// A signed integer, also of an enumeration.
    #[inline]
    pub fn i64(&mut self, value: i64) -> &mut Self {
        match self.layout.steps.get(self.at) {
            Some(&LayoutStep::Signed { len_bits, order }) if sign_extend(value as u64, len_bits.into()) == value => {
                self.integer(value as u64, len_bits, order);
            }
            Some(LayoutStep::Signed { .. }) => return self.refuse(format_args!("{value}")),
            _ => return self.refuse(format_args!("the signed integer {value}")),
        }
        self
    }

    /// A signed integer, for a field of any width that holds it.
    #[inline]
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.i64(value.into())
    }

    /// A value of an enumeration, by its label: the first value that has it. Costs a search through the labels.
    pub fn label(&mut self, label: &str) -> &mut Self {
        let labels = self.layout.labels.iter().find(|(at, _)| *at as usize == self.at);
        let mapping = labels.and_then(|(_, labels)| labels.iter().find(|mapping| &*mapping.label == label));
        match mapping.and_then(|mapping| mapping.ranges.first()) {
            Some(&(value, _)) => self.any_integer(value),
            None => self.refuse(format_args!("the label `{label}`")),
        }
    }

    /// A boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) -> &mut Self {
        match self.layout.steps.get(self.at) {
            Some(LayoutStep::Boolean(number)) => {
                put_uint(self.out, value.into(), number.len_bytes.into(), number.order);
                self.at += 1;
            }
            _ => return self.refuse(format_args!("{value}")),
        }
        self
    }

    /// A floating point number of 64 bits.
    #[inline]
    pub fn f64(&mut self, value: f64) -> &mut Self {
        match self.layout.steps.get(self.at) {
            Some(&LayoutStep::Float64(order)) => {
                put_uint(self.out, value.to_bits(), 8, order);
                self.at += 1;
            }
            _ => return self.refuse(format_args!("a number of 64 bits, {value}")),
        }
        self
    }

    /// A floating point number of 32 bits; a field of 64 bits holds it too.
    #[inline]
    pub fn f32(&mut self, value: f32) -> &mut Self {
        match self.layout.steps.get(self.at) {
            Some(&LayoutStep::Float32(order)) => {
                put_uint(self.out, value.to_bits().into(), 4, order);
                self.at += 1;
                self
            }
            _ => self.f64(value.into()),
        }
    }

    /// A string. It holds no zero byte, which would end it.
    #[inline]
    pub fn str(&mut self, text: &str) -> &mut Self {
        match self.layout.steps.get(self.at) {
            Some(LayoutStep::Text) if zero_at(text.as_bytes()).is_none() => {
                self.out.extend_from_slice(text.as_bytes());
                self.out.push(0);
                self.at += 1;
            }
            _ => return self.refuse(format_args!("the string {text:?}")),
        }
        self
    }

    /// The bytes of a blob.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let len = bytes.len() as u64;
        match self.layout.steps.get(self.at) {
            Some(&LayoutStep::Blob(Count::Fixed(count))) if count == len => self.loose.align(),
            Some(&LayoutStep::Blob(Count::Stored(number))) if number.holds(len) => {
                put_uint(self.out, len, number.len_bytes.into(), number.order);
            }
            _ => return self.refuse(format_args!("{len} bytes")),
        }
        self.out.extend_from_slice(bytes);
        self.at += 1;
        self
    }

    /// The elements of an array: `each` gives the values of one, as in
    /// `e.array(&points, |e, point| e.f64(point.x).f64(point.y))`.
    #[inline]
    pub fn array<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        let array = self.at;
        let Some(&LayoutStep::Array { count, next }) = self.layout.steps.get(array) else {
            return self.refuse(format_args!("an array"));
        };
        let place = self.out.len();
        match count {
            Count::Stored(number) => self.out.resize(place + usize::from(number.len_bytes), 0),
            Count::Fixed(_) => self.loose.align(),
        }
        let mut done = 0u64;
        for item in items {
            self.at = array + 1;
            each(self, item);
            self.expect_end(next as usize - 1);
            if self.error.is_some() {
                return self;
            }
            done += 1;
        }
        self.at = array;
        match count {
            Count::Stored(number) if number.holds(done) => number.set(self.out, place, done),
            Count::Fixed(count) if count == done => {}
            _ => return self.refuse(format_args!("{done} elements")),
        }
        self.at = next as usize;
        self
    }

    /// An optional field: absent, or the value or values that `content` gives, as in
    /// `e.optional(path, |e, path| e.str(path))`.
    #[inline]
    pub fn optional<T>(&mut self, value: Option<T>, content: impl FnOnce(&mut Self, T) -> &mut Self) -> &mut Self {
        let Some(&LayoutStep::Optional { flag, next }) = self.layout.steps.get(self.at) else {
            return self.refuse(format_args!("an optional value"));
        };
        put_uint(self.out, value.is_some().into(), flag.len_bytes.into(), flag.order);
        if let Some(value) = value {
            self.at += 1;
            content(self, value);
            self.expect_end(next as usize - 1);
        }
        self.go_to(next);
        self
    }

    /// A variant: the option of this name, and its values, as in
    /// `e.variant("code", |e| e.i64(-2))`.
    #[inline]
    pub fn variant(&mut self, option: &str, content: impl FnOnce(&mut Self) -> &mut Self) -> &mut Self {
        let layout = self.layout;
        let index = match layout.steps.get(self.at) {
            Some(LayoutStep::Variant { options, .. }) => {
                options.iter().position(|of| of.name.as_deref() == Some(option))
            }
            _ => None,
        };
        match index {
            Some(index) => self.option_at(index, content),
            None => self.refuse(format_args!("the option `{option}`")),
        }
    }

    fn option_at(&mut self, index: usize, content: impl FnOnce(&mut Self) -> &mut Self) -> &mut Self {
        let layout = self.layout;
        let found = match layout.steps.get(self.at) {
            Some(LayoutStep::Variant { tag, options, next }) => {
                let last = options.get(index + 1).map_or(*next, |option| option.first) - 1;
                options.get(index).map(|option| (*tag, option, last, *next))
            }
            _ => None,
        };
        let Some((tag, option, last, next)) = found else {
            return self.refuse(format_args!("option {index} of a variant"));
        };
        put_uint(self.out, option.tag, tag.len_bytes.into(), tag.order);
        self.at = option.first as usize;
        content(self);
        self.expect_end(last as usize);
        self.go_to(next);
        self
    }

    /// Values whose kinds the program learns while it runs; slower than the other calls. Integers may have either sign, an
    /// optional field is [`Value::Null`] or its content, and the members of a [`Value::Struct`] go by their order.
    pub fn values(&mut self, values: &[Value]) -> &mut Self {
        for value in values {
            self.value(value);
        }
        self
    }

    /// One of [`FieldWriter::values`].
    pub fn value(&mut self, value: &Value) -> &mut Self {
        // The value of a structure that begins here is not that of an optional field which is its first member.
        if let Value::Struct(members) = value
            && self.opens_struct()
        {
            for (_, value) in members {
                self.value(value);
            }
            return self;
        }
        if let Some(LayoutStep::Optional { .. }) = self.layout.steps.get(self.at) {
            let content = Some(value).filter(|value| !value.is_null());
            return self.optional(content, |e, value| e.value(value));
        }
        match value {
            Value::Unsigned(value) => self.any_integer((*value).into()),
            Value::Signed(value) => self.any_integer((*value).into()),
            Value::Wide(wide) => match wide.to_i128() {
                Some(value) => self.any_integer(value),
                None => self.refuse(format_args!("{}", wide.to_decimal())),
            },
            Value::Boolean(value) => self.bool(*value),
            Value::Real(value) => {
                let narrow = *value as f32;
                let is_same = f64::from(narrow) == *value || value.is_nan();
                let is_narrow = matches!(self.layout.steps.get(self.at), Some(LayoutStep::Float32(_)));
                if is_narrow && is_same { self.f32(narrow) } else { self.f64(*value) }
            }
            Value::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => self.str(text),
                Err(_) => self.refuse(format_args!("a string that is not UTF-8")),
            },
            Value::Blob(bytes) => self.bytes(bytes),
            Value::List(elements) => self.array(elements, |e, element| {
                e.opened = (e.at, 0);
                e.value(element)
            }),
            Value::Struct(_) => self.refuse(format_args!("a structure")),
            Value::Option(index, _, value) => self.option_at(*index, |e| e.value(value)),
            Value::Null => self.refuse(format_args!("nothing")),
        }
    }

    /// Begins a structure here that no value was given for?
    fn opens_struct(&mut self) -> bool {
        if self.opened.0 != self.at {
            self.opened = (self.at, 0);
        }
        let begin = self.layout.structs.iter().filter(|&&at| at as usize == self.at).count();
        let opens = self.opened.1 < begin;
        self.opened.1 += usize::from(opens);
        opens
    }

    fn any_integer(&mut self, value: i128) -> &mut Self {
        match (self.layout.steps.get(self.at), u64::try_from(value), i64::try_from(value)) {
            (Some(LayoutStep::Unsigned { .. }), Ok(value), _) => self.u64(value),
            (Some(LayoutStep::Signed { .. }), _, Ok(value)) => self.i64(value),
            _ => self.refuse(format_args!("{value}")),
        }
    }

    #[inline]
    fn integer(&mut self, value: u64, len_bits: u8, order: ByteOrder) {
        put_fixed(self.out, value, len_bits, order);
        if !len_bits.is_multiple_of(8) {
            self.loose.note(self.out.len(), len_bits.into());
        }
        self.at += 1;
    }

    /// Goes on after a frame, unless something in it was refused.
    #[inline]
    fn go_to(&mut self, next: u32) {
        if self.error.is_none() {
            self.at = next as usize;
        }
    }

    /// Refuses what lacks values.
    #[inline]
    fn expect_end(&mut self, end: usize) {
        if self.at != end {
            self.refuse(format_args!("the end of the values"));
        }
    }

    /// Remembers the first thing that does not fit.
    #[cold]
    fn refuse(&mut self, given: fmt::Arguments<'_>) -> &mut Self {
        if self.error.is_some() {
            return self;
        }
        let (step, path) = (self.layout.steps.get(self.at), self.layout.paths.get(self.at));
        let error = match step {
            None | Some(LayoutStep::End) => Error::misuse(format!("no field is left for {given}")),
            Some(step) => Error::misuse(format!("expected {step}, not {given}")),
        };
        let path = path.filter(|path| !path.is_empty());
        self.error = Some(path.into_iter().fold(error, |error, path| error.in_field(&**path)));
        // No step is there: nothing is taken any more.
        self.at = usize::MAX;
        self
    }
}

impl WholeBytes {
    fn holds(self, value: u64) -> bool {
        value <= mask(u32::from(self.len_bytes) * 8)
    }

    fn set(self, out: &mut [u8], at: usize, value: u64) {
        let (bytes, len) = (uint_bytes(value, self.order), usize::from(self.len_bytes));
        let from = if self.order == ByteOrder::Big { 8 - len } else { 0 };
        if let Some(place) = out.get_mut(at..at + len) {
            place.copy_from_slice(&bytes[from..from + len]);
        }
    }
}

/// The noun of what a field takes.
impl fmt::Display for LayoutStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutStep::Unsigned { len_bits, .. } => write!(f, "an unsigned integer of {len_bits} bits"),
            LayoutStep::Signed { len_bits, .. } => write!(f, "a signed integer of {len_bits} bits"),
            LayoutStep::Boolean(_) => f.write_str("a boolean"),
            LayoutStep::Float32(_) => f.write_str("a floating point number of 32 bits"),
            LayoutStep::Float64(_) => f.write_str("a floating point number of 64 bits"),
            LayoutStep::Text => f.write_str("a string without a zero byte"),
            LayoutStep::Blob(Count::Fixed(count)) => write!(f, "{count} bytes"),
            LayoutStep::Blob(Count::Stored(_)) => f.write_str("bytes"),
            LayoutStep::Array { count: Count::Fixed(count), .. } => write!(f, "an array of {count} elements"),
            LayoutStep::Array { .. } => f.write_str("an array"),
            LayoutStep::Optional { .. } => f.write_str("an optional value"),
            LayoutStep::Variant { options, .. } => {
                let names = options.iter().map(|option| option.name.as_deref().unwrap_or(""));
                write!(f, "an option of the variant ({})", names.collect::<Vec<_>>().join(", "))
            }
            LayoutStep::End => f.write_str("the end"),
        }
    }
}
