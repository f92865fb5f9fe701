//! Which form of a symbol's name is shown.

use super::{full_cpp_name, simple_name};
use crate::Demangle;

/// The name of a symbol in a form; one that is not mangled, or not understood, as it is.
pub fn demangled(symbol: &str, form: Demangle) -> String {
    match form {
        Demangle::Simple => simple_name(symbol),
        Demangle::Full => full_name(symbol).unwrap_or_else(|| symbol.to_string()),
        Demangle::No => symbol.to_string(),
    }
}

fn full_name(symbol: &str) -> Option<String> {
    if symbol.starts_with("_R") || is_legacy_rust(symbol) {
        return rustc_demangle::try_demangle(symbol).ok().map(|name| name.to_string());
    }
    if !symbol.starts_with("_Z") {
        return None;
    }
    full_cpp_name(symbol)
}

/// Is it a name of Rust in the form of those of C++, with a hash last? LLVM may have put `.llvm.123` after it.
fn is_legacy_rust(symbol: &str) -> bool {
    let name = symbol.split_once(".llvm.").map_or(symbol, |(name, _)| name);
    let Some(hash) = name.strip_suffix('E').and_then(|name| name.get(name.len().checked_sub(19)?..)) else {
        return false;
    };
    symbol.starts_with("_ZN")
        && hash.strip_prefix("17h").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the longest name that is not the symbol itself.
    const MAX_SHOWN: usize = 64 << 10;

    #[test]
    fn names_have_three_forms() {
        let symbol = "_ZNSt6vectorIiSaIiEE9push_backERKi";
        assert_eq!(demangled(symbol, Demangle::Simple), "std::vector::push_back");
        assert_eq!(demangled(symbol, Demangle::Full), "std::vector<int, std::allocator<int> >::push_back(int const&)");
        assert_eq!(demangled(symbol, Demangle::No), symbol);
        let full = |symbol: &str| demangled(symbol, Demangle::Full);
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
        // Each type of a pack has what stands after the pack.
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
            assert_eq!((demangled("main", form), demangled("_Z", form)), ("main".to_string(), "_Z".to_string()));
        }
    }

    #[test]
    fn packs_have_what_stands_around_of_each_element() {
        for (symbol, want) in [
            (
                "_Z3logIJN2io4FileES1_iEEvDpRKT_",
                "void log<io::File, io::File, int>(io::File const&, io::File const&, int const&)",
            ),
            ("_Z3logIJPcA4_cEEvDpPKT_", "void log<char*, char [4]>(char* const*, char const (*) [4])"),
            ("_Z3logIJPciEEvDpRKPKT_", "void log<char*, int>(char* const* const&, int const* const&)"),
            ("_Z3logIJciEEvDpRVKT_", "void log<char, int>(char const volatile&, int const volatile&)"),
            ("_Z3logIJRiOcEEvDpOT_", "void log<int&, char&&>(int&, char&&)"),
            (
                "_Z3logIJciEEvDpRKSt6vectorIT_SaIS1_EE",
                "void log<char, int>(std::vector<char, std::allocator<char> > const&, std::vector<int, std::allocator<int> > const&)",
            ),
            ("_Z3logIJciEEvRKSt5tupleIJDpRKT_EE", "void log<char, int>(std::tuple<char const&, int const&> const&)"),
            (
                "_Z3logIJciEEvSt8functionIFvDpRKT_EE",
                "void log<char, int>(std::function<void (char const&, int const&)>)",
            ),
            ("_Z3logIJEEvSt8functionIFvDpRKT_EE", "void log<>(std::function<void ()>)"),
            ("_Z3logIJciEEvDpPFT_iE", "void log<char, int>(char (*)(int), int (*)(int))"),
            (
                "_ZN3SetIicEC1IJS_IcEiEEEcDpRKT_",
                "Set<int, char>::Set<Set<char>, int>(char, Set<char> const&, int const&)",
            ),
            ("_ZNK3Set3addIJN1a1BEEEEvDpRKT_DpS3_", "void Set::add<a::B>(a::B const&, a::B) const"),
            (
                "_Z3logIJciEEvDpRKT_.constprop.0.isra.1",
                "void log<char, int>(char const&, int const&) [clone .constprop.0] [clone .isra.1]",
            ),
            ("_Z4sizeIJciEESt17integral_constantIiXsZT_EEv", "std::integral_constant<int, 2> size<char, int>()"),
        ] {
            assert_eq!(demangled(symbol, Demangle::Full), want, "{symbol}");
        }
    }

    #[test]
    fn declarators_stand_around_of_what_they_are_of() {
        for (symbol, want) in [
            (
                "_ZN2io4Disk4sendEPKNS_4FileEPNS1_5BlockEm",
                "io::Disk::send(io::File const*, io::File::Block*, unsigned long)",
            ),
            ("_Z4readRKN2io4FileERKNS0_5BlockE", "read(io::File const&, io::File::Block const&)"),
            ("_Z3runSt8functionIFN2io4FileEiEE", "run(std::function<io::File (int)>)"),
            ("_Z3runPFPFviEPA3_KcE", "run(void (*(*)(char const (*) [3]))(int))"),
            ("_Z3runRA2_A3_PFivE", "run(int (* (&) [2][3])())"),
            ("_Z3runM2ioFivEM2ioKFvRS_EMS_i", "run(int (io::*)(), void (io::*)(io&) const, int io::*)"),
            ("_Z3runIFviEEPFvT_ES1_", "void (*run<void (int)>(void (int)))(void (int))"),
            ("_ZNKR2io3getEv", "io::get() const &"),
            ("_ZNK2iocvPT_IcEEv", "io::operator char*<char>() const"),
            ("_ZZ4mainENKUlT_E_clIiEEDaS_", "auto main::{lambda(auto:1)#1}::operator()<int>(int) const"),
            ("_ZZ4mainE3str_0", "main::str"),
            ("_ZN2io12_GLOBAL__N_14openEv", "io::(anonymous namespace)::open()"),
            ("_Z4openB3abiv", "open[abi:abi]()"),
            ("_ZTCN2io1DE8_NS_1BE", "construction vtable for io::B-in-io::D"),
            ("_ZThn16_N2io1D5closeEv", "non-virtual thunk to io::D::close()"),
            ("_ZGVZ4mainE1x", "guard variable for main::x"),
            (
                "_Z4pickIiENSt9enable_ifIXgtstT_Li2EET_E4typeES2_",
                "std::enable_if<((sizeof (int))>(2)), int>::type pick<int>(int)",
            ),
            ("_Z3addIiEDTplfp_Li1EET_", "decltype ({parm#1}+(1)) add<int>(int)"),
            ("_Z3addIJilEEDTfrplfp_EDpT_", "decltype (({parm#1}+...)) add<int, long>(int, long)"),
            ("_Z4pickILb1ELc97ELin3EEvv", "void pick<true, (char)97, -3>()"),
            ("_ZNSolsEi@@GLIBCXX_3.4", "std::ostream::operator<<(int)@@GLIBCXX_3.4"),
            (
                "_ZNSsC1Ev@GLIBCXX_3.4",
                "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string()@GLIBCXX_3.4",
            ),
        ] {
            assert_eq!(demangled(symbol, Demangle::Full), want, "{symbol}");
        }
    }

    #[test]
    fn names_of_rust_have_no_suffix_of_llvm() {
        let legacy = "_ZN4core3ptr13drop$LT$T$GT$17h0123456789abcdefE";
        let v0 = "_RNvCs1234_7mycrate3foo";
        for suffix in ["", ".llvm.1234567890123456789"] {
            let both = |symbol: &str| {
                let symbol = symbol.to_string() + suffix;
                (demangled(&symbol, Demangle::Simple), demangled(&symbol, Demangle::Full))
            };
            let names = ("core::ptr::drop<T>".to_string(), "core::ptr::drop<T>::h0123456789abcdef".to_string());
            assert_eq!(both(legacy), names);
            assert_eq!(both(v0).0, "mycrate::foo");
            assert!(both(v0).1.starts_with("mycrate[") && both(v0).1.ends_with("]::foo"));
        }
    }

    /// Endless nesting and repetition, which no compiler writes, are cut in depth and length.
    #[test]
    fn nesting_without_end_has_an_end() {
        for (before, part) in [
            ("_Z1f", "P"),
            ("_Z1f", "N1AI"),
            ("_Z1f", "F"),
            ("_Z1fIX", "ad"),
            ("_Z", "Z1fvE"),
            ("_ZN", "Ut_"),
            ("_ZN1A", "B1a"),
            ("_ZN", "K"),
            ("_Z1f", "K"),
            ("_Z1fI", "J"),
            ("_Z1fDT", "cl"),
            ("_ZN1A", "IiE"),
        ] {
            for behind in ["", "C1Ev", "1gEv", "i"] {
                let symbol = before.to_string() + &part.repeat(20_000) + behind;
                assert!(demangled(&symbol, Demangle::Full).len() <= MAX_SHOWN.max(symbol.len()));
            }
        }
    }

    #[test]
    fn names_do_not_grow_without_end() {
        // Each part names the one before twice.
        let mut symbol = "_ZN1a1bI".to_string() + "iiE1fE";
        for _ in 0..64 {
            symbol = format!("_Z1gI{}E{}", "S_".repeat(8), &symbol[2..]);
        }
        assert!(demangled(&symbol, Demangle::Full).len() <= MAX_SHOWN.max(symbol.len()));
    }
}
