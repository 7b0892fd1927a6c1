//! Results that nobody measured: whatever a file of `--from` holds, the page is made, and fits.

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::*;

const RESULTS: [&str; 3] = [
    include_str!("../../../tests/golden/prove/better.json"),
    include_str!("../../../tests/golden/prove/noisy.json"),
    include_str!("../../../tests/golden/prove/same.json"),
];

/// Every place of a value that holds nothing else, as a path.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{path}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (key, item) in fields {
                leaves(item, &format!("{path}/{key}"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn whatever_a_result_holds_its_page_is_made_and_fits() {
    let strange = [
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!(-1e-300),
        json!(""),
        json!("\u{1b}[2J\u{202e}long ".repeat(40)),
        json!(null),
        json!(true),
        json!([]),
    ];
    let mut made = 0;
    for text in RESULTS {
        let result: Value = serde_json::from_str(text).unwrap();
        let mut paths = Vec::new();
        leaves(&result, "", &mut paths);
        // Of those that are many and alike, the first does.
        paths.retain(|path| !path.contains(|c: char| ('1'..='9').contains(&c)));
        for path in paths {
            for strange in &strange {
                let mut result = result.clone();
                *result.pointer_mut(&path).unwrap() = strange.clone();
                let Ok(view) = serde_json::from_value::<Proof>(result) else {
                    continue;
                };
                made += 1;
                for width in [60, 80] {
                    let page = render(
                        &view,
                        usize::MAX,
                        Style {
                            width,
                            colour: false,
                        },
                    );
                    let widest = page.lines().map(UnicodeWidthStr::width).max();
                    assert!(widest <= Some(width), "{path} {strange}: {page}");
                    let steers = |c: char| c == '\u{1b}' || c == '\u{202e}';
                    assert!(!page.contains(steers), "{path} {strange}");
                }
            }
        }
    }
    assert!(made > 300, "{made}");
}
