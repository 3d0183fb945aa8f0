//! Applications by whose figures a choice is judged, instead of those of a bulk transfer.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::record::result::FlowResult;
use bbrlab_sim::setup::{FlowSetup, Traffic};
use serde::Serialize;

use crate::{Error, Result};

/// Best and worst mean opinion score. Source: E-model, ITU-T G.107: G.711 without loss or delay, R = 94.2; 1 is the scale's end.
const MOS: (f64, f64) = (4.43, 1.0);
/// Smallest share of an application's duration to which a costly run is shortened. Ours: a video must have played for a while.
const SHORTEST: f64 = 1.0 / 3.0;

/// An application, as an option of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Application {
    /// Name.
    pub name: &'static str,
    /// Option of `--flow`.
    pub option: &'static str,
    /// Duration of a run, seconds.
    seconds: f64,
}

/// Applications by name. The ladder of `video` is that of Mao et al., SIGCOMM 2017; the other values are ours.
pub const APPLICATIONS: [Application; 3] = [
    Application {
        name: "video",
        option: "video=throughput:300kbit/750kbit/1200kbit/1850kbit/2850kbit/4300kbit",
        seconds: 120.0,
    },
    Application { name: "live", option: "video=throughput:1mbit/2500kbit/5mbit:segment=1s:live=3s", seconds: 60.0 },
    Application { name: "calls", option: "call=2mbit/30", seconds: 30.0 },
];

impl Application {
    /// Returns the application with this name; none for `bulk`.
    pub fn named(name: &str) -> Result<Option<Self>> {
        if name == "bulk" {
            return Ok(None);
        }
        APPLICATIONS.into_iter().find(|one| one.name == name).map(Some).ok_or_else(|| {
            let known: Vec<&str> = APPLICATIONS.iter().map(|one| one.name).collect();
            Error::UnknownApplication { name: name.to_owned(), known: format!("bulk, {}", known.join(", ")) }
        })
    }

    /// Duration of a run that should last no longer than `affordable_s`.
    pub(super) fn seconds(&self, affordable_s: f64) -> f64 {
        affordable_s.clamp(SHORTEST * self.seconds, self.seconds)
    }
}

/// Quality of a flow's call or video, from 0 to 1: (MOS − 1)/3.5 of a call; a video's QoE over its highest bitrate, at least 0. NaN
/// for other flows.
pub fn quality(setup: &FlowSetup, result: &FlowResult) -> f64 {
    let (best, worst) = MOS;
    if let Some(call) = &result.call {
        return (call.mos - worst) / (best - worst);
    }
    match (&setup.traffic, &result.video) {
        (Traffic::Video(video), Some(result)) => {
            let highest = video.bitrates.last().map_or(0.0, |rate| rate.as_bits_per_sec() as f64 / 1e3);
            (result.qoe / highest).clamp(0.0, 1.0)
        }
        _ => f64::NAN,
    }
}
