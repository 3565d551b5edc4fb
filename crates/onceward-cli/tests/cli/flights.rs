//! The flights example: a year of real data against numbers that were computed without Onceward.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{finish, onceward};
use crate::project::rows;

/// Means are written with nine digits behind the point.
const MEAN_SCALE: i128 = 1_000_000_000;

/// Carrier and window start to flights, sum of delays, worst delay.
type Windows = BTreeMap<(String, String), (i128, i128, i128)>;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flights").canonicalize().expect("the example")
}

fn expected_windows() -> Windows {
    let bytes = std::fs::read(example().join("expected-windows.csv.zst")).expect("read");
    let text = String::from_utf8(zstd::decode_all(&bytes[..]).expect("zstd")).expect("UTF-8");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("carrier,window_start,flights,sum_delay,worst"));
    let window = |line: &str| {
        let [carrier, start, flights, sum, worst] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let number = |text: &str| text.parse().expect("an integer");
        ((carrier.to_owned(), start.to_owned()), (number(flights), number(sum), number(worst)))
    };
    lines.map(window).collect()
}

/// A decimal text as a multiple of 1e-9, exactly.
fn scaled(text: &str) -> i128 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    assert!(fraction.len() <= 9, "{text}");
    format!("{whole}{fraction:0<9}").parse().expect("a decimal")
}

#[test]
fn every_window_is_there_once_with_its_exact_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = example().join("flights.yaml");
    let out = folder.path().join("out");
    let set = format!("spec.sinks.hourly.config.path={}", out.display());
    let args = ["run", manifest.to_str().expect("UTF-8"), "--set", &set, "--data-dir", "state"];
    let ended = finish(onceward(folder.path(), &args)).expect(0);

    let text = std::fs::read_to_string(example().join("expected.json")).expect("read");
    let totals: Value = serde_json::from_str(&text).expect("JSON");
    let total = |name: &str| totals[name].as_i64().expect(name).to_string();
    let plain = |text: &String| text.replace(',', "");
    assert_eq!(plain(&ended.row("sources", "flights")[0]), total("input_rows"));
    let computed: Vec<String> = ended.row("computations", "by_carrier").iter().map(plain).collect();
    assert_eq!(computed[..3], [total("rows_after_filter"), total("output_rows"), "0".to_owned()]);
    let delivered: Vec<String> = ended.row("sinks", "hourly").iter().map(plain).collect();
    assert_eq!(delivered, [total("output_rows"), "0".to_owned()]);

    let mut expected = expected_windows();
    let mut flights_in_all = 0;
    for line in rows(&out, 0) {
        let row: Value = serde_json::from_str(&line).expect("JSON");
        let text = |name: &str| row[name].as_str().expect(name).to_owned();
        // Numbers keep their text (`arbitrary_precision`), so that a mean is compared exactly.
        let number = |name: &str| row[name].as_number().expect(name).to_string();
        let window = (text("carrier"), text("window_start"));
        let (flights, sum, worst) =
            expected.remove(&window).unwrap_or_else(|| panic!("unexpected or twice: {line}"));
        assert_eq!((number("flights"), number("worst")), (flights.to_string(), worst.to_string()), "{line}");
        // Rounded at the ninth digit: at most half a unit off.
        let off = scaled(&number("mean_delay")) * flights - sum * MEAN_SCALE;
        assert!(2 * off.abs() <= flights, "{line}: expected {sum} / {flights}");
        flights_in_all += flights;
    }
    assert_eq!(expected.len(), 0, "missing: {expected:?}");
    assert_eq!(flights_in_all.to_string(), total("flights"));
}
