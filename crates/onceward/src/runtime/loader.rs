//! Builds jobs from what is stored of their partitions, beside the worker that will run them: however much there is to
//! load, the worker goes on saying that it is there.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use onceward_engine::controller::Assignment;
use onceward_engine::stored::LoadError;
use onceward_engine::{Job, JobEnd, Plan, Stored};
use onceward_protocol::Mutants;
use onceward_store::StoreHandle;

use super::Post;
use super::routes::Routes;

/// The loading thread of one worker.
pub(crate) struct Loader {
    pub(crate) worker: u32,
    pub(crate) plan: Arc<Plan>,
    pub(crate) store: StoreHandle,
    pub(crate) work: Receiver<Box<Assignment>>,
    pub(crate) routes: Arc<Routes>,
}

impl Loader {
    /// Works until the worker has gone.
    pub(crate) fn run(self) {
        while let Ok(assignment) = self.work.recv() {
            let job = self.build(&assignment).map(Box::new);
            self.routes.post(self.worker, Post::Built(assignment, job));
        }
    }

    /// LOAD-AFTER-GRANT: the grant was durable before the assignment was made.
    fn build(&self, assignment: &Assignment) -> Result<Job, JobEnd> {
        let Assignment { partition, generation, layout, seed } = assignment;
        let load = || -> Result<Stored, LoadError> {
            let view = self.store.view(&partition.id)?;
            Stored::read(&partition.id, view.head(), |table, visit| view.scan(table, visit))
        };
        let stored = load().map_err(|error| match error {
            LoadError::Store(_) => JobEnd::Unknown,
            LoadError::Engine(error) => JobEnd::Failed(error),
        })?;
        self.plan.job(layout, partition, *generation, stored, *seed, Mutants::NONE).map_err(JobEnd::Failed)
    }
}
