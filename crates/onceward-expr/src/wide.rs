//! Unsigned 256-bit integers, as far as exact decimals need them.

use std::cmp::Ordering;

/// `hi * 2^128 + lo`; the order of the fields makes the derived order the numeric one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Wide {
    hi: u128,
    lo: u128,
}

const LOW: u128 = u64::MAX as u128;

impl Wide {
    pub(crate) fn from(lo: u128) -> Self {
        Wide { hi: 0, lo }
    }

    /// The full product; cannot overflow.
    pub(crate) fn product(a: u128, b: u128) -> Self {
        let (a_hi, a_lo, b_hi, b_lo) = (a >> 64, a & LOW, b >> 64, b & LOW);
        let low = a_lo * b_lo;
        let cross_one = a_hi * b_lo + (low >> 64);
        let cross_two = a_lo * b_hi + (cross_one & LOW);
        Wide { hi: a_hi * b_hi + (cross_one >> 64) + (cross_two >> 64), lo: (cross_two << 64) | (low & LOW) }
    }

    /// The value, if it fits.
    pub(crate) fn narrow(self) -> Option<u128> {
        (self.hi == 0).then_some(self.lo)
    }

    pub(crate) fn checked_add(self, other: Wide) -> Option<Wide> {
        let (lo, carry) = self.lo.overflowing_add(other.lo);
        let hi = self.hi.checked_add(other.hi)?.checked_add(u128::from(carry))?;
        Some(Wide { hi, lo })
    }

    /// The distance to `other` and which of the two is larger.
    pub(crate) fn abs_diff(self, other: Wide) -> (Wide, Ordering) {
        let order = self.cmp(&other);
        let (big, small) = if order == Ordering::Less { (other, self) } else { (self, other) };
        let (lo, borrow) = big.lo.overflowing_sub(small.lo);
        (Wide { hi: big.hi - small.hi - u128::from(borrow), lo }, order)
    }

    /// `self * 2^bits`; `None` if bits would be lost.
    pub(crate) fn checked_shl(self, bits: u32) -> Option<Wide> {
        if bits > self.leading_zeros() {
            return if self == Wide::from(0) { Some(self) } else { None };
        }
        Some(match bits {
            0 => self,
            1..128 => Wide { hi: (self.hi << bits) | (self.lo >> (128 - bits)), lo: self.lo << bits },
            128..256 => Wide { hi: self.lo << (bits - 128), lo: 0 },
            _ => self,
        })
    }

    fn leading_zeros(self) -> u32 {
        if self.hi != 0 { self.hi.leading_zeros() } else { 128 + self.lo.leading_zeros() }
    }

    /// Quotient and remainder; the divisor must not be zero.
    pub(crate) fn div_rem(self, divisor: u128) -> (Wide, u128) {
        if self.hi == 0 {
            return (Wide::from(self.lo / divisor), self.lo % divisor);
        }
        let mut quotient = Wide { hi: self.hi / divisor, lo: 0 };
        let mut rest = self.hi % divisor;
        if divisor <= LOW {
            for shift in [64, 0] {
                let part = (rest << 64) | ((self.lo >> shift) & LOW);
                quotient.lo |= (part / divisor) << shift;
                rest = part % divisor;
            }
            return (quotient, rest);
        }
        for bit in (0..128).rev() {
            let carry = rest >> 127 == 1;
            rest = (rest << 1) | ((self.lo >> bit) & 1);
            if carry || rest >= divisor {
                rest = rest.wrapping_sub(divisor);
                quotient.lo |= 1 << bit;
            }
        }
        (quotient, rest)
    }
}
