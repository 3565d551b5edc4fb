//! SESSION-BOUND: exactly the dense run of the open session is accepted.

use onceward_protocol::{Branch, Generation, LaneKey, Mutant, Mutants, Session, SessionGate, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;

/// Sessions that differ in one part each.
fn session(which: u8) -> Session {
    let job = |number: u64| Generation { number, nonce: number, branch: Branch(0) };
    let mut session = Session {
        lane: LaneKey { producer: 1, stream: 1, consumer: 1 },
        producer: job(1),
        consumer: job(1),
        nonce: 1,
    };
    match which {
        0 => {}
        1 => session.nonce = 2,
        2 => session.producer = job(2),
        3 => session.consumer = job(2),
        4 => session.lane.stream = 2,
        5 => session.producer.branch = Branch(1),
        _ => session.consumer.nonce = 7,
    }
    session
}

#[derive(Clone, Debug)]
enum Happening {
    Open(u8),
    Close,
    Arrives(u8, u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        2 => (0..7u8).prop_map(Happening::Open),
        1 => Just(Happening::Close),
        12 => (0..7u8, 0..5u64).prop_map(|(which, sequence)| Happening::Arrives(which, sequence)),
    ]
}

proptest! {
    #[test]
    fn exactly_the_dense_run_of_the_open_session_is_accepted(happenings in vec(happening(), 0..60)) {
        let mut gate = SessionGate::default();
        let mut open: Option<(u8, u64)> = None;
        for happening in happenings {
            match happening {
                Happening::Open(which) => {
                    gate.open(session(which));
                    open = Some((which, 0));
                }
                Happening::Close => {
                    gate.close();
                    open = None;
                }
                Happening::Arrives(which, sequence) => {
                    let expected = match &mut open {
                        Some((known, next)) if *known == which && *next == sequence => {
                            *next += 1;
                            Verdict::Accept
                        }
                        Some((known, _)) if *known == which => Verdict::Gap,
                        _ => Verdict::Discard,
                    };
                    prop_assert_eq!(gate.judge(session(which), sequence, Mutants::NONE), expected);
                }
            }
            prop_assert_eq!(gate.session(), open.map(|(which, _)| session(which)));
        }
    }

    #[test]
    fn a_gap_does_not_move_the_gate(sequence in 1u64..) {
        let mut gate = SessionGate::default();
        gate.open(session(0));
        prop_assert_eq!(gate.judge(session(0), sequence, Mutants::NONE), Verdict::Gap);
        prop_assert_eq!(gate.judge(session(0), 0, Mutants::NONE), Verdict::Accept);
    }
}

#[test]
fn nothing_is_accepted_before_a_session_is_open() {
    assert_eq!(SessionGate::default().judge(session(0), 0, Mutants::NONE), Verdict::Discard);
}

#[test]
fn a_switch_breaks_its_own_rule_and_no_other() {
    for one in Mutant::ALL {
        for other in Mutant::ALL {
            assert_eq!(Mutants::only(one).has(other), one == other);
        }
        assert!(!Mutants::NONE.has(one));
        assert!(Mutant::ALL.iter().filter(|other| other.name() == one.name()).count() == 1);
    }
}
