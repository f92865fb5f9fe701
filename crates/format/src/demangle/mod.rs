//! Mangled names as people read them: C++ (Itanium), Rust (legacy and v0).
//!
//! The form is the *simple* one: the qualified name alone, without parameters, template arguments and qualifiers
//! (`std::vector::push_back`). Patterns of argument specifications are matched against it, so it decides how payloads are
//! read and not only how names look; an ABI tag is one more part of the name (`make::cxx11`).

mod expressions;
mod forms;
mod full;
mod names;
mod operators;
mod rust;
mod types;

pub use forms::demangled;
use full::full_cpp_name;

/// The simple name of a symbol; a name that is not mangled, or not understood, as it is.
pub fn simple_name(symbol: &str) -> String {
    if symbol.starts_with("_R") {
        if let Ok(name) = rustc_demangle::try_demangle(symbol) {
            return format!("{name:#}");
        }
        return symbol.to_string();
    }
    let (prefix, mangled) = match symbol.strip_prefix(GLOBAL_CONSTRUCTOR) {
        Some(rest) => (GLOBAL_CONSTRUCTOR, rest),
        None => ("", symbol),
    };
    let Some(body) = mangled.strip_prefix("_Z") else { return symbol.to_string() };
    match NameParser::new(body).whole() {
        Some(name) => format!("{prefix}{name}"),
        None => symbol.to_string(),
    }
}

/// The prefix that compilers put before the name of a file's static constructors.
const GLOBAL_CONSTRUCTOR: &str = "_GLOBAL__sub_I_";
/// Nesting that no compiler writes.
const MAX_DEPTH: u32 = 256;

/// Reads a mangled name and writes the names in it that are not inside of types.
#[derive(Default)]
struct NameParser<'a> {
    text: &'a [u8],
    pos: usize,
    out: String,
    /// Names are written only at 0: types, template arguments and expressions are passed over.
    quiet: u32,
    /// Has a name been written, so that the next one needs `::` before it?
    has_name: bool,
    depth: u32,
}

impl<'a> NameParser<'a> {
    fn new(body: &'a str) -> Self {
        NameParser { text: body.as_bytes(), ..NameParser::default() }
    }

    /// `<encoding>` with what compilers and linkers put after it.
    fn whole(mut self) -> Option<String> {
        self.encoding()?;
        let is_end = matches!(self.peek(), None | Some(b'.' | b'@'));
        (is_end && !self.out.is_empty()).then_some(self.out)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    fn starts_with(&self, code: &[u8]) -> bool {
        self.text.get(self.pos..).is_some_and(|rest| rest.starts_with(code))
    }

    fn eat(&mut self, code: &[u8]) -> bool {
        let is_there = self.starts_with(code);
        if is_there {
            self.pos += code.len();
        }
        is_there
    }

    fn need(&mut self, code: &[u8]) -> Option<()> {
        self.eat(code).then_some(())
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn quietly<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.quiet += 1;
        let value = self.nested(read);
        self.quiet -= 1;
        value
    }

    fn write(&mut self, name: &str) {
        if self.quiet == 0 {
            if self.has_name {
                self.out.push_str("::");
            }
            self.out.push_str(name);
            self.has_name = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::simple_name;

    #[test]
    fn names_have_no_types() {
        let cases = [
            ("main", "main"),
            ("_Z5color5Color", "color"),
            ("_ZN3Obj3getEi", "Obj::get"),
            ("_ZN3ObjC1Ei", "Obj::Obj"),
            ("_ZN1A1BD0Ev", "A::B::~B"),
            ("_ZNKSt6vectorIiSaIiEE4sizeEv", "std::vector::size"),
            (
                "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC1IS3_EEPKcRKS3_",
                "std::__cxx11::basic_string::basic_string",
            ),
            ("_ZNSaIcEC1Ev", "std::allocator::allocator"),
            ("_ZNSsC1Ev", "std::basic_string<>::basic_string<>"),
            ("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", "std::operator<<"),
            ("_Znwm", "operator new"),
            ("_ZdlPvm", "operator delete"),
            ("_Z4rstrB5cxx11i", "rstr::cxx11"),
            ("_ZZ4mainENKUlvE_clEv", "main::$_0::operator()"),
            ("_ZZ4mainENKUlvE0_clEv", "main::$_1::operator()"),
            ("_ZN1TcvbEv", "T::operator(cast)"),
            ("_Z1fIIRmS7_EEvv", "f"),
            ("_ZNSirsERPv", "std::basic_istream::operator>>"),
            ("_ZTV3Foo", "__vtable__Foo"),
            ("_ZGVZ4mainE1x", "__guard_variable__main::x"),
            ("_ZThn16_N1D1fEv", "D::f"),
            ("_Z3addIiET_S0_S0_.isra.0", "add"),
            ("_GLOBAL__sub_I__Z3foov", "_GLOBAL__sub_I_foo"),
            ("_ZN12_GLOBAL__N_13barEv", "_GLOBAL__N_1::bar"),
            ("_Z1fILi3EEvv", "f"),
            ("_Z1fIXadL_Z1gvEEEvv", "f"),
        ];
        for (mangled, simple) in cases {
            assert_eq!(simple_name(mangled), simple, "{mangled}");
        }
    }

    #[test]
    fn rust_names_lose_their_hash() {
        assert_eq!(simple_name("_ZN3std2io5stdio6_print17h0123456789abcdefE"), "std::io::stdio::_print");
        let escaped = "_ZN71_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..clone..Clone$GT$5clone17h0123456789abcdefE";
        assert_eq!(simple_name(escaped), escaped, "a length that lies is not believed");
        assert_eq!(simple_name("_ZN9$LT$T$GT$5clone17h0123456789abcdefE"), "<T>::clone");
        assert_eq!(simple_name("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
    }

    #[test]
    fn what_is_not_understood_stays() {
        for name in ["_Z", "_ZN", "_Z99x", "_ZNSt", "_ZTX", "_R", "_RX", "_ZN1AIEE\u{e9}"] {
            assert_eq!(simple_name(name), name);
        }
        let deep = format!("_Z1f{}", "P".repeat(10) + &"N1AI".repeat(4000));
        assert_eq!(simple_name(&deep), deep);
    }
}
