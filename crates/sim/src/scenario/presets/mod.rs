//! Paths and workloads by name: typical ones, with the sources of their values. A preset sets keys of a scenario; keys that are
//! given beside it replace its own.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::LazyLock;

use super::keys::Scenario;
use super::text::{TextError, nearest};

/// A path or a workload by name.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Name: `--path NAME`, `--workload NAME`.
    pub name: &'static str,
    /// One line on what it is.
    pub title: String,
    /// Sources of its values; what no source gives is "ours".
    pub source: String,
    /// Conditions under which it is meant.
    pub valid: String,
    /// Its keys with their texts; a list's key once for each entry.
    pub keys: Vec<(String, String)>,
}

const FILES: [(&str, &str); 8] = [
    ("starlink", include_str!("starlink.toml")),
    ("geo", include_str!("geo.toml")),
    ("cable", include_str!("cable.toml")),
    ("cable-pie", include_str!("cable-pie.toml")),
    ("wifi", include_str!("wifi.toml")),
    ("lte", include_str!("lte.toml")),
    ("datacenter", include_str!("datacenter.toml")),
    ("policed", include_str!("policed.toml")),
];

const WORKLOAD_FILES: [(&str, &str); 2] =
    [("rrul", include_str!("workloads/rrul.toml")), ("rpm", include_str!("workloads/rpm.toml"))];

/// All paths. A file that is not one is left out; a test finds it.
pub static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| read(&FILES));

/// All workloads. A file that is not one is left out; a test finds it.
pub static WORKLOADS: LazyLock<Vec<Preset>> = LazyLock::new(|| read(&WORKLOAD_FILES));

fn read(files: &[(&'static str, &str)]) -> Vec<Preset> {
    files.iter().filter_map(|(name, text)| Preset::parse(name, text)).collect()
}

impl Preset {
    fn parse(name: &'static str, text: &str) -> Option<Self> {
        let mut table: toml::Table = text.parse().ok()?;
        let mut take = |key: &str| match table.remove(key) {
            Some(toml::Value::String(text)) => Some(text),
            _ => None,
        };
        let (title, source, valid) = (take("title")?, take("source")?, take("valid")?);
        let texts = |value: toml::Value| match value {
            toml::Value::String(text) => vec![text],
            toml::Value::Array(all) => all.iter().filter_map(|one| Some(one.as_str()?.to_owned())).collect(),
            _ => Vec::new(),
        };
        let keys =
            table.into_iter().flat_map(|(key, value)| texts(value).into_iter().map(move |text| (key.clone(), text)));
        Some(Self { name, title, source, valid, keys: keys.collect() })
    }

    /// Finds a path by its name.
    pub fn named(name: &str) -> Result<&'static Self, TextError> {
        find(&PRESETS, "path", name)
    }

    /// Finds a workload by its name.
    pub fn workload(name: &str) -> Result<&'static Self, TextError> {
        find(&WORKLOADS, "workload", name)
    }

    /// True for a workload.
    fn is_workload(&self) -> bool {
        WORKLOADS.iter().any(|workload| std::ptr::eq(workload, self))
    }

    /// Sets its keys. A workload's flows replace the scenario's.
    pub(super) fn apply(&self, scenario: &mut Scenario) -> Result<(), TextError> {
        if self.is_workload() {
            scenario.flow.clear();
        }
        for (key, text) in &self.keys {
            scenario.set(key, text).map_err(|error| TextError(format!("{key}: {}", error.message)))?;
        }
        let name = Some(self.name.to_owned());
        match self.is_workload() {
            true => scenario.workload = name,
            false => scenario.path = name,
        }
        Ok(())
    }
}

fn find(presets: &'static [Preset], kind: &str, name: &str) -> Result<&'static Preset, TextError> {
    presets.iter().find(|preset| preset.name == name).ok_or_else(|| {
        let names: Vec<&str> = presets.iter().map(|preset| preset.name).collect();
        let near = nearest(name, names.iter().copied()).map_or(String::new(), |near| format!("did you mean {near}? "));
        TextError(format!("no {kind} {name:?}; {near}there are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{KeyGroup, ScenarioFile, key};

    #[test]
    fn every_preset_is_read_and_sets_keys_of_a_path_alone() {
        assert_eq!(PRESETS.len(), FILES.len());
        for preset in PRESETS.iter() {
            assert!(
                preset.source.contains("urs:") || preset.source.contains("urs "),
                "{}: what is ours is said",
                preset.name
            );
            for (name, _) in &preset.keys {
                assert!(
                    matches!(key(name).unwrap().group, KeyGroup::Path | KeyGroup::Condition),
                    "{}: {name}",
                    preset.name
                );
            }
            let mut scenario = Scenario::default();
            preset.apply(&mut scenario).unwrap();
            ScenarioFile::from(scenario).resolve(&|_| unreachable!("no preset has a trace")).unwrap();
        }
    }

    #[test]
    fn every_workload_is_read_and_sets_flows_and_a_probe_alone() {
        assert_eq!(WORKLOADS.len(), WORKLOAD_FILES.len());
        for workload in WORKLOADS.iter() {
            assert!(workload.keys.iter().all(|(name, _)| name == "flow" || name == "probe"), "{}", workload.name);
            let mut scenario = Scenario::default();
            scenario.set("flow", "reno").unwrap();
            workload.apply(&mut scenario).unwrap();
            assert!(scenario.flow.iter().all(|flow| flow.cc != "reno") && scenario.path.is_none());
            ScenarioFile::from(scenario).resolve(&|_| unreachable!("no workload has a trace")).unwrap();
        }
    }

    #[test]
    fn flows_beside_a_workload_replace_its_own_in_files_and_flags_alike() {
        let file = "workload = \"rrul\"\nflow = [\"bbr3*4\"]\n";
        let own = ScenarioFile::from_toml(file, "lab.toml").unwrap().scenario;
        let mut flags = ScenarioFile::default();
        flags.set("workload", "rrul").unwrap();
        flags.set_flows(&["bbr3*4".to_owned()]).unwrap();
        assert_eq!(own, flags.scenario);
        assert_eq!((own.flow.len(), own.probe.is_some()), (1, true));
        let whole = serde_json::to_string(&own.filled()).unwrap();
        assert_eq!(ScenarioFile::from_json(&whole, "lab.json").unwrap().scenario, own.filled());
    }

    #[test]
    fn keys_beside_a_preset_replace_its_own_in_files_and_flags_alike() {
        let file = |text: &str| ScenarioFile::from_toml(text, "lab.toml").unwrap().scenario;
        let own = file("path = \"geo\"\nbuffer = \"10p\"\nflow = [\"cubic\"]\n");
        let mut flags = Scenario::default();
        for (key, text) in [("path", "geo"), ("buffer", "10p"), ("flow", "cubic")] {
            flags.set(key, text).unwrap();
        }
        assert_eq!(own, flags);
        assert_eq!((own.rtt.to_string().as_str(), own.path.as_deref()), ("600ms", Some("geo")));
        let json = "{\"path\": \"geo\", \"buffer\": \"10p\", \"flow\": [\"cubic\"]}";
        assert_eq!(ScenarioFile::from_json(json, "lab.json").unwrap().scenario, own);
        // A result holds every key, and repeats whatever the preset becomes.
        let whole = serde_json::to_string(&own.filled()).unwrap();
        assert_eq!(ScenarioFile::from_json(&whole, "lab.json").unwrap().scenario, own.filled());
        assert_eq!(file("path = \"geo\"\ntrace = \"x\"\n").rate, None, "a trace replaces the rate");
    }

    #[test]
    fn an_unknown_path_is_refused_with_the_nearest_name() {
        let error =
            ScenarioFile::from_toml("rate = \"5mbit\"\npath = \"starling\"\n", "lab.toml").unwrap_err().to_string();
        assert!(error.starts_with("lab.toml:2: path: no path \"starling\"; did you mean starlink?"), "{error}");
    }
}
