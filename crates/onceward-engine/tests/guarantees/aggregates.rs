//! Aggregates are exact, and say which key and column they cannot hold.

use onceward_spec::AggregateFunction::{self, Avg, Count, Max, Min, Sum};
use proptest::prelude::*;

use crate::manifest::{Compute, Manifest};
use crate::world::World;

fn world(compute: Compute<'_>, rows: &[String]) -> World {
    let manifest = Manifest::new()
        .source("rows", 1, Some(0))
        .windows("sums", &["rows"], &["k"], compute)
        .sink("out", &["sums"]);
    let mut world = World::new(&manifest);
    world.read_rows = 7;
    world.add(0, rows);
    world.start_all();
    world.run();
    world
}

/// A row with this member besides key and time.
fn with(member: &str) -> String {
    let comma = if member.is_empty() { "" } else { "," };
    format!(r#"{{"k":"a","t":"1970-01-01T00:00:01Z"{comma}{member}}}"#)
}

/// The computed part of the only output row.
fn computed(compute: Compute<'_>, rows: &[String]) -> String {
    let world = world(compute, rows);
    let out = world.rows(0);
    assert_eq!(out.len(), 1, "{:?}", world.end(1));
    let (_, computed) = out[0].split_once(r#""window_end":"1970-01-01T00:01:00Z","#).unwrap();
    computed.trim_end_matches('}').to_owned()
}

/// One function over values of `v`.
fn over<V: std::fmt::Display>(function: AggregateFunction, values: impl IntoIterator<Item = V>) -> String {
    let rows: Vec<String> = values.into_iter().map(|value| with(&format!(r#""v":{value}"#))).collect();
    computed(&[("x", function, Some("v"))], &rows).trim_start_matches("\"x\":").to_owned()
}

#[test]
fn a_tenth_summed_ten_times_is_one() {
    assert_eq!(over(Sum, ["0.1"; 10]), "1.0");
    assert_eq!(over(Sum, ["0.1", "0.2"]), "0.3");
    assert_eq!(over(Sum, ["1e2", "0.25", "-100"]), "0.25");
}

#[test]
fn whole_numbers_beyond_two_to_the_53_stay_exact() {
    assert_eq!(over(Sum, ["9007199254740993", "2"]), "9007199254740995");
    assert_eq!(over(Sum, [i64::MAX, i64::MAX]), "18446744073709551614");
    assert_eq!(over(Max, ["9007199254740992", "9007199254740993"]), "9007199254740993");
    assert_eq!(over(Min, ["-9007199254740992", "-9007199254740993"]), "-9007199254740993");
}

#[test]
fn an_average_has_nine_more_digits_than_its_input_and_no_zeros_at_the_end() {
    assert_eq!(over(Avg, [1, 0, 0]), "0.333333333");
    assert_eq!(over(Avg, [2, 0, 0]), "0.666666667");
    assert_eq!(over(Avg, ["0.1", "0", "0"]), "0.0333333333");
    assert_eq!(over(Avg, [1, 2]), "1.5");
    assert_eq!(over(Avg, [2, 4]), "3");
    assert_eq!(over(Avg, ["1.00", "3.00"]), "2");
}

#[test]
fn an_average_rounds_halves_to_even() {
    let of = |sum: i64| over(Avg, std::iter::once(sum).chain(std::iter::repeat_n(0, 1023)));
    // 0.0009765625, 0.0029296875, 0.0048828125: each lies half way.
    assert_eq!(of(1), "0.000976562");
    assert_eq!(of(3), "0.002929688");
    assert_eq!(of(5), "0.004882812");
    assert_eq!(of(-1), "-0.000976562");
    assert_eq!(of(-3), "-0.002929688");
}

#[test]
fn texts_and_times_have_a_smallest_and_a_largest() {
    assert_eq!(over(Min, [r#""b""#, r#""a""#, r#""é""#]), r#""a""#);
    assert_eq!(over(Max, [r#""b""#, r#""a""#, r#""é""#]), r#""é""#);
    assert_eq!(over(Max, [r#""10""#, r#""9""#]), r#""9""#);
    let rows =
        ["2024-01-01T00:00:00+01:00", "2023-12-31T23:30:00Z"].map(|time| with(&format!(r#""v":"{time}""#)));
    let compute: Compute<'_> = &[("min", Min, Some("timestamp(v)")), ("max", Max, Some("timestamp(v)"))];
    assert_eq!(computed(compute, &rows), r#""min":"2023-12-31T23:00:00Z","max":"2023-12-31T23:30:00Z""#);
    assert_eq!(over(Max, ["1.5", "2", "1.75"]), "2");
    assert_eq!(over(Min, ["true", "false"]), "false");
}

#[test]
fn equal_numbers_written_differently_give_the_same_extreme_in_any_order() {
    for function in [Min, Max] {
        for pair in [["1", "1.0"], ["1.0", "1.00"], ["-2.50", "-2.5"]] {
            let reversed = [pair[1], pair[0]];
            assert_eq!(over(function, pair), over(function, reversed), "{function:?} of {pair:?}");
        }
    }
}

#[test]
fn absent_and_null_arguments_are_not_counted_summed_or_compared() {
    let all: Compute<'_> = &[
        ("rows", Count, None),
        ("n", Count, Some("v")),
        ("sum", Sum, Some("v")),
        ("min", Min, Some("v")),
        ("max", Max, Some("v")),
        ("avg", Avg, Some("v")),
    ];
    let rows = [with(""), with(r#""v":null"#), with(r#""v":4"#), with(r#""v":2"#)];
    assert_eq!(computed(all, &rows), r#""rows":4,"n":2,"sum":6,"min":2,"max":4,"avg":3"#);
    assert_eq!(computed(all, &rows[..2]), r#""rows":2,"n":0,"sum":null,"min":null,"max":null,"avg":null"#);
}

#[test]
fn an_argument_is_an_expression_over_the_row() {
    let rows = [with(r#""v":3,"w":0.5"#), with(r#""v":4,"w":2"#)];
    let compute: Compute<'_> = &[("x", Sum, Some("v * w")), ("n", Count, Some("w"))];
    assert_eq!(computed(compute, &rows), r#""x":9.5,"n":2"#);
}

#[test]
fn a_sum_beyond_38_digits_fails_and_names_computation_key_and_column() {
    let nines = "9".repeat(38);
    assert_eq!(over(Sum, [&nines]), nines);
    let rows = [with(&format!(r#""v":{nines}"#)), with(&format!(r#""v":{nines}"#))];
    let world = world(&[("n", Count, None), ("total", Sum, Some("v"))], &rows);
    let failure = world.failure(1);
    assert!(failure.starts_with(r#"OW-4007: computation sums, key {"k":"a"}, total: "#), "{failure}");
    assert!(failure.contains("38 digits"), "{failure}");
    assert_eq!(world.rows(0), Vec::<String>::new());
}

#[test]
fn a_value_that_cannot_be_summed_or_compared_fails_and_names_the_column() {
    for (function, rows) in [
        (Sum, vec![with(r#""v":"7""#)]),
        (Avg, vec![with(r#""v":true"#)]),
        (Min, vec![with(r#""v":1"#), with(r#""v":"x""#)]),
        (Max, vec![with(r#""v":[1]"#)]),
    ] {
        let world = world(&[("x", function, Some("v"))], &rows);
        let failure = world.failure(1);
        assert!(failure.starts_with(r#"OW-4007: computation sums, key {"k":"a"}, x: "#), "{failure}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn sums_counts_and_extremes_are_those_of_exact_arithmetic(
        values in prop::collection::vec(any::<i64>(), 1..60),
    ) {
        let rows: Vec<String> = values.iter().map(|value| with(&format!(r#""v":{value}"#))).collect();
        let compute: Compute<'_> =
            &[("n", Count, None), ("s", Sum, Some("v")), ("a", Min, Some("v")), ("z", Max, Some("v"))];
        let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
        let (min, max) = (values.iter().min().unwrap(), values.iter().max().unwrap());
        prop_assert_eq!(
            computed(compute, &rows),
            format!(r#""n":{},"s":{sum},"a":{min},"z":{max}"#, values.len())
        );
    }

    #[test]
    fn a_sum_of_cents_keeps_every_cent(cents in prop::collection::vec(-1_000_000_000i64..1_000_000_000, 1..60)) {
        let total: i64 = cents.iter().sum();
        let text = |cents: i64| format!("{}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100);
        prop_assert_eq!(over(Sum, cents.iter().map(|cents| text(*cents))), text(total));
    }
}
