//! Load decisions come to rest, and each is worth its interruption.

use onceward_protocol::KeyRange;
use onceward_protocol::balance::{
    BUCKETS, JobLoad, Move, RangeLoad, RecutReason, ResizeBounds, WorkerLoad, bucket_shift, place, rebalance,
    resize,
};
use onceward_protocol::lease::WorkerId;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::given;

fn workers(count: u32) -> Vec<WorkerId> {
    (0..count).map(WorkerId).collect()
}
/// Jobs somewhere, with loads of very different size.
fn cluster() -> impl Strategy<Value = (Vec<JobLoad>, Vec<WorkerId>)> {
    (1..6u32).prop_flat_map(|count| {
        let load = prop_oneof![Just(0), 0..10u64, 0..1000u64, Just(u64::MAX)];
        let jobs = vec((0..count, load), 0..25).prop_map(|jobs| {
            let jobs = jobs.into_iter().zip(0..);
            jobs.map(|((worker, load), partition)| JobLoad { partition, worker: WorkerId(worker), load })
                .collect()
        });
        (jobs, Just(workers(count)))
    })
}
fn weights(jobs: &[JobLoad], workers: &[WorkerId]) -> Vec<u128> {
    let of = |worker| jobs.iter().filter(move |job| job.worker == worker).map(|job| u128::from(job.load) + 1);
    workers.iter().map(|worker| of(*worker).sum()).collect()
}
fn apply(jobs: &mut [JobLoad], step: Move) {
    let job = jobs.iter_mut().find(|job| job.partition == step.partition).unwrap();
    assert_eq!(job.worker, step.from);
    job.worker = step.to;
}

proptest! {
    #[test]
    fn rebalancing_comes_to_rest_and_never_moves_a_job_straight_back((mut jobs, workers) in cluster()) {
        let mut last: Option<Move> = None;
        let mut left = 200;
        while let Some(step) = rebalance(&jobs, &workers) {
            prop_assert!(left > 0, "still moving");
            left -= 1;
            if let Some(last) = last.filter(|last| last.partition == step.partition) {
                prop_assert!((last.from, last.to) != (step.to, step.from), "moved back");
            }
            apply(&mut jobs, step);
            last = Some(step);
        }
    }

    #[test]
    fn every_move_is_due_and_worth_half_a_job((mut jobs, workers) in cluster()) {
        let before = weights(&jobs, &workers);
        if let Some(step) = rebalance(&jobs, &workers) {
            apply(&mut jobs, step);
            let after = weights(&jobs, &workers);
            let [from, to] = [step.from, step.to].map(|worker| worker.0 as usize);
            prop_assert_eq!(before.iter().max(), Some(&before[from]));
            prop_assert_eq!(before.iter().min(), Some(&before[to]));
            prop_assert!((before[from] - before[to]) * 5 * before.len() as u128 > before.iter().sum());
            let stayed = jobs.iter().filter(|job| job.worker == step.from).count() as u128;
            prop_assert!((before[from] - after[from].max(after[to])) * 2 * (stayed + 1) >= before[from]);
        }
    }

    #[test]
    fn equal_jobs_end_up_evenly_spread(count in 1..6u32, jobs in 1..25u32, load in 0..1000u64) {
        let mut jobs: Vec<_> = (0..jobs).map(|partition| JobLoad { partition, worker: WorkerId(0), load }).collect();
        for _ in 0..jobs.len() {
            let Some(step) = rebalance(&jobs, &workers(count)) else { break };
            apply(&mut jobs, step);
        }
        prop_assert_eq!(rebalance(&jobs, &workers(count)), None);
        let on = |worker| jobs.iter().filter(|job| job.worker == worker).count();
        let counts: Vec<usize> = workers(count).into_iter().map(on).collect();
        // By one, or by what is not worth a move: a fifth of the mean.
        let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
        prop_assert!(spread <= 1 || spread * counts.len() * 5 <= jobs.len(), "{:?}", counts);
    }

    /// Loads are measured, and measurements tremble.
    #[test]
    fn loads_that_tremble_by_less_than_a_move_gained_move_no_job_back(
        (mut jobs, workers) in cluster(), trembling in vec(0..=100u128, 25)
    ) {
        let before = weights(&jobs, &workers);
        let Some(step) = rebalance(&jobs, &workers) else { return Ok(()) };
        apply(&mut jobs, step);
        let after = weights(&jobs, &workers);
        let [from, to] = [step.from, step.to].map(|worker| worker.0 as usize);
        let most = (before[from] - after[from].max(after[to])) / jobs.len() as u128;
        for (job, percent) in jobs.iter_mut().zip(trembling) {
            job.load = job.load.saturating_add((most * percent / 100) as u64);
        }
        if let Some(next) = rebalance(&jobs, &workers) {
            prop_assert!(next.partition != step.partition || next.to != step.from);
        }
    }

    #[test]
    fn a_job_is_placed_where_least_is_done(loads in vec((0..9u64, 0..4u32), 1..6), load in 0..9u64) {
        let mut known: Vec<_> = loads
            .iter()
            .zip(0..)
            .map(|((load, jobs), worker)| WorkerLoad { worker: WorkerId(worker), jobs: *jobs, load: *load })
            .collect();
        let weight = |known: &WorkerLoad| known.load + u64::from(known.jobs);
        let least = known.iter().map(weight).min().unwrap();
        let before = known.clone();
        let chosen = place(&mut known, load).unwrap().0 as usize;
        prop_assert_eq!(weight(&before[chosen]), least);
        prop_assert_eq!((known[chosen].jobs, known[chosen].load), (before[chosen].jobs + 1, before[chosen].load + load));
    }
}

#[test]
fn idle_jobs_are_spread_too() {
    let mut known: Vec<_> =
        workers(3).into_iter().map(|worker| WorkerLoad { worker, jobs: 0, load: 0 }).collect();
    let placed: Vec<u32> = (0..6).map(|_| place(&mut known, 0).unwrap().0).collect();
    assert_eq!(placed, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn without_workers_nothing_is_placed_or_moved() {
    assert_eq!(place(&mut [], 1), None);
    assert_eq!(rebalance(&[JobLoad { partition: 0, worker: WorkerId(0), load: 9 }], &[]), None);
}

#[test]
fn workers_that_lie_apart_by_a_fifth_of_the_mean_are_left_alone() {
    let jobs = |counts: [u32; 2]| -> Vec<JobLoad> {
        let workers = (0..counts[0]).map(|_| 0).chain((0..counts[1]).map(|_| 1));
        workers
            .zip(0..)
            .map(|(worker, partition)| JobLoad { partition, worker: WorkerId(worker), load: 99 })
            .collect()
    };
    assert_eq!(rebalance(&jobs([11, 9]), &workers(2)), None);
    assert!(rebalance(&jobs([11, 8]), &workers(2)).is_some());
}

#[test]
fn one_heavy_job_is_not_carried_around() {
    let job = |partition, worker, load| JobLoad { partition, worker: WorkerId(worker), load };
    assert_eq!(rebalance(&[job(0, 0, 1000)], &workers(2)), None);
    let beside = [job(0, 0, 1000), job(1, 0, 500)];
    assert_eq!(
        rebalance(&beside, &workers(2)),
        Some(Move { partition: 1, from: WorkerId(0), to: WorkerId(1) })
    );
}

/// Keys with their loads, as the ranges of a computation see them.
fn measured(keys: &[(u64, u64)], ranges: &[KeyRange]) -> Vec<RangeLoad> {
    ranges
        .iter()
        .map(|range| {
            let mut buckets = [0; BUCKETS];
            for (hash, load) in keys.iter().filter(|(hash, _)| range.contains(*hash)) {
                buckets[((hash - range.first) >> bucket_shift(*range)) as usize] += load;
            }
            RangeLoad { range: *range, load: buckets.iter().sum(), hot: false, buckets }
        })
        .collect()
}
fn keys() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let hash = prop_oneof![any::<u64>(), given::number(), (0..1u64 << 40).prop_map(|low| (9 << 56) | low)];
    vec((hash, prop_oneof![3 => 0..50u64, 1 => 0..2000u64]), 0..60)
}
fn bounds() -> impl Strategy<Value = ResizeBounds> {
    (1..12u32, 1..24u32, 0..800u64).prop_map(|(min, max, target)| ResizeBounds { min, max, target })
}
/// Applies what is due until nothing is, and answers the ranges and how many steps it took.
fn settled(keys: &[(u64, u64)], mut ranges: Vec<KeyRange>, bounds: ResizeBounds) -> (Vec<KeyRange>, usize) {
    for steps in 0..500 {
        let Some(plan) = resize(&measured(keys, &ranges), bounds) else { return (ranges, steps) };
        assert_eq!(plan.recut.check(), Ok(()));
        let at = ranges.iter().position(|range| *range == plan.recut.parents[0]).expect("a live range");
        let removed: Vec<_> =
            ranges.splice(at..at + plan.recut.parents.len(), plan.recut.children.iter().copied()).collect();
        assert_eq!(removed, plan.recut.parents);
    }
    panic!("still cutting");
}

proptest! {
    #[test]
    fn a_bucket_exists_for_every_hash_of_the_range(range in given::range(), at in any::<u64>()) {
        let hash = range.first + at % range.width().min(u128::from(u64::MAX)) as u64;
        prop_assert!((hash - range.first) >> bucket_shift(range) < BUCKETS as u64);
        // Not more parts than needed to tell the halves apart.
        prop_assert!(range.width() < 16 || (range.last - range.first) >> bucket_shift(range) >= 8);
    }

    #[test]
    fn re_cutting_comes_to_rest_within_its_bounds(keys in keys(), count in 1..20u32, bounds in bounds()) {
        let (ranges, _) = settled(&keys, KeyRange::split(count), bounds);
        let (min, max) = (bounds.min as usize, bounds.max.max(bounds.min) as usize);
        prop_assert!(ranges.len() >= min && ranges.len() <= max, "{} ranges", ranges.len());
    }

    #[test]
    fn at_rest_no_range_is_overloaded_that_a_cut_could_relieve(keys in keys(), count in 1..20u32, bounds in bounds()) {
        let (ranges, _) = settled(&keys, KeyRange::split(count), bounds);
        let loads = measured(&keys, &ranges);
        if ranges.len() < bounds.max.max(bounds.min) as usize {
            for known in loads.iter().filter(|known| known.load * 2 > bounds.target * 3) {
                let shift = bucket_shift(known.range);
                let lighter = (1..BUCKETS as u64)
                    .filter(|part| part << shift <= known.range.last - known.range.first)
                    .map(|part| known.buckets[..part as usize].iter().sum::<u64>())
                    .map(|before| before.min(known.load - before))
                    .max();
                prop_assert!(lighter.unwrap_or(0) * 8 < known.load, "{:?} could be cut", known);
            }
        }
        if ranges.len() > bounds.min as usize {
            for pair in loads.windows(2) {
                prop_assert!((pair[0].load + pair[1].load) * 2 >= bounds.target, "{:?} could be merged", pair);
            }
        }
    }

    #[test]
    fn only_what_is_overloaded_is_cut_and_only_what_is_idle_is_merged(
        keys in keys(), count in 1..20u32, bounds in bounds()
    ) {
        let ranges = measured(&keys, &KeyRange::split(count));
        let Some(plan) = resize(&ranges, bounds) else { return Ok(()) };
        let of = |range: &KeyRange| ranges.iter().find(|known| known.range == *range).unwrap().load;
        let load: u64 = plan.recut.parents.iter().map(of).sum();
        match plan.reason {
            RecutReason::Overloaded => {
                prop_assert!(load * 2 > bounds.target * 3);
                let halves = measured(&keys, &plan.recut.children);
                prop_assert!(halves.iter().all(|half| half.load * 8 >= load));
            }
            RecutReason::Underloaded => prop_assert!(load * 2 < bounds.target),
            RecutReason::TooFew => prop_assert!(count < bounds.min),
            RecutReason::TooMany => prop_assert!(count > bounds.max),
        }
    }
}

#[test]
fn a_single_heavy_key_is_not_cut_around() {
    let ranges = measured(&[(5, 1000)], &KeyRange::split(2));
    assert_eq!(resize(&ranges, ResizeBounds { min: 2, max: 16, target: 100 }), None);
}

#[test]
fn between_half_and_one_and_a_half_of_the_target_nothing_is_done() {
    let keys: Vec<_> = (0..16u64).map(|at| (at << 60, 10)).collect();
    let reason = |parts, target| {
        let bounds = ResizeBounds { min: 1, max: 4, target };
        resize(&measured(&keys, &KeyRange::split(parts)), bounds).map(|plan| plan.reason)
    };
    assert_eq!(reason(1, 106), Some(RecutReason::Overloaded));
    assert_eq!([reason(1, 107), reason(2, 107), reason(2, 320)], [None; 3]);
    assert_eq!(reason(2, 321), Some(RecutReason::Underloaded));
}

#[test]
fn a_skewed_range_is_cut_at_the_middle_of_its_load() {
    // The whole load lies in the first eighth.
    let keys: Vec<_> = (0..64u64).map(|at| (at << 55, 10)).collect();
    let plan =
        resize(&measured(&keys, &[KeyRange::ALL]), ResizeBounds { min: 1, max: 8, target: 100 }).unwrap();
    let loads: Vec<u64> = measured(&keys, &plan.recut.children).iter().map(|half| half.load).collect();
    assert_eq!((plan.reason, loads), (RecutReason::Overloaded, vec![320, 320]));
}

#[test]
fn a_range_that_falls_behind_is_cut_earlier_and_never_merged() {
    let keys: Vec<_> = (0..16u64).map(|at| (at << 60, 8)).collect();
    let bounds = ResizeBounds { min: 1, max: 4, target: 100 };
    let mut ranges = measured(&keys, &[KeyRange::ALL]);
    assert_eq!(resize(&ranges, bounds), None);
    ranges[0].hot = true;
    assert_eq!(resize(&ranges, bounds).map(|plan| plan.reason), Some(RecutReason::Overloaded));

    let idle = ResizeBounds { target: 1000, ..bounds };
    let mut ranges = measured(&keys, &KeyRange::split(2));
    assert_eq!(resize(&ranges, idle).map(|plan| plan.reason), Some(RecutReason::Underloaded));
    ranges[1].hot = true;
    assert_eq!(resize(&ranges, idle), None);
}
