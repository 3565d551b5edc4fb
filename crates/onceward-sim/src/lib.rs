//! The simulator: the real engine on a seeded scheduler.
