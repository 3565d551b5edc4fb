//! Key and binary forms: one key form per value, and what was encoded comes back.

use std::borrow::Cow;

use onceward_expr::{Decimal, Duration, Timestamp, Value};
use proptest::prelude::*;

fn key(value: &Value<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode_key(&mut out);
    out
}

/// Numbers that are often equal across types.
fn numbers() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        (-3i64..3).prop_map(Value::Int),
        (0u64..3).prop_map(Value::Uint),
        (-30i128..30, 0u8..3)
            .prop_map(|(digits, scale)| Value::Decimal(Decimal::new(digits, scale).unwrap())),
        (-12i32..12).prop_map(|quarters| Value::Double(f64::from(quarters) / 4.0)),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::Uint),
        (any::<i128>(), 0u8..=38)
            .prop_map(|(digits, scale)| Value::Decimal(Decimal::new(digits, scale).unwrap())),
        any::<f64>().prop_filter("NaN equals nothing", |value| !value.is_nan()).prop_map(Value::Double),
        prop::sample::select(vec![0.0, -0.0, f64::INFINITY, 1e300, 0.1, 9.223_372_036_854_776e18])
            .prop_map(Value::Double),
        Just(Value::Uint(1 << 63)),
        Just(Value::Decimal(Decimal::new(1 << 63, 0).unwrap())),
    ]
}

fn values() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        4 => numbers(),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => "[a-c]{0,2}".prop_map(Value::from),
        1 => prop::collection::vec(97u8..100, 0..3).prop_map(|bytes| Value::Bytes(Cow::Owned(bytes))),
        1 => (-2i64..2, 0u32..2).prop_map(|(seconds, nanos)| Value::Timestamp(Timestamp::new(seconds, nanos).unwrap())),
        1 => (-2i64..2, 0u32..2).prop_map(|(seconds, nanos)| Value::Duration(Duration::new(seconds, nanos).unwrap())),
        1 => prop::sample::select(vec![
            r#"{"a":1,"b":[1.0,null]}"#, r#"{"b":[1,null],"a":1.00}"#, "[1, 2]", "[1,2.0]", "{}", "[]",
        ]).prop_map(|text| Value::Json(Cow::Borrowed(text.as_bytes()))),
    ];
    leaf.prop_recursive(2, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::list),
            prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|entries| {
                Value::map(entries.into_iter().map(|(key, value)| (Value::from(key), value)).collect())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn equal_numbers_and_only_those_have_equal_keys(a in numbers(), b in numbers()) {
        prop_assert_eq!(a == b, key(&a) == key(&b), "{:?} and {:?}", a, b);
    }

    #[test]
    fn equal_values_and_only_those_have_equal_keys(a in values(), b in values()) {
        prop_assert_eq!(a == b, key(&a) == key(&b), "{:?} and {:?}", a, b);
    }

    #[test]
    fn keys_can_be_read_back_one_after_the_other(a in values(), b in values()) {
        let mut both = key(&a);
        b.encode_key(&mut both);
        let (first, len) = Value::decode_key(&both).unwrap();
        let (second, rest) = Value::decode_key(&both[len..]).unwrap();
        prop_assert_eq!(len + rest, both.len());
        prop_assert_eq!(&first, &a);
        prop_assert_eq!(&second, &b);
        prop_assert_eq!(key(&first), key(&a));
    }

    #[test]
    fn the_binary_form_round_trips_to_the_digit(a in values()) {
        let mut out = Vec::new();
        a.encode(&mut out);
        out.extend_from_slice(b"rest");
        let (again, rest) = Value::decode(&out).unwrap();
        prop_assert_eq!(rest, b"rest");
        prop_assert_eq!(format!("{a:?}"), format!("{again:?}"));
    }

    #[test]
    fn any_bytes_are_a_value_or_none(bytes in prop::collection::vec(prop_oneof![0u8..16, any::<u8>()], 0..80)) {
        let _ = Value::decode(&bytes);
        let _ = Value::decode_key(&bytes);
    }

    #[test]
    fn compare_agrees_with_equality_and_is_antisymmetric(a in numbers(), b in numbers(), c in numbers()) {
        let order = a.compare(&b).unwrap();
        prop_assert_eq!(order.is_eq(), a == b);
        prop_assert_eq!(b.compare(&a).unwrap(), order.reverse());
        if order.is_le() && b.compare(&c).unwrap().is_le() {
            prop_assert!(a.compare(&c).unwrap().is_le());
        }
    }
}

#[test]
fn one_is_one_in_every_type() {
    let one = key(&Value::Int(1));
    for same in [
        Value::Uint(1),
        Value::Double(1.0),
        Value::Decimal(Decimal::parse("1.0").unwrap()),
        Value::Decimal(Decimal::parse("1.00").unwrap()),
    ] {
        assert_eq!(key(&same), one, "{same:?}");
    }
    assert_ne!(key(&Value::from("1")), one);
    assert_ne!(key(&Value::Bool(true)), one);
    assert_ne!(key(&Value::Null), one);
}

/// The key form decides partitions and is stored: these bytes must never change.
#[test]
fn the_key_form_is_fixed() {
    for (value, bytes) in [
        (Value::Null, vec![0]),
        (Value::Bool(true), vec![2]),
        (Value::Int(-1), vec![3, 1]),
        (Value::Int(300), vec![3, 0xd8, 4]),
        (Value::Decimal(Decimal::parse("12.30").unwrap()), vec![4, 1, 0xf6, 1]),
        (Value::Double(1e300), vec![5, 0x7e, 0x37, 0xe4, 0x3c, 0x88, 0x00, 0x75, 0x9c]),
        (Value::from("UA"), vec![6, 2, b'U', b'A']),
        (Value::Bytes(Cow::Borrowed(b"x")), vec![7, 1, b'x']),
        (Value::Timestamp(Timestamp::new(1, 5).unwrap()), vec![8, 2, 5]),
        (Value::Duration(Duration::new(1, 5).unwrap()), vec![9, 2, 5]),
        (Value::list(vec![Value::Int(1)]), vec![10, 1, 3, 2]),
        (Value::map(vec![(Value::from("k"), Value::Null)]), vec![11, 1, 6, 1, b'k', 0]),
        (Value::Json(Cow::Borrowed(b"[1 2]")), vec![12, 5, b'[', b'1', b' ', b'2', b']']),
    ] {
        assert_eq!(key(&value), bytes, "{value:?}");
    }
}

/// The binary form is stored too.
#[test]
fn the_binary_form_is_fixed() {
    for (value, bytes) in [
        (Value::Null, vec![0]),
        (Value::Bool(false), vec![1]),
        (Value::Int(-1), vec![3, 1]),
        (Value::Uint(300), vec![4, 0xac, 2]),
        (Value::Decimal(Decimal::parse("12.30").unwrap()), vec![5, 2, 0x9c, 0x13]),
        (Value::Double(1.0), vec![6, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]),
        (Value::from("UA"), vec![7, 2, b'U', b'A']),
        (Value::Bytes(Cow::Borrowed(b"x")), vec![8, 1, b'x']),
        (Value::Timestamp(Timestamp::new(-1, 5).unwrap()), vec![9, 1, 5]),
        (Value::Duration(Duration::new(1, 5).unwrap()), vec![10, 2, 5]),
        (Value::list(vec![Value::Int(1)]), vec![11, 1, 3, 2]),
        (Value::map(vec![(Value::from("k"), Value::Null)]), vec![12, 1, 7, 1, b'k', 0]),
        (Value::Json(Cow::Borrowed(b"[]")), vec![13, 2, b'[', b']']),
    ] {
        let mut out = Vec::new();
        value.encode(&mut out);
        assert_eq!(out, bytes, "{value:?}");
    }
}
