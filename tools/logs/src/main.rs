//! Records a transfer over loopback as qlog, by s2n-quic's BBR or by noq's BBR3, for the tests of `bbrlab conform --log`.
//! Usage: `record-logs s2n|noq FILE [MEGABYTES]`, where FILE becomes a JSON text sequence.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod noq_stack;
mod s2n_stack;

/// An error, which ends the program.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let args: Vec<String> = std::env::args().collect();
    let (Some(stack), Some(file)) = (args.get(1), args.get(2)) else {
        return Err("usage: record-logs s2n|noq FILE [MEGABYTES]".into());
    };
    let bytes = args.get(3).map_or(Ok(4), |text| text.parse::<usize>())? << 20;
    match stack.as_str() {
        "s2n" => s2n_stack::record(file, bytes).await,
        "noq" => noq_stack::record(file, bytes).await,
        _ => Err("a stack is s2n or noq".into()),
    }
}
