//! The search over parameters, on a small population.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::scenario::FlowSpec;
use bbrlab_study::choose::objective::Objective;
use bbrlab_study::choose::tune::{Budget, Tuned, USUAL, setting_at, tune};
use bbrlab_study::paths::{Kind, KindSpec, Population};

fn lossy() -> Population {
    let spec = KindSpec {
        rate: "2mbit..4mbit".to_owned(),
        rtt: "20ms..40ms".to_owned(),
        buffer: "1bdp".to_owned(),
        loss: "4%".to_owned(),
        rivals: "0".to_owned(),
        ..KindSpec::unknown()
    };
    Population::of(Kind::parse(&spec).unwrap())
}

const SMALL: Budget = Budget { settings: 6, generations: 2, paths: 2, held_out: 4 };

/// Large enough that the result does not depend on chance.
const LARGER: Budget = Budget { settings: 12, generations: 5, paths: 4, held_out: 6 };

fn tuned(budget: Budget) -> Tuned {
    let names = ["loss_thresh".to_owned(), "beta".to_owned()];
    tune(&lossy(), "bbr3", &names, Objective::named("balanced").unwrap(), budget, 3, &|| ()).unwrap()
}

#[test]
fn a_search_on_a_lossy_path_finds_a_setting_that_minds_loss_less_than_the_default() {
    let tuned = tuned(LARGER);
    assert!(tuned.score > tuned.against[0].score, "{tuned:?}");
    let loss = tuned.parameters.iter().find(|(name, _)| name == "loss_thresh").unwrap();
    assert!(loss.1.parse::<f64>().unwrap() > 0.02, "{loss:?}");
    FlowSpec::of("bbr3").unwrap();
    tuned.flow.parse::<FlowSpec>().unwrap();
}

#[test]
fn the_same_search_ends_the_same() {
    assert_eq!(format!("{:?}", tuned(SMALL)), format!("{:?}", tuned(SMALL)));
}

#[test]
fn every_value_that_a_search_may_take_is_one_that_the_flow_language_takes() {
    for (cc, _) in USUAL {
        for place in [0.0, 0.1, 0.5, 0.77, 1.0] {
            let flow = setting_at(cc, place).unwrap();
            flow.parse::<FlowSpec>().unwrap_or_else(|error| panic!("{flow}: {error}"));
        }
    }
}
