//! The simulated input and what must come out of it.

use std::collections::BTreeMap;

use onceward_engine::entropy::Nonces;

/// Window size of the simulated pipeline.
pub const WINDOW_US: i64 = 60_000_000;
/// Window size of the second aggregation, which reads the first one's results.
pub const TOTAL_US: i64 = 300_000_000;
/// Bound on disorder; a row in a hundred does not honour it.
pub const DISORDER_US: i64 = 30_000_000;
/// Rows whose value is a multiple of this are filtered out.
pub const FILTERED: i64 = 7;

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The record as the source gives it.
    pub json: Vec<u8>,
    /// Whether the filter keeps it.
    pub kept: bool,
}

/// What one (key, window) must come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Expected {
    /// `count()`.
    pub count: u64,
    /// `sum(v)`.
    pub sum: i64,
    /// `max(v)`.
    pub max: i64,
}

/// What one (count of a window, longer window) must come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Total {
    /// `count()`.
    pub keys: u64,
    /// `sum(sum)`.
    pub total: i64,
}

/// The whole input with its fold.
#[derive(Debug)]
pub struct Input {
    /// Rows by partition.
    pub partitions: Vec<Vec<Row>>,
    /// By key and window start (seconds).
    pub windows: BTreeMap<(String, i64), Expected>,
    /// By count and window start (seconds).
    pub totals: BTreeMap<(u64, i64), Total>,
    /// How many rows the filter keeps.
    pub kept: usize,
    /// How many of them are late: their window was closed by a row before them in their own partition.
    pub late: u64,
}

impl Input {
    /// `messages` rows over `partitions` partitions and `keys` keys.
    pub fn generate(random: &mut Nonces, partitions: usize, messages: usize, keys: u64) -> Self {
        let mut input = Input {
            partitions: Vec::new(),
            windows: BTreeMap::new(),
            totals: BTreeMap::new(),
            kept: 0,
            late: 0,
        };
        let per_partition = messages.div_ceil(partitions.max(1));
        for partition in 0..partitions {
            // Partitions live in different times, so that their watermarks differ.
            let mut clock = (random.next_u64() % 300) as i64 * 1_000_000;
            let mut newest = i64::MIN;
            let mut rows = Vec::with_capacity(per_partition);
            for number in 0..per_partition {
                clock += (random.next_u64() % 400_000) as i64;
                let reach =
                    if random.next_u64().is_multiple_of(100) { DISORDER_US * 10 } else { DISORDER_US };
                let time = (clock - (random.next_u64() % reach as u64) as i64).max(0);
                let key = format!("k{}", random.next_u64() % keys);
                let value = (random.next_u64() % 1000) as i64;
                let kept = value % FILTERED != 0;
                let json = format!(
                    r#"{{"id":"{partition}-{number}","k":"{key}","t":"{}","v":{value}}}"#,
                    rfc3339(time)
                );
                if kept {
                    input.kept += 1;
                    let start = time.div_euclid(WINDOW_US) * WINDOW_US;
                    if start + WINDOW_US <= newest.saturating_sub(DISORDER_US) {
                        input.late += 1;
                        newest = newest.max(time);
                        rows.push(Row { json: json.into_bytes(), kept });
                        continue;
                    }
                    let window = start / 1_000_000;
                    let expected = input.windows.entry((key, window)).or_default();
                    expected.max = if expected.count == 0 { value } else { expected.max.max(value) };
                    expected.count += 1;
                    expected.sum += value;
                }
                newest = newest.max(time);
                rows.push(Row { json: json.into_bytes(), kept });
            }
            input.partitions.push(rows);
        }
        for ((_, start), window) in &input.windows {
            let start = start.div_euclid(TOTAL_US / 1_000_000) * (TOTAL_US / 1_000_000);
            let total = input.totals.entry((window.count, start)).or_default();
            total.keys += 1;
            total.total += window.sum;
        }
        input
    }
}

/// Microseconds since 1970-01-01, within that day and the next, as a text.
pub fn rfc3339(micros: i64) -> String {
    let seconds = micros.div_euclid(1_000_000);
    let (day, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    format!(
        "1970-01-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        day + 1,
        rest / 3600,
        rest / 60 % 60,
        rest % 60,
        micros.rem_euclid(1_000_000)
    )
}

/// The seconds of a time that [`rfc3339`] or the engine wrote for a whole second.
pub fn seconds_of(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    Some((number(8..10)? - 1) * 86_400 + number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?)
}
