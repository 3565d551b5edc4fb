//! The contract suite on every format and compression, and what readers of the folder see.

use onceward_connector::contract::{ProgressTarget, progress_writer};
use onceward_connector::{Sink, SinkConnector, Writer};

use super::*;
use crate::sink::FileSinkConnector;

struct Target {
    folder: PathBuf,
    sink: Arc<dyn Sink>,
}

impl ProgressTarget for Target {
    fn writer(&self) -> Result<Box<dyn ProgressWriter>, String> {
        match self.sink.writer(&identity(1)).map_err(|error| error.to_string())? {
            Writer::Progress(writer) => Ok(writer),
            _ => Err("no progress writer".into()),
        }
    }
    fn visible(&self) -> Result<Vec<String>, String> {
        let rows = rows(&self.folder).into_iter();
        // CSV tables have one column, `id`, and a header line.
        Ok(rows
            .filter(|row| row != "id")
            .map(|row| if row.starts_with('{') { row } else { format!("{{\"id\":{row}}}") })
            .collect())
    }
}

#[test]
fn every_format_and_compression_passes_the_progress_contract() {
    for format in ["jsonl", "csv"] {
        for compression in ["none", "gzip", "zstd"] {
            let dir = tempfile::tempdir().expect("temp dir");
            let folder = dir.path().join("made/by/us");
            let shape = StreamShape { columns: Some(vec!["id".into()]) };
            let config = config(&folder, format, &[("compression", text(compression))]);
            let sink = FileSinkConnector.build(&config, &shape).expect("a good config");
            progress_writer(&Target { folder, sink })
                .unwrap_or_else(|violation| panic!("{format}, {compression}: {violation}"));
        }
    }
}

#[test]
fn tables_are_numbered_without_gaps_in_arrival_order_and_nothing_else_is_visible() {
    let dir = tempfile::tempdir().expect("temp dir");
    job(&mut writer_on(dir.path(), Arc::new(LocalStorage)), 0xA).expect("writes");
    let names: Vec<String> = tables(dir.path())
        .iter()
        .map(|path| path.file_name().expect("a name").to_string_lossy().into())
        .collect();
    assert_eq!(
        names,
        [
            "by_carrier-0003-00000001.jsonl",
            "by_carrier-0003-00000002.jsonl",
            "by_carrier-0003-00000003.jsonl"
        ]
    );
    assert_eq!(rows(dir.path()), all_rows());
    assert_eq!(staged(dir.path()), Vec::<String>::new(), "nothing is left behind");
}

#[test]
fn two_partitions_and_two_sinks_share_a_folder_without_touching_each_other() {
    let dir = tempfile::tempdir().expect("temp dir");
    let sink =
        FileSink::new(&config(dir.path(), "jsonl", &[]), &StreamShape::default(), Arc::new(LocalStorage));
    let sink = sink.expect("a good config");
    let kind = PartitionKind::Range { computation: "by_origin".into(), layout: 1, index: 0 };
    let mut other = identity(1);
    other.partition = PartitionId::new(Creation(1), kind);
    other.partition_slug = "by_origin-0000".into();
    let mut third = other.clone();
    third.sink = "daily".into();
    third.partition_slug = "by_origin-daily".into();
    for identity in [identity(1), other, third] {
        job(&mut sink.file_writer(&identity).expect("a writer"), 0xA).expect("writes");
    }
    assert_eq!(rows(dir.path()).len() as u64, 3 * ROWS);
}

#[test]
fn the_fingerprint_is_the_place_itself_whatever_way_leads_there() {
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::create_dir(dir.path().join("real")).expect("folder");
    std::os::unix::fs::symlink(dir.path().join("real"), dir.path().join("link")).expect("link");
    let fingerprint = |path: &str| {
        let config = config(&dir.path().join(path), "jsonl", &[]);
        FileSinkConnector.build(&config, &StreamShape::default()).expect("a good config").fingerprint()
    };
    let before = fingerprint("link/out");
    assert_eq!(before, fingerprint("real/./out"));
    assert_eq!(before, fingerprint("real/none/../out"));
    assert_ne!(before, fingerprint("real/out2"));
    std::fs::create_dir(dir.path().join("real/out")).expect("folder");
    assert_eq!(before, fingerprint("link/out"), "making the folder changes nothing");
}
