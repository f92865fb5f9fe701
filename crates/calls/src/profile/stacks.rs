//! Profiles whose samples moved to other stacks: without a level of groups, as options select functions, of callers and of callees.

use tracemill_format::calls::CallSymbol;

use super::{Profile, ProfileBuilder};
use crate::rules::{Filter, KnownFunctions, RuleTexts, Rules};

impl Profile {
    /// The profile without a level of groups.
    pub(super) fn without_group(&self, level: usize) -> Profile {
        let mut by = self.by.clone();
        by.remove(level);
        let profile = self.rebuilt(|path| {
            path.remove(level);
        });
        Profile { by, ..profile }
    }

    /// Moves the samples to other stacks: `change` gets the nodes of each stack, the outermost first, without the root.
    fn rebuilt(&self, change: impl Fn(&mut Vec<usize>)) -> Profile {
        let mut builder = ProfileBuilder::new();
        let labels: Vec<u32> = self.labels.iter().map(|label| builder.label(label.clone())).collect();
        let mut path = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.own_samples > 0) {
            path.clear();
            let mut from = at;
            while from > 0 {
                path.push(from);
                from = self.nodes[from].parent;
            }
            path.reverse();
            change(&mut path);
            let mut here = 0;
            for &step in &path {
                here = builder.node(here, labels[self.nodes[step].label as usize]);
            }
            builder.add(here, node.own, node.own_samples);
        }
        let Profile { by, unit, events, unnamed, cpu, .. } = self.clone();
        Profile { by, unit, events, unnamed, cpu, ..builder.finish() }
    }

    /// The profile as options select functions: `-F` begins stacks at a function and leaves out those without it, `-N` ends them
    /// before one, `-C` leaves out those without it and what it calls, `-H` leaves single functions out; no stack is deeper than
    /// `depth`. Samples whose stacks end early count for their last function; those that are left out count for nothing.
    #[must_use]
    pub fn selected(self, texts: &RuleTexts, depth: Option<usize>, warnings: &mut Vec<String>) -> Profile {
        if texts.is_empty() && depth.is_none() {
            return self;
        }
        let symbols = self.labels.iter().zip(0..).map(|(label, id)| {
            let (name, module) = (label.name.to_string(), Some(label.module.to_string()));
            (id, CallSymbol { name, module, is_library_call: label.name.ends_with("@plt"), size: 0 })
        });
        let functions = KnownFunctions {
            symbols: symbols.collect(),
            programs: Vec::new(),
            shown_name: &|name| name.to_string(),
            source_file: &|_| None,
        };
        let rules = Rules::for_functions(&functions, texts, warnings);
        let groups = self.by.len();
        let mut kept = self.clone();
        let rule = |node: usize| rules.for_symbol(self.nodes[node].label);
        let is_out = |path: &[usize]| {
            let is = |wanted: fn(&crate::rules::Rule) -> bool| path.iter().any(|&node| rule(node).is_some_and(wanted));
            rules.is_opt_in() && !is(|rule| rule.filter == Some(Filter::In))
                || rules.has_callers && !is(|rule| rule.is_caller)
        };
        for at in 0..kept.nodes.len() {
            let mut path = Vec::new();
            let mut from = at;
            while self.nodes[from].depth > groups {
                path.push(from);
                from = self.nodes[from].parent;
            }
            if kept.nodes[at].own_samples > 0 && is_out(&path) {
                (kept.nodes[at].own, kept.nodes[at].own_samples) = (0, 0);
            }
        }
        kept.rebuilt(|path| {
            let mut frames = path.split_off(groups);
            if rules.is_opt_in() {
                let first =
                    frames.iter().position(|&node| rule(node).is_some_and(|rule| rule.filter == Some(Filter::In)));
                frames.drain(..first.unwrap_or(0));
            }
            let is_end = |&node: &usize| rule(node).is_some_and(|rule| rule.filter == Some(Filter::Out));
            let end = frames.iter().position(is_end);
            frames.truncate(end.unwrap_or(frames.len()));
            if rules.has_callers {
                let last = frames.iter().rposition(|&node| rule(node).is_some_and(|rule| rule.is_caller));
                frames.truncate(last.map_or(frames.len(), |last| last + 1));
            }
            frames.retain(|&node| !rule(node).is_some_and(|rule| rule.is_hidden));
            frames.truncate(depth.unwrap_or(usize::MAX));
            path.append(&mut frames);
        })
    }

    /// The callees of functions of these names: stacks from the outermost of them on.
    #[must_use]
    pub fn callees_of(&self, is_it: impl Fn(&str) -> bool) -> Profile {
        let is_it = |&node: &usize| is_it(&self.labels[self.nodes[node].label as usize].name);
        self.with_stacks_of(&is_it, |path, groups| {
            let first = path[groups..].iter().position(is_it).unwrap_or(0);
            path.drain(groups..groups + first);
        })
    }

    /// The callers of functions of these names: stacks from the innermost of them outwards.
    #[must_use]
    pub fn callers_of(&self, is_it: impl Fn(&str) -> bool) -> Profile {
        let is_it = |&node: &usize| is_it(&self.labels[self.nodes[node].label as usize].name);
        self.with_stacks_of(&is_it, |path, groups| {
            let last = path[groups..].iter().rposition(is_it).unwrap_or(0);
            path.truncate(groups + last + 1);
            path[groups..].reverse();
        })
    }

    /// The stacks with a function, changed.
    fn with_stacks_of(&self, is_it: &impl Fn(&usize) -> bool, change: impl Fn(&mut Vec<usize>, usize)) -> Profile {
        let groups = self.by.len();
        let mut kept = self.clone();
        // Callers stand before callees.
        let mut has_it = vec![false; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate().skip(1) {
            has_it[at] = has_it[node.parent] || node.depth > groups && is_it(&at);
        }
        for (node, _) in kept.nodes.iter_mut().zip(&has_it).filter(|(_, has_it)| !**has_it) {
            (node.own, node.own_samples) = (0, 0);
        }
        kept.rebuilt(|path| change(path, groups))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{folded, profile};
    use super::*;

    #[test]
    fn callers_and_callees_of_a_function() {
        let profile = profile("main;f;g 1\nmain;h 2\nmain;x;f;f;h 4\n", &[]);
        assert_eq!(folded(&profile.callees_of(|name| name == "f")), ["f;f;h 4", "f;g 1"]);
        assert_eq!(folded(&profile.callers_of(|name| name == "f")), ["f;f;x;main 4", "f;main 1"]);
        assert_eq!(folded(&profile.callers_of(|name| name == "h")), ["h;f;f;x;main 4", "h;main 2"]);
    }

    #[test]
    fn options_select_functions() {
        let stacks = "main;f;g 1\nmain;h 2\nmain;f;h;g 4\n";
        let selected = |change: fn(&mut RuleTexts), depth| {
            let mut texts = RuleTexts::default();
            change(&mut texts);
            let mut warnings = Vec::new();
            let selected = profile(stacks, &[]).selected(&texts, depth, &mut warnings);
            (folded(&selected), warnings.len())
        };
        let own = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect::<Vec<_>>();
        assert_eq!(selected(|texts| texts.filters.push("f".into()), None), (own(&["f;g 1", "f;h;g 4"]), 0));
        assert_eq!(
            selected(|texts| texts.filters.push("!h".into()), None),
            (own(&["main 2", "main;f 4", "main;f;g 1"]), 0)
        );
        assert_eq!(selected(|texts| texts.callers.push("h".into()), None), (own(&["main;f;h 4", "main;h 2"]), 0));
        assert_eq!(
            selected(|texts| texts.hides.push("f".into()), None),
            (own(&["main;g 1", "main;h 2", "main;h;g 4"]), 0)
        );
        assert_eq!(selected(|_| (), Some(1)), (own(&["main 7"]), 0));
        assert_eq!(selected(|texts| texts.filters.push("nosuch".into()), None).1, 1);
    }
}
