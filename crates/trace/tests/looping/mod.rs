//! A looping program of any size: four threads that acquire one lock and walk an array each.

use unsnarl_model::{
    Event, Flags, Module, ModuleIx, Op, Order, Program, Site, SiteIx, Thread, ThreadId, ThreadIx, Trace,
};

pub(crate) fn trace(events: usize) -> Trace {
    let site = |offset| Site { module: ModuleIx(0), offset };
    let thread = |id| Thread { id, name: String::new(), start: site(0x1000) };
    let children = (1..=4).map(|nth| thread(ThreadId::main().child(nth)));
    let mut random = 0x5eed_u64;
    let mut steps = [0_u64; 5];
    let mut running = 1;
    let events = (0..events).map(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let switch = random >> 60 == 0;
        if switch {
            running = 1 + (random >> 33) as usize % 4;
        }
        let step = steps[running];
        steps[running] += 1;
        let (op, addr, value, size) = match step % 6 {
            0 => (Op::Lock, 0x7fff_0000, 1, 0),
            1 => (Op::Read, 0x7fff_1000, step / 6, 8),
            2 => (Op::Write, 0x7fff_1000, step / 6, 8),
            3 => (Op::Unlock, 0x7fff_0000, 0, 0),
            4 => (Op::Read, 0x1_0000 * running as u64 + step / 6 * 4, random >> 50, 4),
            _ => (Op::AtomicRmw, 0x7fff_2000, step, 4),
        };
        Event {
            thread: ThreadIx(running as u16),
            op,
            flags: if switch { Flags::PREEMPTS } else { Flags::NONE },
            order: if op.is_atomic() { Order::SeqCst } else { Order::Relaxed },
            site: SiteIx((step % 6) as u32),
            context: 0,
            size,
            addr,
            value,
        }
    });
    Trace {
        program: Program { path: "/bin/loop".into(), ..Program::default() },
        modules: vec![Module { path: "/bin/loop".into(), size: 0x4000, ..Module::default() }],
        events: events.collect(),
        threads: [thread(ThreadId::main())].into_iter().chain(children).collect(),
        sites: (0..6).map(|nth| site(0x1100 + 0x20 * nth)).collect(),
        ..Trace::default()
    }
}
