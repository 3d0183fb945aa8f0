//! Requests of the page, in native code.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_web::{FLOW_FIELDS, HEAD_FIELDS, NOTE_FIELDS, PACKET_FIELDS, Page};
use serde_json::{Value, json};

fn asked(page: &mut Page, request: &Value) -> Value {
    page.call(request.to_string().as_bytes());
    serde_json::from_slice(&page.reply).unwrap()
}

fn given() -> Value {
    json!({"keys": [["rate", "20mbit"], ["rtt", "40ms"], ["buffer", "20p"], ["duration", "5s"]], "flows": ["bbr3", "cubic"]})
}

fn created(request: &Value) -> Page {
    let mut page = Page::default();
    let created = asked(&mut page, &json!({"op": "create", "run": 0, "given": request, "hand": null}));
    assert_eq!(created, json!({}));
    page
}

#[test]
fn a_frame_holds_head_flows_packets_and_notes() {
    let mut page = created(&given());
    let reply = asked(&mut page, &json!({"op": "advance", "run": 0, "until_ns": 1e9, "packets": true}));
    assert_eq!(reply, json!({"now_ns": 1e9, "over": false}));
    let frame = &page.frame;
    let length = HEAD_FIELDS + 2 * FLOW_FIELDS + frame[2] as usize * PACKET_FIELDS + frame[3] as usize * NOTE_FIELDS;
    assert!(
        frame[0] == 1e9 && frame[1] == 2.0 && frame[2] > 20.0 && frame.len() == length,
        "{:?}",
        &frame[..HEAD_FIELDS]
    );
    let packets = &frame[HEAD_FIELDS + 2 * FLOW_FIELDS..][..frame[2] as usize * PACKET_FIELDS];
    let queued = packets.chunks(PACKET_FIELDS).filter(|packet| packet[1] == 0.0).count();
    assert_eq!(queued as f64, frame[4], "packets in the queue");
}

#[test]
fn the_packets_of_every_queue_discipline_are_those_of_its_counter() {
    for aqm in ["droptail", "red", "codel", "fq_codel", "cake", "pie"] {
        let keys = json!([
            ["rate", "10mbit"],
            ["buffer", "60p"],
            ["aqm", aqm],
            ["loss", "0.5%"],
            ["ack_loss", "1%"],
            ["duration", "5s"]
        ]);
        let mut page = created(&json!({"keys": keys, "flows": ["bbr1", "cubic*2"]}));
        for step in 1..50 {
            asked(&mut page, &json!({"op": "advance", "run": 0, "until_ns": f64::from(step) * 1e8, "packets": true}));
            let frame = &page.frame;
            let packets =
                frame[HEAD_FIELDS + 3 * FLOW_FIELDS..][..frame[2] as usize * PACKET_FIELDS].chunks(PACKET_FIELDS);
            let queued = packets.filter(|packet| packet[1] == 0.0).count();
            assert_eq!(queued as f64, frame[4], "{aqm} at {} ns", frame[0]);
        }
    }
}

#[test]
fn a_step_ends_at_its_event() {
    let mut page = created(&given());
    let mut before = 0.0;
    for what in ["packet", "ack", "round", "round"] {
        let reply = asked(&mut page, &json!({"op": "step", "run": 0, "flow": 0, "what": what}));
        let now = reply["now_ns"].as_f64().unwrap();
        assert!(now >= before && now < 1e9, "{what}: {now}");
        before = now;
    }
    assert_eq!(page.frame[HEAD_FIELDS + 9], 2.0, "rounds");
}

#[test]
fn a_hand_sets_the_rate_and_its_inputs_repeat() {
    let mut received = Vec::new();
    for inputs in [json!([]), json!([[0, 8e6], [1e9, 2e6]])] {
        let mut page = Page::default();
        let flow = json!({"keys": [["rate", "20mbit"], ["duration", "2s"]], "flows": ["fixed"]});
        asked(&mut page, &json!({"op": "create", "run": 1, "given": flow, "hand": 0, "inputs": inputs}));
        if inputs == json!([]) {
            asked(&mut page, &json!({"op": "hand", "run": 1, "at_ns": 0, "rate_bps": 8e6}));
            asked(&mut page, &json!({"op": "advance", "run": 1, "until_ns": 0.9e9, "packets": false}));
            asked(&mut page, &json!({"op": "hand", "run": 1, "at_ns": 1e9, "rate_bps": 2e6}));
        }
        asked(&mut page, &json!({"op": "advance", "run": 1, "until_ns": 2e9, "packets": true}));
        received.push(page.frame[HEAD_FIELDS + 24]);
    }
    assert!(received[0] == received[1] && (9e6..10.5e6).contains(&received[0]), "{received:?}");
}

#[test]
fn a_bad_request_is_one_line() {
    let mut page = Page::default();
    for (request, part) in [
        (json!({"op": "fly"}), "not a request"),
        (json!({"op": "advance", "run": 7, "until_ns": 1, "packets": true}), "there is no run 7"),
        (json!({"op": "check", "given": {"keys": [["rte", "1"]]}}), "no key \"rte\"; did you mean rate?"),
        (json!({"op": "check", "given": {"keys": [["repeat", "2"]]}}), "--repeat: a page shows one seed"),
        (json!({"op": "check", "given": {"json": "{"}}), "json: EOF"),
    ] {
        let reply = asked(&mut page, &request);
        let line = reply["error"].as_str().unwrap();
        assert!(line.contains(part) && !line.contains('\n'), "{line}");
    }
}
