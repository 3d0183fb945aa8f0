//! The undo of a drain that was killed.
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
