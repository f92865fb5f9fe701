//! From the schema of a trace to that of the CTF trace that is written, and how each of its events is encoded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tracemill_codec::encode::Encode;
use tracemill_codec::layout;
use tracemill_codec::plan::Plan;
use tracemill_codec::trace_plans::TracePlans;
use tracemill_model::clock::{ClockMap, NS_PER_SECOND};
use tracemill_model::error::Result;
use tracemill_model::schema::{
    BlobClass, ByteOrder, ClockClass, ClockId, EventClass, EventClassId, FieldClassId, FieldKind, Length, Member, Role,
    Roles, Schema, Scope, StreamClass, StreamClassId,
};

use super::Dialect;
use super::encodes::{Special, encodes, fillers};
use super::fields::{Mapper, MovedRoots, Selectors, free_name};
use super::marks::Marks;
use tracemill_format::lost::{Losses, Lost};
use tracemill_format::target::Source;
use tracemill_format::writer::STORED;

/// The mapping of a trace to the one that is written.
#[derive(Clone)]
pub(super) struct Mapping {
    pub(super) dialect: Dialect,
    pub(super) order: ByteOrder,
    pub(super) from: Arc<Schema>,
    /// The schema of the output. Classes of open ids are added while events come.
    pub(super) to: Schema,
    pub(super) streams: Vec<StreamMapping>,
    pub(super) events: Vec<EventMapping>,
    /// Members of the packet header that are kept.
    pub(super) keeps_header: Vec<bool>,
    /// Has each packet the id of its stream?
    pub(super) has_stream_ids: bool,
    pub(super) special: Special,
    pub(super) marks: Marks,
    pub(super) losses: Losses,
}

/// Properties that the packet headers of a trace share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers {
    /// Has each packet the id of its stream?
    pub(super) has_stream_ids: bool,
    /// Do packets of other sources have the same header?
    pub(super) are_shared: bool,
}

/// How packets and headers of a stream class are written.
#[derive(Clone, Debug)]
pub(super) struct StreamMapping {
    pub(super) id: u64,
    pub(super) has_clock: bool,
    clock: Option<ClockId>,
    in_ns: Option<InNs>,
    pub(super) has_cpu: bool,
    /// Bits of the id of an event class.
    pub(super) id_bits: u8,
    /// Is the old event header kept inside the new one?
    pub(super) keeps_event_header: bool,
    /// For each node of the plan of the event header. Made when the first event comes.
    pub(super) header_nodes: Option<Box<[Encode]>>,
    /// Members of the packet context that are kept.
    pub(super) keeps_context: Vec<bool>,
}

/// How events of a class are written.
#[derive(Clone, Debug, Default)]
pub(super) struct EventMapping {
    /// Numeric id in the output.
    pub(super) id: u64,
    /// Bytes of selectors that stand before the payload.
    pub(super) selectors: usize,
    pub(super) is_untimed: bool,
    pub(super) is_open: bool,
    /// For each node of the plan of the event's rows. Made when the first event comes.
    pub(super) nodes: Option<Box<[Encode]>>,
    /// Do its fields stand in the output as they do in the input?
    pub(super) is_copied: bool,
    /// Fillers for fields after the end of an event. Made when the first event comes that ends early.
    pub(super) fillers: Option<Box<[Option<Vec<u8>>]>>,
    /// Ids of classes that stand for many, once an event had them.
    pub(super) own_ids: HashMap<(u32, Vec<u8>), u64>,
}

/// Members of the packet context that are ours, in their order, with the bits of each.
pub(super) fn context_members(has_clock: bool, has_cpu: bool) -> Vec<(&'static str, u32, Roles)> {
    let role = |role| Roles::NONE.with(role);
    let mut members =
        vec![("packet_size", 64, role(Role::PacketTotalSize)), ("content_size", 64, role(Role::PacketContentSize))];
    if has_clock {
        members.push(("timestamp_begin", 64, role(Role::PacketBegin).with(Role::Timestamp)));
        members.push(("timestamp_end", 64, role(Role::PacketEnd)));
    }
    members.push(("events_discarded", 64, role(Role::DiscardedEvents)));
    members.push(("packet_seq_num", 64, role(Role::PacketSequence)));
    if has_cpu {
        members.push(("cpu_id", 32, Roles::NONE));
    }
    members
}

impl Mapping {
    /// The mapping of a source.
    ///
    /// # Errors
    /// When a field has no form in the output at all.
    pub(super) fn new(dialect: Dialect, order: ByteOrder, source: &Source, headers: Headers) -> Result<Mapping> {
        let from = source.schema.clone();
        let mut to = Schema::new(dialect.format());
        let mut losses = Losses::default();
        to.byte_order = order;
        to.version = dialect.version();
        to.uuid = from.uuid;
        to.name = Some(Arc::from(source.own_name.as_str())).filter(|name: &Arc<str>| !name.is_empty());
        to.namespace = from.namespace.clone();
        to.uid = from.uid.clone();
        to.environment = from.environment.clone();
        let in_ns = add_clocks(dialect, source, &mut to, &mut losses);
        let referenced = references(&from);
        let has_stream_ids = headers.has_stream_ids;
        let keeps_header = kept_members(&from, Scope::PacketHeader, from.packet_header, &referenced, true);
        let keeps_header = if headers.are_shared {
            let needed = kept_members(&from, Scope::PacketHeader, from.packet_header, &referenced, false);
            let left_out = keeps_header.iter().zip(&needed).filter(|(keep, needs)| **keep && !**needs);
            losses.add(Lost::PacketHeaders, left_out.count() as u64);
            needed
        } else {
            keeps_header
        };
        let mut mapper = Mapper::new(dialect, order, &from, &mut to, &mut losses);
        mapper.roots[0] = from.packet_header;
        let header = packet_header(&mut mapper, &keeps_header, has_stream_ids)?;
        mapper.to.packet_header = Some(header);
        let mut streams = Vec::new();
        let mut moved_of = Vec::new();
        let (stream_ids, event_ids) = (from.distinct_stream_ids(), from.distinct_event_ids());
        let shared = stream_ids.iter().zip(from.streams()).filter(|(id, class)| **id != class.id);
        mapper.losses.add(Lost::SharedStreamIds, shared.count() as u64);
        let shared = event_ids.iter().zip(from.events()).filter(|(id, class)| **id != class.id);
        mapper.losses.add(Lost::SharedEventIds, shared.count() as u64);
        for (at, class) in from.streams().iter().enumerate() {
            let used = source.streams.iter().any(|stream| stream.class == StreamClassId(at as u32));
            mapper.owner = (at as u32, 0);
            let (mapping, moved) = map_stream(&mut mapper, (class, stream_ids[at]), &referenced, at, used)?;
            let in_ns = mapping.clock.and_then(|clock| in_ns.get(clock.0 as usize).copied().flatten());
            streams.push(StreamMapping { in_ns, ..mapping });
            moved_of.push(moved);
        }
        let mut events = Vec::with_capacity(from.events().len());
        for (at, class) in from.events().iter().enumerate() {
            mapper.owner = (class.stream.0, at as u32);
            mapper.moved = moved_of[class.stream.0 as usize].clone();
            events.push(map_event(&mut mapper, class, event_ids[at])?);
        }
        let special = std::mem::take(&mut mapper.special);
        let marks = std::mem::take(&mut mapper.marks);
        if dialect == Dialect::Ctf18 {
            count_names(&from, &mut losses);
        }
        if dialect == Dialect::Ctf2 {
            to.summary = source.schema.summary.clone();
        } else if source.schema.summary.is_some() {
            losses.add(Lost::TextForm, 1);
        }
        Ok(Mapping { dialect, order, from, to, streams, events, keeps_header, has_stream_ids, special, marks, losses })
    }

    /// Makes the table of an event class when its first event comes.
    #[cold]
    pub(super) fn prepare(&mut self, plans: &TracePlans, class: EventClassId) {
        let plan = plans.event_rows(class);
        let owner = (self.from.event(class).stream.0, class.0);
        let scopes = [Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
        let nodes = encodes(self, plan, owner, &scopes);
        let of = &mut self.events[class.0 as usize];
        of.is_copied = of.selectors == 0 && plans.event_flat_rows(class).copied(&nodes, |_| false).is_some();
        of.nodes = Some(nodes);
        let stream = self.from.event(class).stream;
        if self.streams[stream.0 as usize].header_nodes.is_none() {
            let nodes = encodes(self, plans.header_rows(stream), owner, &[Scope::EventHeader]);
            self.streams[stream.0 as usize].header_nodes = Some(nodes);
        }
    }

    /// Makes the table of what stands for fields after the ends of events of a class.
    #[cold]
    pub(super) fn prepare_cut(&mut self, plans: &TracePlans, class: EventClassId) {
        let of = &mut self.events[class.0 as usize];
        let nodes = of.nodes.as_deref().unwrap_or(&[]);
        of.fillers = Some(fillers(&self.from, plans.event_rows(class), nodes));
    }

    /// How the members of a header or context are written that are kept: nothing for the others.
    pub(super) fn kept_nodes(&self, plan: &Plan, stream: StreamClassId, scope: Scope, keep: &[bool]) -> Box<[Encode]> {
        let nodes = encodes(self, plan, (stream.0, 0), &[scope]);
        only_kept(nodes, plan, keep)
    }

    /// The id of an event whose class stands for many, a class of its own in the output.
    pub(super) fn own_id(&mut self, class: EventClassId, id: u32, name: &[u8]) -> u64 {
        let known = &self.events[class.0 as usize].own_ids;
        if let Some(&id) = known.get(&(id, name.to_vec())) {
            return id;
        }
        let first = self.events[class.0 as usize].id;
        let of_first = self.to.stream(self.from.event(class).stream).events.get(&first).copied();
        let mut copy = match of_first {
            Some(of_first) => self.to.event(of_first).clone(),
            None => EventClass::new(first, self.from.event(class).stream),
        };
        copy.name = Some(String::from_utf8_lossy(name).into());
        let taken = &self.to.stream(copy.stream).events;
        let mut free = u64::from(id);
        while taken.contains_key(&free) {
            free += 1 << 32;
        }
        copy.id = free;
        self.to.add_event(copy);
        self.events[class.0 as usize].own_ids.insert((id, name.to_vec()), free);
        free
    }
}

/// Counts the names that CTF 1.8 has no place for.
fn count_names(from: &Schema, losses: &mut Losses) {
    let streams = from.streams().iter().flat_map(|class| [&class.name, &class.namespace, &class.uid]);
    let events = from.events().iter().flat_map(|class| [&class.namespace, &class.uid]);
    let clocks = from.clocks().iter().flat_map(|clock| [&clock.namespace]);
    let trace = [&from.name, &from.namespace, &from.uid];
    let names = streams.chain(events).chain(clocks).chain(trace).flatten().count();
    losses.add(Lost::Names, names as u64);
}

/// Writes nothing of the members of a root that are not kept.
fn only_kept(mut nodes: Box<[Encode]>, plan: &Plan, keep: &[bool]) -> Box<[Encode]> {
    let Some(root) = plan.roots.iter().flatten().next().copied() else { return nodes };
    let tops: Vec<u32> =
        (0..plan.nodes.len() as u32).filter(|&at| at != root && plan.nodes[at as usize].parent == root).collect();
    for at in 0..plan.nodes.len() as u32 {
        let mut top = at;
        while top != root && plan.nodes[top as usize].parent != root {
            top = plan.nodes[top as usize].parent;
        }
        let member = tops.iter().position(|&node| node == top);
        if member.is_none_or(|member| keep.get(member) != Some(&true)) {
            nodes[at as usize] = Encode::Nothing;
        }
    }
    nodes
}

/// Do the ids of all streams differ?
pub(super) fn has_own_ids(source: &Source) -> bool {
    let mut known = HashSet::new();
    source.streams.iter().all(|stream| stream.id.is_some_and(|id| known.insert((stream.class, id))))
}

/// First steps of all paths that lead into the scopes of headers.
fn references(schema: &Schema) -> HashSet<tracemill_model::schema::FieldPath> {
    let classes = (0..schema.field_class_count()).map(|at| schema.field_class(FieldClassId(at as u32)));
    classes.filter_map(layout::reference).filter(|path| path.scope < Scope::CommonContext).cloned().collect()
}

type References = HashSet<tracemill_model::schema::FieldPath>;

/// Which members of a header's root are kept: those that hold something without a meaning to CTF, and those that other
/// kept fields refer to. Without `plain` only the latter.
fn kept_members(
    schema: &Schema,
    scope: Scope,
    root: Option<FieldClassId>,
    referenced: &References,
    plain: bool,
) -> Vec<bool> {
    use tracemill_model::schema::PathStep;
    let members = schema.members(root);
    let mut keep: Vec<bool> = members.iter().map(|member| plain && has_plain(schema, member.class)).collect();
    // Members that fields of later scopes refer to; inside this scope only kept fields count.
    let outside = referenced.iter().filter(|path| path.scope == scope);
    for path in outside {
        if let Some(PathStep::Member(at)) = path.steps.first()
            && is_used_by_kept(schema, scope, members, &keep, path)
            && let Some(keep) = keep.get_mut(*at as usize)
        {
            *keep = true;
        }
    }
    keep
}

/// Does a field of a later scope, or a kept member of this one, refer to the path?
fn is_used_by_kept(
    schema: &Schema,
    scope: Scope,
    members: &[Member],
    keep: &[bool],
    path: &tracemill_model::schema::FieldPath,
) -> bool {
    let refers =
        |root: FieldClassId| layout::descendants(schema, root).any(|class| layout::reference(class) == Some(path));
    let inside = members.iter().zip(keep).any(|(member, keep)| *keep && refers(member.class));
    let streams = schema.streams().iter().flat_map(|class| {
        let context = class.packet_context.filter(|_| scope < Scope::PacketContext);
        let header = class.event_header.filter(|_| scope < Scope::EventHeader);
        [context, header, class.common_context]
    });
    let events = schema.events().iter().flat_map(|class| [class.specific_context, class.payload]);
    inside || streams.chain(events).flatten().any(refers)
}

/// Is there a field without a role?
fn has_plain(schema: &Schema, id: FieldClassId) -> bool {
    let class = schema.field_class(id);
    if !class.roles.is_empty() {
        return false;
    }
    let parts = layout::children(class);
    match class.kind {
        // Writers of what the trace was find its members by their places.
        FieldKind::Struct(_) if parts.is_empty() => true,
        FieldKind::Struct(_) | FieldKind::Variant(_) | FieldKind::Optional(_) => {
            parts.into_iter().any(|part| has_plain(schema, part))
        }
        _ => true,
    }
}

fn packet_header(mapper: &mut Mapper<'_>, keep: &[bool], has_stream_ids: bool) -> Result<FieldClassId> {
    let mut members = Vec::new();
    let magic = mapper.unsigned(32);
    members.push(("magic", magic, Role::PacketMagic));
    if mapper.from.uuid.is_some() {
        let length = Length::Static(16);
        let blob = BlobClass::new(length.clone());
        let uuid = match mapper.dialect {
            Dialect::Ctf2 => mapper.add(FieldKind::Blob(blob)),
            Dialect::Ctf18 => {
                let element = mapper.unsigned(8);
                mapper.add(FieldKind::Array(tracemill_model::schema::ArrayClass { element, length }))
            }
        };
        members.push(("uuid", uuid, Role::TraceUuid));
    }
    let class = mapper.unsigned(64);
    members.push(("stream_id", class, Role::StreamClassId));
    if has_stream_ids {
        let id = mapper.unsigned(64);
        members.push(("stream_instance_id", id, Role::StreamId));
    }
    let own = members.into_iter().map(|(name, class, role)| (name, class, Roles::NONE.with(role))).collect();
    own_and_kept(mapper, Scope::PacketHeader, own, mapper.from.packet_header, keep)
}

/// A structure of our members and those that are kept.
fn own_and_kept(
    mapper: &mut Mapper<'_>,
    scope: Scope,
    own: Vec<(&'static str, FieldClassId, Roles)>,
    root: Option<FieldClassId>,
    keep: &[bool],
) -> Result<FieldClassId> {
    let mut members = Vec::new();
    let mut taken = HashSet::new();
    for (name, class, roles) in own {
        let class = mapper.to.add_field_class(mapper.to.field_class(class).clone().with_roles(roles));
        taken.insert(Arc::from(name));
        members.push(Member::new(name, class));
    }
    let from = mapper.from;
    let mut places = vec![None; keep.len()];
    let kept = places.iter_mut().zip(keep).filter(|(_, keep)| **keep);
    for (next, (place, _)) in (members.len() as u32..).zip(kept) {
        *place = Some(next);
    }
    match scope {
        Scope::PacketHeader => mapper.moved.header = places,
        _ => mapper.moved.context = places,
    }
    mapper.scope = scope;
    let kept = mapper.members(from.members(root), |at| keep.get(at) == Some(&true))?;
    members.extend(kept.iter().map(|of| Member::new(free_name(&of.name, &of.raw_name, &mut taken), of.class)));
    Ok(mapper.structure(members))
}

fn map_stream(
    mapper: &mut Mapper<'_>,
    (class, own_id): (&StreamClass, u64),
    referenced: &References,
    at: usize,
    used: bool,
) -> Result<(StreamMapping, MovedRoots)> {
    let from = mapper.from;
    let is_kept = |clock: &ClockId| mapper.dialect == Dialect::Ctf2 || from.clock(*clock).frequency > 0;
    let clock = class.default_clock.filter(is_kept);
    if class.default_clock.is_some() && clock.is_none() && used {
        mapper.losses.add(Lost::UnknownRates, 1);
    }
    mapper.roots = from.stream_roots(class);
    let keeps_context = kept_members(from, Scope::PacketContext, class.packet_context, referenced, true);
    let has_own_cpu = from.members(class.packet_context).iter().any(|member| &*member.name == "cpu_id");
    let has_cpu = class.has_cpu && !has_own_cpu;
    let mut own = Vec::new();
    for (name, len_bits, roles) in context_members(clock.is_some(), has_cpu) {
        own.push((name, mapper.unsigned(len_bits), roles));
    }
    let context = own_and_kept(mapper, Scope::PacketContext, own, class.packet_context, &keeps_context)?;
    let id_bits = id_bits(from, class);
    let mut members = vec![own_member(mapper, "id", id_bits.into(), Role::EventClassId)];
    if clock.is_some() {
        members.push(own_member(mapper, "timestamp", 64, Role::Timestamp));
    }
    // A field that may be absent means something by being there.
    let may_be_absent = class.event_header.is_some_and(|root| has_optional(from, root));
    let keeps_event_header = may_be_absent && mapper.dialect == Dialect::Ctf2
        || kept_members(from, Scope::EventHeader, class.event_header, referenced, true).contains(&true);
    // babeltrace2 does not bear other fields in the header of CTF 1.8; the bytes right after it are the context's.
    let is_in_context = mapper.dialect == Dialect::Ctf18;
    let place = if is_in_context { 0 } else { members.len() as u32 };
    mapper.moved.event_header = keeps_event_header.then_some(place);
    let stored = class.event_header.filter(|_| keeps_event_header);
    let stored = stored.map(|root| mapper.root(Scope::EventHeader, root)).transpose()?;
    let stored = stored.map(|class| Member::new(STORED, class));
    members.extend(stored.clone().filter(|_| !is_in_context));
    let header = mapper.structure(members);
    let mut common_context = class.common_context.map(|root| mapper.root(Scope::CommonContext, root)).transpose()?;
    if let Some(stored) = stored.filter(|_| is_in_context) {
        common_context = Some(prepend_member(mapper, stored, common_context));
    }
    let moved = mapper.moved.clone();
    debug_assert_eq!(mapper.to.streams().len(), at);
    mapper.to.add_stream(StreamClass {
        id: own_id,
        has_no_id: false,
        default_clock: clock,
        has_cpu: false,
        packet_context: Some(context),
        event_header: Some(header),
        common_context,
        events: HashMap::new(),
        ..class.clone()
    });
    let mapping = StreamMapping {
        id: own_id,
        has_clock: clock.is_some(),
        clock,
        in_ns: None,
        has_cpu,
        id_bits,
        keeps_event_header,
        header_nodes: None,
        keeps_context,
    };
    Ok((mapping, moved))
}

/// The size of the ids of events of a class of streams.
fn id_bits(from: &Schema, class: &StreamClass) -> u8 {
    let is_open = class.events.values().any(|event| from.event(*event).open_ids.is_some());
    match class.events.keys().max().copied().unwrap_or(0) {
        _ if is_open => 64,
        0..=0xffff => 16,
        0x1_0000..=0xffff_ffff => 32,
        _ => 64,
    }
}

/// A number that the output adds, with its meaning.
fn own_member(mapper: &mut Mapper<'_>, name: &str, len_bits: u32, role: Role) -> Member {
    let class = mapper.unsigned(len_bits);
    let class = mapper.to.field_class(class).clone().with_roles(Roles::NONE.with(role));
    Member::new(name, mapper.to.add_field_class(class))
}

/// A structure of a member and those of another structure after it.
fn prepend_member(mapper: &mut Mapper<'_>, first: Member, rest: Option<FieldClassId>) -> FieldClassId {
    let mut taken = HashSet::from([first.name.clone()]);
    let mut members = vec![first];
    let rest = mapper.to.members(rest).iter();
    members.extend(rest.map(|of| Member::new(free_name(&of.name, &of.raw_name, &mut taken), of.class)));
    mapper.structure(members)
}

/// Is a member of a header optional?
fn has_optional(schema: &Schema, root: FieldClassId) -> bool {
    let is_optional = |member: &Member| matches!(schema.field_class(member.class).kind, FieldKind::Optional(_));
    schema.members(Some(root)).iter().any(is_optional)
}

fn map_event(mapper: &mut Mapper<'_>, class: &EventClass, id: u64) -> Result<EventMapping> {
    let from = mapper.from;
    mapper.roots = from.event_roots(class);
    mapper.scope = Scope::SpecificContext;
    let mut members = mapper.members(from.members(class.specific_context), |_| true)?;
    mapper.selectors = Some(Selectors::default());
    mapper.selectors_at = members.len() as u32;
    let payload = class.payload.map(|root| mapper.root(Scope::Payload, root)).transpose()?;
    let selectors = mapper.selectors.take().unwrap_or_default();
    if selectors.bytes > 0 {
        let mut flags = Vec::new();
        for (name, bytes) in &selectors.members {
            let class = match bytes {
                1 => mapper.boolean(),
                _ => mapper.unsigned(64),
            };
            flags.push(Member::new(name.clone(), class));
        }
        let flags = mapper.structure(flags);
        let mut taken: HashSet<Arc<str>> = members.iter().map(|member| member.name.clone()).collect();
        let name = free_name(&"selectors".into(), &"selectors".into(), &mut taken);
        members.push(Member::new(name, flags));
    }
    let has_context = class.specific_context.is_some() || !members.is_empty();
    let specific_context = has_context.then(|| mapper.structure(members));
    if mapper.dialect == Dialect::Ctf18 && class.name.as_deref() == Some("") {
        mapper.losses.add(Lost::EmptyNames, 1);
    }
    let is_untimed = class.is_untimed && mapper.dialect == Dialect::Ctf2;
    if class.is_untimed && !is_untimed {
        mapper.losses.add(Lost::UntimedClasses, 1);
    }
    let mapped = EventClass { id, specific_context, payload, is_untimed, open_ids: None, ..class.clone() };
    mapper.to.add_event(mapped);
    Ok(EventMapping {
        id,
        selectors: selectors.bytes.into(),
        is_untimed: class.is_untimed,
        is_open: class.open_ids.is_some(),
        ..EventMapping::default()
    })
}

/// A clock moved by the corrections of the user, in a dialect that has a place for them.
pub(super) fn moved_clock(clock: &ClockClass, correction_ns: i64) -> ClockClass {
    let (frequency, unit) = (i128::from(clock.frequency.max(1)), i128::from(clock.seconds.max(1)));
    let offset_ns = i128::from(clock.offset_ns) + i128::from(correction_ns);
    let rest = offset_ns.rem_euclid(NS_PER_SECOND);
    let (mut cycles, mut ns) = (clock.offset_cycles, rest);
    if rest * frequency % (NS_PER_SECOND * unit) == 0 {
        cycles += rest * frequency / (NS_PER_SECOND * unit);
        ns = 0;
    }
    let units = cycles.div_euclid(frequency) * unit;
    let seconds = i128::from(clock.offset_seconds) + offset_ns.div_euclid(NS_PER_SECOND) + units;
    ClockClass {
        offset_seconds: seconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
        offset_cycles: cycles.rem_euclid(frequency),
        offset_ns: ns as i64,
        ..clock.clone()
    }
}

/// Gives the output the clocks of a source. Those whose values become ns have a map.
fn add_clocks(dialect: Dialect, source: &Source, to: &mut Schema, losses: &mut Losses) -> Vec<Option<InNs>> {
    let mut add = |clock| {
        let (mapped, map) = match dialect {
            Dialect::Ctf2 if source.drift.is_none() => (moved_clock(clock, source.correction_ns), None),
            _ => map_clock(clock, source, losses),
        };
        losses.add(Lost::DistantZeros, matches!(mapped.offset_seconds, i64::MIN | i64::MAX).into());
        to.add_clock(mapped);
        map
    };
    source.schema.clocks().iter().map(&mut add).collect()
}

/// A clock that has the corrections of the user in its offset. Where those are no whole number of cycles, or the
/// frequency is none, it becomes one of nanoseconds, and every value is brought to those: then there is a map, and the
/// time of its zero.
fn map_clock(clock: &ClockClass, source: &Source, losses: &mut Losses) -> (ClockClass, Option<InNs>) {
    let frequency = i128::from(clock.frequency);
    if frequency == 0 {
        return (clock.clone(), None);
    }
    let correction = i128::from(source.correction_ns) + i128::from(clock.offset_ns);
    let rest = correction.rem_euclid(NS_PER_SECOND) * frequency;
    let mapped = |cycles: i128, seconds: i128, frequency: i128| ClockClass {
        frequency: frequency as u64,
        seconds: 1,
        offset_seconds: (seconds + cycles.div_euclid(frequency)).clamp(i64::MIN.into(), i64::MAX.into()) as i64,
        offset_cycles: cycles.rem_euclid(frequency),
        offset_ns: 0,
        has_made_cycles: false,
        ..clock.clone()
    };
    let is_ratio = clock.seconds > 1;
    if is_ratio || source.drift.is_some() || rest % NS_PER_SECOND != 0 {
        let kind = match source.drift {
            Some(_) => Lost::DriftingCycles,
            None if is_ratio => Lost::BrokenCycles,
            None => Lost::ShiftedCycles,
        };
        losses.add(kind, 1);
        let map = source.clock_map(clock);
        let zero_ns = map.ns(0);
        let mapped = ClockClass { precision: None, accuracy: None, ..mapped(zero_ns, 0, NS_PER_SECOND) };
        return (mapped, Some(InNs { map, zero_ns }));
    }
    let cycles = clock.offset_cycles + rest.div_euclid(NS_PER_SECOND);
    let seconds = i128::from(clock.offset_seconds) + correction.div_euclid(NS_PER_SECOND);
    (mapped(cycles, seconds, frequency), None)
}

/// From cycles to ns since the zero of a clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct InNs {
    map: ClockMap,
    zero_ns: i128,
}

impl StreamMapping {
    /// A clock value of the input as the output has it; `None` where that has too few bits.
    #[inline]
    pub(super) fn held_time(&self, cycles: u64) -> Option<u64> {
        match &self.in_ns {
            None => Some(cycles),
            Some(clock) => u64::try_from(clock.map.ns(cycles) - clock.zero_ns).ok(),
        }
    }

    /// A clock value of the input as the output has it, or the last one that the output can say.
    pub(super) fn time(&self, cycles: u64) -> u64 {
        self.held_time(cycles).unwrap_or(u64::MAX)
    }
}
