//! A smoke test: a real transfer with a congestion control of this kernel, in a network namespace of its own.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};

use super::ns::NetNs;
use crate::{Error, Result};

/// Bytes transferred. Ours: hundreds of ACKs, a few milliseconds.
const BYTES: usize = 8 << 20;
/// Bytes per write.
const BLOCK: usize = 64 << 10;
/// Timeout of a single read or write.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends data with the named congestion control, and reads all of it.
pub fn transfer(congestion_control: &str) -> Result<()> {
    let fault = |source| Error::Io { what: congestion_control.to_owned(), source };
    let host = NetNs::new()?;
    // Without it DCTCP would hand the connection over to Reno.
    host.set_sysctl("ipv4/tcp_ecn", "1")?;
    host.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(fault)?;
        let mut sender = TcpStream::connect(listener.local_addr().map_err(fault)?).map_err(fault)?;
        let (mut receiver, _) = listener.accept().map_err(fault)?;
        setsockopt(&sender, sockopt::TcpCongestion, &congestion_control.into()).map_err(|error| fault(error.into()))?;
        sender.set_write_timeout(Some(PATIENCE)).map_err(fault)?;
        receiver.set_read_timeout(Some(PATIENCE)).map_err(fault)?;
        let reader = thread::spawn(move || {
            let (mut block, mut count) = (vec![0; BLOCK], 0);
            loop {
                match receiver.read(&mut block) {
                    Ok(0) => return Ok(count),
                    Ok(read) => count += read,
                    Err(error) => return Err(error),
                }
            }
        });
        let block = vec![7; BLOCK];
        for _ in 0..BYTES / BLOCK {
            sender.write_all(&block).map_err(fault)?;
        }
        let used = getsockopt(&sender, sockopt::TcpCongestion).map_err(|error| fault(error.into()))?;
        drop(sender);
        let count = reader.join().map_err(|_| Error::ThreadEnded("the reader"))?.map_err(fault)?;
        let used = used.to_string_lossy();
        let used = used.trim_end_matches('\0');
        match (used == congestion_control, count == BYTES) {
            (true, true) => Ok(()),
            (false, _) => Err(Error::TrialUsed(used.to_owned())),
            (true, false) => Err(Error::TrialBytes { received: count, sent: BYTES }),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs the right to make a network namespace"]
    fn what_the_kernel_has_carries_data_and_what_it_has_not_does_not() {
        transfer("reno").unwrap();
        assert!(matches!(transfer("no_such_cc"), Err(Error::Io { what, .. }) if what == "no_such_cc"));
    }
}
