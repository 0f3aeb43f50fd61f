//! Functions of OpenMP's library and of oneTBB that return only after other threads have done something: at barriers, when
//! tasks have ended, when a lock was acquired.
//!
//! The libraries order threads by internal atomic operations, and wait only if they have to. So a thread that returns from
//! such a function counts as ordered after everything done so far ([`crate::unseen_order`]).

use crate::unseen_order;
use core::ffi::c_void;

macro_rules! waits {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {
        mod real {
            use super::*;
            $crate::real::real! { $(fn $name($($arg: $type),*) -> $ret;)* }
        }
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the name of the library's function")]
            unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
                // SAFETY: the program's call.
                let result = unsafe { real::$name($($arg),*) };
                unseen_order::note();
                result
            }
        )*
    };
}

/// A C++ object.
type Object = *mut c_void;

waits! {
    fn GOMP_barrier() -> ();
    fn GOMP_barrier_cancel() -> bool;
    fn GOMP_loop_end() -> ();
    fn GOMP_loop_end_cancel() -> bool;
    fn GOMP_sections_end() -> ();
    fn GOMP_sections_end_cancel() -> bool;
    fn GOMP_single_copy_start() -> *mut c_void;
    fn GOMP_ordered_start() -> ();
    fn GOMP_taskwait() -> ();
    fn GOMP_taskwait_depend(dependences: *mut *mut c_void) -> ();
    fn GOMP_taskgroup_end() -> ();

    // `execute_and_wait`, `wait` for tasks and for an arena's end, `execute` in an arena, `isolate_within_arena`,
    // `parallel_pipeline`, `finalize`.
    fn _ZN3tbb6detail2r116execute_and_waitERNS0_2d14taskERNS2_18task_group_contextERNS2_12wait_contextES6_(task: Object, of: Object, until: Object, context: Object) -> ();
    fn _ZN3tbb6detail2r14waitERNS0_2d112wait_contextERNS2_18task_group_contextE(until: Object, context: Object) -> ();
    fn _ZN3tbb6detail2r14waitERNS0_2d115task_arena_baseE(arena: Object) -> ();
    fn _ZN3tbb6detail2r17executeERNS0_2d115task_arena_baseERNS2_13delegate_baseE(arena: Object, body: Object) -> ();
    fn _ZN3tbb6detail2r120isolate_within_arenaERNS0_2d113delegate_baseEl(body: Object, isolation: i64) -> ();
    fn _ZN3tbb6detail2r117parallel_pipelineERNS0_2d118task_group_contextEmRKNS2_11filter_nodeE(context: Object, tokens: u64, filter: Object) -> ();
    fn _ZN3tbb6detail2r18finalizeERNS0_2d121task_scheduler_handleEl(handle: Object, mode: i64) -> bool;
    // Locks, `wait_on_address`, and waits for a bounded queue.
    fn _ZN3tbb6detail2r17acquireERNS0_2d116queuing_rw_mutexERNS3_11scoped_lockEb(mutex: Object, lock: Object, write: bool) -> ();
    fn _ZN3tbb6detail2r111try_acquireERNS0_2d116queuing_rw_mutexERNS3_11scoped_lockEb(mutex: Object, lock: Object, write: bool) -> bool;
    fn _ZN3tbb6detail2r117upgrade_to_writerERNS0_2d116queuing_rw_mutex11scoped_lockE(lock: Object) -> bool;
    fn _ZN3tbb6detail2r17acquireERNS0_2d19rtm_mutexERNS3_11scoped_lockEb(mutex: Object, lock: Object, only_speculate: bool) -> ();
    fn _ZN3tbb6detail2r111try_acquireERNS0_2d19rtm_mutexERNS3_11scoped_lockE(mutex: Object, lock: Object) -> bool;
    fn _ZN3tbb6detail2r114acquire_readerERNS0_2d112rtm_rw_mutexERNS3_11scoped_lockEb(mutex: Object, lock: Object, only_speculate: bool) -> ();
    fn _ZN3tbb6detail2r114acquire_writerERNS0_2d112rtm_rw_mutexERNS3_11scoped_lockEb(mutex: Object, lock: Object, only_speculate: bool) -> ();
    fn _ZN3tbb6detail2r115wait_on_addressEPvRNS0_2d113delegate_baseEm(address: Object, condition: Object, context: u64) -> ();
    fn _ZN3tbb6detail2r126wait_bounded_queue_monitorEPNS1_18concurrent_monitorEmlRNS0_2d113delegate_baseE(monitor: Object, kind: u64, ticket: i64, condition: Object) -> ();
}
