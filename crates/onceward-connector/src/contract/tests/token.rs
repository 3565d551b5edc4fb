//! Token targets in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Barrier, Mutex};

use super::{catches, texts};
use crate::contract::{TokenTarget, token_writer};
use crate::{BlockToken, SinkBlock, TargetError, TokenMemory, TokenWriter};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    TokenIgnored,
    DropsEqualRows,
    CutsTokens,
    IgnoresCase,
    RememberedByTheWriter,
    ForgetsEarlierThanSaid,
    LargeBlocksCut,
    RepeatIsAnError,
    RemembersNothing,
    LooksThenWrites,
}

const REMEMBERED: usize = 100;

#[derive(Default)]
struct State {
    rows: Vec<String>,
    tokens: VecDeque<String>,
}

struct Memory {
    fault: Option<Fault>,
    state: Arc<Mutex<State>>,
    /// Two writers that write one block at once have both looked for its token.
    both_looked: Arc<Barrier>,
}

struct Writer {
    fault: Option<Fault>,
    state: Arc<Mutex<State>>,
    both_looked: Arc<Barrier>,
    own: Vec<String>,
}

impl TokenTarget for Memory {
    fn writer(&self) -> Result<Box<dyn TokenWriter>, String> {
        let (state, both_looked) = (self.state.clone(), self.both_looked.clone());
        Ok(Box::new(Writer { fault: self.fault, state, both_looked, own: Vec::new() }))
    }
    fn visible(&self) -> Result<Vec<String>, String> {
        Ok(self.state.lock().expect("no test panicked").rows.clone())
    }
}

impl TokenWriter for Writer {
    fn write(&mut self, block: &SinkBlock, token: &BlockToken) -> Result<(), TargetError> {
        let rows: Vec<String> = texts(block).map(|(_, row)| row).collect();
        let token = match self.fault {
            Some(Fault::DropsEqualRows) => rows.concat(),
            Some(Fault::CutsTokens) => token.text.chars().take(5).collect(),
            Some(Fault::IgnoresCase) => token.text.to_lowercase(),
            _ => token.text.clone(),
        };
        let mut state = self.state.lock().expect("no test panicked");
        let remembered = match self.fault {
            Some(Fault::TokenIgnored) => false,
            Some(Fault::RememberedByTheWriter) => self.own.contains(&token),
            _ => state.tokens.contains(&token),
        };
        if self.fault == Some(Fault::LooksThenWrites) && token.starts_with("race:") {
            drop(state);
            self.both_looked.wait();
            state = self.state.lock().expect("no test panicked");
        }
        if remembered {
            return match self.fault {
                Some(Fault::RepeatIsAnError) => Err(super::refusal("a repeat")),
                _ => Ok(()),
            };
        }
        self.own.push(token.clone());
        state.tokens.push_back(token);
        let limit = if self.fault == Some(Fault::ForgetsEarlierThanSaid) { 3 } else { REMEMBERED };
        while state.tokens.len() > limit {
            state.tokens.pop_front();
        }
        let part = if self.fault == Some(Fault::LargeBlocksCut) { 1000 } else { usize::MAX };
        state.rows.extend(rows.into_iter().take(part));
        Ok(())
    }
    fn memory(&self) -> TokenMemory {
        let count = if self.fault == Some(Fault::RemembersNothing) { 0 } else { REMEMBERED as u64 };
        TokenMemory { count: Some(count), age_us: None }
    }
}

#[test]
fn a_token_target_that_breaks_its_contract_is_named() {
    use Fault::*;
    let faults = [
        TokenIgnored,
        DropsEqualRows,
        CutsTokens,
        IgnoresCase,
        RememberedByTheWriter,
        ForgetsEarlierThanSaid,
        LargeBlocksCut,
        RepeatIsAnError,
        RemembersNothing,
        LooksThenWrites,
    ];
    catches(&faults, |fault| {
        token_writer(&Memory { fault, state: Arc::default(), both_looked: Arc::new(Barrier::new(2)) })
    });
}
