//! A run with a manifest that is not the one the state was made with (DESIGN 14).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onceward_connector::Source;
use onceward_engine::respec::{Holdings, Respec};
use onceward_engine::{Layout, Plan};
use onceward_protocol::{Branch, Generation};
use onceward_spec::{Change, ChangeClass};
use onceward_store::StoreHandle;

use crate::error::RunError;
use crate::prepare::{Term, new_source, partition_rows, random_u64};

/// What a manifest changes, and what the user wants to forget.
pub(crate) struct Wanted<'a> {
    pub(crate) changes: &'a [Change],
    /// Names of sources, computations and sinks that begin anew.
    pub(crate) reset: &'a BTreeSet<String>,
    pub(crate) canonical: String,
}

/// Lets the new manifest take over, or says why it cannot.
pub(crate) fn take_over(
    store: &StoreHandle,
    plan: &Plan,
    sources: &[Arc<dyn Source>],
    before: &Layout,
    wanted: Wanted<'_>,
    data_dir: &str,
) -> Result<(Layout, Term), RunError> {
    let Wanted { changes, reset, canonical } = wanted;
    check_names(plan, before, reset)?;
    let covered = |change: &Change| change.part.as_ref().is_some_and(|part| reset.contains(part));
    let orphans = |change: &&Change| matches!(change.class, ChangeClass::Orphans(_)) && !covered(change);
    if changes.iter().any(|change| orphans(&change)) {
        let text = |change: &Change| match &change.class {
            ChangeClass::Orphans(what) if !covered(change) => format!("{change}; at stake: {what}"),
            _ => format!("{change}; possible after a stop with drain"),
        };
        return Err(RunError::Changed {
            changes: changes.iter().map(text).collect(),
            data_dir: data_dir.to_owned(),
        });
    }
    let holdings = holdings(store, before)?;
    if let Some(reason) = holdings.under_way(before, reset) {
        return Err(RunError::UnderWay {
            changes: changes.iter().map(ToString::to_string).collect(),
            reason,
        });
    }
    let after = layout_after(plan, sources, before, reset, canonical)?;
    let fresh = fresh_sinks(changes, reset);
    let respec = Respec { plan, before, after: &after, holdings: &holdings, fresh_sinks: &fresh };
    let mut term = Term::take(store, &before.pipeline_partition())?;
    let seed = random_u64()?;
    let mut nonces = onceward_engine::entropy::Nonces::new(seed);
    let mint = |number| Generation { number, nonce: nonces.next_u64(), branch: Branch::default() };
    term.write(store, respec.operations(mint), &after)?;
    Ok((after, term))
}

fn check_names(plan: &Plan, before: &Layout, reset: &BTreeSet<String>) -> Result<(), RunError> {
    let mut known: BTreeSet<&str> = plan.pipeline.sinks.iter().map(|sink| sink.name.as_str()).collect();
    known.extend(before.sources.iter().map(|source| source.name.as_str()));
    known.extend(before.keyed.iter().map(|keyed| keyed.name.as_str()));
    match reset.iter().find(|name| !known.contains(name.as_str())) {
        Some(name) => Err(RunError::NothingToReset {
            name: name.clone(),
            known: known.into_iter().collect::<Vec<_>>().join(", "),
        }),
        None => Ok(()),
    }
}

fn holdings(store: &StoreHandle, layout: &Layout) -> Result<Holdings, RunError> {
    let mut rows = BTreeMap::new();
    for partition in layout.partitions() {
        let read = partition_rows(store, &partition.id)?;
        rows.insert(partition.id, read);
    }
    Ok(Holdings::new(rows)?)
}

fn layout_after(
    plan: &Plan,
    sources: &[Arc<dyn Source>],
    before: &Layout,
    reset: &BTreeSet<String>,
    canonical: String,
) -> Result<Layout, RunError> {
    let mut after = Layout { version: before.version + 1, canonical, ..before.clone() };
    after.sources.retain(|source| !reset.contains(&source.name));
    after.keyed.retain(|keyed| !reset.contains(&keyed.name));
    for (spec, source) in plan.pipeline.sources.iter().zip(sources) {
        if after.sources.iter().any(|known| known.name == spec.name) {
            continue;
        }
        after.add_source(new_source(&spec.name, source.as_ref())?);
    }
    for (name, count) in plan.keyed() {
        if !after.keyed.iter().any(|known| known.name == name) {
            after.add_keyed(name, count);
        }
    }
    Ok(in_order(after, plan))
}

/// The layout's parts in the order of the manifest: names are identity, places are not.
pub(crate) fn in_order(layout: Layout, plan: &Plan) -> Layout {
    let sources = plan.pipeline.sources.iter().map(|source| source.name.as_str());
    layout.in_order_of(sources, plan.keyed().map(|(name, _)| name))
}

/// Sinks of which nothing is known: their target is another one, or they are to begin anew.
fn fresh_sinks(changes: &[Change], reset: &BTreeSet<String>) -> BTreeSet<String> {
    let fresh = changes.iter().filter_map(|change| {
        let key = change.path.strip_prefix("spec.sinks.")?;
        let part = change.part.as_ref()?;
        (key.strip_prefix(part.as_str())? != ".inputs").then(|| part.clone())
    });
    fresh.chain(reset.iter().cloned()).collect()
}
