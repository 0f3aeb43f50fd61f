//! The memory shared with the controller.

use crate::{debug, heap, hooks::ids, rewind, stack, sys};
use alloc::vec::Vec;
use core::{
    ffi::c_char,
    sync::atomic::{AtomicU32, Ordering},
};
use unsnarl_model::{Flags, Op, ThreadIx};
use unsnarl_wire::{
    CALLS_BYTES, Header, ONE_STACK_BYTES, PlanThread, RawAction, RawConflict, RawEnabled, RawEvent, RawFile,
    RawModule, RawSegment, RawSpan, RawStack, RawThread, RawWarning,
};

/// The number of events before more than one page of memory is requested from the kernel at once.
const FIRST_POPULATED: u64 = 128;

/// The runtime's side of the shared memory.
pub(crate) struct Log {
    header: *mut Header,
    events: *mut RawEvent,
    count: u64,
    /// The number of events before more than storing the next one is to be done: memory must be populated, or a
    /// check is due.
    room: u64,
    /// The number of events for which memory is already populated.
    populated: u64,
    /// The number of events at which a check is due.
    check_at: u64,
    capacity: u64,
    /// For each thread of this run, its entry in the plan.
    in_plan: Vec<Option<u16>>,
    /// For each thread of the plan, its index in this run.
    in_run: Vec<Option<ThreadIx>>,
    /// The offset of the kernel's thread id in glibc's thread descriptor.
    tid_offset: usize,
}

/// A copy of what a run has logged so far.
pub(crate) struct SavedLog {
    counts: [u32; 6],
    events: u64,
    first_random: u64,
    influences: u32,
    tables: [Vec<u8>; 8],
}

impl Log {
    /// Creates the log in the mapped memory.
    ///
    /// # Safety
    /// `header` is the beginning of a mapping that the controller has laid out.
    pub(crate) unsafe fn new(header: *mut Header, tid_offset: usize) -> Self {
        // SAFETY: the caller's contract.
        let (events, capacity, threads) = unsafe {
            let h = &*header;
            (header.byte_add(h.regions.events as usize).cast(), h.plan.max_events, h.plan.threads as usize)
        };
        let mut in_run = heap::with_plan_heap(|| alloc::vec![None; threads]);
        if let Some(main) = in_run.first_mut() {
            *main = Some(ThreadIx::MAIN);
        }
        Self {
            header,
            events,
            count: 0,
            room: FIRST_POPULATED.min(capacity),
            populated: FIRST_POPULATED.min(capacity),
            check_at: u64::MAX,
            capacity,
            in_plan: alloc::vec![Some(0)],
            in_run,
            tid_offset,
        }
    }

    #[allow(clippy::mut_from_ref, reason = "shared memory, accessed by one carrier")]
    pub(crate) fn header(&self) -> &mut Header {
        // SAFETY: the mapping is never removed, and only the carrier writes.
        unsafe { &mut *self.header }
    }

    /// Notes that the program uses a random number.
    pub(crate) fn note_random(&self) {
        let first = &self.header().first_random;
        if first.load(Ordering::Relaxed) == 0 {
            first.store(self.count + 1, Ordering::Relaxed);
        }
    }

    /// Notes that the run depends on something beside the order of its events.
    pub(crate) fn note_influence(&self, influence: u32) {
        self.header().influences.fetch_or(influence, Ordering::Relaxed);
    }

    /// Returns a pointer to an entry of the table at this offset.
    fn entry<T>(&self, table: u64, at: usize) -> *mut T {
        // SAFETY: tables lie within the mapping; callers check the bounds.
        unsafe { self.header.byte_add(table as usize).cast::<T>().add(at) }
    }

    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether [`store`](Self::store) is all that is to be done for the next event.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.count < self.room
    }

    /// Appends an event; returns its number, or `None` if the log is full.
    pub(crate) fn append(&mut self, event: RawEvent) -> Option<u64> {
        (self.has_room() || self.make_room()).then(|| self.store(event))
    }

    /// Appends an event for which there is room; returns its number.
    #[inline]
    pub(crate) fn store(&mut self, event: RawEvent) -> u64 {
        // SAFETY: below the capacity, for which the controller reserved memory.
        unsafe { self.events.add(self.count as usize).write(event) };
        self.count += 1;
        // The count is stored after the event: if the process dies, every counted event is complete.
        self.header().events.store(self.count, Ordering::Release);
        self.count - 1
    }

    /// Makes a check due at the event after this many, see [`is_check_due`](Self::is_check_due), and at all after it.
    pub(crate) fn check_at(&mut self, count: u64) {
        self.check_at = count;
        self.room = self.room();
    }

    /// Returns whether a check is due now.
    pub(crate) fn is_check_due(&self) -> bool {
        self.count >= self.check_at
    }

    /// Returns the last events, up to this number.
    pub(crate) fn last_events(&self, most: usize) -> &[RawEvent] {
        let length = most.min(self.count as usize);
        // SAFETY: `count` events were written.
        unsafe { core::slice::from_raw_parts(self.events.add(self.count as usize - length), length) }
    }

    /// Adds these flags to the last event, if it is of this thread.
    pub(crate) fn mark_last(&mut self, thread: ThreadIx, flags: Flags) {
        let Some(last) = self.count.checked_sub(1) else { return };
        // SAFETY: `count` events were written.
        let event = unsafe { &mut *self.events.add(last as usize) };
        if event.thread() == thread {
            *event = event.with(flags);
        }
    }

    /// Returns whether an event of this kind was logged.
    pub(crate) fn has(&self, op: Op) -> bool {
        // SAFETY: `count` events were written.
        (0..self.count as usize).any(|at| unsafe { (*self.events.add(at)).op() } == Some(op))
    }

    /// Copies everything logged so far.
    pub(crate) fn save(&self) -> SavedLog {
        let h = self.header();
        let table = |at: u64, bytes: usize| {
            // SAFETY: so many bytes were written there.
            unsafe { core::slice::from_raw_parts(self.entry::<u8>(at, 0), bytes) }.to_vec()
        };
        let rows = |count: &AtomicU32, size| count.load(Ordering::Relaxed) as usize * size;
        let counts = [&h.threads, &h.modules, &h.warnings, &h.conflicts, &h.panicked, &h.files];
        SavedLog {
            counts: counts.map(|count| count.load(Ordering::Relaxed)),
            events: self.count,
            first_random: h.first_random.load(Ordering::Relaxed),
            influences: h.influences.load(Ordering::Relaxed),
            tables: [
                table(h.regions.threads, rows(&h.threads, size_of::<RawThread>())),
                table(h.regions.modules, rows(&h.modules, size_of::<RawModule>())),
                table(h.regions.warnings, rows(&h.warnings, size_of::<RawWarning>())),
                table(h.regions.conflicts, rows(&h.conflicts, size_of::<RawConflict>())),
                table(h.regions.events, self.count as usize * size_of::<RawEvent>()),
                table(
                    h.regions.choices,
                    self.count as usize * usize::from(h.plan.choices) * size_of::<RawEnabled>(),
                ),
                table(h.regions.inputs, h.inputs.load(Ordering::Relaxed) as usize),
                table(h.regions.files, rows(&h.files, size_of::<RawFile>())),
            ],
        }
    }

    /// Returns the memory at this offset.
    pub(crate) fn place(&self, at: u64) -> *mut u8 {
        self.entry(at, 0)
    }

    /// Returns the thread's entry in the plan, if it has one.
    pub(crate) fn entry_in_plan(&self, thread: ThreadIx) -> Option<u16> {
        self.in_plan.get(thread.index()).copied().flatten()
    }

    /// Writes the saved log back, after the controller has laid out another plan.
    pub(crate) fn restore_log(&mut self, saved: &SavedLog) {
        let h = self.header();
        let regions = &h.regions;
        let places = [
            regions.threads,
            regions.modules,
            regions.warnings,
            regions.conflicts,
            regions.events,
            regions.choices,
            regions.inputs,
            regions.files,
        ];
        for (at, table) in places.into_iter().zip(&saved.tables) {
            // SAFETY: the tables are at the same offsets, or have room for as much.
            unsafe { core::ptr::copy_nonoverlapping(table.as_ptr(), self.entry(at, 0), table.len()) };
        }
        h.first_random.store(saved.first_random, Ordering::Relaxed);
        h.influences.store(saved.influences, Ordering::Relaxed);
        if h.plan.choices > 0 && saved.tables[5].is_empty() {
            // No choices were recorded: there was only one thread.
            let only = RawEnabled { can_run: 1, yields: 0 };
            // SAFETY: there is room for as many as the log has events.
            (0..saved.events as usize)
                .for_each(|at| unsafe { self.entry::<RawEnabled>(regions.choices, at).write(only) });
        }
        let counts = [&h.threads, &h.modules, &h.warnings, &h.conflicts, &h.panicked, &h.files];
        counts.into_iter().zip(saved.counts).for_each(|(count, saved)| count.store(saved, Ordering::Release));
        h.events.store(saved.events, Ordering::Release);
        h.inputs.store(saved.tables[6].len() as u64, Ordering::Release);
        self.count = saved.events;
        // The memory was populated in another process.
        self.populated = self.count;
        self.room = self.count;
        let threads = self.header().plan.threads as usize;
        self.in_plan.truncate(1);
        self.in_run = heap::with_plan_heap(|| alloc::vec![None; threads]);
        if let Some(main) = self.in_run.first_mut() {
            *main = Some(ThreadIx::MAIN);
        }
        for ix in (1..saved.counts[0] as u16).map(ThreadIx) {
            let RawThread { parent, nth, .. } = *self.thread(ix);
            self.find_in_plan(ix, ThreadIx(parent as u16), nth);
        }
    }

    /// Makes the kernel populate memory for more events at once, if necessary, which is much cheaper than one page
    /// fault per page; returns false if the log is full.
    #[cold]
    fn make_room(&mut self) -> bool {
        // The moment at which more room is needed differs in runs that continue from others.
        let has_room = self.count < self.populated || stack::run_isolated(|| self.populate());
        self.room = self.room();
        has_room
    }

    fn room(&self) -> u64 {
        self.populated.min(self.check_at)
    }

    fn populate(&mut self) -> bool {
        const MAX_BYTES: u64 = 1 << 17;
        let more = self.count.clamp(FIRST_POPULATED, MAX_BYTES).min(self.capacity - self.count);
        self.populated = self.count + more;
        if rewind::is_populated(self.populated) {
            return more > 0;
        }
        // SAFETY: within the log. A kernel without this request populates by page faults.
        unsafe {
            let from = self.events.add(self.count as usize) as usize & !4095;
            let to = self.events.add((self.count + more) as usize) as usize;
            let args = [from, to - from, libc::MADV_POPULATE_WRITE as usize, 0, 0, 0];
            rewind::call(libc::SYS_madvise, args);
        }
        more > 0
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = RawSegment> + '_ {
        let h = self.header();
        // SAFETY: the controller wrote so many.
        (0..h.plan.segments as usize).map(move |at| unsafe { *self.entry(h.regions.plan_segments, at) })
    }

    pub(crate) fn actions(&self) -> impl Iterator<Item = RawAction> + '_ {
        let h = self.header();
        // SAFETY: the controller wrote so many.
        (0..h.plan.actions as usize).map(move |at| unsafe { *self.entry(h.regions.plan_actions, at) })
    }

    pub(crate) fn spans(&self) -> impl Iterator<Item = RawSpan> + '_ {
        let h = self.header();
        // SAFETY: the controller wrote so many.
        (0..h.plan.spans as usize).map(move |at| unsafe { *self.entry(h.regions.plan_spans, at) })
    }

    /// The paths of the plan's modules.
    pub(crate) fn plan_modules(&self) -> impl Iterator<Item = &[u8]> + '_ {
        let h = self.header();
        (0..h.plan.modules as usize).map(move |at| {
            // SAFETY: the controller wrote so many.
            let module: &RawModule = unsafe { &*self.entry(h.regions.plan_modules, at) };
            until_zero(&module.path)
        })
    }

    /// Returns whether the instructions of the module with this path are traced.
    pub(crate) fn is_traced(&self, path: &[u8]) -> bool {
        let h = self.header();
        (0..h.plan.traced as usize).any(|at| {
            // SAFETY: the controller wrote so many.
            let module: &RawModule = unsafe { &*self.entry(h.regions.traced, at) };
            until_zero(&module.path) == path
        })
    }

    /// Returns the buffer of the instruction trace and its capacity in words.
    pub(crate) fn steps(&self) -> (*mut u64, u64) {
        let h = self.header();
        (self.entry(h.regions.steps, 0), h.plan.step_words)
    }

    /// Returns, for each thread, the number of events after which it is no longer traced; empty if all are
    /// traced throughout.
    pub(crate) fn traced_until(&self) -> &'static [u64] {
        let h = self.header();
        // SAFETY: the controller wrote so many; the memory is never unmapped.
        unsafe { core::slice::from_raw_parts(self.entry(h.regions.until, 0), h.plan.until as usize) }
    }

    /// Returns the functions at which a thread's trace pauses until it unwinds.
    pub(crate) fn trace_pauses(&self) -> &'static [u64] {
        let h = self.header();
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts(self.entry(h.regions.pauses, 0), h.plan.pauses as usize) }
    }

    /// Returns the thread of this run that corresponds to this thread of the plan.
    #[inline]
    pub(crate) fn resolve_thread(&self, in_plan: ThreadIx) -> Option<ThreadIx> {
        self.in_run.get(in_plan.index()).copied().flatten()
    }

    /// A thread's row in the shared table.
    #[allow(clippy::mut_from_ref, reason = "as above")]
    pub(crate) fn thread(&self, thread: ThreadIx) -> &mut RawThread {
        // SAFETY: there is a row for every thread number.
        unsafe { &mut *self.entry(self.header().regions.threads, thread.index()) }
    }

    /// Records a new thread.
    pub(crate) fn thread_created(
        &mut self,
        ix: ThreadIx,
        parent: ThreadIx,
        nth: u32,
        start: u64,
        detached: bool,
    ) {
        *self.thread(ix) = RawThread {
            parent: parent.0.into(),
            nth,
            start,
            ended: 0,
            blocked: 0,
            op: 0,
            joined_or_detached: detached.into(),
            pc: 0,
            addr: 0,
            holder: u64::MAX,
            name: [0; 16],
        };
        self.header().threads.store(u32::from(ix.0) + 1, Ordering::Release);
        if ix != ThreadIx::MAIN {
            self.find_in_plan(ix, parent, nth);
        }
    }

    /// Finds the new thread's entry in the plan.
    fn find_in_plan(&mut self, ix: ThreadIx, parent: ThreadIx, nth: u32) {
        let in_plan = self.in_plan[parent.index()].and_then(|parent| self.plan_entry(parent.into(), nth));
        self.in_plan.push(in_plan);
        if let Some(entry) = in_plan {
            self.in_run[entry as usize] = Some(ix);
        }
    }

    fn plan_entry(&self, parent: u32, nth: u32) -> Option<u16> {
        let h = self.header();
        (1..h.plan.threads as usize)
            // SAFETY: the controller wrote so many.
            .find(|&at| unsafe { *self.entry::<PlanThread>(h.regions.plan_threads, at) } == PlanThread { parent, nth })
            .map(|at| at as u16)
    }

    pub(crate) fn thread_ended(&self, ix: ThreadIx) {
        self.thread(ix).ended = 1;
    }

    /// Records that the thread was joined or detached.
    pub(crate) fn thread_joined_or_detached(&self, ix: ThreadIx) {
        self.thread(ix).joined_or_detached = 1;
    }

    pub(crate) fn thread_named(&self, ix: ThreadIx, name: &[u8]) {
        copy_truncated(&mut self.thread(ix).name, name);
    }

    /// Records a module; returns false if the table is full.
    pub(crate) fn module(&self, base: u64, start: u64, end: u64, path: &[u8]) -> bool {
        let h = self.header();
        let at = h.modules.load(Ordering::Relaxed);
        if at as usize >= unsnarl_wire::MAX_MODULES {
            return false;
        }
        // SAFETY: checked against the table's size.
        let module: &mut RawModule = unsafe { &mut *self.entry(h.regions.modules, at as usize) };
        (module.base, module.start, module.end) = (base, start, end);
        copy_truncated(&mut module.path, path);
        h.modules.store(at + 1, Ordering::Release);
        true
    }

    /// Records a misuse; it is dropped if the table is full.
    pub(crate) fn warning(&self, misuse: u8, thread: ThreadIx, pc: u64, addr: u64, detail: &[u8]) {
        let h = self.header();
        let count = h.warnings.load(Ordering::Relaxed) as usize;
        // SAFETY: `count` warnings were written.
        let known = (0..count).map(|at| unsafe { &*self.entry::<RawWarning>(h.regions.warnings, at) });
        let mut known =
            known.filter(|w| w.misuse == u32::from(misuse) && w.pc == pc && w.thread == u32::from(thread.0));
        if count >= unsnarl_wire::MAX_WARNINGS || known.next().is_some() {
            return;
        }
        // SAFETY: `count` was checked against the table's size.
        let warning: &mut RawWarning = unsafe { &mut *self.entry(h.regions.warnings, count) };
        *warning = RawWarning {
            misuse: misuse.into(),
            thread: thread.0.into(),
            pc,
            addr,
            at: self.count,
            detail: [0; 64],
        };
        copy_truncated(&mut warning.detail, detail);
        h.warnings.store(count as u32 + 1, Ordering::Release);
    }

    /// Records a conflict; it is dropped if the table is full.
    pub(crate) fn conflict(&self, conflict: RawConflict) {
        let h = self.header();
        let count = h.conflicts.load(Ordering::Relaxed);
        if (count as usize) < unsnarl_wire::MAX_CONFLICTS {
            // SAFETY: `count` was checked against the table's size.
            unsafe { self.entry::<RawConflict>(h.regions.conflicts, count as usize).write(conflict) };
            h.conflicts.store(count + 1, Ordering::Release);
        }
    }

    /// Records the path of a file; it is dropped if the table is full.
    pub(crate) fn file(&self, object: u64, path: &[u8]) {
        let h = self.header();
        let count = h.files.load(Ordering::Relaxed) as usize;
        // SAFETY: `count` files were written.
        let is_known =
            (0..count).any(|at| unsafe { (*self.entry::<RawFile>(h.regions.files, at)).object } == object);
        if is_known || count >= unsnarl_wire::MAX_FILES {
            return;
        }
        // SAFETY: `count` was checked against the table's size.
        let file: &mut RawFile = unsafe { &mut *self.entry(h.regions.files, count) };
        file.object = object;
        file.path.fill(0);
        copy_truncated(&mut file.path, path);
        h.files.store(count as u32 + 1, Ordering::Release);
    }

    /// Records which threads could run at the next event.
    pub(crate) fn choices(&self, choices: RawEnabled) {
        if self.count < self.capacity {
            let table = self.header().regions.choices;
            // SAFETY: there is room for as many as the log has events.
            unsafe { self.entry::<RawEnabled>(table, self.count as usize).write(choices) };
        }
    }

    /// Copies the stack of one side of a conflict over the stack copied for that side before.
    pub(crate) fn side_stack(&self, side: u64, thread: ThreadIx, registers: [u64; 8], top: usize) {
        let at = self.header().regions.stacks_end + side * ONE_STACK_BYTES;
        self.copy_stack((at, ONE_STACK_BYTES), side + 1, thread, registers, top);
    }

    /// Returns the numbers of the events whose call stacks are requested, in order.
    pub(crate) fn stack_requests(&self) -> &'static [u64] {
        let h = self.header();
        // SAFETY: the plan's table, which the controller has laid out and which does not change.
        unsafe {
            core::slice::from_raw_parts(
                self.entry(h.regions.stack_requests, 0),
                h.plan.stack_requests as usize,
            )
        }
    }

    /// Copies the call stack of an event, the `nth` requested one.
    pub(crate) fn calls(&self, nth: usize, number: u64, thread: ThreadIx, registers: [u64; 8], top: usize) {
        let at = self.header().regions.calls + nth as u64 * CALLS_BYTES;
        self.copy_stack((at, CALLS_BYTES), number + 1, thread, registers, top);
    }

    /// Appends a copy of a stack to those copied before.
    pub(crate) fn stack(&self, thread: ThreadIx, registers: [u64; 8], top: usize) {
        let h = self.header();
        let used = h.stacks.load(Ordering::Relaxed);
        let at = h.regions.stacks + used;
        let copied = self.copy_stack((at, h.regions.stacks_end - at), 0, thread, registers, top);
        h.stacks.store(used + copied, Ordering::Release);
    }

    /// Copies a stack from its stack pointer up to `top`, limited by the room and 128 KiB; returns the number
    /// of bytes used.
    fn copy_stack(
        &self,
        (at, room): (u64, u64),
        side: u64,
        thread: ThreadIx,
        registers: [u64; 8],
        top: usize,
    ) -> u64 {
        const MAX_BYTES: usize = 128 << 10;
        let head = size_of::<RawStack>();
        let room = room as usize;
        if room < head {
            return 0;
        }
        // Memory below an overflown stack is not readable: begin at the first readable page.
        let mut base = registers[1] as usize & !7;
        while base < top && !sys::is_readable(base) {
            base = (base | 4095) + 1;
        }
        let copy_size = top.saturating_sub(base).min(MAX_BYTES).min(room - head) & !7;
        let place: *mut RawStack = self.entry(at, 0);
        // SAFETY: within the room; the kernel copies only readable bytes.
        let copied = unsafe { sys::copy_memory(base, place.add(1) as usize, copy_size) } & !7;
        // SAFETY: as above.
        unsafe {
            *place =
                RawStack { thread: thread.0.into(), side, registers, base: base as u64, len: copied as u64 }
        };
        (head + copied) as u64
    }

    /// Returns the address of the kernel's thread id in glibc's thread descriptor.
    pub(crate) fn glibc_tid(&self, handle: usize) -> *mut u32 {
        (handle + self.tid_offset) as *mut u32
    }

    /// Stores the virtual process id as thread id in glibc's descriptor, so that glibc takes all fibers for
    /// one thread. The kernel's id differs from run to run; functions that ask the kernel about a thread see
    /// it only during the call (`ask_kernel` in `hooks/thread.rs`). Debuggers look for the kernel's id here.
    pub(crate) fn set_glibc_tid(&self, handle: usize) {
        stack::run_isolated(|| {
            let tid = if debug::is_on() { sys::process() } else { ids::PROCESS };
            // SAFETY: the descriptor is alive, and its thread is parked or is the caller.
            unsafe { *self.glibc_tid(handle) = tid as u32 };
        });
    }
}

/// Copies text into a zero-terminated field, truncating it.
pub(crate) fn copy_truncated(field: &mut [u8], text: &[u8]) {
    let len = text.len().min(field.len() - 1);
    field[..len].copy_from_slice(&text[..len]);
    field[len] = 0;
}

pub(crate) fn until_zero(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|&b| b == 0).unwrap_or(field.len())]
}

/// Returns the bytes of a C string.
pub(crate) fn c_bytes<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return b"";
    }
    // SAFETY: the pointer is a C string by the interface's contract.
    unsafe { core::ffi::CStr::from_ptr(text) }.to_bytes()
}
