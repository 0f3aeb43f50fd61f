//! Calls of libraries by the user's own code, during which events happen.

use crate::{Names, describe, functions, objects::ObjectNames, paths};
use std::fmt::Write;
use unsnarl_model::{Event, Site, Trace};
use unsnarl_symbols::Frame;

/// The user's innermost frame at an event, and what it called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LibraryCall {
    /// The site of the frame.
    pub(crate) site: Site,
    pub(crate) frame: Frame,
    /// The library functions between the frame and the event, innermost first, without generic arguments. Empty if the
    /// event is the user's own.
    pub(crate) functions: Vec<String>,
    /// The call in the source, like `queue.pop()`.
    pub(crate) call: Option<String>,
    /// What the called function acts on, like `queue`.
    pub(crate) receiver: Option<String>,
}

impl LibraryCall {
    /// Returns the call during which an event happened; `None` if no code of the user's led to it.
    pub(crate) fn of(trace: &Trace, event: &Event, names: &mut dyn Names) -> Option<Self> {
        let (own, user) = (trace.site(event), trace.user_site(event));
        // Without the calls in between, only the user's own is known.
        let calls: Vec<Site> = match event.context {
            0 => (own != user).then_some(user).into_iter().collect(),
            _ => trace.calls(event).collect(),
        };
        let mut functions = Vec::new();
        for site in std::iter::once(own).chain(calls) {
            for frame in names.frames(site) {
                if frame.system || frame.line.is_none() {
                    functions.extend(frame.function.as_deref().map(functions::plain));
                    continue;
                }
                let call = names.call(site, &frame).filter(|_| !functions.is_empty());
                let (call, receiver) = call.map_or((None, None), |call| (call.text, call.receiver));
                return Some(Self { site, frame, functions, call, receiver });
            }
        }
        None
    }

    /// Returns the function that the user's code called, if the event is in a library.
    pub(crate) fn called(&self) -> Option<&str> {
        self.functions.last().map(String::as_str)
    }
}

/// Renders the calls that led to each event, innermost first, as far as they were determined.
#[must_use]
pub fn calls_text(trace: &Trace, names: &mut dyn Names) -> String {
    let objects = ObjectNames::of(trace, names);
    let mut text = String::from("calls\n");
    for (number, event) in trace.events.iter().enumerate() {
        let thread = trace.thread_id(event.thread);
        let _ = writeln!(text, "{number:>5}  {thread}  {}", describe::event(trace, &objects, number));
        for site in std::iter::once(trace.site(event)).chain(trace.calls(event)) {
            for frame in names.frames(site) {
                let function = frame.function.as_deref().map(functions::plain).unwrap_or_default();
                let place = frame.file.as_deref().zip(frame.line);
                let place = place.map(|(file, line)| format!("{}:{line}  ", paths::base(file)));
                let _ = writeln!(text, "         {}{function}", place.unwrap_or_default());
            }
        }
    }
    text
}
