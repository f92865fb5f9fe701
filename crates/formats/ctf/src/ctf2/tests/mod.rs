//! Tests of the front end as a whole.

mod corpus;
mod faults;
mod schemas;
mod tolerated;

use tracemill_model::schema::Schema;

/// Metadata with a preamble and these fragments, one per line: the preamble is line 1.
fn metadata(fragments: &[&str]) -> String {
    let mut text = "\u{1e}{\"type\": \"preamble\", \"version\": 2}\n".to_owned();
    for fragment in fragments {
        text.push_str(&format!("\u{1e}{fragment}\n"));
    }
    text
}

fn schema(fragments: &[&str]) -> Schema {
    super::parse(metadata(fragments).as_bytes(), true).unwrap_or_else(|error| panic!("{error}")).0
}

/// An event record class with these members of its payload, and a data stream class before it.
fn payload(members: &str) -> String {
    format!(
        r#"{{"type": "event-record-class", "payload-field-class": {{"type": "structure", "member-classes": [{members}]}}}}"#
    )
}

/// A member of a structure.
fn member(name: &str, class: &str) -> String {
    format!(r#"{{"name": "{name}", "field-class": {class}}}"#)
}

const STREAM: &str = r#"{"type": "data-stream-class"}"#;
const UINT: &str = r#"{"type": "variable-length-unsigned-integer"}"#;
const SINT: &str = r#"{"type": "variable-length-signed-integer"}"#;
const BOOLEAN: &str = r#"{"type": "fixed-length-boolean", "length": 8, "byte-order": "little-endian"}"#;
const STRING: &str = r#"{"type": "null-terminated-string"}"#;
