//! Which key a random number stands for. Integer arithmetic, and floating-point operations that are the same on every
//! machine (no powers or logarithms of the system), so that a key never depends on where it is drawn.

/// Keys of a skewed distribution, at most: each takes eight bytes of memory.
pub const MAX_ZIPF_KEYS: u32 = 1_000_000;

/// A distribution over the keys 0, 1 and so on.
#[derive(Debug)]
pub enum Keys {
    /// Every key is as likely.
    Uniform(u64),
    /// Walker's alias table: one of equal columns is drawn, then one of the two keys that share it.
    Skewed {
        /// Columns, one per key.
        columns: Vec<Column>,
        /// What tells two tables apart.
        exponent: f64,
    },
}

/// A column of the alias table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The column's own key is drawn below this, in parts of 2^32.
    own: u32,
    /// The key that fills the rest.
    other: u32,
}

impl Keys {
    /// `count` keys, from 1 to 2^32.
    pub fn uniform(count: u64) -> Self {
        Keys::Uniform(count)
    }

    /// `count` keys of which key i is drawn in proportion to `1 / (i + 1)^exponent`.
    pub fn zipf(count: u32, exponent: f64) -> Self {
        let weights: Vec<f64> =
            (0..count).map(|key| exp_of_negative(-exponent * ln(f64::from(key) + 1.0))).collect();
        Keys::Skewed { columns: alias_table(&weights), exponent }
    }

    /// The key of a random number.
    #[inline]
    pub fn draw(&self, random: u64) -> u64 {
        let (high, low) = (random >> 32, random as u32);
        match self {
            Keys::Uniform(count) => (high * count) >> 32,
            Keys::Skewed { columns, .. } => {
                let at = (high * columns.len() as u64) >> 32;
                let Some(column) = columns.get(at as usize) else { return 0 };
                if low < column.own { at } else { u64::from(column.other) }
            }
        }
    }
}

fn alias_table(weights: &[f64]) -> Vec<Column> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let mut shares: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
    let mut columns: Vec<Column> =
        (0..weights.len() as u32).map(|key| Column { own: u32::MAX, other: key }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..shares.len()).partition(|key| shares[*key] < 1.0);
    while let (Some(less), Some(more)) = (small.pop(), large.last().copied()) {
        columns[less] = Column { own: (shares[less] * 4_294_967_296.0) as u32, other: more as u32 };
        shares[more] -= 1.0 - shares[less];
        if shares[more] < 1.0 {
            large.pop();
            small.push(more);
        }
    }
    columns
}

/// The natural logarithm of a normal number above zero.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as f64 - 1023.0;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..12).rev().fold(0.0, |sum, term| sum * square + 1.0 / f64::from(2 * term + 1));
    2.0 * ratio * series + exponent * std::f64::consts::LN_2
}

/// `e^y` for `y` from -700 to 0.
fn exp_of_negative(y: f64) -> f64 {
    let halvings = (y / std::f64::consts::LN_2).round();
    let rest = y - halvings * std::f64::consts::LN_2;
    let series = (1..18).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits(((halvings as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_logarithm_and_exponential_are_those_of_mathematics() {
        for x in [1.0, 1.4, 1.5, 2.0, 3.0, 10.0, 999.0, 1e6] {
            assert!((ln(x) - x.ln()).abs() <= 1e-15 * x.ln().abs(), "{x}");
            let power = exp_of_negative(-1.3 * ln(x));
            assert!((power - x.powf(-1.3)).abs() <= 1e-13 * power, "{x}");
        }
    }

    #[test]
    fn the_alias_table_gives_every_key_its_share() {
        for (count, exponent) in [(1, 1.0), (2, 0.5), (100, 1.0), (1000, 1.2), (1000, 10.0)] {
            let Keys::Skewed { columns, .. } = Keys::zipf(count, exponent) else { panic!("skewed") };
            let mut shares = vec![0.0; count as usize];
            for (key, column) in columns.iter().enumerate() {
                let own = f64::from(column.own) / 4_294_967_296.0;
                shares[key] += own / f64::from(count);
                shares[column.other as usize] += (1.0 - own) / f64::from(count);
            }
            let total: f64 = (1..=count).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for (key, share) in (1..).zip(shares) {
                let expected = f64::from(key).powf(-exponent) / total;
                assert!(
                    (share - expected).abs() < 1e-8,
                    "{count}, {exponent}: key {key}: {share}, {expected}"
                );
            }
        }
    }

    #[test]
    fn every_key_is_within_range_and_uniform_keys_reach_both_ends() {
        for keys in [Keys::uniform(1), Keys::uniform(3), Keys::uniform(1 << 32), Keys::zipf(3, 1.0)] {
            let count = match &keys {
                Keys::Uniform(count) => *count,
                Keys::Skewed { columns, .. } => columns.len() as u64,
            };
            assert_eq!(keys.draw(0), 0);
            assert!(keys.draw(u64::MAX) < count);
        }
        assert_eq!(Keys::uniform(3).draw(u64::MAX), 2);
    }
}
