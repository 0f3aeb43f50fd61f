//! Damaged files: each yields its own error, and none a panic.

mod arbitrary;
mod looping;

use proptest::prelude::*;
use std::sync::Arc;
use unsnarl_model::{
    Action, Backtrace, Context, Event, Flags, Limit, ModuleIx, Op, Segment, Site, SiteIx, ThreadId, ThreadIx,
    Timeouts, Trace, Wait,
};
use unsnarl_trace::{DecodeError, EventReader, FORMAT, decode, encode};

fn message(bytes: &[u8]) -> String {
    decode(bytes).unwrap_err().to_string()
}

/// Returns the start of each section: tag, unpacked, packed, two checksums, then the packed bytes.
fn sections(file: &[u8]) -> Vec<(String, usize)> {
    let mut at = 12;
    let mut all = Vec::new();
    while at < file.len() {
        let packed = u64::from_le_bytes(file[at + 12..at + 20].try_into().unwrap());
        all.push((String::from_utf8(file[at..at + 4].to_vec()).unwrap(), at));
        at += 28 + packed as usize;
    }
    all
}

#[test]
fn sections_are_ordered() {
    let names: Vec<_> = sections(&encode(&looping::trace(9))).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "prog", "plan", "thrd", "outc", "outp", "inpt", "call", "pwrn", "recd", "tout", "cont", "ctxt",
            "evnt", "end."
        ]
    );
}

#[test]
fn foreign_file_is_not_a_trace() {
    let expected = "is not an unsnarl trace; `unsnarl record` and `unsnarl explore` make traces";
    assert_eq!(message(b""), expected);
    assert_eq!(message(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"), expected);
    assert_eq!(message(b"unsnarl is a debugger"), expected);
    assert_eq!(message(b"\x1f\x8b\x08"), "is compressed; unpack it first: gunzip");
}

#[test]
fn newer_format_asks_for_update() {
    let mut file = encode(&looping::trace(9));
    let (newest, found) = (FORMAT, FORMAT + 1);
    file[8..12].copy_from_slice(&found.to_le_bytes());
    assert_eq!(
        message(&file),
        format!(
            "was written by a newer unsnarl (format {found}, this one reads up to {newest}); update unsnarl"
        )
    );
    file[8..12].copy_from_slice(&0_u32.to_le_bytes());
    assert!(message(&file).starts_with("is damaged in its first bytes: there was no such format"));
}

/// Encodes a trace of one chunk as a file of a format before 10, which lacks this section and those up to the events,
/// and the columns of high flags and calling contexts.
fn older(trace: &Trace, format: u32, lacks: &str) -> Vec<u8> {
    let mut file = encode(trace);
    let all = sections(&file);
    let place = |name: &str| all.iter().position(|(n, _)| n == name).expect("a section");
    let (first, events) = (place(lacks), place("evnt"));
    file = repacked(&file, events, |content| {
        let lengths = content.split_off(content.len() - 2 * size_of::<u64>());
        assert_eq!(lengths, [0; 16], "the columns are empty");
    });
    let all = sections(&file);
    file.drain(all[first].1..all[events].1);
    file[8..12].copy_from_slice(&format.to_le_bytes());
    file
}

#[test]
fn older_formats_are_readable() {
    for (format, lacks) in [(7_u32, "pwrn"), (6, "call"), (5, "inpt")] {
        let mut trace = looping::trace(9);
        trace.plan.inputs = Some(Arc::default());
        trace.callers.clone_from(&trace.sites);
        trace.program_warnings = vec!["bound lazily".into()];
        trace.native = true;
        let read = decode(&older(&trace, format, lacks)).expect("an older file");
        assert!(!read.native);
        assert_eq!(read.plan.timeouts, Timeouts::Eager);
        assert_eq!((read.plan.inputs.is_some(), read.callers.is_empty()), (format > 5, format < 7));
        assert_eq!(read.program_warnings, Vec::<String>::new());
        assert_eq!(read.events, trace.events);
    }
}

#[test]
fn format_11_has_no_contexts() {
    let mut trace = looping::trace(9);
    trace.contexts = vec![Context { site: trace.sites[0], caller: 0 }];
    let mut file = encode(&trace);
    assert_eq!(decode(&file).expect("a file").contexts, trace.contexts);
    let all = sections(&file);
    let place = |name: &str| all.iter().find(|(n, _)| n == name).expect("a section").1;
    file.drain(place("ctxt")..place("evnt"));
    file[8..12].copy_from_slice(&11_u32.to_le_bytes());
    let read = decode(&file).expect("an older file");
    assert!(read.contexts.is_empty());
    assert_eq!(read.events, trace.events);
}

/// Returns a file without what format 11 added, as of format 10.
fn format_10(trace: &Trace) -> Vec<u8> {
    let mut file = encode(trace);
    let all = sections(&file);
    let place = |name: &str| all.iter().find(|(n, _)| n == name).expect("a section").1;
    file.drain(place("tout")..place("evnt"));
    file[8..12].copy_from_slice(&10_u32.to_le_bytes());
    file
}

/// Up to format 10 there was no rule for time-outs.
#[test]
fn timeouts_of_format_10_are_eager() {
    for timeouts in [Timeouts::Eager, Timeouts::Fair, Timeouts::Late] {
        let mut trace = looping::trace(9);
        trace.plan.timeouts = timeouts;
        assert_eq!(decode(&encode(&trace)).expect("a new file").plan.timeouts, timeouts);
        let read = decode(&format_10(&trace)).expect("an older file");
        assert_eq!((read.plan.timeouts, read.events), (Timeouts::Eager, trace.events));
    }
}

/// Up to format 10, no schedule point followed the creation of a thread.
#[test]
fn old_plans_have_no_points_after_creations() {
    let trace = looping::trace(9);
    assert!(decode(&encode(&trace)).expect("the file").plan.continuations);
    let read = decode(&format_10(&trace)).expect("an older file");
    assert!(!read.plan.continuations);
    assert_eq!(read.events, trace.events);
}

/// The file was recorded from `data/format9.c` by the last version that wrote format 9.
#[test]
fn events_of_format_9_are_kept() {
    let trace = decode(include_bytes!("data/format9.snarl")).expect("an older file");
    assert!(!trace.native);
    let lock = trace.events[1].addr;
    let expected = [
        (0, Op::Start, Flags::NONE),
        (0, Op::Lock, Flags::NONE),
        (0, Op::Create, Flags::NONE),
        (1, Op::Start, Flags::NONE),
        (1, Op::Lock, Flags::TIMED_OUT | Flags::BOUNDED | Flags::BLOCKED),
        (0, Op::Sleep, Flags::TIMED_OUT | Flags::BOUNDED | Flags::BLOCKED),
        (0, Op::CondWait, Flags::NONE),
        (1, Op::Lock, Flags::BLOCKED),
        (1, Op::Signal, Flags::NONE),
        (1, Op::Unlock, Flags::NONE),
        (1, Op::End, Flags::NONE),
        (0, Op::CondWake, Flags::BLOCKED),
        (0, Op::Unlock, Flags::NONE),
        (0, Op::Join, Flags::NONE),
        (0, Op::Exit, Flags::NONE),
    ];
    let found = trace.events.iter().map(|event| (event.thread.0, event.op, event.flags));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!((trace.events[11].waited_mutex(), trace.events[11].waker()), (Some(lock), Some(8)));
    assert!(trace.events.iter().all(|event| event.context == 0));
    assert_eq!(trace.events.iter().filter(|event| event.size > 0).count(), 1, "only the waker");
}

/// The file was recorded from `data/format10.c` with `--max-events 12` by the last version that wrote format 10.
#[test]
fn time_out_of_format_10_is_undecided() {
    let trace = decode(include_bytes!("data/format10.snarl")).expect("an older file");
    assert_eq!(trace.outcome.limit(), Some(Limit::Events));
    assert_eq!((trace.events.len(), trace.outcome.is_failure()), (12, false));
}

/// Up to format 8, the end of a wait named only the waking event.
#[test]
fn events_of_older_formats_are_translated() {
    let mut trace = looping::trace(7);
    let operations = [
        (1, Op::Lock, 0x10, 1, Flags::NONE),
        (1, Op::Lock, 0x10, 2, Flags::NONE),
        (1, Op::CondWait, 0x20, 0x10, Flags::FOREIGN),
        (2, Op::Signal, 0x20, 1, Flags::NONE),
        (1, Op::CondWake, 0x20, 3, Flags::NONE),
        (2, Op::FutexRequeue, 0x30, 5, Flags::NONE),
        (2, Op::SigWait, 9, u64::MAX, Flags::NONE),
    ];
    for (event, (thread, op, addr, value, flags)) in trace.events.iter_mut().zip(operations) {
        *event = Event { thread: ThreadIx(thread), op, addr, value, flags, size: 0, ..*event };
    }
    let events = decode(&older(&trace, 8, "recd")).expect("an older file").events;
    assert_eq!((events[2].value, events[2].size, events[2].flags), (0x10, 1, Flags::NONE));
    assert_eq!((events[4].waited_mutex(), events[4].waker()), (Some(0x10), Some(3)));
    assert_eq!((events[5].value, events[5].size), (0, 5));
    assert_eq!(events[6].waker(), None);
}

#[test]
fn truncated_file_reports_its_section() {
    let file = encode(&looping::trace(99));
    for cut in 1..file.len() {
        assert!(matches!(decode(&file[..cut]), Err(DecodeError::Truncated { .. })), "cut at {cut}");
    }
    let before_end = sections(&file).pop().unwrap().1;
    assert_eq!(
        message(&file[..before_end]),
        "is cut short in its last section; copy it again, or record it again"
    );
    assert_eq!(message(&file[..9]), "is cut short in its first bytes; copy it again, or record it again");
}

#[test]
fn flipped_bit_reports_its_section() {
    let file = encode(&looping::trace(99));
    let words = [
        "program",
        "plan",
        "threads",
        "outcome",
        "output",
        "inputs",
        "callers",
        "program warnings",
        "recording",
        "time-outs",
        "continuations",
        "contexts",
        "events",
        "last",
    ];
    for ((_, at), word) in sections(&file).into_iter().zip(words) {
        let mut damaged = file.clone();
        damaged[at + 28 + 5] ^= 4;
        let start = format!("is damaged in its {word} section: its checksum does not match; ");
        assert!(message(&damaged).starts_with(&start), "{}", message(&damaged));
        let mut damaged = file.clone();
        damaged[at + 7] ^= 1;
        let start = format!("is damaged in its {word} section: the checksum of its header does not match; ");
        assert!(message(&damaged).starts_with(&start), "{}", message(&damaged));
    }
}

#[test]
fn trailing_bytes_are_damage() {
    let mut file = encode(&looping::trace(9));
    file.push(0);
    assert!(message(&file).starts_with("is damaged in its last section: more bytes follow it"));
}

#[test]
fn missing_chunk_is_damage() {
    let file = encode(&looping::trace(9));
    let all = sections(&file);
    let at = |name: &str| all.iter().find(|(n, _)| n == name).expect("a section").1;
    let (events, end) = (at("evnt"), at("end."));
    let without = [&file[..events], &file[end..]].concat();
    assert!(
        message(&without).starts_with("is damaged in its events section: another section is in its place")
    );
}

#[test]
fn inconsistent_parts_are_rejected() {
    let far = Site { module: ModuleIx(1), offset: 0 };
    let stranger = ThreadIx(5);
    let main = ThreadIx::MAIN;
    let near = Site::default();
    type Change = Box<dyn Fn(&mut Trace)>;
    let changes: Vec<(&str, Change)> = vec![
        ("threads", Box::new(|t| t.threads.clear())),
        ("threads", Box::new(|t| t.threads[0].id = ThreadId::main().child(1))),
        ("threads", Box::new(move |t| t.threads[1].start = far)),
        ("threads", Box::new(move |t| t.sites[1] = far)),
        ("callers", Box::new(move |t| t.callers = vec![near])),
        ("callers", Box::new(move |t| t.callers = vec![far; t.sites.len()])),
        ("contexts", Box::new(move |t| t.contexts = vec![Context { site: far, caller: 0 }])),
        ("contexts", Box::new(move |t| t.contexts = vec![Context { site: near, caller: 1 }])),
        ("events", Box::new(move |t| t.events[3].thread = stranger)),
        ("events", Box::new(|t| t.events[3].site = SiteIx(6))),
        ("outcome", Box::new(move |t| t.outcome.thread = Some(stranger))),
        ("outcome", Box::new(move |t| t.outcome.site = Some(far))),
        (
            "outcome",
            Box::new(move |t| {
                t.outcome.backtraces = vec![Backtrace { thread: main, frames: vec![near, far] }];
            }),
        ),
        (
            "outcome",
            Box::new(move |t| {
                t.outcome.waits =
                    vec![Wait { thread: main, op: Op::Lock, addr: 1, site: near, holders: vec![stranger] }];
            }),
        ),
        ("plan", Box::new(move |t| t.plan.prefix.segments = vec![Segment { thread: main, points: 1 }])),
        (
            "plan",
            Box::new(move |t| {
                t.plan = t.replay_plan();
                t.plan.prefix.actions.pop();
            }),
        ),
        (
            "plan",
            Box::new(move |t| {
                t.plan = t.replay_plan();
                t.plan.prefix.actions[4] = Action { op: Op::Lock, site: far }.into();
            }),
        ),
    ];
    for (number, (section, change)) in changes.iter().enumerate() {
        let mut trace = looping::trace(9);
        change(&mut trace);
        let message = message(&encode(&trace));
        let start = format!("is damaged in its {section} section: ");
        assert!(message.starts_with(&start), "change {number}: {message}");
    }
}

fn read_chunks(bytes: &[u8]) -> Result<u64, DecodeError> {
    let mut reader = EventReader::new(bytes)?;
    let mut events = 0;
    while let Some(chunk) = reader.next_chunk()? {
        events += chunk.len() as u64;
    }
    Ok(events)
}

/// Corrects the checksums, so that the code behind them is reached.
fn with_checksums(mut file: Vec<u8>) -> Vec<u8> {
    let mut at = 12;
    while let Some(header) = file.get(at..at + 28) {
        let packed = u64::from_le_bytes(header[12..20].try_into().unwrap());
        let Some(end) = usize::try_from(packed).ok().and_then(|packed| packed.checked_add(at + 28)) else {
            break;
        };
        let Some(content) = file.get(at + 28..end) else { break };
        let checksum = crc32fast::hash(content);
        file[at + 20..at + 24].copy_from_slice(&checksum.to_le_bytes());
        let own = crc32fast::hash(&file[at..at + 24]);
        file[at + 24..at + 28].copy_from_slice(&own.to_le_bytes());
        at = end;
    }
    file
}

/// Changes the unpacked contents of a section.
fn repacked(file: &[u8], section: usize, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let starts: Vec<_> = sections(file).into_iter().map(|(_, at)| at).chain([file.len()]).collect();
    let (start, end) = (starts[section], starts[section + 1]);
    let mut content = zstd::bulk::decompress(&file[start + 28..end], 1 << 20).unwrap();
    change(&mut content);
    let packed = zstd::bulk::compress(&content, 3).unwrap();
    let mut header = file[start..start + 28].to_vec();
    header[4..12].copy_from_slice(&(content.len() as u64).to_le_bytes());
    header[12..20].copy_from_slice(&(packed.len() as u64).to_le_bytes());
    with_checksums([&file[..start], &header, &packed, &file[end..]].concat())
}

/// Whatever is accepted is a trace, and both ways of reading yield the same one.
fn both_readers_agree(file: &[u8]) -> Result<(), TestCaseError> {
    match decode(file) {
        Ok(trace) => {
            prop_assert_eq!(read_chunks(file).unwrap(), trace.events.len() as u64);
            prop_assert_eq!(decode(&encode(&trace)).unwrap(), trace);
        }
        Err(error) => prop_assert_eq!(read_chunks(file).unwrap_err().to_string(), error.to_string()),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), start: bool) {
        if start && bytes.len() > 12 {
            bytes[..12].copy_from_slice(b"unsnarl\0\x01\0\0\0");
        }
        prop_assert!(decode(&bytes).is_err());
        prop_assert!(decode(&with_checksums(bytes)).is_err());
    }

    #[test]
    fn changed_bytes_never_panic(
        trace in arbitrary::trace(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let file = encode(&trace);
        let mut damaged = file.clone();
        for (at, byte) in changes {
            *at.get_mut(&mut damaged) = byte;
        }
        if let Some(cut) = cut {
            damaged.truncate(cut.index(damaged.len()));
        }
        if damaged != file {
            prop_assert!(decode(&damaged).is_err());
        }
        both_readers_agree(&with_checksums(damaged))?;
    }

    #[test]
    fn changed_content_never_panics(
        trace in arbitrary::trace(),
        section in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let file = encode(&trace);
        let section = section.index(sections(&file).len());
        let damaged = repacked(&file, section, |content| {
            for (at, byte) in changes {
                *at.get_mut(content) = byte;
            }
            if let Some(cut) = cut {
                content.truncate(cut.index(content.len()));
            }
        });
        both_readers_agree(&damaged)?;
    }
}
