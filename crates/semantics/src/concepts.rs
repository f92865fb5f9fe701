//! Events of kernels, whatever a tracer calls them: the lines of `concepts.txt`.

/// A known event of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Concept {
    /// The concept.
    pub name: &'static str,
    /// The fields of the concept that the event class has, and what the class calls them.
    pub fields: Vec<(&'static str, &'static str)>,
}

impl Concept {
    /// Name in the event class of a field of the concept.
    pub fn field(&self, name: &str) -> Option<&'static str> {
        self.fields.iter().find(|(own, _)| *own == name).map(|(_, field)| *field)
    }
}

/// The concept of the events of this name, of which `has` knows the fields of the payload. Reads the table: ask once for a
/// class.
///
/// ```
/// use tracemill_semantics::concept;
///
/// let switch = concept("sched_switch", |field| ["prev_pid", "next_pid"].contains(&field)).unwrap();
/// assert_eq!((switch.name, switch.field("next")), ("switch", Some("next_pid")));
/// assert_eq!(concept("sched_switch", |_| false), None);
/// ```
pub fn concept(event: &str, has: impl Fn(&str) -> bool) -> Option<Concept> {
    let lines = include_str!("concepts.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(str::split_ascii_whitespace).find_map(|mut words| {
        let (name, events) = (words.next()?, words.next()?);
        if !events.split('|').any(|known| known == event) {
            return None;
        }
        let mut fields = Vec::new();
        for (field, known) in words.filter_map(|word| word.split_once('=')) {
            match known.split('|').find(|field| has(field)) {
                Some(found) => fields.push((field.trim_end_matches('?'), found)),
                None if field.ends_with('?') => {}
                None => return None,
            }
        }
        Some(Concept { name, fields })
    })
}
