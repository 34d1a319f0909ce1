//! As much of JSON Schema as docs/howdah-events.schema.json uses. A keyword that is not known here fails.

use serde_json::Value;

/// Why `value` is not what the schema says; empty if it is.
pub(crate) fn violations(root: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(root, root, value, "$", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$schema" | "$id" | "title" | "$defs" => {}
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(root, root.pointer(pointer).unwrap(), value, at, found);
            }
            "oneOf" => {
                let parts = rule.as_array().unwrap().iter().map(|part| {
                    let mut inner = Vec::new();
                    check(root, part, value, at, &mut inner);
                    inner
                });
                let results: Vec<_> = parts.collect();
                if results.iter().filter(|inner| inner.is_empty()).count() != 1 {
                    found.push(format!("{at}: not exactly one of: {results:?}"));
                }
            }
            "const" => {
                if value != rule {
                    found.push(format!("{at}: not {rule}"));
                }
            }
            "enum" => {
                if !rule.as_array().unwrap().contains(value) {
                    found.push(format!("{at}: {value} is none of {rule}"));
                }
            }
            "type" => {
                let types = match rule {
                    Value::Array(types) => types.clone(),
                    one => vec![one.clone()],
                };
                if !types.iter().any(|one| is(one.as_str().unwrap(), value)) {
                    found.push(format!("{at}: {value} is no {rule}"));
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|v| v < rule.as_f64().unwrap()) {
                    found.push(format!("{at}: {value} is below {rule}"));
                }
            }
            "maximum" => {
                if value.as_f64().is_some_and(|v| v > rule.as_f64().unwrap()) {
                    found.push(format!("{at}: {value} is above {rule}"));
                }
            }
            "pattern" => {
                // Those that are used: a hash, and a time.
                let text = value.as_str().unwrap_or_default();
                let form: String = text
                    .chars()
                    .map(|c| if c.is_ascii_digit() { '9' } else { c })
                    .collect();
                let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                let fits = match rule.as_str().unwrap() {
                    "^[0-9a-f]{64}$" => text.len() == 64 && text.bytes().all(is_hex),
                    _ => form == "9999-99-99T99:99:99.999Z",
                };
                if !fits {
                    found.push(format!("{at}: {text} is not like {rule}"));
                }
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        found.push(format!("{at}: {name} is missing"));
                    }
                }
            }
            "properties" => {
                for (name, part) in rule.as_object().unwrap() {
                    if let Some(inner) = value.get(name) {
                        check(root, part, inner, &format!("{at}.{name}"), found);
                    }
                }
            }
            "items" => {
                for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, inner, &format!("{at}[{index}]"), found);
                }
            }
            other => panic!("the schema uses {other}, which this test does not know"),
        }
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("no such type: {other}"),
    }
}
