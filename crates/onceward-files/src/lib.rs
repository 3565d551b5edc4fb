//! Files and other light connectors: file source, file sink, stdout.
