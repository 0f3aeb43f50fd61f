//! Calls of libraries by the user's own code, during which events happen.

use crate::Names;
use unsnarl_model::{Event, Site, Trace};
use unsnarl_symbols::Frame;

/// The user's innermost frame at an event, and what it called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LibraryCall {
    pub(crate) frame: Frame,
    /// The call in the source, like `queue.pop()`, if the event happened in a library.
    pub(crate) call: Option<String>,
}

impl LibraryCall {
    /// Returns the call during which an event happened; `None` if no code of the user's is known to have led to it.
    pub(crate) fn of(trace: &Trace, event: &Event, names: &mut dyn Names) -> Option<Self> {
        let (own, user) = (trace.site(event), trace.user_site(event));
        let sites: Vec<Site> = if own == user { vec![own] } else { vec![own, user] };
        let mut is_in_library = false;
        for site in sites {
            for frame in names.frames(site) {
                if frame.system || frame.line.is_none() {
                    is_in_library = true;
                    continue;
                }
                let call = if is_in_library { names.call(site, &frame) } else { None };
                return Some(Self { frame, call: call.and_then(|call| call.text) });
            }
        }
        None
    }
}
