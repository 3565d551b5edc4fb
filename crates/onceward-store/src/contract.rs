//! The contract suite that every store must pass.
