//! Settings of a flow's hosts, and checks against its algorithm and its path.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::flow::FlowSpec;
use super::flow_options::Ecn;
use super::resolve::Checked;
use super::source::ScenarioError;
use super::units::TimeSpan;
use crate::link::LinkConfig;
use crate::setup::{FlowSetup, HostSetup};
use crate::tcp::HEADER_BYTES;

/// Payload bytes of a full segment: 1500 minus IPv4 and TCP headers with timestamps.
pub(super) const MSS_DEFAULT: u32 = 1448;

/// Settings of a flow's hosts.
pub(super) fn host(spec: &FlowSpec) -> HostSetup {
    let (options, default) = (&spec.options, HostSetup::default());
    let mss = options.mss.unwrap_or(MSS_DEFAULT);
    let ecn = options.ecn.unwrap_or_else(|| Ecn::usual(spec.cc.as_str()));
    let is_accurate = matches!(ecn, Ecn::Accurate | Ecn::L4s);
    let transport = options.transport.unwrap_or_default();
    HostSetup {
        pacing: options.pacing.unwrap_or(default.pacing),
        // To the sender, a limit of one segment means "off".
        tso_max: options.tso.map_or(default.tso_max, |tso| tso.max(mss)),
        gro: options.gro.filter(|gro| gro.0 > 0).map(TimeSpan::span),
        delayed_ack: options.delack.map(TimeSpan::span),
        ecn: ecn != Ecn::Off,
        accurate_ecn: is_accurate,
        dctcp_receiver: is_accurate && Ecn::usual(spec.cc.as_str()) == Ecn::Accurate && !transport.is_quic(),
        l4s: ecn == Ecn::L4s,
        ecn_syn: ecn != Ecn::Off && Ecn::usual(spec.cc.as_str()) != Ecn::Off,
        initial_cwnd: options.iw.unwrap_or(default.initial_cwnd),
        transport,
        ack: options.ack,
        program: options.program.unwrap_or(default.program),
    }
}

/// Refuses an algorithm without the ECN feedback that it needs: in Linux it becomes Reno then.
// spec: Linux dctcp_init; L4STeam prague_init
pub(super) fn check_ecn(spec: &FlowSpec) -> Result<(), String> {
    let (cc, ecn) = (spec.cc.as_str(), spec.options.ecn);
    match (Ecn::usual(cc), ecn) {
        (Ecn::L4s, Some(Ecn::Off | Ecn::Classic)) => Err(format!(
            "ecn: in Linux {cc} becomes Reno without accurate feedback; write accurate or l4s, or take reno"
        )),
        (Ecn::Accurate, Some(Ecn::Off)) => Err(format!("ecn: in Linux {cc} becomes Reno without ECN; take reno")),
        _ => Ok(()),
    }
}

/// Refuses segments larger than the burst of a policer on their way.
pub(super) fn check_sizes(links: &[&LinkConfig], flows: &[FlowSetup]) -> Checked<()> {
    for flow in flows.iter().filter(|flow| !flow.is_upload) {
        let bytes = u64::from(flow.mss + HEADER_BYTES);
        let policers = links[flow.links.0..flow.links.1].iter().filter_map(|link| link.policer);
        if let Some(policer) = policers.into_iter().find(|policer| policer.burst < bytes) {
            let burst = policer.burst;
            let message = format!("a burst of {burst}B passes no packet of {}; write at least {bytes}B", flow.name);
            return Err(ScenarioError::new("policer", message));
        }
    }
    Ok(())
}
