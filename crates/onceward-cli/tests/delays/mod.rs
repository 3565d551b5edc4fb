//! When the tests that kill strike: drawn anew in every run, printed, and repeatable.

/// Numbers that differ from run to run; `ONCEWARD_SEED` repeats those of one.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        let given = std::env::var("ONCEWARD_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            now.as_nanos() as u64
        });
        println!("ONCEWARD_SEED={seed}");
        Random(seed | 1)
    }
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
