//! Exhaustive breadth-first search over a finite model.
//!
//! States are kept whole, never as fingerprints, so that "passed" means every reachable state was
//! looked at. Breadth first makes each counterexample a shortest one.

use std::fmt::{Debug, Display, Formatter};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use hashbrown::HashTable;

/// What is searched.
pub trait Model {
    type State: Clone + Eq + Hash;
    type Action: Debug;

    fn initial(&self) -> Self::State;
    /// Every step that can be taken from `state`, with the state after it.
    fn steps(&self, state: &Self::State, out: &mut Vec<(Self::Action, Self::State)>);
    /// The broken invariant, if one is.
    fn violation(&self, state: &Self::State) -> Option<String>;
    /// Whether nothing is missing any more.
    fn is_settled(&self, state: &Self::State) -> bool;
}

/// A search that found nothing wrong.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    pub steps: usize,
    /// Steps from the initial state to the farthest one.
    pub depth: u32,
}

/// The shortest way to something wrong.
#[derive(Debug)]
pub struct Counterexample {
    pub broken: String,
    pub trace: Vec<String>,
    pub states: usize,
}

impl Display for Counterexample {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} ({} states searched)", self.broken, self.states)?;
        for (number, step) in self.trace.iter().enumerate() {
            writeln!(f, "  {:>2}. {step}", number + 1)?;
        }
        Ok(())
    }
}

struct Search<'a, M: Model> {
    model: &'a M,
    states: Vec<M::State>,
    /// Predecessor and depth of each state.
    origins: Vec<(u32, u32)>,
    table: HashTable<u32>,
    hasher: BuildHasherDefault<DefaultHasher>,
}

/// Looks at every reachable state. Fails at the first one that breaks an invariant, and else at one
/// from which no way leads to a settled state.
pub fn explore<M: Model>(model: &M, limit: usize) -> Result<Explored, Box<Counterexample>> {
    let mut search = Search {
        model,
        states: Vec::new(),
        origins: Vec::new(),
        table: HashTable::new(),
        hasher: BuildHasherDefault::default(),
    };
    search.visit(model.initial(), (0, 0));
    // Successors of state n are `targets[starts[n]..starts[n + 1]]`.
    let (mut starts, mut targets) = (vec![0], Vec::new());
    let mut steps = Vec::new();
    let mut at = 0;
    while let Some(state) = search.states.get(at).cloned() {
        if let Some(broken) = model.violation(&state) {
            return Err(search.counterexample(broken, at));
        }
        if search.states.len() > limit {
            return Err(
                search.counterexample(format!("more than {limit} states: the bounds are too wide"), at)
            );
        }
        model.steps(&state, &mut steps);
        let depth = search.origins[at].1 + 1;
        for (_, next) in steps.drain(..) {
            targets.push(search.visit(next, (at as u32, depth)));
        }
        starts.push(targets.len());
        at += 1;
    }
    if let Some(stuck) = search.first_stuck(&starts, &targets) {
        let broken = "work is missing and no way leads to its completion".to_owned();
        return Err(search.counterexample(broken, stuck));
    }
    let depth = search.origins.last().map_or(0, |origin| origin.1);
    Ok(Explored { states: search.states.len(), steps: targets.len(), depth })
}

impl<M: Model> Search<'_, M> {
    fn visit(&mut self, state: M::State, origin: (u32, u32)) -> u32 {
        let Search { states, origins, table, hasher, .. } = self;
        let hash = hasher.hash_one(&state);
        if let Some(known) = table.find(hash, |known| states[*known as usize] == state) {
            return *known;
        }
        let number = states.len() as u32;
        states.push(state);
        origins.push(origin);
        table.insert_unique(hash, number, |known| hasher.hash_one(&states[*known as usize]));
        number
    }

    /// The first state that cannot reach a settled one: found backwards from the settled ones.
    fn first_stuck(&self, starts: &[usize], targets: &[u32]) -> Option<usize> {
        let count = self.states.len();
        let mut offsets = vec![0usize; count + 1];
        targets.iter().for_each(|target| offsets[*target as usize + 1] += 1);
        for at in 0..count {
            offsets[at + 1] += offsets[at];
        }
        let mut fill = offsets.clone();
        let mut sources = vec![0u32; targets.len()];
        for source in 0..count {
            for target in &targets[starts[source]..starts[source + 1]] {
                let slot = &mut fill[*target as usize];
                sources[*slot] = source as u32;
                *slot += 1;
            }
        }
        let mut reaches: Vec<bool> = self.states.iter().map(|state| self.model.is_settled(state)).collect();
        let mut work: Vec<usize> = (0..count).filter(|state| reaches[*state]).collect();
        while let Some(state) = work.pop() {
            for source in &sources[offsets[state]..offsets[state + 1]] {
                if !std::mem::replace(&mut reaches[*source as usize], true) {
                    work.push(*source as usize);
                }
            }
        }
        reaches.iter().position(|reaches| !reaches)
    }

    fn counterexample(&self, broken: String, mut at: usize) -> Box<Counterexample> {
        let mut trace = Vec::new();
        let mut steps = Vec::new();
        while at != 0 {
            let from = self.origins[at].0 as usize;
            self.model.steps(&self.states[from], &mut steps);
            let step = steps.drain(..).find(|(_, next)| *next == self.states[at]);
            trace.extend(step.map(|(action, _)| format!("{action:?}")));
            at = from;
        }
        trace.reverse();
        Box::new(Counterexample { broken, trace, states: self.states.len() })
    }
}
