//! Numbers of a JSON document, wherever they are.

use serde_json::Value;

/// Every number below a value: its path (`/vms/0/halts`), field name and value.
pub(crate) fn numbers(value: &Value) -> Vec<(String, &str, f64)> {
    let mut found = Vec::new();
    walk(value, "", "", &mut found);
    found
}

fn walk<'a>(
    value: &'a Value,
    place: &str,
    field: &'a str,
    found: &mut Vec<(String, &'a str, f64)>,
) {
    match value {
        Value::Number(number) => found.push((place.to_owned(), field, number.as_f64().unwrap())),
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                walk(item, &format!("{place}/{n}"), field, found);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                walk(item, &format!("{place}/{name}"), name, found);
            }
        }
        _ => {}
    }
}
