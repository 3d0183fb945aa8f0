//! Records of an A/B test that ends under traffic.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::{Path, PathBuf};

use bbrlab_host::ab::{Callbacks, Direction, EndCondition, Run, TestRequest};
use bbrlab_study::ab::guard::Limits;
use bbrlab_study::ab::{AssignmentUnit, PrefixLengths, Shares, record};
use nix::libc::linger;

use super::*;

/// Length of the test.
const SECONDS: f64 = 1.0;

fn request(cgroup: &Path, out: &Path) -> TestRequest {
    TestRequest {
        rule: None,
        algorithms: vec!["reno".to_owned(), "reno".to_owned()],
        shares: Shares(vec![5_000, 5_000]),
        cgroup: Some(cgroup.to_owned()),
        ports: Vec::new(),
        prefixes: Vec::new(),
        direction: Direction::In,
        by: AssignmentUnit::Connection,
        slot: Duration::from_secs(600),
        keep: PrefixLengths::default(),
        key: None,
        out: out.to_owned(),
        until: EndCondition::Seconds(SECONDS),
        every: Duration::from_secs(60),
        disk: 1 << 30,
        limits: Limits::default(),
        host: None,
        is_shared: true,
    }
}

/// Opens and resets connections until told to stop.
fn churn(stop: &AtomicBool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    while !stop.load(Ordering::SeqCst) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        setsockopt(&client, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 }).unwrap();
        drop((client, listener.accept().unwrap()));
    }
}

/// Connections that were recorded.
fn recorded(out: &Path) -> BTreeSet<u64> {
    let mut ids = BTreeSet::new();
    for file in fs::read_dir(out).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|end| end == "parquet") {
            let file = fs::File::open(file).unwrap();
            record::read(file, record::FIELDS, |rows| ids.extend(rows.iter().map(|row| row.id))).unwrap();
        }
    }
    ids
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn connections_that_end_with_the_test_are_recorded() {
    static ENDS: AtomicBool = AtomicBool::new(false);
    if !inside("ab::connections_that_end_with_the_test_are_recorded") {
        return;
    }
    let root = cgroup(None).unwrap();
    let group = root.join(own_name("last"));
    fs::create_dir(&group).unwrap();
    let enter = |group: &Path| fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    enter(&group);
    let out = PathBuf::from("/run/test");
    // Stands for every program on the hook, this one among them.
    let acting = |_: &Path| Ok((0..1 << 20).collect());
    let callbacks = Callbacks { trial, acting, tell: |line| println!("{line}"), ends: &ENDS };
    let stop = AtomicBool::new(false);
    let test = thread::scope(|scope| {
        let run = Run::start(&request(&group, &out), callbacks).unwrap();
        (0..4).for_each(|_| drop(scope.spawn(|| churn(&stop))));
        let test = run.run().unwrap();
        stop.store(true, Ordering::SeqCst);
        test
    });
    enter(&root);
    fs::remove_dir(group).unwrap();
    let lost = test.counts.ring_lost + test.counts.disk_lost + test.counts.no_memory;
    let established: u64 = test.counts.arms.iter().map(|arm| arm.established).sum();
    println!("{established} connections");
    assert_eq!((recorded(&out).len() as u64, lost), (established, 0));
}
