//! Demangling of names.

use cpp_demangle::{DemangleOptions, Symbol};

/// Returns the name as written in the source, without hash, parameters and return type. Those are long, and
/// the source line beside it shows them anyway.
#[must_use]
pub fn demangle(name: &str) -> String {
    // Rust's old names look like C++, except for a hash at the end, so Rust is tried first.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = Symbol::new(name)
        && let Ok(cpp) = symbol.demangle_with_options(&DemangleOptions::new().no_params().no_return_type())
    {
        return cpp;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_three_languages_are_demangled() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_ZN4bank7Account8withdrawEi"), "bank::Account::withdraw");
        assert_eq!(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(demangle("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(demangle("_Znot a name"), "_Znot a name");
    }
}
