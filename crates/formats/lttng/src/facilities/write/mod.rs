//! Writing LTTng 0.7 and 0.8: a trace as it was, or any one with facilities of its own.

mod blocks;
mod concepts;
mod convert;
mod encode;
mod rewrite;

pub(crate) use self::convert::FacilitiesConverter;
pub(crate) use self::rewrite::FacilitiesRewriter;
