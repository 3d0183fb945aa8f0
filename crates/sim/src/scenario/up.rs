//! The key `up`: the link of the reverse direction, as text and as a link, and the values that a backend refuses.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use bbrlab_core::NANOS_PER_SEC;

use super::aqm::AqmSpec;
use super::flow_options::FlowDirection;
use super::keys::Scenario;
use super::resolve::{Checked, buffer, buffer_bytes};
use super::source::ScenarioError;
use super::support::{Refusal, STACKS, UML};
use super::text::{TextError, as_text};
use super::units::{BitRate, BufferSize, PACKET_BYTES, TimeSpan};
use super::values::{AckHold, Options};
use crate::link::{Aqm, Buffer, LinkConfig};
use crate::setup::Setup;

/// The link of the reverse direction: `rate=1mbit,buffer=50p,aqm=fq_codel`.
#[derive(Clone, Debug, PartialEq)]
pub struct UpLink {
    /// Its rate.
    pub rate: BitRate,
    /// Its queue limit.
    pub buffer: Option<BufferSize>,
    /// Its queue discipline.
    pub aqm: AqmSpec,
    /// True if an ACK that waits is removed when a newer one of its flow arrives.
    pub ack_filter: bool,
}

const UP_FORM: &str = "rate=RATE[,buffer=SIZE][,ack_filter][,aqm=AQM], as in rate=1mbit,buffer=50p";

pub(super) const UP_AQM: Refusal = Refusal {
    on: UML,
    values: "aqm=red:gentle",
    why: "the kernel's RED drops everything above max",
    holds: |setup| match &setup.up.as_ref()?.aqm {
        Aqm::Red(red) if red.gentle => Some("red:gentle".to_owned()),
        _ => None,
    },
    example: &["--up", "rate=1mbit,aqm=red:gentle"],
};

pub(super) const UP_BYTES: Refusal = Refusal {
    on: UML,
    values: "a buffer in bytes, ms or bdp with codel, fq_codel, fq, pie or dualpi2",
    why: "these queues of Linux count packets, and an ACK is a small one; write the buffer in packets, as in buffer=100p",
    holds: |setup| match setup.up.as_deref()? {
        LinkConfig { aqm: Aqm::DropTail | Aqm::Red(_) | Aqm::Cake(_), .. } => None,
        LinkConfig { buffer: Buffer::Bytes(n), .. } => Some(format!("{n} bytes")),
        _ => None,
    },
    example: &["--up", "rate=1mbit,buffer=1bdp,aqm=fq_codel"],
};

pub(super) const ACK_FILTER: Refusal = Refusal {
    on: UML,
    values: "ack_filter",
    why: "CAKE's filter also removes ACKs with SACK blocks, which the simulator keeps",
    holds: ack_filter,
    example: &["--up", "rate=1mbit,ack_filter"],
};

pub(super) const ENCRYPTED_ACKS: Refusal = Refusal {
    on: STACKS,
    values: "ack_filter",
    why: "QUIC packets are encrypted, and a link cannot tell which of them are ACKs",
    holds: ack_filter,
    example: &["--up", "rate=1mbit,ack_filter"],
};

fn ack_filter(setup: &Setup) -> Option<String> {
    setup.up.as_ref().filter(|up| up.ack_filter).map(|_| "ack_filter".to_owned())
}

impl FromStr for UpLink {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        // A discipline has options of its own, so it comes last.
        let (text, aqm) = text.split_once(",aqm=").map_or((text, None), |(text, aqm)| (text, Some(aqm)));
        let options = Options::new(text, UP_FORM, &["rate", "buffer", "ack_filter"])?;
        let link = Self {
            rate: options.need("rate")?,
            buffer: options.get("buffer")?,
            aqm: aqm.map(str::parse).transpose()?.unwrap_or_default(),
            ack_filter: options.switch("ack_filter")?,
        };
        if link.ack_filter && !link.aqm.filters_acks() {
            return Err(TextError(format!(
                "{text:?}: ack_filter works on droptail and cake alone; leave one of them out"
            )));
        }
        Ok(link)
    }
}

impl fmt::Display for UpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate={}", self.rate)?;
        if let Some(buffer) = self.buffer {
            write!(f, ",buffer={buffer}")?;
        }
        f.write_str(if self.ack_filter { ",ack_filter" } else { "" })?;
        if self.aqm != AqmSpec::default() {
            write!(f, ",aqm={}", self.aqm)?;
        }
        Ok(())
    }
}

as_text!(
    UpLink,
    "the reverse direction's link as rate=RATE, and buffer=SIZE, aqm=AQM or ack_filter",
    ["rate=1mbit", "rate=1mbit,buffer=50p,ack_filter", "rate=1mbit,ack_filter,aqm=cake:rtt=50ms"]
);

impl Scenario {
    /// Writes out the defaults of this link. An upload needs one; by default it is like the bottleneck.
    pub(super) fn fill_up(&mut self) {
        let has_upload = self.flow.iter().any(|flow| flow.options.direction == Some(FlowDirection::Up));
        if let (true, None, Some(rate)) = (has_upload, &self.up, self.rate) {
            let (buffer, aqm) = (self.buffer, self.aqm.clone());
            self.up = Some(UpLink { rate, buffer, aqm, ack_filter: false });
        }
        if let Some(mut up) = self.up.take() {
            up.buffer.get_or_insert_with(|| self.buffer_default(up.rate));
            self.up = Some(up);
        }
    }

    /// Link of the reverse direction.
    pub(super) fn resolve_up(&self) -> Checked<Option<Box<LinkConfig>>> {
        let fault = |message: String| ScenarioError::new("up", message);
        let Some(up) = &self.up else { return Ok(None) };
        if self.ack_aggregation != AckHold::None {
            return Err(fault("ACKs that are held meet no queue here; leave up or ack_aggregation out".to_owned()));
        }
        let rate = up.rate.rate();
        let time = self.duration.max(TimeSpan::secs(1));
        if rate.bytes_in(time.span()) < PACKET_BYTES {
            let min = BitRate((8 * PACKET_BYTES * NANOS_PER_SEC).div_ceil(time.0));
            return Err(fault(format!("{} passes no full packet in {time}; write at least {min}", up.rate)));
        }
        let written = up.buffer.unwrap_or_else(|| self.buffer_default(up.rate));
        let buffer = buffer(written, rate, self.full_rtt()).map_err(fault)?;
        let aqm = up.aqm.resolve(buffer_bytes(buffer)).map_err(|error| fault(error.0))?;
        Ok(Some(Box::new(LinkConfig { aqm, ack_filter: up.ack_filter, ..LinkConfig::drop_tail(rate, buffer) })))
    }
}
