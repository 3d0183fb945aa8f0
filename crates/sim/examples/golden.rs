//! Runs scenarios that together cover every part of the simulator. Prints the figures and a hash of the complete output of
//! each. `make golden` compares them with `tests/golden/sim.txt`, on this machine and as aarch64.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write;

use bbrlab_sim::scenario::ScenarioFile;

/// Scenarios that together cover every part of the simulator: each discipline, service, impairment, traffic and host rule.
const SCENARIOS: &[(&str, &str)] = &[
    ("bbr1", "flow = ['bbr1']\nbuffer = '2bdp'"),
    ("cubic", "flow = ['cubic']\nbuffer = '2bdp'"),
    ("reno", "flow = ['reno']\nbuffer = '2bdp'"),
    ("draft00", "flow = ['bbr1-draft00']\nrate = '1mbit'\nbuffer = '100p'"),
    ("shallow", "rate = '100mbit'\nrtt = '100ms'\nbuffer = '41p'\nflow = ['bbr1*6']"),
    ("mixed", "rate = '50mbit'\nbuffer = '1bdp'\nflow = ['bbr1*3@0s+1s', 'cubic*3', 'reno,rtt=80ms']"),
    ("crowd", "rate = '100mbit'\nrtt = '20ms'\nbuffer = '1bdp'\nflow = ['bbr1*60@0s+10ms', 'cubic*60@0s+7ms']"),
    ("starved", "rate = '2mbit'\nrtt = '50ms'\nbuffer = '30p'\nflow = ['bbr1*40@0s+10ms', 'cubic*40@0s+9ms']"),
    (
        "ties",
        "rate = '12.112mbit'\nrtt = '16ms'\nbuffer = '41p'\nflow = ['bbr1*7@0s+0ms', 'cubic*3@0s+0ms', 'reno,rtt=8ms']",
    ),
    (
        "ties_loss",
        "rate = '24.224mbit'\nrtt = '8ms'\nloss = '1%'\nbuffer = '64kB'\nflow = ['bbr3*7@0s+4ms', 'cubic*7@0s+4ms,size=500kB']",
    ),
    (
        "quic",
        "rate = '20mbit'\nreorder = '0.5%'\nloss = '0.5%'\nbuffer = '1bdp'\nflow = ['bbr3,transport=quic', 'cubic,transport=quic:s2n', 'reno,transport=quic,size=2MB']",
    ),
    ("loss", "rate = '20mbit'\nloss = '2%'\nack_loss = '5%'\nbuffer = '1bdp'\nflow = ['bbr1', 'cubic']"),
    ("bursts", "rate = '20mbit'\nloss = 'ge:1%,10%,50%'\nbuffer = '1bdp'\nflow = ['bbr1', 'cubic']"),
    ("disorder", "jitter = '5ms:reorder'\nreorder = '1%'\nduplicate = '1%'\nbuffer = '2bdp'\nflow = ['bbr1', 'cubic']"),
    ("jitter", "jitter = '5ms'\nbuffer = '2bdp'\nflow = ['bbr1', 'reno']"),
    ("codel", "rate = '20mbit'\naqm = 'codel:ecn'\nbuffer = '500p'\nflow = ['cubic*2,ecn=on', 'bbr1']"),
    ("fq_codel", "rate = '20mbit'\naqm = 'fq_codel'\nbuffer = '500p'\nflow = ['cubic*2', 'bbr1']"),
    ("pie", "rate = '20mbit'\naqm = 'pie'\nbuffer = '500p'\nflow = ['cubic*2', 'bbr1']"),
    ("red", "rate = '20mbit'\naqm = 'red:p=10%,gentle,ecn'\nbuffer = '500p'\nflow = ['cubic*2,ecn=on', 'bbr1']"),
    ("policer", "rate = '100mbit'\npolicer = 'rate=10mbit,burst=125kB'\nbuffer = '500p'\nflow = ['bbr1', 'cubic']"),
    ("acks", "rate = '20mbit'\nack_aggregation = '20ms'\nbuffer = '2bdp'\nflow = ['bbr1', 'cubic']"),
    ("ack_bytes", "rate = '20mbit'\nack_aggregation = '64KiB'\nbuffer = '2bdp'\nflow = ['bbr1', 'cubic']"),
    ("schedule", "schedule = '3s:rate=20mbit;6s:rate=5mbit,rtt=80ms,loss=1%;8s:buffer=9p'\nflow = ['bbr1', 'cubic']"),
    (
        "traffic",
        "rate = '20mbit'\nflow = ['bbr1,size=5MB', 'cubic,on=1s/off=2s', 'reno,rate=1mbit', 'bbr1,rwnd=64KiB', 'cubic@1s,stop=5s']",
    ),
    (
        "hosts",
        "rate = '50mbit'\nflow = ['bbr1,access=40mbit/20ms/100p', 'cubic,access=100mbit/2ms/20p', 'bbr1*2,mss=536']",
    ),
    (
        "receivers",
        "rate = '20mbit'\nflow = ['bbr1,gro=1ms', 'cubic,delack=200ms,pacing=on', 'reno,rwnd=auto', 'bbr1,tso=off']",
    ),
    ("requests", "rate = '20mbit'\nflow = ['bbr1,request=100kB/50ms', 'cubic,request=1MB/1s', 'fixed,size=2MB']"),
    (
        "parking",
        "flow = ['bbr1*2', 'cubic,links=1..1', 'bbr1,links=2..2']\n[[link]]\nrate = '10mbit'\n[[link]]\nrate = '8mbit'\ndelay = '2ms'\naqm = 'pie:ecn'",
    ),
    ("demand", "demand = 'min=1mbit,max=20mbit'\nbuffer = '200p'\nflow = ['bbr1', 'cubic']"),
    ("v3", "rate = '50mbit'\nbuffer = '1bdp'\nflow = ['bbr3', 'cubic']"),
    ("kern", "rate = '50mbit'\nbuffer = '1bdp'\nflow = ['bbr3-linux', 'bbr2', 'bbr2-ietf100', 'cubic']"),
    ("v3_loss", "rate = '20mbit'\nloss = '1%'\nack_loss = '5%'\njitter = '5ms:reorder'\nflow = ['bbr3', 'cubic']"),
    (
        "kern_loss",
        "rate = '20mbit'\nloss = '1%'\nack_loss = '5%'\njitter = '5ms:reorder'\nflow = ['bbr3-linux', 'bbr2', 'bbr2-ietf100', 'cubic']",
    ),
    ("v3_marks", "rate = '20mbit'\nrtt = '4ms'\naqm = 'codel:ecn'\nbuffer = '500p'\nflow = ['bbr3,ecn=on']"),
    (
        "kern_marks",
        "rate = '20mbit'\nrtt = '4ms'\naqm = 'codel:ecn'\nbuffer = '500p'\nflow = ['bbr3-linux,ecn=on', 'bbr2,ecn=on', 'bbr2-ietf100,ecn=on']",
    ),
    (
        "variants",
        "rate = '20mbit'\nbuffer = '1bdp'\nloss = '1%'\nflow = ['bbr-cpa', 'acd-linux', 'acd-ns3', 'bbr-s', 'bbr-apg', 'davis']",
    ),
    ("v3_steps", "schedule = '3s:rate=20mbit;6s:rate=5mbit,rtt=80ms,loss=1%;8s:buffer=9p'\nflow = ['bbr3', 'cubic']"),
    (
        "kern_steps",
        "schedule = '3s:rate=20mbit;6s:rate=5mbit,rtt=80ms,loss=1%;8s:buffer=9p'\nflow = ['bbr3-linux', 'bbr2', 'bbr2-ietf100', 'cubic']",
    ),
    (
        "v3_traffic",
        "rate = '20mbit'\nflow = ['bbr3,size=5MB', 'bbr3,on=1s/off=2s', 'bbr3,rate=1mbit', 'bbr3,rwnd=64KiB']",
    ),
    (
        "kern_traffic",
        "rate = '20mbit'\nflow = ['bbr3-linux,size=5MB', 'bbr2,on=1s/off=2s', 'bbr2-ietf100,rate=1mbit', 'bbr3-linux,rwnd=64KiB']",
    ),
    ("fq", "rate = '20mbit'\naqm = 'fq'\nbuffer = '4bdp'\nflow = ['cubic', 'bbr3', 'reno,rtt=80ms']"),
    (
        "cake",
        "rate = '20mbit'\naqm = 'cake:diffserv4,rtt=50ms'\nbuffer = '4bdp'\nflow = ['cubic,host=1', 'bbr3,ecn=on,host=1', 'reno,rtt=80ms', 'cubic,dscp=CS1', 'bbr1,dscp=EF,rate=1mbit']",
    ),
    ("lag", "rate = '20mbit'\nbuffer = '4bdp'\nack_loss = '1%'\nprobe = '20ms'\nflow = ['cubic', 'bbr3']"),
    (
        "video",
        "rate = '5mbit'\nflow = ['cubic,video=throughput:300kbit/1mbit/3mbit:segment=1s', 'bbr3,video=buffer:300kbit/1mbit/3mbit:segment=1s:buffer=8s', 'bbr1,video=throughput:1mbit:segment=1s:live=3s']",
    ),
    ("call", "rate = '5mbit'\nbuffer = '4bdp'\nflow = ['bbr3,call=1mbit/30', 'cubic']"),
    (
        "pages",
        "rate = '20mbit'\nbuffer = '4bdp'\nflow = ['bbr3,page=light/1s', 'cubic,request=10kB/50ms,deadline=60ms', 'cubic']",
    ),
    ("up", "rate = '20mbit'\nup = 'rate=300kbit,ack_filter'\nprobe = '20ms'\nflow = ['bbr3', 'cubic,direction=up']"),
    (
        "up_aqm",
        "rate = '20mbit'\njitter = '2ms:reorder'\nack_loss = '1%'\nup = 'rate=5mbit,aqm=codel:ecn'\nflow = ['reno', 'bbr1,direction=up', 'cubic,direction=up,ecn=on']",
    ),
];

/// FNV-1a hash of all bytes written.
struct Fnv(u64);

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

fn main() {
    for (name, toml) in SCENARIOS {
        // Keys must precede tables.
        let text = format!("duration = '12s'\nwarmup = '1s'\nsample = '50ms'\n{toml}\n");
        let setup = match ScenarioFile::from_toml(&text, name).map(|read| read.scenario.resolve()) {
            Ok(Ok(setup)) => setup,
            Ok(Err(error)) => panic!("{name}: {error}"),
            Err(error) => panic!("{name}: {error}"),
        };
        let mut output = bbrlab_sim::engine::run(&setup);
        output.result.version.clear(); // a release changes no packet
        output.result.events = 0; // fewer events for the same packets are an improvement
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        write!(hash, "{output:?}").expect("hashing does not fail");
        let (result, link) = (&output.result, &output.result.bottleneck);
        println!(
            "{name:<12} {:016x} {:>7} packets {:>6} drops {:>5} marks, {:>5.1} % used, queue {:>6.1} ms",
            hash.0,
            result.packets,
            link.drops,
            link.marks,
            link.utilisation * 100.0,
            link.queue_ms.p50
        );
        for group in &result.groups {
            let flows = result.flows.iter().filter(|flow| flow.cc == group.cc);
            let (mut rtt, mut resent) = (0.0_f64, 0.0_f64);
            for flow in flows {
                rtt = rtt.max(flow.rtt(|rtt| rtt.p50));
                resent = resent.max(flow.retransmit_ratio);
            }
            println!(
                "  {:>3} {:<12} {:>8.3} Mbit/s, RTT p50 {rtt:>6.1} ms at most, {:>6.2} % retransmitted",
                group.flows,
                group.cc,
                group.goodput_bps / 1e6,
                resent * 100.0
            );
        }
    }
}
