//! Definitions as text.

use std::fmt::{self, Display, Formatter};

use super::parser::NAMED;
use super::{EventDefinition, FacilityDefinition, FacilityType, FieldDefinition, Integer, TypeKind};

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

impl Display for FacilityType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let format = self.format.as_ref().map(|format| format!(" format=\"{format}\"")).unwrap_or_default();
        match &self.kind {
            TypeKind::Integer(Integer::Fixed(bytes, true)) => write!(f, "<int_fixed size=\"{bytes}\"{format}/>"),
            TypeKind::Integer(Integer::Fixed(bytes, false)) => write!(f, "<uint_fixed size=\"{bytes}\"{format}/>"),
            TypeKind::Integer(integer) => {
                let name = NAMED.iter().find(|(.., named)| named == integer).map_or("int", |(name, ..)| name);
                write!(f, "<{name}{format}/>")
            }
            TypeKind::Float(bytes) => write!(f, "<float size=\"{bytes}\"{format}/>"),
            TypeKind::Enumeration(labels) => {
                f.write_str("<enum>")?;
                for label in labels.iter() {
                    for (value, _) in &label.ranges {
                        write!(f, "\n<label name=\"{}\" value=\"{value}\"/>", label.label)?;
                    }
                }
                f.write_str("</enum>")
            }
            TypeKind::String => f.write_str("<string/>"),
            TypeKind::Array(len, element) => write!(f, "<array size=\"{len}\">{element}</array>"),
            TypeKind::Sequence(length, element) => write!(f, "<sequence>{length}{element}</sequence>"),
            TypeKind::Struct(fields) => put_all(f, "struct", fields),
            TypeKind::Union(fields) => put_all(f, "union", fields),
        }
    }
}

fn put_all(f: &mut Formatter<'_>, name: &str, fields: &[FieldDefinition]) -> fmt::Result {
    write!(f, "<{name}>")?;
    fields.iter().try_for_each(|field| field.fmt(f))?;
    write!(f, "</{name}>")
}
