//! Conversion of a scenario into a [`Setup`]: fills in defaults, converts units, checks everything.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bbrlab_core::{NANOS_PER_SEC, Rate, Rng, Span, Time};

use super::classes::classify;
use super::flow::{FLOWS_MAX, FlowSpec};
use super::flow_options::{FlowDirection, Window};
use super::host::{MSS_DEFAULT, check_ecn, check_sizes, host};
use super::keys::Scenario;
use super::model::LinkSpec;
use super::presets::Preset;
use super::schedule::{ChangedLink, Schedule};
use super::source::ScenarioError;
use super::units::{BitRate, BufferSize, PACKET_BYTES, TimeSpan};
use crate::apps::probe::PROBE_BYTES;
use crate::link::{Buffer, DeliveryTrace, LinkConfig, Service};
use crate::setup::{AccessSetup, Capture, Change, ChangeKind, FlowSetup, PathSetup, Rwnd, Setup, Traffic};

/// Any error of a [`TraceReader`].
pub type TraceReadError = Box<dyn std::error::Error + Send + Sync>;

/// Reader of trace files, which returns a file's text or an error.
pub type TraceReader<'a> = dyn Fn(&str) -> Result<String, TraceReadError> + 'a;

/// Bottleneck rate if neither a rate nor a trace nor a demand is set.
const RATE_DEFAULT: BitRate = BitRate(10_000_000);
/// Smallest default buffer: an initial window.
const BUFFER_MIN_DEFAULT: BufferSize = BufferSize::Packets(10);
/// Maximum number of bottlenecks in a row. Ours: a segment counts its hops in a byte.
const LINKS_MAX: usize = 250;
/// Write interval of an application that is itself the limit. Ours: of the order of a video encoder's frame.
const WRITE_TICK: Span = Span::millis(10);
/// Part of the seed used for start jitter, so that no other random number depends on it.
const START_STREAM: u64 = 0x7374_6172_7400_0000;
/// Maximum number of points in all series of a run: flows times samples.
const POINTS_MAX: u64 = 100_000_000;
/// Maximum number of probes in a run. Ours: they are kept for the report.
const PROBES_MAX: u64 = 10_000_000;
/// Maximum number of points with a default grid.
const POINTS_DEFAULT: u64 = 3_000_000;

pub(super) type Checked<T> = Result<T, ScenarioError>;

/// A link with its nominal rate.
struct Resolved {
    config: LinkConfig,
    nominal: Rate,
    adjustable: bool,
}

impl Scenario {
    /// Resolves the scenario, which must not use a trace file.
    pub fn resolve(&self) -> Checked<Setup> {
        self.resolve_with(&|file| Err(format!("{file:?} cannot be read here").into()))
    }

    /// Resolves the scenario; `read` returns the text of a trace file.
    pub fn resolve_with(&self, read: &TraceReader<'_>) -> Checked<Setup> {
        let whole = self.filled();
        whole.check_times()?;
        whole.check_top_level()?;
        let links = whole.resolve_links(read)?;
        let rtt = whole.full_rtt();
        let up = whole.resolve_up()?;
        let schedule = whole.resolve_schedule(&links, up.as_deref())?;
        let flows = whole.resolve_flows(links.len())?;
        whole.check_pace(&links)?;
        check_sizes(&links.iter().map(|link| &link.config).collect::<Vec<_>>(), &flows)?;
        let bottleneck = (0..links.len()).min_by_key(|index| links[*index].nominal).unwrap_or(0);
        let mut setup = Setup {
            duration: whole.duration.time(),
            warmup: whole.warmup.time(),
            seed: whole.seed,
            probe: whole.resolve_probe(&links, up.as_deref())?,
            sample: whole.sample_grid(flows.len())?,
            capture: Capture::Off,
            links: links.into_iter().map(|link| link.config).collect(),
            bottleneck,
            up,
            path: PathSetup {
                rtt,
                jitter: whole.jitter.time.span(),
                jitter_reorders: whole.jitter.reorder,
                reorder: whole.reorder.0,
                duplicate: whole.duplicate.0,
                ack_loss: whole.ack_loss.loss(),
                ack_aggregation: whole.ack_aggregation.aggregation(),
            },
            schedule,
            flows,
        };
        classify(&mut setup);
        Ok(setup)
    }

    /// Returns the scenario with its defaults written out, as stored in a result: re-runnable even if defaults change later.
    pub fn filled(&self) -> Self {
        let mut whole = self.clone();
        whole.end_preset();
        if whole.rate.is_none() && whole.trace.is_none() && whole.demand.is_none() {
            let all_say = !whole.link.is_empty() && whole.link.iter().all(LinkSpec::has_service);
            whole.rate = (!all_say).then_some(RATE_DEFAULT);
        }
        if whole.flow.is_empty() && whole.arrivals.is_empty() {
            whole.flow.extend(FlowSpec::of("bbr1"));
        }
        let rtt = whole.full_rtt();
        whole.fill_up();
        // The mean rate of a trace is in its file.
        if whole.buffer.is_none() && whole.link.is_empty() && whole.trace.is_none() {
            let rate = whole.rate.or(whole.demand.map(|demand| demand.max)).unwrap_or(RATE_DEFAULT);
            whole.buffer = Some(self.buffer_default(rate));
        }
        // Without other randomness, flows with equal starts stay in lockstep. Ours: in a round trip, slow start doubles.
        if whole.start_jitter.is_none() && whole.repeat > 1 {
            whole.start_jitter = Some(TimeSpan(rtt.as_nanos()));
        }
        for link in &mut whole.link {
            if link.buffer.is_none() && whole.buffer.is_none() && link.trace.is_none() {
                let rate = link.rate.or(link.demand.map(|demand| demand.max)).or(whole.rate).unwrap_or(RATE_DEFAULT);
                link.buffer = Some(self.buffer_default(rate));
            }
        }
        whole
    }

    /// Leaves the steps of a path's preset out that come after the end: it does not know how long a run lasts.
    fn end_preset(&mut self) {
        let preset = self.path.as_deref().and_then(|name| Preset::named(name).ok());
        let own = preset.and_then(|preset| preset.keys.iter().find(|(key, _)| key == "schedule"));
        if own.and_then(|(_, text)| text.parse::<Schedule>().ok()).is_some_and(|own| own == self.schedule) {
            let duration = self.duration;
            self.schedule.0.retain(|step| step.at < duration);
        }
    }

    /// Returns the path's two-way propagation delay including every link's delay.
    pub(super) fn full_rtt(&self) -> Span {
        Span::nanos(self.link.iter().fold(self.rtt.0, |sum, link| sum.saturating_add(link.delay.0)))
    }

    fn check_times(&self) -> Checked<()> {
        if self.duration < TimeSpan::millis(1) {
            return Err(ScenarioError::new("duration", format!("{} is too short; write at least 1ms", self.duration)));
        }
        if self.warmup >= self.duration {
            let message =
                format!("{} leaves nothing of {} to measure; write less than duration", self.warmup, self.duration);
            return Err(ScenarioError::new("warmup", message));
        }
        if self.rtt.0 < 1000 {
            return Err(ScenarioError::new("rtt", format!("{} is too short; write at least 1us", self.rtt)));
        }
        if self.repeat == 0 || self.repeat > 100_000 {
            return Err(ScenarioError::new("repeat", format!("{} is out of range; write 1 to 100000", self.repeat)));
        }
        Ok(())
    }

    fn check_top_level(&self) -> Checked<()> {
        one_service("", self.rate, self.trace.as_ref(), self.demand.is_some())?;
        if self.link.is_empty() {
            return Ok(());
        }
        let stray = [
            ("loss", self.loss != super::LossModel::None),
            ("policer", self.policer.is_some()),
            ("trace", self.trace.is_some()),
            ("demand", self.demand.is_some()),
        ];
        match stray.iter().find(|(_, written)| *written) {
            Some((key, _)) => {
                Err(ScenarioError::new(*key, "with [[link]] tables it belongs to one of them; write it there"))
            }
            None => Ok(()),
        }
    }

    fn resolve_links(&self, read: &TraceReader<'_>) -> Checked<Vec<Resolved>> {
        if self.link.is_empty() {
            let only = LinkSpec {
                rate: self.rate,
                delay: TimeSpan(0),
                buffer: self.buffer,
                aqm: None,
                policer: self.policer,
                loss: self.loss,
                trace: self.trace.clone(),
                demand: self.demand,
            };
            return Ok(vec![self.resolve_link(&only, "", read)?]);
        }
        if self.link.len() > LINKS_MAX {
            let message = format!("{} links are too many; write at most {LINKS_MAX}", self.link.len());
            return Err(ScenarioError::new("link", message));
        }
        let each = self.link.iter().enumerate();
        each.map(|(index, link)| self.resolve_link(link, &format!("link[{index}]."), read)).collect()
    }

    fn resolve_link(&self, link: &LinkSpec, prefix: &str, read: &TraceReader<'_>) -> Checked<Resolved> {
        let at = |key: &str| format!("{prefix}{key}");
        one_service(prefix, link.rate, link.trace.as_ref(), link.demand.is_some())?;
        let (service, nominal) = match (&link.trace, link.demand) {
            (Some(file), _) => {
                let fault = |message: String| ScenarioError::new(at("trace"), message);
                let text = read(file).map_err(|error| fault(error.to_string()))?;
                let (trace, mean) = delivery_trace(&text).map_err(|error| fault(format!("{file:?}: {error}")))?;
                (Service::Trace(Arc::new(trace)), mean)
            }
            (None, Some(demand)) => (Service::Demand(demand.demand()), demand.max.rate()),
            (None, None) => {
                let rate = link.rate.or(self.rate).unwrap_or(RATE_DEFAULT).rate();
                (Service::Rate(rate), rate)
            }
        };
        let default = || self.buffer_default(BitRate(nominal.as_bits_per_sec()));
        let written = link.buffer.or(self.buffer).unwrap_or_else(default);
        let key = if link.buffer.is_some() { at("buffer") } else { "buffer".to_owned() };
        let buffer = buffer(written, nominal, self.full_rtt()).map_err(|message| ScenarioError::new(key, message))?;
        let aqm_key = if link.aqm.is_some() { at("aqm") } else { "aqm".to_owned() };
        let aqm = link.aqm.as_ref().unwrap_or(&self.aqm).resolve(buffer_bytes(buffer));
        let config = LinkConfig {
            service,
            buffer,
            aqm: aqm.map_err(|error| ScenarioError::new(aqm_key, error.0))?,
            policer: link.policer.map(super::TokenBucket::policer),
            loss: link.loss.loss(),
            ack_filter: false,
        };
        Ok(Resolved { adjustable: matches!(config.service, Service::Rate(_)), config, nominal })
    }

    /// Buffer of a link for which none is written.
    pub(super) fn buffer_default(&self, rate: BitRate) -> BufferSize {
        match rate.rate().bytes_in(self.full_rtt()) < 10 * PACKET_BYTES {
            true => BUFFER_MIN_DEFAULT,
            false => BufferSize::Bdp(1.0),
        }
    }

    fn resolve_schedule(&self, links: &[Resolved], up: Option<&LinkConfig>) -> Checked<Vec<Change>> {
        let up = up.map(|link| link.service.nominal_rate());
        let mut rates: Vec<Rate> = links.iter().map(|link| link.nominal).chain(up).collect();
        let added = self.full_rtt().as_nanos() - self.rtt.0;
        let mut rtt = self.full_rtt();
        let mut changes = Vec::new();
        for (nth, step) in self.schedule.0.iter().enumerate() {
            let fault = |message: String| ScenarioError::new("schedule", format!("step {step}: {message}"));
            if step.at >= self.duration {
                let message = format!("it comes after the end at {}; write an earlier time", self.duration);
                return Err(fault(message));
            }
            if let Some(key) = self.schedule.0[..nth].iter().find_map(|earlier| earlier.also_sets(step)) {
                return Err(fault(format!("{key} changes at {} already; write it once", step.at)));
            }
            let link = match step.changed() {
                ChangedLink::Number(number) => number as usize - 1,
                ChangedLink::Up => links.len(),
            };
            let (is_up, fixed) = (step.changed() == ChangedLink::Up, links.get(link).map(|link| link.adjustable));
            if is_up && up.is_none() {
                return Err(fault("the reverse direction has no link; write up too, as in up=rate=1mbit".to_owned()));
            }
            if !is_up && fixed.is_none() {
                return Err(fault(format!("there is no link {}; the path has {}", link + 1, links.len())));
            }
            if is_up && step.loss.is_some() {
                return Err(fault("the link of up has no random loss; write ack_loss".to_owned()));
            }
            let mut push = |what| changes.push(Change { at: step.at.time(), link, what });
            if let Some(new) = step.rate {
                if fixed == Some(false) {
                    return Err(fault("a trace or a demand sets this link's rate; leave rate out".to_owned()));
                }
                rates[link] = new.rate();
                push(ChangeKind::Rate(new.rate()));
            }
            if let Some(new) = step.rtt {
                if new.0 < 1000 {
                    return Err(fault(format!("an rtt of {new} is too short; write at least 1us")));
                }
                rtt = Span::nanos(new.0.saturating_add(added));
                push(ChangeKind::Rtt(rtt));
            }
            if let Some(new) = step.buffer {
                push(ChangeKind::Buffer(buffer(new, rates[link], rtt).map_err(fault)?));
            }
            if let Some(new) = step.loss {
                push(ChangeKind::Loss(new.loss()));
            }
            if let Some(new) = step.ack_loss {
                push(ChangeKind::AckLoss(new.loss()));
            }
        }
        Ok(changes)
    }

    /// Checks that a link passes a packet within the run, or within a second for shorter runs. Otherwise nothing is measured.
    fn check_pace(&self, links: &[Resolved]) -> Checked<()> {
        if self.schedule.0.iter().any(|step| step.rate.is_some()) {
            return Ok(());
        }
        for (index, link) in links.iter().enumerate() {
            let Service::Rate(rate) = link.config.service else { continue };
            let time = self.duration.max(TimeSpan::secs(1));
            if rate.bytes_in(time.span()) < PACKET_BYTES {
                let key = match self.link.get(index) {
                    Some(link) if link.rate.is_some() => format!("link[{index}].rate"),
                    _ => "rate".to_owned(),
                };
                let written = BitRate(rate.as_bits_per_sec());
                let min = BitRate((8 * PACKET_BYTES * NANOS_PER_SEC).div_ceil(time.0));
                return Err(ScenarioError::new(
                    key,
                    format!("{written} passes no full packet in {time}; write at least {min}, or a longer duration"),
                ));
            }
        }
        Ok(())
    }

    /// Interval of the probe, whose packets alone must not fill a link.
    fn resolve_probe(&self, links: &[Resolved], up: Option<&LinkConfig>) -> Checked<Option<Span>> {
        let Some(interval) = self.probe else { return Ok(None) };
        let fault = |message: String| Err(ScenarioError::new("probe", message));
        if self.duration.0.checked_div(interval.0).is_none_or(|probes| probes > PROBES_MAX) {
            let min = TimeSpan((self.duration.0 / PROBES_MAX).max(1_000).next_multiple_of(1_000));
            return fault(format!("{interval} makes more than {PROBES_MAX} probes; write at least {min}"));
        }
        let up = up.map(|link| link.service.nominal_rate());
        let Some(slowest) = links.iter().map(|link| link.nominal).chain(up).min() else {
            return Ok(Some(interval.span()));
        };
        if slowest.bytes_in(interval.span()) < PROBE_BYTES.into() {
            let min =
                TimeSpan(slowest.time_for(PROBE_BYTES.into()).as_micros().saturating_add(1).saturating_mul(1_000));
            let rate = BitRate(slowest.as_bits_per_sec());
            return fault(format!(
                "packets of {PROBE_BYTES} B every {interval} are faster than the link's {rate}; write at least {min}"
            ));
        }
        Ok(Some(interval.span()))
    }

    fn sample_grid(&self, flows: usize) -> Checked<Option<Span>> {
        let Some(sample) = self.sample else {
            // Whole milliseconds, so that the grid includes the full seconds that metrics and people use.
            let points = (POINTS_DEFAULT / (flows as u64).max(1)).clamp(1, 6000);
            let grid = self.duration.0.div_ceil(points).div_ceil(1_000_000);
            return Ok(Some(Span::millis(grid.max(1))));
        };
        if sample.0 == 0 {
            return Ok(None);
        }
        if (self.duration.0 / sample.0).saturating_mul(flows as u64) > POINTS_MAX {
            let message = format!(
                "{sample} makes more than {POINTS_MAX} points, over all flows ({flows}); write a coarser grid or 0s"
            );
            return Err(ScenarioError::new("sample", message));
        }
        Ok(Some(sample.span()))
    }

    fn resolve_flows(&self, links: usize) -> Checked<Vec<FlowSetup>> {
        let mut flows = Vec::new();
        let mut names = Names::default();
        for (index, spec) in self.flow.iter().enumerate() {
            let fault = |message: String| ScenarioError::new(format!("flow[{index}]"), message);
            if let Some(name) = &spec.options.name
                && let Some(other) = self.flow[..index].iter().position(|flow| flow.options.name.as_ref() == Some(name))
            {
                return Err(fault(format!("name: flow {} is called {name:?} already; write another name", other + 1)));
            }
            if flows.len() as u64 + u64::from(spec.count) > FLOWS_MAX {
                return Err(fault(format!("makes more than {FLOWS_MAX} flows; write fewer")));
            }
            for nth in 0..spec.count {
                let start = spec.start.0.saturating_add(spec.step.0.saturating_mul(nth.into()));
                let traffic = spec.options.size.map(|size| size.0);
                let name = names.next(spec).map_err(fault)?;
                let mut flow = self.resolve_flow(spec, name, start, traffic, links).map_err(fault)?;
                flow.start = self.jittered(&flow, flows.len() as u64);
                flows.push(flow);
            }
        }
        for (index, arrivals) in self.arrivals.iter().enumerate() {
            let fault = |message: String| ScenarioError::new(format!("arrivals[{index}]"), message);
            let room = FLOWS_MAX - flows.len() as u64;
            let drawn = arrivals.draw(self.seed, index as u64, self.duration, room);
            for (start, size) in drawn.map_err(|error| fault(error.0))? {
                let name = names.next(&arrivals.flow).map_err(fault)?;
                flows.push(self.resolve_flow(&arrivals.flow, name, start, Some(size), links).map_err(fault)?);
            }
        }
        Ok(flows)
    }

    /// Start of the flow with its jitter, before its stop and the end of the run.
    fn jittered(&self, flow: &FlowSetup, index: u64) -> Time {
        let end = flow.stop.unwrap_or(Time::NEVER).min(self.duration.time());
        let room = end.since(flow.start).as_nanos();
        let max = self.start_jitter.map_or(0, |jitter| jitter.0).min(room);
        if max == 0 {
            return flow.start;
        }
        flow.start + Span::nanos(Rng::derive(self.seed, START_STREAM + index).below(max))
    }

    fn resolve_flow(
        &self,
        spec: &FlowSpec,
        name: String,
        start: u64,
        size: Option<u64>,
        links: usize,
    ) -> Result<FlowSetup, String> {
        let options = &spec.options;
        if start >= self.duration.0 {
            return Err(format!(
                "{name} starts at {}, after the end at {}; start it earlier",
                TimeSpan(start),
                self.duration
            ));
        }
        if let Some(stop) = options.stop.filter(|stop| stop.0 <= start) {
            return Err(format!("{name} stops at {stop}, before its start at {}; stop it later", TimeSpan(start)));
        }
        if let Some(peer) = spec.peer.filter(|peer| self.on.stack() != Some(peer.stack)) {
            return Err(format!("{} runs in its own stack alone; use --on quic:{}", peer.name, peer.stack.name()));
        }
        check_ecn(spec)?;
        let mss = options.mss.unwrap_or(MSS_DEFAULT);
        let (first, last) = options.links.map_or((0, links), |(first, last)| (first as usize - 1, last as usize));
        if last > links {
            return Err(format!("links={}..{last}: the path has {links}; write links=1..{links} or less", first + 1));
        }
        let added: u64 = self.link.get(first..last).map_or(0, |links| links.iter().map(|link| link.delay.0).sum());
        let own_rtt = options.rtt.unwrap_or(self.rtt).0.saturating_add(added);
        let rtt = (options.rtt.is_some() || own_rtt != self.full_rtt().as_nanos()).then_some(Span::nanos(own_rtt));
        let is_upload = options.direction == Some(FlowDirection::Up);
        if is_upload && self.up.is_none() {
            return Err("direction=up: the bottleneck has no rate from which the link of uploads could have its own; write --up rate=RATE".to_owned());
        }
        if is_upload && options.access.is_some() {
            return Err("access: it leads to the bottleneck, which an upload does not cross; leave it out".to_owned());
        }
        let access = options.access.map(|access| {
            let queue = buffer(access.buffer, access.rate.rate(), Span::nanos(own_rtt.saturating_add(access.rtt.0)))?;
            Ok::<_, String>(AccessSetup { rate: access.rate.rate(), rtt: access.rtt.span(), buffer: queue })
        });
        Ok(FlowSetup {
            name,
            algorithm: spec.algorithm,
            peer: spec.peer,
            external: None,
            is_tcp: spec.is_tcp,
            start: Time::nanos(start),
            stop: options.stop.map(TimeSpan::time),
            rtt,
            links: (first, last),
            is_upload,
            access: access.transpose().map_err(|error| format!("access: {error}"))?,
            mss,
            rwnd: match options.rwnd {
                None => Rwnd::Unlimited,
                Some(Window::Fixed(volume)) => Rwnd::Fixed(volume.0),
                Some(Window::Auto(volume)) => Rwnd::Auto(volume.0),
            },
            traffic: traffic(spec, size),
            deadline: options.deadline.map(TimeSpan::span),
            host: host(spec),
            dscp: options.dscp.unwrap_or_default().0,
            shared_host: options.host,
        })
    }
}

impl LinkSpec {
    const fn has_service(&self) -> bool {
        self.rate.is_some() || self.trace.is_some() || self.demand.is_some()
    }
}

/// Generator of flow names: the flow's own, or its algorithm's with a number that counts over the scenario.
#[derive(Default)]
struct Names {
    counts: BTreeMap<String, u64>,
    taken: BTreeSet<String>,
}

impl Names {
    fn next(&mut self, spec: &FlowSpec) -> Result<String, String> {
        let name = match &spec.options.name {
            Some(name) if spec.count == 1 && !self.counts.contains_key(name) => {
                self.counts.insert(name.clone(), 1);
                name.clone()
            }
            name => {
                let base = name.as_deref().unwrap_or(spec.name());
                let count = self.counts.entry(base.to_owned()).or_insert(0);
                *count += 1;
                format!("{base}#{}", *count - 1)
            }
        };
        if !self.taken.insert(name.clone()) {
            return Err(format!("a flow called {name:?} already exists; write another name"));
        }
        Ok(name)
    }
}

fn traffic(spec: &FlowSpec, size: Option<u64>) -> Traffic {
    let options = &spec.options;
    if let Some(size) = size {
        return Traffic::Size(size);
    }
    if let Some((on, off)) = options.on.zip(options.off) {
        return Traffic::OnOff { on: on.span(), off: off.span() };
    }
    if let Some((size, think)) = options.request {
        return Traffic::RequestResponse { size: size.0, think: think.span() };
    }
    if let Some(video) = &options.video {
        return Traffic::Video(Arc::new(video.setup()));
    }
    if let Some(page) = options.page {
        return Traffic::Page(page.setup());
    }
    if let Some(call) = options.call {
        return Traffic::Call(call.setup());
    }
    match options.rate {
        Some(rate) => Traffic::Rate { rate: rate.rate(), tick: WRITE_TICK, unit: 1 },
        None => Traffic::Bulk,
    }
}

fn one_service(prefix: &str, rate: Option<BitRate>, trace: Option<&String>, demand: bool) -> Checked<()> {
    let key = if trace.is_some() { "trace" } else { "demand" };
    if usize::from(rate.is_some()) + usize::from(trace.is_some()) + usize::from(demand) > 1 {
        return Err(ScenarioError::new(
            format!("{prefix}{key}"),
            "rate, trace and demand exclude each other; write one",
        ));
    }
    Ok(())
}

/// Resolves a buffer at this rate and round-trip time; BDP and drain time become bytes.
pub(super) fn buffer(written: BufferSize, rate: Rate, rtt: Span) -> Result<Buffer, String> {
    let bytes = match written {
        BufferSize::Packets(packets) => return Ok(Buffer::Packets(packets)),
        BufferSize::Bytes(volume) => volume.0,
        BufferSize::Bdp(bdps) => (bdps * rate.bytes_in(rtt) as f64).round() as u64,
        BufferSize::Drain(time) => rate.bytes_in(time.span()),
    };
    if bytes < PACKET_BYTES {
        let at = format!("{} and {}", BitRate(rate.as_bits_per_sec()), TimeSpan(rtt.as_nanos()));
        return Err(format!("{written} is {bytes} B at {at}, less than one packet; write at least 1p or 1514B"));
    }
    Ok(Buffer::Bytes(bytes))
}

pub(super) const fn buffer_bytes(buffer: Buffer) -> u64 {
    match buffer {
        Buffer::Packets(packets) => packets.saturating_mul(PACKET_BYTES),
        Buffer::Bytes(bytes) => bytes,
    }
}

/// Parses a delivery trace and returns it with its mean rate.
fn delivery_trace(text: &str) -> Result<(DeliveryTrace, Rate), String> {
    let trace = DeliveryTrace::parse(text).map_err(|error| error.to_string())?;
    let mean = trace.mean_rate();
    Ok((trace, mean))
}
