//! The power goes once, after every single step that a run takes, and calls of targets that are under way then arrive
//! or do not.

use crate::world::World;

/// Takes `start` through every crash to the end and has it checked.
pub fn at_every_step(start: impl Fn() -> World, check: impl Fn(&World, &str)) {
    for arrives in [false, true] {
        for steps in 0.. {
            let mut world = start();
            if !(0..steps).all(|_| world.step()) {
                break;
            }
            if arrives {
                world.land_calls();
            }
            world.restart_all();
            world.complete();
            check(&world, &format!("crash after step {steps}, calls arrive: {arrives}"));
        }
    }
}

/// The same with a crash after every `steps` steps.
pub fn again_and_again(start: impl Fn() -> World, check: impl Fn(&World, &str)) {
    for steps in 5..40 {
        let mut world = start();
        for crash in 0..20 {
            if !(0..steps + crash).all(|_| world.step()) {
                break;
            }
            world.land_calls();
            world.restart_all();
        }
        world.complete();
        check(&world, &format!("crashes every {steps} steps"));
    }
}
