//! Prints what a conformance case sees in cells. usage: cstates DIR ALGO CASE CELL [columns…]
// SPDX-License-Identifier: Apache-2.0 OR MIT
use bbrlab_lab::conform;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let cases = conform::load_dir(std::path::Path::new(&args[1])).unwrap();
    let case = cases.iter().find(|c| c.id() == args[3]).unwrap();
    for cell in conform::grid() {
        if args[4] != "all" && cell.to_string() != args[4] {
            continue;
        }
        let (outcome, run) = conform::run_view(case, &args[2], cell).unwrap();
        println!("== {cell} {:?} mss {} sim {:.2}s", outcome.verdict(), outcome.mss, outcome.simulated_s);
        for seen in &outcome.seen {
            println!(
                "   {:?} {}: {} ({}) {}",
                seen.verdict,
                seen.what,
                seen.measured_text(),
                seen.expected,
                seen.reason.clone().unwrap_or_default()
            );
        }
        let states = &run.output.trace.flows[0].states;
        let line: Vec<String> =
            states.iter().take(30).map(|(t, s)| format!("{:.3}:{}", t.0 as f64 / 1e9, s.name())).collect();
        println!("   {}", line.join(" "));
        if args.len() > 5 {
            let cols: Vec<Vec<f64>> = args[5..].iter().map(|c| run.flow_column(0, c).unwrap()).collect();
            for (i, t) in run.t_s.iter().enumerate() {
                let v: Vec<String> = cols.iter().map(|c| format!("{:.3}", c[i])).collect();
                println!("   {t:.4} {}", v.join(" "));
            }
        }
    }
}
