//! Explicit-state model check of the protocol at small bounds (docs/design/model.md).

mod lanes;
mod search;

use lanes::{Bounds, Lanes, Rule};
use onceward_protocol::Mutant;
use search::explore;

#[test]
fn probe() {
    let one = Bounds { messages: 2, producers: 1, consumers: 1, net: 2, disturbances: 1, queue: 0 };
    let two = Bounds { consumers: 2, ..one };
    let three = Bounds { messages: 3, ..one };
    for (rule, bounds) in [
        (Rule::Chain, two),
        (Rule::OwnerCompare, two),
        (Rule::GenerationPerJob, two),
        (Rule::LoadAfterGrant, two),
        (Rule::OwnCommit, two),
        (Rule::SessionBound, Bounds { net: 3, disturbances: 3, ..three }),
        (Rule::DenseSequence, one),
        (Rule::LanePrefix, Bounds { queue: 2, ..one }),
        (Rule::AckCommitted, one),
        (Rule::DropTaken, one),
        (Rule::AckImpliesDurable, one),
        (Rule::FrontierPersisted, two),
        (Rule::ContiguousProgress, one),
        (Rule::Shared(Mutant::ChainNotCompared), two),
        (Rule::Shared(Mutant::SessionOutlivesJob), two),
    ] {
        let t = std::time::Instant::now();
        match explore(&Lanes { bounds, without: Some(rule) }, 12_000_000) {
            Ok(e) => println!("{rule:?} NOT CAUGHT {bounds:?} {e:?} {:?}", t.elapsed()),
            Err(c) => println!("{rule:?} {c} {:?}", t.elapsed()),
        }
    }
}
