//! Who runs what, and how finely a computation is cut: the controller's decisions about load.
//!
//! Every decision has a dead band, so that applying it never makes its opposite due: workers must lie apart by a fifth of
//! the mean before a job moves, a cut needs 1.5 times the wanted load, a merge half of it. Loads are messages of the same
//! span of time, or any other unit that adds up.

use std::cmp::Reverse;

use crate::keyrange::KeyRange;
use crate::lease::WorkerId;
use crate::recut::Recut;

/// What one worker has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkerLoad {
    /// The worker.
    pub worker: WorkerId,
    /// Its jobs.
    pub jobs: u32,
    /// Their load together.
    pub load: u64,
}

impl WorkerLoad {
    /// A job costs something even if no message comes: otherwise idle jobs would all go to one worker.
    fn weight(&self) -> u64 {
        self.load.saturating_add(u64::from(self.jobs))
    }
}

/// The worker that gets the next job: the least loaded, then the one with the fewest jobs, then the first. The job is
/// noted there with its last known `load`, so that placing several spreads them. `None` without workers.
pub fn place(workers: &mut [WorkerLoad], load: u64) -> Option<WorkerId> {
    let chosen = workers.iter_mut().min_by_key(|known| (known.weight(), known.jobs, known.worker))?;
    chosen.jobs += 1;
    chosen.load = chosen.load.saturating_add(load);
    Some(chosen.worker)
}

/// One running job, for [`rebalance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobLoad {
    /// The partition's number.
    pub partition: u32,
    /// Who runs it.
    pub worker: WorkerId,
    /// Its load.
    pub load: u64,
}

/// A job that another worker should run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The partition's number.
    pub partition: u32,
    /// Who runs it now.
    pub from: WorkerId,
    /// Who should.
    pub to: WorkerId,
}

/// The next job to move, if a move is due: from the most to the least loaded of `workers`, once they lie apart by more
/// than a fifth of the mean. It is the job that leaves the worse of the two best off, among equals the lightest, and the
/// worse must fall by at least half of what its jobs weigh on average: one heavy job is not the reason to move all the
/// light ones beside it. No such move has a way back that is one, so loads that stay as they are come to rest. Jobs of
/// workers that are not listed are [placed](place) anew, not moved.
pub fn rebalance(jobs: &[JobLoad], workers: &[WorkerId]) -> Option<Move> {
    let weight = |job: &JobLoad| u128::from(job.load) + 1;
    let mut sums: Vec<(u128, WorkerId)> = workers
        .iter()
        .map(|worker| (jobs.iter().filter(|job| job.worker == *worker).map(weight).sum(), *worker))
        .collect();
    sums.sort_unstable();
    let (least, most) = (sums.first()?, sums.last()?);
    let total: u128 = sums.iter().map(|(sum, _)| sum).sum();
    let gap = most.0 - least.0;
    if gap * 5 * sums.len() as u128 <= total {
        return None;
    }
    // What the pair's maximum falls by: to the larger of (most - weight) and (least + weight).
    let gain = |job: &JobLoad| weight(job).min(gap.saturating_sub(weight(job)));
    let candidates = || jobs.iter().filter(|job| job.worker == most.1);
    let best = candidates().max_by_key(|job| (gain(job), Reverse((job.load, job.partition))))?;
    let is_worth_it = gain(best) * 2 * candidates().count() as u128 >= most.0;
    is_worth_it.then_some(Move { partition: best.partition, from: most.1, to: least.1 })
}

/// Parts of a range whose load is known apart.
pub const BUCKETS: usize = 16;

/// The load of one key range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeLoad {
    /// The range.
    pub range: KeyRange,
    /// Its load.
    pub load: u64,
    /// Whether it falls behind: messages wait for this job although its worker has time for it.
    pub hot: bool,
    /// How the load is spread over the range's [parts](bucket_shift).
    pub buckets: [u64; BUCKETS],
}

/// How far a hash's distance from the range's first is shifted to get its part's number: parts are the smallest power of
/// two of which [`BUCKETS`] cover the range, so that counting is a subtraction and a shift.
#[inline]
pub fn bucket_shift(range: KeyRange) -> u32 {
    (64 - (range.last - range.first).leading_zeros()).saturating_sub(BUCKETS.trailing_zeros())
}

/// How finely a computation may be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResizeBounds {
    /// At least so many ranges.
    pub min: u32,
    /// At most so many; `min` if that is more.
    pub max: u32,
    /// The load that one range should have.
    pub target: u64,
}

/// Why a re-cut is proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecutReason {
    /// There are fewer ranges than asked for.
    TooFew,
    /// There are more ranges than asked for.
    TooMany,
    /// The range has too much to do.
    Overloaded,
    /// Two neighbours have too little to do.
    Underloaded,
}

/// A proposed step of re-cutting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecutPlan {
    /// What to do.
    pub recut: Recut,
    /// Why.
    pub reason: RecutReason,
}

/// The next step of re-cutting that is due for `ranges` (all live ranges of a computation, in order of key), or none.
///
/// The most loaded range above 1.5 times the target (or a hot one above the target itself) is cut at the middle of its
/// load. It is left alone if no cut gives the lighter part an eighth of the load: then one key makes most of it, and
/// cutting would only multiply ranges. The lightest neighbours below half the target together are merged, unless one
/// is hot. In between nothing is done.
pub fn resize(ranges: &[RangeLoad], bounds: ResizeBounds) -> Option<RecutPlan> {
    let (min, max) = (bounds.min.max(1) as usize, bounds.max.max(bounds.min).max(1) as usize);
    let plan = |recut, reason| RecutPlan { recut, reason };
    if ranges.len() < min {
        return grow(ranges).map(|recut| plan(recut, RecutReason::TooFew));
    }
    if ranges.len() > max {
        return lightest(ranges, u128::MAX).map(|recut| plan(recut, RecutReason::TooMany));
    }
    let overloaded = (ranges.len() < max).then(|| split_overloaded(ranges, bounds.target)).flatten();
    overloaded.map(|recut| plan(recut, RecutReason::Overloaded)).or_else(|| {
        let shrinks = ranges.len() > min;
        let recut = shrinks.then(|| lightest(ranges, u128::from(bounds.target).div_ceil(2))).flatten()?;
        Some(plan(recut, RecutReason::Underloaded))
    })
}

/// Cuts the most loaded range of those that are too loaded and can be cut.
fn split_overloaded(ranges: &[RangeLoad], target: u64) -> Option<Recut> {
    let target = u128::from(target);
    let is_due = |known: &&RangeLoad| {
        let load = u128::from(known.load);
        load * 2 > target * 3 || (known.hot && load > target)
    };
    let mut due: Vec<&RangeLoad> = ranges.iter().filter(is_due).collect();
    due.sort_unstable_by_key(|known| Reverse(known.load));
    due.into_iter().find_map(|known| Recut::split(known.range, middle(known)?))
}

/// Cuts the most loaded range, whatever its load; among equals the widest.
fn grow(ranges: &[RangeLoad]) -> Option<Recut> {
    let mut by_load: Vec<&RangeLoad> = ranges.iter().collect();
    by_load.sort_unstable_by_key(|known| Reverse((known.load, known.range.width())));
    by_load.into_iter().find_map(|known| match middle(known) {
        Some(at) => Recut::split(known.range, at),
        None => Recut::split_even(known.range),
    })
}

/// The first hash of the second part, for parts of as equal load as the buckets tell; `None` if the lighter one would not
/// get an eighth.
fn middle(known: &RangeLoad) -> Option<u64> {
    let shift = bucket_shift(known.range);
    let total: u128 = known.buckets.iter().map(|load| u128::from(*load)).sum();
    let mut before = 0u128;
    let mut best: Option<(u128, u64)> = None;
    for (number, load) in known.buckets.iter().enumerate().take(BUCKETS - 1) {
        before += u128::from(*load);
        let at = known.range.first.checked_add((number as u64 + 1) << shift);
        let Some(at) = at.filter(|at| *at <= known.range.last) else { break };
        let lighter = before.min(total - before);
        if best.is_none_or(|(most, _)| lighter > most) {
            best = Some((lighter, at));
        }
    }
    best.filter(|(lighter, _)| *lighter > 0 && lighter * 8 >= total).map(|(_, at)| at)
}

/// Merges the lightest neighbours that have less than `below` together.
fn lightest(ranges: &[RangeLoad], below: u128) -> Option<Recut> {
    let load = |pair: &[RangeLoad]| u128::from(pair[0].load) + u128::from(pair[1].load);
    let pairs = ranges.windows(2).filter(|pair| below == u128::MAX || !(pair[0].hot || pair[1].hot));
    let pair = pairs.filter(|pair| load(pair) < below).min_by_key(|pair| load(pair))?;
    Recut::merge(pair[0].range, pair[1].range)
}
