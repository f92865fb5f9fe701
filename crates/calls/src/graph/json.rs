//! Trees as JSON.

use std::io::{self, Write};

use tracemill_format::calls::{CallSource, Findings};

use super::GraphOptions;
use super::build::trees;
use super::tree::Flat;
use crate::json::{JsonList, quoted};
use crate::select::CallOptions;

/// Writes graphs as JSON: for each program its ways to the function, and its calls as nodes that name their callers.
///
/// # Errors
/// Errors of the writer.
pub fn write_json(
    source: &dyn CallSource,
    calls: CallOptions,
    options: &GraphOptions,
    out: &mut dyn Write,
) -> io::Result<Findings> {
    let programs = source.programs();
    let (builder, findings) = trees(source, calls, options);
    let mut list = JsonList::new("graphs");
    for (program, tree) in programs.iter().zip(&builder.trees) {
        if tree.is_empty() {
            continue;
        }
        let title = options.function.as_deref().unwrap_or(&program.name);
        let text = list.item();
        *text += &format!(
            "{{\"program\":{},\"session\":{},\"pid\":{}",
            quoted(&program.name),
            quoted(&program.id),
            program.pid
        );
        *text += &format!(",\"function\":{}", options.function.as_deref().map_or("null".to_string(), quoted));
        let frame = |&(address, symbol): &(u64, u32)| {
            format!("{{\"name\":{},\"address\":{address}}}", quoted(&source.symbol(symbol, address).name))
        };
        let ways = tree.ways.iter().rev().map(|way| {
            let frames: Vec<String> = way.frames.iter().map(frame).collect();
            format!("{{\"hits\":{},\"time_ns\":{},\"frames\":[{}]}}", way.hits, way.time, frames.join(","))
        });
        *text += &format!(",\"backtraces\":[{}],\"nodes\":[", ways.collect::<Vec<_>>().join(","));
        for (id, node) in tree.flat(&builder.names, title).into_iter().enumerate() {
            let parent = if id == 0 { "null".to_string() } else { node.parent.to_string() };
            let separator = if id == 0 { "\n" } else { ",\n" };
            let Flat { name, address, calls, total, own, .. } = node;
            *text += &format!(
                "{separator}{{\"id\":{id},\"parent\":{parent},\"name\":{},\"address\":{address},\"calls\":{calls},\
                 \"total_ns\":{total},\"self_ns\":{own}}}",
                quoted(&name)
            );
        }
        *text += "]}";
    }
    list.end(out)?;
    Ok(findings)
}
