//! Filters and triggers in uftrace's language: the functions that options name, and the actions at them.
//!
//! `PATTERN@action,action;...`: a pattern names functions, an action says what happens at their calls; a word that is no
//! action is the name of a module. All symbols of a source are looked up once; at a call its rule is found by number.

use std::sync::Arc;

use regex::Regex;
use tracemill_codec::text::nearest;
pub use tracemill_format::calls::PatternKind;
use tracemill_format::calls::{CallSource, CallSymbol, Color};

use crate::text::parse_time;

/// The texts of the options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleTexts {
    /// Functions to show with all that they call (`-F`); after a `!`, to leave out with it (`-N`). In their order.
    pub filters: Vec<String>,
    /// Functions with actions (`-T`).
    pub triggers: Vec<String>,
    /// Functions to show with their callers only (`-C`).
    pub callers: Vec<String>,
    /// Functions to leave out without what they call (`-H`).
    pub hides: Vec<String>,
    /// Source files and folders whose functions are shown (`-L`); after a `!`, left out.
    pub locations: Vec<String>,
    /// How names are matched.
    pub patterns: PatternKind,
    /// Smallest size of a function in bytes (`-Z`); 0 for all.
    pub size: u64,
}

impl RuleTexts {
    fn lists(&self) -> [(RuleKind, &Vec<String>); 5] {
        [
            (RuleKind::Filter, &self.filters),
            (RuleKind::Trigger, &self.triggers),
            (RuleKind::Caller, &self.callers),
            (RuleKind::Hide, &self.hides),
            (RuleKind::Location, &self.locations),
        ]
    }

    /// Do they name no function?
    pub fn is_empty(&self) -> bool {
        self.size == 0 && self.lists().iter().all(|(_, list)| list.is_empty())
    }
}

/// Actions at the calls of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Shown with what it calls, or left out with it.
    pub filter: Option<Filter>,
    /// Filter by the place of its source text, which concerns only the function itself.
    pub location: Option<Filter>,
    /// Depth that is left from here on.
    pub depth: Option<i32>,
    /// Calls below it that take less are left out, in ns.
    pub time: Option<u64>,
    /// Functions below it that are smaller are left out, in bytes.
    pub size: Option<u64>,
    /// From here on everything is shown, or nothing.
    pub tracing: Option<bool>,
    /// Shown even when it takes less than the time filter.
    pub is_traced: bool,
    /// Its callers are shown.
    pub is_caller: bool,
    /// It is left out, without what it calls.
    pub is_hidden: bool,
    /// Its callers are listed before it.
    pub has_backtrace: bool,
    /// Recording ends with it; nothing else does.
    pub is_last: bool,
    /// It is shown in this color.
    pub color: Option<Color>,
}

/// Effect of a filter on a function and all that it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// They are shown, and others are not.
    In,
    /// They are left out.
    Out,
}

impl Filter {
    /// The filter of a name, which loses its `!`.
    fn parse_prefix(name: &mut &str) -> Filter {
        let Some(rest) = name.strip_prefix('!') else { return Filter::In };
        *name = rest;
        Filter::Out
    }
}

/// The color of a name.
fn color(name: &str) -> Option<Color> {
    Some(match name {
        "red" => Color::Red,
        "green" => Color::Green,
        "blue" => Color::Blue,
        "yellow" => Color::Yellow,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "bold" => Color::Bold,
        "gray" => Color::Gray,
        _ => return None,
    })
}

/// The rules of a source's symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    table: Arc<RuleTable>,
    /// Is only shown what a filter lets in?
    pub(crate) is_opt_in: bool,
    /// Is only shown what a filter of source files lets in?
    pub(crate) is_location_opt_in: bool,
    /// Was any filter or trigger typed?
    pub(crate) has_filters: bool,
    /// Are calls left out that do not lead to a caller's function?
    pub(crate) has_callers: bool,
    /// Must the stream hold calls back until their end decides about them?
    pub(crate) delays: bool,
    pub(crate) size: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct RuleTable {
    /// By symbol id: the number of its rule, from 1.
    by_symbol: Vec<u32>,
    rules: Vec<Rule>,
    /// By symbol id, when sizes matter; 0 where none is known.
    sizes: Vec<u64>,
}

/// Kinds of options, as far as they decide which actions count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleKind {
    Filter,
    Trigger,
    Caller,
    Hide,
    Location,
}

/// One `PATTERN@action,action`.
struct RuleItem {
    pattern: Pattern,
    rule: Rule,
    module: Option<String>,
}

enum Pattern {
    Exact(String),
    Regex(Regex),
}

impl Pattern {
    fn matches(&self, name: &str) -> bool {
        match self {
            Pattern::Exact(wanted) => wanted == name,
            Pattern::Regex(regex) => regex.is_match(name),
        }
    }
}

/// Functions that options may name.
pub struct KnownFunctions<'a> {
    /// Numbers of symbols, and what is known of them.
    pub symbols: Vec<(u32, CallSymbol)>,
    /// Names of the modules that are programs.
    pub programs: Vec<&'a str>,
    /// A name as it is stored, in the form in which it is shown.
    pub shown_name: &'a dyn Fn(&str) -> String,
    /// The file with the source text of a symbol.
    pub source_file: &'a dyn Fn(u32) -> Option<String>,
}

impl Rules {
    /// Looks up the functions of the texts. What matches nothing and what means nothing is said in `warnings`.
    pub fn new(source: &dyn CallSource, texts: &RuleTexts, warnings: &mut Vec<String>) -> Rules {
        let mut symbols = Vec::new();
        if !texts.is_empty() {
            source.each_symbol(&mut |id, symbol| symbols.push((id, symbol.clone())));
        }
        let functions = KnownFunctions {
            symbols,
            programs: source.programs().iter().map(|program| program.name.as_str()).collect(),
            shown_name: &|name| source.shown_name(name),
            source_file: &|id| source.source_file(id),
        };
        Rules::for_functions(&functions, texts, warnings)
    }

    /// As [`Rules::new`], for functions that are no trace's.
    pub fn for_functions(functions: &KnownFunctions<'_>, texts: &RuleTexts, warnings: &mut Vec<String>) -> Rules {
        let has_filters = !texts.filters.is_empty() || !texts.triggers.is_empty();
        let mut rules = Rules { size: texts.size, has_filters, ..Rules::default() };
        let lists = texts.lists();
        if texts.is_empty() {
            return rules;
        }
        let symbols = &functions.symbols;
        let count = symbols.iter().map(|&(id, _)| id as usize + 1).max().unwrap_or(0);
        let mut table = RuleTable { by_symbol: vec![0; count], ..RuleTable::default() };
        for (kind, list) in lists {
            if list.is_empty() {
                continue;
            }
            for text in list.iter().flat_map(|list| list.split(';')).map(str::trim).filter(|text| !text.is_empty()) {
                let Some(item) = RuleItem::read(functions, text, kind, texts.patterns, warnings) else { continue };
                let has_match = item.apply(functions, &mut table);
                if !has_match {
                    let meant = item.suggestion(functions).map(|meant| format!("; did you mean `{meant}`?"));
                    warnings.push(format!("`{text}` matches no function{}", meant.unwrap_or_default()));
                }
                rules.is_opt_in |= has_match && item.rule.filter == Some(Filter::In);
                rules.is_location_opt_in |= has_match && item.rule.location == Some(Filter::In);
            }
            // As in uftrace the options after one that matches nothing are not looked at.
            if table.rules.is_empty() {
                break;
            }
        }
        rules.has_callers = table.rules.iter().any(|rule| rule.is_caller);
        let is_delaying = |rule: &Rule| rule.time.is_some() || rule.size.is_some() || rule.is_traced;
        rules.delays = texts.size > 0 || rules.has_callers || table.rules.iter().any(is_delaying);
        if texts.size > 0 || table.rules.iter().any(|rule| rule.size.is_some()) {
            table.sizes = vec![0; count];
            for (id, symbol) in symbols {
                table.sizes[*id as usize] = symbol.size;
            }
        }
        rules.table = Arc::new(table);
        rules
    }

    /// Is only shown what a filter lets in?
    pub fn is_opt_in(&self) -> bool {
        self.is_opt_in
    }

    /// Is a function with this rule for its source file hidden, though not what it calls?
    #[inline]
    pub fn hides_location(&self, location: Option<Filter>) -> bool {
        location.map_or(self.is_location_opt_in, |filter| filter == Filter::Out)
    }

    /// The rule of a symbol.
    #[inline]
    pub fn for_symbol(&self, symbol: u32) -> Option<&Rule> {
        match self.table.by_symbol.get(symbol as usize) {
            Some(&number) if number > 0 => self.table.rules.get(number as usize - 1),
            _ => None,
        }
    }

    /// The size of a function, `None` when it is not known.
    pub(crate) fn size_of(&self, symbol: u32) -> Option<u64> {
        self.table.sizes.get(symbol as usize).copied().filter(|&size| size > 0)
    }

    /// Are there triggers from which on everything is shown, or nothing?
    pub(crate) fn has_switches(&self) -> bool {
        self.table.rules.iter().any(|rule| rule.tracing.is_some())
    }

    /// Is there any rule for calls?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.rules.is_empty()
    }
}

impl RuleItem {
    fn read(
        functions: &KnownFunctions<'_>,
        text: &str,
        kind: RuleKind,
        patterns: PatternKind,
        warnings: &mut Vec<String>,
    ) -> Option<RuleItem> {
        let (mut name, actions) = text.split_once('@').unwrap_or((text, ""));
        let mut rule = Rule::default();
        let mut module = None;
        for action in actions.split(',').map(str::trim).filter(|action| !action.is_empty()) {
            match rule.apply_action(action, kind) {
                Ok(true) => {}
                Ok(false) if module.is_none() => module = Some(action.to_string()),
                Ok(false) => warnings.push(format!("`{action}` is a second module, in `{text}`")),
                Err(reason) => {
                    warnings.push(format!("{reason}, in `{text}`"));
                    if action.to_ascii_lowercase().starts_with("depth=") {
                        return None;
                    }
                }
            }
        }
        match kind {
            RuleKind::Filter => rule.filter = Some(Filter::parse_prefix(&mut name)),
            RuleKind::Trigger => {}
            RuleKind::Caller => rule.is_caller = true,
            RuleKind::Hide => rule.is_hidden = true,
            RuleKind::Location => {
                rule.location = Some(Filter::parse_prefix(&mut name));
                return Some(RuleItem { pattern: location_pattern(name, patterns), rule, module });
            }
        }
        Some(RuleItem { pattern: pattern(&(functions.shown_name)(name), patterns), rule, module })
    }

    /// The function that was probably meant by a name that none has: one of this name in a namespace, or the nearest.
    fn suggestion<'f>(&self, functions: &'f KnownFunctions<'_>) -> Option<&'f str> {
        let Pattern::Exact(wanted) = &self.pattern else { return None };
        let names = || functions.symbols.iter().map(|(_, symbol)| symbol.name.as_str());
        let is_inside = |name: &&str| name.strip_suffix(wanted.as_str()).is_some_and(|space| space.ends_with("::"));
        names().filter(is_inside).min().or_else(|| nearest(wanted, names()))
    }

    /// Adds the rule to the functions that it names; false when there are none.
    fn apply(&self, functions: &KnownFunctions<'_>, table: &mut RuleTable) -> bool {
        let (symbols, programs) = (&functions.symbols, &functions.programs);
        let module = self.module.as_deref();
        let is_linkage = module.is_some_and(|module| module.eq_ignore_ascii_case("plt"));
        let is_kernel = module.is_some_and(|module| matches!(module, "k" | "kernel"));
        // The first module whose name begins so.
        let wanted = module.and_then(|prefix| {
            let mut names = symbols.iter().filter_map(|(_, symbol)| symbol.module.as_deref());
            names.find(|name| name.starts_with(prefix))
        });
        let mut has_match = false;
        for (id, symbol) in symbols {
            let of = symbol.module.as_deref();
            let is_in_module = match module {
                // Functions of the kernel are meant when they are asked for.
                None => of != Some(KERNEL),
                Some(_) if is_linkage => symbol.is_library_call && of.is_some_and(|of| programs.contains(&of)),
                Some(_) if is_kernel => of == Some(KERNEL),
                Some(_) => wanted.is_some() && of == wanted,
            };
            let matches = match self.rule.location {
                None => self.pattern.matches(&symbol.name),
                Some(_) => (functions.source_file)(*id).is_some_and(|file| self.pattern.matches(&file)),
            };
            if !is_in_module || !matches {
                continue;
            }
            has_match = true;
            let number = &mut table.by_symbol[*id as usize];
            if *number == 0 {
                table.rules.push(Rule::default());
                *number = table.rules.len() as u32;
            }
            table.rules[*number as usize - 1].add(&self.rule);
        }
        has_match
    }
}

/// Name that sources give to the module of the kernel's functions.
const KERNEL: &str = "[kernel]";

impl Rule {
    /// Takes an action; false when the word is none. Actions that an option does not know are passed over.
    fn apply_action(&mut self, action: &str, kind: RuleKind) -> Result<bool, String> {
        let lower = action.to_ascii_lowercase();
        let is_one_of = |names: &[&str]| names.iter().any(|name| lower.starts_with(name));
        let value = |name: &str| lower.starts_with(name).then(|| &action[name.len()..]);
        // Words are matched by their beginnings, as in uftrace. What was recorded decides about values, and actions of
        // recording come too late.
        if is_one_of(&["arg", "fparg", "retval", "finish", "read=", "recover", "auto-args"]) {
            self.is_last |= lower.starts_with("finish") && kind == RuleKind::Trigger;
            return Ok(true);
        }
        let is_of_trigger = is_one_of(&["trace", "color=", "backtrace"]);
        if kind != RuleKind::Trigger && (kind != RuleKind::Filter || is_of_trigger) {
            let of_filters = ["filter", "notrace", "depth=", "time=", "size=", "caller", "hide"];
            return Ok(is_of_trigger || is_one_of(&of_filters));
        }
        if lower.starts_with("filter") {
            self.filter = Some(Filter::In);
        } else if lower.starts_with("notrace") {
            self.filter = Some(Filter::Out);
        } else if let Some(depth) = value("depth=") {
            let known = depth.parse().ok().filter(|depth| (0..=65_535).contains(depth));
            self.depth = Some(known.ok_or_else(|| format!("`{depth}` is not a depth"))?);
        } else if let Some(time) = value("time=") {
            self.time = Some(parse_time(time).ok_or_else(|| format!("`{time}` is not a time"))?);
        } else if let Some(size) = value("size=") {
            self.size = Some(size.parse().map_err(|_| format!("`{size}` is not a size"))?);
        } else if lower.starts_with("caller") {
            self.is_caller = true;
        } else if lower.starts_with("hide") {
            self.is_hidden = true;
        } else if let Some(what) = value("trace") {
            match what.trim_start_matches(['_', '-']).to_ascii_lowercase().as_str() {
                "" => self.is_traced = true,
                "on" => self.tracing = Some(true),
                "off" => self.tracing = Some(false),
                _ => return Err(format!("`{action}` is no action")),
            }
        } else if let Some(name) = value("color=") {
            self.color = Some(color(name).ok_or_else(|| format!("`{name}` is not a color"))?);
        } else if lower.starts_with("backtrace") {
            self.has_backtrace = true;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Adds another rule for the same function.
    fn add(&mut self, other: &Rule) {
        self.filter = other.filter.or(self.filter);
        self.location = other.location.or(self.location);
        self.depth = other.depth.or(self.depth);
        self.time = other.time.or(self.time);
        self.size = other.size.or(self.size);
        self.tracing = other.tracing.or(self.tracing);
        self.color = other.color.or(self.color);
        self.is_traced |= other.is_traced;
        self.is_caller |= other.is_caller;
        self.is_hidden |= other.is_hidden;
        self.has_backtrace |= other.has_backtrace;
        self.is_last |= other.is_last;
    }
}

fn pattern(name: &str, kind: PatternKind) -> Pattern {
    kind.expression(name).map_or_else(|| Pattern::Exact(name.to_string()), Pattern::Regex)
}

/// The pattern of a file, or of a folder that it is in.
fn location_pattern(name: &str, kind: PatternKind) -> Pattern {
    if PatternKind::has_pattern(name) {
        return pattern(name, kind);
    }
    let name = name.strip_suffix('/').unwrap_or(name);
    let name = name.strip_prefix('/').unwrap_or(name);
    Regex::new(&format!("{}($|(/.*))", regex::escape(name)))
        .map_or_else(|_| Pattern::Exact(name.into()), Pattern::Regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(text: &str, kind: PatternKind, name: &str) -> bool {
        pattern(text, kind).matches(name)
    }

    #[test]
    fn patterns_are_names_expressions_or_globs() {
        assert!(matches("main", PatternKind::Regex, "main") && !matches("main", PatternKind::Regex, "main2"));
        assert!(matches("^a.c", PatternKind::Regex, "abcd") && !matches("^a.c", PatternKind::Regex, "xabc"));
        assert!(matches("a*[!x]", PatternKind::Glob, "abc") && !matches("a*[!x]", PatternKind::Glob, "abx"));
        assert!(!matches("a?", PatternKind::Glob, "abc") && matches("a[", PatternKind::Glob, "a["));
        // A pattern that is not a valid expression is a name.
        assert!(matches("a(", PatternKind::Regex, "a("));
    }

    #[test]
    fn actions_count_where_their_option_knows_them() {
        let mut rule = Rule::default();
        assert_eq!(rule.apply_action("depth=3", RuleKind::Filter), Ok(true));
        assert_eq!(rule.apply_action("trace_off", RuleKind::Filter), Ok(true));
        assert_eq!((rule.depth, rule.tracing), (Some(3), None));
        assert_eq!(rule.apply_action("Trace-Off", RuleKind::Trigger), Ok(true));
        assert_eq!(rule.apply_action("time=2us", RuleKind::Trigger), Ok(true));
        assert_eq!((rule.tracing, rule.time), (Some(false), Some(2000)));
        assert_eq!(rule.apply_action("libfoo", RuleKind::Trigger), Ok(false));
        assert!(
            rule.apply_action("depth=x", RuleKind::Trigger).is_err()
                && rule.apply_action("color=pink", RuleKind::Trigger).is_err()
        );
        assert_eq!(rule.apply_action("hide", RuleKind::Caller), Ok(true));
        assert!(!rule.is_hidden);
    }
}
