//! Loads that a processor may execute before an earlier store of their thread. A run under control executes one operation
//! after the other, so it shows no result of that.

use alloc::vec::Vec;
use unsnarl_model::{Event, Op, Order};

/// The last store of each thread that the processor may still delay.
#[derive(Debug, Default)]
pub struct StoreBuffers {
    has_threads: bool,
    /// By thread; the address of the variable.
    addresses: Vec<Option<u64>>,
}

impl StoreBuffers {
    /// Processes an event; returns whether it is a load that may be executed before an earlier store. On x86-64 that is
    /// possible if nothing between them is sequentially consistent or has a lock prefix. Plain accesses are not
    /// considered: if their order matters, they are a data race.
    pub fn step(&mut self, event: &Event) -> bool {
        self.has_threads |= event.op == Op::Create;
        let thread = event.thread.index();
        if self.addresses.len() <= thread {
            self.addresses.resize(thread + 1, None);
        }
        let pending = &mut self.addresses[thread];
        match event.op {
            Op::Read | Op::Write => false,
            Op::AtomicLoad => self.has_threads && pending.is_some_and(|address| address != event.addr),
            // Only a sequentially consistent fence is an instruction.
            Op::Fence if event.order != Order::SeqCst => false,
            op => {
                let delays = op == Op::AtomicStore && event.order != Order::SeqCst;
                *pending = delays.then_some(event.addr);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnarl_model::ThreadIx;

    fn any(events: impl IntoIterator<Item = Event>) -> bool {
        let mut stores = StoreBuffers::default();
        events.into_iter().any(|event| stores.step(&event))
    }

    fn atomic(thread: u16, op: Op, addr: u64, order: Order) -> Event {
        Event { addr, order, ..Event::new(ThreadIx(thread), op) }
    }

    fn delays(events: &[Event]) -> bool {
        let create = Event::new(ThreadIx(0), Op::Create);
        any([create].into_iter().chain(events.iter().copied()))
    }

    #[test]
    fn load_can_pass_an_earlier_store_to_another_variable() {
        let store = atomic(1, Op::AtomicStore, 0x10, Order::Release);
        let load = atomic(1, Op::AtomicLoad, 0x20, Order::Acquire);
        assert!(delays(&[store, load]));
        assert!(!delays(&[load, store]));
        assert!(!delays(&[store, Event { addr: 0x10, ..load }]), "it sees its own store");
        assert!(!delays(&[store, Event { thread: ThreadIx(2), ..load }]));
        assert!(!delays(&[Event { order: Order::SeqCst, ..store }, load]));
        for op in [Op::AtomicRmw, Op::Lock] {
            assert!(!delays(&[store, atomic(1, op, 0x30, Order::AcqRel), load]), "{op:?}");
        }
        assert!(delays(&[store, atomic(1, Op::Fence, 0, Order::AcqRel), load]));
        assert!(!delays(&[store, atomic(1, Op::Fence, 0, Order::SeqCst), load]));
        assert!(!any([store, load]), "there is only one thread");
    }
}
