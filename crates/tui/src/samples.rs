//! Samples, which report and graph show where there are no calls.

use std::collections::HashSet;

use tracemill_answers::{SampleChoice, SampleStacks, TraceState};

use crate::range::Range;

/// The event whose samples are shown, and all that have some.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SampledEvents {
    pub(crate) event: String,
    pub(crate) events: Vec<String>,
}

impl SampledEvents {
    fn new(stacks: &SampleStacks) -> SampledEvents {
        SampledEvents { event: stacks.event.clone(), events: stacks.events.clone() }
    }

    /// The event after the one that is shown; `None` when it is the only one.
    pub(crate) fn next(&self) -> Option<&str> {
        let at = self.events.iter().position(|event| *event == self.event)?;
        (self.events.len() > 1).then(|| &*self.events[(at + 1) % self.events.len()])
    }
}

/// Sums of a function.
pub(crate) struct SampledFunction {
    pub(crate) name: String,
    pub(crate) samples: u64,
    pub(crate) total: u64,
    pub(crate) own: u64,
}

/// The samples of a range, of an event or of the one that has the most; `None` when there are none, or there are calls. Reads the
/// trace.
pub(crate) fn stacks(
    state: &TraceState,
    range: Option<Range>,
    event: Option<&str>,
) -> Option<(SampleStacks, SampledEvents)> {
    if state.calls().is_some() || !state.has_samples() {
        return None;
    }
    let choice = SampleChoice { range, event, ..SampleChoice::default() };
    let found = SampleStacks::collect(state, &choice, &|| false).filter(|stacks| stacks.nodes.len() > 1)?;
    let events = SampledEvents::new(&found);
    Some((found, events))
}

/// The functions of samples. A sample counts once for each, however often it is on the stack.
pub(crate) fn functions(stacks: &SampleStacks) -> Vec<SampledFunction> {
    let mut numbers = std::collections::HashMap::new();
    let mut functions: Vec<SampledFunction> = Vec::new();
    // By node: its function.
    let mut of_nodes: Vec<usize> = vec![0; stacks.nodes.len()];
    for (at, node) in stacks.nodes.iter().enumerate().skip(1) {
        let number = *numbers.entry((&*node.name, &*node.module)).or_insert_with(|| {
            functions.push(SampledFunction { name: node.name.clone(), samples: 0, total: 0, own: 0 });
            functions.len() - 1
        });
        of_nodes[at] = number;
        functions[number].own = functions[number].own.saturating_add(node.own);
    }
    // The functions on the way to a node, from the root; callers stand before what they call.
    let mut way: Vec<usize> = Vec::new();
    let mut open: HashSet<usize> = HashSet::new();
    for (at, node) in stacks.nodes.iter().enumerate().skip(1) {
        while way.last().is_some_and(|&last| last != node.parent) {
            let last = way.pop().unwrap_or_default();
            // An outer node of the same function keeps it open.
            if !way.iter().any(|&outer| of_nodes[outer] == of_nodes[last]) {
                open.remove(&of_nodes[last]);
            }
        }
        way.push(at);
        if open.insert(of_nodes[at]) {
            let function = &mut functions[of_nodes[at]];
            function.total = function.total.saturating_add(node.total);
            function.samples += node.samples;
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use tracemill_answers::SampleStack;

    use super::*;

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let node = |parent, name: &str, total, own| SampleStack {
            parent,
            name: name.to_string(),
            module: String::new(),
            samples: total / 10,
            total,
            own,
        };
        // main calls a (which calls b, which calls a) and b.
        let nodes = vec![
            node(0, "", 100, 0),
            node(0, "main", 100, 10),
            node(1, "a", 60, 10),
            node(2, "b", 50, 20),
            node(3, "a", 30, 30),
            node(1, "b", 30, 30),
        ];
        let stacks = SampleStacks { event: "x".into(), events: vec!["x".into()], unit: "ns", nodes };
        let found: Vec<_> = functions(&stacks).into_iter().map(|of| (of.name, of.samples, of.total, of.own)).collect();
        let row = |name: &str, samples, total, own| (name.to_string(), samples, total, own);
        assert_eq!(found, [row("main", 10, 100, 10), row("a", 6, 60, 40), row("b", 8, 80, 50)]);
    }
}
