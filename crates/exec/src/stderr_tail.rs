//! Extracts failure messages from a program's stderr. C++'s terminate handler, Rust's panic hook and test harnesses say
//! more than the signal or the exit status.

use unsnarl_model::Output;
use unsnarl_wire::End;

/// Returns the type and `what()` of the uncaught C++ exception that ended the program, if there was one.
pub(crate) fn exception(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let (_, message_text) = text.rsplit_once("terminate called after throwing an instance of '")?;
    let (kind, rest) = message_text.split_once('\'')?;
    let what = rest.trim_start().strip_prefix("what():").and_then(|what| what.lines().next());
    Some(what.map_or_else(|| kind.to_owned(), |what| format!("{kind}: {}", what.trim())))
}

/// Returns the message of C++'s terminate handler without an exception, for example for a thread that was not joined.
pub(crate) fn terminate(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().rfind(|line| line.starts_with("terminate called")).unwrap_or_default().to_owned()
}

/// Returns the message of a Rust panic, without the thread's name and number.
pub(crate) fn panic(output: &Output) -> String {
    let find = |stream: &[u8]| {
        let text = String::from_utf8_lossy(stream).into_owned();
        let (_, message_text) = text.split_once("panicked at ")?;
        // The location and a colon come first, then the message up to the note on backtraces.
        let (_, message) = message_text.split_once(":\n")?;
        let lines = message
            .lines()
            .take_while(|line| !line.starts_with("note: ") && !line.starts_with("stack backtrace:"));
        Some(lines.collect::<Vec<_>>().join("\n").trim().to_owned())
    };
    find(&output.stderr).or_else(|| find(&output.stdout)).unwrap_or_default()
}

/// Returns the message of the first failed test from GoogleTest or Rust's test harness.
pub(crate) fn test(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    google_test(&text).or_else(|| rust_test(&text)).unwrap_or_default()
}

/// Finds `FILE:LINE: Failure` and the lines that explain it.
fn google_test(text: &str) -> Option<String> {
    let (_, message_text) = text.split_once("[ RUN      ] ").filter(|_| text.contains("[  FAILED  ] "))?;
    let is_failure = |line: &str| line.ends_with(": Failure");
    let mut lines = message_text.lines().skip_while(|line| !is_failure(line));
    let first = lines.next()?;
    let rest = lines.take_while(|line| !is_failure(line) && !line.starts_with('['));
    Some([first].into_iter().chain(rest).collect::<Vec<_>>().join("\n").trim_end().to_owned())
}

/// Returns why a test failed without a panic: it returned an error, or it should have panicked.
fn rust_test(text: &str) -> Option<String> {
    let (_, message_text) =
        text.split_once(" stdout ----\n").filter(|_| text.contains("test result: FAILED"))?;
    let (message_text, _) = message_text.split_once("\n\n")?;
    let lines: Vec<&str> = message_text.lines().collect();
    let at = lines.iter().rposition(|line| line.starts_with("Error: ") || line.starts_with("note: "))?;
    Some(lines[at..].join("\n"))
}

/// Addresses below this count as null: fields of an object at a null pointer.
const NULL_PAGE: u64 = 4096;
/// The signal's code if the kernel does not say more. The libc crate lacks it for this signal.
const SI_KERNEL: i32 = 0x80;

/// Describes a fault without addresses, which are not part of a failure's signature.
pub(crate) fn fault(end: &End) -> String {
    const SEGV_MAPERR: i32 = 1;
    const SEGV_ACCERR: i32 = 2;
    let text = match (end.signal, end.signal_code) {
        (libc::SIGSEGV, SEGV_MAPERR | SEGV_ACCERR) if end.addr < NULL_PAGE => "access through a null pointer",
        (libc::SIGSEGV, SEGV_MAPERR) => "access to an unmapped address",
        (libc::SIGSEGV, SEGV_ACCERR) => {
            "access without permission: the memory is read-only or not executable"
        }
        // The kernel does not report the address if it is no address at all, as in a pointer read from freed memory.
        (libc::SIGSEGV | libc::SIGBUS, SI_KERNEL) => {
            "access through an invalid pointer, often one that was read from freed memory"
        }
        (libc::SIGBUS, _) => "access beyond the end of a mapped file, or to a misaligned address",
        (libc::SIGFPE, _) => "arithmetic error",
        _ => "",
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_wire::EndKind;

    fn no_end() -> End {
        End {
            kind: EndKind::Signal,
            signal: 0,
            thread: 0,
            message_len: 0,
            addr: 0,
            pc: 0,
            diverged_point: 0,
            diverged_thread: 0,
            diverged_op: 0,
            signal_code: 0,
            round: 0,
            message: [0; unsnarl_wire::MAX_MESSAGE],
        }
    }

    fn stderr_output(stderr: &str) -> Output {
        Output { stdout: Vec::new(), stderr: stderr.into() }
    }

    #[test]
    fn exception_is_described_by_type_and_what() {
        let output = stderr_output(
            "noise\nterminate called after throwing an instance of 'std::runtime_error'\n  what():  boom\n",
        );
        assert_eq!(exception(&output).as_deref(), Some("std::runtime_error: boom"));
        assert_eq!(
            exception(&stderr_output("terminate called after throwing an instance of 'int'\n")).as_deref(),
            Some("int")
        );
        assert_eq!(exception(&stderr_output("Aborted")), None);
    }

    #[test]
    fn panic_is_described_by_its_message() {
        let message_text = "\nthread 'main' (7) panicked at src/main.rs:4:5:\nassertion failed\n  left: 1\n right: 2\nnote: run with x\n";
        assert_eq!(panic(&stderr_output(message_text)), "assertion failed\n  left: 1\n right: 2");
        assert_eq!(panic(&stderr_output("nothing")), "");
    }

    fn printed(stdout: &str) -> Output {
        Output { stdout: stdout.into(), stderr: Vec::new() }
    }

    #[test]
    fn only_a_known_small_address_is_a_null_pointer() {
        let fault_text = |signal, signal_code, addr| fault(&End { signal, signal_code, addr, ..no_end() });
        assert_eq!(fault_text(libc::SIGSEGV, 1, 8), "access through a null pointer");
        assert_eq!(fault_text(libc::SIGSEGV, 1, 1 << 40), "access to an unmapped address");
        assert!(fault_text(libc::SIGSEGV, 0x80, 0).starts_with("access through an invalid pointer"));
        assert!(fault_text(libc::SIGBUS, 0x80, 0).starts_with("access through an invalid pointer"));
        assert_eq!(fault_text(libc::SIGSEGV, 0, 0), "", "a signal that was sent is no fault");
    }

    #[test]
    fn google_test_is_described_by_its_first_failure() {
        let message_text = "[ RUN      ] A.B\nchatter\na.cpp:2: Failure\nExpected: true\nmy words\na.cpp:3: Failure\n\
                    Expected: false\n[  FAILED  ] A.B (0 ms)\n";
        assert_eq!(test(&printed(message_text)), "a.cpp:2: Failure\nExpected: true\nmy words");
        assert_eq!(test(&printed("[ RUN      ] A.B\nHeart: Failure\n[       OK ] A.B\n")), "");
    }

    #[test]
    fn rust_test_without_panic_is_described_by_its_error() {
        let message_text = "\nrunning 1 test\ntest t ... FAILED\n\nfailures:\n\n---- t stdout ----\nchatter\n\
                    Error: Lost { visits: 2 }\n\n\nfailures:\n    t\n\ntest result: FAILED. 0 passed\n";
        assert_eq!(test(&printed(message_text)), "Error: Lost { visits: 2 }");
        let message_text = message_text
            .replace("Error: Lost { visits: 2 }", "note: test did not panic as expected at src/lib.rs:3:4");
        assert_eq!(test(&printed(&message_text)), "note: test did not panic as expected at src/lib.rs:3:4");
        assert_eq!(test(&printed("---- t stdout ----\nError: no\n\n")), "");
    }
}
