//! What is persisted comes back as it was, and what this version did not write is refused.

use onceward_connector::RowChunk;
use onceward_engine::delivery::{Borders, LossCounts, ReferenceCounts};
use onceward_engine::layout::{LayoutKeyed, LayoutRange, LayoutSource};
use onceward_engine::stored::{
    Counters, borders_key, counters_key, cursor_key, encode_chunk, encode_count, encode_lane, lane_key,
    loss_key, outbox_key, outboxed_key, reference_key, resume_key, taken_key,
};
use onceward_engine::{Layout, Stored};
use onceward_protocol::recut::LaneState;
use onceward_protocol::resume::ResumePoint;
use onceward_protocol::state::PipelineState;
use onceward_protocol::{
    Creation, Cursor, CursorPhase, Fence, Frontier, KeyRange, LanePoint, Position, Watermark,
};
use onceward_store::TableId;
use proptest::prelude::*;

use crate::manifest::{COUNT_AND_SUM, Manifest};
use crate::world::{World, row};

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(".{0,12}", 0..4)
}

prop_compose! {
    fn layouts()(
        creation in any::<u128>(),
        pipeline in ".{0,12}",
        canonical in ".{0,40}",
        sources in prop::collection::vec((".{0,12}", any::<u128>(), names()), 0..4),
        keyed in prop::collection::vec((".{0,12}", ranges()), 0..4),
        numbers in any::<(u32, u32)>(),
        state in 0usize..6,
        delivered in prop::collection::btree_map(".{0,12}", any::<u64>(), 0..3),
    ) -> Layout {
        let sources = sources.into_iter().map(|(name, creation, partitions)| {
            LayoutSource { name, creation: Creation(creation), partitions, first: 0 }
        });
        let states = [
            PipelineState::Working,
            PipelineState::Draining,
            PipelineState::Stopped,
            PipelineState::Pausing,
            PipelineState::Paused,
            PipelineState::Completed,
        ];
        Layout {
            creation: Creation(creation),
            pipeline,
            version: numbers.0,
            next_number: numbers.1,
            canonical,
            sources: sources.collect(),
            keyed: keyed.into_iter().map(|(name, ranges)| LayoutKeyed { name, ranges, wanted: None }).collect(),
            state: states[state],
            delivered,
        }
    }
}

fn ranges() -> impl Strategy<Value = Vec<LayoutRange>> {
    let range = any::<(u32, u32, u32, u64, u64, bool)>().prop_map(
        |(number, version, index, first, last, retired)| LayoutRange {
            number,
            version,
            index,
            range: KeyRange { first, last },
            retired,
        },
    );
    prop::collection::vec(range, 0..4)
}

prop_compose! {
    fn chunks()(rows in prop::collection::vec((1u64..3, 1u32..5, prop::collection::vec(any::<u8>(), 0..9)), 0..9))
        -> RowChunk
    {
        let mut chunk = RowChunk::default();
        let mut position = Position::ORIGIN;
        for (major, minor, payload) in rows {
            position = Position::new(position.major + major, minor);
            chunk.push(position, &payload);
        }
        chunk
    }
}

proptest! {
    #[test]
    fn a_layout_comes_back_as_it_was_and_a_cut_or_longer_one_is_refused(layout in layouts()) {
        let bytes = layout.encode();
        prop_assert_eq!(Layout::decode(&bytes), Some(layout.clone()));
        for cut in 0..bytes.len() {
            prop_assert_eq!(Layout::decode(&bytes[..cut]), None);
        }
        let mut longer = bytes.clone();
        longer.push(0);
        prop_assert_eq!(Layout::decode(&longer), None);
        let mut newer = bytes;
        newer[0] += 1;
        prop_assert_eq!(Layout::decode(&newer), None);
    }

    #[test]
    fn a_chunk_of_rows_comes_back_as_it_was_and_a_cut_or_longer_one_is_refused(
        chunk in chunks(),
        sink in "[a-z]{1,9}",
        epoch in any::<u64>(),
    ) {
        let (key, value) = (outbox_key(&sink, epoch), encode_chunk(&chunk));
        let mut stored = Stored::default();
        prop_assert_eq!(stored.take(TableId::OUTBOX, &key, &value), Some(()));
        prop_assert_eq!(&stored.outbox[&sink], &vec![(epoch, chunk)]);
        for cut in 0..value.len() {
            prop_assert_eq!(Stored::default().take(TableId::OUTBOX, &key, &value[..cut]), None);
        }
        for cut in 0..key.len() {
            prop_assert_eq!(Stored::default().take(TableId::OUTBOX, &key[..cut], &value), None);
        }
        let mut longer = value;
        longer.push(0);
        prop_assert_eq!(Stored::default().take(TableId::OUTBOX, &key, &longer), None);
    }

    #[test]
    fn no_bytes_make_a_layout_or_a_stored_row_panic(
        table in 0u8..6,
        key in prop::collection::vec(any::<u8>(), 0..40),
        value in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let _ = Layout::decode(&value);
        let mut first = key.clone();
        for tag in *b"lcrno" {
            first.splice(..first.len().min(1), [tag]);
            let _ = Stored::default().take(TableId::META, &first, &value);
        }
        let _ = Stored::default().take(TableId(table), &key, &value);
    }
}

const REFERENCE: ReferenceCounts =
    ReferenceCounts { delivered: 300, counted: Position::new(4, 2), taken: Position::new(9, 1) };
const LOSS: LossCounts = LossCounts { delivered: 300, dropped: 7 };
const BORDERS: Borders =
    Borders { first: Position::new(4, 2), last: Position::new(9, 1), rows: 300, digest: u128::MAX / 3 };

/// One row of each kind in the META table.
fn meta_rows() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let producer = Manifest::new().source("rows", 1, None).layout().partitions().remove(0).id;
    let frontier = Frontier::at(LanePoint::new(Position::new(7, 8), 9));
    let mut outboxed = Vec::new();
    frontier.encode(&mut outboxed);
    let cursor = Cursor {
        phase: CursorPhase::Open,
        finished: Position::new(1, 2),
        marked: Position::new(3, 4),
        intended: Position::new(5, 6),
        fence: Some(Fence(11)),
    };
    vec![
        ("lane", lane_key("rows", &producer), encode_lane(frontier, Watermark(12))),
        ("cursor", cursor_key("out"), cursor.encode()),
        ("taken", taken_key("out"), encode_count(300)),
        ("reference", reference_key("out"), REFERENCE.encode()),
        ("loss", loss_key("out"), LOSS.encode()),
        ("borders", borders_key("out"), BORDERS.encode()),
        ("outboxed", outboxed_key().to_vec(), outboxed),
        (
            "counters",
            counters_key().to_vec(),
            Counters { rows_in: 300, late: 2, rows_out: 1, ..Counters::default() }.encode(),
        ),
    ]
}

#[test]
fn what_an_epoch_writes_is_what_a_successor_finds() {
    let mut stored = Stored::default();
    for (name, key, value) in meta_rows() {
        assert_eq!(stored.take(TableId::META, &key, &value), Some(()), "{name}");
    }
    let frontier = Frontier::at(LanePoint::new(Position::new(7, 8), 9));
    assert_eq!(
        stored.lanes.values().collect::<Vec<_>>(),
        [&LaneState { taken: frontier, watermark: Watermark(12), subs: Vec::new() }]
    );
    assert_eq!(stored.outboxed, frontier);
    assert_eq!(stored.counters, Counters { rows_in: 300, late: 2, rows_out: 1, ..Counters::default() });
    assert_eq!(stored.taken["out"], 300);
    assert_eq!(
        (stored.references["out"], stored.losses["out"], stored.borders["out"]),
        (REFERENCE, LOSS, BORDERS)
    );
    let cursor = stored.cursors["out"];
    assert_eq!((cursor.phase, cursor.fence), (CursorPhase::Open, Some(Fence(11))));
    assert_eq!(
        (cursor.finished, cursor.marked, cursor.intended),
        (Position::new(1, 2), Position::new(3, 4), Position::new(5, 6))
    );
}

#[test]
fn a_cut_row_of_any_kind_is_refused() {
    for (name, key, value) in meta_rows() {
        for cut in 0..value.len() {
            // A cursor without a fence is a cursor, too.
            if name == "cursor" && cut == value.len() - 16 {
                continue;
            }
            let taken = Stored::default().take(TableId::META, &key, &value[..cut]);
            assert_eq!(taken, None, "{name} cut to {cut} of {} bytes", value.len());
        }
    }
}

#[test]
fn a_row_of_any_kind_with_something_behind_it_is_refused() {
    let longer = |bytes: &[u8]| [bytes, &[0]].concat();
    let mut accepted = Vec::new();
    for (name, key, value) in meta_rows() {
        for (key, value) in [(key.clone(), longer(&value)), (longer(&key), value)] {
            // The producer in a lane's key is compared as a whole, not read.
            if name != "lane" && Stored::default().take(TableId::META, &key, &value).is_some() {
                accepted.push(name);
            }
        }
    }
    let (_, key, value) = meta_rows().remove(0);
    accepted.extend(Stored::default().take(TableId::META, &key, &longer(&value)).map(|()| "lane"));
    let (key, value) = (outbox_key("out", 1), encode_chunk(&RowChunk::default()));
    accepted.extend(Stored::default().take(TableId::OUTBOX, &longer(&key), &value).map(|()| "outbox key"));
    assert!(accepted.is_empty(), "accepted: {accepted:?}");
}

#[test]
fn a_chunk_whose_positions_do_not_grow_is_refused() {
    let mut chunk = RowChunk::default();
    chunk.push(Position::new(1, 1), b"a");
    chunk.push(Position::new(1, 2), b"b");
    let mut value = encode_chunk(&chunk);
    // The second row gets the position of the first.
    let last = value.len() - 3;
    assert_eq!(value[last], 2);
    value[last] = 1;
    assert_eq!(Stored::default().take(TableId::OUTBOX, &outbox_key("out", 1), &value), None);
}

#[test]
fn a_row_of_an_unknown_kind_or_table_is_refused() {
    let refused = |table, key: &[u8]| assert_eq!(Stored::default().take(table, key, b""), None);
    refused(TableId::META, b"");
    refused(TableId::META, b"x");
    refused(TableId(9), b"");
}

fn stored_by_a_run() -> World {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], COUNT_AND_SUM)
        .sink("out", &["sums"]);
    let mut world = World::new(&manifest);
    world.bounded = false;
    world.add(0, (0..10).map(|number| row("a", number, 1)));
    world.start_all();
    world.run();
    world
}

#[test]
fn a_job_does_not_start_on_window_state_that_this_version_did_not_write() {
    for damage in [|value: &mut Vec<u8>| value.push(0), |value: &mut Vec<u8>| value.truncate(1)] {
        let mut world = stored_by_a_run();
        let rows = world.shelves[1].rows.iter_mut();
        rows.filter(|((table, _), _)| *table == TableId::STATE).for_each(|(_, value)| damage(value));
        let error = world.try_start(1).unwrap_err().to_string();
        assert!(error.starts_with("OW-4004: sums[0]: the stored window state"), "{error}");
    }
}

#[test]
fn a_finished_place_that_this_version_did_not_write_is_refused() {
    let mut world = stored_by_a_run();
    let place = world.shelves[0].rows.get_mut(&(TableId::META, resume_key().to_vec())).unwrap();
    assert!(ResumePoint::decode(place).is_some());
    place.pop();
    assert_eq!(Stored::default().take(TableId::META, resume_key(), place), None);
}
