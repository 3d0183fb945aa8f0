//! Prints the draft's test cases for the playground as JSON; `tools/web.sh` builds them into the page.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_lab::conform::{cases, playground};

fn main() -> bbrlab_lab::Result<()> {
    println!("{}", playground(&cases())?);
    Ok(())
}
