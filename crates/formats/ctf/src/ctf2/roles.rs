//! Roles of field classes (CTF 2, 5.3.3, 5.6.1 and 5.8.1).
//!
//! A role has a meaning in one or two scopes. Elsewhere it has none and is dropped: an alias may well be used both in
//! a header and in a payload.

use tracemill_codec::text::Span;
use tracemill_model::error::Result;
use tracemill_model::schema::{Role, Scope};

use super::json::{JsonKind, JsonValue};
use super::object::{array, mismatch};
use super::words::{quoted, suggest};

/// The roles as CTF 2 names them, each with a scope in which it means something, and what.
pub(crate) const ROLES: [(&str, Scope, Role); 12] = [
    ("packet-magic-number", Scope::PacketHeader, Role::PacketMagic),
    ("metadata-stream-uuid", Scope::PacketHeader, Role::TraceUuid),
    ("data-stream-class-id", Scope::PacketHeader, Role::StreamClassId),
    ("data-stream-id", Scope::PacketHeader, Role::StreamId),
    ("packet-total-length", Scope::PacketContext, Role::PacketTotalSize),
    ("packet-content-length", Scope::PacketContext, Role::PacketContentSize),
    ("default-clock-timestamp", Scope::PacketContext, Role::PacketBegin),
    ("packet-end-default-clock-timestamp", Scope::PacketContext, Role::PacketEnd),
    ("discarded-event-record-counter-snapshot", Scope::PacketContext, Role::DiscardedEvents),
    ("packet-sequence-number", Scope::PacketContext, Role::PacketSequence),
    ("event-record-class-id", Scope::EventHeader, Role::EventClassId),
    ("default-clock-timestamp", Scope::EventHeader, Role::Timestamp),
];

/// The meaning of a role in a scope; none where it means nothing.
pub(super) fn meaning(name: &str, scope: Scope) -> Option<Role> {
    ROLES.iter().find(|(of, inside, _)| *of == name && *inside == scope).map(|&(.., role)| role)
}

/// Reads the `roles` of an unsigned integer, or of a static-length blob.
pub(super) fn read(source: &str, value: &JsonValue<'_>, is_blob: bool) -> Result<Vec<(&'static str, Span)>> {
    let mut roles = Vec::new();
    for element in array(source, "roles", value)? {
        let JsonKind::String(text) = &element.kind else { return Err(mismatch(source, "roles", element, "a string")) };
        let Some(&(name, _, role)) = ROLES.iter().find(|(name, ..)| name == text) else {
            let error = element.span.malformed(source, format!("unknown role {}", quoted(text)));
            return Err(suggest(error, text, ROLES.iter().map(|&(name, ..)| name)));
        };
        if is_blob != (role == Role::TraceUuid) {
            let only = if is_blob { "an unsigned integer" } else { "a static-length blob" };
            return Err(element.span.malformed(source, format!("role `{text}` is for {only}")));
        }
        roles.push((name, element.span));
    }
    Ok(roles)
}

/// Do roles mean anything in this scope?
pub(super) fn matter_in(scope: Scope) -> bool {
    matches!(scope, Scope::PacketHeader | Scope::PacketContext | Scope::EventHeader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_a_meaning_only_where_it_matters() {
        for (name, scope, role) in ROLES {
            assert_eq!(meaning(name, scope), Some(role));
            assert!(matter_in(scope), "{name}");
        }
    }

    #[test]
    fn a_time_stamp_begins_a_packet_only_in_the_packet_context() {
        let of = |scope| meaning("default-clock-timestamp", scope);
        assert_eq!(of(Scope::PacketContext), Some(Role::PacketBegin));
        assert_eq!(of(Scope::EventHeader), Some(Role::Timestamp));
        assert_eq!(of(Scope::Payload), None);
    }
}
