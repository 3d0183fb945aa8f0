//! Captured packets, passed from the guest to the host in a file of the exchange directory.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use bbrlab_sim::record::packets::{Direction, Packets};
use bbrlab_sim::setup::{Capture as Asked, Setup};

use crate::capture::Capture;

/// Name of the file with the host's packet limit; without it, the host requests none.
const WANTED: &str = "packets-wanted";
/// Name of the file with the packets.
const PACKETS: &str = "packets";
/// Bytes before each packet: time, flow, direction, length.
const PREFIX: usize = 14;

/// Packet log written by the guest.
pub struct PacketLog {
    file: BufWriter<File>,
    room: usize,
}

/// Requests the packets that a setup needs.
pub fn ask(exchange: &Path, setup: &Setup) -> io::Result<()> {
    let Asked::On { limit, .. } = setup.capture else { return Ok(()) };
    fs::write(exchange.join(WANTED), limit.to_string())
}

/// Reads the packets that the guest has written.
pub fn take(exchange: &Path, setup: &Setup) -> io::Result<Packets> {
    let Some(mut capture) = Capture::new(setup) else { return Ok(Packets::default()) };
    let mut file = BufReader::new(File::open(exchange.join(PACKETS))?);
    let mut prefix = [0; PREFIX];
    let mut bytes = [0; u8::MAX as usize];
    while !file.fill_buf()?.is_empty() {
        file.read_exact(&mut prefix)?;
        let [t0, t1, t2, t3, t4, t5, t6, t7, f0, f1, f2, f3, back, length] = prefix;
        let packet = &mut bytes[..usize::from(length)];
        file.read_exact(packet)?;
        let t_ns = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
        let dir = if back == 0 { Direction::Data } else { Direction::Ack };
        capture.on_packet(t_ns, u32::from_le_bytes([f0, f1, f2, f3]) as usize, dir, packet);
    }
    Ok(capture.finish())
}

impl PacketLog {
    /// Opens a log, if the host requested one.
    pub fn open(exchange: &Path) -> io::Result<Option<Self>> {
        let wanted = match fs::read_to_string(exchange.join(WANTED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            wanted => wanted?,
        };
        let limit: usize = wanted.parse().map_err(io::Error::other)?;
        let file = BufWriter::new(File::create(exchange.join(PACKETS))?);
        Ok(Some(Self { file, room: limit.saturating_add(1) }))
    }

    /// Appends a packet of `flow`; `headers` starts with the IP header.
    pub fn add(&mut self, t_ns: u64, flow: usize, dir: Direction, headers: &[u8]) -> io::Result<()> {
        if self.room == 0 {
            return Ok(());
        }
        self.room -= 1;
        let headers = &headers[..headers.len().min(u8::MAX.into())];
        self.file.write_all(&t_ns.to_le_bytes())?;
        self.file.write_all(&(flow as u32).to_le_bytes())?;
        self.file.write_all(&[u8::from(dir == Direction::Ack), headers.len() as u8])?;
        self.file.write_all(headers)
    }

    /// Flushes the log to the host's disk.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::Time;
    use bbrlab_sim::record::packets::Tap;

    use super::*;
    use crate::wire::tests::segment;

    #[test]
    fn what_the_guest_logs_the_host_reads() {
        let dir = std::env::temp_dir().join(format!("bbrlab-packets-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let sourced = bbrlab_sim::scenario::ScenarioFile::from_toml("flow = ['bbr1']", "test").unwrap();
        let mut setup = sourced.scenario.resolve().unwrap();
        ask(&dir, &setup).unwrap();
        assert!(PacketLog::open(&dir).unwrap().is_none());
        setup.capture = Asked::On { limit: 3, taps: &[Tap::Sender] };
        ask(&dir, &setup).unwrap();
        let mut log = PacketLog::open(&dir).unwrap().unwrap();
        for t in 0..9_u32 {
            log.add(t.into(), 0, Direction::Data, &segment(100 + t, 7, Some((1, 2)))).unwrap();
        }
        log.finish().unwrap();
        let packets = take(&dir, &setup).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        let seen: Vec<_> = packets.records.iter().map(|record| (record.t_ns, record.seq, record.len)).collect();
        assert_eq!((seen, packets.cut), (vec![(0, 0, 7), (1, 1, 7), (2, 2, 7)], Some(Time::nanos(3))));
    }
}
