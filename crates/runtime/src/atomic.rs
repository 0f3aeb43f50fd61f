//! Atomic operations of instrumented code. Each is a schedule point and performs the operation.

use crate::{access::value_at, state::Runtime};
use core::{
    arch::naked_asm,
    sync::atomic::{
        AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
        fence,
    },
};
use unsnarl_model::{Flags, Op, Order};

/// A variable whose loads are neither schedule points nor events.
static IGNORED_VARIABLE: AtomicUsize = AtomicUsize::new(0);

/// Ignores loads of the variable at this address: nothing depends on when they happen.
pub(crate) fn ignore_variable(addr: usize) {
    IGNORED_VARIABLE.store(addr, Relaxed);
}

/// Waits for the turn of an atomic operation, performs and logs it. `perform` returns the result, the value
/// to log and whether it failed.
#[inline(always)]
fn atomic<T>(op: Op, access: (usize, u64, i32), pc: u64, perform: impl FnOnce() -> (T, u64, bool)) -> T {
    let Some(runtime) = Runtime::enter() else { return perform().0 };
    let (addr, size, order) = access;
    runtime.turn(op, addr, pc);
    // SAFETY: the bytes of the variable; none for a fence.
    let before = unsafe { value_at(addr, size) };
    let (result, value, failed) = perform();
    // SAFETY: as above.
    let after = unsafe { value_at(addr, size) };
    runtime.state.unchanged = size <= 8 && before == after;
    let foreign = size > 0 && runtime.state.atomic_values.operate(addr, before, after);
    let failed = if failed { Flags::FAILED } else { Flags::NONE };
    let flags = failed | if foreign { Flags::FOREIGN } else { Flags::NONE };
    // Compilers may add hints above the order's low bits.
    let order = Order::from_number(order as u8 & 7).unwrap_or(Order::SeqCst);
    runtime.log_access(op, flags, pc, (addr, size, order), value);
    result
}

/// Defines an exported function whose handler gets the return address in this register as one more argument.
macro_rules! exported {
    ($register:literal $name:expr, $handler:path) => {
        const _: () = {
            #[unsafe(naked)]
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn entry() {
        core::arch::naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {}", sym $handler)
            }
        };
    };
}

/// Defines the functions of one size over a type with the methods of the standard atomics.
macro_rules! size {
    ($module:ident, $bits:literal, $int:ty, $atomic:ty, $load:ident $store:ident $cas:ident $rmw:ident) => {
        mod $module {
            use super::*;

            const SIZE: u64 = $bits / 8;

            unsafe extern "C-unwind" fn $load(addr: *const $atomic, order: i32, pc: u64) -> $int {
                if addr as usize == IGNORED_VARIABLE.load(Relaxed) {
                    // SAFETY: the program's atomic variable.
                    return unsafe { (*addr).load(SeqCst) };
                }
                atomic(Op::AtomicLoad, (addr as usize, SIZE, order), pc, || {
                    // SAFETY: the program's atomic variable.
                    let value = unsafe { (*addr).load(SeqCst) };
                    (value, value as u64, false)
                })
            }

            unsafe extern "C-unwind" fn $store(addr: *const $atomic, value: $int, order: i32, pc: u64) {
                atomic(Op::AtomicStore, (addr as usize, SIZE, order), pc, || {
                    // SAFETY: the program's atomic variable.
                    unsafe { (*addr).store(value, SeqCst) };
                    ((), value as u64, false)
                })
            }

            unsafe extern "C-unwind" fn $cas(
                addr: *const $atomic,
                expected: *mut $int,
                value: $int,
                order: i32,
                _failed: i32,
                pc: u64,
            ) -> i32 {
                atomic(Op::AtomicCas, (addr as usize, SIZE, order), pc, || {
                    // SAFETY: the program's atomic variable and expected value.
                    match unsafe { (*addr).compare_exchange(*expected, value, SeqCst, SeqCst) } {
                        Ok(_) => (1, value as u64, false),
                        Err(found) => {
                            // SAFETY: as above.
                            unsafe { *expected = found };
                            (0, found as u64, true)
                        }
                    }
                })
            }

            unsafe extern "C-unwind" fn cas_value(
                addr: *const $atomic,
                mut expected: $int,
                value: $int,
                order: i32,
                failed: i32,
                pc: u64,
            ) -> $int {
                let requested = expected;
                // SAFETY: as above.
                let done = unsafe { $cas(addr, &raw mut expected, value, order, failed, pc) };
                if done != 0 { requested } else { expected }
            }

            $crate::atomic::exported!("rdx" concat!("__tsan_atomic", $bits, "_load"), $load);
            $crate::atomic::exported!("rcx" concat!("__tsan_atomic", $bits, "_store"), $store);
            $crate::atomic::exported!("r9" concat!("__tsan_atomic", $bits, "_compare_exchange_strong"), $cas);
            $crate::atomic::exported!("r9" concat!("__tsan_atomic", $bits, "_compare_exchange_weak"), $cas);
            $crate::atomic::exported!("r9" concat!("__tsan_atomic", $bits, "_compare_exchange_val"), cas_value);

            /// Read-modify-write; returns the old value and logs the new one.
            macro_rules! $rmw {
                ($name:literal, $method:ident, $new:expr) => {
                    const _: () = {
                        unsafe extern "C-unwind" fn update(addr: *const $atomic, value: $int, order: i32, pc: u64) -> $int {
                            atomic(Op::AtomicRmw, (addr as usize, SIZE, order), pc, || {
                                // SAFETY: the program's atomic variable.
                                let old = unsafe { (*addr).$method(value, SeqCst) };
                                let new: fn($int, $int) -> $int = $new;
                                (old, new(old, value) as u64, false)
                            })
                        }
                        $crate::atomic::exported!("rcx" concat!("__tsan_atomic", $bits, $name), update);
                    };
                };
            }
            $rmw!("_exchange", swap, |_, v| v);
            $rmw!("_fetch_add", fetch_add, |o, v| o.wrapping_add(v));
            $rmw!("_fetch_sub", fetch_sub, |o, v| o.wrapping_sub(v));
            $rmw!("_fetch_and", fetch_and, |o, v| o & v);
            $rmw!("_fetch_or", fetch_or, |o, v| o | v);
            $rmw!("_fetch_xor", fetch_xor, |o, v| o ^ v);
            $rmw!("_fetch_nand", fetch_nand, |o, v| !(o & v));
        }
    };
}

pub(crate) use exported;

size!(atomic8, 8, u8, AtomicU8, load8 store8 cas8 rmw8);
size!(atomic16, 16, u16, AtomicU16, load16 store16 cas16 rmw16);
size!(atomic32, 32, u32, AtomicU32, load32 store32 cas32 rmw32);
size!(atomic64, 64, u64, AtomicU64, load64 store64 cas64 rmw64);

mod wide {
    //! Sixteen bytes: built on the processor's compare-and-exchange.

    use core::{arch::asm, cell::UnsafeCell, sync::atomic::Ordering};

    #[repr(transparent)]
    pub(super) struct AtomicU128(UnsafeCell<u128>);

    impl AtomicU128 {
        pub(super) fn compare_exchange(
            &self,
            old: u128,
            new: u128,
            _: Ordering,
            _: Ordering,
        ) -> Result<u128, u128> {
            let (mut low, mut high) = (old as u64, (old >> 64) as u64);
            // SAFETY: every processor with FS-base instructions has this one; the address is the program's
            // atomic variable. The compiler reserves rbx, so it is restored.
            unsafe {
                asm!("xchg rsi, rbx", "lock cmpxchg16b [rdi]", "mov rbx, rsi",
                    in("rdi") self.0.get(), inout("rsi") new as u64 => _, in("rcx") (new >> 64) as u64,
                    inout("rax") low, inout("rdx") high, options(nostack));
            }
            let found = u128::from(high) << 64 | u128::from(low);
            if found == old { Ok(old) } else { Err(found) }
        }

        fn update(&self, new: impl Fn(u128) -> u128) -> u128 {
            let mut old = 0;
            loop {
                match self.compare_exchange(old, new(old), Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(old) => return old,
                    Err(found) => old = found,
                }
            }
        }

        pub(super) fn load(&self, _: Ordering) -> u128 {
            self.update(|old| old)
        }

        pub(super) fn store(&self, value: u128, _: Ordering) {
            self.update(|_| value);
        }

        pub(super) fn swap(&self, value: u128, _: Ordering) -> u128 {
            self.update(|_| value)
        }

        pub(super) fn fetch_add(&self, value: u128, _: Ordering) -> u128 {
            self.update(|old| old.wrapping_add(value))
        }

        pub(super) fn fetch_sub(&self, value: u128, _: Ordering) -> u128 {
            self.update(|old| old.wrapping_sub(value))
        }

        pub(super) fn fetch_and(&self, value: u128, _: Ordering) -> u128 {
            self.update(|old| old & value)
        }

        pub(super) fn fetch_or(&self, value: u128, _: Ordering) -> u128 {
            self.update(|old| old | value)
        }

        pub(super) fn fetch_xor(&self, value: u128, _: Ordering) -> u128 {
            self.update(|old| old ^ value)
        }

        pub(super) fn fetch_nand(&self, value: u128, _: Ordering) -> u128 {
            self.update(|old| !(old & value))
        }
    }
}
use wide::AtomicU128;

// A sixteen-byte argument takes two registers.
macro_rules! wide_entries {
    ($($register:literal $name:literal $handler:ident($($arg:ident: $type:ty),*) -> $ret:ty = $op:expr, |$place:ident| $perform:expr;)*) => {
        $(
            unsafe extern "C-unwind" fn $handler($place: *const AtomicU128, $($arg: $type,)* pc: u64) -> $ret {
                atomic($op, ($place as usize, 16, 5), pc, || {
                    // SAFETY: the program's atomic variable.
                    let $place = unsafe { &*$place };
                    $perform
                })
            }
            exported!($register concat!("__tsan_atomic128_", $name), $handler);
        )*
    };
}

wide_entries! {
    "rdx" "load" load128(_order: i32) -> u128 = Op::AtomicLoad, |a| { let v = a.load(SeqCst); (v, v as u64, false) };
    "r8" "store" store128(v: u128, _order: i32) -> () = Op::AtomicStore, |a| { a.store(v, SeqCst); ((), v as u64, false) };
    "r8" "exchange" swap128(v: u128, _order: i32) -> u128 = Op::AtomicRmw, |a| (a.swap(v, SeqCst), v as u64, false);
    "r8" "fetch_add" add128(v: u128, _order: i32) -> u128 = Op::AtomicRmw, |a| { let o = a.fetch_add(v, SeqCst); (o, o.wrapping_add(v) as u64, false) };
    "r8" "fetch_sub" sub128(v: u128, _order: i32) -> u128 = Op::AtomicRmw, |a| { let o = a.fetch_sub(v, SeqCst); (o, o.wrapping_sub(v) as u64, false) };
    "r8" "fetch_and" and128(v: u128, _order: i32) -> u128 = Op::AtomicRmw, |a| { let o = a.fetch_and(v, SeqCst); (o, (o & v) as u64, false) };
    "r8" "fetch_or" or128(v: u128, _order: i32) -> u128 = Op::AtomicRmw, |a| { let o = a.fetch_or(v, SeqCst); (o, (o | v) as u64, false) };
    "r8" "fetch_xor" xor128(v: u128, _order: i32) -> u128 = Op::AtomicRmw, |a| { let o = a.fetch_xor(v, SeqCst); (o, (o ^ v) as u64, false) };
    "r8" "fetch_nand" nand128(v: u128, _order: i32) -> u128 = Op::AtomicRmw, |a| { let o = a.fetch_nand(v, SeqCst); (o, !(o & v) as u64, false) };
}

// Six registers are not enough here: the return address is read from above the frame instead.
unsafe extern "C-unwind" fn cas128(
    place: *const AtomicU128,
    expected: *mut u128,
    value: u128,
    _order: i32,
    _failed: i32,
    pc: u64,
) -> i32 {
    atomic(Op::AtomicCas, (place as usize, 16, 5), pc, || {
        // SAFETY: the program's atomic variable and expected value.
        match unsafe { (*place).compare_exchange(*expected, value, SeqCst, SeqCst) } {
            Ok(_) => (1, value as u64, false),
            Err(found) => {
                // SAFETY: as above.
                unsafe { *expected = found };
                (0, found as u64, true)
            }
        }
    })
}

/// `(place, expected, value, order, failed)` uses rdi, rsi, rdx+rcx, r8, r9: the return address is passed on
/// the stack as the seventh word.
macro_rules! wide_compare_exchange {
    ($($name:literal)*) => {
        $(const _: () = {
            #[unsafe(naked)]
            #[unsafe(export_name = concat!("__tsan_atomic128_compare_exchange_", $name))]
            unsafe extern "C" fn entry() {
                naked_asm!(
                    ".cfi_startproc",
                    "push [rsp]",
                    ".cfi_adjust_cfa_offset 8",
                    "call {}",
                    "add rsp, 8",
                    ".cfi_adjust_cfa_offset -8",
                    "ret",
                    ".cfi_endproc",
                    sym cas128
                )
            }
        };)*
    };
}
wide_compare_exchange!("strong" "weak");

unsafe extern "C-unwind" fn thread_fence(order: i32, pc: u64) {
    atomic(Op::Fence, (0, 0, order), pc, || {
        fence(SeqCst);
        ((), 0, false)
    });
}
exported!("rsi" "__tsan_atomic_thread_fence", thread_fence);

/// Orders only the compiler, which has already complied.
#[unsafe(no_mangle)]
extern "C" fn __tsan_atomic_signal_fence(_order: i32) {}
