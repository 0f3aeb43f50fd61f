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

/// Returns the part of a linkage name that another build of the same source has, too: without the hash that
/// rustc appends, which depends on the directory.
pub(crate) fn stable_name(name: &str) -> &str {
    const HASH: usize = "17h0123456789abcdefE".len();
    let Some((stem, hash)) = name.len().checked_sub(HASH).and_then(|at| name.split_at_checked(at)) else {
        return name;
    };
    let digits = hash.strip_prefix("17h").and_then(|rest| rest.strip_suffix('E'));
    let is_hash = digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if is_hash { stem } else { name }
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

    #[test]
    fn hash_is_no_part_of_the_stable_name() {
        assert_eq!(stable_name("_ZN4bank3pay17h0123456789abcdefE"), "_ZN4bank3pay");
        assert_eq!(stable_name("_ZN4bank3pay17h0123456789abcdegE"), "_ZN4bank3pay17h0123456789abcdegE");
        assert_eq!(stable_name("main"), "main");
    }
}
