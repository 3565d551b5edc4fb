//! One seed, from its input to the oracle's verdict.

use std::sync::Arc;

use onceward_connector::{BlockPolicy, Codec, Config, Registry, SinkContract};
use onceward_engine::entropy::Nonces;
use onceward_engine::layout::LayoutSource;
use onceward_engine::plan::SinkBehaviour;
use onceward_engine::{Layout, Plan};
use onceward_protocol::{Creation, Mutants};
use onceward_spec::{
    AggregateFunction, AggregateSpec, ComputationSpec, DedupMode, DedupSpec, EpochLimits, EventTimeSpec,
    Expression, KeyedSpec, OperatorSpec, Pipeline, Place, ProcessingMode, SinkSpec, SourceSpec, StepSpec,
    WindowsSpec,
};

use crate::coverage::Coverage;
use crate::data::{DISORDER_US, FILTERED, Input, TOTAL_US, WINDOW_US};
use crate::oracle;
use crate::world::World;

/// How large a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Messages in the input.
    pub messages: usize,
    /// Power losses to arrange; a few more come on top, while the store is being opened.
    pub crashes: u64,
    /// Broken rules.
    pub mutants: Mutants,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { messages: 10_000, crashes: 30, mutants: Mutants::NONE }
    }
}

/// What a seed showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it reached.
    pub coverage: Coverage,
    /// A hash over everything that happened, in order.
    pub trace: u64,
}

/// A seed that broke a guarantee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// What the run had reached.
    pub coverage: Coverage,
}

fn expression(text: &str) -> Expression {
    Expression { text: text.to_owned(), place: Place::default() }
}

fn windows(
    name: &str,
    input: &str,
    key: &str,
    window_us: i64,
    partitions: u32,
    compute: Vec<(&str, AggregateFunction, Option<&str>)>,
) -> ComputationSpec {
    let call = |(name, function, argument): (&str, AggregateFunction, Option<&str>)| {
        (name.to_owned(), AggregateSpec { function, argument: argument.map(expression) })
    };
    let compute = compute.into_iter().map(call).collect();
    ComputationSpec {
        name: name.to_owned(),
        inputs: vec![input.to_owned()],
        steps: Vec::new(),
        keyed: Some(KeyedSpec {
            group_by: vec![key.to_owned()],
            partitions,
            min_partitions: partitions,
            max_partitions: partitions,
            operator: OperatorSpec::Windows(WindowsSpec {
                window_us,
                allowed_lateness_us: 0,
                compute,
                late: None,
            }),
            dedup: DedupSpec { mode: DedupMode::Frontier, by: Vec::new(), keep_us: 0 },
            processing_mode: ProcessingMode::ExactlyOnce,
        }),
        place: Place::default(),
    }
}

fn pipeline(partitions: u32) -> Pipeline {
    let sink = |name: &str, input: &str| SinkSpec {
        name: name.to_owned(),
        inputs: vec![input.to_owned()],
        connector: "simulated".to_owned(),
        config: Config::default(),
        delivery: None,
        at_most_once: None,
        place: Place::default(),
    };
    Pipeline {
        name: "simulated".to_owned(),
        base_dir: std::path::PathBuf::new(),
        require: None,
        epoch: EpochLimits { interval_us: 5_000, max_rows: 2_000, max_bytes: 1 << 20 },
        shutdown_timeout_us: 0,
        replicas: None,
        replay_check: 50,
        sources: vec![SourceSpec {
            name: "rows".to_owned(),
            connector: "simulated".to_owned(),
            config: Config::default(),
            event_time: Some(EventTimeSpec {
                field: "t".to_owned(),
                out_of_orderness_us: DISORDER_US,
                idle_after_us: None,
            }),
            materialise: false,
            place: Place::default(),
        }],
        computations: vec![
            ComputationSpec {
                name: "kept".to_owned(),
                inputs: vec!["rows".to_owned()],
                steps: vec![StepSpec::Filter(expression(&format!("v % {FILTERED} != 0")))],
                keyed: None,
                place: Place::default(),
            },
            windows(
                "sums",
                "kept",
                "k",
                WINDOW_US,
                partitions,
                vec![
                    ("n", AggregateFunction::Count, None),
                    ("sum", AggregateFunction::Sum, Some("v")),
                    ("max", AggregateFunction::Max, Some("v")),
                ],
            ),
            // Keys that have nothing to do with those before: every range sends to every range.
            windows(
                "totals",
                "sums",
                "n",
                TOTAL_US,
                2,
                vec![
                    ("keys", AggregateFunction::Count, None),
                    ("total", AggregateFunction::Sum, Some("sum")),
                ],
            ),
        ],
        sinks: vec![sink("all", "kept"), sink("windows", "sums"), sink("totals", "totals")],
    }
}

/// Runs one seed.
pub fn run_seed(seed: u64, settings: Settings) -> Result<Report, Box<Violation>> {
    let fail =
        |what: String, coverage: &Coverage| Box::new(Violation { seed, what, coverage: coverage.clone() });
    let mut random = Nonces::new(seed);
    let sources = 2 + (random.next_u64() % 3) as usize;
    // To many lanes rows are not sent with every read.
    let many = random.next_u64().is_multiple_of(8);
    let ranges = if many { 20 } else { 1 + (random.next_u64() % 3) as u32 };
    let keys = 5 + random.next_u64() % 60;
    let input = Arc::new(Input::generate(&mut random, sources, settings.messages, keys));
    let policy = BlockPolicy {
        max_rows: 20 + (random.next_u64() % 400) as usize,
        max_bytes: 1 << 20,
        max_age_us: 1_000 + (random.next_u64() % 40_000) as i64,
    };
    let by_reference = random.next_u64().is_multiple_of(2);
    let contract = SinkContract::ProgressInTarget;
    let behaviour = SinkBehaviour { contract, policy, reads_fields: false, by_reference };
    let plan = Plan::compile(pipeline(ranges), &[Codec::Json], &[behaviour; 3], &Registry::default())
        .map_err(|error| fail(error.to_string(), &Coverage::default()))?;
    let rows = LayoutSource {
        name: "rows".to_owned(),
        creation: Creation(random.next_u128()),
        partitions: (0..sources).map(|partition| partition.to_string()).collect(),
        first: 0,
    };
    let creation = Creation(random.next_u128());
    let layout = Layout::new(
        creation,
        "simulated".to_owned(),
        String::new(),
        vec![rows],
        [("sums", ranges), ("totals", 2)],
    );
    let mut world =
        World::new(seed, input.clone(), Arc::new(plan), layout, settings.crashes, settings.mutants);
    let result = world.run();
    world.coverage.seeds = 1;
    world.coverage.messages = input.partitions.iter().map(|rows| rows.len() as u64).sum();
    world.coverage.refused_calls = world.target.fenced;
    let verdict = result.and_then(|()| oracle::check(&input, &world.target, true));
    match verdict {
        Ok(()) => Ok(Report { trace: world.trace, coverage: world.coverage }),
        Err(what) => Err(fail(what, &world.coverage)),
    }
}
