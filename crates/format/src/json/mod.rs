//! Values of JSON text as fields: for formats whose events are JSON objects.
//!
//! A [`LineParser`] makes a flat list of tokens of a value and says by a mark which shape it has. The first value of a mark becomes a
//! [`ValueShape`], which takes in all others, gives their field class, and encodes them.

mod build;
mod scan;
mod shape;
mod tape;

pub use self::build::{OpenValue, TapeBuilder, put_json};
pub use self::scan::{end_of_string, end_of_value, scaled};
pub use self::shape::{Refused, TokenWalk, ValueShape, i128_of};
pub use self::tape::{Fault, LineParser, TapeToken, TokenKind};
