//! Simulation of one user under one algorithm: a small run. The random numbers do not depend on the algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Span};

use super::file::with_options;
use super::{ObjectOutcome, User, UserRun};
use crate::{Error, Result};
use bbrlab_sim::engine;
use bbrlab_sim::scenario::{FlowSpec, Scenario, TimeSpan};
use bbrlab_sim::setup::{Object, Setup, Traffic};

/// Simulates the user under this algorithm.
pub(super) fn life(user: &User, algorithm: &str) -> Result<UserRun> {
    let setup = setup(user, algorithm)?;
    let (output, times) = engine::run_exchanges(&setup);
    let first = setup.flows.len() - user.connections.len();
    // The run may have ended at the last object, so the latest time comes from the setup.
    let end_s = user.path.life.as_secs();
    let own = &output.result.flows[first..];
    let bytes: f64 = own.iter().map(|flow| flow.bytes as f64).sum();
    let again: f64 = own.iter().map(|flow| flow.retransmit_ratio * flow.bytes as f64).sum();
    let rivals = &output.result.flows[..first];
    let connections = user.connections.iter().zip(&times[first..]);
    Ok(UserRun {
        connections: connections.map(|(objects, times)| served(objects, times, end_s)).collect(),
        retransmit_ratio: if bytes > 0.0 { again / bytes } else { 0.0 },
        rtt_ms: own.first().and_then(|flow| flow.rtt_ms.as_ref()).map_or(0.0, |rtt| rtt.p50),
        rivals_bps: (!rivals.is_empty()).then(|| output.result.goodput_bps(rivals)),
    })
}

fn setup(user: &User, algorithm: &str) -> Result<Setup> {
    let path = &user.path;
    let mut flow: FlowSpec = with_options(algorithm, &path.options).parse().map_err(Error::at(algorithm))?;
    flow.start = path.lead;
    flow.options.name = Some("user".to_owned());
    flow.count = u32::try_from(user.connections.len()).unwrap_or(u32::MAX);
    let scenario = Scenario {
        rate: Some(path.rate),
        rtt: path.rtt,
        buffer: Some(path.buffer),
        loss: path.loss,
        flow: path.rivals.iter().cloned().chain([flow]).collect(),
        duration: TimeSpan(path.lead.0 + path.life.0),
        // The rivals' traffic before the user arrives must not count.
        warmup: path.lead,
        sample: Some(TimeSpan(0)),
        ..Scenario::default()
    };
    let mut setup = scenario.resolve()?;
    setup.seed = user.seed;
    let first = setup.flows.len() - user.connections.len();
    for (flow, objects) in setup.flows[first..].iter_mut().zip(&user.connections) {
        flow.traffic = Traffic::Objects(objects.as_slice().into());
    }
    Ok(setup)
}

/// Objects requested before the connection ended; the last one may be incomplete.
fn served(objects: &[Object], times: &[Span], end_s: f64) -> Vec<ObjectOutcome> {
    let mut age_s = 0.0;
    let mut served = Vec::with_capacity(times.len() + 1);
    for (nth, object) in objects.iter().enumerate() {
        if nth > 0 {
            age_s += secs(object.pause);
        }
        if age_s >= end_s {
            break;
        }
        let Some(&time) = times.get(nth) else {
            served.push(ObjectOutcome { age_s, time_s: end_s - age_s, is_whole: false });
            break;
        };
        served.push(ObjectOutcome { age_s, time_s: secs(time), is_whole: true });
        age_s += secs(time);
    }
    served
}

fn secs(span: Span) -> f64 {
    span.as_nanos() as f64 / NANOS_PER_SEC as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdn::Population;

    fn user(more: &str) -> User {
        let text = format!(
            "users = 1\n[[class]]\nname = 'a'\nrate = '10mbit'\nrtt = '40ms'\nsize = '100kB'\nobjects = 3\npause = '1s'\n{more}"
        );
        Population::parse(&text).unwrap().draw(1).remove(0)
    }

    #[test]
    fn objects_follow_each_other_with_their_pauses() {
        let life = life(&user(""), "cubic").unwrap();
        let [first, second, third] = life.connections[0][..] else { panic!("{life:?}") };
        assert!(first.time_s > 0.12 && first.time_s < 0.4, "{first:?}");
        assert!((second.age_s - first.time_s - 1.0).abs() < 1e-9);
        assert!(third.is_whole && third.time_s < first.time_s, "no handshake: {third:?}");
    }

    #[test]
    fn what_a_life_is_too_short_for_is_not_whole_or_not_there() {
        let life = life(&user("life = '1300ms'\n"), "bbr1").unwrap();
        let objects = &life.connections[0];
        assert_eq!(objects.iter().map(|object| object.is_whole).collect::<Vec<_>>(), [true, false]);
        assert!((objects[1].age_s + objects[1].time_s - 1.3).abs() < 1e-9);
    }

    #[test]
    fn rivals_count_by_what_they_get_while_the_user_is_served() {
        assert_eq!(life(&user(""), "bbr1").unwrap().rivals_bps, None);
        let beside = |algorithm: &str| {
            let more = "rivals = ['cubic']\nbuffer = '0.3bdp'\n";
            let user = user(&more.replace("rivals", "parallel = 4\nrivals"));
            life(&user, algorithm).unwrap().rivals_bps.unwrap()
        };
        let (bbr1, cubic) = (beside("bbr1"), beside("cubic"));
        assert!(bbr1 > 0.0 && bbr1 < cubic && cubic < 10e6, "{bbr1} {cubic}");
    }

    #[test]
    fn connections_at_once_and_rivals_share_the_bottleneck() {
        let alone = life(&user(""), "bbr1").unwrap();
        let crowded = life(&user("parallel = 4\nrivals = ['cubic']\n"), "bbr1").unwrap();
        assert_eq!(crowded.connections.len(), 4);
        assert!(crowded.connections[3][0].time_s > 1.5 * alone.connections[0][0].time_s);
    }
}
