//! Writes folders of `bbrlab ab` as a fleet's hosts would have them, from a model:
//! `cargo run --release -p bbrlab-study --features parquet --example fleet DIR CONNECTIONS HOSTS [UNIT]`.
//!
//! Connections begin evenly over a day. Each host has a canary of an hour and an equal split afterwards. The treatment needs 5 %
//! less time. One connection in a hundred lasts long enough to have several records.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use bbrlab_core::Rng;
use bbrlab_stats::bootstrap::normal;
use bbrlab_study::ab::guard::Limits;
use bbrlab_study::ab::{
    Arm, ArmCounts, AssignmentUnit, BUCKETS, Change, Counts, Experiment, PrefixLengths, Row, SCHEMA, Shares, Table,
    TestEnd, record,
};
use rayon::prelude::*;

/// Seconds in which connections begin, and of the canary before the equal split.
const DAY_S: f64 = 86_400.0;
const CANARY_S: f64 = 3_600.0;
const BEGUN_S: f64 = 1_790_000_000.0;
/// Records of a table, as `bbrlab ab` writes them.
const TABLE: usize = 100_000;
/// Client networks of a host.
const NETWORKS: u64 = 20_000;
/// Seconds after which an open connection has its first record; each later one comes after twice the time.
const EVERY_S: f64 = 10.0;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, connections, hosts, unit @ ..] = args.as_slice() else {
        return Err("fleet DIR CONNECTIONS HOSTS [connection|client-prefix|time]".into());
    };
    let (folder, connections, hosts) = (PathBuf::from(folder), connections.parse::<u64>()?, hosts.parse::<u64>()?);
    let by = match unit.first().map_or("connection", String::as_str) {
        "connection" => AssignmentUnit::Connection,
        "client-prefix" => AssignmentUnit::ClientPrefix,
        "time" => AssignmentUnit::Time,
        other => return Err(format!("{other} is no unit").into()),
    };
    let one = |host: u64| write_host(&folder.join(format!("host-{host:02}")), connections / hosts, host, by);
    (0..hosts).into_par_iter().map(|host| one(host).map_err(|error| error.to_string())).collect::<Result<(), _>>()?;
    Ok(())
}

fn experiment(host: u64, by: AssignmentUnit) -> Result<Experiment, Box<dyn Error>> {
    let arm = |name: &str| Arm {
        label: name.to_owned(),
        algorithm: name.to_owned(),
        name: name.to_owned(),
        is_loaded_for_it: false,
    };
    let split = |epoch: u32, at_s: f64, shares: &str, why: &str| {
        let shares = Shares::parse(shares, 2)?;
        Ok::<_, Box<dyn Error>>(Change { epoch, at_unix_s: BEGUN_S + at_s, shares, why: why.to_owned() })
    };
    Ok(Experiment {
        schema: SCHEMA,
        version: "0".to_owned(),
        kernel: "6.18".to_owned(),
        arms: vec![arm("cubic"), arm("bbr3-linux")],
        by,
        slot_s: 600.0,
        keep: PrefixLengths::default(),
        cgroup: "/".to_owned(),
        ports: vec![80, 443],
        prefixes: Vec::new(),
        direction: "in".to_owned(),
        rule: None,
        tick_ns: 4_000_000,
        unix_minus_monotonic_ns: 0,
        begun_unix_s: BEGUN_S + host as f64 / 1e3,
        limits: Limits::default(),
        splits: vec![split(1, 0.0, "90,10", "start")?, split(2, CANARY_S, "50,50", "`bbrlab ab split`")?],
        counts: Counts::default(),
        ended: Some(TestEnd { at_unix_s: BEGUN_S + DAY_S, how: "ended".to_owned() }),
        host: Some(format!("host-{host:02}")),
        hosts: Vec::new(),
    })
}

fn write_host(folder: &Path, connections: u64, host: u64, by: AssignmentUnit) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let mut test = experiment(host, by)?;
    let mut counts = vec![ArmCounts::default(); 2];
    let labels = test.labels();
    let model = Model::new(&test, connections, host);
    let mut rows = model.inspect(|row| {
        if row.nth == 1 {
            counts[usize::from(row.arm)].tried += 1;
            counts[usize::from(row.arm)].established += 1;
        }
    });
    for nth in 1.. {
        let table: Vec<Row> = rows.by_ref().take(TABLE).collect();
        if table.is_empty() {
            break;
        }
        let file = BufWriter::new(File::create(folder.join(format!("connections-{nth:05}.parquet")))?);
        record::write(file, table.into_iter(), &labels)?;
    }
    drop(rows);
    test.counts.arms = counts;
    fs::write(folder.join("experiment.json"), serde_json::to_vec_pretty(&test)?)?;
    Ok(())
}

/// The records of a host, in the order of their times.
struct Model {
    rng: Rng,
    by: AssignmentUnit,
    tables: [Table; 2],
    begun_s: f64,
    connections: u64,
    host: u64,
    next: u64,
    /// Records to come, by time in ns and number of the connection.
    pending: BTreeMap<(u64, u64, u32), Row>,
}

impl Model {
    fn new(test: &Experiment, connections: u64, host: u64) -> Self {
        let first = Table::new(&test.splits[0].shares);
        let second = first.changed(&test.splits[1].shares);
        let (by, begun_s) = (test.by, test.begun_unix_s);
        let rng = Rng::new(1 + host);
        Self { rng, by, tables: [first, second], begun_s, connections, host, next: 0, pending: BTreeMap::new() }
    }

    /// Draws the next connection and adds its records.
    fn begin(&mut self) {
        let at_s = DAY_S * self.next as f64 / self.connections as f64;
        let id = self.next + 1;
        self.next += 1;
        let rng = &mut self.rng;
        let chance = |rng: &mut Rng| rng.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        // Few networks have many of the connections.
        let network = (NETWORKS as f64 * chance(rng).powi(3)) as u64;
        let place = usize::from(at_s >= CANARY_S);
        let bucket = match self.by {
            AssignmentUnit::Connection => rng.below(BUCKETS as u64),
            AssignmentUnit::ClientPrefix => network * 7_919 % BUCKETS as u64,
            AssignmentUnit::Time => (at_s / 600.0) as u64 * 7_919 % BUCKETS as u64,
        } as u16;
        let arm = self.tables[place].arm(bucket).unwrap_or(0);
        let factor = if arm == 1 { 0.95 } else { 1.0 };
        let rtt_us = (8_000.0 * (1.0 + network as f64 / 1e3) * (0.2 * normal(rng)).exp()) as u64 + 500;
        let is_long = rng.below(100) == 0;
        let bytes = (30_000.0 * (1.8 * normal(rng)).exp() * if is_long { 60.0 } else { 1.0 }) as u64 + 200;
        let rate = 2e6 * (0.6 * normal(rng)).exp();
        let busy_s = factor * (2.0 * rtt_us as f64 / 1e6 + bytes as f64 / rate) * (0.4 * normal(rng)).exp();
        let lasts_s = busy_s + if is_long { 8.0 + 300.0 * chance(rng) } else { 0.2 * chance(rng) };
        let segments = bytes.div_ceil(1_448);
        let port = if rng.below(5) == 0 { 80 } else { 443 };
        let client = match network % 8 {
            0 => format!("2001:db8:{:x}::/48", (self.host * NETWORKS + network) & 0xffff),
            _ => format!("10.{}.{}.0/24", (self.host * 79 + network / 256) % 256, network % 256),
        };
        let client = client.parse().unwrap_or_default();
        let begun_unix_ns = ((self.begun_s + at_s) * 1e9) as u64 + rng.below(1_000_000);
        let row = Row {
            id,
            arm,
            bucket,
            epoch: 1 + place as u32,
            is_passive: true,
            is_refused: rng.below(100_000) == 0,
            is_overridden: rng.below(50_000) == 0,
            begun_unix_ns,
            client,
            port,
            cgroup: 4_711,
            min_rtt_us: rtt_us,
            srtt_us: (rtt_us as f64 * (1.1 + 0.3 * chance(rng))) as u64,
            cwnd: 10 + rng.below(90),
            mss: 1_448,
            pacing_bps: (rate * 9.0) as u64 / 1_000 * 1_000,
            delivery_rate_bps: (rate * 8.0) as u64 / 1_000 * 1_000,
            ..Row::default()
        };
        let mut times: Vec<f64> = Vec::new();
        let mut next_s = EVERY_S;
        while next_s < lasts_s {
            times.push(next_s);
            next_s *= 2.0;
        }
        times.push(lasts_s);
        let last = times.len();
        for (nth, at_s) in times.into_iter().enumerate() {
            let part = |all: u64| (all as f64 * at_s / lasts_s) as u64;
            let lasted_us = (at_s * 1e6) as u64;
            let bytes = part(bytes).max(1);
            let record = Row {
                nth: nth as u32 + 1,
                is_open: nth + 1 < last,
                lasted_us,
                bytes_acked: bytes,
                bytes_received: 400,
                bytes_sent: bytes,
                bytes_retrans: part(segments / 50) * 1_448,
                busy_us: (busy_s * at_s / lasts_s * 250.0).ceil() as u64 * 4_000,
                rwnd_limited_us: if self.next.is_multiple_of(16) { 4_000 } else { 0 },
                data_segs_out: part(segments).max(1),
                retrans_segs: part(segments / 50),
                delivered: part(segments).max(1),
                state_us: (arm == 1).then_some([lasted_us / 2, lasted_us / 8, 0, 0, 0, lasted_us / 4, 0]),
                ..row.clone()
            };
            self.pending.insert((begun_unix_ns + lasted_us * 1_000, id, record.nth), record);
        }
    }
}

impl Iterator for Model {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        // What has ended before the next connection begins is written first.
        while self.next < self.connections {
            let now_ns = ((self.begun_s + DAY_S * self.next as f64 / self.connections as f64) * 1e9) as u64;
            if self.pending.first_key_value().is_some_and(|(key, _)| key.0 < now_ns) {
                break;
            }
            self.begin();
        }
        self.pending.pop_first().map(|(_, row)| row)
    }
}
