//! One lease per partition, and none that outlives its end.

use onceward_protocol::lease::{AbortReason, Lease, LeaseTable, Tenure, WorkerId};
use onceward_protocol::{Branch, Generation};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn generation(number: u64) -> Generation {
    Generation { number, nonce: number, branch: Branch(0) }
}
fn lease(number: u64, worker: u32, expires_at: i64) -> Lease {
    Lease { generation: generation(number), worker: WorkerId(worker), expires_at }
}

/// What a controller does with its leases.
#[derive(Clone, Debug)]
enum Step {
    Grant {
        partition: u32,
        worker: u32,
        ttl: i64,
    },
    /// For the lease of that many grants ago.
    Renew {
        back: usize,
        worker: u32,
        ttl: i64,
    },
    Abort {
        partition: u32,
        reason: AbortReason,
    },
    Wait(i64),
}
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..3u32, 0..2u32, 1..9i64).prop_map(|(partition, worker, ttl)| Step::Grant {
            partition,
            worker,
            ttl
        }),
        (0..4usize, 0..2u32, 0..9i64).prop_map(|(back, worker, ttl)| Step::Renew { back, worker, ttl }),
        (0..3u32, select(&AbortReason::ALL[..]))
            .prop_map(|(partition, reason)| Step::Abort { partition, reason }),
        (0..5i64).prop_map(Step::Wait),
    ];
    vec(step, 0..60)
}

/// A lease by the number of its grant, kept the slow way: every grant, each with its end.
struct Granted {
    partition: u32,
    worker: u32,
    expires_at: i64,
    ended: bool,
}

proptest! {
    #[test]
    fn a_partition_never_has_two_leases_and_an_ended_one_never_comes_back(steps in steps()) {
        let mut table = LeaseTable::default();
        let mut granted: Vec<Granted> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Wait(time) => now += time,
                Step::Grant { partition, worker, ttl } => {
                    let number = granted.len() as u64;
                    let held = granted.iter().any(|known| known.partition == partition && !known.ended);
                    let answer = table.grant(partition, lease(number, worker, now + ttl));
                    prop_assert_eq!(answer.is_err(), held);
                    granted.push(Granted { partition, worker, expires_at: now + ttl, ended: held });
                }
                Step::Renew { back, worker, ttl } if back < granted.len() => {
                    let number = granted.len() - 1 - back;
                    let known = &mut granted[number];
                    let live = !known.ended && known.worker == worker && now < known.expires_at;
                    let renewed = table.renew(known.partition, generation(number as u64), WorkerId(worker), now, ttl);
                    prop_assert_eq!(renewed, live);
                    if live {
                        known.expires_at = known.expires_at.max(now + ttl);
                    }
                }
                Step::Renew { .. } => {}
                Step::Abort { partition, reason } => {
                    let held = granted.iter_mut().find(|known| known.partition == partition && !known.ended);
                    let aborted = table.abort(partition, reason);
                    prop_assert_eq!(aborted.is_some(), held.is_some());
                    prop_assert!(aborted.is_none_or(|(_, replaced)| replaced == reason.replaces()));
                    held.into_iter().for_each(|known| known.ended = true);
                }
            }
            let live = |known: &&Granted| !known.ended;
            prop_assert_eq!(table.len(), granted.iter().filter(live).count());
            prop_assert_eq!(table.is_empty(), !granted.iter().any(|known| !known.ended));
            let mut expired: Vec<u32> =
                granted.iter().filter(live).filter(|known| known.expires_at <= now).map(|known| known.partition).collect();
            expired.sort_unstable();
            prop_assert_eq!(table.expired(now), expired);
            for worker in 0..2 {
                let count = granted.iter().filter(live).filter(|known| known.worker == worker).count();
                prop_assert_eq!(table.of_worker(WorkerId(worker)).len(), count);
            }
        }
    }

    /// Both count the same span; the worker from when it sent, the controller from when it heard.
    #[test]
    fn a_worker_stops_believing_before_its_controller_does(
        ttl in 1..20i64, beats in vec((0..9i64, 0..9i64, 0..9i64), 0..9)
    ) {
        let mut table = LeaseTable::default();
        table.grant(1, lease(1, 0, ttl)).unwrap();
        let mut tenure = Tenure::new(0, ttl);
        let mut now = 0;
        for (pause, there, back) in beats {
            let sent_at = now + pause;
            let heard_at = sent_at + there;
            now = heard_at + back;
            if tenure.is_valid(sent_at) && table.renew(1, generation(1), WorkerId(0), heard_at, ttl) {
                tenure.renew(now, sent_at, ttl);
            }
            let expires_at = table.get(1).unwrap().expires_at;
            prop_assert!(!tenure.is_valid(expires_at));
            prop_assert!(tenure.until() <= expires_at);
        }
    }

    #[test]
    fn a_tenure_that_is_over_does_not_come_back(ttl in 1..9i64, late in 0..9i64, sent_at in 0..30i64) {
        let mut tenure = Tenure::new(0, ttl);
        tenure.renew(ttl + late, sent_at, ttl);
        prop_assert!(!tenure.is_valid(ttl + late));
    }
}

#[test]
fn a_second_lease_is_refused_and_names_the_first() {
    let mut table = LeaseTable::default();
    table.grant(7, lease(1, 3, 10)).unwrap();
    let refused = table.grant(7, lease(2, 4, 20)).unwrap_err();
    assert_eq!(refused.held, lease(1, 3, 10));
    assert!(refused.to_string().starts_with("partition 7 is leased to worker 3"), "{refused}");
    assert_eq!(table.get(7), Some(&lease(1, 3, 10)));
}

#[test]
fn only_stop_pause_and_completion_leave_a_partition_without_a_job() {
    let without: Vec<_> = AbortReason::ALL.into_iter().filter(|reason| !reason.replaces()).collect();
    assert_eq!(without, [AbortReason::Stopped, AbortReason::Paused, AbortReason::Completed]);
}
