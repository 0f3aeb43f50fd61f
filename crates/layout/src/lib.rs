//! Fixed addresses on systems where the kernel insists on random ones.
//!
//! A controlled program must find the same addresses in every run. Usually the controller asks the kernel for
//! that, by `personality(ADDR_NO_RANDOMIZE)`. Containers forbid the call. There, the controller preloads this
//! library in front of the runtime. Its constructor runs before any other and loads the program a second
//! time, in the same process, at fixed addresses ([`addresses`]):
//!
//! 1. Map the program and its loader (`ld.so`) again, from their files ([`image`]).
//! 2. Build the initial stack that the kernel would have built, in a new mapping ([`stack`]).
//! 3. Move the heap behind the program ([`heap`]).
//! 4. Replace everything above [`addresses::TOP`] by one inaccessible mapping and jump to the loader ([`enter`]).
//!    From then on the kernel, which searches for room from the top down, finds the first free address right
//!    below `TOP`, whatever it drew at random.
//!
//! The first load has run only code of the loader and libc's early initialisation. The second one does not
//! preload this library. To the kernel the process is still the program: `/proc/self/exe`, the command line
//! and the environment are right.

#![no_std]

mod addresses;
mod enter;
mod heap;
mod image;
mod stack;
mod sys;

use image::{Image, Interpreter};
use stack::InitialStack;

#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn(i32, *const *const u8, *const *const u8) = init;

/// The constructor, to which glibc passes the arguments of `main`.
extern "C" fn init(_argc: i32, argv: *const *const u8, _envp: *const *const u8) {
    // SAFETY: `argv` is the array on the initial stack, as the kernel laid it out.
    let start = unsafe { InitialStack::at(argv.sub(1).cast()) };
    match reload(&start) {
        Ok(infallible) => match infallible {},
        Err(step) => {
            sys::write_stderr(
                b"unsnarl: this system forbids to switch address randomisation off, and the program cannot be loaded at fixed \
                  addresses: ",
            );
            sys::write_stderr(step.as_bytes());
            sys::write_stderr(b"\n");
            sys::exit(96);
        }
    }
}

/// Starts the program again; returns an error only if that is not possible.
fn reload(start: &InitialStack) -> Result<core::convert::Infallible, &'static str> {
    let file = sys::open(b"/proc/self/exe\0")
        .or_else(|| start.open_program())
        .ok_or("cannot open the program's file")?;
    let program = Image::read(file).ok_or("cannot read the program's file")?;
    let interpreter = Interpreter::of(&program).ok_or("cannot read the program's loader")?;
    let old = program.range(start.entry().wrapping_sub(program.entry()));

    if !sys::can_reserve(addresses::CEILING - addresses::TOP) {
        return Err("a limit on address space (`ulimit -v`) is too low");
    }
    // The first load is dismantled from here on: its symbols can no longer be looked up.
    enter::leave_restartable_sequences();
    let stack = stack::reserve(program.wants_executable_stack()).ok_or("no room for a stack")?;
    let loader_base = interpreter.base_below(stack.start - addresses::GUARD);
    let loader = interpreter.image().map(loader_base).ok_or("cannot map the program's loader")?;
    let base = program.base(addresses::PROGRAM);
    let loaded = program.map(base).ok_or("cannot map the program")?;
    let built = start.build(&stack, &loaded, &loader);
    let old_heap_end = sys::heap_end();
    if !heap::describe(&program, base, &loaded, &built) {
        heap::block_growth(old_heap_end);
    }
    if program.is_relocatable() {
        sys::unmap(old.start, old.end);
    }
    if (old.end..old.end + addresses::MAX_HEAP_DISTANCE).contains(&old_heap_end) {
        sys::unmap(old.end.max(loaded.end), old_heap_end);
    }
    sys::close(file);
    interpreter.close();
    enter::enter(loader.entry, built.pointer)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::write_stderr(b"unsnarl: internal error while the program was loaded at fixed addresses\n");
    sys::exit(96)
}

/// The core library was built with unwinding and refers to this symbol. Nothing here unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
