//! Explicit-state model check of the protocol at small bounds (docs/design/model.md).

mod lanes;
mod search;

use lanes::{Bounds, Lanes, Rule};
use search::explore;

#[test]
fn probe() {
    for bounds in [
        Bounds { messages: 2, producers: 1, consumers: 1, net: 2, spurious: 1, queue: 0 },
        Bounds { messages: 2, producers: 1, consumers: 2, net: 2, spurious: 1, queue: 0 },
        Bounds { messages: 2, producers: 2, consumers: 1, net: 2, spurious: 1, queue: 0 },
        Bounds { messages: 2, producers: 1, consumers: 2, net: 2, spurious: 1, queue: 2 },
        Bounds { messages: 2, producers: 1, consumers: 2, net: 3, spurious: 1, queue: 0 },
        Bounds { messages: 3, producers: 1, consumers: 1, net: 3, spurious: 1, queue: 0 },
        Bounds { messages: 2, producers: 2, consumers: 2, net: 2, spurious: 1, queue: 0 },
    ] {
        let t = std::time::Instant::now();
        match explore(&Lanes { bounds, without: None }, 6_000_000) {
            Ok(e) => println!("{bounds:?} {e:?} {:?}", t.elapsed()),
            Err(c) => println!("{bounds:?} {c} {:?}", t.elapsed()),
        }
    }
    let _ = Rule::Chain;
}
