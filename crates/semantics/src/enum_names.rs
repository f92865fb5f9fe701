//! Enumerations whose variants have names.

/// Declares an enumeration whose variants have names in tables.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    ($(#[$doc:meta])* $vis:vis $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        $vis enum $name {
            $($(#[$of])* $variant,)*
        }

        #[allow(dead_code, reason = "not all of them are looked up by their names")]
        impl $name {
            /// All of them, in the order in which they are declared.
            $vis const ALL: &'static [$name] = &[$($name::$variant),*];

            /// Their names, in that order.
            $vis const NAMES: &'static [&'static str] = &[$($text),*];

            /// Its name in tables.
            $vis const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The one of this name.
            $vis fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some($name::$variant),)* _ => None }
            }
        }
    };
}
