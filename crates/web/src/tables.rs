//! The tables of core and of the scenario language, for the page's controls.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{ALGORITHMS, AlgorithmConfig, State};
use bbrlab_sim::scenario::{FLOW_OPTIONS, KEYS, PRESETS};
use serde_json::{Value, json};

/// Returns all tables.
pub fn all() -> Value {
    let algorithms: Vec<Value> = ALGORITHMS.iter().filter_map(|info| algorithm(info.name)).collect();
    let keys = KEYS.iter().filter(|key| key.is_flag()).map(|key| {
        json!({"name": key.name, "value": key.value, "default": key.default, "help": paragraph(key.help), "example": key.example})
    });
    let options = FLOW_OPTIONS.iter().map(|option| option.name);
    let presets = PRESETS.iter().map(
        |preset| json!({"name": preset.name, "title": preset.title, "source": preset.source, "keys": preset.keys}),
    );
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "algorithms": algorithms,
        "keys": keys.collect::<Vec<Value>>(),
        "options": options.collect::<Vec<&str>>(),
        "presets": presets.collect::<Vec<Value>>(),
        "states": State::ALL.iter().map(|state| state.name()).collect::<Vec<&str>>(),
    })
}

fn algorithm(name: &str) -> Option<Value> {
    let config = AlgorithmConfig::named(name)?;
    let info = config.info();
    let parameters = config.parameters().map(|(spec, value)| {
        let text = |value: u32| spec.unit.text(value).to_string();
        json!({"name": spec.name, "unit": spec.unit.name(), "kind": format!("{:?}", spec.unit), "meaning": spec.meaning,
            "source": spec.source, "value": value, "min": spec.min, "max": spec.max, "text": text(value),
            "min_text": text(spec.min), "max_text": text(spec.max)})
    });
    Some(json!({"name": info.name, "summary": info.summary, "source": info.source, "hue": info.plot.hue,
        "dash": info.plot.dash, "marker": info.plot.marker, "parameters": parameters.collect::<Vec<Value>>()}))
}

/// First paragraph of a help text.
fn paragraph(help: &[&str]) -> String {
    help.iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect::<Vec<&str>>().join(" ")
}
