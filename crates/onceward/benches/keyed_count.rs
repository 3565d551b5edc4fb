//! Keyed count end to end: JSON Lines file -> key extraction -> shuffle -> windowed state -> durable
//! epochs of 100 ms, 10^6 keys, records of about 100 bytes.
//!
//! Prints messages per CPU-second of the whole process, and the commit latency beside the latency of
//! bare writes of the same size to a pre-zeroed file, interleaved in the same run. Ratios count here,
//! not absolute times. `ONCEWARD_BENCH_MESSAGES` sets the number of messages (default 12 million).

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has nothing to say")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use onceward::{Prepared, RunEnd, RunOptions, registry, start};
use onceward_store::service::Histogram;

const KEYS: u64 = 1_000_000;
const PERCENTILES: [f64; 2] = [50.0, 99.0];
/// Messages a second of the paced run.
const PACE: u64 = 1_000_000;

fn main() {
    let messages: u64 = std::env::var("ONCEWARD_BENCH_MESSAGES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(12_000_000);
    let dir = tempfile::Builder::new()
        .prefix("onceward-bench")
        .tempdir_in(std::env::current_dir().unwrap())
        .unwrap();
    let bytes = write_input(dir.path(), messages);
    println!("{messages} messages of {} bytes, {KEYS} keys, epochs of 100 ms", bytes / messages);
    println!("\nas fast as it goes:");
    measure(dir.path(), "fast", messages, None);
    println!("\nat {PACE} messages a second:");
    measure(dir.path(), "paced", messages, Some(PACE));
}

/// One run to the end. Throughput is what counts unpaced, commit latency when there is time to breathe.
fn measure(dir: &Path, name: &str, messages: u64, rate: Option<u64>) {
    let pipeline = manifest(dir, name);
    let options =
        RunOptions { data_dir: dir.join(name).join("store"), workers: 2, rate, reset: Default::default() };
    let prepared = Prepared::new(pipeline, &registry(), options).unwrap();
    let probe = Probe::start(&dir.join(name));
    let cpu_before = cpu_seconds();
    let began = Instant::now();
    let mut running = start(prepared).unwrap();
    let mut counted = None;
    let mut peak_keys = 0;
    let mut stats = running.store_stats();
    let mut commits = [0; 2];
    let end = loop {
        if let Some(end) = running.wait(Duration::from_millis(20)) {
            break end;
        }
        let status = running.status();
        peak_keys = peak_keys.max(status.computations[0].keys);
        // Latencies of the counting: the firing of all windows at the end makes far larger epochs.
        if status.computations[0].rows_in < messages {
            let commit = running.commit_latency();
            commits = PERCENTILES.map(|percent| commit.percentile(percent));
            stats = running.store_stats();
            probe.set_size(stats.written_bytes.max(4096) / stats.sync_count.max(1));
        }
        if counted.is_none() && status.computations[0].rows_in == messages {
            counted = Some((cpu_seconds() - cpu_before, began.elapsed().as_secs_f64()));
        }
    };
    let (bare, size) = probe.stop();
    assert_eq!(end.unwrap(), RunEnd::Completed);
    let whole_cpu = cpu_seconds() - cpu_before;
    let (cpu, wall) = counted.unwrap_or((whole_cpu, began.elapsed().as_secs_f64()));
    let millions = |seconds: f64| messages as f64 / seconds / 1e6;
    println!(
        "  {:.2} M messages per CPU-second, {:.2} M/s wall ({cpu:.2} s CPU, {wall:.2} s)",
        millions(cpu),
        millions(wall)
    );
    println!(
        "  {:.2} M messages per CPU-second with {peak_keys} results written to files",
        millions(whole_cpu)
    );
    println!(
        "  {} syncs of {} KiB; inside the store: sync p50 {} us p99 {} us",
        stats.sync_count,
        stats.written_bytes / stats.sync_count.max(1) / 1024,
        stats.sync_p50_us,
        stats.sync_p99_us
    );
    for (percent, commit) in PERCENTILES.into_iter().zip(commits) {
        println!(
            "  p{percent:<3} commit {:>7} us, bare write + fdatasync of {size} bytes {:>7} us, ratio {:.2}",
            commit,
            bare.percentile(percent),
            commit as f64 / bare.percentile(percent).max(1) as f64
        );
    }
}

/// Writes two files, so that two source partitions feed the shuffle.
fn write_input(dir: &Path, messages: u64) -> u64 {
    let mut bytes = 0;
    let mut mix: u64 = 0x9e37_79b9_7f4a_7c15;
    for part in 0..2u64 {
        let mut out =
            BufWriter::with_capacity(1 << 20, File::create(dir.join(format!("in-{part}.jsonl"))).unwrap());
        for number in (part..messages).step_by(2) {
            mix = mix.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (mix >> 24) % KEYS;
            let second = number * 3000 / messages;
            let line = format!(
                "{{\"id\":{number:010},\"user\":\"u{key:07}\",\"at\":\"2026-01-01T00:{:02}:{:02}Z\",\"amount\":{}.25,\"tag\":\"abcdefghijkl\"}}\n",
                second / 60,
                second % 60,
                mix % 1000
            );
            bytes += line.len() as u64;
            out.write_all(line.as_bytes()).unwrap();
        }
        out.flush().unwrap();
    }
    bytes
}

fn manifest(dir: &Path, name: &str) -> onceward_spec::Pipeline {
    std::fs::create_dir(dir.join(name)).unwrap();
    let text = r#"
apiVersion: onceward.dev/v1
kind: Pipeline
metadata: { name: keyed-count }
spec:
  require: exactly_once
  epoch: { interval: 100ms }
  sources:
    events:
      type: file
      config: { path: ../in-*.jsonl, format: jsonl }
      eventTime: { field: at, outOfOrderness: 10s }
  computations:
    by_user:
      inputs: [events]
      groupBy: [user]
      aggregate:
        window: { tumbling: 1h }
        compute: { n: count() }
  sinks:
    counts:
      inputs: [by_user]
      type: file
      config: { path: out, format: jsonl }
"#;
    let input = onceward_spec::ManifestInput {
        text,
        file_name: "keyed_count.yaml",
        base_dir: &dir.join(name),
        sets: &[],
        env: &|_| None,
    };
    onceward_spec::parse(&input, &registry()).unwrap().pipeline
}

/// User and system time of this process, all threads. In Linux's clock ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit_once(')').unwrap().1;
    let field = |index: usize| after.split_whitespace().nth(index).unwrap().parse::<f64>().unwrap();
    (field(11) + field(12)) / 100.0
}

/// Writes blocks of the commits' size to a pre-zeroed file beside the store while the run goes on.
struct Probe {
    size: Arc<std::sync::atomic::AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<(Histogram, u64)>,
}

impl Probe {
    fn start(dir: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let path = dir.join("probe");
        let size = Arc::new(std::sync::atomic::AtomicU64::new(64 << 10));
        let shared = size.clone();
        let thread = std::thread::spawn(move || {
            const LENGTH: u64 = 64 << 20;
            let file = File::create(&path).unwrap();
            let block = vec![0u8; 16 << 20];
            for offset in (0..LENGTH).step_by(block.len()) {
                file.write_all_at(&block, offset).unwrap();
            }
            file.sync_all().unwrap();
            let histogram = Histogram::default();
            let mut offset = 0;
            let mut size = 0;
            while !until.load(Ordering::Relaxed) {
                size = shared.load(Ordering::Relaxed).min(block.len() as u64).next_multiple_of(4096);
                if offset + size > LENGTH {
                    offset = 0;
                }
                let began = Instant::now();
                file.write_all_at(&block[..size as usize], offset).unwrap();
                file.sync_data().unwrap();
                histogram.record(began.elapsed().as_micros() as u64);
                offset += size;
                std::thread::sleep(Duration::from_millis(50));
            }
            (histogram, size)
        });
        Probe { size, stop, thread }
    }
    fn set_size(&self, bytes: u64) {
        self.size.store(bytes, Ordering::Relaxed);
    }
    fn stop(self) -> (Histogram, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
