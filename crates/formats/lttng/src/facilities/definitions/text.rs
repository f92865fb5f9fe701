//! Definitions as text.

use std::fmt::{self, Display, Formatter};

use super::parser::NAMED;
use super::{EventDefinition, FacilityDefinition, FieldDefinition, Integer, Kind, Type};

impl Display for FacilityDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<?xml version=\"1.0\"?>\n<facility name=\"{}\">\n", self.name)?;
        self.events.iter().try_for_each(|event| event.fmt(f))?;
        f.write_str("</facility>\n")
    }
}

impl Display for EventDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "<event name=\"{}\">", self.name)?;
        if let Some(description) = &self.description {
            write!(f, "<description>{description}</description>")?;
        }
        self.fields.iter().try_for_each(|field| field.fmt(f))?;
        f.write_str("</event>\n")
    }
}

impl Display for FieldDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\n<field name=\"{}\">{}</field>", self.name, self.class)
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let format = self.format.as_ref().map(|format| format!(" format=\"{format}\"")).unwrap_or_default();
        match &self.kind {
            Kind::Integer(Integer::Fixed(bytes, true)) => write!(f, "<int_fixed size=\"{bytes}\"{format}/>"),
            Kind::Integer(Integer::Fixed(bytes, false)) => write!(f, "<uint_fixed size=\"{bytes}\"{format}/>"),
            Kind::Integer(integer) => {
                let name = NAMED.iter().find(|(.., named)| named == integer).map_or("int", |(name, ..)| name);
                write!(f, "<{name}{format}/>")
            }
            Kind::Float(bytes) => write!(f, "<float size=\"{bytes}\"{format}/>"),
            Kind::Enumeration(labels) => {
                f.write_str("<enum>")?;
                for label in labels.iter() {
                    for (value, _) in &label.ranges {
                        write!(f, "\n<label name=\"{}\" value=\"{value}\"/>", label.label)?;
                    }
                }
                f.write_str("</enum>")
            }
            Kind::String => f.write_str("<string/>"),
            Kind::Array(len, element) => write!(f, "<array size=\"{len}\">{element}</array>"),
            Kind::Sequence(length, element) => write!(f, "<sequence>{length}{element}</sequence>"),
            Kind::Struct(fields) => put_all(f, "struct", fields),
            Kind::Union(fields) => put_all(f, "union", fields),
        }
    }
}

fn put_all(f: &mut Formatter<'_>, name: &str, fields: &[FieldDefinition]) -> fmt::Result {
    write!(f, "<{name}>")?;
    fields.iter().try_for_each(|field| field.fmt(f))?;
    write!(f, "</{name}>")
}
