//! Our own qlogs, as `conform --log` reads them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_lab::conform::log;
use bbrlab_report::export::Record;
use bbrlab_report::export::qlog::{self, Dialect, Packet, PacketEvent, Stream};
use bbrlab_sim::scenario::ScenarioFile;

#[test]
fn a_stream_is_what_both_dialects_readers_take() {
    for dialect in [Dialect::Draft, Dialect::Qvis] {
        let mut bytes = Vec::new();
        let mut log = Stream::begin(&mut bytes, dialect, "client-0", "client").unwrap();
        let packet = Packet { kind: "1RTT", number: 7, bytes: Some(1200), acked: &[] };
        log.max_datagram_size(0, 1452).unwrap();
        log.packet(1_000_000, PacketEvent::Sent, packet).unwrap();
        let metrics = |cwnd: u64| serde_json::Map::from_iter([("congestion_window".to_owned(), cwnd.into())]);
        [12_000, 12_000, 13_000].into_iter().for_each(|cwnd| log.metrics(2_000_000, metrics(cwnd)).unwrap());
        log.packet(3_000_000, PacketEvent::Lost, packet).unwrap();
        log.state(4_000_000, "drain").unwrap();
        log.finish().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("metrics_updated").count(), 2, "{text}");
        let log = log::read(&text).unwrap();
        let flow = &log.flows[0];
        assert_eq!((flow.name.as_str(), flow.mss, flow.samples.len()), ("client-0", Some(1452.0), 2));
        assert_eq!((flow.losses.as_slice(), flow.phases.len()), (&[0.003][..], 1));
    }
}

/// Trap: `conform --log` reported no losses of a run that dropped 259 packets, as its log had no event of them.
#[test]
fn a_runs_losses_are_those_of_its_log() {
    let scenario = "flow = ['bbr1', 'cubic,name=peer']\nduration = '3s'\nloss = '1%'";
    let setup = ScenarioFile::from_toml(scenario, "a test").unwrap().scenario.resolve().unwrap();
    let output = bbrlab_sim::engine::run(&setup);
    let record = Record { setup: &setup, result: &output.result, trace: &output.trace, packets: &[] };
    let mut bytes = Vec::new();
    qlog::sequence(&record, &mut bytes).unwrap();
    let log = log::read(std::str::from_utf8(&bytes).unwrap()).unwrap();
    for (flow, trace) in setup.flows.iter().zip(&output.trace.flows) {
        let read = log.flows.iter().find(|read| read.name == flow.name).unwrap();
        let lost = usize::try_from(*trace.lost.last().unwrap()).unwrap();
        assert!(lost > 2 && read.losses.len() == lost, "{lost}, {}", read.losses.len());
    }
    assert_eq!(log.flows[0].cc.as_deref(), Some("bbr1"));
}
