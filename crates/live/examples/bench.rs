//! The emulator's benchmark without the command: `cargo run --release -p bbrlab-live --example bench [SECONDS]`.
use bbrlab_live::kernel::bench::table;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(6);
    if let Err(fault) = table(seconds, &mut |row| println!("{}", row.join(" | "))) {
        eprintln!("{fault}");
    }
}
