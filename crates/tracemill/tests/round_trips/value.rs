//! Values as they were written, and whether a line shows them.

use crate::json::Json;

/// A value of a random trace.
#[derive(Clone, Debug)]
pub(crate) enum Val {
    Int(i128),
    Real(f64),
    Bool(bool),
    /// A number and what names it.
    Enum(i128, Vec<String>),
    /// Bits and the flags that are set.
    Map(i128, Vec<String>),
    Text(String),
    Blob(String, Vec<u8>),
    List(Vec<Val>),
    Struct(Vec<(String, Val)>),
    Opt(Option<Box<Val>>),
    /// The option's name and its value.
    Variant(String, Box<Val>),
}

/// As which format a line shows the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// As CTF 2 has it.
    Own,
    /// As what a trace of CTF 1.8 made of it.
    Ctf18,
}

impl Val {
    /// Is it what the line shows?
    pub(crate) fn is_shown(&self, json: &Json, shape: Shape) -> bool {
        let texts = |list: &Json, want: &[String]| match list {
            Json::List(found) => found.len() == want.len() && found.iter().zip(want).all(|(f, w)| f.text() == Some(w)),
            _ => false,
        };
        match self {
            Val::Int(value) => json.integer() == Some(*value),
            Val::Real(value) => is_real(*value, json),
            Val::Bool(value) if shape == Shape::Ctf18 => json.integer() == Some(i128::from(*value)),
            Val::Bool(value) => *json == Json::Bool(*value),
            Val::Map(value, _) if shape == Shape::Ctf18 => json.integer() == Some(*value),
            Val::Enum(value, names) | Val::Map(value, names) => {
                let key = if matches!(self, Val::Map(..)) { "flags" } else { "labels" };
                json.member("value").and_then(Json::integer) == Some(*value)
                    && json.member(key).is_some_and(|list| texts(list, names))
            }
            Val::Text(text) => json.text() == Some(text),
            Val::Blob(_, bytes) if shape == Shape::Ctf18 => {
                let list: Vec<Val> = bytes.iter().map(|&byte| Val::Int(byte.into())).collect();
                Val::List(list).is_shown(json, shape)
            }
            Val::Blob(media, bytes) => {
                json.member("media_type").and_then(Json::text) == Some(media)
                    && json.member("base64").and_then(Json::text) == Some(&base64(bytes))
            }
            Val::List(values) => match json {
                Json::List(found) => {
                    found.len() == values.len() && values.iter().zip(found).all(|(v, j)| v.is_shown(j, shape))
                }
                _ => false,
            },
            Val::Struct(members) => match json {
                Json::Object(found) => {
                    found.len() == members.len()
                        && members.iter().zip(found).all(|((n, v), (m, j))| n == m && v.is_shown(j, shape))
                }
                _ => false,
            },
            Val::Opt(value) if shape == Shape::Ctf18 => {
                let content = json.member("content");
                json.member("present").and_then(Json::integer) == Some(i128::from(value.is_some()))
                    && match (value, content) {
                        (None, Some(Json::List(found))) => found.is_empty(),
                        (Some(value), Some(Json::List(found))) => found.len() == 1 && value.is_shown(&found[0], shape),
                        _ => false,
                    }
            }
            Val::Opt(None) => *json == Json::Null,
            Val::Opt(Some(value)) => value.is_shown(json, shape),
            Val::Variant(name, value) => {
                let json = match json.member("tag") {
                    Some(_) if shape == Shape::Ctf18 => json.member("value").unwrap_or(json),
                    _ => json,
                };
                matches!(json, Json::Object(members) if members.len() == 1 && members[0].0 == *name)
                    && json.member(name).is_some_and(|json| value.is_shown(json, shape))
            }
        }
    }
}

fn is_real(value: f64, json: &Json) -> bool {
    match json {
        Json::Text(text) if text == "NaN" => value.is_nan(),
        Json::Text(text) if text == "Infinity" => value == f64::INFINITY,
        Json::Text(text) if text == "-Infinity" => value == f64::NEG_INFINITY,
        Json::Number(text) => text.parse::<f64>().is_ok_and(|found| found.to_bits() == value.to_bits()),
        _ => false,
    }
}

/// Standard base 64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let word = part.iter().enumerate().fold(0u32, |word, (at, &byte)| word | u32::from(byte) << (16 - 8 * at));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at) & 63) as usize] as char;
            out.push(if at <= part.len() { letter } else { '=' });
        }
    }
    out
}
