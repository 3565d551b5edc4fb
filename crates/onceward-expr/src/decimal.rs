//! Exact decimal numbers. Every operation gives the exact result or none; only [`Decimal::div_round`]
//! and the inexact case of [`Decimal::checked_div`] round, and both say how.

use std::cmp::Ordering;
use std::fmt;

use crate::wide::Wide;

/// A number `coefficient / 10^scale`, with the digits and scale it was found with: `12.30` is 1230 at
/// scale 2. Equality and order are by value.
#[derive(Clone, Copy)]
// An align of 8 keeps a value at four words; the fields are only ever read by copy.
#[repr(Rust, packed(8))]
pub struct Decimal {
    coefficient: i128,
    scale: u8,
}

/// The largest number of fractional digits.
pub const MAX_SCALE: u8 = 38;
/// Fractional digits of a quotient that does not terminate.
pub const QUOTIENT_SCALE: u8 = 20;

pub(crate) const fn power_of_ten(exponent: u32) -> u128 {
    10u128.pow(exponent)
}

impl Decimal {
    /// 0
    pub const ZERO: Decimal = Decimal { coefficient: 0, scale: 0 };

    /// `coefficient / 10^scale`; `None` above [`MAX_SCALE`].
    pub fn new(coefficient: i128, scale: u8) -> Option<Self> {
        (scale <= MAX_SCALE).then_some(Decimal { coefficient, scale })
    }
    /// The digits as a whole number.
    pub fn coefficient(&self) -> i128 {
        self.coefficient
    }
    /// How many of the digits are fractional.
    pub fn scale(&self) -> u8 {
        self.scale
    }
    /// Whether it is zero, at any scale.
    pub fn is_zero(&self) -> bool {
        self.coefficient() == 0
    }

    /// Reads `[+-]digits[.digits][e[+-]digits]`. `None` if it is not of this form or does not fit exactly.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_bytes(text.as_bytes())
    }

    /// Like [`Decimal::parse`], from bytes.
    pub fn parse_bytes(text: &[u8]) -> Option<Self> {
        let (negative, text) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, text),
        };
        let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        if !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
            return None;
        }
        let digits = whole.len() + fraction.len();
        let mut scale = i64::try_from(fraction.len()).ok()?.saturating_sub(exponent);
        let all = || whole.iter().chain(fraction);
        let mut coefficient = None;
        if scale <= i64::from(MAX_SCALE) {
            coefficient = accumulate(all());
        }
        let coefficient = match coefficient {
            Some(coefficient) => coefficient,
            None => {
                let zeros = all().rev().take_while(|byte| **byte == b'0').count();
                scale = scale.saturating_sub(i64::try_from(zeros).ok()?);
                accumulate(all().take(digits - zeros))?
            }
        };
        if coefficient == 0 {
            return Some(Decimal { coefficient: 0, scale: scale.clamp(0, i64::from(MAX_SCALE)) as u8 });
        }
        let (coefficient, scale) = if scale < 0 {
            let factor = u32::try_from(-scale).ok().filter(|exponent| *exponent <= 38).map(power_of_ten)?;
            (coefficient.checked_mul(factor)?, 0)
        } else {
            (coefficient, u8::try_from(scale).ok().filter(|scale| *scale <= MAX_SCALE)?)
        };
        Some(Decimal { coefficient: signed(negative, coefficient)?, scale })
    }

    /// The sum, or `None` if it does not fit exactly.
    #[inline]
    pub fn checked_add(self, other: Decimal) -> Option<Decimal> {
        if self.scale == other.scale
            && let Some(coefficient) = self.coefficient().checked_add(other.coefficient())
        {
            return Some(Decimal { coefficient, scale: self.scale });
        }
        self.add_slow(other)
    }

    fn add_slow(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let widen = |number: Decimal| {
            Wide::product(
                number.coefficient().unsigned_abs(),
                power_of_ten(u32::from(scale) - u32::from(number.scale)),
            )
        };
        let (a, b) = (widen(self), widen(other));
        let (a_negative, b_negative) = (self.coefficient() < 0, other.coefficient() < 0);
        if a_negative == b_negative {
            return finish(a_negative, a.checked_add(b)?, i32::from(scale));
        }
        let (magnitude, order) = a.abs_diff(b);
        finish(if order == Ordering::Less { b_negative } else { a_negative }, magnitude, i32::from(scale))
    }

    /// The difference, or `None` if it does not fit exactly.
    #[inline]
    pub fn checked_sub(self, other: Decimal) -> Option<Decimal> {
        self.checked_add(other.checked_neg()?)
    }

    /// The product, or `None` if it does not fit exactly.
    pub fn checked_mul(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale + other.scale;
        if scale <= MAX_SCALE
            && let Some(coefficient) = self.coefficient().checked_mul(other.coefficient())
        {
            return Some(Decimal { coefficient, scale });
        }
        let magnitude = Wide::product(self.coefficient().unsigned_abs(), other.coefficient().unsigned_abs());
        finish((self.coefficient() < 0) != (other.coefficient() < 0), magnitude, i32::from(scale))
    }

    /// The negated number; `None` for the single coefficient without a counterpart.
    pub fn checked_neg(self) -> Option<Decimal> {
        Some(Decimal { coefficient: self.coefficient().checked_neg()?, scale: self.scale })
    }

    /// The quotient: exact if it terminates within 38 digits; otherwise rounded half to even at
    /// [`QUOTIENT_SCALE`] fractional digits, or at this number's scale if that is larger. `None` for a zero
    /// divisor or if that many digits do not fit.
    pub fn checked_div(self, divisor: Decimal) -> Option<Decimal> {
        if divisor.is_zero() {
            return None;
        }
        let negative = (self.coefficient() < 0) != (divisor.coefficient() < 0);
        let target = i32::from(self.scale.max(QUOTIENT_SCALE));
        let by = divisor.coefficient().unsigned_abs();
        let start = self.coefficient().unsigned_abs();
        let (mut quotient, mut rest) = (start / by, start % by);
        let mut scale = i32::from(self.scale) - i32::from(divisor.scale);
        let mut rounded = None;
        while rest != 0 || scale < 0 {
            if scale == target {
                rounded = Some((quotient, rest));
            }
            if scale == i32::from(MAX_SCALE) {
                break;
            }
            let (digit, next) = Wide::product(rest, 10).div_rem(by);
            let grown = digit.narrow().and_then(|digit| quotient.checked_mul(10)?.checked_add(digit));
            match grown.filter(|grown| signed(negative, *grown).is_some()) {
                Some(grown) => (quotient, rest, scale) = (grown, next, scale + 1),
                None => break,
            }
        }
        if rest == 0 && scale >= 0 {
            return finish(negative, Wide::from(quotient), scale);
        }
        let (quotient, rest) = rounded?;
        finish(negative, Wide::from(quotient.checked_add(u128::from(rounds_up(quotient, rest, by)))?), target)
    }

    /// The number divided by a count, for averages: rounded half to even at `extra_scale` more fractional
    /// digits than it has itself, or at as many as fit. `None` only if `count` is zero.
    pub fn div_round(self, count: u64, extra_scale: u8) -> Option<Decimal> {
        if count == 0 {
            return None;
        }
        let magnitude = self.coefficient().unsigned_abs();
        let mut extra = extra_scale.min(MAX_SCALE - self.scale);
        loop {
            let (quotient, rest) =
                Wide::product(magnitude, power_of_ten(u32::from(extra))).div_rem(u128::from(count));
            let rounded = quotient.narrow().and_then(|quotient| {
                let up = u128::from(rounds_up(quotient, rest, u128::from(count)));
                signed(self.coefficient() < 0, quotient.checked_add(up)?)
            });
            match (rounded, extra.checked_sub(1)) {
                (Some(coefficient), _) => return Some(Decimal { coefficient, scale: self.scale + extra }),
                (None, Some(less)) => extra = less,
                (None, None) => return None,
            }
        }
    }

    /// The same value without trailing fractional zeros.
    pub fn normalized(self) -> Decimal {
        let (mut coefficient, mut scale) = (self.coefficient(), self.scale);
        while scale > 0 && coefficient % 10 == 0 {
            coefficient /= 10;
            scale -= 1;
        }
        Decimal { coefficient, scale }
    }

    /// The value as a whole number, if it is one and fits.
    pub fn to_i64(self) -> Option<i64> {
        let number = self.normalized();
        (number.scale == 0).then(|| i64::try_from(number.coefficient()).ok())?
    }

    /// The whole part, towards zero.
    pub fn truncated(self) -> i128 {
        // 10^38 fits i128, so the cast keeps the value.
        self.coefficient() / power_of_ten(u32::from(self.scale)) as i128
    }

    /// The nearest floating-point number.
    pub fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The exact value of a floating-point number, if a decimal can hold it.
    pub fn from_f64(value: f64) -> Option<Decimal> {
        let (negative, mantissa, exponent) = decompose(value)?;
        if exponent >= 0 {
            let magnitude = Wide::from(u128::from(mantissa)).checked_shl(exponent.unsigned_abs())?;
            return finish(negative, magnitude, 0);
        }
        let scale = exponent.unsigned_abs();
        if scale > u32::from(MAX_SCALE) {
            return None;
        }
        finish(negative, Wide::product(u128::from(mantissa), 5u128.pow(scale)), scale as i32)
    }

    /// The exact order against a floating-point number; `None` for NaN.
    pub fn compare_f64(self, other: f64) -> Option<Ordering> {
        if other.is_nan() {
            return None;
        }
        let coefficient = self.coefficient();
        let signs = coefficient.signum().cmp(&if other == 0.0 { 0 } else { other.signum() as i128 });
        if signs != Ordering::Equal || coefficient == 0 {
            return Some(signs);
        }
        let flip = |order: Ordering| if coefficient < 0 { order.reverse() } else { order };
        let Some((_, mantissa, exponent)) = decompose(other) else {
            return Some(flip(Ordering::Less));
        };
        // Below: coefficient / 10^scale against mantissa * 2^exponent, both positive.
        let magnitude = coefficient.unsigned_abs();
        let ten = power_of_ten(u32::from(self.scale));
        let shift = exponent.unsigned_abs();
        let order = if exponent >= 0 {
            match u128::from(mantissa)
                .checked_shl(shift)
                .filter(|value| value >> shift == u128::from(mantissa))
            {
                Some(value) => Wide::from(magnitude).cmp(&Wide::product(value, ten)),
                None => Ordering::Less,
            }
        } else {
            match Wide::from(magnitude).checked_shl(shift) {
                Some(value) => value.cmp(&Wide::product(u128::from(mantissa), ten)),
                None => Ordering::Greater,
            }
        };
        Some(flip(order))
    }

    /// Appends the plain decimal text, all digits kept.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut digits = [b'0'; 48];
        let mut at = digits.len();
        let mut magnitude = self.coefficient().unsigned_abs();
        while magnitude != 0 {
            at -= 1;
            digits[at] = b'0' + (magnitude % 10) as u8;
            magnitude /= 10;
        }
        let scale = usize::from(self.scale);
        // At least one digit stands before the point.
        at = at.min(digits.len() - scale - 1);
        if self.coefficient() < 0 {
            out.push(b'-');
        }
        let point = digits.len() - scale;
        out.extend_from_slice(&digits[at..point]);
        if scale > 0 {
            out.push(b'.');
            out.extend_from_slice(&digits[point..]);
        }
    }
}

/// Strips what zeros must go and puts the number together; `None` if it does not fit exactly.
fn finish(negative: bool, mut magnitude: Wide, mut scale: i32) -> Option<Decimal> {
    loop {
        if (0..=i32::from(MAX_SCALE)).contains(&scale)
            && let Some(coefficient) = magnitude.narrow().and_then(|narrow| signed(negative, narrow))
        {
            return Some(Decimal { coefficient, scale: scale as u8 });
        }
        if scale <= 0 {
            return None;
        }
        let (quotient, rest) = magnitude.div_rem(10);
        if rest != 0 {
            return None;
        }
        magnitude = quotient;
        scale -= 1;
    }
}

fn signed(negative: bool, magnitude: u128) -> Option<i128> {
    if negative { 0i128.checked_sub_unsigned(magnitude) } else { i128::try_from(magnitude).ok() }
}

/// Whether `quotient + rest / divisor` rounds up, half to even.
fn rounds_up(quotient: u128, rest: u128, divisor: u128) -> bool {
    match rest.cmp(&(divisor - rest)) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => quotient % 2 == 1,
    }
}

fn accumulate<'a>(digits: impl Iterator<Item = &'a u8>) -> Option<u128> {
    let mut value = 0u128;
    for digit in digits {
        value = value.checked_mul(10)?.checked_add(u128::from(digit - b'0'))?;
        if value > i128::MAX as u128 + 1 {
            return None;
        }
    }
    Some(value)
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits
        .iter()
        .fold(0i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Some(if negative { -value } else { value })
}

/// Sign, odd (or zero) mantissa and power of two of a finite number.
fn decompose(value: f64) -> Option<(bool, u64, i32)> {
    if !value.is_finite() {
        return None;
    }
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = match ((bits >> 52) & 0x7ff) as i32 {
        0 => (fraction, -1074),
        biased => (fraction | (1 << 52), biased - 1075),
    };
    if mantissa == 0 {
        return Some((false, 0, 0));
    }
    let zeros = mantissa.trailing_zeros();
    Some((value < 0.0, mantissa >> zeros, exponent + zeros as i32))
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Self {
        Decimal { coefficient: i128::from(value), scale: 0 }
    }
}

impl From<u64> for Decimal {
    fn from(value: u64) -> Self {
        Decimal { coefficient: i128::from(value), scale: 0 }
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.coefficient(), other.coefficient());
        if self.scale == other.scale {
            return a.cmp(&b);
        }
        if a.signum() != b.signum() {
            return a.signum().cmp(&b.signum());
        }
        let scale = self.scale.max(other.scale);
        let widen = |magnitude: u128, own: u8| {
            Wide::product(magnitude, power_of_ten(u32::from(scale) - u32::from(own)))
        };
        let order = widen(a.unsigned_abs(), self.scale).cmp(&widen(b.unsigned_abs(), other.scale));
        if a < 0 { order.reverse() } else { order }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(42);
        self.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
