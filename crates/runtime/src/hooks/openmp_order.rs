//! How OpenMP orders threads, as implemented by gcc's library: at the beginning and end of parallel regions, at
//! barriers, by tasks with their dependences, and in ordered loops.
//!
//! The library does this by internal atomic operations, and waits only if it has to. So a thread that begins the body of
//! a parallel region or of a task, or returns from a function that waits ([`super::library_waits`]), counts as ordered
//! after everything done so far ([`crate::unseen_order`]). Bodies are replaced by functions of the runtime that call them.

use crate::unseen_order;
use core::{ffi::c_void, ptr};

/// The body of a parallel region or of a task.
type Body = unsafe extern "C-unwind" fn(*mut c_void);

/// Copies the variables of a task: to, from.
type CopyVariables = unsafe extern "C-unwind" fn(*mut u8, *mut u8);

/// The body of a parallel region, and its argument. It is on the stack of the thread that waits for the region's end.
#[repr(C)]
struct Region {
    body: Body,
    data: *mut c_void,
}

/// Executed by every thread of the team in place of the body.
unsafe extern "C-unwind" fn enter_region(region: *mut c_void) {
    unseen_order::note();
    // SAFETY: a region that `run_region` has started, which does not return before all threads have left it.
    let Region { body, data } = unsafe { region.cast::<Region>().read() };
    // SAFETY: as the program asked for.
    unsafe { body(data) }
}

/// Starts a region by a function of the library and returns its result.
fn run_region<T>(body: Body, data: *mut c_void, start: impl FnOnce(Body, *mut c_void) -> T) -> T {
    let mut region = Region { body, data };
    let result = start(enter_region, (&raw mut region).cast());
    unseen_order::note();
    result
}

/// Defines the functions that start a parallel region: the body and its argument come first.
macro_rules! regions {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {
        #[allow(clippy::too_many_arguments, reason = "the library's functions")]
        mod real_regions {
            use super::{Body, c_void};
            $crate::real::real! { $(fn $name(body: Body, data: *mut c_void, $($arg: $type),*) -> $ret;)* }
        }
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the name of the library's function")]
            #[allow(clippy::too_many_arguments, reason = "its signature")]
            unsafe extern "C-unwind" fn $name(body: Body, data: *mut c_void, $($arg: $type),*) -> $ret {
                run_region(body, data, |body, data| {
                    // SAFETY: the program's call.
                    unsafe { real_regions::$name(body, data, $($arg),*) }
                })
            }
        )*
    };
}

regions! {
    fn GOMP_parallel(threads: u32, flags: u32) -> ();
    fn GOMP_parallel_reductions(threads: u32, flags: u32) -> u32;
    fn GOMP_parallel_sections(threads: u32, count: u32, flags: u32) -> ();
    fn GOMP_parallel_loop_static(threads: u32, start: i64, end: i64, step: i64, chunk: i64, flags: u32) -> ();
    fn GOMP_parallel_loop_dynamic(threads: u32, start: i64, end: i64, step: i64, chunk: i64, flags: u32) -> ();
    fn GOMP_parallel_loop_guided(threads: u32, start: i64, end: i64, step: i64, chunk: i64, flags: u32) -> ();
    fn GOMP_parallel_loop_nonmonotonic_dynamic(threads: u32, start: i64, end: i64, step: i64, chunk: i64, flags: u32) -> ();
    fn GOMP_parallel_loop_nonmonotonic_guided(threads: u32, start: i64, end: i64, step: i64, chunk: i64, flags: u32) -> ();
    fn GOMP_parallel_loop_runtime(threads: u32, start: i64, end: i64, step: i64, flags: u32) -> ();
    fn GOMP_parallel_loop_nonmonotonic_runtime(threads: u32, start: i64, end: i64, step: i64, flags: u32) -> ();
    fn GOMP_parallel_loop_maybe_nonmonotonic_runtime(threads: u32, start: i64, end: i64, step: i64, flags: u32) -> ();
    fn GOMP_teams_reg(teams: u32, limit: u32, flags: u32) -> ();
}

/// A task as the program describes it, on the stack of the thread that creates it.
#[repr(C)]
struct TaskRequest {
    header: TaskHeader,
    data: *mut u8,
    copy: Option<CopyVariables>,
    size: usize,
}

/// The record in front of the program's variables of a task.
#[repr(C)]
#[derive(Clone, Copy)]
struct TaskHeader {
    /// The library writes here the first and last iteration of a task of a loop.
    iterations: [u64; 2],
    is_loop: bool,
    body: Body,
    /// The distance from the header to the variables.
    distance: usize,
}

/// Called by the library to copy a task's variables. They are behind the header.
unsafe extern "C-unwind" fn copy_task(to: *mut u8, request: *mut u8) {
    // SAFETY: a request made by `with_header`, and as much room as it asks for.
    unsafe {
        let TaskRequest { header, data, copy, size } = request.cast::<TaskRequest>().read();
        to.cast::<TaskHeader>().write(header);
        let variables = to.add(header.distance);
        match copy {
            Some(copy) => copy(variables, data),
            None => ptr::copy_nonoverlapping(data, variables, size),
        }
    }
}

/// Executed in place of a task's body.
unsafe extern "C-unwind" fn run_task(task: *mut c_void) {
    unseen_order::note();
    // SAFETY: what `copy_task` has written.
    unsafe {
        let TaskHeader { iterations, is_loop, body, distance } = task.cast::<TaskHeader>().read();
        let variables = task.byte_add(distance);
        if is_loop {
            variables.cast::<[u64; 2]>().write(iterations);
        }
        body(variables);
    }
}

/// The variables of a task: where they are, how they are copied, their size and alignment.
#[derive(Clone, Copy)]
struct Variables {
    data: *mut u8,
    copy: Option<CopyVariables>,
    size: i64,
    align: i64,
}

/// The flags of tasks whose variables the library itself inspects: with reductions, or detached. They stay as they are.
const INSPECTED: u32 = 1 << 12 | 1 << 13;

/// Creates a task by a function of the library, which gets another body and other variables.
fn create_task(
    body: Body,
    variables: Variables,
    flags: u32,
    is_loop: bool,
    create: impl FnOnce(Body, Variables),
) {
    let Variables { data, copy, size, align } = variables;
    if flags & INSPECTED != 0 {
        create(body, variables);
    } else {
        let align = align.max(align_of::<TaskHeader>() as i64);
        let distance = (size_of::<TaskHeader>() as i64 + align - 1) / align * align;
        let header = TaskHeader { iterations: [0; 2], is_loop, body, distance: distance as usize };
        let mut request = TaskRequest { header, data, copy, size: size as usize };
        let data = (&raw mut request).cast();
        create(run_task, Variables { data, copy: Some(copy_task), size: distance + size, align });
    }
    // A task that is not deferred waits for its dependences.
    unseen_order::note();
}

#[allow(clippy::too_many_arguments, reason = "the library's functions")]
mod real_tasks {
    use super::{Body, CopyVariables, c_void};
    crate::real::real! {
        fn GOMP_task(body: Body, data: *mut u8, copy: Option<CopyVariables>, size: i64, align: i64, deferred: bool, flags: u32, dependences: *mut *mut c_void, priority: i32, detach: *mut c_void) -> ();
        fn GOMP_taskloop(body: Body, data: *mut u8, copy: Option<CopyVariables>, size: i64, align: i64, flags: u32, tasks: u64, priority: i32, start: i64, end: i64, step: i64) -> ();
        fn GOMP_taskloop_ull(body: Body, data: *mut u8, copy: Option<CopyVariables>, size: i64, align: i64, flags: u32, tasks: u64, priority: i32, start: u64, end: u64, step: u64) -> ();
    }
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::too_many_arguments, reason = "the library's function")]
unsafe extern "C-unwind" fn GOMP_task(
    body: Body,
    data: *mut u8,
    copy: Option<CopyVariables>,
    size: i64,
    align: i64,
    deferred: bool,
    flags: u32,
    dependences: *mut *mut c_void,
    priority: i32,
    detach: *mut c_void,
) {
    create_task(body, Variables { data, copy, size, align }, flags, false, |body, variables| {
        let Variables { data, copy, size, align } = variables;
        // SAFETY: the program's call. Older compilers pass fewer arguments, which the library then ignores.
        unsafe {
            real_tasks::GOMP_task(
                body,
                data,
                copy,
                size,
                align,
                deferred,
                flags,
                dependences,
                priority,
                detach,
            )
        }
    });
}

/// Defines the functions that create tasks for the iterations of a loop.
macro_rules! task_loops {
    ($($name:ident, $number:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the library's function")]
            unsafe extern "C-unwind" fn $name(
                body: Body,
                data: *mut u8,
                copy: Option<CopyVariables>,
                size: i64,
                align: i64,
                flags: u32,
                tasks: u64,
                priority: i32,
                start: $number,
                end: $number,
                step: $number,
            ) {
                create_task(body, Variables { data, copy, size, align }, flags, true, |body, variables| {
                    let Variables { data, copy, size, align } = variables;
                    // SAFETY: the program's call.
                    unsafe {
                        real_tasks::$name(
                            body, data, copy, size, align, flags, tasks, priority, start, end, step,
                        )
                    }
                });
            }
        )*
    };
}

task_loops! {
    GOMP_taskloop, i64;
    GOMP_taskloop_ull, u64;
}
