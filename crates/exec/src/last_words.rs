//! What programs say when they fail: C++'s terminate handler and Rust's panic hook tell more than the signal
//! does.

use unsnarl_model::Output;
use unsnarl_wire::End;

/// The type and `what()` of an uncaught C++ exception, if that is what the program died of.
pub(crate) fn exception(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let (_, told) = text.rsplit_once("terminate called after throwing an instance of '")?;
    let (kind, rest) = told.split_once('\'')?;
    let what = rest.trim_start().strip_prefix("what():").and_then(|what| what.lines().next());
    Some(what.map_or_else(|| kind.to_owned(), |what| format!("{kind}: {}", what.trim())))
}

/// What C++'s terminate handler says when there is no exception: a thread that nobody joined, say.
pub(crate) fn terminate(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().rfind(|line| line.starts_with("terminate called")).unwrap_or_default().to_owned()
}

/// The message of a Rust panic, without the thread's name and number.
pub(crate) fn panic(output: &Output) -> String {
    let find = |stream: &[u8]| {
        let text = String::from_utf8_lossy(stream).into_owned();
        let (_, told) = text.split_once("panicked at ")?;
        // The place and a colon, then the message up to the note on backtraces.
        let (_, message) = told.split_once(":\n")?;
        let lines = message
            .lines()
            .take_while(|line| !line.starts_with("note: ") && !line.starts_with("stack backtrace:"));
        Some(lines.collect::<Vec<_>>().join("\n").trim().to_owned())
    };
    find(&output.stderr).or_else(|| find(&output.stdout)).unwrap_or_default()
}

/// What kind of fault it was, without addresses: those are not part of a failure's signature.
pub(crate) fn fault(end: &End) -> String {
    match end.signal {
        libc::SIGSEGV | libc::SIGBUS if end.addr < 4096 => "access through a null pointer".into(),
        libc::SIGSEGV | libc::SIGBUS => "access to memory that is not there".into(),
        libc::SIGFPE => "arithmetic error".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stderr: &str) -> Output {
        Output { stdout: Vec::new(), stderr: stderr.into() }
    }

    #[test]
    fn an_exception_is_told_by_type_and_what() {
        let output = said(
            "noise\nterminate called after throwing an instance of 'std::runtime_error'\n  what():  boom\n",
        );
        assert_eq!(exception(&output).as_deref(), Some("std::runtime_error: boom"));
        assert_eq!(
            exception(&said("terminate called after throwing an instance of 'int'\n")).as_deref(),
            Some("int")
        );
        assert_eq!(exception(&said("Aborted")), None);
    }

    #[test]
    fn a_panic_is_told_by_its_message() {
        let told = "\nthread 'main' (7) panicked at src/main.rs:4:5:\nassertion failed\n  left: 1\n right: 2\nnote: run with x\n";
        assert_eq!(panic(&said(told)), "assertion failed\n  left: 1\n right: 2");
        assert_eq!(panic(&said("nothing")), "");
    }
}
