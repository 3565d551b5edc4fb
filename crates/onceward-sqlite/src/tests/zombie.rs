//! Older writers: another process that does not know yet that it was replaced.

use super::*;

#[test]
fn a_writer_on_another_connection_is_refused_by_the_database_itself() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let (older, newer) = (sink(&path, "append", &["id"], &[]), sink(&path, "append", &["id"], &[]));
    let mut zombie = progress(&older, &identity(1, 0));
    let start = open(zombie.as_mut(), A).expect("opens");
    zombie.write(&block(1, 3), start, at(3, A)).expect("writes");

    let mut writer = progress(&newer, &identity(1, 0));
    assert_eq!(open(writer.as_mut(), B).expect("opens"), at(3, B));
    for _ in 0..2 {
        let refused = zombie.write(&block(4, 6), at(3, A), at(6, A));
        assert!(matches!(refused, Err(TargetError::Fenced(_))), "{refused:?}");
        assert!(matches!(zombie.create_marker(at(3, A)), Err(TargetError::Fenced(_))));
    }
    writer.write(&block(4, 5), at(3, B), at(5, B)).expect("writes");
    assert!(matches!(zombie.write(&block(4, 6), at(3, A), at(6, A)), Err(TargetError::Fenced(_))));
    assert_eq!(ids(&path), [1, 2, 3, 4, 5]);
}

/// Two processes' worth of writers go on opening and writing against each other: whatever the interleaving, every row
/// up to the marker is there once, and none beyond it.
#[test]
fn writers_that_fence_each_other_back_and_forth_never_write_a_row_twice() {
    const LAST: u64 = 600;
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let work = |own: u128| {
        let sink = sink(&path, "append", &["id"], &[]);
        let mut writer = progress(&sink, &identity(1, 0));
        for round in 0..5000 {
            let fence = Fence(own + (round << 8));
            let mut marker = match open(writer.as_mut(), fence) {
                Ok(marker) => marker,
                Err(TargetError::Fenced(_) | TargetError::Unknown(_)) => continue,
                Err(error) => panic!("{error}"),
            };
            // A marker read after another open took over carries that one's fence: no more ours to use.
            marker.fence = fence;
            for _ in 0..5 {
                let from = marker.position.major;
                if from >= LAST {
                    return;
                }
                let next = at(from + 3, fence);
                match writer.write(&block(from + 1, from + 3), marker, next) {
                    Ok(()) => marker = next,
                    Err(TargetError::Fenced(_) | TargetError::Unknown(_)) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = [1, 2, 3].map(|own| scope.spawn(move || work(own)));
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    assert_eq!(ids(&path), (1..=LAST).collect::<Vec<_>>());
}

#[test]
fn partitions_share_a_table_and_keep_their_own_progress() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("rows.db");
    let sink = sink(&path, "append", &["id"], &[]);
    let (mut first, mut second) = (progress(&sink, &identity(1, 0)), progress(&sink, &identity(1, 1)));
    let start = open(first.as_mut(), A).expect("opens");
    first.write(&block(1, 3), start, at(3, A)).expect("writes");
    let start = open(second.as_mut(), B).expect("opens");
    assert_eq!(start, at(0, B));
    second.write(&block(4, 5), start, at(5, B)).expect("writes");
    first.write(&block(6, 7), at(3, A), at(7, A)).expect("the other's fence does not concern it");
    assert_eq!(ids(&path), (1..=7).collect::<Vec<_>>());
}
