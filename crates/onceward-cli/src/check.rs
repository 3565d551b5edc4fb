//! `validate`: is a manifest right?

use crate::args::ValidateArgs;
use crate::console;
use crate::failure::Failure;
use crate::manifest::Manifest;

/// Checks every manifest, also after one was refused.
pub fn validate(args: &ValidateArgs) -> Result<(), Failure> {
    let mut refused = false;
    for path in &args.paths {
        match Manifest::load(path, &args.sets.values) {
            Ok(manifest) => console::print(&format!("{}: ok\n", manifest.file_name))?,
            Err(Failure::Refused) => refused = true,
            Err(failure) => {
                failure.report();
                refused = true;
            }
        }
    }
    if refused { Err(Failure::Refused) } else { Ok(()) }
}
