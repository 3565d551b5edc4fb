//! The generator as a source: what it gives, and that it never gives anything else.

use onceward_connector::{ConfigValue, contract};

use super::*;

fn config(values: &[(&str, ConfigValue)]) -> Config {
    let mut config = Config::default();
    values.iter().for_each(|(name, value)| config.set(name, value.clone()));
    config
}
fn integer(value: i64) -> ConfigValue {
    ConfigValue::Integer(value)
}
fn text(value: &str) -> ConfigValue {
    ConfigValue::String(value.into())
}
fn source(values: &[(&str, ConfigValue)]) -> Generator {
    Generator::new(&config(values)).expect("a good config")
}

const ALL: ReadLimits = ReadLimits { rows: usize::MAX, bytes: usize::MAX };

/// The first rows after a place.
fn rows_after(source: &Generator, partition: &str, after: u64, count: usize) -> Vec<String> {
    let token = make_token(source.rows.digest(), after);
    let mut reader = source.open(partition, Position::at(after), &token).expect("opens");
    let mut rows = Vec::new();
    while rows.len() < count {
        let Read::Batch { batch, .. } = reader.read(ALL).expect("reads") else { break };
        let texts = batch.records().iter().map(|record| String::from_utf8(batch.payload(record).to_vec()));
        rows.extend(texts.map(|text| text.expect("UTF-8")));
    }
    rows.truncate(count);
    rows
}

#[test]
fn bounded_and_padded_and_skewed_generators_pass_the_source_contract() {
    for values in [
        vec![("rows", integer(100)), ("partitions", integer(3))],
        vec![("rows", integer(2)), ("partitions", integer(4))],
        vec![("rows", integer(50)), ("size", ConfigValue::Size(300))],
        vec![("rows", integer(200)), ("distribution", text("zipf")), ("exponent", text("1.1"))],
    ] {
        contract::source(&source(&values)).unwrap_or_else(|why| panic!("{values:?}: {why}"));
    }
}

/// Rows must stay what they are for ever: a pipeline may go on in the middle with a later version.
#[test]
fn rows_are_these_and_no_others() {
    let uniform = source(&[("seed", integer(7)), ("keys", integer(10))]);
    assert_eq!(rows_after(&uniform, "0", 0, 3), UNIFORM);
    let zipf = source(&[
        ("distribution", text("zipf")),
        ("exponent", text("1.2")),
        ("size", ConfigValue::Size(120)),
        ("start", text("1999-12-31T23:59:59.999Z")),
        ("step", ConfigValue::Duration(86_400_000_000)),
        ("partitions", integer(2)),
    ]);
    assert_eq!(rows_after(&zipf, "1", 59, 2), ZIPF);
    let many = rows_after(&zipf, "1", 0, 50_000).concat();
    assert_eq!(xxhash_rust::xxh3::xxh3_64(many.as_bytes()), MANY);
}

const UNIFORM: [&str; 3] = [
    r#"{"id":"0-1","key":"k9","time":"2024-01-01T00:00:00.000000Z","value":265652}"#,
    r#"{"id":"0-2","key":"k7","time":"2024-01-01T00:00:00.001000Z","value":268681}"#,
    r#"{"id":"0-3","key":"k9","time":"2024-01-01T00:00:00.002000Z","value":634564}"#,
];
const ZIPF: [&str; 2] = [
    r#"{"id":"1-60","key":"k29","time":"2000-02-28T23:59:59.999000Z","value":857362,"pad":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#,
    r#"{"id":"1-61","key":"k0","time":"2000-02-29T23:59:59.999000Z","value":461967,"pad":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#,
];
const MANY: u64 = 12_636_257_424_245_786_188;

#[test]
fn rows_are_json_with_the_size_that_was_asked_for() {
    for size in [200, 1000] {
        let padded = source(&[("rows", integer(30)), ("size", ConfigValue::Size(size))]);
        assert!(rows_after(&padded, "0", 0, 30).iter().all(|row| row.len() as u64 == size));
    }
    for source in [source(&[]), source(&[("size", ConfigValue::Size(1))])] {
        for row in rows_after(&source, "0", 999_999, 100) {
            let value: serde_json::Value = serde_json::from_str(&row).expect("JSON");
            assert!(value["value"].as_u64().is_some_and(|value| value < 1_000_000));
            assert!(row.len() < 120, "{row}");
        }
    }
}

#[test]
fn a_place_far_away_is_reached_at_once_and_gives_what_reading_up_to_it_gives() {
    let source = source(&[("partitions", integer(2)), ("seed", integer(-1))]);
    let all = rows_after(&source, "1", 0, 40_000);
    for after in [1, 16_383, 16_384, 39_000] {
        assert_eq!(rows_after(&source, "1", after, 500), all[after as usize..after as usize + 500]);
    }
    let far = rows_after(&source, "1", u64::MAX - 100_000, 1);
    assert!(
        far[0].contains("\"1-18446744073709451616\"") && far[0].contains("\"9999-12-31T23:59:59.999999Z\""),
        "{far:?}"
    );
}

#[test]
fn partitions_and_seeds_differ_and_keys_follow_their_distribution() {
    let keys = |source: &Generator, partition: &str| -> Vec<String> {
        let rows = rows_after(source, partition, 0, 20_000);
        rows.iter().map(|row| row.split('"').nth(7).expect("the key").to_owned()).collect()
    };
    let two = [("partitions", integer(2)), ("keys", integer(10))];
    let uniform = source(&two);
    let first = keys(&uniform, "0");
    assert_ne!(first, keys(&uniform, "1"));
    assert_ne!(first, keys(&source(&[two[0].clone(), two[1].clone(), ("seed", integer(1))]), "0"));
    for key in 0..10 {
        let count = first.iter().filter(|found| **found == format!("k{key}")).count();
        assert!((1800..2200).contains(&count), "k{key}: {count} of 20000");
    }
    let zipf = keys(&source(&[("keys", integer(10)), ("distribution", text("zipf"))]), "0");
    let share = |key: &str| zipf.iter().filter(|found| *found == key).count() as f64 / 20_000.0;
    // 1 / (1 + 1/2 + ... + 1/10) is 0.3414.
    assert!((share("k0") - 0.3414).abs() < 0.02 && (share("k9") - 0.0341).abs() < 0.01);
}

#[test]
fn a_rate_only_decides_when_rows_come() {
    let fast = source(&[("rows", integer(40))]);
    let paced = source(&[("rows", integer(40)), ("rate", integer(1_000_000))]);
    let mut reader = paced.open("0", Position::ORIGIN, &[]).expect("opens");
    let mut rows = Vec::new();
    loop {
        match reader.read(ReadLimits { rows: 7, bytes: usize::MAX }).expect("reads") {
            Read::Batch { batch, .. } => rows.extend(
                batch
                    .records()
                    .iter()
                    .map(|record| String::from_utf8(batch.payload(record).to_vec()).expect("UTF-8")),
            ),
            Read::Idle => std::thread::yield_now(),
            Read::End => break,
        }
    }
    assert_eq!(rows, rows_after(&fast, "0", 0, 40));
}

#[test]
fn no_more_rows_come_than_the_rate_allows() {
    let mut reader = source(&[("rate", integer(5))]).reader("0", Position::ORIGIN, &[]).expect("opens");
    let (opened, pace) = reader.pace.as_mut().expect("a rate");
    // A clock that stands still, after a second that nobody used.
    *opened = Instant::now() + std::time::Duration::from_secs(86_400);
    assert_eq!(pace.allowed(1_000_000, 0), 0);
    let Read::Batch { batch, .. } = reader.read(ALL).expect("reads") else { panic!("rows") };
    assert_eq!(batch.records().len(), 5);
    assert!(matches!(reader.read(ALL), Ok(Read::Idle)));
}

#[test]
fn an_endless_source_gives_batches_of_bounded_size() {
    let endless = source(&[("size", ConfigValue::Size(100_000))]);
    assert!(!endless.facts().bounded && endless.facts().replayable);
    let mut reader = endless.open("0", Position::ORIGIN, &[]).expect("opens");
    let Read::Batch { batch, .. } = reader.read(ALL).expect("reads") else { panic!("rows") };
    assert_eq!(batch.records().len(), 10, "of 100000 bytes within a mebibyte");
}

#[test]
fn rows_are_spread_evenly_and_progress_is_known() {
    let source = source(&[("rows", integer(10)), ("partitions", integer(4))]);
    let sizes: Vec<_> = source.partitions().expect("names").iter().map(|name| source.size(name)).collect();
    assert_eq!(sizes, [Some(3), Some(3), Some(2), Some(2)]);
    let mut reader = source.open("0", Position::ORIGIN, &[]).expect("opens");
    let Read::Batch { token, .. } = reader.read(ReadLimits { rows: 2, bytes: 1000 }).expect("reads") else {
        panic!("rows")
    };
    assert_eq!(source.progress(&token), Some(2));
}

#[test]
fn a_place_made_with_another_config_is_refused() {
    let base = [("rows", integer(10))];
    let token = make_token(source(&base).rows.digest(), 5);
    for (name, value) in [
        ("seed", integer(1)),
        ("keys", integer(9)),
        ("distribution", text("zipf")),
        ("size", ConfigValue::Size(10)),
        ("start", text("2024-01-01T00:00:01Z")),
        ("step", ConfigValue::Duration(1)),
    ] {
        let other = source(&[base[0].clone(), (name, value)]);
        let error =
            other.open("0", Position::at(5), &token).err().unwrap_or_else(|| panic!("{name}: opened"));
        assert_eq!(error.code, "OW-3032", "{name}");
    }
    let more = source(&[("rows", integer(20)), ("rate", integer(5))]);
    assert!(more.open("0", Position::at(5), &token).is_ok(), "neither changes the rows");
    for partition in ["1", "00", "x", "-1"] {
        let error = source(&base).open(partition, Position::ORIGIN, &[]).err().expect("refused");
        assert_eq!(error.code, "OW-3031", "{partition}");
    }
}

#[test]
fn a_config_that_makes_no_sense_is_refused_at_its_key() {
    for (values, key) in [
        (vec![("exponent", text("1"))], "exponent"),
        (vec![("distribution", text("zipf")), ("exponent", text("0"))], "exponent"),
        (vec![("distribution", text("zipf")), ("exponent", text("NaN"))], "exponent"),
        (vec![("distribution", text("zipf")), ("keys", integer(1_000_001))], "keys"),
        (vec![("keys", integer(0))], "keys"),
        (vec![("partitions", integer(0))], "partitions"),
        (vec![("size", ConfigValue::Size(MAX_SIZE + 1))], "size"),
        (vec![("start", text("yesterday"))], "start"),
    ] {
        let error = Generator::new(&config(&values)).err().unwrap_or_else(|| panic!("{values:?}: taken"));
        assert_eq!((error.code, error.key), ("OW-3030", Some(key)), "{error}");
    }
}

/// Not a test: `cargo test --release -p onceward-files generator_speed -- --ignored --nocapture`.
#[test]
#[ignore = "prints a figure"]
fn generator_speed() {
    for values in [vec![], vec![("distribution", text("zipf"))], vec![("size", ConfigValue::Size(256))]] {
        let source = source(&values);
        let mut reader = source.open("0", Position::ORIGIN, &[]).expect("opens");
        let (started, mut rows) = (Instant::now(), 0);
        while rows < 20_000_000 {
            let limits = ReadLimits { rows: 4096, bytes: 1 << 20 };
            let Read::Batch { batch, .. } = reader.read(limits).expect("reads") else { break };
            rows += batch.records().len();
        }
        println!("{values:?}: {:.1} million rows/s", rows as f64 / started.elapsed().as_secs_f64() / 1e6);
    }
}
