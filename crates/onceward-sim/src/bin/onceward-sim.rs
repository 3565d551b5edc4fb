//! `onceward-sim --seeds N [--from S] [--messages M] [--crashes C] [--mutant NAME]`: runs seeds and
//! says what they reached; `cargo xtask sim` is the usual way to it.

use std::process::ExitCode;

use onceward_protocol::{Mutant, Mutants};
use onceward_sim::{Coverage, Settings, run_seed};

struct Arguments {
    seeds: u64,
    from: u64,
    settings: Settings,
    mutant: Option<Mutant>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments { seeds: 100, from: 0, settings: Settings::default(), mutant: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} needs a number, found {value:?}"));
        match word.as_str() {
            "--seeds" => parsed.seeds = number()?,
            "--from" => parsed.from = number()?,
            "--messages" => parsed.settings.messages = number()? as usize,
            "--crashes" => parsed.settings.crashes = number()?,
            "--mutant" => {
                let names: Vec<_> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
                let mutant = Mutant::ALL.into_iter().find(|mutant| mutant.name() == value);
                let mutant = mutant
                    .ok_or_else(|| format!("unknown mutant {value:?}; there are {}", names.join(", ")))?;
                parsed.mutant = Some(mutant);
                parsed.settings.mutants = Mutants::only(mutant);
            }
            _ => {
                return Err(format!(
                    "unknown option {word}; there are --seeds --from --messages --crashes --mutant"
                ));
            }
        }
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    let parsed = match arguments() {
        Ok(parsed) => parsed,
        Err(message) => {
            eprintln!("onceward-sim: {message}");
            return ExitCode::from(2);
        }
    };
    let mut coverage = Coverage::default();
    for seed in parsed.from..parsed.from + parsed.seeds {
        match run_seed(seed, parsed.settings) {
            Ok(report) => coverage.add(&report.coverage),
            Err(violation) => {
                println!("seed {seed} broke a guarantee: {}", violation.what);
                let mutant =
                    parsed.mutant.map_or(String::new(), |mutant| format!(" --mutant {}", mutant.name()));
                println!(
                    "replay: cargo xtask sim --seeds 1 --from {seed} --messages {} --crashes {}{mutant}",
                    parsed.settings.messages, parsed.settings.crashes
                );
                return ExitCode::FAILURE;
            }
        }
        if (seed + 1 - parsed.from).is_multiple_of(100) {
            println!("{} seeds passed, {} power losses", seed + 1 - parsed.from, coverage.total_crashes());
        }
    }
    print_coverage(&coverage);
    let missing = coverage.missing();
    if !missing.is_empty() {
        println!("the run did not reach everything it must: {}", missing.join("; "));
        return ExitCode::FAILURE;
    }
    println!("{} seeds passed, every guarantee held", coverage.seeds);
    ExitCode::SUCCESS
}

fn print_coverage(coverage: &Coverage) {
    println!("{} seeds, {} messages, {} steps", coverage.seeds, coverage.messages, coverage.steps);
    println!("power losses and the write or call at which they came:");
    for (site, count) in &coverage.crashes {
        println!("  {site:<24} {count}");
    }
    println!("jobs replaced while running on  {}", coverage.replaced);
    println!("workers, controllers lost       {}, {}", coverage.lost_workers, coverage.lost_controllers);
    println!("splits, merges begun; finished  {}, {}; {}", coverage.splits, coverage.merges, coverage.recuts);
    println!("retired ranges drained          {}", coverage.drained_parents);
    println!("jobs moved                      {}", coverage.moves);
    println!("pauses, stops reached           {}, {}", coverage.pauses, coverage.stops);
    println!("fewest re-cuts of a seed        {}", coverage.fewest_recuts);
    println!("zombie commits refused          {}", coverage.refused_commits);
    println!("calls refused by targets        {}", coverage.refused_calls);
    println!("applied, then timed out         {}", coverage.applied_then_timed_out);
    println!("timed out, then applied         {}", coverage.applied_late);
    println!("failed fsyncs                   {}", coverage.failed_syncs);
    println!("snapshots and other upkeep      {}", coverage.maintenance);
    println!("fewest power losses of a seed   {}", coverage.fewest_crashes);
}
