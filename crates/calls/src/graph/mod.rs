//! Calls as trees: which function called which, how often, for how long. What `graph` and the folded stacks of a flame
//! graph print.

mod build;
mod folded;
mod json;
mod print;
mod tree;

pub(crate) use build::is_forked;

pub use folded::{write_folded, write_graphviz, write_mermaid};
pub use json::write_json;
pub use print::write;

/// How a graph looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphOptions {
    /// Columns.
    pub fields: Vec<GraphField>,
    /// Only what this function calls, and who calls it.
    pub function: Option<String>,
    /// Where the source text of functions begins.
    pub source_lines: bool,
}

impl Default for GraphOptions {
    fn default() -> Self {
        GraphOptions { fields: vec![GraphField::Total], function: None, source_lines: false }
    }
}

/// A column of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphField {
    /// Time from entry to exit.
    Total,
    /// Self times: without those of callees.
    Own,
    /// Address.
    Address,
}

impl GraphField {
    /// The names that options use.
    pub const ALL: [(&'static str, GraphField); 6] = [
        ("total-time", GraphField::Total),
        ("self-time", GraphField::Own),
        ("address", GraphField::Address),
        ("total", GraphField::Total),
        ("self", GraphField::Own),
        ("addr", GraphField::Address),
    ];

    fn header(self) -> &'static str {
        match self {
            GraphField::Total => "TOTAL TIME",
            GraphField::Own => " SELF TIME",
            GraphField::Address => "   ADDRESS  ",
        }
    }
}
