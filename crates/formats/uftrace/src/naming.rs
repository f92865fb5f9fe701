//! Which form of a symbol's name is shown.

use std::fmt;

use cpp_demangle::{DemangleOptions, Symbol};

use tracemill_format::Demangle;

use super::demangle::{Parameter, end_of_templated_constructor, parameters_of_template, simple_name};

/// Bytes of a name that is shown: substitutions could make a short symbol as long as anything.
const MAX_NAME: usize = 64 << 10;

/// The name of a symbol in a form; one that is not mangled, or not understood, as it is.
pub(super) fn shown(symbol: &str, form: Demangle) -> String {
    match form {
        Demangle::Simple => simple_name(symbol),
        Demangle::Full => full_name(symbol).unwrap_or_else(|| symbol.to_string()),
        Demangle::No => symbol.to_string(),
    }
}

fn full_name(symbol: &str) -> Option<String> {
    if symbol.starts_with("_R") {
        return rustc_demangle::try_demangle(symbol).ok().map(|name| name.to_string());
    }
    if !symbol.starts_with("_Z") {
        return None;
    }
    // The library takes the first parameter of a templated constructor for what it returns.
    let with_return = end_of_templated_constructor(symbol).map(|end| {
        let (name, parameters) = symbol.split_at(end);
        format!("{name}v{parameters}")
    });
    let mut out = Limited(String::new());
    let parsed = Symbol::new(with_return.as_deref().unwrap_or(symbol)).ok()?;
    let options = DemangleOptions::default();
    // Names inside of functions are shown without what those return.
    let options = if symbol.starts_with("_ZZ") { options.no_return_type() } else { options };
    parsed.structured_demangle(&mut out, &options).ok()?;
    let text =
        parameters_of_template(symbol).and_then(|parameters| with_references(&out.0, &parameters)).unwrap_or(out.0);
    let text = text.replace("std::nullptr_t", "decltype(nullptr)").replace(" complex", " _Complex");
    Some(without_empty_packs(&literals(&literal_operators(&text))))
}

/// The library leaves out what stands behind each type of a pack of parameters, or writes it behind the last one only, or
/// alone where the pack is empty. It leaves it out behind a type, too, that is a lambda with a reference among its own
/// parameters.
fn with_references(text: &str, parameters: &[Parameter]) -> Option<String> {
    let end = text.rfind(')').filter(|&end| {
        text[end + 1..].chars().all(|letter| letter == ' ' || letter == '&' || letter.is_alphabetic())
    })?;
    // Where the top level is left, from behind.
    let (mut depth, mut begin, mut commas) = (0, None, Vec::new());
    for (at, byte) in text.bytes().enumerate().take(end + 1).collect::<Vec<_>>().into_iter().rev() {
        match byte {
            b')' | b'>' | b']' | b'}' => depth += 1,
            b'(' | b'<' | b'[' | b'{' => depth -= 1,
            b',' if depth == 1 => commas.push(at),
            _ => {}
        }
        if depth == 0 {
            begin = Some(at).filter(|_| byte == b'(');
            break;
        }
    }
    let begin = begin?;
    commas.reverse();
    let mut pieces = Vec::new();
    let mut from = begin + 1;
    for at in commas.into_iter().chain([end]) {
        pieces.push(text[from..at].trim_start_matches(' '));
        from = at + 1;
    }
    let count = |parameter: &Parameter| match parameter {
        Parameter::One(_) => 1,
        Parameter::Pack(len, _) => (*len).max(1),
    };
    if parameters.iter().map(count).sum::<usize>() != pieces.len() {
        return None;
    }
    let (mut out, mut at) = (Vec::new(), 0);
    for parameter in parameters {
        let of = &pieces[at..at + count(parameter)];
        at += of.len();
        match *parameter {
            Parameter::One(behind) => out.push(followed(of[0], behind)),
            Parameter::Pack(0, _) => {}
            Parameter::Pack(_, behind) => out.extend(of.iter().map(|one| followed(one, behind))),
        }
    }
    Some(text[..=begin].to_string() + &out.join(", ") + &text[end..])
}

/// A type with what makes it a reference: one that is a reference stays one.
fn followed(one: &str, behind: &str) -> String {
    let behind = if one.ends_with(" const") { behind.trim_start_matches(" const") } else { behind };
    // Of arrays and functions it stands inside.
    let inside = ["&)(", "&) ["].iter().any(|reference| one.contains(reference)) && one.ends_with([']', ')']);
    match behind {
        _ if inside => one.to_string(),
        "&&" if one.ends_with('&') => one.to_string(),
        "&" | " const&" if one.ends_with("&&") => one[..one.len() - 1].to_string(),
        "&" | " const&" if one.ends_with('&') => one.to_string(),
        _ => one.to_string() + behind,
    }
}

/// The library writes the operator of a literal as if its suffix were a scope: `operator_km::operator ""`.
fn literal_operators(text: &str) -> String {
    const SCOPE: &str = "::operator \"\"";
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(SCOPE) {
        let before = &rest[..at];
        let start = before.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_').map_or(0, |at| at + 1);
        match before[start..].strip_prefix("operator") {
            Some(suffix) => out = out + &before[..start] + "operator\"\" " + suffix,
            None => out = out + before + SCOPE,
        }
        rest = &rest[at + SCOPE.len()..];
    }
    out + rest
}

/// Numbers of template arguments with the letters of their types: `(unsigned long)0` as `0ul`.
fn literals(text: &str) -> String {
    const TYPES: [(&str, &str); 5] = [
        ("(unsigned long)", "ul"),
        ("(long)", "l"),
        ("(unsigned int)", "u"),
        ("(long long)", "ll"),
        ("(unsigned long long)", "ull"),
    ];
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('(') {
        let (before, from) = rest.split_at(at);
        out += before;
        let number = TYPES.iter().find_map(|(name, suffix)| {
            let behind = from.strip_prefix(name)?;
            let sign = usize::from(behind.starts_with('-'));
            let digits = behind[sign..].bytes().take_while(u8::is_ascii_digit).count();
            (digits > 0).then(|| (&behind[..sign + digits], *suffix, &behind[sign + digits..]))
        });
        match number {
            Some((digits, suffix, behind)) => {
                out += digits;
                out += suffix;
                rest = behind;
            }
            None => {
                out.push('(');
                rest = &from[1..];
            }
        }
    }
    out + rest
}

/// The library writes what stands around an empty pack of template arguments, and the form of a pack of numbers.
fn without_empty_packs(text: &str) -> String {
    let is_odd = [", >", "&)", "...", "<, ", ", )", ">(*)"].iter().any(|part| text.contains(part));
    if !is_odd {
        return text.to_string();
    }
    let mut text = text.replace("()...", "");
    while let Some(end) = text.find(")...") {
        let start = text[..end].rfind('(').map_or(end, |start| start + 1);
        let is_number =
            start < end && text[start..end].bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-, ".contains(&byte));
        if !is_number {
            break;
        }
        text.replace_range(end..end + 4, "");
        text.replace_range(start - 1..start, "");
    }
    // Innermost first: what is left of one may stand beside the next.
    for (odd, even) in [
        (", &&)", ")"),
        (", &)", ")"),
        (", &&,", ","),
        (", , ", ", "),
        (", , ", ", "),
        ("<, ", "<"),
        (", )", ")"),
        ("( const&)", "()"),
        (">(*)", ">()"),
    ] {
        text = text.replace(odd, even);
    }
    text = text.replace(", >", ">");
    // A reference to a function has a blank before it.
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find("(&&)") {
        out += &rest[..at];
        out += if out.ends_with(' ') { "(&&)" } else { "()" };
        rest = &rest[at + 4..];
    }
    out + rest
}

/// Text that does not become longer than a name may.
struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_three_forms() {
        let symbol = "_ZNSt6vectorIiSaIiEE9push_backERKi";
        assert_eq!(shown(symbol, Demangle::Simple), "std::vector::push_back");
        assert_eq!(shown(symbol, Demangle::Full), "std::vector<int, std::allocator<int> >::push_back(int const&)");
        assert_eq!(shown(symbol, Demangle::No), symbol);
        let full = |symbol: &str| shown(symbol, Demangle::Full);
        let constructor = "_ZNSt10unique_ptrIiSt14default_deleteIiEEC2IS1_vEEPi";
        let want = "std::unique_ptr<int, std::default_delete<int> >::unique_ptr<std::default_delete<int>, void>(int*)";
        assert_eq!(full(constructor), want);
        assert_eq!(full("_ZNSt11_Tuple_implILm0EJPiEEC2Ev"), "std::_Tuple_impl<0ul, int*>::_Tuple_impl()");
        assert_eq!(
            full("_ZSt11make_uniqueI3DerJEENSt8__detail9_MakeUniqIT_E15__single_objectEDpOT0_"),
            "std::__detail::_MakeUniq<Der>::__single_object std::make_unique<Der>()"
        );
        let numbers = "_Z7numbersIJLi0ELi1ELin2EEEiSt16integer_sequenceIiJXspT_EEE";
        assert_eq!(full(numbers), "int numbers<0, 1, -2>(std::integer_sequence<int, 0, 1, -2>)");
        assert_eq!(full("_Z6constsIJEEiDpRKT_"), "int consts<>()");
        assert_eq!(full("_Z8pointersIJEEiDpPT_"), "int pointers<>()");
        assert_eq!(full("_Z4callIiJEEvT_DpT0_"), "void call<int>(int)");
        assert_eq!(full("_Zli3_kmy"), "operator\"\" _km(unsigned long long)");
        // Each type of a pack has what stands behind the pack.
        assert_eq!(full("_Z4packIJiRcPKcEEvDpOT_"), "void pack<int, char&, char const*>(int&&, char&, char const*&&)");
        assert_eq!(
            full("_Z4packIiJlcEEvT_DpRKT0_S0_"),
            "void pack<int, long, char>(int, long const&, char const&, int)"
        );
        assert_eq!(
            full("_ZN1A4packIJRA3_KcKiEEEvDpRT_"),
            "void A::pack<char const (&) [3], int const>(char const (&) [3], int const&)"
        );
        assert_eq!(full("_ZN1AC2IJRKNS_1BEcEEEDpOT_"), "A::A<A::B const&, char>(A::B const&, char&&)");
        assert_eq!(full("_ZN1AC2IJEEEiDpOT_"), "A::A<>(int)");
        assert_eq!(full("_ZN1AC2IJEEEiDpOT_.isra.0"), "A::A<>(int) [clone .isra.0]");
        // A lambda is no reference, whatever its own parameters are.
        assert_eq!(
            full("_Z5applyIiZ4mainEUlRiE_EvRT_OT0_"),
            "void apply<int, main::{lambda(int&)#1}>(int&, main::{lambda(int&)#1}&&)"
        );
        assert_eq!(full("_Z5applyIRiEvOT_S1_"), "void apply<int&>(int&, int&)");
        assert_eq!(full("_Z4halfPCdCf"), "half(double _Complex*, float _Complex)");
        assert_eq!(full("_ZN1alie2_wEe"), "_ZN1alie2_wEe");
        assert_eq!(full("_ZN1ali2_wEe"), "a::operator\"\" _w(long double)");
        assert_eq!(full("_Z3nulDnPDn"), "nul(decltype(nullptr), decltype(nullptr)*)");
        let function = "_Z1fOFviE";
        assert_eq!(full(function), "f(void (&&)(int))");
        for form in [Demangle::Simple, Demangle::Full, Demangle::No] {
            assert_eq!((shown("main", form), shown("_Z", form)), ("main".to_string(), "_Z".to_string()));
        }
    }

    #[test]
    fn names_do_not_grow_without_end() {
        // Each part names the one before twice.
        let mut symbol = "_ZN1a1bI".to_string() + "iiE1fE";
        for _ in 0..64 {
            symbol = format!("_Z1gI{}E{}", "S_".repeat(8), &symbol[2..]);
        }
        assert!(shown(&symbol, Demangle::Full).len() <= MAX_NAME.max(symbol.len()));
    }
}
