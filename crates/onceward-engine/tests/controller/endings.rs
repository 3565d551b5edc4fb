//! After pause, stop and completion no lease is live, and that is recorded.

use onceward_engine::controller::ControllerEnd;
use onceward_protocol::state::{Demand, PipelineState};

use crate::pipelines::{running, undisturbed, windows};
use crate::world::{Setup, World};

#[test]
fn after_completion_no_lease_is_live_and_a_late_commit_is_fenced() {
    let manifest = windows(2, 2);
    let mut world = World::new(&manifest, Setup::default());
    crate::pipelines::fill(&mut world, 0, 150);
    world.start();
    assert_eq!(world.run(), ControllerEnd::Completed);
    world.assert_nothing_is_live();
    assert_eq!(world.layout().state, PipelineState::Completed);
    assert_eq!(world.sorted(0), undisturbed(&manifest, 150));
}

#[test]
fn after_a_pause_no_lease_is_live_and_a_late_commit_is_fenced() {
    let mut world = running(&windows(2, 2), Setup::default(), 150);
    world.run_until(|world| world.rows_taken("sums") > 60);
    world.demand(Demand::Pause).unwrap();
    world.run_until(|world| world.state() == PipelineState::Paused);
    world.assert_nothing_is_live();
}
