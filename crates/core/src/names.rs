//! Enums whose variants have names: stored, printed and read back by them.

/// Declares such an enum. `ALL` has the variants in the order of their declaration; their codes follow it.
#[macro_export]
macro_rules! names {
    ($(#[$doc:meta])* pub enum $type:ident { $(
        $(#[doc = $each:literal])* $(#[serde $serde:tt])? $(#[default $($is:tt)?])? $name:ident = $text:literal
    ),* $(,)? }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        pub enum $type {
            $($(#[doc = $each])* $(#[default $($is)?])? $(#[serde $serde])? #[serde(rename = $text)] $name,)*
        }

        impl $type {
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$name),*];

            /// The names, each with its meaning, which is the comment on the variant.
            pub const NAMED: [(&'static str, &'static str); Self::ALL.len()] =
                [$(($text, concat!($($each),*))),*];

            /// The name stored and printed.
            pub const fn as_str(self) -> &'static str {
                Self::NAMED[self as usize].0
            }

            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
