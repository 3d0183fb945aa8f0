//! Estimates from captures that begin late, are out of order, recorded twice, cut short or encapsulated.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_report::export::pcap;
use bbrlab_sim::engine;
use bbrlab_sim::record::packets::Tap;
use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_sim::setup::Capture;

use super::*;

/// Address of the data's sender in a simulated capture.
const SENDER: [u8; 4] = [10, 0, 0, 1];
/// Link layer of a file: Ethernet.
const ETHERNET: u8 = 1;
const MS: u64 = 1_000_000;

/// A captured frame of Ethernet, IPv4 and TCP.
#[derive(Clone, Debug)]
struct Frame {
    t_ns: u64,
    bytes: Vec<u8>,
    length: u32,
}

impl Frame {
    fn long(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    fn seq(&self) -> u32 {
        self.long(38)
    }

    fn is_of_sender(&self) -> bool {
        self.bytes[26..30] == SENDER
    }

    /// Payload bytes of the data's sender.
    fn data(&self) -> u32 {
        let headers = 34 + u32::from(self.bytes[46] >> 4) * 4;
        if self.is_of_sender() { self.length - headers } else { 0 }
    }

    fn set_data(&mut self, bytes: u32) {
        let more = bytes - self.data();
        self.length += more;
        self.bytes[16..18].copy_from_slice(&((self.length - 14) as u16).to_be_bytes());
    }
}

/// Packets of a simulated run at one place.
fn frames(text: &str, at: Tap) -> Vec<Frame> {
    let mut setup = ScenarioFile::from_toml(text, "x").unwrap().resolve(&|_| unreachable!("no trace")).unwrap();
    setup.capture = Capture::On { limit: usize::MAX, taps: &Tap::ALL };
    let (mut bytes, mut frames) = (Vec::new(), Vec::new());
    pcap::write(&engine::run(&setup).packets.records, &[at], ["a"].into_iter(), "", &mut bytes).unwrap();
    packets::read(bytes.as_slice(), |one| {
        frames.push(Frame { t_ns: one.t_ns + 1_000_000 * MS, bytes: one.bytes.to_vec(), length: one.length });
    })
    .unwrap();
    frames
}

/// A pcap file with nanoseconds.
fn file(frames: &[Frame], link: u8, snaplen: usize) -> Vec<u8> {
    let mut file = vec![0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, link, 0, 0, 0];
    for one in frames {
        let bytes = &one.bytes[..one.bytes.len().min(snaplen)];
        let times = [one.t_ns / 1_000_000_000, one.t_ns % 1_000_000_000, bytes.len() as u64, one.length.into()];
        times.iter().for_each(|value| file.extend((*value as u32).to_le_bytes()));
        file.extend(bytes);
    }
    file
}

fn paths(frames: &[Frame]) -> Paths {
    read(file(frames, ETHERNET, usize::MAX).as_slice()).unwrap()
}

fn is_near(found: f64, truth: f64, share: f64) -> bool {
    (found / truth - 1.0).abs() < share
}

/// Merges segments sent at one time, up to a number of them, as the sender's offload leaves them.
fn merged(frames: &[Frame], most: u32) -> Vec<Frame> {
    let mut all: Vec<Frame> = Vec::new();
    for one in frames {
        match all.last_mut() {
            Some(last)
                if one.data() > 0
                    && last.data() > 0
                    && last.t_ns == one.t_ns
                    && last.seq().wrapping_add(last.data()) == one.seq()
                    && last.data() + one.data() <= most * 1448 =>
            {
                last.set_data(last.data() + one.data());
            }
            _ => all.push(one.clone()),
        }
    }
    all
}

#[test]
fn frames_of_several_segments_without_a_handshake_multiply_no_loss() {
    let text = "rate = '50mbit'\nrtt = '40ms'\nloss = '1%'\nduration = '8s'\nflow = ['bbr1']\n";
    let all = frames(text, Tap::Sender);
    for most in [2, 4, 6, 44] {
        let own = paths(&merged(&all, most)[2000..]).paths.remove(0);
        let again = own.retransmitted_bytes / own.sent_bytes;
        let lost: f64 = own.losses.iter().map(|one| one.ratio).sum();
        assert!(own.mss == 1448 && lost > 0.8 * again && lost <= again && own.loss_ratio <= again, "{most}: {own:?}");
        assert!(is_near(own.rate.as_ref().unwrap().bps, 50e6, 0.02), "{most}: {own:?}");
    }
}

const PLAIN: &str = "rate = '20mbit'\nrtt = '40ms'\nbuffer = '1bdp'\nduration = '8s'\nflow = ['cubic']\n";

/// Requires base RTT and rate of the plain path.
fn check_plain(paths: &Paths, name: &str) {
    let own = &paths.paths[0];
    let (rate, rtt) = (own.rate.as_ref().unwrap(), own.rtt.as_ref().unwrap());
    assert!(is_near(rate.bps, 20e6, 0.01) && is_near(rtt.base_ms, 40.0, 0.01), "{name}: {own:?}");
    assert_eq!(own.vantage, Vantage::Sender, "{name}");
    assert_eq!(own.main_loss(), Some(LossKind::TailDrop), "{name}: {own:?}");
    assert!(own.losses[0].ratio < 0.005 && own.retransmitted_bytes < 0.005 * own.sent_bytes, "{name}: {own:?}");
}

#[test]
fn a_clock_that_is_set_back_gives_no_rtt_and_a_note() {
    let all = frames(PLAIN, Tap::Sender);
    let half = all.len() / 2;
    let back = |range: std::ops::Range<usize>, by_ns: u64| {
        let mut all = all.clone();
        all[range].iter_mut().for_each(|one| one.t_ns -= by_ns);
        all
    };
    for nth in half..half + 6 {
        for by_ns in [20 * MS, 1000 * MS] {
            let found = paths(&back(nth..nth + 1, by_ns));
            check_plain(&found, "one packet");
            assert!(found.notes[0].contains("the clock is set back 1 time;"), "{:?}", found.notes);
            assert!(found.paths[0].rtt.as_ref().unwrap().max_ms < 90.0, "{nth} {found:?}");
        }
    }
    check_plain(&paths(&back(half..all.len(), 1000 * MS)), "all behind it");
    check_plain(&paths(&back(half..all.len(), 30 * MS)), "all behind it");
}

#[test]
fn packets_out_of_order_in_the_file_are_put_in_order() {
    let mut all = frames(PLAIN, Tap::Sender);
    let whole = paths(&all).paths;
    let mut rng = bbrlab_core::Rng::new(5);
    let mut keyed: Vec<_> = all.iter().map(|one| (one.t_ns + rng.below(50_000), one.clone())).collect();
    keyed.sort_by_key(|one| one.0);
    all = keyed.into_iter().map(|one| one.1).collect();
    let found = paths(&all);
    check_plain(&found, "up to 50 µs");
    let mut newest_ns = 0;
    stream::read(file(&all, ETHERNET, usize::MAX).as_slice(), |t_ns, _| {
        assert!(t_ns >= newest_ns);
        newest_ns = t_ns;
    })
    .unwrap();
    assert!(found.notes[0].contains("behind a later one"), "{:?}", found.notes);
    assert!(is_near(found.paths[0].delivered_bytes, whole[0].delivered_bytes, 0.001));
}

#[test]
fn packets_recorded_twice_count_once() {
    let all = frames(PLAIN, Tap::Sender);
    let numbered = |one: &Frame, nth: usize| {
        let mut one = one.clone();
        one.bytes[18..20].copy_from_slice(&(nth as u16).to_be_bytes());
        one
    };
    for (after_ns, has_number) in [(0, false), (20_000, false), (0, true), (500_000, true)] {
        let mut twice: Vec<Frame> = Vec::new();
        for (nth, one) in all.iter().enumerate() {
            let one = if has_number { numbered(one, nth) } else { one.clone() };
            twice.extend([one.clone(), Frame { t_ns: one.t_ns + after_ns, ..one }]);
        }
        twice.sort_by_key(|one| one.t_ns);
        let found = paths(&twice);
        check_plain(&found, "twice");
        assert!(found.notes[0].contains("recorded twice"), "{:?}", found.notes);
    }
    // Repeated by the host a millisecond later: a retransmission, under another number.
    let mut again: Vec<Frame> = Vec::new();
    for (nth, one) in all.iter().enumerate() {
        again.extend([numbered(one, 2 * nth), Frame { t_ns: one.t_ns + 500_000, ..numbered(one, 2 * nth + 1) }]);
    }
    again.sort_by_key(|one| one.t_ns);
    let own = &paths(&again).paths[0];
    assert!(is_near(own.retransmitted_bytes, own.sent_bytes / 2.0, 0.05), "{own:?}");
}

#[test]
fn a_snaplen_within_the_options_leaves_the_receive_window_unknown() {
    let all = frames(PLAIN, Tap::Sender);
    let cut = |snaplen| read(file(&all, ETHERNET, snaplen).as_slice());
    let found = cut(68).unwrap();
    check_plain(&found, "68 bytes");
    assert!(found.paths[0].receiver_limited.is_none() && found.notes[0].contains("TCP's options"), "{found:?}");
    assert!(found.paths[0].unknown.iter().any(|one| one.contains("are cut")), "{found:?}");
    assert!(cut(40).unwrap_err().to_string().contains("cut within the headers"));
    assert!(cut(80).unwrap().paths[0].receiver_limited.is_some());
}

#[test]
fn vlan_tags_in_cooked_frames_and_pppoe_are_read_and_tunnels_noted() {
    let all = frames(PLAIN, Tap::Sender);
    let with = |head: &dyn Fn(&Frame) -> Vec<u8>| -> Vec<Frame> {
        let one = |one: &Frame| {
            let bytes = [&head(one)[..], &one.bytes[14..]].concat();
            Frame { length: one.length + bytes.len() as u32 - one.bytes.len() as u32, bytes, ..*one }
        };
        all.iter().map(one).collect()
    };
    let cooked = with(&|_| [&[0; 14][..], &[0x81, 0, 0, 5, 8, 0]].concat());
    check_plain(&read(file(&cooked, 113, usize::MAX).as_slice()).unwrap(), "cooked");
    let ppp = |one: &Frame| {
        let length = (one.length - 12) as u16;
        [&[0; 12][..], &[0x88, 0x64, 0x11, 0, 0, 1], &length.to_be_bytes(), &[0, 0x21]].concat()
    };
    check_plain(&paths(&with(&ppp)), "PPPoE");
    let labelled = with(&|_| [&[0; 12][..], &[0x88, 0x47, 0, 0, 1, 64]].concat());
    let error = read(file(&labelled, ETHERNET, usize::MAX).as_slice()).unwrap_err().to_string();
    assert!(error.contains("in an encapsulation"), "{error}");
    let found = paths(&[all.clone(), labelled].concat());
    assert!(found.notes.iter().any(|note| note.contains("in an encapsulation that is not read")), "{found:?}");
}

/// At the receiver the timestamps' echoes take a round trip, and ACKs hardly any time.
#[test]
fn without_a_handshake_the_place_is_found_by_timestamps_or_named_as_assumed() {
    let text = "rate = '20mbit'\nrtt = '40ms'\nbuffer = '4bdp'\nduration = '4s'\nflow = ['bbr3']\n";
    let place = |tap: Tap, has_timestamps: bool| {
        let mut all = frames(text, tap).split_off(200);
        if !has_timestamps {
            // Two bytes of padding and the option begin behind the TCP header: an unknown kind instead.
            all.iter_mut().for_each(|one| one.bytes[56] = 30);
        }
        let own = paths(&all).paths.remove(0);
        assert!(!own.vantage_from.contains("handshake") || own.vantage_from.starts_with("assumed"), "{own:?}");
        (own.vantage, own.rtt.is_some(), own.vantage_from)
    };
    let echo = "from ACKs to the echo of their timestamps";
    let (vantage, has_rtt, from) = place(Tap::Sender, true);
    assert!((vantage, has_rtt) == (Vantage::Sender, true) && from.ends_with(echo), "{from}");
    let (vantage, has_rtt, from) = place(Tap::Receiver, true);
    assert!((vantage, has_rtt) == (Vantage::Receiver, false) && from.ends_with(echo), "{from}");
    let (vantage, _, from) = place(Tap::Sender, false);
    assert!(vantage == Vantage::Sender && from.starts_with("assumed"), "{from}");
    let (vantage, _, from) = place(Tap::Receiver, false);
    assert!(vantage == Vantage::Receiver && from.contains("at once"), "{from}");
}

/// Two segments in a hundred have each other's times: only the handshake shows that it is the sender.
#[test]
fn a_handshake_outweighs_data_whose_times_are_out_of_order() {
    let mut all = frames(PLAIN, Tap::Sender);
    let data: Vec<usize> = (0..all.len()).filter(|&nth| all[nth].data() > 0).collect();
    for pair in data.windows(2).skip(100).step_by(100) {
        all[pair[0]].t_ns = all[pair[1]].t_ns + 2_000;
    }
    let found = paths(&all);
    check_plain(&found, "swapped times");
    assert_eq!(found.paths[0].vantage_from, "the halves of the handshake");
}

#[test]
fn only_more_records_than_are_kept_are_an_overrun() {
    let mut board = scoreboard::Scoreboard::default();
    board.forget();
    assert!(!board.has_overrun);
    board.overrun();
    assert!(board.has_overrun);
}

#[test]
fn connections_of_one_direction_beside_others_are_noted() {
    let mut all = frames(PLAIN, Tap::Sender);
    let data: Vec<Frame> = all.iter().filter(|one| one.is_of_sender()).cloned().collect();
    let other = data.into_iter().map(|mut one| {
        one.bytes[29] = 9;
        one
    });
    all.extend(other);
    all.sort_by_key(|one| one.t_ns);
    let found = paths(&all);
    assert!(found.notes.iter().any(|note| note.starts_with("1 connection of one direction only")), "{found:?}");
    assert_eq!(found.paths.len(), 1);
}

/// Behind four BDP CUBIC's queue is never empty; BBRv1 empties it every ten seconds.
#[test]
fn base_rtt_and_buffer_are_bounds_where_the_queue_was_never_seen_empty() {
    let path = "rate = '20mbit'\nrtt = '40ms'\nbuffer = '4bdp'\nsample = '0s'\n";
    let from = |more: &str, at_s: u64| {
        let all = frames(&format!("{path}{more}"), Tap::Sender);
        let first_ns = all[0].t_ns + at_s * 1000 * MS;
        let late: Vec<Frame> = all.iter().filter(|one| one.t_ns >= first_ns).cloned().collect();
        paths(&late).paths.remove(0)
    };
    let bounds = |own: &Estimate| (own.rtt.as_ref().unwrap().is_upper_bound, own.buffer_text().contains("at least"));
    let standing = from("duration = '30s'\nflow = ['cubic']\n", 10);
    assert!(standing.rtt.as_ref().unwrap().base_ms > 60.0 && bounds(&standing) == (true, true), "{standing:?}");
    assert!(standing.base_text().starts_with("at most") && standing.unknown[0].contains("within the connection"));
    let toml = standing.toml("x").unwrap();
    assert!(toml.contains("base RTT: at most") && toml.contains("# unknown: base RTT and buffer"), "{toml}");
    let whole = from("duration = '12s'\nflow = ['cubic']\n", 0);
    assert!(!bounds(&whole).0 && is_near(whole.rtt.as_ref().unwrap().base_ms, 40.0, 0.02), "{whole:?}");
    let emptied = from("duration = '14s'\nflow = ['bbr1']\n", 5);
    assert!(!bounds(&emptied).0 && is_near(emptied.rtt.as_ref().unwrap().base_ms, 40.0, 0.02), "{emptied:?}");
}

#[test]
fn one_overflow_at_the_start_is_no_random_loss() {
    for (buffer, loss) in [("1bdp", 0.003), ("0.5bdp", 0.005)] {
        let text = format!(
            "rate = '50mbit'\nrtt = '40ms'\nbuffer = '{buffer}'\nloss = '{}%'\nduration = '10s'\nsample = '0s'\n\
             flow = ['bbr1']\n",
            100.0 * loss
        );
        let own = &paths(&frames(&text, Tap::Sender)).paths[0];
        let random = own.losses_of(LossKind::Random).unwrap();
        assert!(is_near(random.ratio, loss, 0.2), "{own:?}");
        let all: f64 = own.losses.iter().map(|one| one.ratio).sum();
        let bdp: f64 = buffer.trim_end_matches("bdp").parse().unwrap();
        assert!(is_near(own.buffer.as_ref().unwrap().bdp, bdp, 0.1), "{own:?}");
        assert!(own.main_loss() == Some(LossKind::Random) && all <= own.loss_ratio + 1e-9, "{own:?}");
    }
}
