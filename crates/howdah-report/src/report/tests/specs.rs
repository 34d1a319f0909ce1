//! Every figure of a report is a specification that Vega-Lite can read: marks, encodings, finite data.

use super::synthetic;
use crate::report::Options;
use crate::report::load::Loaded;
use crate::report::page::specs;
use serde_json::Value;

const MARKS: [&str; 6] = ["bar", "line", "point", "rect", "rule", "text"];
const CHANNELS: [&str; 12] = [
    "x",
    "x2",
    "y",
    "y2",
    "yOffset",
    "color",
    "stroke",
    "strokeDash",
    "shape",
    "detail",
    "text",
    "tooltip",
];

fn all() -> Vec<(String, Value)> {
    let of = |loaded: Loaded| specs(&loaded, &Options::default());
    [
        synthetic::small(),
        synthetic::papers(),
        synthetic::testbed("netns"),
    ]
    .into_iter()
    .flat_map(of)
    .collect()
}

/// Fields that a layer's rows have before it reads them, with those that it makes.
fn check_layer(name: &str, layer: &Value, rows: &[Value]) {
    let mark = layer["mark"]["type"].as_str();
    let mark = mark.or_else(|| layer["mark"].as_str());
    let mark = mark.unwrap_or_else(|| panic!("{name}: no mark: {layer}"));
    assert!(MARKS.contains(&mark) || mark == "tick", "{name}: {mark}");
    let made: Vec<&str> = layer["transform"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| step["as"].as_str())
        .collect();
    let encoding = layer["encoding"].as_object();
    let encoding = encoding.unwrap_or_else(|| panic!("{name}: no encoding: {layer}"));
    for (channel, definition) in encoding {
        assert!(CHANNELS.contains(&&**channel), "{name}: {channel}");
        let several = definition.as_array().cloned();
        for one in several.unwrap_or_else(|| vec![definition.clone()]) {
            let Some(field) = one["field"].as_str() else {
                assert!(one.get("value").is_some(), "{name}: {channel}: {one}");
                continue;
            };
            // A colour out of nothing is no colour.
            let domain = one["scale"]["domain"].as_array();
            assert!(
                domain.is_none_or(|all| !all.is_empty()),
                "{name}: {channel}: {one}"
            );
            let known = made.contains(&field) || rows.iter().any(|row| row.get(field).is_some());
            assert!(known, "{name}: no row has {field} of {channel}");
            // Two-dimensional places need a type; a second end has that of the first.
            if ["x", "y", "color", "shape"].contains(&&**channel) {
                assert!(one["type"].is_string(), "{name}: {channel}: {one}");
            }
        }
    }
}

fn finite(name: &str, value: &Value) {
    match value {
        Value::Number(number) => assert!(number.as_f64().is_some_and(f64::is_finite), "{name}"),
        Value::Array(all) => all.iter().for_each(|one| finite(name, one)),
        Value::Null => panic!("{name}: a row has no value where it should have a number"),
        _ => {}
    }
}

#[test]
fn every_figure_is_a_specification() {
    let specs = all();
    assert!(specs.len() > 40, "{}", specs.len());
    let mut kinds = std::collections::BTreeSet::new();
    for (name, spec) in &specs {
        assert!(
            spec["$schema"]
                .as_str()
                .unwrap()
                .ends_with("vega-lite/v6.json")
        );
        let rows = spec["data"]["values"].as_array().unwrap();
        assert!(!rows.is_empty(), "{name}");
        for row in rows {
            for (field, value) in row.as_object().unwrap() {
                finite(&format!("{name}.{field}"), value);
                // Lists that are flattened together are of one length.
                if let (Some(x), Some(y)) = (row["x"].as_array(), row["y"].as_array()) {
                    assert_eq!(x.len(), y.len(), "{name}");
                }
            }
        }
        let unit = spec.get("spec").unwrap_or(spec);
        for layer in unit["layer"].as_array().unwrap() {
            check_layer(name, layer, rows);
            kinds.insert(layer["mark"]["type"].as_str().unwrap_or("rect").to_owned());
        }
        assert!(
            !spec.to_string().contains("var("),
            "{name}: colours of the page"
        );
        assert!(!spec["usermeta"]["columns"].as_array().unwrap().is_empty());
    }
    // One of each was among them.
    for mark in MARKS {
        assert!(kinds.contains(mark), "{mark}: {kinds:?}");
    }
}

#[test]
fn the_same_results_give_the_same_specifications() {
    assert!(all() == all());
}

/// A table stands behind each figure, so that nothing needs a script.
#[test]
fn every_figure_has_its_table() {
    let page = crate::report::page::page(&synthetic::small(), &Options::default());
    for figure in page.split("<figure").skip(1) {
        let (figure, _) = figure.split_once("</figure>").unwrap();
        let (_, table) = figure.split_once("<details class=\"data\" open>").unwrap();
        assert!(table.contains("<tbody>\n<tr>"), "{figure}");
    }
}
