//! The policy that advice supports, class by class, as `bbrlab host policy` reads it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_stats::number::significant;

use super::Answer;
use super::text::headline;
use crate::paths::Kind;
use crate::policy_file;

/// Lines of a rule's conditions; none if no rule can name the class.
pub(super) fn conditions(kind: &Kind) -> Vec<String> {
    let mut lines = Vec::new();
    if !kind.clients.is_empty() {
        lines.push(format!("clients = {:?}", kind.clients));
    }
    if !kind.ports.is_empty() {
        lines.push(format!("ports = {:?}", kind.ports));
    }
    let rtt = kind.rtt_s();
    if kind.clients.is_empty() && !rtt.is_known() {
        let ms = |seconds: f64| significant(1e3 * seconds, 4);
        lines.push(format!("rtt = \">= {}ms, < {}ms\"", ms(rtt.low), ms(rtt.high)));
    }
    lines
}

/// Writes the policy of the answers to [`Prepared::by_class`](super::Prepared::by_class): a rule for each class in which the advice is sure
/// of another algorithm than the one in use. The evidence stands beside each; the other classes keep the default.
pub fn policy(answers: &[Answer], version: &str) -> String {
    let current = answers.first().map_or("cubic", |answer| &answer.advice.candidates[0].flow);
    let mut text = format!(
        "# Made by bbrlab {version} from simulations of {} classes of paths, seed {}. Nothing of it was measured: test it with\n\
         # `bbrlab ab` before you rely on it. The holdouts keep the default, so that the gain can be measured.\n\
         default = {current:?}\n",
        answers.len(),
        answers.first().map_or(1, |answer| answer.seed)
    );
    let mut rules = 0;
    for (nth, answer) in answers.iter().enumerate() {
        let Answer { advice, objective, population, .. } = answer;
        let kind = &population.kinds()[0];
        let name = if kind.name.is_empty() { format!("path {}", nth + 1) } else { kind.name.clone() };
        let _ = writeln!(text, "\n# {name}: {}", headline(advice, *objective));
        if advice.choice == 0 || !advice.is_clear() {
            let _ = writeln!(text, "# {name}: keep the default.");
            continue;
        }
        rules += 1;
        let _ = writeln!(text, "[[rule]]\nname = {name:?}");
        conditions(kind).iter().for_each(|line| text += &format!("{line}\n"));
        text += &policy_file::algorithm(&advice.candidates[advice.choice].flow, true);
    }
    if rules == 0 {
        text += &policy_file::keep_default(current);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;
    use crate::choose::advise::Request;
    use crate::paths::Population;

    fn answers(paths: &str) -> Result<Vec<Answer>> {
        let population = Some(Population::from_toml(paths)?);
        let algorithms = vec!["bbr3".to_owned(), "cubic".to_owned()];
        let request = Request {
            population,
            algorithms,
            draws: Some(8),
            duration: Some("8s".to_owned()),
            seed: 1,
            ..Request::default()
        };
        request.prepare()?.by_class()?.into_iter().map(|one| one.answer(&|| ())).collect()
    }

    #[test]
    fn a_class_gets_a_rule_if_the_advice_is_sure() {
        let lossy = "[[path]]\nname = \"mobile\"\nclients = [\"192.0.2.0/24\"]\nrate = \"20mbit\"\nrtt = \"40ms\"\nloss = \"1%\"\nrivals = \"0\"\n";
        let clean = "[[path]]\nports = [443]\nrate = \"20mbit\"\nrtt = \"20ms..40ms\"\nbuffer = \"1bdp\"\nloss = \"0%\"\nrivals = \"0\"\n";
        let text = policy(&answers(&format!("{lossy}{clean}")).unwrap(), "0");
        let rule =
            "[[rule]]\nname = \"mobile\"\nclients = [\"192.0.2.0/24\"]\nalgorithm = \"bbr3\"\nholdout = \"2%\"\n";
        assert!(text.contains("default = \"cubic\"\n") && text.contains(rule), "{text}");
        assert!(text.contains("# mobile: Use bbr3 instead of cubic"), "{text}");
        let rtt = "ports = [443]\nrtt = \">= 20ms, < 40ms\"\n";
        assert!(text.contains("# path 2: keep the default.\n") || text.contains(rtt), "{text}");
    }

    #[test]
    fn a_class_that_no_rule_can_name_is_refused() {
        let error = answers("[[path]]\nrate = \"20mbit\"\nrtt = \"40ms\"\n").unwrap_err().to_string();
        assert_eq!(error, "path 1: no rule can name it; give clients, ports, or a range of RTTs");
    }
}
