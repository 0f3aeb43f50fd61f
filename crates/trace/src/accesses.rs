//! The encoding of logged accesses. Addresses and values are written in full: they hardly repeat, and a reader's memory
//! stays in proportion to the file.

use crate::bytes::{ByteCursor, Codec, CodecError, put_varint};
use unsnarl_model::{Continuation, Event, Flags, LoggedAccess, Op, Order, SiteIx, ThreadIx};

const IS_EVENT: u8 = 1;
const IS_WRITTEN: u8 = 2;

impl Codec for LoggedAccess {
    const LEAST: usize = 7 + 2 * size_of::<u64>();

    fn put(&self, out: &mut Vec<u8>) {
        let Event { thread, op, flags, order, site, context: _, size, addr, value } = self.access;
        thread.put(out);
        out.push(op as u8);
        out.push(order as u8);
        put_varint(u64::from(flags.0), out);
        put_varint(u64::from(site.0), out);
        put_varint(size, out);
        out.extend_from_slice(&addr.to_le_bytes());
        out.extend_from_slice(&value.to_le_bytes());
        put_varint(self.events_before, out);
        let written = if self.written.is_some() { IS_WRITTEN } else { 0 };
        out.push(written | if self.is_event { IS_EVENT } else { 0 });
        out.extend(self.written.into_iter().flat_map(u64::to_le_bytes));
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        let thread = ThreadIx::take(from)?;
        let op = Op::from_number(from.byte()?).ok_or("it has no such operation")?;
        let order = Order::from_number(from.byte()?).ok_or("it has no such memory order")?;
        let flags = u16::try_from(from.varint()?).map_err(|_| "a number is too large")?;
        let site = u32::try_from(from.varint()?).map_err(|_| "a number is too large")?;
        let size = from.varint()?;
        let addr = from.array().map(u64::from_le_bytes)?;
        let value = from.array().map(u64::from_le_bytes)?;
        let events_before = from.varint()?;
        let kind = from.byte()?;
        let is_known = kind & !(IS_EVENT | IS_WRITTEN) == 0;
        is_known.then_some(()).ok_or("it has no such kind of access")?;
        let written = if kind & IS_WRITTEN != 0 { Some(from.array().map(u64::from_le_bytes)?) } else { None };
        let flags = Flags(flags);
        let access = Event { thread, op, flags, order, site: SiteIx(site), context: 0, size, addr, value };
        Ok(Self { access, written, events_before, is_event: kind & IS_EVENT != 0 })
    }
}

impl Codec for Continuation {
    const LEAST: usize = 1 + Vec::<LoggedAccess>::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.event, out);
        self.steps.put(out);
    }

    fn take(from: &mut ByteCursor<'_>) -> Result<Self, CodecError> {
        Ok(Self { event: from.varint()?, steps: Vec::take(from)? })
    }
}
