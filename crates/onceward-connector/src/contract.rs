//! Contract suites: what every connector of a kind must pass, as plain functions that panic-free
//! report the first violation.
