//! The end of the program: by itself or by a failed assertion.

use crate::{crash, end, init, log::c_bytes, state::Runtime};
use core::ffi::c_char;
use unsnarl_wire::EndKind;

fn report_assertion(runtime: &Runtime, message: core::fmt::Arguments<'_>) {
    end::conclude(&runtime.state, EndKind::Assertion, "");
    end::describe(end::MessageWriter(&mut runtime.state.log.header().end, 0), message);
}

fn text(c: *const c_char) -> &'static str {
    core::str::from_utf8(c_bytes(c)).unwrap_or("?")
}

hooks! {
    fn _exit(status: i32) -> !, |runtime, pc| {
        init::log_exit(status, pc);
        real::_exit(status)
    }

    fn _Exit(status: i32) -> !, |runtime, pc| {
        init::log_exit(status, pc);
        real::_Exit(status)
    }

    fn quick_exit(status: i32) -> !, |runtime, pc| {
        init::log_exit(status, pc);
        real::quick_exit(status)
    }

    fn abort() -> !, |runtime, pc| {
        crash::note_abort();
        real::abort()
    }

    fn __assert_fail(expression: *const c_char, file: *const c_char, line: u32, function: *const c_char) -> !, |runtime, pc| {
        report_assertion(runtime, format_args!("Assertion `{}' failed.", text(expression)));
        real::__assert_fail(expression, file, line, function)
    }

    fn __assert_perror_fail(error: i32, file: *const c_char, line: u32, function: *const c_char) -> !, |runtime, pc| {
        report_assertion(runtime, format_args!("Unexpected error {error}."));
        real::__assert_perror_fail(error, file, line, function)
    }

    fn __assert(expression: *const c_char, file: *const c_char, line: i32) -> !, |runtime, pc| {
        report_assertion(runtime, format_args!("Assertion `{}' failed.", text(expression)));
        real::__assert(expression, file, line)
    }
}
