//! What is published of the figures, against what is declared.

use std::fs;
use std::path::Path;

use haltwise_document::{Figure, markdown, schema};

/// Holds `docs/NAME-json.md` and `docs/NAME.schema.json` to the declarations of a verb.
/// `UPDATE_GOLDEN=1 cargo test -p haltwise published` makes them anew.
pub(crate) fn is_published(name: &str, title: &'static str, about: &[&'static str], of: &[Figure]) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let opening = format!(
        "`haltwise {name} --json` prints one object. This page and [the JSON Schema]({name}.schema.json) are made \
         from the program's declarations. A field may be added without a new number; a field that changes its \
         meaning or goes away gets the next number in `schema`."
    );
    let page = markdown::render(&schema::page(title, opening, about, of));
    let schema = serde_json::to_string_pretty(&schema::json_schema(title, of)).unwrap() + "\n";
    for (file, text) in [
        (format!("{name}-json.md"), page),
        (format!("{name}.schema.json"), schema),
    ] {
        let path = docs.join(&file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert!(published == text, "{file} is not as declared");
    }
}

/// The test that a verb's page and schema are as declared.
macro_rules! published {
    ($name:literal, $title:literal, $about:ident, $of:ident) => {
        #[test]
        fn what_is_published_is_what_is_declared() {
            let figures = <$of as haltwise_document::Figures>::FIGURES;
            crate::figures::test::is_published($name, $title, $about, figures);
        }
    };
}

pub(crate) use published;

/// The crate for documents has its own formatter of times, since it knows nothing of ours.
#[test]
fn a_time_has_one_form() {
    use haltwise_core::units::Nanos;
    for exponent in 0..40_u32 {
        let ns = 3_u64.pow(exponent);
        assert_eq!(crate::number::nanos(ns), Nanos(ns).to_string());
    }
}
