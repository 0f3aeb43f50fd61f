//! The network of a run: parallel runs must not meet at a port.
//!
//! A run of a search ends before it takes a port that the program chose, and the controller gives the program a network
//! of its own, with nothing but the loopback interface. If a run then talks to anybody outside the program, it ends before
//! that, and the controller uses the machine's network, for one run at a time.

use crate::{end, heap, log::c_bytes, stack, state::State, sys};
use alloc::vec::Vec;
use core::ffi::{c_char, c_void};
use unsnarl_wire::{NetworkRule, PEER_OUTSIDE, PORT};

/// The ports that the program has taken.
#[derive(Debug, Default)]
pub(crate) struct TakenPorts(Vec<u16>);

/// An address of a socket, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Address {
    /// Of the internet protocols.
    Internet { port: u16, is_local: bool },
    /// A name that exists only in memory; networks have separate ones.
    Abstract,
    /// Something else, which no network separates.
    Other,
}

impl Address {
    /// # Safety
    /// There are `len` bytes.
    unsafe fn read(address: *const c_void, len: u32) -> Self {
        let size = len as usize;
        if address.is_null() || size < 3 {
            return Self::Other;
        }
        // SAFETY: the family and a byte more are there.
        let (family, first) = unsafe { (*address.cast::<u16>(), *address.cast::<u8>().add(2)) };
        match i32::from(family) {
            libc::AF_INET if size >= size_of::<libc::sockaddr_in>() => {
                // SAFETY: there is a whole address, perhaps not aligned.
                let whole = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
                let [first, ..] = whole.sin_addr.s_addr.to_ne_bytes();
                let is_local = first == 127 || whole.sin_addr.s_addr == libc::INADDR_ANY;
                Self::Internet { port: u16::from_be(whole.sin_port), is_local }
            }
            libc::AF_INET6 if size >= size_of::<libc::sockaddr_in6>() => {
                // SAFETY: as above.
                let whole = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
                let bytes = whole.sin6_addr.s6_addr;
                let is_mapped = bytes[..10] == [0; 10] && bytes[10..12] == [0xff; 2] && bytes[12] == 127;
                let is_local = is_mapped || (bytes[..15] == [0; 15] && bytes[15] <= 1);
                Self::Internet { port: u16::from_be(whole.sin6_port), is_local }
            }
            libc::AF_UNIX if first == 0 => Self::Abstract,
            _ => Self::Other,
        }
    }
}

impl State {
    fn network_rule(&self) -> NetworkRule {
        NetworkRule::from_number(self.log.header().plan.network)
    }

    /// Prepares for taking an address.
    ///
    /// # Safety
    /// There are `len` bytes.
    pub(crate) unsafe fn before_bind(&self, address: *const c_void, len: u32) {
        if self.network_rule() == NetworkRule::Stop {
            // SAFETY: the caller's contract.
            match unsafe { Address::read(address, len) } {
                Address::Internet { port: 1.., .. } | Address::Abstract => {
                    end::changes_files(self, PORT.as_bytes())
                }
                Address::Internet { .. } | Address::Other => {}
            }
        }
    }

    /// Notes the port that a socket has.
    pub(crate) fn after_bind(&mut self, fd: i32) {
        if self.network_rule() != NetworkRule::Private {
            return;
        }
        let ports = &mut self.taken_ports.0;
        stack::run_isolated(|| {
            // SAFETY: all zeros is an address of no family.
            let mut own: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
            let mut len = size_of_val(&own) as u32;
            let place = (&raw mut own).cast::<c_void>();
            // SAFETY: there is room for the address and its length.
            unsafe {
                let args = [fd as usize, place as usize, &raw mut len as usize, 0, 0, 0];
                if sys::call(libc::SYS_getsockname, args) == 0
                    && let Address::Internet { port, .. } = Address::read(place, len)
                {
                    heap::with_plan_heap(|| ports.push(port));
                }
            }
        });
    }

    /// Prepares for looking up a host.
    pub(crate) fn before_lookup(&self, host: *const c_char) {
        let host = c_bytes(host);
        let is_number = host.iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':'));
        if self.network_rule() == NetworkRule::Private && !is_number && host != b"localhost" {
            end::changes_files(self, PEER_OUTSIDE.as_bytes());
        }
    }

    /// Prepares for talking to this address.
    ///
    /// # Safety
    /// There are `len` bytes.
    pub(crate) unsafe fn before_contact(&self, address: *const c_void, len: u32) {
        if self.network_rule() == NetworkRule::Private {
            // SAFETY: the caller's contract.
            let is_outside = match unsafe { Address::read(address, len) } {
                Address::Internet { port, is_local } => !is_local || !self.taken_ports.0.contains(&port),
                Address::Abstract | Address::Other => false,
            };
            if is_outside {
                end::changes_files(self, PEER_OUTSIDE.as_bytes());
            }
        }
    }
}
