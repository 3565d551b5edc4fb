//! Development tasks.
//!
//! - `cargo xtask test`: everything that must hold before a change lands, on a bare machine.
//! - `cargo xtask sim [--seeds N ...]`: long runs of the simulator.
//! - `cargo xtask bench`: the benchmarks of `docs/performance.md`.

use std::process::{Command, ExitCode};
use std::time::Instant;

/// One thing to check: what it is called, and the command.
struct Step {
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const fn cargo(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, program: "cargo", arguments, environment: &[] }
}

/// In the order in which they fail fastest.
const STEPS: &[Step] = &[
    cargo("format", &["fmt", "--all", "--check"]),
    cargo("clippy", &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    Step {
        name: "documentation",
        program: "cargo",
        arguments: &["doc", "--workspace", "--no-deps", "--locked", "--quiet"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    cargo("build of the binary", &["build", "--release", "--locked"]),
    cargo("simulator, mutants caught", &["test", "--release", "--locked", "-p", "onceward-sim"]),
    cargo("simulator", &["run", "--release", "--locked", "-p", "onceward-sim", "--", "--seeds", "300"]),
    cargo("tests", &["test", "--workspace", "--exclude", "onceward-sim", "--locked"]),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("test") if rest.is_empty() => test(),
        Some("sim") => {
            let mut command = vec!["run", "--release", "--locked", "--quiet", "-p", "onceward-sim", "--"];
            command.extend(rest);
            run("cargo", &command, &[])
        }
        Some("bench") if rest.is_empty() => run("cargo", &["bench", "--locked", "-p", "onceward"], &[]),
        _ => {
            eprintln!("usage: cargo xtask test | sim [--seeds N] [--from S] [--mutant NAME] | bench");
            return ExitCode::from(2);
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn test() -> bool {
    let began = Instant::now();
    for step in STEPS {
        println!("== {}", step.name);
        let step_began = Instant::now();
        if !run(step.program, step.arguments, step.environment) {
            println!("== {} FAILED: {} {}", step.name, step.program, step.arguments.join(" "));
            return false;
        }
        println!("== {}: good, {} s", step.name, step_began.elapsed().as_secs());
    }
    println!("== all {} steps good, {} s", STEPS.len(), began.elapsed().as_secs());
    true
}

fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> bool {
    match Command::new(program).args(arguments).envs(environment.iter().copied()).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot start {program}: {error}");
            false
        }
    }
}
