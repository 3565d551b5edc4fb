//! Watermark math (WATERMARK-IN-LANE). Times are microseconds since 1970-01-01 UTC.

/// A promise about event time: everything still to come is at or after it, or is late.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Watermark(pub i64);

impl Watermark {
    /// No promise yet.
    pub const NONE: Watermark = Watermark(i64::MIN);
    /// Nothing more will come.
    pub const END: Watermark = Watermark(i64::MAX);

    /// The effective watermark of a consumer: the minimum over its lanes. A lane counts until its
    /// producer is retired, so one that has said nothing yet holds it at [`Watermark::NONE`]. With no
    /// lane at all there is nothing to wait for.
    pub fn min_over(lanes: impl IntoIterator<Item = Watermark>) -> Watermark {
        lanes.into_iter().min().unwrap_or(Watermark::END)
    }
}

/// The watermark of a source partition: a pure function of the prefix that was read, so that a
/// re-read partition repeats it at the same places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundedDisorder {
    bound: i64,
    max_seen: i64,
}

impl BoundedDisorder {
    /// Rows may be up to `bound` microseconds older than the newest row before them. `max_seen` is
    /// the newest event time of the prefix, `i64::MIN` for none.
    pub fn new(bound: i64, max_seen: i64) -> Self {
        BoundedDisorder { bound, max_seen }
    }
    /// Notes a row.
    #[inline]
    pub fn observe(&mut self, event_time: i64) {
        self.max_seen = self.max_seen.max(event_time);
    }
    /// The newest event time of the prefix.
    pub fn max_seen(&self) -> i64 {
        self.max_seen
    }
    /// The promise after the prefix read so far.
    pub fn watermark(&self) -> Watermark {
        if self.max_seen == i64::MIN {
            Watermark::NONE
        } else {
            Watermark(self.max_seen.saturating_sub(self.bound))
        }
    }
}

/// 0001-01-01T00:00:00Z.
const FIRST_TIME_US: i64 = -62_135_596_800_000_000;
/// 9999-12-31T23:59:59.999999Z.
const LAST_TIME_US: i64 = 253_402_300_799_999_999;

/// Tumbling windows of a fixed size, aligned to the epoch of 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tumbling {
    /// Size in microseconds, above 0.
    pub size: i64,
    /// How long after a window's end its late rows are still counted, in microseconds.
    pub allowed_lateness: i64,
}

impl Tumbling {
    /// The start of the window that `event_time` falls into; `None` where the window would leave the years
    /// 1 to 9999, so that every window that is kept can also be written.
    #[inline]
    pub fn start_of(&self, event_time: i64) -> Option<i64> {
        let start = event_time.checked_sub(event_time.rem_euclid(self.size))?;
        (start >= FIRST_TIME_US && self.end_of(start)? <= LAST_TIME_US).then_some(start)
    }
    /// The exclusive end of the window that starts at `start`.
    #[inline]
    pub fn end_of(&self, start: i64) -> Option<i64> {
        start.checked_add(self.size)
    }
    /// When the window fires: once the watermark passes its end plus the allowed lateness. From then
    /// on a row that belongs to it is late.
    #[inline]
    pub fn fires_at(&self, start: i64) -> i64 {
        start.saturating_add(self.size).saturating_add(self.allowed_lateness)
    }
    /// The smallest watermark that closes a window which `watermark` does not: the next place at which a lane must
    /// say how far it is.
    pub fn next_boundary(&self, watermark: Watermark) -> i64 {
        if watermark == Watermark::NONE {
            return i64::MIN;
        }
        let closed = watermark.0.saturating_sub(self.allowed_lateness).div_euclid(self.size);
        closed.saturating_add(1).saturating_mul(self.size).saturating_add(self.allowed_lateness)
    }
    /// Whether the window is closed at `watermark`.
    #[inline]
    pub fn closed(&self, start: i64, watermark: Watermark) -> bool {
        self.fires_at(start) <= watermark.0
    }
}
