//! OPEN-ORDER: fence, commit, read marker, create it if absent, commit, write; and again from the fence
//! whenever an outcome is unknown.

use onceward_connector::SinkContract;
use onceward_engine::job::SinkStats;
use onceward_engine::{Event, JobEnd, TargetAnswer, TargetCall};
use onceward_protocol::{CursorPhase, Fence, Marker, Position};

use crate::manifest::Manifest;
use crate::target::{KINDS, kind};
use crate::world::{Fault, World};

fn to_a_sink() -> Manifest {
    Manifest::new().source("rows", 1, None).sink("out", &["rows"])
}

fn numbered(rows: std::ops::Range<u64>) -> Vec<String> {
    rows.map(|number| format!(r#"{{"n":{number}}}"#)).collect()
}

/// Twenty rows are there and more may come.
fn running(manifest: &Manifest) -> World {
    let mut world = World::new(manifest);
    world.bounded = false;
    world.add(0, numbered(0..20));
    world.start_all();
    world
}

#[test]
fn a_first_open_is_fenced_and_proved_before_it_reads_and_recorded_before_it_writes() {
    let mut world = running(&to_a_sink());
    world.run();
    assert_eq!(world.kinds(), KINDS);
    let calls = world.calls();
    let TargetCall::TakeFence(fence) = calls[0].0 else { panic!() };
    // Nothing is stored of an open before the target has fenced the older ones.
    assert_eq!((calls[0].1.fence, calls[0].1.phase), (None, CursorPhase::New));
    // The marker is read only under a fence that a commit has proved, and may be absent until then only.
    assert_eq!((calls[1].1.fence, calls[1].1.phase), (Some(fence), CursorPhase::Opening));
    assert_eq!((calls[2].1.fence, calls[2].1.phase), (Some(fence), CursorPhase::Opening));
    let TargetCall::CreateMarker(marker) = calls[2].0 else { panic!() };
    assert_eq!(marker, Marker { position: Position::ORIGIN, fence });
    // Once something is written, a missing marker is never zero again.
    let TargetCall::Write { block, expected, next } = &calls[3].0 else { panic!() };
    assert_eq!((calls[3].1.fence, calls[3].1.phase), (Some(fence), CursorPhase::Open));
    assert_eq!(*expected, marker);
    assert_eq!((Some(next.position), next.fence), (block.last(), fence));
    // What is attempted was committed as intended before.
    assert!(next.position <= calls[3].1.intended);
}

#[test]
fn a_marker_is_not_read_on_the_commit_of_an_epoch_before_the_proof() {
    let mut world = running(&to_a_sink());
    assert!(world.run_until(|world| world.kinds() == ["take fence"]));
    // One epoch with more rows is closed before the target has answered, the proof after it.
    world.held.calls = vec![0];
    world.held.commits = vec![0];
    world.add(0, numbered(20..25));
    assert!(world.run_until(|world| world.open_epochs(0) == 1));
    world.held.calls.clear();
    assert!(world.run_until(|world| world.open_epochs(0) == 2));
    world.commit_oldest(0);
    assert_eq!(world.kinds(), ["take fence"]);
    world.commit_oldest(0);
    assert_eq!(world.kinds(), ["take fence", "read marker"]);
}

#[test]
fn a_row_is_written_only_after_its_epoch_is_durable() {
    let mut world = running(&to_a_sink());
    world.run();
    world.held.commits = vec![0];
    world.add(0, numbered(20..25));
    world.run();
    assert_eq!(world.open_epochs(0), 1);
    assert_eq!(world.kinds(), KINDS);
    world.held.commits.clear();
    world.run();
    assert_eq!(world.rows(0), numbered(0..25));
}

#[test]
fn a_block_keeps_to_its_bytes_unless_one_row_is_larger() {
    let mut manifest = to_a_sink();
    manifest.behaviour.policy.max_bytes = 25;
    let mut world = World::new(&manifest);
    let long = format!(r#"{{"n":"{}"}}"#, "x".repeat(50));
    world.add(0, numbered(0..9));
    world.add(0, [&long]);
    world.add(0, numbered(0..2));
    world.start_all();
    world.complete();
    let blocks: Vec<usize> = world
        .calls()
        .iter()
        .filter_map(|(call, _)| match call {
            TargetCall::Write { block, .. } => Some(block.len()),
            _ => None,
        })
        .collect();
    assert_eq!(blocks, [3, 3, 3, 1, 2]);
}

#[test]
fn an_answer_that_nobody_asked_for_is_a_broken_rule_and_ends_the_job() {
    let mut world = running(&to_a_sink());
    world.run();
    world.handle(0, Event::Target { sink: 0, answer: Ok(TargetAnswer::Done) });
    let failure = world.failure(0);
    assert!(failure.starts_with("OW-4005: rows/p0: invariant OPEN-ORDER is broken: sink out"), "{failure}");
}

#[test]
fn each_write_expects_the_marker_that_the_write_before_set_and_keeps_to_the_block_size() {
    let mut world = running(&to_a_sink().block_rows(3));
    world.run();
    let mut marker = None;
    let mut rows = Vec::new();
    for (call, cursor) in world.calls() {
        let TargetCall::Write { block, expected, next } = call else { continue };
        assert!(block.len() <= 3);
        assert!(marker.is_none_or(|marker| marker == expected));
        assert!(next.position <= cursor.intended);
        marker = Some(next);
        rows.extend(block.rows().map(|(_, row)| String::from_utf8(row.to_vec()).unwrap()));
    }
    assert_eq!(rows, numbered(0..20));
}

#[test]
fn a_target_that_is_opened_again_is_fenced_and_read_but_not_created() {
    let mut world = running(&to_a_sink());
    world.run();
    let calls = world.calls().len();
    world.add(0, numbered(20..30));
    world.restart_all();
    world.run();
    assert_eq!(world.kinds()[calls..], ["take fence", "read marker", "write"]);
    assert_eq!(world.rows(0), numbered(0..30));
}

#[test]
fn an_unknown_outcome_opens_again_under_a_fresh_fence_and_never_writes_in_the_old_one() {
    for faulty in KINDS {
        for fault in [Fault::LostBefore, Fault::LostAfter] {
            let mut world = running(&to_a_sink().block_rows(7));
            world.faults.push_back((faulty, fault));
            world.run();
            let mut fences: Vec<Fence> = Vec::new();
            let mut proved = false;
            let kinds = world.kinds();
            let lost = kinds.iter().position(|kind| *kind == faulty).unwrap();
            assert_eq!(kinds[lost + 1], "take fence", "after {faulty} {fault:?}");
            for (call, cursor) in world.calls() {
                match call {
                    TargetCall::TakeFence(fence) => {
                        assert!(!fences.contains(&fence), "a fence is drawn for every open");
                        fences.push(fence);
                        proved = false;
                    }
                    TargetCall::ReadMarker => {
                        assert_eq!(cursor.fence.as_ref(), fences.last());
                        proved = true;
                    }
                    TargetCall::CreateMarker(marker) => assert_eq!(Some(&marker.fence), fences.last()),
                    TargetCall::Write { expected, next, .. } => {
                        assert!(proved);
                        assert_eq!(
                            (Some(&expected.fence), Some(&next.fence)),
                            (fences.last(), fences.last())
                        );
                    }
                    _ => panic!(),
                }
            }
            assert_eq!(fences.len(), 2);
            assert_eq!(world.rows(0), numbered(0..20), "after {faulty} {fault:?}");
        }
    }
}

#[test]
fn opens_in_a_row_are_spaced_out_and_given_up_after_twenty() {
    let mut world = running(&to_a_sink());
    // The input ends, so that time is all that goes on.
    world.bounded = true;
    world.faults.extend([("take fence", Fault::LostBefore); 100]);
    let mut times = Vec::new();
    world.run_until(|world| {
        if world.calls().len() > times.len() {
            times.push(world.now);
        }
        false
    });
    assert_eq!(times.len(), 21);
    let pauses: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] >= 100_000 && pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
    assert!(world.failure(0).starts_with("OW-4003: sink out of rows/p0: "), "{}", world.failure(0));
    assert_eq!(world.rows(0), Vec::<String>::new());
}

#[test]
fn the_rows_of_a_written_block_leave_the_outbox_only_with_a_later_commit() {
    let mut world = running(&to_a_sink());
    assert!(world.run_until(|world| world.kinds().contains(&"write")));
    assert_eq!(world.shelves[0].outbox("out"), numbered(0..20));
    assert_eq!(world.sinks(0), [SinkStats { sink: 0, delivered: 0, owed: 20, dropped: 0 }]);
    // The target confirms; the epoch that says so is not durable yet.
    world.held.commits = vec![0];
    assert!(world.run_until(|world| !world.rows(0).is_empty()));
    world.run();
    assert_eq!(world.shelves[0].outbox("out"), numbered(0..20));
    // Lost: a successor finds the rows, asks the marker and does not write them again.
    world.held.commits.clear();
    world.restart_all();
    world.run();
    assert_eq!(world.kinds()[KINDS.len()..], ["take fence", "read marker"]);
    assert_eq!(world.rows(0), numbered(0..20));
    assert_eq!(world.shelves[0].outbox("out"), Vec::<String>::new());
    assert_eq!(world.sinks(0), [SinkStats { sink: 0, delivered: 20, owed: 0, dropped: 0 }]);
}

#[test]
fn a_fenced_call_ends_the_job_and_nothing_else_is_called() {
    for faulty in KINDS {
        let mut world = running(&to_a_sink());
        world.faults.push_back((faulty, Fault::Fenced));
        world.run();
        assert!(matches!(world.end(0), Some(JobEnd::Fenced(_))), "{faulty}: {:?}", world.end(0));
        assert_eq!(world.kinds().last(), Some(&faulty));
        assert_eq!(world.rows(0), Vec::<String>::new());
        // The driver checks that an ended job asks for nothing.
        world.handle(0, Event::Tick);
        world.wait(120_000_000);
    }
}

#[test]
fn a_marker_under_another_fence_ends_the_job_before_it_writes() {
    let mut world = running(&to_a_sink());
    world.run();
    world.add(0, numbered(20..30));
    let calls = world.calls().len();
    world.restart_all();
    assert!(world.run_until(|world| world.kinds()[calls..].contains(&"read marker")));
    // Another job's open comes in between.
    let other = world.targets.get_mut(&(0, 0)).unwrap();
    other.apply(&TargetCall::TakeFence(Fence(42))).unwrap();
    world.run();
    assert!(matches!(world.end(0), Some(JobEnd::Fenced(_))), "{:?}", world.end(0));
    assert_eq!(world.kinds()[calls..], ["take fence", "read marker"]);
}

#[test]
fn a_definite_refusal_fails_with_the_targets_own_words() {
    let mut world = running(&to_a_sink());
    world.faults.push_back(("write", Fault::Definite));
    world.run();
    assert_eq!(world.failure(0), "sink out of rows/p0: OW-3999: the disk is made of cheese");
    assert_eq!(world.kinds().iter().filter(|kind| **kind == "write").count(), 1);
}

#[test]
fn a_plain_target_gets_every_row_and_only_an_unknown_outcome_repeats_some() {
    let mut manifest = to_a_sink().block_rows(8);
    manifest.behaviour.contract = SinkContract::Plain;
    let mut world = running(&manifest);
    world.run();
    assert_eq!(world.rows(0), numbered(0..20));
    assert_eq!(world.shelves[0].outbox("out"), Vec::<String>::new());

    // What was confirmed is recorded: a successor does not write it again.
    world.add(0, numbered(20..25));
    world.restart_all();
    world.run();
    assert_eq!(world.rows(0), numbered(0..25));

    let mut world = running(&manifest);
    world.faults.push_back(("plain write", Fault::LostAfter));
    world.run();
    assert_eq!(world.rows(0), [numbered(0..8), numbered(0..20)].concat());
    assert!(world.calls().iter().all(|(call, _)| kind(call) == "plain write"));
}
