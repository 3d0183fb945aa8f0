//! Heat maps and decision trees: tables and lists that need no script and are readable without colour. All text is
//! escaped.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_stats::number::significant;

use super::escape;
use super::model::{Heat, Scale, Tree};

/// Renders a heat map.
pub fn map(heat: &Heat) -> String {
    let unit = if heat.unit.is_empty() { String::new() } else { format!(", {}", heat.unit) };
    let mut out = format!(
        "<div class=\"heat\"><h3>{}{}</h3><div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\
         <table><thead><tr><th scope=\"col\">{} ↓ {} →</th>",
        escape(&heat.title),
        escape(&unit),
        escape(&heat.title),
        escape(&heat.y),
        escape(&heat.x)
    );
    for x in &heat.xs {
        out += &format!("<th scope=\"col\">{}</th>", escape(x));
    }
    out += "</tr></thead><tbody>";
    let largest = heat.cells.iter().flatten().filter(|value| value.is_finite()).fold(0.0_f64, |m, v| m.max(v.abs()));
    for (y, row) in heat.ys.iter().zip(&heat.cells) {
        out += &format!("<tr><th scope=\"row\">{}</th>", escape(y));
        for &value in row {
            out += &cell(value, heat.scale, largest);
        }
        out += "</tr>";
    }
    out + "</tbody></table></div></div>\n"
}

/// Renders a cell: the class gives the side of the scale, the strength the distance.
fn cell(value: f64, scale: Scale, largest: f64) -> String {
    if !value.is_finite() {
        return "<td></td>".to_owned();
    }
    let far = match scale {
        Scale::FromZero | Scale::AroundZero if largest > 0.0 => value / largest,
        Scale::FromZero | Scale::AroundZero => 0.0,
        Scale::AroundOne => value.max(1e-9).log2(),
    };
    let class = if far < 0.0 { "less" } else { "more" };
    let strength = (far.abs().min(1.0) * 100.0).round();
    format!("<td class=\"{class}\" style=\"--far:{strength}%\">{}</td>", significant(value, 3))
}

/// Renders a decision tree as nested lists.
pub fn tree(tree: &Tree) -> String {
    format!("<div class=\"tree\"><ul>{}</ul></div>\n", node(tree, ""))
}

fn node(tree: &Tree, branch: &str) -> String {
    let branch = if branch.is_empty() { String::new() } else { format!("<i>{branch}</i> ") };
    match tree {
        Tree::Ask { question, yes, no } => format!(
            "<li>{branch}<span class=\"ask\">{}</span><ul>{}{}</ul></li>",
            escape(question),
            node(yes, "yes"),
            node(no, "no")
        ),
        Tree::Answer { text, detail } => {
            format!("<li>{branch}<b>{}</b> <small>{}</small></li>", escape(text), escape(detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_as_strong_as_it_is_far_from_the_scales_middle() {
        assert!(cell(2.0, Scale::AroundOne, 9.0).contains("more\" style=\"--far:100%"));
        assert!(cell(0.5, Scale::AroundOne, 9.0).contains("less\" style=\"--far:100%"));
        assert!(cell(3.0, Scale::FromZero, 6.0).contains("more\" style=\"--far:50%\">3<"));
        assert_eq!(cell(f64::NAN, Scale::FromZero, 1.0), "<td></td>");
    }

    #[test]
    fn texts_of_maps_and_trees_are_escaped() {
        let answer = |text: &str| Box::new(Tree::Answer { text: text.into(), detail: "<i>".into() });
        let html = tree(&Tree::Ask { question: "loss < 2 %".into(), yes: answer("<b>"), no: answer("b") });
        assert!(html.contains("loss &lt; 2 %") && html.contains("&lt;b&gt;") && !html.contains("<small><i>"));
    }
}
