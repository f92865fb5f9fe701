//! Titles of events: what a page shows for one instead of its name. Where a call begins or ends it is the call's name, in
//! event logs the rendered text.

use std::collections::HashMap;

use tracemill_engine::session::Session;
use tracemill_model::schema::EventClassId;
use tracemill_semantics::{EventShape, Semantics, names};

use crate::fields::FieldAnswer;

/// Fields of event logs that are rendered: the text of a whole event, and that of its datum, before which its name stands.
const TEXT: &str = "text";
const DATUM_TEXT: &str = "datum_text";

/// The known classes of each trace.
#[derive(Default)]
pub(crate) struct Titles(HashMap<usize, Semantics>);

impl Titles {
    /// The title of an event of a class, with its name and its fields. `None` when that is its name.
    pub(crate) fn title(
        &mut self,
        session: &Session,
        trace: usize,
        class: EventClassId,
        (name, fields): (Option<&str>, &[FieldAnswer]),
    ) -> Option<String> {
        let name = name.unwrap_or_default();
        let field = |name: &str| fields.iter().find(|field| field.path.strip_prefix("payload.") == Some(name));
        let text = |name: &str| field(name).filter(|field| field.kind == "string").map(|field| &*field.text);
        if field(names::TRACK.1).is_some() {
            let datum = || text(DATUM_TEXT).filter(|text| !text.is_empty()).map(|text| format!("{name}: {text}"));
            return text(TEXT).map(str::to_string).or_else(datum);
        }
        let semantics = self.0.entry(trace).or_insert_with(|| Semantics::new(&session.traces[trace].schema));
        let (shape, title) = semantics.shape(class);
        if shape == EventShape::Instant {
            return None;
        }
        let address = || {
            semantics.call(class)?;
            let number = |name: &&str| field(name).filter(|field| field.kind == "integer")?.text.parse::<u64>().ok();
            let found = names::ADDRESS.iter().find_map(number)?;
            Some(format!("{found:#x}"))
        };
        let symbol = text(names::SYMBOL).map(str::to_string);
        symbol.or_else(address).or(Some(title)).filter(|title| title != name && !title.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracemill_model::schema::{EventClass, Schema, StreamClass};

    use super::*;

    #[test]
    fn calls_have_their_names_and_logs_their_texts() {
        let mut schema = Schema::new("example");
        let stream = schema.add_stream(StreamClass::default()).unwrap();
        let mut ids = 0..;
        let classes = ["entry", "exit", "irq_handler_entry", "irq_handler_exit", "plain", "pallet %d"].map(|name| {
            let class = EventClass { name: Some(name.into()), ..EventClass::new(ids.next().unwrap(), stream) };
            (name, schema.add_event(class).unwrap())
        });
        let mut titles = Titles(HashMap::from([(0, Semantics::new(&Arc::new(schema)))]));
        let mut title = |at: usize, payload: &[(&str, &str)]| {
            let (name, class) = classes[at];
            let field = |(name, text): &(&str, &str)| {
                let kind = if text.parse::<u64>().is_ok() { "integer" } else { "string" };
                FieldAnswer { path: format!("payload.{name}"), text: (*text).to_string(), kind }
            };
            let fields: Vec<FieldAnswer> = payload.iter().map(field).collect();
            titles.title(&Session::default(), 0, class, (Some(name), &fields))
        };
        assert_eq!(title(0, &[("symbol", "main")]).as_deref(), Some("main"));
        assert_eq!(title(3, &[]).as_deref(), Some("irq_handler"));
        assert_eq!(title(4, &[("symbol", "main")]), None);
        let logged = [("track", "0"), ("track_name", "foreman"), ("text", "pallet 0")];
        assert_eq!(title(5, &logged).as_deref(), Some("pallet 0"));
        let datum = [("track", "0"), ("track_name", "belt 0"), ("datum_text", "on")];
        assert_eq!(title(4, &datum).as_deref(), Some("plain: on"));
    }
}
