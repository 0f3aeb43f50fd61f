//! Traces survive writing and reading.

mod arbitrary;
mod looping;

use proptest::prelude::*;
use unsnarl_model::Trace;
use unsnarl_trace::{CHUNK, EventReader, decode, encode};

proptest! {
    #[test]
    fn traces_round_trip(trace in arbitrary::trace()) {
        prop_assert_eq!(decode(&encode(&trace)).unwrap(), trace);
    }
}

#[test]
fn chunk_boundaries_are_correct_for_any_event_count() {
    for events in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK] {
        let trace = looping::trace(events);
        assert!(decode(&encode(&trace)).unwrap() == trace, "{events} events");
    }
}

#[test]
fn highly_compressible_trace_is_padded_and_round_trips() {
    let mut trace = looping::trace(1);
    trace.events = vec![trace.events[0]; 1_000_000];
    trace.output.stdout = vec![b'y'; 10_000_000];
    assert!(decode(&encode(&trace)).unwrap() == trace);
}

#[test]
fn events_can_be_read_by_chunk() {
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
fn loop_events_take_about_one_byte() {
    let trace = looping::trace(100_000);
    let bytes = encode(&trace).len() as f64 / trace.events.len() as f64;
    assert!(bytes < 1.5, "{bytes} bytes an event");
}
