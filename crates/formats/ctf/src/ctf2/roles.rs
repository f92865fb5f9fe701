//! Roles of field classes (CTF 2, 5.3.3, 5.6.1 and 5.8.1).
//!
//! A role has a meaning in one or two scopes. Elsewhere it has none and is dropped: an alias may well be used both in
//! a header and in a payload.

use tracemill_codec::text::Span;
use tracemill_model::error::Result;
use tracemill_model::schema::{Role, Roles, Scope};

use super::json::{Kind, Value};
use super::object::{array, mismatch};
use super::words::{quoted, suggest};

/// A role as CTF 2 names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RoleName {
    PacketMagicNumber,
    MetadataStreamUuid,
    DataStreamClassId,
    DataStreamId,
    PacketTotalLength,
    PacketContentLength,
    DefaultClockTimestamp,
    PacketEndDefaultClockTimestamp,
    DiscardedEventRecordCounterSnapshot,
    PacketSequenceNumber,
    EventRecordClassId,
}

const NAMES: [(&str, RoleName); 11] = [
    ("packet-magic-number", RoleName::PacketMagicNumber),
    ("metadata-stream-uuid", RoleName::MetadataStreamUuid),
    ("data-stream-class-id", RoleName::DataStreamClassId),
    ("data-stream-id", RoleName::DataStreamId),
    ("packet-total-length", RoleName::PacketTotalLength),
    ("packet-content-length", RoleName::PacketContentLength),
    ("default-clock-timestamp", RoleName::DefaultClockTimestamp),
    ("packet-end-default-clock-timestamp", RoleName::PacketEndDefaultClockTimestamp),
    ("discarded-event-record-counter-snapshot", RoleName::DiscardedEventRecordCounterSnapshot),
    ("packet-sequence-number", RoleName::PacketSequenceNumber),
    ("event-record-class-id", RoleName::EventRecordClassId),
];

impl RoleName {
    /// The role as the metadata writes it.
    pub(super) fn text(self) -> &'static str {
        NAMES.iter().find(|&&(_, role)| role == self).map_or("", |&(name, _)| name)
    }

    /// Meaning of the role in a scope; empty where it means nothing.
    pub(super) fn meaning(self, scope: Scope) -> Roles {
        let role = match (self, scope) {
            (RoleName::PacketMagicNumber, Scope::PacketHeader) => Role::PacketMagic,
            (RoleName::MetadataStreamUuid, Scope::PacketHeader) => Role::TraceUuid,
            (RoleName::DataStreamClassId, Scope::PacketHeader) => Role::StreamClassId,
            (RoleName::DataStreamId, Scope::PacketHeader) => Role::StreamId,
            (RoleName::PacketTotalLength, Scope::PacketContext) => Role::PacketTotalSize,
            (RoleName::PacketContentLength, Scope::PacketContext) => Role::PacketContentSize,
            (RoleName::DefaultClockTimestamp, Scope::PacketContext) => {
                return Roles::NONE.with(Role::PacketBegin).with(Role::Timestamp);
            }
            (RoleName::DefaultClockTimestamp, Scope::EventHeader) => Role::Timestamp,
            (RoleName::PacketEndDefaultClockTimestamp, Scope::PacketContext) => Role::PacketEnd,
            (RoleName::DiscardedEventRecordCounterSnapshot, Scope::PacketContext) => Role::DiscardedEvents,
            (RoleName::PacketSequenceNumber, Scope::PacketContext) => Role::PacketSequence,
            (RoleName::EventRecordClassId, Scope::EventHeader) => Role::EventClassId,
            _ => return Roles::NONE,
        };
        Roles::NONE.with(role)
    }
}

/// Reads the `roles` of an unsigned integer, or of a static-length blob.
pub(super) fn read(source: &str, value: &Value<'_>, is_blob: bool) -> Result<Vec<(RoleName, Span)>> {
    let mut roles = Vec::new();
    for element in array(source, "roles", value)? {
        let Kind::String(text) = &element.kind else { return Err(mismatch(source, "roles", element, "a string")) };
        let Some(&(_, role)) = NAMES.iter().find(|(name, _)| name == text) else {
            let error = element.span.malformed(source, format!("unknown role {}", quoted(text)));
            return Err(suggest(error, text, NAMES.iter().map(|&(name, _)| name)));
        };
        if is_blob != (role == RoleName::MetadataStreamUuid) {
            let only = if is_blob { "an unsigned integer" } else { "a static-length blob" };
            return Err(element.span.malformed(source, format!("role `{text}` is for {only}")));
        }
        roles.push((role, element.span));
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
        for (name, role) in NAMES {
            assert_eq!(role.text(), name);
            assert!(Scope::ALL.iter().any(|&scope| !role.meaning(scope).is_empty()), "{name}");
            assert!(Scope::ALL.iter().all(|&scope| matter_in(scope) || role.meaning(scope).is_empty()), "{name}");
        }
    }

    #[test]
    fn a_time_stamp_begins_a_packet_only_in_the_packet_context() {
        let context = RoleName::DefaultClockTimestamp.meaning(Scope::PacketContext);
        assert!(context.has(Role::PacketBegin) && context.has(Role::Timestamp));
        let header = RoleName::DefaultClockTimestamp.meaning(Scope::EventHeader);
        assert!(!header.has(Role::PacketBegin) && header.has(Role::Timestamp));
    }
}
