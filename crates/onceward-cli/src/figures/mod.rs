//! Figures of a pipeline as a program reads them, [`Report`], and as people do: tables.

mod report;
mod table;
pub mod text;

pub use report::{Computation, Job, Report, Sink, Source};
pub use table::{Align, Table};

/// How much a table shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What matters at the end of a run.
    Short,
    /// Everything.
    Full,
}

/// Sources.
pub fn sources(sources: &[Source]) -> String {
    let mut table =
        Table::new(&[("sources", Align::Left), ("rows", Align::Right), ("parts done", Align::Right)]);
    for source in sources {
        let parts = format!("{}/{}", source.ended, source.partitions);
        table.row(vec![source.name.clone(), text::grouped(source.rows), parts]);
    }
    table.text()
}

/// Computations that group by a key.
pub fn computations(computations: &[Computation], detail: Detail) -> String {
    let mut header: Vec<(&str, Align)> = vec![("computations", Align::Left)];
    header.extend(["rows in", "rows out", "late", "repeats dropped"].map(|name| (name, Align::Right)));
    if detail == Detail::Full {
        header.extend(["expired", "keys", "ranges", "retired"].map(|name| (name, Align::Right)));
        header.push(("watermark", Align::Left));
    }
    let mut table = Table::new(&header);
    for computation in computations {
        let mut row = vec![computation.name.clone()];
        let numbers = [computation.rows_in, computation.rows_out, computation.late, computation.repeats];
        row.extend(numbers.map(text::grouped));
        if detail == Detail::Full {
            let ranges = [computation.ranges as u64, computation.retired as u64];
            row.extend([computation.expired, computation.keys].map(text::grouped));
            row.extend(ranges.map(text::grouped));
            row.push(computation.watermark.clone().unwrap_or_else(|| "-".to_owned()));
        }
        table.row(row);
    }
    table.text()
}

/// Sinks. Rows that were dropped are always worth a column.
pub fn sinks(sinks: &[Sink], detail: Detail) -> String {
    let drops = detail == Detail::Full || sinks.iter().any(|sink| sink.dropped > 0);
    let mut header = vec![("sinks", Align::Left), ("delivered", Align::Right), ("owed", Align::Right)];
    if drops {
        header.push(("dropped", Align::Right));
    }
    let mut table = Table::new(&header);
    for sink in sinks {
        let mut row = vec![sink.name.clone(), text::grouped(sink.delivered), text::grouped(sink.owed)];
        if drops {
            row.push(text::grouped(sink.dropped));
        }
        table.row(row);
    }
    table.text()
}

/// Jobs, one per partition.
pub fn jobs(jobs: &[Job]) -> String {
    let numbers = ["worker", "rows in", "epoch"].map(|name| (name, Align::Right));
    let mut header = vec![("jobs", Align::Left)];
    header.extend(numbers);
    let mut table = Table::new(&header);
    for job in jobs {
        let worker = job.worker.map_or_else(|| "-".to_owned(), |worker| worker.to_string());
        table.row(vec![job.partition.clone(), worker, text::grouped(job.rows_in), text::grouped(job.epoch)]);
    }
    table.text()
}
