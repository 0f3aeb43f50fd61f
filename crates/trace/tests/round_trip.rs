//! What was written comes back.

mod arbitrary;
mod looping;

use proptest::prelude::*;
use unsnarl_model::Trace;
use unsnarl_trace::{CHUNK, EventReader, decode, encode};

proptest! {
    #[test]
    fn any_trace_comes_back_as_it_was(trace in arbitrary::trace()) {
        prop_assert_eq!(decode(&encode(&trace)).unwrap(), trace);
    }
}

#[test]
fn chunks_end_where_they_should_whatever_the_number_of_events() {
    for events in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK] {
        let trace = looping::trace(events);
        assert!(decode(&encode(&trace)).unwrap() == trace, "{events} events");
    }
}

#[test]
fn a_trace_that_compresses_too_well_is_padded_and_comes_back_all_the_same() {
    let mut trace = looping::trace(1);
    trace.events = vec![trace.events[0]; 1_000_000];
    trace.output.stdout = vec![b'y'; 10_000_000];
    assert!(decode(&encode(&trace)).unwrap() == trace);
}

#[test]
fn events_can_be_read_chunk_by_chunk_after_everything_else() {
    let trace = looping::trace(2 * CHUNK + 7);
    let file = encode(&trace);
    let mut reader = EventReader::new(&*file).unwrap();
    assert_eq!(*reader.header(), Trace { events: Vec::new(), ..trace.clone() });
    assert_eq!(reader.events(), trace.events.len() as u64);
    let mut lengths = Vec::new();
    let mut events = Vec::new();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        lengths.push(chunk.len());
        events.extend_from_slice(chunk);
    }
    assert_eq!(lengths, [CHUNK, CHUNK, 7]);
    assert!(events == trace.events);
    assert!(reader.next_chunk().unwrap().is_none());
}

#[test]
fn a_loop_takes_little_more_than_a_byte_an_event() {
    let trace = looping::trace(100_000);
    let bytes = encode(&trace).len() as f64 / trace.events.len() as f64;
    assert!(bytes < 1.5, "{bytes} bytes an event");
}
