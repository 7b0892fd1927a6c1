//! No document of a capture contradicts another, on every capture that these tests hold.

use std::path::Path;

use super::home;
use crate::documents::contradictions;

#[test]
fn no_document_contradicts_another() {
    let mut wrong = Vec::new();
    for folder in ["captures", "recorded"] {
        let captures = std::fs::read_dir(home().join(folder)).unwrap();
        for capture in captures.map(|entry| entry.unwrap().path()) {
            let found = contradictions(Path::new(env!("CARGO_BIN_EXE_haltwise")), &capture);
            let named = found
                .into_iter()
                .map(|text| format!("{}: {text}", capture.display()));
            wrong.extend(named);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
