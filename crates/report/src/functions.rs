//! Shortens names of library functions.

/// Length beyond which a path is shortened.
const LONG: usize = 24;

/// Returns a library function's short name: without template and generic arguments, without offsets, and only the end
/// of a long path.
///
/// `<std::sys::sync::mutex::futex::Mutex>::lock_contended` becomes `Mutex::lock_contended`.
pub(crate) fn short(function: &str) -> String {
    let name = function.rsplit_once("+0x").map_or(function, |(name, _)| name);
    if name.contains("operator") {
        return name.to_owned();
    }
    let plain = without_generics(name);
    let parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    let shown = match parts.as_slice() {
        // The runtime interposes the function of libc that the program called.
        ["unsnarl_rt", .., last] => std::slice::from_ref(last),
        [_, .., _, _] if parts.len() > 3 || plain.len() > LONG => &parts[parts.len() - 2..],
        all => all,
    };
    shown.join("::").trim_start_matches("__GI_").to_owned()
}

/// Returns the short name of the user's own function. A closure is named after its function, because the line
/// identifies it.
pub(crate) fn of_user(function: &str) -> String {
    match function.split_once("::{{closure}}") {
        Some((outer, _)) => {
            format!("{}::{{closure}}", outer.rsplit_once("::").map_or(outer, |(_, name)| name))
        }
        None => function.to_owned(),
    }
}

/// Returns the short name of a global variable. The hidden variable behind a lazy_static gets the name of the latter.
pub(crate) fn variable(name: &str) -> String {
    let plain = if name.starts_with('<') { without_generics(name) } else { name.to_owned() };
    let plain = plain.replace("::deref::__stability::LAZY", "");
    let parts: Vec<&str> = plain.split("::").collect();
    match parts.as_slice() {
        // The library must stay visible.
        ["std" | "core" | "alloc", ..] => plain,
        [.., one, two] if parts.len() > 2 && plain.len() > LONG => format!("{one}::{two}"),
        _ => plain,
    }
}

/// Returns a library function's whole name, without template and generic arguments and without offsets.
///
/// `<std::sync::poison::mutex::MutexGuard<T> as core::ops::drop::Drop>::drop` becomes
/// `std::sync::poison::mutex::MutexGuard::drop`.
pub(crate) fn plain(function: &str) -> String {
    let name = function.rsplit_once("+0x").map_or(function, |(name, _)| name);
    if name.contains("operator") { name.to_owned() } else { without_generics(name).replace("::::", "::") }
}

/// Converts `<A<B> as C>::f<D>` to `A::f`.
fn without_generics(name: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_usize;
    // A name that begins with a bracket is a method's, and its type is worth keeping.
    let (mut of_type, name) = match name.strip_prefix('<') {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let mut skip = false;
    for (at, char) in name.char_indices() {
        match char {
            '<' => depth += 1,
            '>' if depth == 0 && of_type => (of_type, skip) = (false, false),
            '>' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && of_type && name[at..].starts_with(" as ") => skip = true,
            _ if depth == 0 && !skip => plain.push(char),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_names_are_shortened() {
        for (long, expected) in [
            ("free", "free"),
            ("__GI_abort", "abort"),
            ("std::thread::join+0x16", "std::thread::join"),
            ("unsnarl_rt::hooks::thread::controlled::pthread_join+0x49", "pthread_join"),
            ("std::sync::poison::mutex::Mutex<T>::lock", "Mutex::lock"),
            ("<std::sys::sync::mutex::futex::Mutex>::lock_contended", "Mutex::lock_contended"),
            ("<alloc::vec::Vec<u8> as core::ops::drop::Drop>::drop", "Vec::drop"),
            ("a::<impl b::C>::f", "a::f"),
            ("std::operator<< <char>", "std::operator<< <char>"),
            ("std::thread::_M_start_thread", "thread::_M_start_thread"),
            ("", ""),
        ] {
            assert_eq!(short(long), expected, "{long}");
        }
    }

    #[test]
    fn generic_arguments_are_left_out_of_whole_names() {
        for (name, expected) in [
            ("std::sync::mpsc::Sender<T>::send", "std::sync::mpsc::Sender::send"),
            ("<std::sync::poison::mutex::Mutex<u64>>::lock", "std::sync::poison::mutex::Mutex::lock"),
            ("<alloc::sync::Arc<T,A> as core::ops::drop::Drop>::drop", "alloc::sync::Arc::drop"),
            ("std::lock_guard<std::mutex>::lock_guard", "std::lock_guard::lock_guard"),
            ("std::sync::mpsc::Sender::<T>::send", "std::sync::mpsc::Sender::send"),
        ] {
            assert_eq!(plain(name), expected, "{name}");
        }
    }

    #[test]
    fn variable_names_are_shortened() {
        for (long, expected) in [
            ("balance", "balance"),
            ("table+16", "table+16"),
            ("bank::teller::BALANCE", "bank::teller::BALANCE"),
            ("std::panicking::GLOBAL_PANIC_COUNT", "std::panicking::GLOBAL_PANIC_COUNT"),
            ("bank::accounts::tellers::BALANCE+8", "tellers::BALANCE+8"),
            (
                "<internment::CONTAINER as core::ops::deref::Deref>::deref::__stability::LAZY+24",
                "internment::CONTAINER+24",
            ),
        ] {
            assert_eq!(variable(long), expected, "{long}");
        }
    }

    #[test]
    fn closures_are_named_after_their_function() {
        assert_eq!(of_user("crate::main::{{closure}}::{{closure}}"), "main::{closure}");
        assert_eq!(of_user("bank::Account::withdraw"), "bank::Account::withdraw");
    }
}
