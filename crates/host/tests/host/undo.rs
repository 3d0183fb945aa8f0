//! The undo of a drain that was killed, and of overlapping defaults.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_drain_killed_at_any_step_leaves_no_connection_behind() {
    if !inside("undo::a_drain_killed_at_any_step_leaves_no_connection_behind") {
        return;
    }
    let (name, before, default) = (own_name("g"), controls(), kernel::default().unwrap());
    for step in 1.. {
        with(|host| host.load(&wanted("bbr1", &name, true))).unwrap();
        let connections = connect(&TcpListener::bind("127.0.0.1:0").unwrap(), 3);
        let has_ended = child_ends("drain", &name, step);
        with(|host| host.recover_if_idle()).unwrap();
        if step == 1 {
            // Killed before it recorded its intent.
            with(|host| host.unload(&name, None)).unwrap();
        }
        let is_moved = |stream: &TcpStream| used(stream) == default;
        assert!(connections.iter().all(|(sender, receiver)| is_moved(sender) && is_moved(receiver)), "step {step}");
        assert_nothing_left(&name, &before, &default);
        if has_ended {
            assert!(step > 6, "{step}");
            break;
        }
    }
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn the_original_default_returns_whichever_of_two_is_unloaded_first() {
    if !inside("undo::the_original_default_returns_whichever_of_two_is_unloaded_first") {
        return;
    }
    let (before, default) = (controls(), kernel::default().unwrap());
    // Neither of the fallbacks, CUBIC and Reno.
    let original = own_name("h");
    with(|host| host.load(&wanted("reno", &original, false))).unwrap();
    kernel::set_default(&original).unwrap();
    let names = ["i", "j"].map(own_name);
    for order in [[0, 1], [1, 0]] {
        names.iter().for_each(|name| with(|host| host.load(&wanted("bbr1", name, true))).unwrap());
        for nth in order {
            with(|host| host.unload(&names[nth], None)).unwrap();
        }
        assert_eq!(kernel::default().unwrap(), original, "{order:?}");
    }
    kernel::set_default(&default).unwrap();
    with(|host| host.unload(&original, None)).unwrap();
    assert_nothing_left(&original, &before, &default);
}
