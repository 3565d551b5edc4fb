//! Decimals against arbitrary-precision integers: exact or none, never rounded, never wrapped.

use num_bigint::BigInt;
use onceward_expr::Decimal;
use proptest::prelude::*;

fn ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// The number as (numerator, power of ten of the denominator), without trailing zeros.
fn reduced(mut numerator: BigInt, mut scale: u32) -> (BigInt, u32) {
    let zero = BigInt::from(0);
    while scale > 0 && &numerator % 10 == zero {
        numerator /= 10;
        scale -= 1;
    }
    (numerator, scale)
}

fn value(number: Decimal) -> (BigInt, u32) {
    reduced(BigInt::from(number.coefficient()), u32::from(number.scale()))
}

/// What an exact operation must answer for this result.
fn representable(numerator: BigInt, scale: u32) -> Option<(BigInt, u32)> {
    let (numerator, scale) = reduced(numerator, scale);
    (scale <= 38 && i128::try_from(&numerator).is_ok()).then_some((numerator, scale))
}

fn scaled(number: Decimal, scale: u32) -> BigInt {
    BigInt::from(number.coefficient()) * ten(scale - u32::from(number.scale()))
}

fn half_even(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let negative = (numerator < &BigInt::from(0)) != (denominator < &BigInt::from(0));
    let (n, d) = (BigInt::from(numerator.magnitude().clone()), BigInt::from(denominator.magnitude().clone()));
    let (mut quotient, rest) = (&n / &d, &n % &d);
    let twice = rest * 2;
    if twice > d || (twice == d && &quotient % 2 == BigInt::from(1)) {
        quotient += 1;
    }
    if negative { -quotient } else { quotient }
}

fn decimals() -> impl Strategy<Value = Decimal> {
    let coefficient = prop_oneof![
        any::<i128>(),
        any::<i64>().prop_map(i128::from),
        -1000i128..1000,
        (1i128..100, 0u32..37).prop_map(|(digits, zeros)| digits.saturating_mul(10i128.pow(zeros))),
        Just(i128::MAX),
        Just(i128::MIN),
    ];
    (coefficient, 0u8..=38).prop_map(|(coefficient, scale)| Decimal::new(coefficient, scale).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn sums_and_differences_are_exact_or_none(a in decimals(), b in decimals()) {
        let scale = u32::from(a.scale().max(b.scale()));
        let sum = scaled(a, scale) + scaled(b, scale);
        prop_assert_eq!(a.checked_add(b).map(value), representable(sum, scale));
        if b.checked_neg().is_some() {
            let difference = scaled(a, scale) - scaled(b, scale);
            prop_assert_eq!(a.checked_sub(b).map(value), representable(difference, scale));
        }
    }

    #[test]
    fn products_are_exact_or_none(a in decimals(), b in decimals()) {
        let product = BigInt::from(a.coefficient()) * BigInt::from(b.coefficient());
        let scale = u32::from(a.scale()) + u32::from(b.scale());
        prop_assert_eq!(a.checked_mul(b).map(value), representable(product, scale));
    }

    #[test]
    fn quotients_are_exact_where_they_terminate_and_half_even_elsewhere(a in decimals(), b in decimals()) {
        let found = a.checked_div(b).map(value);
        if b.is_zero() {
            prop_assert_eq!(found, None);
        } else {
            // a / b * 10^114 is whole if the quotient terminates within 38 digits.
            let wide = BigInt::from(a.coefficient()) * ten(114 - u32::from(a.scale()));
            let by = BigInt::from(b.coefficient());
            let exact = (&wide * ten(u32::from(b.scale()))) % &by == BigInt::from(0);
            let exactly = if exact {
                representable(&wide * ten(u32::from(b.scale())) / &by, 114)
            } else {
                None
            };
            let target = u32::from(a.scale().max(20));
            let expected = exactly.or_else(|| {
                let numerator = scaled(a, 38) * ten(u32::from(b.scale())) * ten(target);
                let rounded = half_even(&numerator, &(by * ten(38)));
                i128::try_from(&rounded).is_ok().then(|| reduced(rounded, target))
            });
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn averages_round_half_to_even_at_the_scale_asked_for(a in decimals(), count in 1u64..5000, extra in 0u8..12) {
        let found = a.div_round(count, extra).unwrap();
        let scale = u32::from(found.scale());
        prop_assert!(found.scale() >= a.scale());
        let expected = half_even(&scaled(a, scale), &BigInt::from(count));
        prop_assert_eq!(BigInt::from(found.coefficient()), expected);
        let wanted = (a.scale() + extra).min(38);
        if found.scale() < wanted {
            let one_more = half_even(&scaled(a, scale + 1), &BigInt::from(count));
            prop_assert!(i128::try_from(one_more).is_err(), "a digit was left out that fits");
        }
    }

    #[test]
    fn order_is_by_value(a in decimals(), b in decimals()) {
        prop_assert_eq!(a.cmp(&b), scaled(a, 38).cmp(&scaled(b, 38)));
        prop_assert_eq!(a == b, scaled(a, 38) == scaled(b, 38));
        prop_assert_eq!(a, a.normalized());
    }

    #[test]
    fn text_keeps_every_digit_and_the_scale(a in decimals()) {
        let again = Decimal::parse(&a.to_string()).unwrap();
        prop_assert_eq!((again.coefficient(), again.scale()), (a.coefficient(), a.scale()));
    }

    #[test]
    fn text_is_read_by_value_or_not_at_all(
        text in "[+-]?[0-9]{0,45}(\\.[0-9]{0,45})?([eE][+-]?[0-9]{1,2})?"
    ) {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let expected = if digits.trim_start_matches(['+', '-']).is_empty() {
            None
        } else {
            let scale = fraction.len() as i64 - exponent.parse::<i64>().unwrap();
            let numerator: BigInt = digits.trim_start_matches('+').parse().unwrap();
            if scale < 0 {
                representable(numerator * ten(scale.unsigned_abs() as u32), 0)
            } else {
                representable(numerator, scale as u32)
            }
        };
        prop_assert_eq!(Decimal::parse(&text).map(value), expected);
    }

    #[test]
    fn floating_point_numbers_compare_and_convert_exactly(a in decimals(), exponent in -200i32..200, mantissa in any::<i64>()) {
        for b in [mantissa as f64 * 2f64.powi(exponent), a.to_f64(), mantissa as f64 / 1024.0, 0.0, f64::INFINITY, f64::NEG_INFINITY] {
            if b.is_finite() {
                let (n, shift) = rational(b);
                let left = scaled(a, 38) << shift;
                prop_assert_eq!(a.compare_f64(b), Some(left.cmp(&(n.clone() * ten(38)))), "{} against {:?}", a, b);
                // n / 2^shift is n * 5^shift / 10^shift.
                let exact = representable(n * BigInt::from(5).pow(shift), shift);
                prop_assert_eq!(Decimal::from_f64(b).map(value), exact);
            } else {
                prop_assert_eq!(a.compare_f64(b), 0.0.partial_cmp(&b));
            }
        }
        prop_assert_eq!(a.compare_f64(f64::NAN), None);
    }
}

/// A finite number as numerator and power of two of the denominator.
fn rational(value: f64) -> (BigInt, u32) {
    let bits = value.to_bits();
    let biased = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) =
        if biased == 0 { (fraction, -1074) } else { (fraction | (1 << 52), biased - 1075) };
    let signed = if value < 0.0 { -BigInt::from(mantissa) } else { BigInt::from(mantissa) };
    if exponent >= 0 { (signed << exponent as u32, 0) } else { (signed, exponent.unsigned_abs()) }
}

#[test]
fn the_usual_cases_read_as_written() {
    let decimal = |text: &str| Decimal::parse(text).unwrap();
    assert_eq!(decimal("12.30").to_string(), "12.30");
    assert_eq!(decimal("-0.05").to_string(), "-0.05");
    assert_eq!(decimal("1.50e3").to_string(), "1500");
    assert_eq!(decimal("15e-3").to_string(), "0.015");
    assert_eq!(decimal("0.1").checked_add(decimal("0.2")).unwrap().to_string(), "0.3");
    assert_eq!(decimal("1").checked_div(decimal("8")).unwrap().to_string(), "0.125");
    assert_eq!(decimal("2").checked_div(decimal("3")).unwrap().to_string(), "0.66666666666666666667");
    assert_eq!(decimal("12.00").to_i64(), Some(12));
    assert_eq!(decimal("12.01").to_i64(), None);
    assert_eq!(Decimal::from(7i64).div_round(2, 9).unwrap().to_string(), "3.500000000");
    assert_eq!(Decimal::from(5i64).div_round(2, 0).unwrap().to_string(), "2");
    assert_eq!(Decimal::from(7i64).div_round(2, 0).unwrap().to_string(), "4");
    assert_eq!(std::mem::size_of::<Decimal>(), 24);
}
