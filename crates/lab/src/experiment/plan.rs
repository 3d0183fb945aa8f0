//! Expansion of an experiment's axes into named runs: the product without skipped combinations, and the additional
//! runs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::file::ExperimentFile;
use crate::expect::Axis;
use crate::{Error, Result};
use bbrlab_study::product::{PlannedRun, Product, merged};

/// Maximum runs of an experiment: a guard against a slip in an axis. Ours.
const MAX_RUNS: usize = 10_000;

/// Returns the axes, and all runs in file order: the product first, its last axis varying fastest, then the explicit
/// runs.
pub(super) fn plan(file: &ExperimentFile) -> Result<(Vec<Axis>, Vec<PlannedRun>)> {
    let product = Product::new(&file.scenario, &file.vary)?;
    if product.len() > MAX_RUNS {
        return Err(Error::TooManyRuns { max: MAX_RUNS });
    }
    let axis = |(name, points): &(String, Vec<bbrlab_study::product::Point>)| Axis {
        name: name.clone(),
        values: points.iter().map(|p| (p.label.clone(), p.x)).collect(),
    };
    let axes = product.axes().iter().map(axis).collect();
    let alone = file.vary.is_empty() && file.run.is_empty() && file.population.is_none();
    let mut runs = Vec::new();
    if alone || !file.vary.is_empty() {
        for index in 0..product.len() {
            if !file.skip.iter().any(|skip| product.is_skipped(index, skip)) {
                runs.push(product.run(index)?);
            }
        }
    }
    for explicit in &file.run {
        runs.push(PlannedRun { name: explicit.name.clone(), scenario: merged(&file.scenario, &explicit.set) });
    }
    check_names(&runs)?;
    Ok((axes, runs))
}

fn check_names(runs: &[PlannedRun]) -> Result<()> {
    let mut names: Vec<&str> = runs.iter().map(|r| r.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|w| w[0] == w[1]) {
        Some(twice) => Err(Error::RunTwice(twice[0].to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(axes: &str) -> ExperimentFile {
        let head = "id='X'\ntitle=''\nsource=''\nclaim=''\n[scenario]\nrate='10mbit'\nflow=['{cc},gain=1']\n";
        toml::from_str(&format!("{head}{axes}")).unwrap()
    }

    fn names(axes: &str) -> Vec<String> {
        plan(&file(axes)).unwrap().1.into_iter().map(|r| r.name).collect()
    }

    const CC: &str = "[[vary]]\nname='cc'\nvalues=['bbr1','cubic']\n";
    const LOSS: &str = "[[vary]]\nname='loss'\nkey='loss'\nvalues=['0.1%','2%']\n";

    #[test]
    fn axes_make_a_product_whose_last_axis_runs_fastest() {
        let expected = ["cc=bbr1,loss=0.1%", "cc=bbr1,loss=2%", "cc=cubic,loss=0.1%", "cc=cubic,loss=2%"];
        assert_eq!(names(&format!("{CC}{LOSS}")), expected);
    }

    #[test]
    fn labels_fill_their_places_and_keys_are_set() {
        let (_, runs) = plan(&file(&format!("{CC}{LOSS}"))).unwrap();
        assert_eq!(runs[3].scenario["flow"][0].as_str(), Some("cubic,gain=1"));
        assert_eq!(runs[3].scenario["loss"].as_str(), Some("2%"));
        assert_eq!(runs[3].scenario["rate"].as_str(), Some("10mbit"));
    }

    #[test]
    fn a_label_stands_for_the_number_that_it_begins_with_unless_told() {
        let axes = plan(&file(&format!("{CC}{LOSS}[[vary]]\nname='b'\nvalues=[{{label='big',x=7}}]"))).unwrap().0;
        assert_eq!(axes[1].values, [("0.1%".to_owned(), 0.1), ("2%".to_owned(), 2.0)]);
        assert_eq!(axes[0].values[1].1, 1.0);
        assert_eq!(axes[2].values[0].1, 7.0);
    }

    #[test]
    fn skipped_combinations_are_not_run() {
        let skip = "[[skip]]\ncc='cubic'\nloss=['2%']\n";
        assert_eq!(names(&format!("{CC}{LOSS}{skip}")).len(), 3);
    }

    #[test]
    fn a_place_that_no_axis_fills_is_refused() {
        assert!(plan(&file(LOSS)).unwrap_err().to_string().contains("{cc}"));
    }

    #[test]
    fn explicit_runs_follow_the_product() {
        let run = "[[run]]\nname='alone'\nset={flow=['bbr1']}\n";
        assert_eq!(names(run), ["alone"]);
        assert_eq!(names(&format!("{CC}{run}")), ["cc=bbr1", "cc=cubic", "alone"]);
    }

    #[test]
    fn two_runs_of_one_name_are_refused() {
        let run = "[[run]]\nname='a'\nset={}\n[[run]]\nname='a'\n";
        assert!(plan(&file(run)).unwrap_err().to_string().contains("two runs"));
    }
}
